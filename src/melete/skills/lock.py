"""What was installed from elsewhere: from where, which bytes, what the scan said and who agreed; and what was done, in lines."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from melete.core.errors import StorageError
from melete.security.paths import wrong_id
from melete.skills.versions import put_file

FOLDER: Final = ".hub"
SCHEMA: Final = 1
DIGEST = re.compile(r"[0-9a-f]{64}")
TAIL: Final = 1 << 20
"""Bytes of the audit log that are read to show its end."""


class Locked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An installed skill: `source` is where it is fetched again, `revision`, `version` and `files` what was fetched there.

    `listed` is the version that it gives itself; `accepted` the one which a person took in spite of the scan's caution.
    """

    source: str
    kind: str
    revision: str = ""
    version: str
    listed: str = ""
    files: Mapping[str, str]
    verdict: str
    findings: tuple[Mapping[str, Any], ...] = ()
    accepted: str = ""
    installed: str
    updated: str = ""


class _File(Struct, frozen=True, kw_only=True):
    schema: int = SCHEMA
    skills: dict[str, Locked] = {}


class Lock:
    """The lock file and the audit log of a home's folder of skills. Whoever writes holds the lock of that folder."""

    def __init__(self, skills: Path) -> None:
        self._file = skills / FOLDER / "lock.json"
        self._log = skills / FOLDER / "audit.log"

    def read(self) -> Mapping[str, Locked]:
        """What is installed, by name; raises StorageError for a file that cannot be read, which is not replaced."""
        try:
            found = msgspec.json.decode(self._file.read_bytes(), type=_File)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            raise StorageError(
                f"{self._file} cannot be read: {error}", kept="it was not touched", next="mend it, or move it away"
            ) from error
        if wrong := next((name for name, one in found.skills.items() if wrong_id(name) or not _plain(one)), None):
            raise StorageError(
                f"{self._file} holds an entry that Melete does not write: {wrong[:80]!r}",
                kept="it was not touched", next="mend it, or move it away",
            )  # fmt: skip
        return found.skills

    def put(self, name: str, entry: Locked | None) -> None:
        """Store what is known of a skill, or nothing any more; raises StorageError."""
        skills = {**self.read(), name: entry}
        kept = _File(skills={name: one for name, one in sorted(skills.items()) if one is not None})
        try:
            put_file(self._file, msgspec.json.format(msgspec.json.encode(kept), indent=1))
        except OSError as error:
            raise StorageError(f"{self._file} cannot be written: {error.strerror}", kept="it is as it was") from error

    def note(self, **fields: Any) -> None:
        """Add a line to the audit log; raises StorageError."""
        line = msgspec.json.encode(fields) + b"\n"
        try:
            self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"{self._log} cannot be written: {error.strerror}") from error

    def audit(self, limit: int) -> list[dict[str, Any]]:
        """The last lines of the audit log, the newest first; a line that broke off is left out."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - TAIL))
                lines = file.read().splitlines()
        except FileNotFoundError:
            return []
        found: list[dict[str, Any]] = []
        for line in reversed(lines[-limit:]):
            try:
                found.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.MsgspecError:
                continue
        return found


def _plain(entry: Locked) -> bool:
    """Whether the digests of an entry are digests, from which paths are made."""
    return all(DIGEST.fullmatch(one) for one in entry.files.values())


def accepted(skills: Path, name: str) -> str:
    """The version of a skill that a person took in spite of the scan's caution; empty where none is. Raises StorageError."""
    found = Lock(skills).read().get(name)
    return found.accepted if found else ""
