"""What learning costs a person: from a reply's last byte to the prompt of a chat, and to the end of a one-shot run, off and on.

Two chats, and two homes for one-shot runs, take turns in one run, so that the machine is the same for both. Each turn holds a call
that fails and one that works, so that reviews go on beside the turns that are measured.
"""

import fcntl
import json
import os
import pty
import re
import select
import subprocess
import tempfile
import termios
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import run
from benchmarks.report import Row, chosen, parser, quantile, say, show
from benchmarks.subjects import make
from melete.learn.briefs import OPENING
from melete.testing import Call, Reply, ScriptedModel

ARMS = ("off", "on")
PATIENCE = 60.0
CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\r")
LIMIT = 5.0
"""Milliseconds that learning may take of a person's time."""


def words(message: dict[str, Any]) -> str:
    """What a message of a request says."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def is_review(request: dict[str, Any]) -> bool:
    """Whether a request is a reviewer's."""
    return any(words(one).startswith(OPENING) for one in request["messages"] if one["role"] == "user")


def script(request: dict[str, Any], _: int) -> Reply | str:
    """A call that fails, one that works, and an answer; a review looks at the skills and keeps nothing."""
    messages = request["messages"]
    last = max(at for at, message in enumerate(messages) if message["role"] == "user")
    done = len(messages) - last - 1
    if is_review(request):
        return Call("skills_list", {}) if not done else "Nothing to keep."
    turn = words(messages[last]).split()[-1]
    if done < 2:
        return Call("terminal", {"command": f"test -d /nowhere-{turn}"})
    if done < 4:
        return Call("terminal", {"command": f"test -d / -a {turn}"})
    return f"Answer {turn}."


class Chat:
    """A chat on a terminal of its own."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path) -> None:
        self._data = b""
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 100))
        own = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # noqa: E731
        self._process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd, start_new_session=True, preexec_fn=own
        )
        os.close(slave)
        self.ready("> ")

    def ready(self, after: str) -> float:
        """When the prompt stands behind this text, on the monotonic clock."""
        until = time.monotonic() + PATIENCE
        wanted = re.compile(re.escape(after.encode()) + rb"(?s:.*)(?:\A|\n|)> \Z" if after != "> " else rb"> \Z")
        while not wanted.search(self._data):
            if not select.select([self._master], [], [], max(0.0, until - time.monotonic()))[0]:
                raise RuntimeError(f"{after!r} did not come: {self._data[-800:]!r}")
            self._data = CONTROL.sub(b"", self._data + os.read(self._master, 65_536))
        return time.monotonic()

    def ask(self, text: str) -> None:
        """Type a line."""
        self._data = b""
        os.write(self._master, f"{text}\r".encode())

    def close(self) -> None:
        """Leave it."""
        os.write(self._master, b"/quit\r")
        until = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < until:
            if select.select([self._master], [], [], 0.05)[0]:
                try:
                    os.read(self._master, 65_536)
                except OSError:
                    break
        self._process.wait(PATIENCE)
        os.close(self._master)


def last_byte(server: ScriptedModel, behind: int) -> float:
    """When the last byte of the last reply left that was none to a reviewer, of those since the request `behind`."""
    mine = [request.index for request in server.requests[behind:] if not is_review(request.json)]
    return server.replied_at[mine[-1]]


def main() -> None:
    """Measure and print."""
    made = parser(__doc__ or "", rounds=60)
    made.add_argument("--runs", type=int, default=20, help="one-shot runs of each kind")
    options = made.parse_args()
    program = chosen(options)["melete"]
    prompt: dict[str, list[float]] = {arm: [] for arm in ARMS}
    end: dict[str, list[float]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory() as root, ScriptedModel(script) as server:
        subjects = {arm: make("melete", Path(root, arm), program=program, base_url=server.base_url) for arm in ARMS}
        for arm, subject in subjects.items():
            subject.env["MELETE_LEARNING"] = "true" if arm == "on" else "false"
            home = Path(subject.env["MELETE_HOME"])
            home.mkdir(parents=True, exist_ok=True)
            (home / "config.yaml").write_text(json.dumps({"learning": {"idle_seconds": 1}}))
        chats = {arm: Chat([str(program), "chat", "--yolo"], one.env, one.cwd) for arm, one in subjects.items()}
        for turn in range(options.rounds + 1):
            say(f"turn {turn} of {options.rounds}")
            for arm in ARMS if turn % 2 else ARMS[::-1]:
                behind = len(server.requests)
                chats[arm].ask(f"Turn {turn}")
                ready = chats[arm].ready(f"Answer {turn}.")
                prompt[arm] += [(ready - last_byte(server, behind)) * 1000] if turn else []
            time.sleep(0.2 if turn % 10 else 2.0)  # now and then the sessions are idle
        for chat in chats.values():
            chat.close()
        for turn in range(options.runs):
            say(f"run {turn} of {options.runs}")
            for arm in ARMS if turn % 2 else ARMS[::-1]:
                subject, behind = subjects[arm], len(server.requests)
                ran = run([str(program), "run", "--yolo", f"Turn {turn}"], env=subject.env, cwd=subject.cwd)
                end[arm].append((ran.started + ran.wall - last_byte(server, behind)) * 1000)
                time.sleep(3.0)  # what was left behind is done before the next one
        time.sleep(5.0)
        reviews = sum(is_review(request.json) for request in server.requests)
    figures = [
        row
        for what, took in (("last byte to prompt of a chat", prompt), ("last byte to the end of a run", end))
        for row in rows(what, took)
    ]
    told = Row(what="requests of reviews meanwhile", unit="", values={"on": reviews}, less_is_better=None, digits=0)
    show([*figures, told], {"off": program, "on": program}, as_json=options.json)


def rows(what: str, took: dict[str, list[float]]) -> list[Row]:
    """The medians and 95th percentiles of both arms, the median of what learning adds to a turn, and the ratio."""
    both = {arm: median(took[arm]) for arm in ARMS}
    more = median(on - off for off, on in zip(took["off"], took["on"], strict=True))
    late = {arm: quantile(took[arm], 0.95) for arm in ARMS}
    return [
        Row(what=f"{what}: median", unit="ms", values=both, less_is_better=None),
        Row(what=f"{what}: 95th percentile", unit="ms", values=late, less_is_better=None),
        Row(
            what=f"{what}: more with learning (limit {LIMIT:g})",
            unit="ms",
            values={"on": more},
            less_is_better=None,
        ),
        Row(what=f"{what}: on to off", unit="x", values={"on": both["on"] / both["off"]}, less_is_better=None),
    ]


if __name__ == "__main__":
    main()
