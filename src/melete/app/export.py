"""Sessions as files for other homes and for people: JSON lines, Markdown, one page of HTML. Part of the composition root.

A file is written beside its place and put there whole, for its owner alone. Secrets are taken out of everything but exact lines.
"""

import gzip
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from msgspec import Struct

from melete import __version__
from melete.app.text_file import replacing
from melete.app.wire import Melete
from melete.core.errors import SessionNotFoundError, StorageError, UsageError
from melete.core.event import Fact
from melete.core.plugin import Lazy
from melete.core.session import SessionRef, Which
from melete.store.exchange import redacted, written

Format = Literal["jsonl", "md", "html"]
PAGE = 500
"""Rows that are asked for at once."""
PIECE = 1 << 20
"""Bytes that are gathered before they are written."""

_read: Lazy[Callable[..., Any]] = Lazy("melete.app.export_turns:read")
_READABLE: Mapping[str, Lazy[Callable[..., str]]] = {
    "md": Lazy("melete.app.export_markdown:markdown"),
    "html": Lazy("melete.app.export_html:html"),
}


class Form(Struct, frozen=True, kw_only=True):
    """How sessions are written; `exact` JSON lines are byte for byte, `full` leaves nothing out of what people read."""

    format: Format = "jsonl"
    exact: bool = False
    full: bool = False


class Exported(Struct, kw_only=True):
    """What was written; `gone` are sessions that were deleted meanwhile."""

    sessions: int = 0
    facts: int = 0
    bytes: int = 0
    gone: int = 0
    seconds: float = 0.0
    path: str = ""


async def chosen(app: Melete, names: Sequence[str], which: Which | None) -> list[SessionRef]:
    """The sessions that are named, or all that the filter leaves in, the oldest first; raises SessionNotFoundError."""
    refs = [await app.store.find(name) for name in names]
    offset = 0
    found: list[SessionRef] = []
    while which is not None:
        rows = await app.store.list(which=which, limit=PAGE, offset=offset)
        found += [SessionRef(id=row.id, owner=row.owner) for row in rows]
        offset += len(rows)
        if len(rows) < PAGE:
            break
    return list(dict.fromkeys([*refs, *sorted(found, key=lambda ref: ref.id)]))


class Export:
    """Writes sessions one after the other; `result` is up to date at any time."""

    def __init__(self, app: Melete, form: Form, *, on_progress: Callable[[int], None] | None = None) -> None:
        self.result = Exported()
        self._app = app
        self._form = form
        self._on_progress = on_progress

    async def to_stream(self, refs: Sequence[SessionRef], write: Callable[[bytes], object]) -> None:
        """Write all sessions with `write`, which gets whole lines."""
        began = time.monotonic()
        for ref in refs:
            facts = await self._facts(ref)
            for piece in _gathered(self._lines(ref, facts)) if facts else ():
                write(piece)
                self.result.bytes += len(piece)
            self.result.seconds = round(time.monotonic() - began, 3)

    async def to_file(self, refs: Sequence[SessionRef], path: Path, *, force: bool) -> None:
        """Write all sessions into one file, packed where its name ends in `.gz`.

        Raises UsageError when there is one and `force` does not say otherwise, StorageError with nothing left behind.
        """
        with _new_file(path, force=force) as file:
            await self.to_stream(refs, file.write)
        self.result.path = str(path)

    async def to_folder(self, refs: Sequence[SessionRef], folder: Path, *, force: bool) -> None:
        """Write each session into a file of its own, named by its id; raises as `to_file` does, before anything is written."""
        began = time.monotonic()
        paths = {ref: folder / f"{ref.id}.{self._form.format}" for ref in refs}
        for path in paths.values():
            _check_free(path, force=force)
        for ref, path in paths.items():
            gone = self.result.gone
            await self.to_file([ref], path, force=force)
            if self.result.gone > gone:
                path.unlink()
        self.result.path = str(folder)
        self.result.seconds = round(time.monotonic() - began, 3)

    async def _facts(self, ref: SessionRef) -> Sequence[Fact]:
        """The session's facts, none when it is gone by now."""
        try:
            facts = await self._app.store.facts(ref)
        except SessionNotFoundError:
            self.result.gone += 1
            return ()
        self.result.sessions += 1
        self.result.facts += len(facts)
        if self._on_progress:
            self._on_progress(self.result.sessions)
        return facts

    def _lines(self, ref: SessionRef, facts: Sequence[Fact]) -> Iterator[bytes]:
        form, redact = self._form, self._app.redact
        if form.format == "jsonl":
            clean = None if form.exact else redact
            yield from written(facts, ref.id, redact=clean, version=__version__, now=self._app.clock.now())
            return
        page = _read.load()([redacted(fact, redact) for fact in facts], ref.id)
        yield _READABLE[form.format].load()(page, full=form.full).encode("utf-8", "replace")


def _gathered(lines: Iterator[bytes]) -> Iterator[bytes]:
    held, size = list[bytes](), 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= PIECE:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


@contextmanager
def _new_file(path: Path, *, force: bool) -> Generator[BinaryIO]:
    _check_free(path, force=force)
    try:
        with replacing(path) as descriptor, open(descriptor, "wb", closefd=False) as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6) as packed:
                    yield cast("BinaryIO", packed)
            else:
                yield file
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}", kept="nothing was changed there", next="check the path"
        ) from error


def _check_free(path: Path, *, force: bool) -> None:
    """Raises UsageError for a place that something has already; only a file may be replaced, and only with `force`."""
    if path.exists() and not (force and path.is_file()):
        hint = "choose another name, or pass --force" if path.is_file() else "choose another name"
        raise UsageError(f"{path} exists already", kept="it was not touched", next=hint)
