"""The multi-file patch format that models know (`*** Begin Patch`): its parser, and one hunk applied to lines. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from melete.core.tool import ToolError
from melete.tools.fuzzy import STAGES, Key, find, nearest, reindent

BEGIN = "*** Begin Patch"
END = "*** End Patch"
END_OF_FILE = "*** End of File"
MOVE = "*** Move to: "
HEADS: dict[str, Literal["update", "add", "delete"]] = {
    "*** Update File: ": "update",
    "*** Add File: ": "add",
    "*** Delete File: ": "delete",
}


class Hunk(Struct, frozen=True, kw_only=True):
    """Lines with their mark (space, `+` or `-`); `header` is the text behind `@@`, `at_end` pins it to the end."""

    lines: tuple[str, ...]
    header: str = ""
    at_end: bool = False
    number: int = 0

    @property
    def old(self) -> list[str]:
        """What must be there."""
        return [line[1:] for line in self.lines if line[0] != "+"]


class FileChange(Struct, frozen=True, kw_only=True):
    """What shall become of one file."""

    kind: Literal["update", "add", "delete"]
    path: str
    move: str = ""
    hunks: tuple[Hunk, ...] = ()
    content: str = ""


def parse(patch: str) -> list[FileChange]:
    """The changes that a patch asks for; raises ToolError that names the line."""
    lines = patch.replace("\r\n", "\n").split("\n")
    if BEGIN in lines:
        lines = lines[lines.index(BEGIN) + 1 :]
    if END in lines:
        lines = lines[: lines.index(END)]
    changes = [_change(head, body) for head, body in _sections(lines)]
    if not changes:
        raise ToolError(f"the patch names no file; begin with {BEGIN}, then *** Update File: PATH (or Add, or Delete)")
    paths = [path for change in changes for path in (change.path, change.move) if path]
    if twice := next((path for path in paths if paths.count(path) > 1), ""):
        raise ToolError(f"the patch names {twice} twice; put its hunks under one heading")
    return changes


def _sections(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    head, body = "", list[str]()
    for line in lines:
        if any(line.startswith(start) for start in HEADS):
            if head:
                yield head, body
            head, body = line, []
        elif head:
            body.append(line)
        elif line.strip() and not line.startswith("```"):
            raise ToolError(f"the patch holds {line[:80]!r} before the first *** Update File: line")
    if head:
        yield head, body


def _change(head: str, body: list[str]) -> FileChange:
    start = next(start for start in HEADS if head.startswith(start))
    kind, path = HEADS[start], head[len(start) :].strip()
    if not path:
        raise ToolError(f"{head.strip()!r} names no path")
    if kind == "add":
        return FileChange(kind=kind, path=path, content=_content(path, body))
    move = ""
    if body and body[0].startswith(MOVE):
        move = body.pop(0)[len(MOVE) :].strip()
    hunks = tuple(_hunks(path, body)) if kind == "update" else ()
    if kind == "update" and not hunks and not move:
        raise ToolError(f"the patch changes nothing in {path}")
    return FileChange(kind=kind, path=path, move=move, hunks=hunks)


def _content(path: str, body: list[str]) -> str:
    while body and not body[-1].strip():
        body.pop()
    wrong = next((line for line in body if not line.startswith("+")), None)
    if wrong is not None:
        raise ToolError(f"{path}: each line of a new file begins with +, not {wrong[:80]!r}")
    return "".join(line[1:] + "\n" for line in body)


def _hunks(path: str, body: Sequence[str]) -> Iterator[Hunk]:
    header, lines, at_end, number = "", list[str](), False, 0
    for line in [*body, "@@"]:
        if line.startswith("@@"):
            if lines := _trimmed(lines):
                number += 1
                yield Hunk(lines=tuple(lines), header=header, at_end=at_end, number=number)
            header, lines, at_end = _header(line), [], False
        elif line.strip() == END_OF_FILE:
            at_end = True
        elif not line:
            lines.append(" ")
        elif line[0] in " +-":
            lines.append(line)
        else:
            raise ToolError(f"{path}: a line of a hunk begins with space, + or -, not {line[:80]!r}")


def _header(line: str) -> str:
    text = line[2:].strip()
    if text.startswith("-") and "@@" in text:  # `@@ -1,4 +1,5 @@ def f():` of a usual diff: the numbers are of no use
        return text.partition("@@")[2].strip()
    return text.removesuffix("@@").strip()


def _trimmed(lines: list[str]) -> list[str]:
    """Without the blank lines at the end that only separate it from what follows."""
    while lines and lines[-1] == " ":
        lines.pop()
    return lines if any(line[0] != " " for line in lines) else []


def apply(text: str, change: FileChange) -> str:
    """The file's text after the hunks of `change`; raises ToolError that names the hunk and shows what comes near."""
    ended = text.endswith("\n") or not text
    lines = text.removesuffix("\n").split("\n") if text else []
    cursor = 0
    for hunk in change.hunks:
        cursor = _apply(lines, hunk, cursor, change.path)
    return "\n".join(lines) + ("\n" if ended and lines else "")


def _apply(lines: list[str], hunk: Hunk, cursor: int, path: str) -> int:
    """Apply one hunk in place and return the line behind it."""
    begin = _behind_header(lines, hunk, cursor, path)
    if not hunk.old:
        place = begin if hunk.header and not hunk.at_end else len(lines)
        lines[place:place] = [line[1:] for line in hunk.lines]
        return place + len(hunk.lines)
    place, key = _place(lines, hunk, begin, path)
    there = lines[place : place + len(hunk.old)]
    made = _made(hunk, there, exact=key is None)
    lines[place : place + len(there)] = made
    return place + len(made)


def _made(hunk: Hunk, there: Sequence[str], *, exact: bool) -> list[str]:
    """The new lines: kept ones as the file has them, added ones indented as the file is."""
    made: list[str] = []
    old, at = hunk.old, 0
    for line in hunk.lines:
        if line[0] == "+":
            # The lines just above say best how the indentation that was quoted relates to the file's.
            nearest_first = [*range(at - 1, -1, -1), *range(at, len(old))]
            wanted, real = [old[n] for n in nearest_first], [there[n] for n in nearest_first]
            made.append(line[1:] if exact else reindent([line[1:]], wanted=wanted, there=real)[0])
            continue
        if line[0] == " ":
            made.append(there[at])
        at += 1
    return made


def _behind_header(lines: Sequence[str], hunk: Hunk, cursor: int, path: str) -> int:
    if not hunk.header:
        return cursor
    goal = hunk.header.strip()
    for start in (cursor, 0):
        for number in range(start, len(lines)):
            if lines[number].strip() == goal:
                return number + 1
    for number in range(cursor, len(lines)):
        if goal in lines[number]:
            return number + 1
    raise ToolError(f"{path}: hunk {hunk.number}: no line {goal!r}", near=nearest(lines, [goal]))


def _place(lines: Sequence[str], hunk: Hunk, begin: int, path: str) -> tuple[int, Key | None]:
    exact: tuple[Key | None, ...] = (None, *(key for _, key in STAGES))
    for start in (begin, 0) if begin and not hunk.header else (begin,):
        for key in exact:
            places = find(lines, hunk.old, key or str, start=start)
            if hunk.at_end:
                places = [place for place in places if place + len(hunk.old) == len(lines)]
            if len(places) > 1 and not hunk.header:
                raise ToolError(
                    f"{path}: hunk {hunk.number} fits in {len(places)} places; add context lines or @@ with the line above",
                    lines=[place + 1 for place in places[:20]],
                )
            if places:
                return places[0], key
    raise ToolError(f"{path}: hunk {hunk.number} does not fit", near=nearest(lines, hunk.old))
