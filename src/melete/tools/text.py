"""Bytes into text that a model can read, and failures of files into words that it can act on."""

import codecs
import difflib
import errno
import posixpath
import re
from collections.abc import Sequence

from msgspec import Struct

from melete.core.ports import Environment, FileStat
from melete.core.tool import ToolError

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
CONTROLS = {n: None for n in range(32) if n not in (9, 10)} | {127: None}
SNIFF = 8192
SIGNATURES = (
    (b"%PDF", "PDF document"),
    (b"PK\x03\x04", "zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "ELF program"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


class TextFile(Struct, frozen=True, kw_only=True):
    """A file as text with `\\n` for line ends; `encoded` gives its bytes back in the form that it had."""

    text: str
    bom: bool = False
    crlf: bool = False

    def encoded(self, text: str) -> bytes:
        """The bytes of a new text in this file's form; bytes that were not UTF-8 stay what they were."""
        if self.crlf:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        return (codecs.BOM_UTF8 if self.bom else b"") + text.encode("utf-8", "surrogateescape")


def parse(data: bytes, path: str) -> TextFile:
    """A whole file as text; raises ToolError for a binary one."""
    if b"\0" in data[:SNIFF]:
        raise ToolError(f"{path} is a binary file ({describe(data)})", size=len(data))
    bom = data.startswith(codecs.BOM_UTF8)
    text = data[3 if bom else 0 :].decode("utf-8", "surrogateescape")
    crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
    return TextFile(text=text.replace("\r\n", "\n") if crlf else text, bom=bom, crlf=crlf)


def describe(data: bytes) -> str:
    """What kind of binary data this begins like."""
    media_type = image_type(data)
    if media_type:
        return media_type
    return next((name for start, name in SIGNATURES if data.startswith(start)), "unknown type")


def image_type(data: bytes) -> str:
    """The media type of a picture that models can see, or an empty string."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for start, media_type in IMAGES if data.startswith(start)), "")


def readable(name: str) -> str:
    """A name or text with everything in it that is no valid character written as an escape such as `\\udce9`."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def clean_output(data: bytes) -> str:
    """What a command printed, as a person would see it: no colours, no overwritten progress lines, no control characters."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return text.translate(CONTROLS)


async def need_file(env: Environment, path: str) -> FileStat:
    """What is at `path`; raises ToolError unless it is a regular file, with near names or the folder's content."""
    if not path:
        raise ToolError("path is empty")
    try:
        found = await env.stat(path)
        if found is not None and found.kind == "file":
            return found
        if found is None:
            raise await missing(env, path)
        if found.kind == "folder":
            raise ToolError(f"{path} is a folder", entries=await _names(env, path))
    except (OSError, ValueError) as error:
        raise problem(error, path) from error
    raise ToolError(f"{path} is a FIFO, socket or device, not a regular file")


async def missing(env: Environment, path: str) -> ToolError:
    """The error for a path with nothing there, with the names that come near."""
    folder, name = posixpath.split(path.rstrip("/"))
    found = await env.stat(folder or ".")
    if found is None or found.kind != "folder":
        return ToolError(f"{path} does not exist; nor does the folder {folder}")
    entries = [entry.name for entry in await env.list(folder or ".")]
    by_lower = {entry.lower(): entry for entry in entries}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.6)
    if near:
        return ToolError(f"{path} does not exist", near=[readable(posixpath.join(folder, by_lower[n])) for n in near])
    return ToolError(f"{path} does not exist", entries=[readable(entry) for entry in entries[:20]])


async def _names(env: Environment, path: str) -> Sequence[str]:
    entries = await env.list(path)
    names = [readable(entry.name) + ("/" if entry.kind == "folder" else "") for entry in entries[:50]]
    return names if len(entries) <= len(names) else [*names, f"… and {len(entries) - len(names)} more"]


def problem(error: OSError | ValueError, path: str) -> ToolError:
    """A failure of the file system in words that a model can act on."""
    if not isinstance(error, OSError):
        return ToolError(f"{readable(path)!r} is not a valid path: {error}")
    words = {
        errno.EACCES: "permission denied",
        errno.EPERM: "permission denied",
        errno.ENOENT: "does not exist",
        errno.EISDIR: "is a folder",
        errno.ENOTDIR: "a part of the path is a file, not a folder",
        errno.EROFS: "the file system is read-only",
        errno.ENOSPC: "the disk is full; nothing was changed",
        errno.ELOOP: "the links lead in a circle",
        errno.ENAMETOOLONG: "the name is too long",
    }
    reason = words.get(error.errno or 0) or error.strerror or str(error)
    return ToolError(f"{readable(path)}: {reason}")
