"""The guards as filters: what is judged goes in as a row, the judgement comes out as one. Part of the composition root.

These are the very functions that a run asks. Nothing is run, opened, fetched or looked up in a network.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from melete.core.errors import MeleteError, UsageError
from melete.core.plugin import Lazy
from melete.core.policy import UNJUDGED, Verdict

_command: Lazy[Callable[..., Verdict]] = Lazy("melete.security.commands:judge_command")
_url: Lazy[Callable[..., Verdict]] = Lazy("melete.security.urls:judge")
_scan: Lazy[Callable[[str], tuple[Any, ...]]] = Lazy("melete.security.threats:scan")
_resolve: Lazy[Callable[[str, str], str]] = Lazy("melete.security.paths:resolve")
_skill: Lazy[Callable[..., Any]] = Lazy("melete.security.skillscan:scan")
_allowed: Lazy[Callable[[str, str], str]] = Lazy("melete.security.skillscan:allowed")
_refused: Lazy[type[MeleteError]] = Lazy("melete.security.paths:PathRefusedError")


MOST_FILES: Final = 200
LARGEST: Final = 2_000_000
"""Files of a skill, and bytes of a file, that are read to be judged: more than the scan allows, so that it sees that."""
LONGEST: Final = 10_000_000
"""Bytes of a line of a batch."""
_ID: Final = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[\d.eE+-]+|true|false)')


class Row(Struct, frozen=True, kw_only=True):
    """What is to be judged; a check reads the fields that it needs."""

    text: str
    id: Any = None
    cwd: str = ""
    root: str = ""
    resolves_to: tuple[str, ...] | None = None


class SkillRow(Struct, frozen=True, kw_only=True):
    """A skill that is to be judged, by its folder; `trust` is an owner, or a kind of trust."""

    dir: str
    id: Any = None
    trust: str = "community"


class How(Struct, frozen=True, kw_only=True):
    """What is the same for all rows: the person's home and Melete's, walls, nobody asked, and what takes secrets out."""

    home: str = ""
    own: str = ""
    contained: bool = False
    approvals_off: bool = False
    redact: Callable[[str], str] = str


Check = Callable[[Any, How], dict[str, Any]]


def check_command(row: Row, how: How) -> dict[str, Any]:
    """The verdict about a shell command; with approvals off what would be asked is allowed, its rule still named.

    What is too much to be judged is then forbidden.
    """
    found = _command.load()(row.text, cwd=row.cwd, home=how.home, own=how.own, contained=how.contained)
    verdict = found.verdict
    if how.approvals_off and verdict == "ask":
        verdict = "forbid" if found.rule == UNJUDGED else "allow"
    return {"verdict": verdict, "rule": found.rule, "reason": found.reason}


def check_url(row: Row, how: How) -> dict[str, Any]:  # noqa: ARG001 - as every check
    """Whether an address may be fetched; a name is looked up nowhere: `resolves_to` says what it stands for."""
    found = _url.load()(row.text, row.resolves_to)
    return {"verdict": found.verdict, "rule": found.rule, "reason": found.reason}


def check_text(row: Row, how: How) -> dict[str, Any]:  # noqa: ARG001 - as every check
    """Whether a text wants to steer its reader."""
    found = _scan.load()(row.text)
    if not found:
        return {"verdict": "clean", "rule": "", "reason": ""}
    return {"verdict": "suspect", "rule": found[0].rule, "reason": found[0].reason}


def check_secrets(row: Row, how: How) -> dict[str, Any]:
    """The text without secrets."""
    return {"text": how.redact(row.text)}


def check_path(row: Row, how: How) -> dict[str, Any]:  # noqa: ARG001 - as every check
    """The path inside its root; the disk is asked for links alone. Raises UsageError without a root."""
    if not row.root:
        raise UsageError("there is no root", next="say in which folder the path must stay")
    try:
        return {"verdict": "allow", "path": _resolve.load()(row.root, row.text), "reason": ""}
    except _refused.load() as error:
        return {"verdict": "reject", "path": "", "reason": getattr(error, "why", str(error))}
    except OSError as error:
        raise UsageError(f"the root {row.root} cannot be used: {error.strerror}", next="name a folder") from error


def check_skill(row: SkillRow, how: How) -> dict[str, Any]:  # noqa: ARG001 - as every check
    """Whether the skill in a folder may be loaded; nothing of it is run and no link followed. Raises UsageError, OSError."""
    root = Path(row.dir)
    if not row.dir or not root.is_dir():
        raise UsageError(f"there is no folder {row.dir}", next="name the folder that holds SKILL.md")
    files, links = read_skill(root)
    if (about := root.parent / "DESCRIPTION.md").is_file() and not about.is_symlink():
        files["../DESCRIPTION.md"] = about.read_bytes()
    report = _skill.load()(files, links=links)
    answer = _allowed.load()(report.verdict, row.trust)
    found = [msgspec.to_builtins(finding) for finding in report.findings]
    return {"verdict": report.verdict, "allowed": answer == "allow", "findings": found}


def read_skill(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """The files of a skill by their paths inside it, and which are links; more files than a skill may have are not all read.

    Of a file that is too large the beginning is read, and of a device nothing. Raises OSError.
    """
    files: dict[str, bytes] = {}
    links: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in (".git", "__pycache__"))
        for name in (*folders, *sorted(names)):
            path = Path(place, name)
            inside = path.relative_to(folder).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                links.append(inside)
            elif path.is_file() and len(files) < MOST_FILES:
                with path.open("rb") as stream:
                    files[inside] = stream.read(LARGEST)
        folders[:] = [each for each in folders if not Path(place, each).is_symlink()]
    return files, links


CHECKS: Final[Mapping[str, Check]] = {
    "command": check_command,
    "url": check_url,
    "text": check_text,
    "secrets": check_secrets,
    "path": check_path,
    "skill": check_skill,
}
ROWS: Final[Mapping[str, type[Row] | type[SkillRow]]] = {"skill": SkillRow}
"""The rows of the checks that take another one than Row."""


def answer(name: str, line: bytes, how: How) -> dict[str, Any]:
    """The row for a line of a batch: the line's id with the judgement, or with `error`. Never raises."""
    kind = ROWS.get(name, Row)
    try:
        row: Any = msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return {
            "id": _id(line),
            "error": f'not a line of {{"id", "{"dir" if kind is SkillRow else "text"}"}}: {_why(line, error)}',
        }
    try:
        return {"id": row.id, **CHECKS[name](row, how)}
    except MeleteError as error:
        return {"id": row.id, "error": str(error)}
    except Exception as error:  # noqa: BLE001 - told in its row; the rows behind it are still answered
        return {"id": row.id, "error": f"{type(error).__name__}: {error}"}


def _why(line: bytes, error: Exception) -> str:
    """What is wrong with a line."""
    if len(line) >= LONGEST:
        return f"it is longer than {LONGEST // 1_000_000} MB"
    if b"\\ud" in line.lower() and not isinstance(error, msgspec.ValidationError):
        with suppress(ValueError, RecursionError):  # others read it, so no more is wrong than that
            json.loads(line)
            return "it holds half a character (a lone surrogate)"
    return str(error)


def _id(line: bytes) -> Any:
    """The id of a line that is wrong elsewhere, null where none is found."""
    found = _ID.search(line)
    try:
        return msgspec.json.decode(found[1]) if found else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
