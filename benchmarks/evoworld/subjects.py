"""Those who work in the world: Melete and its peer, each as people run it, in a home of its own."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal, Protocol

from benchmarks.evoworld.policy import MODEL

Mode = Literal["long", "shot"]
DEADLINE = 600.0
CONTEXT = 1_000_000
"""Tokens of the model's window: no conversation of the world is ever cut."""
STEPS = "60"
UNUSABLE = ("quarantined", "archived")
"""States of skills in which no session gets to see them."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a subject is given: its program, the folder for all that is its own, the model's address, and where `w` lies."""

    program: Path
    root: Path
    base_url: str
    world: Path
    page_port: int

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def cwd(self) -> Path:
        return self.root / "work"

    def env(self) -> dict[str, str]:
        """An environment that holds nothing of the caller's."""
        path = f"{self.world}:/usr/local/bin:/usr/bin:/bin"
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb"}


class Subject(Protocol):
    """A program in the world."""

    def begin(self, *, clock: str, again: bool) -> None:
        """A session begins at this time, or goes on `again` after the measurement was interrupted."""
        ...

    def say(self, text: str, end: str) -> None:
        """Let the person say this, and wait for the answer, whose last line holds `end`."""
        ...

    def close(self) -> None:
        """The session is over."""
        ...

    def end(self) -> None:
        """The whole run is over."""
        ...

    def skills(self) -> Path:
        """Where a person puts skills of their own."""
        ...

    def loadable(self) -> Iterable[Path]:
        """The files of skills and memory that a session may get to see, other than those that come with the program."""
        ...

    def install(self, folder: Path) -> None:
        """Take in a skill of somebody else, as far as the program lets one."""
        ...


def say(text: str) -> None:
    """Progress, apart from the figures."""
    print(text, file=sys.stderr, flush=True)


class Failed(RuntimeError):
    """A subject ended with an error or gave no answer."""


class Shot:
    """A process for each message of the person."""

    def __init__(self, command: Callable[[str, bool], Sequence[str]], env: Mapping[str, str], cwd: Path) -> None:
        self._command = command
        self._env = env
        self._cwd = cwd

    def say(self, text: str, end: str, *, clock: Mapping[str, str], go_on: bool) -> None:
        done = subprocess.run(
            self._command(text, go_on), env={**self._env, **clock}, cwd=self._cwd, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=DEADLINE, check=False,
        )  # fmt: skip
        if end not in done.stdout:
            raise Failed(f"no answer with {end} but status {done.returncode}:\n{done.stdout}\n{done.stderr}"[-3000:])


class Chat:
    """One process that reads a message a line; what it writes is read by a thread, so that the process never waits for us."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def put(self, text: str) -> None:
        """Send a line that is not answered."""
        assert self._process.stdin
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def say(self, text: str, end: str) -> None:
        self.put(text)
        seen: list[str] = []
        while not seen or end not in seen[-1]:
            try:
                line = self._lines.get(timeout=DEADLINE)
            except Empty:
                line = None
            if line is None:
                self.close()
                raise Failed(f"no answer with {end}:\n{''.join(seen)[-3000:]}")
            seen.append(line)

    def close(self) -> None:
        """End its input, and wait for it."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)


class Melete:
    """`melete run`, each message a process, or `melete chat` with its input on a pipe, a process for each session.

    The chat is what people run, takes a message a line and needs no client; and a process for each session lets the injected clock
    move on between them.
    """

    def __init__(self, place: Place, *, mode: Mode, learn: bool) -> None:
        self._place = place
        self._mode = mode
        self._env = place.env() | {
            "MELETE_HOME": str(place.home / ".melete"),
            "MELETE_BASE_URL": place.base_url,
            "MELETE_MODEL": MODEL,
            "MELETE_CONTEXT_LENGTH": str(CONTEXT),
        }
        self._shot = Shot(self._once, self._env, place.cwd)
        self._chat: Chat | None = None
        self._clock: dict[str, str] = {}
        self._begun = False
        self._stamp: dict[Path, int] = {}
        self._usable: list[Path] = []
        for folder in (place.home / ".melete", place.cwd):
            folder.mkdir(parents=True, exist_ok=True)
        settings: dict[str, Any] = {"sandbox": {"write": [str(place.world)], "loopback": [place.page_port]}}
        if '"learning"' in self._run("config", "schema").stdout:
            settings["learning"] = {"autonomy": "auto", "detach": False} if learn else {"enabled": False}
        elif learn:
            say("this program does not learn: there is no setting `learning`")
        (place.home / ".melete" / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")
        self._learns = learn and "learning" in settings

    def begin(self, *, clock: str, again: bool) -> None:
        self._clock, self._begun = {"MELETE_CLOCK": clock}, again
        if self._mode == "long":
            command = [str(self._place.program), "chat", "--yolo", "--max-steps", STEPS, *(["-c"] if again else [])]
            self._chat = Chat(command, self._env | self._clock, self._place.cwd)

    def say(self, text: str, end: str) -> None:
        if self._chat:
            self._chat.say(text, end)
        else:
            self._shot.say(text, end, clock=self._clock, go_on=self._begun)
        self._begun = True

    def close(self) -> None:
        if self._chat:
            self._chat.close()
            self._chat = None
        if self._learns and (done := self._run("learn", "work")).returncode:
            raise Failed(f"melete learn work ended with {done.returncode}:\n{done.stderr[-3000:]}")

    def end(self) -> None:
        """Nothing is left to end."""

    def skills(self) -> Path:
        return self._place.home / ".melete" / "skills" / "user"

    def loadable(self) -> Iterable[Path]:
        """The skills that the program lists as usable, asked anew when one of their files changed, and what is remembered."""
        home = self._place.home / ".melete"
        found = [path for name in ("user", "hub") for path in (home / "skills" / name).rglob("SKILL.md")]
        stamp = {path: path.stat().st_mtime_ns for path in found}
        if stamp != self._stamp:
            listed = map(json.loads, self._run("skills", "list", "--json").stdout.splitlines())
            usable = {Path(one["folder"]) for one in listed if one.get("state") not in UNUSABLE}
            self._stamp, self._usable = stamp, [path for path in found if path.parent in usable]
        return [*self._usable, *(home / "memories").glob("*.md")]

    def install(self, folder: Path) -> None:
        done = self._run("skills", "install", str(folder), "--yes")
        say(f"skills install ended with {done.returncode}: {done.stderr.strip()[-300:]}")

    def _once(self, text: str, go_on: bool) -> Sequence[str]:
        options = ["--yolo", "--max-steps", STEPS, *(["-c"] if go_on else [])]
        return [str(self._place.program), "run", *options, text]

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._place.program), *words], env=self._env | self._clock, cwd=self._place.cwd, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=DEADLINE, check=False,
        )  # fmt: skip


class Hermes:
    """The peer: `chat -q`, each message a process, or one process for the whole run, which is what learns best with it.

    Its `-z` neither continues a session nor takes a limit of steps.
    """

    def __init__(self, place: Place, *, mode: Mode, learn: bool) -> None:
        self._place = place
        self._mode = mode
        self._home = place.home / ".hermes"
        self._env = place.env() | {"HERMES_HOME": str(self._home), "HERMES_YOLO_MODE": "1"}
        self._shot = Shot(self._once, self._env, place.cwd)
        self._chat: Chat | None = None
        self._begun = False
        for folder in (self._home, place.cwd):
            folder.mkdir(parents=True, exist_ok=True)
        # its shell is a login shell, which forgets the PATH that it was given
        (place.home / ".profile").write_text(f"PATH={place.world}:$PATH\n", encoding="utf-8")
        settings: dict[str, Any] = {
            "model": {
                "default": MODEL,
                "provider": "custom",
                "api_key": "local",
                "base_url": place.base_url,
                "context_length": CONTEXT,
            }
        }
        if not learn:
            settings |= {"skills": {"creation_nudge_interval": 0}, "memory": {"nudge_interval": 0}}
        (self._home / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")

    def begin(self, *, clock: str, again: bool) -> None:  # noqa: ARG002 - it has no clock to inject
        self._begun = again
        if self._mode == "long" and self._chat:
            self._chat.put("/new")
        elif self._mode == "long":
            peer = [str(self._place.program.with_name("python")), str(Path(__file__).with_name("peer.py"))]
            self._chat = Chat(peer, self._env, self._place.cwd)

    def say(self, text: str, end: str) -> None:
        if self._chat:
            self._chat.say(text, end)
        else:
            self._shot.say(text, end, clock={}, go_on=self._begun)
        self._begun = True

    def close(self) -> None:
        """Nothing: its process goes on until `end`."""

    def end(self) -> None:
        if self._chat:
            self._chat.close()
            self._chat = None

    def skills(self) -> Path:
        return self._home / "skills"

    def loadable(self) -> Iterable[Path]:
        own = [
            path
            for path in self.skills().rglob("SKILL.md")
            if path.parent.name.startswith("w-") or "pro" in path.parent.name
        ]
        return [*own, *(self._home / "memories").glob("*.md")]

    def install(self, folder: Path) -> None:
        shutil.copytree(folder, self.skills() / folder.name)

    def _once(self, text: str, go_on: bool) -> Sequence[str]:
        options = ["-Q", "--yolo", "--max-turns", STEPS, *(["--continue"] if go_on else [])]
        return [str(self._place.program), "chat", *options, "-q", text]
