"""Writing to standard output and standard error so that a closed pipe, an odd encoding or a full disk is no traceback."""

import os
import re
import sys
from typing import TextIO

from melete.core.errors import MeleteError

# Control characters, ends of lines that are none, marks that turn the direction of writing round, and halves of pairs.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class ReaderLeft(Exception):
    """Whoever read standard output has closed it; the command ends with status 0."""


def out(text: str) -> None:
    """Write to standard output at once. Raises ReaderLeft when it is closed, MeleteError when it cannot be written."""
    try:
        _write(sys.stdout, text)
    except BrokenPipeError as error:
        forget(sys.stdout)
        raise ReaderLeft from error
    except OSError as error:
        forget(sys.stdout)
        raise MeleteError(f"standard output cannot be written: {error.strerror}", next="check where it goes") from error


def out_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are, whatever its encoding; raises as `out` does."""
    stream = sys.stdout
    if stream is None or stream.closed:  # the process was started without it
        return
    try:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
    except BrokenPipeError as error:
        forget(stream)
        raise ReaderLeft from error
    except OSError as error:
        forget(stream)
        raise MeleteError(f"standard output cannot be written: {error.strerror}", next="check where it goes") from error


def err(text: str) -> None:
    """Write to standard error at once; nobody can be told when that fails, so nothing is raised."""
    try:
        _write(sys.stderr, text)
    except OSError:
        forget(sys.stderr)


def forget(stream: TextIO | None) -> None:
    """Send a stream that failed to nowhere, so that the interpreter's last flush does not fail again."""
    if stream is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None or stream.closed:  # the process was started without it
        return
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def visible(text: str) -> str:
    """The text without what would move a terminal's cursor, change its colours or hide other text."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def one_line(text: str) -> str:
    """The text on one line, safe to show."""
    return visible(" ".join(text.split()))
