"""A real `melete serve` process for tests: started on a free port, asked over HTTP, ended by SIGTERM and watched while it ends.

    with ScriptedModel(["Hello."]) as model, served(home, model) as server:
        answer = server.client.post("/v1/runs", json={"input": "Hi"})

In a module that shares one server:

    @pytest.fixture(scope="module")
    def server(tmp_path_factory):
        with ScriptedModel(script) as model, served(tmp_path_factory.mktemp("person"), model) as found:
            yield found
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from melete.testing import ScriptedModel

PATIENCE = 30.0
NONE: Mapping[str, str] = {}
COMPLAINTS = ("Traceback (most recent call last)", "was never retrieved", "was never awaited", "was destroyed but")
"""What no server may ever write to its standard error."""


class Served:
    """A server that answers at `url`; `home` is the person's home, `melete` the folder `.melete` in it, `model` its model."""

    def __init__(
        self, home: Path, process: "subprocess.Popen[bytes]", url: str, *, model: ScriptedModel | None
    ) -> None:
        self.home = home
        self.melete = home / ".melete"
        self.process = process
        self.url = url
        self.model = model
        self.client = httpx2.Client(base_url=url, timeout=PATIENCE, trust_env=False)

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return int(self.url.rpartition(":")[2])

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    @property
    def said(self) -> str:
        """What it wrote to standard error so far."""
        return said_by(self.home)

    def variables(self, **more: str) -> dict[str, str]:
        """The environment of a command of the same person, with the same model."""
        return variables(self.home, self.model, **more)

    def command(self, *words: str) -> str:
        """What a command of the same person prints; fails when it fails."""
        done = subprocess.run(
            [sys.executable, "-m", "melete", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self.variables(),
            cwd=self.home,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def add_key(self, name: str, *scopes: str) -> str:
        """A new named key; from now on the server asks for one."""
        given = [word for scope in scopes for word in ("--scope", scope)]
        return self.command("serve", "keys", "add", name, *given).strip()

    def send(self, number: int) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End the process as a power cut would; what it had not stored is lost."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        """Ask the process to end, wait for it, and return its exit status."""
        self.client.close()  # a connection that is kept open would be waited for
        if self.running:
            self.process.terminate()
        return self.process.wait(PATIENCE)

    def run(self, prompt: str, *, key: str = "", **wanted: Any) -> dict[str, Any]:
        """Begin a run through the API and return what was answered; fails when it was not accepted."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        answer = self.client.post("/v1/runs", json={"input": prompt, **wanted}, headers=headers)
        assert answer.status_code == 202, answer.text
        return answer.json()

    def events(self, path: str, *, after: str = "", key: str = "", many: int = 0) -> list["Sent"]:
        """The events of a stream to its end, or the first `many` of them."""
        found: list[Sent] = []
        with self.stream(path, after=after, key=key) as sent:
            for event in sent:
                found.append(event)
                if len(found) == many:
                    break
        return found

    @contextmanager
    def stream(self, path: str, *, after: str = "", key: str = "") -> Generator[Iterator["Sent"]]:
        """The events of a stream as they come; comments are left out."""
        headers = {**({"last-event-id": after} if after else {}), **({"authorization": f"Bearer {key}"} if key else {})}
        with self.client.stream("GET", path, headers=headers) as answer:
            assert answer.status_code == 200, answer.read()
            yield events_of(answer.iter_lines())

    def ended(self, run: str, *, key: str = "") -> dict[str, Any]:
        """Wait for a run to end and return its status."""
        self.events(f"/v1/runs/{run}/events", key=key)
        return self.status(run, key=key)

    def status(self, run: str, *, key: str = "") -> dict[str, Any]:
        """What the server says of a run."""
        answer = self.client.get(f"/v1/runs/{run}", headers={"authorization": f"Bearer {key}"} if key else {})
        assert answer.status_code == 200, answer.text
        return answer.json()


class Terminal:
    """A command that prints events as JSON lines, such as `melete run --json PROMPT`, in the home of a server's person."""

    def __init__(self, server: Served, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "melete", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=server.variables(),
            cwd=server.home,
        )
        self.events: list[dict[str, Any]] = []

    def first(self, kind: str) -> dict[str, Any]:
        """Read up to the first event of a type and return it."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            self.events.append(msgspec.json.decode(line))
            if self.events[-1]["type"] == kind:
                return self.events[-1]
        raise AssertionError(f"no {kind} came: {self.events}")

    def rest(self) -> list[dict[str, Any]]:
        """Everything up to its end."""
        out, _ = self.process.communicate(timeout=PATIENCE)
        self.events += [msgspec.json.decode(line) for line in out.splitlines()]
        return self.events


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A server-sent event: its id, its name, and its data decoded (None where it is no JSON, such as `[DONE]`)."""

    id: str
    event: str
    raw: str
    data: Any


def events_of(lines: Iterator[str]) -> Iterator[Sent]:
    """The events that the lines of a stream are; one that is cut off before its empty line is none."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line and fields:
            raw = fields.get("data", "")
            data: Any = None
            with contextlib.suppress(msgspec.DecodeError):
                data = msgspec.json.decode(raw)
            yield Sent(id=fields.get("id", ""), event=fields.get("event", ""), raw=raw, data=data)
            fields = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and "data" in fields else value


@contextmanager
def served(
    home: Path, model: ScriptedModel | None = None, *words: str, env: Mapping[str, str] = NONE
) -> Generator[Served]:
    """Start `melete serve --port 0 WORDS` for the person whose home is `home`, and end it; fails when it does not end well.

    Settings are what `tests.story.homes.configure(home, …)` wrote. A server that the test itself ended or killed is left alone.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / "serve.err").open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "melete", "serve", "--port", "0", "--json", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=variables(home, model, **env),
            cwd=home,
        )
    server: Served | None = None
    try:
        server = Served(home, process, _address(process, home), model=model)
        yield server
        mine = server.running
        status = server.stop()
        assert not mine or status in (0, 128 + signal.SIGTERM), f"it ended with {status}: {server.said}"
        assert not any(text in server.said for text in COMPLAINTS), server.said
    finally:
        if server is not None:
            server.client.close()
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        if process.stdout:
            process.stdout.close()


def variables(home: Path, model: ScriptedModel | None = None, **more: str) -> dict[str, str]:
    """The environment of a command of that person; nothing of the test's own gets into it but the PATH."""
    found = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "MELETE_HOME": str(home / ".melete"),
        "MELETE_ENV": "local",
        "MELETE_LEARNING": "false",
        "PYTHONUTF8": "1",
    }
    if model:
        found |= {"MELETE_BASE_URL": model.base_url, "MELETE_MODEL": "scripted"}
    return found | dict(more)


def said_by(home: Path) -> str:
    """What the servers of that person have written to standard error."""
    return (home / "serve.err").read_text()


def _address(process: "subprocess.Popen[bytes]", home: Path) -> str:
    """The address in the first line that the server writes; fails when none comes."""
    assert process.stdout is not None
    until = time.monotonic() + PATIENCE
    data = b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in data:
            assert waiting.select(max(0.0, until - time.monotonic())), f"no address came: {said_by(home)}"
            more = os.read(process.stdout.fileno(), 4096)
            assert more, f"the server ended at once: {said_by(home)}"
            data += more
    return msgspec.json.decode(data.splitlines()[0])["addresses"][0]
