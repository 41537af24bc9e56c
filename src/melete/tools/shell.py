"""The state of a session's shell that lasts from one command to the next, without a shell that lasts.

Each command is a shell of its own. It takes over what the one before left in a file of the environment's temporary folder, and
leaves its own state there when it ends: `shelltext.py` has what it runs. So no command can hang another, and one that is
killed leaves the state of before.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from secrets import token_hex

from msgspec import Struct

from melete.core.errors import EnvironmentFailure
from melete.core.ports import Completed, Environment
from melete.core.tool import ToolContext
from melete.tools import shelltext
from melete.tools.text import readable

IN_ONE_ARGUMENT = 100_000
"""Bytes of a command that travels as an argument: the kernel refuses one of 128 KiB."""
SHELLS = ("bash", "sh")
UNBUFFERED = 'export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"\n'
"""A server of Python would keep its lines to itself: what it prints goes no further than a pipe."""
LONGEST_PATH = 8_192
LONGEST_START = 30.0
MOST_VOID = 32
_MOVES = re.compile(r"\b(?:cd|pushd|popd|exec|eval|source|alias|function)\b|\(\s*\)|(?:^|[;&|(\s])\.\s")
"""What a command says that may leave the shell in another folder."""
_DEFINES = re.compile(r"\b(?:eval|source|alias|function)\b|\(\s*\)|(?:^|[;&|(\s])\.\s")
"""What may make later words do so."""


_QUOTED = re.compile(r"'[^']*'|\"[^\"\\$`]*\"")
_PARTS = re.compile(r"[;&|\n]+")
_NAME = re.compile(r"[A-Za-z0-9_./+-]+")
_OPEN = frozenset("$`(){}\\!#'\"")
"""What may hold more than meets the eye."""
_BUILTIN = re.compile(
    r"[.:]|alias|bg|bind|break|builtin|caller|case|cd|command|comp(?:gen|lete|opt)|continue|coproc|declare|dirs|disown|do|done"
    r"|elif|else|enable|esac|eval|exec|export|fc|fg|fi|for|function|getopts|hash|help|history|if|in|jobs|let|local|logout"
    r"|mapfile|popd|printf|pushd|read(?:array|only)?|return|select|set|shift|shopt|source|suspend|then|times?|trap|typeset"
    r"|ulimit|umask|unalias|unset|until|wait|while"
)
"""What the shell does itself and what may change it, or goes on with a command that may."""


class Ran(Struct, frozen=True, kw_only=True):
    """How a command ended, the folder in which the next one begins (empty: the working folder), and what is to be said."""

    done: Completed
    cwd: str = ""
    notes: tuple[str, ...] = ()


class Begun(Struct, frozen=True, kw_only=True):
    """A command that somebody else starts: `text` is for a shell, `cwd` the folder to start it in."""

    text: str
    cwd: str
    number: int = 0
    looks: bool = False


class Shell:
    """The shell of one session; `cwd` is the folder in which it stands, empty for the working folder."""

    def __init__(self) -> None:
        self.cwd = ""
        self._program = ""
        self._key = token_hex(3)
        self._count = 0
        self._running: set[int] = set()
        self._void: list[int] = []
        self._always_look = False
        self._fresh = True

    async def run(self, env: Environment, command: str, *, workdir: str = "", timeout: float) -> Ran:
        """Run a command with the state of the last one; `workdir` holds for this one alone. Raises EnvironmentFailure."""
        number, looks = self._begin(command)
        lasts = False
        notes: tuple[str, ...] = ()
        try:
            try:
                done = await self._exec(env, command, number, workdir=workdir, timeout=timeout, looks=looks)
            except EnvironmentFailure:
                if workdir or not (notes := await self._left_a_gone_folder(env)):
                    raise
                done = await self._exec(env, command, number, workdir=workdir, timeout=timeout, looks=looks)
            lasts = not done.timed_out
        finally:
            self._end(number, lasts=lasts)
        if lasts and looks:
            await self._look(env, number)
        return Ran(done=done, cwd=readable(self.cwd), notes=notes)

    async def begin(self, env: Environment, command: str, *, workdir: str = "") -> Begun:
        """The same for a command that somebody else starts and that `end` is told of: on a terminal."""
        program = await self._known(env)
        await self._left_a_gone_folder(env)
        number, looks = self._begin(command)
        values = self._values(await env.temp(), number, home=env.cwd, away=workdir != "")
        text = self._script(program, values, number, looks=looks)
        text = text.replace(shelltext.COMMAND, shlex.quote(command), 1)
        return Begun(text=text, cwd=workdir or self._folder(), number=number, looks=looks)

    async def end(self, env: Environment, begun: Begun, *, lasts: bool) -> None:
        """It has ended; its state counts if it `lasts`."""
        self._end(begun.number, lasts=lasts)
        if lasts and begun.looks:
            await self._look(env, begun.number)

    async def beside(self, env: Environment, command: str = "", *, workdir: str = "") -> Begun:
        """A command that begins with the state and never changes it: in the background."""
        await self._left_a_gone_folder(env)
        text = UNBUFFERED
        if self._program:
            values = self._values(await env.temp(), 0, home=env.cwd, away=workdir != "")
            text = f"{shelltext.restore(self._program, values, saved=False)} {UNBUFFERED}"
        return Begun(text=text + command, cwd=workdir or self._folder())

    async def launching(self, env: Environment, argv: Sequence[str]) -> list[str]:
        """A command line that runs a program with the state's variables, in the folder that it is started in."""
        begun = await self.beside(env, 'exec "$@"', workdir=".")
        return [self._program, "-c", begun.text, self._program, *argv] if self._program else list(argv)

    async def probe(self, env: Environment, text: str, *, workdir: str = "") -> bytes:
        """What a few lines print that run with the state and leave it as it is; empty where that cannot be found out."""
        begun = await self.beside(env, text, workdir=workdir)
        argv = [self._program or SHELLS[0], "-c", begun.text]
        try:
            done = await env.exec(argv, cwd=begun.cwd, timeout=LONGEST_START)
        except EnvironmentFailure:
            return b""
        return done.output if done.code == 0 else b""

    def _begin(self, command: str) -> tuple[int, bool]:
        self._count += 1
        self._running.add(self._count)
        if _DEFINES.search(command):
            self._always_look = True
        looks = self._always_look or bool(self._void) or _MOVES.search(command) is not None
        return self._count, looks

    def _end(self, number: int, *, lasts: bool) -> None:
        self._running.discard(number)
        if not lasts:
            self._void = [*self._void, number][-MOST_VOID:]

    def _folder(self) -> str:
        """Where the next command is started; one whose name cannot be sent is entered by the shell itself."""
        try:
            self.cwd.encode()
        except UnicodeEncodeError:
            return ""
        return self.cwd

    async def _left_a_gone_folder(self, env: Environment) -> tuple[str, ...]:
        """Go back to the working folder when the shell's is gone, and say so."""
        folder = self._folder()
        if not folder:
            return ()
        found = await env.stat(folder)
        if found is not None and found.kind == "folder":
            return ()
        self.cwd = ""
        return (f"{folder} is gone: back in the working folder",)

    async def _exec(
        self, env: Environment, command: str, number: int, *, workdir: str, timeout: float, looks: bool
    ) -> Completed:
        data = command.encode("utf-8", "replace") if len(command) > IN_ONE_ARGUMENT // 4 else b""
        names = plain(command)
        stdin, given, word = (data, [], '"$(cat)"') if len(data) > IN_ONE_ARGUMENT else (b"", [command], '"$1"')
        values = self._values(await env.temp(), number, home=env.cwd, away=workdir != "")
        programs = (self._program,) if self._program else SHELLS
        for program in programs:
            script = self._script(program, values, number, looks=looks, names=names)
            argv = [program, "-c", script.replace(shelltext.COMMAND, word, 1), program, *given]
            try:
                done = await env.exec(argv, stdin=stdin, cwd=workdir or self._folder(), timeout=timeout)
            except EnvironmentFailure:  # there may be no bash here; any other cause fails again
                if program == programs[-1]:
                    raise
                continue
            self._program = program
            self._always_look |= program == SHELLS[1]
            self._fresh = self._fresh and bool(names)
            return done
        raise AssertionError("the last shell returns or raises")

    async def _known(self, env: Environment) -> str:
        """The shell's program, tried out if it has not run yet."""
        if not self._program:
            await self.run(env, ":", timeout=LONGEST_START)
        return self._program

    def _script(
        self, program: str, values: Mapping[str, str], number: int, *, looks: bool, names: Sequence[str] = ()
    ) -> str:
        old, sh = "", program == SHELLS[1]
        if number % shelltext.EVERY == 0:
            last = number - shelltext.KEPT
            old = " ".join(map(str, range(max(last - 2 * shelltext.EVERY, 1), last)))
        names = () if sh else names
        return shelltext.script(program, values, old=old, look=looks or sh, names=names, fresh=self._fresh)

    def _values(self, temp: str, number: int, *, home: str, away: bool) -> Mapping[str, str]:
        return {
            "STATE": shlex.quote(self._base(temp)),
            "NUMBER": str(number),
            "VOID": " ".join(map(str, [*self._void, *(self._running - {number})])),
            "AWAY": "1" if away else "",
            "HOME": shlex.quote(home),
            "KEEP": shlex.quote(self.cwd),
        }

    def _base(self, temp: str) -> str:
        return f"{temp.rstrip('/')}/.shell-{self._key}"

    async def _look(self, env: Environment, number: int) -> None:
        """Read where the command left the shell; one that did not leave its state stands where it stood."""
        try:
            data = await env.read(f"{self._base(await env.temp())}.{number}.cwd", limit=LONGEST_PATH)
        except (OSError, ValueError, EnvironmentFailure):
            return  # the shell was replaced or killed, or the environment began anew
        self.cwd = data.decode("utf-8", "surrogateescape")
        self._void = [n for n in self._void if n > number]


def plain(command: str) -> tuple[str, ...]:
    """The programs of a command that starts programs and does nothing else, so that the shell is afterwards as it was.

    Empty for all others, and where it is not certain: what expands, groups or assigns, or is a part of the shell.
    """
    bare = _QUOTED.sub("\0", command)
    words = [part.split() for part in _PARTS.split(bare)]
    names = tuple(dict.fromkeys(part[0] for part in words if part))
    if "<<" in bare or not _OPEN.isdisjoint(bare):
        return ()
    return names if all(_NAME.fullmatch(name) and not _BUILTIN.fullmatch(name) for name in names) else ()


def shell_of(ctx: ToolContext) -> Shell:
    """The shell of the session that a call belongs to."""
    found = ctx.state.get("shell")
    if not isinstance(found, Shell):
        found = ctx.state["shell"] = Shell()
    return found
