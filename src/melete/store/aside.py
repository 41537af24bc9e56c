"""What was wrong with a log, kept beside it: bytes that are no record are set aside once and never thrown away.

Part of the store. The file `<session>.damaged` has one JSON object a line: offset, what, and the bytes in base64.
"""

import base64
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from melete.store.disk import open_regular, read_regular, write_all


class Finding(Struct, frozen=True, kw_only=True):
    """Something wrong at `offset` of a log; `raw` are the bytes in question."""

    what: str
    offset: int
    raw: bytes = b""
    harmless: bool = True

    @property
    def key(self) -> tuple[int, str, int]:
        """What tells findings of one log apart."""
        return self.offset, self.what, zlib.crc32(self.raw)

    @property
    def text(self) -> str:
        """One sentence for a person."""
        size = f", {len(self.raw)} bytes" if self.raw else ""
        return f"{self.what} (at byte {self.offset}{size})"


class _Entry(Struct, frozen=True, kw_only=True):
    offset: int
    what: str
    bytes: str = ""
    harmless: bool = False


def aside_path(log: Path) -> Path:
    """Where the log's damaged bytes are kept."""
    return log.with_suffix(".damaged")


def keep_aside(log: Path, findings: Sequence[Finding]) -> list[Finding]:
    """Write down what is new among the findings and return it; raises OSError."""
    if not findings:
        return []
    path = aside_path(log)
    known = {finding.key for finding in kept(path)}
    new = [finding for finding in findings if finding.key not in known]
    if not new:
        return []
    data = b"\n" + b"".join(
        msgspec.json.encode(
            _Entry(
                offset=finding.offset,
                what=finding.what,
                bytes=base64.b64encode(finding.raw).decode(),
                harmless=finding.harmless,
            )
        )
        + b"\n"
        for finding in new
    )
    handle = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        write_all(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)
    return new


def kept(path: Path) -> list[Finding]:
    """What was set aside before, oldest first."""
    try:
        lines = read_regular(path).splitlines()
    except FileNotFoundError:
        return []
    found: list[Finding] = []
    for line in lines:
        try:
            entry = msgspec.json.decode(line, type=_Entry)
            raw = base64.b64decode(entry.bytes, validate=True)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError):
            continue  # a line cut by a crash: its finding is written again
        found.append(Finding(what=entry.what, offset=entry.offset, raw=raw, harmless=entry.harmless))
    return found
