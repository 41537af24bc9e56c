"""`read_file` and `write_file`, and the group that they form with `patch` and `search_files`."""

import base64
import codecs
from typing import Any

from melete.core.message import Image
from melete.core.tool import Output, ToolContext, ToolError, tool
from melete.tools.edit import patch
from melete.tools.group import Group
from melete.tools.known import TAKEN_OUT, allow, alone, need_read, need_secrets, seen, taint_of, wrote
from melete.tools.search import search_files
from melete.tools.text import SNIFF, describe, image_type, need_file, problem, readable

BLOCK = 4_000_000
LONGEST_LINE = 2_000
LONGEST_PAGE = 90_000
MOST_LINES = 5_000
COUNTED = 256_000_000
LARGEST_IMAGE = 5_000_000


class Page:
    """The lines from `offset` on (1 is the first) out of blocks of bytes; what is kept is bounded whatever the file holds."""

    def __init__(self, offset: int, limit: int) -> None:
        self.lines = 0
        self.shown: list[str] = []
        self.clipped = 0
        self.crlf = 0
        self.invalid = False
        self.full = False
        self._first = offset
        self._limit = limit
        self._open = bytearray()
        self._open_size = 0
        self._size = 0
        self._last = 0

    @property
    def next(self) -> int:
        """The number of the first line behind the page."""
        return self._first + len(self.shown)

    def feed(self, block: bytes) -> None:
        """Take the next block."""
        start = 0
        while not self.full:
            end = block.find(b"\n", start)
            if end < 0:
                self._extend(block[start:])
                return
            self._extend(block[start:end])
            self._end_line()
            start = end + 1
        self.lines += block.count(b"\n", start)
        if start < len(block):
            self._open_size = 0 if block.endswith(b"\n") else 1

    def finish(self) -> None:
        """The file is over; a last line without an end counts."""
        if self._open_size and self.full:
            self.lines += 1
        elif self._open_size:
            self._end_line()

    def _extend(self, piece: bytes) -> None:
        room = 4 * LONGEST_LINE - len(self._open)
        if room > 0 and self.lines + 1 >= self._first:
            self._open += piece[:room]
        self._open_size += len(piece)
        if piece:
            self._last = piece[-1]

    def _end_line(self) -> None:
        self.lines += 1
        if self.lines >= self._first:
            self._show()
        self._open.clear()
        self._open_size = 0

    def _show(self) -> None:
        raw = bytes(self._open)
        if self._open_size and self._last == ord("\r"):
            self.crlf += 1
            raw = raw.removesuffix(b"\r")
        whole = self._open_size <= len(self._open)
        text = raw.decode("utf-8", "replace" if whole else "ignore")
        self.invalid = self.invalid or (whole and "\ufffd" in text and b"\xef\xbf\xbd" not in raw)
        if len(text) > LONGEST_LINE:
            text = text[:LONGEST_LINE]
            whole = False
        if not whole:
            self.clipped += 1
            text += f"… [{self._open_size} bytes in this line]"
        line = f"{self.lines}|{text}"
        self.shown.append(line)
        self._size += len(line) + 1
        self.full = len(self.shown) >= self._limit or self._size >= LONGEST_PAGE


@tool(parallel=True, limit=100_000)
async def read_file(ctx: ToolContext, *, path: str, offset: int = 1, limit: int = 500) -> Output:
    """Read a text file as numbered lines (`12|text`), or look at an image (PNG, JPEG, GIF, WebP).
    offset is the first line; next_offset in the result leads on."""
    allow(ctx, path)
    stat = await need_file(ctx.env, path)
    size = stat.size
    seen(ctx, path, stat)
    page = Page(max(offset, 1), min(max(limit, 1), MOST_LINES))
    try:
        block = await ctx.env.read(path, limit=BLOCK)
        if image_type(block):
            return await _picture(ctx, path, size)
        if b"\0" in block[:SNIFF]:
            raise ToolError(f"{readable(path)} is a binary file", size=size, type=describe(block))
        bom = block.startswith(codecs.BOM_UTF8)
        position = len(block)
        page.feed(block[3:] if bom else block)
        while len(block) == BLOCK and not (page.full and position >= COUNTED):
            block = await ctx.env.read(path, offset=position, limit=BLOCK)
            position += len(block)
            page.feed(block)
    except (OSError, ValueError) as error:
        raise problem(error, path) from error
    if len(block) < BLOCK:
        page.finish()
    fields = _page(page, offset, counted=len(block) < BLOCK, size=size, bom=bom)
    return Output(fields=fields, taint=taint_of(ctx, path), source=readable(path))


def _page(page: Page, offset: int, *, counted: bool, size: int, bom: bool) -> dict[str, Any]:
    if not page.shown and offset > 1:
        raise ToolError(f"offset {offset} is behind the end: the file has {page.lines} lines", lines=page.lines)
    fields: dict[str, Any] = {"content": "\n".join(page.shown), "lines": page.lines if counted else None}
    if not counted:
        fields["size"] = size
    if not counted or page.next <= page.lines:
        fields["next_offset"] = page.next
    notes = (
        ("lines end in CRLF", page.crlf and page.crlf == len(page.shown)),
        ("some lines end in CRLF", 0 < page.crlf < len(page.shown)),
        ("begins with a byte order mark", bom),
        ("not valid UTF-8: � stands for bytes that are no text", page.invalid),
        (f"{page.clipped} long lines are cut", page.clipped),
        ("the file is empty", counted and page.lines == 0),
    )
    if said := "; ".join(note for note, holds in notes if holds):
        fields["note"] = said
    return fields


async def _picture(ctx: ToolContext, path: str, size: int) -> Output:
    if size > LARGEST_IMAGE:
        raise ToolError(f"{readable(path)} is a picture of {size} bytes; make it smaller than {LARGEST_IMAGE} first")
    data, taint = await ctx.env.read(path), taint_of(ctx, path)
    image = Image(media_type=image_type(data), data=base64.b64encode(data).decode(), taint=taint)
    fields = {"success": True, "image": image.media_type, "size": len(data)}
    return Output(fields=fields, images=(image,), taint=taint, source=readable(path))


@tool(effect="write", limit=100_000, enclosed=True)
async def write_file(ctx: ToolContext, *, path: str, content: str) -> dict[str, Any]:
    """Write a whole file; folders are made. One that exists is replaced once it was read. To change a part use patch."""
    if not path:
        raise ToolError("path is empty")
    allow(ctx, path, write=True)
    async with alone(ctx, path):
        return await _write(ctx, path, content)


async def _write(ctx: ToolContext, path: str, content: str) -> dict[str, Any]:
    try:
        data = content.encode()
        before = await ctx.env.stat(path)
        if before is not None and before.kind != "file":
            await need_file(ctx.env, path)
        if before is not None and not (before.size == len(data) and await ctx.env.read(path) == data):
            need_read(ctx, path, before)
            if TAKEN_OUT in data:
                need_secrets(path, before=await ctx.env.read(path), data=data)
        await ctx.env.write(path, data)
        seen(ctx, path, await ctx.env.stat(path))
        wrote(ctx, path)
    except UnicodeEncodeError as error:
        raise ToolError(f"content holds half a character at {error.start}; nothing was written") from error
    except (OSError, ValueError) as error:
        raise problem(error, path) from error
    return {"success": True, "path": readable(path), "bytes": len(data), "created": before is None}


class FileTools(Group):
    """Reading, writing, editing and searching files."""

    name = "file"
    tools = (read_file, write_file, patch, search_files)
