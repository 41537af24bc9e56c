"""What calls of Python's own functions do, as the programs that would do the same. Pure."""

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard

from msgspec import Struct

from melete.security.inner import Inner
from melete.security.words import UNKNOWN, names


class Ref(Struct, frozen=True, kw_only=True):
    """A module or what stands in one, by its full name."""

    name: str


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value is a list of values."""
    return isinstance(value, list)


def as_text(value: Any) -> str:
    """A value as text, NUL where it is unknown."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else UNKNOWN


def as_words(value: Any) -> tuple[str, ...]:
    """The items of a list as texts."""
    return tuple(map(as_text, value)) if is_list(value) else (UNKNOWN,)


class Call:
    """The arguments of one call, as values; `on` is the path whose method it is."""

    def __init__(self, values: list[Any], named: Mapping[str | None, Any], *, on: str = "") -> None:
        self.values = values
        self.named = named
        self.on = on

    def at(self, place: int, *names: str) -> str:
        """An argument as text, by its place or name; empty when it is not given."""
        for name in names:
            if name in self.named:
                return as_text(self.named[name])
        return as_text(self.values[place]) if place < len(self.values) else ""


def _command(text: str) -> list[Inner]:
    if not text.replace(UNKNOWN, "").strip():
        return [Inner(kind="opaque", text="it runs a command that cannot be told")]
    bare = text.strip().removeprefix("exec ").split()
    if (
        bare
        and posixpath.basename(bare[0]) in ("sh", "bash", "dash", "zsh", "ksh", "ash")
        and all(w[:1] == "-" and "c" not in w for w in bare[1:])
    ):
        return [Inner(kind="opaque", text="it starts a shell and gives it what cannot be told")]
    return [Inner(kind="text", text=text)]


def _shell(call: Call) -> list[Inner]:
    return _command(call.at(0, "command", "cmd", "args") or UNKNOWN)


def _argv(words: tuple[str, ...], stdin: str = "") -> list[Inner]:
    if not words or not words[0].replace(UNKNOWN, "").strip():
        return [Inner(kind="opaque", text="it runs a program that cannot be told")]
    return _command(words[0]) if len(words) == 1 and not stdin else [Inner(kind="argv", argv=words, text=stdin)]


def _process(call: Call) -> list[Inner]:
    first = call.named.get("args", call.values[0] if call.values else None)
    if "executable" in call.named or None in call.named:
        return [Inner(kind="opaque", text="it runs a program that cannot be told")]
    stdin = call.at(99, "input") if "input" in call.named else ""
    if stdin or (is_list(first) and not call.named.get("shell")):
        return _argv(as_words(first if is_list(first) else [first]), stdin)
    return _command(as_text(first[0] if is_list(first) and first else first))


def _replacing(call: Call) -> list[Inner]:
    words = [word for value in call.values for word in (value if is_list(value) else [value])]
    words = words[1:] if words and isinstance(words[0], int | Ref) else words
    return _argv((as_text(words[0] if words else None), *map(as_text, words[2:])))


def _does(*words: str, arguments: int = 1) -> Callable[[Call], list[Inner]]:
    def done(call: Call) -> list[Inner]:
        given = [call.on] if call.on else []
        given += [call.at(at, *_NAMES[at]) for at in range(arguments - len(given))]
        return [Inner(kind="argv", argv=(*words, *(text or UNKNOWN for text in given)))]

    return done


_NAMES: Final = (("path", "src", "source"), ("dst", "target", "destination"))


def _chmod(call: Call) -> list[Inner]:
    path = call.on or call.at(0, "path")
    mode = call.named.get(
        "mode", (call.values[0] if call.on else call.values[1]) if len(call.values) > (not call.on) else None
    )
    return [Inner(kind="argv", argv=("chmod", f"{mode:o}" if isinstance(mode, int) and mode >= 0 else UNKNOWN, path))]


def _kill(call: Call) -> list[Inner]:
    signal = call.values[1] if len(call.values) > 1 else None
    return [Inner(kind="argv", argv=("kill", "-0" if signal == 0 else "-9", call.at(0, "pid") or UNKNOWN))]


def _open(call: Call) -> list[Inner]:
    path = call.on or call.at(0, "file", "path") or UNKNOWN
    mode = call.named.get("mode", call.named.get("flags", "r"))
    rest = call.values if call.on else call.values[1:]
    mode = rest[0] if rest else mode
    reads = (isinstance(mode, str) and not set(mode) & set("wax+")) or mode in (0, Ref(name="os.O_RDONLY"))
    return [Inner(kind="argv", argv=("cat", path)) if reads else Inner(kind="argv", writes=(path,))]


def _writes(call: Call) -> list[Inner]:
    return [Inner(kind="argv", writes=(call.on,))]


ACTIONS: Final[Mapping[str, Callable[[Call], list[Inner]]]] = {
    **dict.fromkeys(
        names(
            "os.system os.popen subprocess.getoutput subprocess.getstatusoutput asyncio.create_subprocess_shell commands.getoutput"
            " platform.popen pexpect.run pexpect.spawn posix.system popen2.popen2"
        ),
        _shell,
    ),
    **dict.fromkeys(
        names("subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen"
            " pty.spawn os.startfile"),
        _process,
    ),
    **{
        f"os.{name}": _replacing
        for name in names(
            "execl execle execlp execlpe execv execve execvp execvpe spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp"
            " spawnvpe posix_spawn posix_spawnp"
        )
    },
    "asyncio.create_subprocess_exec": lambda call: _argv(as_words(call.values)),
    **dict.fromkeys(("os.remove", "os.unlink", "posix.unlink", "posix.remove"), _does("rm")),
    **dict.fromkeys(("os.rmdir", "os.removedirs"), _does("rmdir")), "shutil.rmtree": _does("rm", "-r"),
    "shutil.unpack_archive": lambda call: [Inner(kind="argv", argv=("tar", "-x", "-C", call.at(1, "extract_dir") or "."))],
    **dict.fromkeys(("os.rename", "os.replace", "os.renames", "shutil.move"), _does("mv", arguments=2)),
    **dict.fromkeys(("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree"), _does("cp", arguments=2)),
    **dict.fromkeys(("os.symlink", "os.link"), _does("ln", arguments=2)), "os.truncate": _does("truncate", "-s", "0"),
    **dict.fromkeys(("os.chown", "os.lchown", "shutil.chown"), _does("chown", "0")), "os.chmod": _chmod, "os.lchmod": _chmod,
    "os.kill": _kill, "os.killpg": lambda call: [Inner(kind="argv", argv=("kill", "-9", f"-{call.at(0) or UNKNOWN}"))],
    **dict.fromkeys(("builtins.open", "io.open", "io.FileIO", "codecs.open", "os.open"), _open),
}  # fmt: skip
"""What a function does, as the program that would do the same."""
METHODS: Final[Mapping[str, Callable[[Call], list[Inner]]]] = {
    "system": _shell, "popen": _shell, "getoutput": _shell, "check_output": _process, "check_call": _process, "Popen": _process,
    "create_subprocess_shell": _shell, "rmtree": _does("rm", "-r"), "unlink": _does("rm"), "rmdir": _does("rmdir"),
    "write_text": _writes, "write_bytes": _writes, "read_text": _does("cat"), "read_bytes": _does("cat"), "touch": _writes,
    "extractall": lambda call: [Inner(kind="argv", argv=("tar", "-x", "-C", call.at(0, "path") or "."))],
    "chmod": _chmod, "open": _open, "rename": _does("mv", arguments=2), "symlink_to": _does("ln", arguments=2),
}  # fmt: skip
"""The same for methods of paths, and of what is not known."""
