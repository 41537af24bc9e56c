"""What a person approves of a shell command is what runs: its text, its folder, and copies of the scripts that it names. Layer 2.

Between a yes and the call, somebody may change a script or lead the folder's name elsewhere. So scripts are read before the
question and written anew from the bytes that the question was about; and the command begins with a check that it stands in the
folder that was asked about. A copy lies in the private temporary folder of the environment; that of a script which may look for
what lies round it stands beside the original, under a name that nobody can guess, until the command has ended. What the scripts
read themselves is not covered.
"""

import logging
import re
import shlex
from collections.abc import AsyncGenerator, Iterator
from pathlib import PurePosixPath
from secrets import token_hex
from typing import Any

from msgspec import Struct, structs

from melete.core.environment import SEALED, Environment
from melete.core.errors import EnvironmentFailure
from melete.core.tool import Act, Refused
from melete.security.syntax import parsed
from melete.security.unwrap import basename, inner
from melete.security.visible import digest
from melete.security.words import UNKNOWN, names
from melete.security.wrappers import LANGUAGES, SHELLS

log = logging.getLogger("melete.approvals")
LARGEST = 20_000_000
BOUND = re.compile(
    r"PATH|LD_\w+|DYLD_\w+|BASH_\w+|ENV|SHELLOPTS|IFS|CDPATH|PYTHON\w*|VIRTUAL_ENV|NODE_\w+|NPM_CONFIG_\w+|PERL5\w*|RUBY\w*"
    r"|GEM_\w+|GIT_\w+|JAVA_TOOL_OPTIONS|CLASSPATH|HOME|SUDO_\w+|DOCKER_HOST|KUBECONFIG|AWS_PROFILE|EDITOR|PAGER"
)
"""Variables that decide what a command runs, or against what; a grant holds for their values of that time."""
TOLD = re.compile(
    r"LD_\w+|DYLD_\w+|BASH_ENV|ENV|IFS|\w+(?:OPTIONS|OPT|LIB|STARTUP|HOOK)|PYTHON(?:PATH|HOME)"
    r"|GIT_(?:SSH|EXEC|CONFIG)\w*|\(.*"
)
"""Those of them that a question tells of where they are set: hardly anybody needs them."""
LOOK = r"""POSIXLY_CORRECT=1
\unset -f declare alias 2>/dev/null
\export -p 2>/dev/null
\alias -p 2>/dev/null
\declare -f 2>/dev/null"""
"""In POSIX mode no function stands before `export` and `unset`, so a session cannot hide what it has changed."""
_EXPORT = re.compile(r'export (\w+)(?:=("(?:[^"\\]|\\.)*"|\$\'(?:[^\'\\]|\\.)*\'|[^\s"]*))?\n', re.DOTALL)
_LITERAL = re.compile(r"""(?:'[^']*'|"[^"$`\\]*"|\\[^\n]|[^\s;&|()<>'"`$\\#*?{}\[\]~!])+""")
_PASSING = names(
    "coproc sudo doas env timeout exec nice ionice nohup command builtin time stdbuf setsid chrt taskset flock strace"
)
"""Programs that run the command behind them here, in the same folder."""
_SOURCING = names("source .")
_NO_SCRIPT = names("emacs sqlite3 gdb lldb gimp")
"""Interpreters whose operands are data."""
_NO_FILE = {True: re.compile(r"-\w*[cs]\w*|-"), False: re.compile(r"-\w*m|--?|eval")}
"""Behind what a shell, and another interpreter, is given no script."""
_BETWEEN = " \t\n;&|()<>`"
_MOVES = names("cd pushd popd")
_ASIDE = names("subshell command_substitution process_substitution pipeline")
"""What changes the folder only inside."""
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/nix/", "/snap/", "/dev/", "/proc/")
"""Where programs lie that a session's own user cannot change."""
_SHELL = re.compile(rb"#![^\n]*\b(?:ba|da|z|k|mk|a)?sh\b")
_LOOKS_ROUND = re.compile(rb"\$0|\$\{0|BASH_SOURCE|\$\{?\(%|\bFPATH\b")
"""How a shell script asks where it lies."""
ANYBODY = 0o002
OLD = ("-type", "f", "-perm", "500", "-mmin", "+1440")
"""A copy that a crash has left: it is a day old, and interpreters have read theirs long before."""


class Script(Struct, frozen=True, kw_only=True):
    """A script that a command names between `start` and `end`: as it is written, and the bytes that it holds now."""

    start: int
    end: int
    word: str
    data: bytes

    @property
    def looks_round(self) -> bool:
        """Whether it may look for what lies beside it: whatever is no shell script, and those that ask for their own name."""
        shell = self.word.endswith(".sh") or _SHELL.match(self.data)
        return not shell or _LOOKS_ROUND.search(self.data) is not None


class Ready(Struct, frozen=True, kw_only=True):
    """A command's text that runs what was looked at, or nothing; the files of `beside` are to be removed when it has ended."""

    text: str
    beside: tuple[str, ...] = ()


class Sealed(Struct, frozen=True, kw_only=True):
    """What a command would run, as it is now; `surroundings` is None where they could not be found out.

    `place` names the folder in words, `standing` also by its number on the disk, which no other folder has.
    """

    act: Act
    place: str = ""
    standing: str = ""
    scripts: tuple[Script, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    surroundings: str | None = None

    @property
    def bound(self) -> tuple[str, ...] | None:
        """All that a grant of this command is bound to beside its arguments; None where that is not known whole."""
        if self.surroundings is None or not self.standing:
            return None
        return (self.place, self.surroundings, *(f"{s.word} {digest(s.data)}" for s in self.scripts))

    @property
    def notes(self) -> Iterator[str]:
        """What a person should know of it beside the command."""
        for script in self.scripts:
            yield f"{script.word} runs as a sealed copy: {len(script.data):,} bytes, sha256 {digest(script.data)}"
        for name, value in self.variables:
            if TOLD.fullmatch(name):
                yield f"with {name}={value}"


async def look(env: Environment, act: Act) -> Sealed:
    """What the command would run now; raises Refused for a script that is too large to be sealed."""
    place = await _standing(env, act.cwd)
    found = [script async for script in _scripts(env, act)]
    sealed = Sealed(act=act, place=place[1], standing=place[0], scripts=tuple(sorted(found, key=lambda one: one.start)))
    printed = (await act.probe(LOOK)).decode("utf-8", "surrogateescape")
    if not printed:
        return sealed
    variables, at = list[tuple[str, str]](), 0
    while line := _EXPORT.match(printed, at):
        variables.append((line[1], line[2] or ""))
        at = line.end()
    bound = tuple(sorted(pair for pair in variables if BOUND.fullmatch(pair[0])))
    shell = printed[at:]
    if shell.strip():
        bound = (*bound, ("(aliases and functions of this session)", digest(shell)))
    return structs.replace(sealed, variables=bound, surroundings=digest(repr(bound)))


async def seal(env: Environment, sealed: Sealed, *, detached: bool = False) -> Ready:
    """Write the copies and say what is to be run; a `detached` command, which nobody waits for, removes them itself."""
    if not sealed.standing:
        raise Refused(f"The folder {sealed.act.cwd} could not be looked at, so nothing was run. Name another workdir.")
    text, beside = sealed.act.command, list[str]()
    for script in reversed(sealed.scripts):
        path = await _beside(env, script, sealed.place) if script.looks_round else ""
        if path:
            beside.append(path)
        else:
            path = await _apart(env, script)
        text = f"{text[: script.start]}{shlex.quote(path)}{text[script.end :]}"
    gone = "the folder of this command is another one than when it was approved: nothing was run"
    check = f'"$(\\command ls -di . && \\command pwd -P)" = {shlex.quote(sealed.standing)}'
    ending = f"\n_code=$?; \\command rm -f -- {shlex.join(beside)}; \\exit $_code" if detached and beside else ""
    return Ready(
        text=f"[ {check} ] || {{ \\command echo {shlex.quote(gone)} >&2; \\exit 126; }}\n{text}{ending}",
        beside=() if detached else tuple(beside),
    )


async def unseal(env: Environment, ready: Ready) -> None:
    """Remove the copies that stand beside their originals; one that is gone already is no trouble."""
    for path in ready.beside:
        try:
            await env.remove(path)
        except (OSError, EnvironmentFailure) as error:
            log.debug("a sealed copy is not there any more: %s", error)


async def _beside(env: Environment, script: Script, place: str) -> str:
    """A copy in the script's own folder; empty where none can be made, or where everybody could change it."""
    folder = str(PurePosixPath(place, script.word).parent)
    path = f"{folder}/.sealed-{token_hex(8)}-{PurePosixPath(script.word).name}"
    try:
        found = await env.stat(folder)
        if found is None or found.mode & ANYBODY:
            return ""
        await env.exec(["find", folder, "-maxdepth", "1", "-name", SEALED, *OLD, "-delete"], timeout=30)
        await env.write(path, script.data)
    except (OSError, EnvironmentFailure):
        return ""  # it cannot be written there: the copy lies apart
    return path if await _closed(env, path) else ""


async def _apart(env: Environment, script: Script) -> str:
    """A copy in the private temporary folder; raises Refused."""
    folder = f"{(await env.temp()).rstrip('/')}/.sealed-{token_hex(8)}"
    path = f"{folder}/{PurePosixPath(script.word).name}"
    await env.write(path, script.data)
    if not await _closed(env, path, folder):
        raise Refused(f"A sealed copy of {script.word} could not be made, so nothing was run. Try it again.")
    return path


async def _closed(env: Environment, *paths: str) -> bool:
    """Whether nobody but the owner may read and run them now, and nobody write."""
    return (await env.exec(["chmod", "0500", *paths], timeout=30)).code == 0


async def _standing(env: Environment, cwd: str) -> tuple[str, str]:
    """The folder by number and real name, and by real name alone; empty where it cannot be told."""
    try:
        done = await env.exec(["sh", "-c", "ls -di . && pwd -P"], cwd=cwd, timeout=30)
    except (EnvironmentFailure, OSError):
        return "", ""
    text = done.output.decode("utf-8", "surrogateescape").rstrip("\n")
    return (text, text.partition("\n")[2]) if done.code == 0 else ("", "")


async def _scripts(env: Environment, act: Act) -> AsyncGenerator[Script]:
    done: set[int] = set()
    for start, end, word, program in named(act.command):
        path = str(PurePosixPath(act.cwd, word))
        if program in done or path.startswith(_SYSTEM):
            continue
        try:
            found = await env.stat(path)
            if found is None or found.kind != "file":
                continue
            if found.size > LARGEST:
                raise Refused(
                    f"{word} has {found.size:,} bytes, too many to seal what would be approved. Do it without."
                )
            data = await env.read(path, limit=LARGEST)
        except (OSError, ValueError):
            continue  # the command cannot read it either
        done.add(program)
        yield Script(start=start, end=end, word=word, data=data)


def named(command: str) -> Iterator[tuple[int, int, str, int]]:
    """Words of a command that may name a script: where each stands, its path from the command's folder, its program's number.

    These are the operands of an interpreter, of which the first that is a file is its script, and a program with a slash in
    its name. What is made of variables or patterns, or stands in a text for another shell, is not looked into.
    """
    data, root = command.encode("utf-8", "replace"), parsed(command)
    waiting: list[Any] = [root] if root is not None else []
    folder = ""
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            folder = node
            continue
        if node.type in _ASIDE:
            waiting.append(folder)
        waiting += reversed(node.named_children)
        if node.type != "command":
            continue
        found = [*_parts(node)]
        words = [word for _, _, word in found]
        if words[:1] and words[0] in _MOVES:
            folder = str(PurePosixPath(folder, words[-1])) if words[1:] else UNKNOWN
        for at in _operands(words):
            start, end = (len(data[:place].decode("utf-8", "replace")) for place in found[at][:2])
            beside = command[max(start - 1, 0) : start] + command[end : end + 1]
            if UNKNOWN not in folder + words[at] and not beside.strip(_BETWEEN):
                yield start, end, str(PurePosixPath(folder, words[at])), node.start_byte


def _parts(node: Any) -> Iterator[tuple[int, int, str]]:
    """The words of one command with their places in bytes; NUL for one that is not literal."""
    parts = list(node.named_children)
    for other in node.parent.children_by_field_name("redirect"):
        for field, others in (("destination", 1), ("argument", 0)):  # where the grammar has words behind a redirection
            parts += other.children_by_field_name(field)[others:]
    for part in parts:
        if part.type not in ("variable_assignment", "file_redirect", "herestring_redirect"):
            text = part.text.decode("utf-8", "replace")
            yield part.start_byte, part.end_byte, "".join(shlex.split(text)) if _LITERAL.fullmatch(text) else UNKNOWN


def _operands(words: list[str]) -> Iterator[int]:
    """Which of the words may name the script that runs, behind what only passes it on."""
    at = 0
    while at < len(words):
        name, rest = basename(words[at]), words[at + 1 :]
        further = inner(words[at], rest, "", {})
        passed = next((one.argv for one in further if one.argv and name in _PASSING), ())
        if not passed or tuple(words[-len(passed) :]) != passed:
            break
        at = len(words) - len(passed)
    else:
        return
    if name in SHELLS or name in _SOURCING or (name in LANGUAGES and name not in _NO_SCRIPT):
        if any(one.kind in ("code", "opaque") for one in further) and "-f" not in rest:
            return
        for place, word in enumerate(rest, at + 1):
            if _NO_FILE[name in SHELLS].fullmatch(word):
                return
            if word[:1] not in ("-", ""):
                yield place
    elif "/" in words[at]:
        yield at
