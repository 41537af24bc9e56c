"""Searching files without ripgrep, through any environment, with the results that ripgrep would give."""

import asyncio
import posixpath
import re
from collections.abc import AsyncIterator, Iterator, Sequence

from melete.core.ports import Environment
from melete.core.tool import ToolError
from melete.tools.found import Found, Wanted
from melete.tools.globs import Rule, fits, ignored, rules

LARGEST = 50_000_000
TRIED = 20_000  # characters of a line that are looked at
NESTED = re.compile(r"\((?:\?[:P<\w>]*)?[^()]*[+*}][^()]*\)\s*[+*{]")
BYTE_ORDER = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
Layers = tuple[tuple[str, Sequence[Rule]], ...]


async def search(env: Environment, root: str, wanted: Wanted) -> list[Found]:
    """Lines that match, with context lines marked as such, files in the order of their paths."""
    pattern = expression(wanted.pattern)
    found: list[Found] = []
    async for path in files(env, root, wanted):
        try:
            data = await env.read(posixpath.join(root, path) if path else root, limit=LARGEST)
        except OSError:  # unreadable, or it went away: ripgrep goes on as well
            continue
        found += _matches(data, path, pattern, wanted)
        await asyncio.sleep(0)
    return found


def expression(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled; raises ToolError that names the place of a mistake, or for one that could run for ever."""
    try:
        made = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(f"not a regular expression: {error}") from error
    if NESTED.search(pattern):
        raise ToolError("a repetition inside a repetition may run for ever without ripgrep; write it simpler")
    return made


def _matches(data: bytes, path: str, pattern: re.Pattern[str], wanted: Wanted) -> Iterator[Found]:
    encoding = BYTE_ORDER.get(data[:2], "")
    if not encoding and b"\0" in data:
        return
    data = data[2:] if encoding else data.removeprefix(b"\xef\xbb\xbf")
    text = data.decode(encoding or "utf-8", "replace")
    lines = text.removesuffix("\n").split("\n") if text else []
    hits = [n for n, line in enumerate(lines) if pattern.search(line.removesuffix("\r")[:TRIED])][: wanted.most]
    if wanted.counts:
        yield from [Found(path=path, number=len(hits), text="")] if hits else []
        return
    near = {n for hit in hits for n in range(max(hit - wanted.context, 0), min(hit + wanted.context + 1, len(lines)))}
    matching = set(hits)
    for n in sorted(near):
        yield Found(path=path, number=n + 1, text=lines[n].removesuffix("\r"), match=n in matching)


async def files(env: Environment, root: str, wanted: Wanted) -> AsyncIterator[str]:
    """Files below `root` that nothing ignores and that fit the glob, relative to it; the empty path is `root` itself."""
    at = await env.stat(root)
    if at is not None and at.kind == "file":
        yield ""
        return
    above = await _above(env, root)
    async for path in _walk(env, root, "", above):
        if not wanted.glob or fits(wanted.glob, path):
            yield path


async def _above(env: Environment, root: str) -> tuple[str, Layers]:
    """The rules of the folders above `root`, up to the top of its repository, and the path from there to `root`."""
    inner = ""
    layers: list[tuple[str, Sequence[Rule]]] = []
    here = posixpath.normpath(posixpath.join(env.cwd, root))
    while here != "/" and await env.stat(posixpath.join(here, ".git")) is None:
        here, name = posixpath.split(here)
        inner = posixpath.join(name, inner) if inner else name
        layers.insert(0, (here, await _rules(env, here)))
    top = here
    return inner, tuple((posixpath.relpath(folder, top).removeprefix("."), found) for folder, found in layers if found)


async def _rules(env: Environment, folder: str) -> Sequence[Rule]:
    path = posixpath.join(folder, ".gitignore")
    try:
        found = await env.stat(path)
        if found is None or found.kind != "file":
            return ()
        return rules((await env.read(path, limit=1_000_000)).decode("utf-8", "replace"))
    except OSError:
        return ()


async def _walk(env: Environment, root: str, folder: str, above: tuple[str, Layers]) -> AsyncIterator[str]:
    inner, layers = above
    here = posixpath.join(root, folder) if folder else root
    try:
        entries = await env.list(here)
    except OSError:
        return
    if any(entry.name == ".gitignore" for entry in entries):
        layers = (*layers, (posixpath.join(inner, folder).rstrip("/"), await _rules(env, here)))
    for entry in entries:
        path = posixpath.join(folder, entry.name)
        if entry.name == ".git" or entry.kind not in ("file", "folder"):
            continue
        if ignored(posixpath.join(inner, path), folder=entry.kind == "folder", layers=layers):
            continue
        if entry.kind == "file":
            yield path
            continue
        async for below in _walk(env, root, path, (inner, layers)):
            yield below
