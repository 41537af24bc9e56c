"""Programs in a place that runs one short script at a time and gives its output back: nothing more is needed of the way there.

A program is started detached, with its output in a file there, and asked after until it has ended. So a command may take hours
over a way that cuts every request after a minute, and one request that fails does no harm to it. Input of a started program goes
line by line, as base64, through a named pipe that a small loop there reads. Everything is POSIX sh with coreutils or busybox.
"""

import base64
import os
import shlex
from collections.abc import Sequence

from msgspec import Struct

from melete.core.errors import EnvironmentFailure
from melete.environments.scripts import Greeting, greeting, kill_script, wrapped

INLINE = 20_000
"""Bytes of a program's script that travel within the request that starts it."""
LINE = 24_000
"""Bytes of input in one line of base64: with its four thirds they fit into a pipe at once."""
ROLLED = 64_000_000
"""Bytes, all of them read, after which the output of a started program there begins a new file."""
CUT = 1_000_000_000
"""Bytes beyond what is kept at which the output of a command there is cut; what comes in that moment is not counted."""

_PREPARE = r"""
umask 077
mkdir -p -- "$1" 2>/dev/null && cd -- "$1" && [ -w . ] || { echo folder; exit 0; }
for needed in setsid base64 mkfifo mktemp stat; do command -v $needed >/dev/null || { echo "lacks $needed"; exit 0; }; done
folder=$(mktemp -d "${TMPDIR:-/tmp}/melete-XXXXXX") || exit 0
mkdir "$folder/temp" && cat > "$folder/variables"
printf 'ready\n%s\n%s\n' "$folder" "$HOME"
"""
_LAUNCH = r"""
run=$1; umask 077
mkdir -p -- "${run%/*}" 2>/dev/null && [ -e "${run%/*}/variables" ] || { echo gone; exit 0; }
mkdir -p -- "$run" && : > "$run/out" || { echo full; exit 0; }
if [ -n "$2" ]; then printf %s "$2" | base64 -d > "$run/script" || { echo full; exit 0; }; fi
case $3 in
input) cat > "$run/in" || { echo full; exit 0; };;
pipe) echo 0 > "$run/taken" && echo 0 > "$run/fed" && mkfifo "$run/pipe" || { echo full; exit 0; };;
esac
case $3 in terminal) ;; *) setsid sh "$run/script" </dev/null >/dev/null 2>&1 & ;; esac
"""
_WAIT = r"""
tick() {
    ticks=$((ticks + 1))
    if [ $ticks -lt 12 ]; then sleep 0.01; elif [ $ticks -lt 60 ]; then sleep 0.05; else sleep 0.2; fi 2>/dev/null || sleep 1
    [ "$(date +%s)" -lt "$until" ]
}
size_of() { size=$(($(wc -c < "$run/out"))); }
ticks=0; until=$(($(date +%s) + seconds + 1))
[ -d "$run" ] || { echo gone; exit 0; }
"""
_FINISH = (
    r"""
run=$1; seconds=$2; head=$3; tail=$4; most=$5
"""
    + _WAIT
    + r"""
lost=0; [ ! -e "$run/lost" ] || lost=$(cat "$run/lost")
while [ ! -e "$run/code" ]; do
    size_of
    if [ $size -gt $most ]; then
        [ -e "$run/head" ] || head -c $head "$run/out" > "$run/head"
        lost=$((lost + size)); echo $lost > "$run/lost"; : > "$run/out"
    fi
    tick || break
done
size_of; total=$((lost + size)); first="$run/out"
[ ! -e "$run/head" ] || first="$run/head"
if [ ! -e "$run/code" ]; then echo "running $(head -n 1 "$first")"; exit 0; fi
echo "ended $(cat "$run/code") $total"
if [ $total -le $((head + tail)) ]; then cat "$run/out"; else head -c $head "$first"; tail -c $tail "$run/out"; fi
"""
)
_FOLLOW = (
    r"""
run=$1; seconds=$2; offset=$3; most=$4; rolled=$5
"""
    + _WAIT
    + r"""
size_of
if [ $offset -ge $rolled ] && [ $size -eq $offset ]; then : > "$run/out"; offset=0; size_of; fi
while [ ! -e "$run/code" ] && [ $size -le $offset ]; do tick || break; size_of; done
code=-; [ ! -e "$run/code" ] || code=$(cat "$run/code")
size_of
echo "$code $offset $size"
[ $size -le $offset ] || tail -c +$((offset + 1)) "$run/out" | head -c $most
"""
)
_FEED = (
    r"""
run=$1; seconds=$2; sent=$3
"""
    + _WAIT
    + r"""
if [ "$(cat "$run/fed")" -gt "$sent" ]; then echo sent; exit 0; fi # its answer was lost: it must not come twice
while [ "$(cat "$run/taken")" != "$sent" ]; do
    [ ! -e "$run/code" ] && [ ! -e "$run/shut" ] || { echo closed; exit 0; }
    tick || { echo busy; exit 0; }
done
[ ! -e "$run/code" ] && [ ! -e "$run/shut" ] || { echo closed; exit 0; }
printf '%s\n' "$4" 1<>"$run/pipe"
echo $((sent + 1)) > "$run/fed"; echo sent
"""
)
_PUT = r"""
mkdir -p -- "$1" && cat > "$1/script" || echo full
"""
_FORGET = r"""
rm -rf -- "$@"
"""
_PROGRAM = r"""
. "${run%/*}/variables"; rm -f "$run/script"
ended() { echo $? > "$run/code.new"; mv "$run/code.new" "$run/code"; }
"""
_WITH_PIPE = r"""
exec 3<>"$run/pipe" # before the program says that it runs: what nobody holds open loses what was written to it
{
    taken=0
    while IFS= read -r line <&3 && [ "$line" != . ]; do
        printf %%s "$line" | base64 -d || break
        taken=$((taken + 1)); echo $taken > "$run/taken"
    done
    : > "$run/shut"
} 2>/dev/null | { exec 3<&-; (exec setsid %s >> "$run/out" 2>&1); ended; echo . 1<>"$run/pipe"; }
"""
_WITH_TERMINAL = r"""
trap : INT QUIT HUP TERM
%s; ended
"""


class Reply(Struct, frozen=True, kw_only=True):
    """What one script there said on its standard output."""

    code: int
    output: bytes


class Prepared(Struct, frozen=True, kw_only=True):
    """A place that is ready: a private folder there and what `~` means."""

    folder: str
    home: str


class Finished(Struct, frozen=True, kw_only=True):
    """What `finish` found: `code` is None while it runs. `head` and `tail` are all of the output unless `total` is more."""

    first: bytes
    code: int | None = None
    head: bytes = b""
    tail: bytes = b""
    total: int = 0


class Followed(Struct, frozen=True, kw_only=True):
    """The next piece of output, where it ends, and the exit status once it is known."""

    data: bytes
    offset: int
    code: int | None
    more: bool


class Vanished(EnvironmentFailure):
    """The files of a program are not there any more: the place is another one than it was."""


def prepare(cwd: str) -> str:
    """The script that makes the working folder and a private one; it reads the variables from its input."""
    return _with(_PREPARE, cwd)


def prepared(reply: Reply, *, cwd: str, setting: str) -> Prepared:
    """Read what `prepare` said; raises EnvironmentFailure. `setting` is where a person names another folder."""
    match os.fsdecode(reply.output).split("\n"):
        case ["ready", folder, home, ""]:
            return Prepared(folder=folder, home=home)
        case ["folder", *_]:
            raise EnvironmentFailure(
                f"{cwd} cannot be made or written to there", next=f"set {setting} to a folder that can"
            )
        case [said, *_] if said.startswith("lacks "):
            raise EnvironmentFailure(f"the image {said}", next="choose an image with coreutils or busybox")
        case _:
            raise EnvironmentFailure(
                "the sandbox did not answer as expected: " + os.fsdecode(reply.output[:200]).strip(), next="try again"
            )


def variables(given: Sequence[tuple[str, str]]) -> bytes:
    """A script that sets these variables."""
    return os.fsencode("".join(f"export {name}={shlex.quote(value)}\n" for name, value in given))


def program(run: str, argv: Sequence[str], *, cwd: str, id: str, kind: str) -> bytes:
    """The script that runs a program there in the folder `run`; raises ValueError for a NUL character.

    `kind` says what its standard input is: `input` what was sent, `none`, `pipe` what `feed` sends, or a `terminal`.
    """
    command = shlex.join(wrapped(argv, cwd=cwd, id=id))
    start = f"run={shlex.quote(run)}" + _PROGRAM
    if kind == "pipe":
        return os.fsencode(start + _WITH_PIPE % command)
    if kind == "terminal":
        return os.fsencode(start + _WITH_TERMINAL % command)
    source = '"$run/in"' if kind == "input" else "/dev/null"
    return os.fsencode(f'{start}(exec setsid {command} < {source} >> "$run/out" 2>&1); ended\n')


def put(run: str) -> str:
    """The script that keeps its input as the script of a program, for `launch`."""
    return _with(_PUT, run)


def launch(run: str, script: bytes, *, kind: str) -> str:
    """The script that starts a program; one that is longer than `INLINE` was put to `run`/script before."""
    inline = base64.b64encode(script).decode() if len(script) <= INLINE else ""
    return _with(_LAUNCH, run, inline, kind)


def started(reply: Reply) -> None:
    """Read what `launch` said; raises EnvironmentFailure."""
    said = reply.output.decode("utf-8", "replace").strip()
    if said == "gone":
        raise Vanished("the private folder of this session is gone", next="run the command again")
    if said == "full":
        raise EnvironmentFailure("nothing can be written there", next="make room on its disk, then run it again")


def finish(run: str, *, seconds: float, limit: int) -> str:
    """The script that waits for the end of a program, at most so long, and then gives its output."""
    head = max(limit, 2) // 2 + 100  # the first line is the wrapper's
    return _with(_FINISH, run, str(int(seconds)), str(head), str(max(limit, 2) - max(limit, 2) // 2), str(limit + CUT))


def finished(reply: Reply, *, limit: int) -> Finished:
    """Read what `finish` said; raises Vanished."""
    line, _, data = reply.output.partition(b"\n")
    words = line.split(b" ", 2)
    if words[0] == b"running":
        return Finished(first=line.partition(b" ")[2])
    if words[0] != b"ended" or len(words) != 3:  # noqa: PLR2004 - ended, status, size
        raise Vanished("the command's files are gone", next="run the command again")
    first, _, rest = data.partition(b"\n")
    total = int(words[2])
    head = max(limit, 2) // 2 + 100
    if total <= len(data):
        return Finished(first=first, code=int(words[1]), head=rest, total=len(rest))
    return Finished(
        first=first,
        code=int(words[1]),
        head=data[len(first) + 1 : head],
        tail=data[head:],
        total=total - len(first) - 1,
    )


def follow(run: str, *, seconds: float, offset: int, most: int) -> str:
    """The script that gives what a program has said behind `offset`, waiting for it at most so long."""
    return _with(_FOLLOW, run, str(int(seconds)), str(offset), str(most), str(ROLLED))


def followed(reply: Reply) -> Followed:
    """Read what `follow` said; raises Vanished."""
    line, _, data = reply.output.partition(b"\n")
    words = line.decode("utf-8", "replace").split()
    if len(words) != 3:  # noqa: PLR2004 - status, offset, size
        raise Vanished("the command's files are gone", next="run the command again")
    end = int(words[1]) + len(data)
    return Followed(data=data, offset=end, code=None if words[0] == "-" else int(words[0]), more=end < int(words[2]))


def feed(run: str, data: bytes, *, sent: int, seconds: float) -> str:
    """The script that sends one line of input, once the `sent` lines before it were taken; empty ends the input."""
    return _with(_FEED, run, str(int(seconds)), str(sent), base64.b64encode(data).decode() or ".")


def forget(*paths: str) -> str:
    """The script that removes what is at these paths."""
    return _with(_FORGET, *paths)


def kill(who: Greeting, *, grace: float) -> str:
    """The script that ends a program with all that it started."""
    return shlex.join(kill_script(who, grace=grace))


def begun(first: bytes, *, id: str, argv: Sequence[str], cwd: str) -> Greeting:
    """Read the first line of a program; raises EnvironmentFailure when it could not be started."""
    return greeting(first.rstrip(b"\r"), id=id, argv=argv, cwd=cwd)


def _with(script: str, *words: str) -> str:
    return f"set -- {shlex.join(words)}\n{script}"
