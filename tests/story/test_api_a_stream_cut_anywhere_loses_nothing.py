"""A stream of events may be cut at any byte, or hardly be read: whoever goes on with the last whole id misses nothing."""

import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from benchmarks.cuts import GO, Stream, begin, last_id, server

from melete.testing import ScriptedModel
from tests.playing import play, wait_until
from tests.served import events_of, served

CUTS = 60
MELETE = (sys.executable, "-m", "melete")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("person")


@pytest.fixture(scope="module")
def stream(home: Path) -> Iterator[Stream]:
    """A run that waits, read whole, while three others read it cut again and again."""
    with server(MELETE, home) as (port, _), ThreadPoolExecutor() as pool:
        made = Stream(port, begin(port))
        live = [pool.submit(made.cut_again_and_again, Random(seed), longest=4_000) for seed in range(3)]
        made.read_whole()
        made.live = [one.result()[0] for one in live]
        yield made


def test_it_is_a_stream_of_many_kinds(stream: Stream) -> None:
    for kind in (b"thinking.delta", b"text.delta", b"call.delta", b"reply", b"tool.started", b"tool.ended", b"spent"):
        assert b"event: " + kind in stream.whole


def test_readers_that_are_cut_while_it_happens_read_the_same(stream: Stream) -> None:
    assert [read == stream.whole for read in stream.live] == [True] * 3


def test_a_reader_that_is_cut_anywhere_and_goes_on_reads_the_same(stream: Stream) -> None:
    chance = Random(7)
    size = len(stream.whole)
    places = {0, 1, size - 1, size, *(chance.randrange(size + 1) for _ in range(CUTS - 4))}
    assert [found for at in sorted(places) if (found := stream.wrong_when_cut(at))] == []


def test_after_its_end_the_deltas_are_there_for_a_while_and_the_facts_for_ever(stream: Stream, home: Path) -> None:
    (home / GO).touch()
    with stream.opened(last_id(stream.whole)) as answer:
        rest = answer.read()
    assert rest.rpartition(b"\n\nid: ")[2].partition(b"\n")[2].startswith(b"event: run.ended")
    with stream.opened() as answer:
        assert answer.read() == stream.whole + rest
    third = len(stream.whole) // 3
    kept = stream.whole.rfind(b"\n\n", 0, third) + 2
    with stream.opened(last_id(stream.whole[:kept])) as answer:
        assert answer.read() == stream.whole[kept:] + rest


def test_a_reader_that_reads_nothing_for_long_has_every_fact_once(tmp_path: Path) -> None:
    with ScriptedModel(play) as model, served(tmp_path / "person", model) as here:
        begun = here.run("many 30000")
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", here.port))
            head = f"GET /v1/runs/{begun['id']}/events HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
            slow.sendall(head.encode())
            wait_until(lambda: here.status(begun["id"])["status"] == "done")
            again = here.run("say Meanwhile.", session=begun["session"])  # the deltas of the first are gone now
            here.ended(again["id"])
            time.sleep(0.1)
            slow.settimeout(30)
            data = b""
            while piece := slow.recv(1 << 20):
                data += piece
    body = unchunked(data.partition(b"\r\n\r\n")[2])
    found = list(events_of(iter(body.decode().split("\n"))))
    places = [tuple(map(int, event.id.split("."))) for event in found]
    assert places == sorted(set(places))
    assert {event.data["run"] for event in found} == {begun["id"]}
    facts = [event for event in found if event.id.endswith(".0")]
    assert [int(event.id[:-2]) for event in facts] == list(range(2, 2 + len(facts)))
    assert (facts[0].event, facts[-1].event) == ("run.started", "run.ended")
    assert sum(event.event == "text.delta" for event in found) < 30_000  # it was too slow for all of them


def unchunked(data: bytes) -> bytes:
    """A body without the framing of its chunks."""
    whole = b""
    while data:
        size, _, rest = data.partition(b"\r\n")
        whole += rest[: int(size, 16)]
        data = rest[int(size, 16) + 2 :]
    return whole
