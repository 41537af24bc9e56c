"""Files and the end of programs on a machine that has nothing but a POSIX shell with coreutils or busybox.

An environment that reaches elsewhere mixes in `ScriptedFiles`, which does every step with `exec` of a small script there, and
starts programs through `wrapped`, whose first line of output tells where the program runs, so that `kill_script` finds all
that descends from it. Paths travel as plain ASCII (`escaped`), so a way there that only carries text carries every name.
"""

import asyncio
import errno
import os
import posixpath
import re
import stat
from collections.abc import Sequence
from secrets import token_hex
from typing import Any, Literal, Protocol

from msgspec import Struct

from melete.core.environment import Completed, Entry, FileStat
from melete.core.errors import EnvironmentFailure
from melete.environments.errands import Errands, quoted

ASKED_OFTEN = {"read", "stat", "list", "remove", "rename"}
BLOCK = 1 << 16
FIRST = 1 << 20
PIECE = 1 << 24
ATTEMPTS = 3
ROOM = 4_000
NAMES = 1 << 26
SECONDS = 60.0
PER_SECOND = 250_000  # bytes that the slowest way there is given a second for
LONGEST_WORD, ALL_WORDS, POINTER = 131_072, 1_900_000, 8  # what Linux takes, less some room for variables
PLAIN = re.compile(r"[^A-Za-z0-9_./ ~:=@,+-]")
ROW = re.compile(rb"(?:\A|\n)([0-9a-f]+) (\d+) \./")

_WORDS = {os.strerror(number): number for number in errno.errorcode} | {
    "Filename too long": errno.ENAMETOOLONG,
    "Symbolic link loop": errno.ELOOP,
    "Quota exceeded": errno.EDQUOT,
    "Resource busy": errno.EBUSY,
    "I/O error": errno.EIO,
    "Directory nonexistent": errno.ENOENT,
    "nonexistent directory": errno.ENOENT,
    "No such file": errno.ENOENT,
    "not a regular file": errno.EINVAL,
}
"""What the programs there say after the last colon, in the C locale of the common systems."""

_KINDS: dict[int, Literal["file", "folder", "link", "other"]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
}

_START = r"""
LC_ALL=C; export LC_ALL
fail() { printf '%s\n' "melete: $1"; exit 64; }
plain() { plain=$(printf '%b_' "$1"); plain=${plain%_}; }
describe() {
    found=$(stat -L -c '%f %s %d:%i' -- "$1" 2>&1) || { printf '%s\n' "$found"; exit 64; }
    mode=${found%% *}; rest=${found#* }; size=${rest%% *}; identity=${rest#* }
}
only_file() { [ ! -d "$1" ] || fail 'Is a directory'; [ -f "$1" ] || fail 'not a regular file'; }
folder_of() { folder=${1%/*}; folder=${folder:-/}; }
make_folder() {
    [ -d "$1" ] || mkdir -p -- "$1" 2>/dev/null || [ -d "$1" ] || { said=$(mkdir -p -- "$1" 2>&1); printf '%s\n' "$said"; exit 64; }
}
plain "$1"; path=$plain
"""
_READ = r"""
describe "$path"; only_file "$path"
[ -r "$path" ] || fail 'Permission denied'
printf '%s %s\n' "$identity" "$size"
dd if="$path" bs=65536 skip="$2" 2>/dev/null | head -c "$3"
"""
_WRITE = r"""
target=$path; before=; new=
links=0
while [ -L "$target" ]; do
    links=$((links + 1)); [ "$links" -le 40 ] || fail 'Too many levels of symbolic links'
    next=$(readlink -n -- "$target" && printf _) || fail 'Permission denied'
    next=${next%_}
    case $next in /*) target=$next;; *) folder_of "$target"; target=${folder%/}/$next;; esac
done
folder_of "$target"
if [ -e "$target" ]; then
    only_file "$target"
    [ -w "$target" ] || fail 'Permission denied'
    before=$(stat -c '%u:%g %a' -- "$target") || exit 64
else
    case $target in */) fail 'Is a directory';; esac
    make_folder "$folder"
fi
new=${folder%/}/.$2.new
trap 'rm -f -- "$new"' EXIT; trap 'exit 64' HUP INT TERM
( [ -z "$before" ] || umask 077; set -C; cat > "$new" ) || exit 64
[ "$(stat -c %s -- "$new")" = "$3" ] || fail 'Input/output error'
if [ -n "$before" ]; then
    chown "${before% *}" "$new" 2>/dev/null # only an administrator may give files away; the content matters
    chmod "${before#* }" "$new" || exit 64
fi
mv -f -- "$new" "$target" || exit 64
"""
_STAT = r"""
found=$(stat -L -c '%f %s %Y %y' -- "$path" 2>&1) || { printf '%s\n' "$found"; exit 64; }
printf '%s\n' "$found"
"""
_LIST = r"""
describe "$path"
[ -d "$path" ] || fail 'Not a directory'
[ -r "$path" ] && [ -x "$path" ] && cd -- "$path" 2>/dev/null || fail 'Permission denied'
command -v find >/dev/null || fail 'find is not installed there'
find . ! -name . -prune -exec stat -c '%f %s %n' -- {} + 2>/dev/null
exit 0
"""
_REMOVE = r"""
found=$(stat -c %f -- "$path" 2>&1) || { printf '%s\n' "$found"; exit 64; }
[ -L "$path" ] || [ ! -d "$path" ] || fail 'Is a directory'
rm -f -- "$path" || exit 64
"""
_RENAME = r"""
plain "$2"; to=$plain
found=$(stat -c %f -- "$path" 2>&1) || { printf '%s\n' "$found"; exit 64; }
[ "$path" != "$to" ] || exit 0
folder_of "$to"; make_folder "$folder"
if [ -d "$to" ]; then
    if [ -L "$to" ]; then rm -f -- "$to" || exit 64
    elif [ -L "$path" ] || [ ! -d "$path" ]; then fail 'Is a directory'
    else rmdir -- "$to" || exit 64; fi
elif [ -e "$to" ] && [ -d "$path" ] && [ ! -L "$path" ]; then fail 'Not a directory'
fi
mv -f -- "$path" "$to" || exit 64
"""
_TEMP = r"""
mktemp -d "${TMPDIR:-/tmp}/melete-XXXXXX"
"""
_REMOVE_TEMP = r"""
rm -rf -- "$path"
"""

FILE_STEPS = {
    name: _START + script
    for name, script in {
        "read": _READ, "write": _WRITE, "stat": _STAT, "list": _LIST, "remove": _REMOVE, "rename": _RENAME, "temp": _TEMP,
        "remove_temp": _REMOVE_TEMP,
    }.items()
}  # fmt: skip
"""The script of each step; its arguments are `escaped`."""

_WRAPPER = r"""
id=$1; cwd=$2; shift 2
say() { printf '%s %s\n' "$id" "$1"; }
cd -- "$cwd" 2>/dev/null || { say folder; exit 127; }
found=
case $1 in
*/*) found=$1;;
?*) set -f; IFS=:
    for part in $PATH; do
        part=${part:-.}/$1
        [ ! -f "$part" ] || { found=$part; [ ! -x "$part" ] || break; }
    done
    unset IFS; set +f;;
esac
[ -n "$found" ] && [ -e "$found" ] || { say missing; exit 127; }
[ -f "$found" ] && [ -x "$found" ] || { say denied; exit 126; }
born() { set -- ${line##*) }; birth=${20}; }
line=; birth=-
[ ! -r /proc/$$/stat ] || { read -r line < /proc/$$/stat; born; }
say "$$ $birth"
exec "$@" 2>&1
"""
_WAITING = r"""
born() { set -- ${line##*) }; birth=${20}; }
line=; birth=-
[ ! -r /proc/$$/stat ] || { read -r line < /proc/$$/stat; born; }
printf '%s %s\n' "$1" "$$ $birth"
IFS= read -r line || exit 0
nl='
'
eval "set -- $line"
"""
_KILL = r"""
root=$1; birth=$2; ticks=$3; known=' '; me=$$
look() {
    rows=
    for seen in /proc/[0-9]*; do
        line=
        { while read -r more || [ -n "$more" ]; do line="$line $more"; done < "$seen/stat"; } 2>/dev/null
        [ -n "$line" ] || continue
        set -- "${seen#/proc/}" ${line##*) }
        case $2 in Z|X) ;; *) rows="$rows $1:$3:$4:$5:${21}";; esac
    done
    found=' '; grew=1
    while [ -n "$grew" ]; do
        grew=
        for row in $rows; do
            IFS=:; set -- $row; unset IFS
            case $found in *" $1 "*) continue;; esac
            [ "$1" != "$me" ] || continue
            if [ "$1" = "$root" ]; then [ "$5" = "$birth" ] || exit 0
            elif [ "$3" != "$root" ] && [ "$4" != "$root" ]; then
                case "$known$found" in *" $1:$5 "* | *" $2 "*) ;; *) continue;; esac
            fi
            found="$found$1 "; known="$known$1:$5 "; grew=1
        done
    done
    [ "$found" != ' ' ]
}
send() { kill "-$1" "-$root" 2>/dev/null; kill "-$1" $found 2>/dev/null; }
if [ "$birth" = - ] || [ ! -r /proc/$$/stat ]; then
    kill -TERM "-$root" 2>/dev/null; kill -CONT "-$root" 2>/dev/null
    while [ "$ticks" -gt 0 ] && kill -0 "-$root" 2>/dev/null; do sleep 0.05 2>/dev/null || sleep 1; ticks=$((ticks - 1)); done
    kill -KILL "-$root" 2>/dev/null
    exit 0
fi
look || exit 0
send TERM; send CONT
while [ "$ticks" -gt 0 ]; do
    sleep 0.05 2>/dev/null || sleep 1
    look || exit 0
    ticks=$((ticks - 1))
done
send KILL
look && send KILL
exit 0
"""


class Greeting(Struct, frozen=True, kw_only=True):
    """What a wrapped program said first: where it runs. `birth` is `-` where the system does not tell."""

    pid: int
    birth: str


class Runs(Protocol):
    """An environment as far as `ScriptedFiles` needs it."""

    @property
    def cwd(self) -> str:
        """The working folder, absolute."""
        ...

    async def exec(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str = "", timeout: float = 180.0, limit: int = 1_000_000
    ) -> Completed:
        """Run a program there."""
        ...


def escaped(text: str) -> str:
    """Any text as plain ASCII for `printf %b` there; raises ValueError for a NUL character."""
    if "\0" in text:
        raise ValueError("embedded null byte")
    return PLAIN.sub(lambda found: "".join(f"\\0{byte:03o}" for byte in os.fsencode(found.group())), text)


def wrapped(argv: Sequence[str], *, cwd: str, id: str) -> list[str]:
    """The command that runs `argv` in `cwd` there; its first line of output is for `greeting`, the rest the program's own.

    Both streams of the program become one, in order. Raises ValueError for a NUL character, EnvironmentFailure for more than a
    system takes.
    """
    check_words((*argv, cwd))
    return ["sh", "-c", _WRAPPER, "sh", id, cwd, *argv]


def waiting(id: str) -> list[str]:
    """The command that says a greeting, waits for one `order` as the first line of its input, and becomes what that says.

    The program then gives a greeting of its own, and reads what follows the order.
    """
    return ["sh", "-c", _WAITING + _WRAPPER, "sh", id]


def order(argv: Sequence[str], *, cwd: str, id: str) -> bytes:
    """What a `waiting` command is told so that it runs `argv` in `cwd`. Raises as `wrapped` does."""
    check_words((*argv, cwd))
    return os.fsencode(quoted([id, cwd, *argv])) + b"\n"


def check_words(words: Sequence[str]) -> None:
    """Raise ValueError for words that no program can be given, EnvironmentFailure for more of them than a system takes."""
    total = 0
    for word in words:
        if "\0" in word:
            raise ValueError("embedded null byte")
        size = len(os.fsencode(word)) + 1
        total += size + POINTER
        if size > LONGEST_WORD or total > ALL_WORDS:
            raise EnvironmentFailure(
                "the command could not be started: it is longer than the system takes",
                next="write what is long into a file, or send it as input",
            )


def greeting(line: bytes, *, id: str, argv: Sequence[str], cwd: str) -> Greeting:
    """Read the first line of a wrapped program; raises EnvironmentFailure when the program could not be started."""
    named = argv[0] if argv else "an empty command"
    match line.decode("utf-8", "replace").split():
        case [said, pid, birth] if said == id and pid.isdigit():
            return Greeting(pid=int(pid), birth=birth)
        case [said, "folder"] if said == id:
            what, fix = f"the working folder {cwd} does not exist", "name a folder that exists in the environment"
            raise EnvironmentFailure(what, next=fix)
        case [said, "missing"] if said == id:
            raise EnvironmentFailure(f"{named} could not be started: No such file or directory")
        case [said, "denied"] if said == id:
            raise EnvironmentFailure(f"{named} could not be started: Permission denied")
        case _:
            reason = line.decode("utf-8", "replace").strip() or "it ended before it said anything"
            raise EnvironmentFailure(f"{named} could not be started: {reason}")


def kill_script(who: Greeting, *, grace: float) -> list[str]:
    """The command that asks the whole tree of a wrapped program to end and forces it after `grace` seconds.

    It returns when everything is gone; what has made itself a session of its own and lost its parent is not found.
    """
    return ["sh", "-c", _KILL, "sh", str(who.pid), who.birth, str(max(round(grace * 20), 1))]


class ScriptedFiles:
    """The file steps of an `Environment` through its own `exec`. `home` is what `~` means there, when it is known.

    With `errands` the steps that read nothing are run by a shell that stays; whoever sets it closes it.
    """

    home = ""
    errands: Errands | None = None
    _temp_made = ""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._making_temp = asyncio.Lock()

    async def read(self: Runs, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        """Bytes of a regular file; raises OSError, for a folder, a FIFO or a device as well."""
        at = located(self, path)
        for _ in range(ATTEMPTS):
            data = await _read_pieces(self, at, path=path, offset=offset, limit=limit)
            if data is not None:
                return data
        raise OSError(errno.EAGAIN, "the file is replaced all the time while it is read", path)

    async def write(self: Runs, path: str, data: bytes) -> None:
        """Replace a file atomically; its mode and the links that lead to it stay, folders on the way are made."""
        at = located(self, path, last=True)
        await run_script(self, "write", (at, token_hex(6), str(len(data))), path=path, stdin=data)

    async def stat(self: Runs, path: str) -> FileStat | None:
        """What is there, links followed, or None."""
        try:
            found = await run_script(self, "stat", (located(self, path),), path=path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        mode_text, size, whole, shown = found.decode().split(" ", 3)
        fraction = re.search(r"\.(\d+)", shown)
        mode = int(mode_text, 16)
        return FileStat(
            kind="file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other",
            size=int(size),
            mtime=float(f"{whole}.{fraction[1] if fraction else 0}"),
            mode=stat.S_IMODE(mode),
        )

    async def list(self: Runs, path: str) -> Sequence[Entry]:
        """The names in a folder, sorted."""
        found = await run_script(self, "list", (located(self, path),), path=path, limit=NAMES)
        starts = list(ROW.finditer(found))
        ends = [row.start() for row in starts[1:]] + [len(found) - 1] * bool(starts)
        return sorted(
            (_entry(row, found[row.end() : end]) for row, end in zip(starts, ends, strict=True)),
            key=lambda entry: entry.name,
        )

    async def remove(self: Runs, path: str) -> None:
        """Remove a file, or a link."""
        await run_script(self, "remove", (located(self, path),), path=path)

    async def rename(self: Runs, path: str, to: str) -> None:
        """Move a file, replacing what is there; folders on the way are made."""
        await run_script(self, "rename", (located(self, path), located(self, to)), path=path)

    async def temp(self) -> str:
        """A folder of the temporary ones there, for this session alone."""
        async with self._making_temp:
            if not self._temp_made:
                made = await run_script(self, "temp", ("",), path="the temporary folder")  # pyright: ignore[reportArgumentType]
                self._temp_made = os.fsdecode(made).rstrip("\n")
            return self._temp_made

    async def remove_temp(self) -> None:
        """Remove what `temp` made; raises OSError or EnvironmentFailure when the place is not to be reached any more."""
        if self._temp_made:
            made, self._temp_made = self._temp_made, ""
            await run_script(self, "remove_temp", (made,), path=made)  # pyright: ignore[reportArgumentType]


def located(env: Runs, path: str, *, last: bool = False) -> str:
    """`path` as an absolute one there; with `last` a slash at its end stays, since it names a folder."""
    if "\0" in path:
        raise ValueError("embedded null byte")
    home = getattr(env, "home", "")
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    whole = posixpath.normpath(posixpath.join(env.cwd, path))
    whole = "/" + whole.lstrip("/")
    return f"{whole}/" if last and path.endswith("/") and whole != "/" else whole


async def run_script(
    env: Runs, name: str, words: Sequence[str], *, path: str, stdin: bytes = b"", limit: int = ROOM
) -> bytes:
    """Do one of `FILE_STEPS` there, with `words` as its arguments; raises OSError of the right kind for `path`."""
    given = [escaped(word) for word in words]
    timeout = SECONDS + (len(stdin) + limit) / PER_SECOND
    errands: Errands | None = getattr(env, "errands", None)
    done = None
    if errands is not None and name in ASKED_OFTEN:
        done = await errands.run(name, given, timeout=timeout, limit=limit + ROOM)
    if done is None:
        argv = ["sh", "-c", FILE_STEPS[name], "sh", *given]
        done = await env.exec(argv, stdin=stdin, cwd="/", timeout=timeout, limit=limit + ROOM)
    if done.timed_out:
        raise OSError(errno.ETIMEDOUT, f"no answer within {timeout:.0f} seconds", path)
    if done.code:
        raise _error(done, path)
    if done.dropped:
        raise OSError(errno.EOVERFLOW, "too much to be told", path)
    return done.output


def _error(done: Completed, path: str) -> OSError:
    lines = done.output.decode("utf-8", "replace").strip().splitlines()
    said = lines[-1].rpartition(": ")[2] if lines else f"the script there ended with status {done.code}"
    number = _WORDS.get(said, errno.EIO)
    number = errno.ENOTDIR if number == errno.EEXIST else number  # a file stands where a folder is needed
    known = said if number in {errno.EIO, errno.EINVAL} else os.strerror(number)
    return OSError(number, known, path)


async def _read_pieces(env: Runs, at: str, *, path: str, offset: int, limit: int) -> bytes | None:
    """The bytes, or None when the file was replaced between two pieces."""
    pieces: list[bytes] = []
    before, got = b"", 0
    while limit < 0 or got < limit:
        room = PIECE if pieces else FIRST
        wanted = room if limit < 0 else min(limit - got, PIECE)
        skip, cut = divmod(offset + got, BLOCK)
        words = (at, str(skip), str(cut + wanted))
        found = await run_script(env, "read", words, path=path, limit=cut + wanted + ROOM)
        head, _, data = found.partition(b"\n")
        identity, _, size = head.partition(b" ")
        if before and identity != before:
            return None
        before, piece = identity, data[cut:]
        pieces.append(piece)
        got += len(piece)
        if len(piece) < wanted:
            if offset + got < int(size):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _entry(row: re.Match[bytes], name: bytes) -> Entry:
    mode = int(row[1], 16)
    kind = _KINDS.get(stat.S_IFMT(mode), "other")
    return Entry(name=os.fsdecode(name), kind=kind, size=int(row[2]) if kind == "file" else 0)
