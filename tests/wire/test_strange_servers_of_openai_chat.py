"""Servers of the openai-chat wire that answer in an unusual way, and are understood."""

import gzip
import json
from functools import partial
from typing import Any

import pytest

from melete.core.message import Thinking
from melete.core.model import ContentFilterError, ContextOverflowError, MalformedReplyError, ModelError, RateLimitError
from melete.models.openai_chat import open_model
from tests.wire.adapters import replied
from tests.wire.raw import head

WHOLE = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}).encode()


def event(**fields: Any) -> bytes:
    """One chunk as an event."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def said(text: str, finish: str | None = None) -> bytes:
    """A piece of text as an event."""
    return event(choices=[{"delta": {"content": text}, "finish_reason": finish}])


reply_to = partial(replied, open_model)


@pytest.mark.parametrize(
    "pieces",
    [
        (head("application/json"), WHOLE),
        (head("text/plain"), b"\r\n ", WHOLE),
        (head("application/json", content_encoding="gzip"), gzip.compress(WHOLE)),
        (head(content_encoding="gzip"), gzip.compress(said("Hi", "stop"))),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", head(), said("Hi", "stop")),
        (head(), b"\xef\xbb\xbf", said("Hi", "stop")),
        (head("application/octet-stream"), b": hello\n\n", said("H"), said("i", "stop")),
        (head(), said("Hi"), b"data: [DONE]\n\n"),
        (head(), said("Hi", "stop"), b"data: {broken"),
        (head(), b"data: null\n\n", event(choices=[]), said("Hi", "stop").strip()),
    ],
)
def test_an_unusual_answer_is_read(pieces: tuple[bytes, ...]) -> None:
    reply = reply_to(*pieces)
    assert (reply.message.text, reply.stop) == ("Hi", "end")


def test_a_finished_stream_is_not_waited_for() -> None:
    assert reply_to(head(), said("Hi", "stop"), close=False, tail=0.05).message.text == "Hi"


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ((head("application/json"), b'{"error":{"message":"maximum context length is 9"}}'), ContextOverflowError),
        ((head(), said("Hi"), event(error={"code": 429, "message": "slow down"})), RateLimitError),
        (
            (head(), said("Hi"), event(choices=[{"delta": {}, "finish_reason": "error", "error": "overloaded"}])),
            ModelError,
        ),
        ((head(), b'event: error\ndata: {"message":"rate limit reached"}\n\n'), RateLimitError),
        ((head(), event(choices=[{"delta": {}, "finish_reason": "content_filter"}])), ContentFilterError),
        ((head("application/json"), b"[1]"), MalformedReplyError),
        ((head("application/json"), b'{"choices":[{"mess'), MalformedReplyError),
        ((head(), b"data: it works!\n\n"), MalformedReplyError),
        ((head(), b'data: {"choices":' + b"[" * 9000 + b"]" * 9000 + b"}\n\n"), MalformedReplyError),
        ((head("text/plain"), b"<!DOCTYPE html><title>Hello</title>"), MalformedReplyError),
        ((head("application/json", content_encoding="gzip"), b"not packed"), ModelError),
    ],
)
def test_an_error_under_status_200_is_an_error(pieces: tuple[bytes, ...], kind: type[ModelError]) -> None:
    with pytest.raises(kind):
        reply_to(*pieces)


SNAPSHOTS = (
    "The",
    "The user",
    "The user wants",
    "The user wants a list",
    "The user wants a list of files",
    "Done",
    "Done.",
)


def test_a_server_that_says_everything_again_in_each_piece_is_understood() -> None:
    thought = [event(choices=[{"delta": {"reasoning_details": [{"type": "t", "text": s}]}}]) for s in SNAPSHOTS[:5]]
    reply = reply_to(head(), *thought, *map(said, SNAPSHOTS[:5]), said("", "stop"))
    assert reply.message.text == SNAPSHOTS[4]
    assert [p.text for p in reply.message.parts if isinstance(p, Thinking)] == [SNAPSHOTS[4]]
    assert reply.message.wire is not None
    body = json.loads(bytes(reply.message.wire.body))
    assert (body["content"], body["reasoning_details"][0]["text"]) == (SNAPSHOTS[4], SNAPSHOTS[4])


@pytest.mark.parametrize(
    "pieces",
    [
        ("a", "and", "and then"),
        ("-" * 12, "-" * 13, "-" * 14, "-" * 15),
        ("no no no no ", "no no no no no", "yes"),
        (SNAPSHOTS[2], SNAPSHOTS[3], "!"),
    ],
)
def test_pieces_that_only_look_like_repetitions_are_all_kept(pieces: tuple[str, ...]) -> None:
    assert reply_to(head(), *map(said, pieces), said("", "stop")).message.text == "".join(pieces)


@pytest.mark.parametrize(("total", "output"), [(135, 103), (41, 9)])
def test_reasoning_that_is_counted_beside_the_completion_is_output_as_well(total: int, output: int) -> None:
    counts = {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": total}
    usage = event(
        choices=[], usage={**counts, "completion_tokens_details": {"reasoning_tokens": 94 if total > 41 else 4}}
    )
    assert reply_to(head(), said("Hi", "stop"), usage).usage.output == output
