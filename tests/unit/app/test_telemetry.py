"""Where traces go, and what becomes of runs when they cannot."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.talking import environ, talk
from tests.unit.app.collector import TraceCollector

from melete.app.settings import Loaded, load
from melete.app.spans import Spans
from melete.app.telemetry import Collector, collector, tracing
from melete.core.errors import ConfigError
from melete.core.event import Notice, RunEnded, RunStarted
from melete.core.session import SessionRef
from melete.testing import Say, ScriptedModel

AGENT = "invoke_agent melete"
BASE, WHOLE = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


def loaded(setting: str = "", **variables: str) -> Loaded:
    return load({"telemetry.otlp_endpoint": setting or None}, environ={"HOME": "/nowhere", **variables})


def listen(spans: Spans, session: str) -> None:
    """One run, from its beginning to its end."""
    spans.listen(SessionRef(id=session), RunStarted(run="r"))
    spans.listen(SessionRef(id=session), RunEnded(run="r", stop="done"))


def to(endpoint: str, **headers: str) -> Spans:
    return Spans(Collector(endpoint=endpoint, where="here", headers=headers), redact=str)


@pytest.mark.parametrize(
    ("setting", "variables", "endpoint"),
    [
        ("http://c:4318", {}, "http://c:4318/v1/traces"),
        ("http://c:4318/", {}, "http://c:4318/v1/traces"),
        ("https://c/otlp/v1/traces", {}, "https://c/otlp/v1/traces"),
        ("", {BASE: "http://v:4318"}, "http://v:4318/v1/traces"),
        ("http://c:4318", {BASE: "http://v:4318"}, "http://v:4318/v1/traces"),
        ("http://c:4318", {BASE: "http://v:4318", WHOLE: "http://w/here"}, "http://w/here"),
        ("http://[::1]:4318", {}, "http://[::1]:4318/v1/traces"),
    ],
)
def test_variables_stand_before_settings(setting: str, variables: Mapping[str, str], endpoint: str) -> None:
    found = collector(loaded(setting, **variables))
    assert found
    assert found.endpoint == endpoint
    assert not found.content


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {BASE: " "},
        {BASE: "http://v", "OTEL_SDK_DISABLED": "TRUE"},
        {BASE: "http://v", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_sent_unless_a_collector_is_named(variables: Mapping[str, str]) -> None:
    assert collector(loaded("", **variables)) is None


@pytest.mark.parametrize("wrong", ["collector:4317", "ftp://c", "http://", "http://[::1", "http://c:99999", "c"])
def test_what_is_no_address_is_named_by_where_it_stands(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"telemetry\.otlp_endpoint is not the address"):
        collector(loaded(wrong))
    with pytest.raises(ConfigError, match=f"{BASE} is not the address"):
        collector(loaded("", **{BASE: wrong}))


def test_grpc_is_not_spoken_and_that_is_said() -> None:
    with pytest.raises(ConfigError, match=r"over HTTP only.*4318"):
        collector(loaded("http://c:4317", OTEL_EXPORTER_OTLP_PROTOCOL="grpc"))
    assert collector(loaded("http://c:4318", OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf"))


def test_headers_and_the_name_of_the_service_are_read_from_variables() -> None:
    found = collector(
        loaded("http://c", OTEL_EXPORTER_OTLP_HEADERS="Api-Key=a%20b , x=1=2,nonsense,", OTEL_SERVICE_NAME="mine")
    )
    assert found
    assert found.headers == {"api-key": "a b", "x": "1=2"}
    assert found.service == "mine"


def test_a_key_in_the_homes_env_file_opens_the_collector(tmp_path: Path, own_home: Path) -> None:
    warned: list[str] = []

    async def main() -> None:
        async with talk(model, tmp_path / "here") as one, tracing(one.app, warn=warned.append):
            await one.say("hi")

    with TraceCollector() as found, ScriptedModel([Say("ho")]) as model:
        home = own_home / ".melete"
        home.mkdir()
        (home / ".env").write_text(
            f"{BASE}={found.url}\nOTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20abc\nOTEL_SERVICE_NAME=team-a\n"
        )
        asyncio.run(main())
    assert not warned
    assert found.headers[0]["authorization"] == "Bearer abc"
    assert found.one(AGENT).resource["service.name"] == "team-a"


def test_content_goes_along_only_where_the_setting_says_so(tmp_path: Path, own_home: Path) -> None:
    async def main() -> None:
        settings = {"telemetry.otlp_endpoint": found.url, "telemetry.content": True}
        async with talk(model, tmp_path / "here", settings=settings) as one, tracing(one.app, warn=print):
            await one.say("a question")

    with TraceCollector() as found, ScriptedModel([Say("an answer")]) as model:
        asyncio.run(main())
    assert "a question" in found.one(AGENT).about["gen_ai.input.messages"]
    assert "an answer" in found.one("chat scripted").about["gen_ai.output.messages"]


def test_without_the_extra_a_line_says_how_to_get_it(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []

    async def main() -> str:
        settings = {"telemetry.otlp_endpoint": "http://127.0.0.1:9"}
        async with talk(model, tmp_path / "here", settings=settings) as one, tracing(one.app, warn=warned.append):
            assert not one.app.listeners
            return (await one.say("hi")).text

    monkeypatch.delitem(sys.modules, "melete.app.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.context", None)
    with ScriptedModel([Say("ho")]) as model:
        assert asyncio.run(main()) == "ho"
    (line,) = warned
    assert line.startswith("no traces are sent: ")
    assert 'pip install "melete[otel]"' in line
    assert "\n" not in line


def test_a_wrong_address_is_one_warning_and_no_hindrance(tmp_path: Path, own_home: Path) -> None:
    warned: list[str] = []

    async def main() -> str:
        settings = {"telemetry.otlp_endpoint": "collector:4317"}
        async with talk(model, tmp_path / "here", settings=settings) as one, tracing(one.app, warn=warned.append):
            return (await one.say("hi")).text

    with ScriptedModel([Say("ho")]) as model:
        assert asyncio.run(main()) == "ho"
    assert len(warned) == 1
    assert "telemetry.otlp_endpoint is not the address of a collector" in warned[0]


def test_nothing_of_opentelemetry_is_loaded_while_no_collector_is_named(own_home: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from melete.app.settings import load\n"
        "from melete.app.telemetry import tracing\n"
        "from melete.app.wire import open_melete\n"
        "async def main():\n"
        "    async with open_melete(load()) as app, tracing(app, warn=print):\n"
        "        assert not app.listeners\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    with ScriptedModel() as model:
        done = subprocess.run(
            [sys.executable, "-c", program], env=environ(model), capture_output=True, text=True, timeout=60
        )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_collector_that_is_gone_is_told_once_however_many_runs_there_are(caplog: pytest.LogCaptureFixture) -> None:
    with TraceCollector() as gone:
        url = gone.url

    async def main() -> None:
        spans = to(f"{url}/v1/traces")
        for number in range(3_000):  # more than wait to be sent
            listen(spans, f"s{number}")
        await spans.aclose(seconds=0.2)

    asyncio.run(main())
    _until_sent()
    mine = [record.getMessage() for record in caplog.records if record.name == "melete.telemetry"]
    assert len([line for line in mine if "cannot be sent" in line or "could not be sent" in line]) == len(mine)
    assert 1 <= len(mine) <= 2
    assert all(url in line for line in mine)
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


def test_a_server_is_not_kept_from_stopping_by_a_collector_that_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    over = threading.Event()

    def hang(_: int) -> int:
        over.wait()
        return 200

    async def main() -> bool:
        spans = to(f"{silent.url}/v1/traces")
        listen(spans, "s")
        await spans.aclose(seconds=0.3)
        return over.is_set()

    with TraceCollector(hang) as silent:
        try:
            assert asyncio.run(main()) is False
        finally:
            over.set()
        _until_sent()
    assert "in time and are dropped" in caplog.text


def test_what_a_collector_refuses_for_a_while_is_said_to_be_over(caplog: pytest.LogCaptureFixture) -> None:
    """A refusal that trying again does not mend: this batch is lost, later ones are not."""
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        spans = to(f"{picky.url}/v1/traces", authorization="Bearer hush")
        for number in range(512):  # a full batch is sent at once
            listen(spans, f"s{number}")
        await asyncio.to_thread(picky.wait, lambda: len(picky.bodies) == 1)
        await asyncio.to_thread(_logged, caplog, "cannot be sent")
        listen(spans, "last")
        await spans.aclose(seconds=20)

    with TraceCollector(lambda number: 401 if number == 0 else 200) as picky:
        asyncio.run(main())
    first, second = (record.getMessage() for record in caplog.records if record.name == "melete.telemetry")
    assert "cannot be sent" in first
    assert "401" in first
    assert "512 spans or more are lost" in second
    assert "hush" not in caplog.text
    assert [span.about["gen_ai.conversation.id"] for span in picky.spans] == ["last"]


def test_a_passing_fault_of_the_collector_loses_nothing() -> None:
    async def main() -> None:
        spans = to(f"{busy.url}/v1/traces")
        listen(spans, "s")
        await spans.aclose(seconds=20)

    with TraceCollector(lambda number: 503 if number == 0 else 200) as busy:
        asyncio.run(main())
    assert busy.one(AGENT)


def test_closing_twice_and_listening_after_it_do_no_harm() -> None:
    async def main() -> None:
        spans = to(f"{found.url}/v1/traces")
        listen(spans, "s")
        await spans.aclose(seconds=20)
        listen(spans, "late")
        spans.listen(SessionRef(id="s"), Notice(text="late"))
        await spans.aclose(seconds=20)

    with TraceCollector() as found:
        asyncio.run(main())
    assert [span.name for span in found.spans] == [AGENT]


def _logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    until = threading.Event()
    for _ in range(400):
        if text in caplog.text:
            return
        until.wait(0.05)
    raise AssertionError(f"nothing was logged of {text!r}")


def _until_sent() -> None:
    """Wait for the thread that sends the last spans, so that no test hears of another's."""
    for thread in threading.enumerate():
        if thread.name == "melete-last-spans":
            thread.join(30)
            assert not thread.is_alive()
