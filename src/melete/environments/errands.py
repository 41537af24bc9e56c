"""Short scripts run one after another by a shell that stays: a file step there then costs a message and not a program.

Only steps that read nothing go this way. Whoever comes while one is under way is told to go another, and so is everybody when
the shell is gone.
"""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from secrets import token_hex

from melete.core.environment import Completed, RunningProcess
from melete.core.errors import EnvironmentFailure

ENDING = 2.0
TAIL = 64
_LOOP = r"""
cd /
while [ "$#" -gt 1 ]; do eval "script_$1=\$2"; shift 2; done
nl='
'
while IFS= read -r line; do
    eval "set -- $line"
    id=$1; eval "script=\$script_$2"; shift 2
    ( eval "$script" ) </dev/null 2>&1
    printf '\n%s %s\n' "$id" "$?"
done
"""

Start = Callable[[Sequence[str]], Awaitable[RunningProcess]]


def quoted(words: Sequence[str]) -> str:
    """Words as one line that a shell reads back with `eval "set -- $line"`, where `$nl` is a line break."""
    plain = (word.replace("'", "'\\''").replace("\n", "'\"$nl\"'") for word in words)
    return " ".join(f"'{word}'" for word in plain)


class Errands:
    """A shell that knows `scripts` by name and runs them; `start` starts a program with its streams open."""

    def __init__(self, start: Start, scripts: Mapping[str, str]) -> None:
        self._start = start
        self._scripts = scripts
        self._shell: RunningProcess | None = None
        self._under_way = asyncio.Lock()

    async def run(self, name: str, words: Sequence[str], *, timeout: float, limit: int) -> Completed | None:
        """Run a script; None when that is not possible now, and nothing of it counts. Raises EnvironmentFailure as `start`."""
        if self._under_way.locked():
            return None
        async with self._under_way:
            begun = time.monotonic()
            shell = self._shell or await self._opened()
            self._shell = None  # one that does not answer is not asked again
            id = token_hex(8)
            kept = False
            try:
                async with asyncio.timeout(timeout):
                    await shell.write(os.fsencode(quoted([id, name, *words])) + b"\n")
                    found = await _answer(shell, id, limit)
                kept = found is not None
            except EnvironmentFailure:
                return None  # it ended meanwhile
            except TimeoutError:
                return Completed(code=None, output=b"", seconds=time.monotonic() - begun, timed_out=True)
            finally:
                if kept:
                    self._shell = shell
                else:
                    await shell.kill()
            if found is None:
                return None
            output, code = found
            return Completed(code=code, output=output, seconds=time.monotonic() - begun)

    async def aclose(self) -> None:
        """End the shell."""
        if self._shell is not None:
            shell, self._shell = self._shell, None
            try:
                await shell.close_stdin()
                async with asyncio.timeout(ENDING):
                    await shell.wait()
            except (EnvironmentFailure, TimeoutError):
                await shell.kill()

    async def _opened(self) -> RunningProcess:
        pairs = (word for pair in self._scripts.items() for word in pair)
        return await self._start(["sh", "-c", _LOOP, "sh", *pairs])


async def _answer(shell: RunningProcess, id: str, limit: int) -> tuple[bytes, int] | None:
    """(output, status), or None when the shell ended first or said too much."""
    mark = re.compile(rb"\n" + id.encode() + rb" (\d+)\n\Z")
    said = bytearray()
    while len(said) <= limit + TAIL:
        piece = await shell.read()
        if not piece:
            return None
        said += piece
        if found := mark.search(said, max(len(said) - TAIL, 0)):
            return bytes(memoryview(said)[: found.start()]), int(found[1])
    return None
