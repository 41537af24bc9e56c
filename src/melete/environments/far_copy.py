"""The copy of a folder in another place, through nothing but `exec` of small scripts there: sh, find, stat, dd and tar.

Each call carries a few megabytes, so nothing is held in memory whole. What arrives there is put down beside the copy first and
moved into place when it is complete.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from secrets import token_hex

from melete.core.environment import Completed
from melete.core.errors import EnvironmentFailure
from melete.environments import manifest, parcels
from melete.environments.manifest import Found, Listing
from melete.environments.scripts import Runs

PIECE = 8 << 20
BLOCK = 1 << 16
NAMES = 30_000
MOST_NAMES = 500
SECONDS = 600.0
LISTING = 256 << 20
SPARE = 4 << 20

BEGIN = r"""
mkdir -p -- "$1/{MARK}" && cd -- "$1" && rm -rf {MARK}/in {MARK}/big || exit 1
find {OURS}* -prune -mtime +1 -exec rm -rf -- {} + 2>/dev/null
exit 0
"""
"""What was left there by sessions that were killed goes after two days."""
END = 'rm -rf -- "$1/{MARK}"'
PUT = r"""
cd -- "$1" && mkdir -p {MARK} && rm -rf {MARK}/in && mkdir {MARK}/in && cd {MARK}/in || exit 1
tar -xof - || { cd ..; rm -rf in; exit 1; }
find . -type d -exec sh -c 'cd ../..; mkdir -p -- "$@"' sh {} +
find . -type d -exec sh -c '
    root=$1; shift
    for d; do (
        cd -- "$d" || exit; set --
        for f in * .[!.]* ..?*; do
            if [ -h "$f" ] || { [ -e "$f" ] && [ ! -d "$f" ]; }; then set -- "$@" "./$f"; fi
        done
        [ $# -gt 0 ] || exit
        mv -f -- "$@" "$root/$d/" 2>/dev/null && exit
        for f; do
            [ -h "$root/$d/$f" ] || [ ! -d "$root/$d/$f" ] || rmdir -- "$root/$d/$f" 2>/dev/null
            [ ! -e "$f" ] && [ ! -h "$f" ] || mv -f -- "$f" "$root/$d/" 2>/dev/null
        done
    ) done' sh "$1" {} +
cd ..; rm -rf in
"""
ADD = 'cd -- "$1" && mkdir -p {MARK} && cat >> {MARK}/big'
SETTLE = r"""
cd -- "$1" || exit 1
[ "$(wc -c < {MARK}/big)" -eq "$3" ] || { rm -f {MARK}/big; exit 1; }
chmod "$4" {MARK}/big && TZ=UTC0 touch -t "$5" {MARK}/big || exit 1
case $2 in */*) mkdir -p -- "${2%/*}" || exit 1;; esac
[ ! -d "$2" ] || [ -h "$2" ] || rmdir -- "$2" || exit 1
mv -f -- {MARK}/big "$2"
"""
TAKE = 'cd -- "$1" || exit 1; shift; tar -cf - -- "$@" 2>/dev/null; exit 0'
PART = r"""
cd -- "$1" || exit 1
if stat -c %f / >/dev/null 2>&1; then stat -c '%s %y' -- "$2"; else stat -f '%z %Fm' -- "$2"; fi
dd if="$2" bs=65536 skip="$3" count=128 2>/dev/null
"""
FOLDERS = 'cd -- "$1" || exit 1; shift; mkdir -p -- "$@" 2>/dev/null; exit 0'
REMOVE = r"""
cd -- "$1" || exit 1
shift
for f; do if [ -d "$f" ] && [ ! -h "$f" ]; then rmdir -- "$f"; else rm -f -- "$f"; fi; done 2>/dev/null
exit 0
"""


class FarCopy:
    """The copy at `folder` in `env`; every step raises EnvironmentFailure when it could not be done."""

    def __init__(self, env: Runs, folder: str) -> None:
        self._env = env
        self.folder = folder
        self._mark = f"{manifest.OURS}-{token_hex(4)}"

    async def begin(self) -> None:
        """Make the folder if it is missing, and mark it as a copy."""
        await self._run(BEGIN, self.folder)

    async def end(self) -> None:
        """Take the mark away."""
        await self._run(END, self.folder)

    async def listing(self, skip: Sequence[str]) -> Listing | None:
        """What it holds; None when the folder is not there."""
        token = token_hex(8)
        argv = manifest.listing_argv(self.folder, token, self._mark, skip)
        done = await self._env.exec(argv, cwd="/", timeout=SECONDS, limit=LISTING)
        return manifest.told(done, token, self.folder)

    async def take(self, wanted: Mapping[str, Found]) -> tuple[dict[str, parcels.Taken], list[str]]:
        """Small files and links: (what came, names of what was refused)."""
        room = sum(found.size + 2_048 for found in wanted.values()) + SPARE
        argv = ["sh", "-c", TAKE, "sh", self.folder, *_dotted(wanted)]
        done = await self._env.exec(argv, cwd="/", timeout=SECONDS, limit=room)
        if done.code != 0 or (wanted and not done.output):
            raise _failure("read", done)
        return ({}, []) if done.dropped else parcels.unpack(done.output, wanted)

    async def parts(self, path: str, found: Found) -> AsyncIterator[bytes]:
        """The bytes of a large file, piece by piece; it ends early when the file is changed meanwhile."""
        for start in range(0, found.size, PIECE):
            argv = ["sh", "-c", PART, "sh", self.folder, f"./{path}", str(start // BLOCK)]
            done = await self._env.exec(argv, cwd="/", timeout=SECONDS, limit=PIECE + SPARE)
            if done.code != 0:
                raise _failure("read", done)
            stamp, _, data = done.output.partition(b"\n")
            if stamp.decode("utf-8", "replace") != found.stamp:
                return
            yield data

    async def put(self, archive: bytes) -> None:
        """Put what an archive holds in place."""
        await self._run(PUT, self.folder, stdin=archive)

    async def add(self, data: bytes) -> None:
        """One more piece of the large file that is on its way."""
        await self._run(ADD, self.folder, stdin=data)

    async def settle(self, path: str, found: Found, touched: str) -> None:
        """Put the large file in place; `touched` is its time as touch takes it, in UTC."""
        await self._run(SETTLE, self.folder, f"./{path}", str(found.size), f"{found.mode:o}", touched)

    async def folders(self, paths: Sequence[str]) -> None:
        """Make folders."""
        for some in batches(paths):
            await self._run(FOLDERS, self.folder, *_dotted(some))

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove files, links and empty folders, in this order."""
        for some in batches(paths):
            await self._run(REMOVE, self.folder, *_dotted(some))

    async def _run(self, script: str, *words: str, stdin: bytes = b"") -> bytes:
        script = script.replace("{MARK}", self._mark).replace("{OURS}", manifest.OURS)
        done = await self._env.exec(["sh", "-c", script, "sh", *words], stdin=stdin, cwd="/", timeout=SECONDS)
        if done.code != 0:
            raise _failure("written", done)
        return done.output


def batches(paths: Sequence[str]) -> list[list[str]]:
    """The same paths in groups that fit into one command."""
    made: list[list[str]] = []
    room = 0
    for path in paths:
        size = len(path.encode("utf-8", "surrogateescape")) + 4
        if not made or size > room or len(made[-1]) == MOST_NAMES:
            made.append([])
            room = NAMES
        made[-1].append(path)
        room -= size
    return made


def _dotted(paths: "Sequence[str] | Mapping[str, Found]") -> list[str]:
    return [f"./{path}" for path in paths]


def _failure(what: str, done: Completed) -> EnvironmentFailure:
    lines = done.output.decode("utf-8", "replace").strip().splitlines()
    reason = "no answer in time" if done.timed_out else lines[-1][:200] if lines else f"status {done.code}"
    return EnvironmentFailure(
        f"files could not be {what} there: {reason}",
        kept="both copies are whole; what had arrived stays",
        next="check the room and the rights there, and that tar is installed",
    )
