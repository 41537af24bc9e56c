"""Searching files with ripgrep, where the environment has it."""

import re
from collections.abc import Sequence

from melete.core.errors import EnvironmentFailure
from melete.core.ports import Completed, Environment
from melete.core.tool import ToolError
from melete.tools.found import Found, Wanted
from melete.tools.globs import fits

SECONDS = 60.0
OUTPUT = 8_000_000
MISSING = (126, 127)
FAILED = 2
COMMON = (
    "rg", "--no-config", "--hidden", "--no-require-git", "--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot",
    "--no-messages", "--color=never", "--sort=path", "--glob=!.git", "--null", "--crlf",
)  # fmt: skip
SHOWN = ("--line-number", "--no-heading", "--max-columns=2000", "--max-columns-preview")
LINE = re.compile(r"(\d+)([:-])(.*)", re.DOTALL)
BINARY = re.compile(r"(.*): (?:WARNING: stopped searching binary file|binary file matches)")


async def search(env: Environment, folder: str, name: str, wanted: Wanted) -> list[Found] | None:
    """Lines that match below `folder`, or in its file `name`; None where there is no ripgrep. Raises ToolError."""
    glob = wanted.glob.rpartition("/")[2]
    kinds = [f"--type-add=wanted:{glob}", "--type=wanted"] if glob and _simple(glob) else []
    how = ["--count"] if wanted.counts else [*SHOWN, f"--max-count={wanted.most}", f"--context={wanted.context}"]
    what = ["--with-filename", "--engine=auto", f"--regexp={wanted.pattern}", "--", f"./{name}" if name else "."]
    done = await _run(env, [*COMMON, *kinds, *how, *what], folder)
    if done is None:
        return None
    text = done.output.decode("utf-8", "replace")
    if done.code == FAILED and "\0" not in text and text.strip():
        raise ToolError(f"not a regular expression: {text.strip()[:500]}")
    found = _counts(text) if wanted.counts else _lines(text)
    return [line for line in found if name or not wanted.glob or fits(wanted.glob, line.path)]


async def files(env: Environment, folder: str, wanted: Wanted) -> Sequence[str] | None:
    """Files below `folder` that nothing ignores and that fit the glob; None where there is no ripgrep."""
    done = await _run(env, [*COMMON, "--files", "--", "."], folder)
    if done is None:
        return None
    paths = (path.removeprefix("./") for path in done.output.decode("utf-8", "surrogateescape").split("\0"))
    return [path for path in paths if path and (not wanted.glob or fits(wanted.glob, path))]


def _simple(glob: str) -> bool:
    """Whether ripgrep, which looks at names only here, understands the glob as `fits` does."""
    return "*" in glob and "**" not in glob and not set(glob) & set("[]{}\\,")


async def _run(env: Environment, argv: Sequence[str], folder: str) -> Completed | None:
    try:
        done = await env.exec(argv, cwd=folder, timeout=SECONDS, limit=OUTPUT)
    except EnvironmentFailure:
        return None
    if done.timed_out:
        raise ToolError(f"the search took longer than {SECONDS:g} s; name a smaller path or a file_glob")
    return None if done.code in MISSING else done


def _counts(text: str) -> list[Found]:
    rows = (line.partition("\0") for line in text.split("\n"))
    return [Found(path=path.removeprefix("./"), number=int(n), text="") for path, _, n in rows if n.strip().isdecimal()]


def _lines(text: str) -> list[Found]:
    found: list[Found] = []
    binary: set[str] = set()
    for line in text.split("\n"):
        path, separated, rest = line.partition("\0")
        shape = LINE.fullmatch(rest) if separated else None
        if shape is not None:
            found.append(
                Found(
                    path=path.removeprefix("./"),
                    number=int(shape[1]),
                    text=shape[3].removesuffix("\r"),
                    match=shape[2] == ":",
                )
            )
        elif warned := BINARY.match(line):
            binary.add(warned[1].removeprefix("./"))
    return [line for line in found if line.path not in binary] if binary else found
