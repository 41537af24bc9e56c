"""A connection that outlives its commands: one process of ssh that others go through, and the shell at its far end.

That shell, the keeper, makes a private folder there, says when each command has ended, ends what it is asked to end, and when
the connection goes, for whatever reason, ends all that still runs and removes the folder. So nothing is left over there when
the agent is killed or the network goes away.
"""

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex

from msgspec import Struct

from melete.environments import scripts, tree
from melete.environments.child import Child, Launched
from melete.environments.host import HostHandle

FOLDER = "melete-ssh-"
LONGEST_PATH = 48  # of the control socket's folder: ssh adds to it, and a socket's path has 108 bytes at most
ANSWERING = 20.0
LEAVING = 6.0
NOISE = 1 << 17
TICK = 0.05
ENDED = -15
UNSAFE = re.compile(r"[\x00-\x1f\x7f'\\!]")

KEEP = r"""
trap '' HUP INT TERM PIPE
umask 077
token=$1; cwd=$2; make=$3
case $TMPDIR in *[!A-Za-z0-9_./-]*) TMPDIR=/tmp;; esac
d=$(mktemp -d "${TMPDIR:-/tmp}/melete-XXXXXX") && mkdir "$d/noted" "$d/dropped" "$d/temp" && mkfifo "$d/ends" ||
    { printf '%s failed no folder for temporary files could be made there\n' "$token"; exit 1; }
printf %s "$4" > "$d/run"; printf %s "$5" > "$d/kill"
exec 3<>"$d/ends"
cat <&3 & reader=$!
case $cwd in '') cwd=$HOME;; '~'|'~/'*) cwd=$HOME${cwd#\~};; /*) ;; *) cwd=$HOME/$cwd;; esac
[ -z "$make" ] || mkdir -p -- "$cwd" 2>/dev/null
there=$(cd -- "$cwd" 2>/dev/null && pwd -P) && cwd=$there
printf '%s ready\n%s\n%s\n%s\n' "$token" "$d" "$HOME" "$cwd"
finish() {
    if read -r pid birth < "$1"; then sh "$d/kill" "$pid" "$birth" "$2"; fi
    rm -f -- "$1"
} 2>/dev/null
while read -r verb a b; do
    case $verb in
    over)
        pid=
        [ ! -e "$d/noted/$a" ] || read -r pid birth < "$d/noted/$a"
        [ -n "$pid" ] && kill -0 "-$pid" 2>/dev/null || rm -f -- "$d/noted/$a";;
    end) { : > "$d/dropped/$a"; finish "$d/noted/$a" "$b"; printf '%s gone %s\n' "$token" "$a"; } & ;;
    ping) printf '%s pong %s\n' "$token" "$a";;
    clear) { for one in "$a"/noted/*; do finish "$one" 20; done; rm -rf -- "$a"; } & ;;
    esac
done
for one in "$d"/noted/*; do [ ! -e "$one" ] || finish "$one" 20 & done
kill -9 "$reader" 2>/dev/null
wait
rm -rf -- "$d"
"""
"""The keeper: (token, working folder, whether to make it, the two scripts that it puts down) as arguments, requests as input."""

RUN = r"""
words=$(printf %b_ "$1"); eval "set -- ${words%_}"
id=$1; d=$2; shift 2
while [ "$1" != -- ]; do export "$1"; shift; done; shift
trap : HUP INT QUIT TERM
exec 2>/dev/null
[ "${SHLVL:-0}" -gt 1 ] || SHLVL=2; export SHLVL # or a bash below would read what the login shell has read
born() { set -- ${line##*) }; birth=${20}; }
line=; birth=-
[ ! -r /proc/$$/stat ] || { read -r line < /proc/$$/stat; born; }
printf '%s %s\n' "$$" "$birth" > "$d/noted/$id" || exit 255
[ ! -e "$d/dropped/$id" ] || exit 143
"$@"
code=$?
printf '%s ended %s\n' "$id" "$code" > "$d/ends"
exit "$code"
"""
"""Runs one command there and tells the keeper's folder where it runs and how it ended."""


class Opened(Struct, frozen=True, kw_only=True):
    """What the keeper said when it was ready: its folder, the home and the working folder there."""

    folder: str
    home: str
    cwd: str


class Keeper:
    """The connection's own process here and what the keeper there says. `ended` is set once it is gone."""

    def __init__(self, launched: Launched, token: str) -> None:
        self._token = token
        self._lines: list[str] = []
        self._rest = b""
        self._unsent = b""
        self.said = ""
        self._ready: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._pings: dict[str, asyncio.Future[bool]] = {}
        self._ends: dict[str, Callable[[int], None]] = {}
        self._gone: dict[str, asyncio.Future[bool]] = {}
        self._child = Child(launched, self._take)
        self._child.done.add_done_callback(lambda _: self._over())
        os.set_blocking(self._child.stdin, False)

    @property
    def status(self) -> int | None:
        """The exit status of the connection's own process; None while it runs."""
        return self._child.code

    @property
    def ended(self) -> bool:
        """Whether the connection is gone."""
        return self._child.code is not None or self._child.done.done()

    async def opened(self, seconds: float) -> Opened | None:
        """What the keeper says when it is ready; None when the connection ended before. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            await asyncio.wait([self._ready, self._child.done], return_when=asyncio.FIRST_COMPLETED)
        return self._ready.result() if self._ready.done() and not self._ready.cancelled() else None

    def expect(self, id: str, ended: Callable[[int], None]) -> None:
        """Call `ended` with the exit status when the keeper tells of the command's end."""
        self._ends[id] = ended

    def forget(self, id: str) -> None:
        """The command is over: what it left behind is looked for when the connection ends, and only then."""
        self._ends.pop(id, None)
        self._send(f"over {id}\n")

    async def end(self, id: str, grace: float) -> None:
        """End the whole tree of a command; returns when it is gone, or the connection."""
        gone = self._gone[id] = asyncio.get_running_loop().create_future()
        self._send(f"end {id} {max(round(grace / TICK), 1)}\n")
        await asyncio.wait([gone, self._child.done], timeout=grace + ANSWERING, return_when=asyncio.FIRST_COMPLETED)
        self._gone.pop(id, None)

    def end_soon(self, id: str) -> None:
        """Ask for a command's end; nobody waits."""
        self._send(f"end {id} 1\n")

    def clear(self, folder: str) -> None:
        """End and remove what a keeper that lost its connection may still hold there."""
        self._send(f"clear {folder}\n")

    async def answers(self) -> bool:
        """Whether the connection is still there."""
        if self.ended:
            return False
        word = token_hex(4)
        answer = self._pings[word] = asyncio.get_running_loop().create_future()
        self._send(f"ping {word}\n")
        await asyncio.wait([answer, self._child.done], timeout=ANSWERING, return_when=asyncio.FIRST_COMPLETED)
        self._pings.pop(word, None)
        return answer.done() and not answer.cancelled()

    async def aclose(self) -> None:
        """Let the keeper clean up, then end the connection."""
        if not self.ended:
            self._child.close_stdin()
            await asyncio.wait([self._child.done], timeout=LEAVING)
        self.kill()

    def kill(self) -> None:
        """End the connection at once; the keeper there cleans up when it notices."""
        self._child.close()

    def _send(self, line: str) -> None:
        """Write without waiting: the lines are short and the keeper reads them at once."""
        if self.ended or self._child.stdin < 0:
            return
        waiting = bool(self._unsent)
        self._unsent += line.encode()
        if not waiting:
            self._flush()

    def _flush(self) -> None:
        loop, descriptor = asyncio.get_running_loop(), self._child.stdin
        if descriptor < 0:
            return
        try:
            self._unsent = self._unsent[os.write(descriptor, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # it ends in this moment, and then it ends all it knows of
            self._unsent = b""
        if self._unsent:
            loop.add_writer(descriptor, self._flush)
        else:
            loop.remove_writer(descriptor)

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._hear(line.decode("utf-8", "surrogateescape"))

    def _hear(self, line: str) -> None:
        if self._lines:
            self._lines.append(line)
            if len(self._lines) == 4 and not self._ready.done():  # noqa: PLR2004
                self._ready.set_result(Opened(folder=self._lines[1], home=self._lines[2], cwd=self._lines[3]))
                self._lines = []
            return
        start = line.find(self._token)
        match line[max(start, 0) :].split(" "):  # a login shell may have left a line unfinished before it
            case [token, "ready"] if token == self._token and not self._ready.done():
                self._lines = [line]
            case [token, "pong", word] if token == self._token:
                _settle(self._pings.get(word))
            case [token, "gone", id] if token == self._token:
                _settle(self._gone.get(id))
            case [id, "ended", code] if id in self._ends and code.isdigit():
                self._ends.pop(id)(int(code))
            case [token, "failed", *words] if token == self._token:
                self.said = " ".join(words)
            case _:
                pass  # what the login shell there says by itself

    def _over(self) -> None:
        for waiting in (*self._pings.values(), *self._gone.values()):
            if not waiting.done():
                waiting.cancel()


class FarHandle:
    """A command over there, and the process of ssh here that carries its streams; see `child.Handle`."""

    def __init__(self, near: HostHandle, keeper: Keeper, id: str) -> None:
        self.near = near
        self.keeper = keeper
        self.id = id
        self.pid = near.pid
        self.told: int | None = None
        self._asked = False
        self._ended: Callable[[], None] | None = None
        keeper.expect(id, self._tell)

    @property
    def code(self) -> int | None:
        """Its exit status: told by the keeper, or by ssh; negative once it was ended from here."""
        known = self.told if self.told is not None else self.near.code
        return ENDED if known is not None and self._asked else known

    def watch(self, ended: Callable[[], None]) -> Callable[[], None]:
        """Call `ended` once either has told."""
        called = False

        def once() -> None:
            nonlocal called
            if not called:
                called = True
                ended()

        self._ended = once
        stop = self.near.watch(once)
        if self.told is not None:
            asyncio.get_running_loop().call_soon(once)

        def unwatch() -> None:
            self._ended = None
            stop()

        return unwatch

    def left_some(self) -> bool:
        """What it leaves behind ends with the connection."""
        return False

    async def end(self, grace: float) -> None:
        """End the whole tree there, then the carrier here."""
        self._asked = self._asked or self.code is None
        await self.keeper.end(self.id, grace)
        self.release()

    def kill(self) -> None:
        """End both; nobody waits for the far one."""
        self._asked = self._asked or self.code is None
        self.keeper.end_soon(self.id)
        self.near.kill()

    def release(self) -> None:
        """End the carrier, which waits for as long as a daemon there holds the output."""
        if self.near.code is None:
            self.near.kill()
        self.keeper.forget(self.id)

    def _tell(self, code: int) -> None:
        self.told = code
        if self._ended:
            self._ended()


def keep_argv(token: str, cwd: str, *, make: bool) -> list[str]:
    """The command that is the keeper."""
    kill = scripts.kill_script(scripts.Greeting(pid=1, birth="-"), grace=1)[2]
    return ["sh", "-c", KEEP, "sh", token, cwd, "yes" if make else "", RUN, kill]


def far_command(argv: Sequence[str]) -> str:
    """`argv` as the one line of text that ssh takes, safe in whatever shell a person has there."""
    words = " ".join(_quoted(word) for word in argv)
    return f"exec sh -c 'c=$(printf %b_ \"$0\"); eval \"exec ${{c%_}}\"' '{_carried(words)}'"


def run_command(opened: Opened, id: str, variables: Sequence[str], argv: Sequence[str]) -> str:
    """The line that runs `argv` through the script that the keeper has put down."""
    words = " ".join(map(_quoted, [id, opened.folder, *variables, "--", *argv]))
    return f"exec sh {opened.folder}/run '{_carried(words)}'"


async def first_line(descriptor: int, id: str) -> bytes:
    """The first line of a program's output that holds `id`, from there on; what there is when it ends before.

    It is read byte by byte, so that the rest stays for others. What a login shell says by itself comes before and is dropped.
    """
    os.set_blocking(descriptor, False)
    line, mark, seen = b"", id.encode(), 0
    while not (line.endswith(b"\n") and mark in line) and seen < NOISE:
        try:
            piece = os.read(descriptor, 1)
        except BlockingIOError:
            await _readable(descriptor)
            continue
        except OSError:  # a terminal whose other side is closed
            break
        if not piece:
            break
        line = piece if line.endswith(b"\n") else line + piece
        seen += 1
    return line[max(line.find(mark), 0) :].rstrip(b"\r\n")


def control_folder(base: str) -> Path:
    """A private folder for the control socket, with a short path; what dead agents left in the same place is removed."""
    base = base if len(base) <= LONGEST_PATH else "/tmp"  # noqa: S108 - a folder of its own is made in it
    mine = os.getuid()
    for old in Path(base).glob(f"{FOLDER}*"):
        pid, _, birth = old.name.removeprefix(FOLDER).partition("-")
        dead = pid.isdigit() and tree.born(int(pid)) != birth.partition("-")[0]
        with contextlib.suppress(OSError):  # another agent removes it as well
            if dead and old.lstat().st_uid == mine:
                shutil.rmtree(old)
    made = Path(base) / f"{FOLDER}{os.getpid()}-{tree.born(os.getpid())}-{token_hex(3)}"
    made.mkdir(mode=0o700)
    return made


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _settle(waiting: "asyncio.Future[bool] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(True)


def _carried(text: str) -> str:
    """Text for `printf %b` between single quotes: nothing in it means anything to sh, bash, zsh, fish or csh."""
    return UNSAFE.sub(lambda found: f"\\0{ord(found.group()):03o}", text)


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
