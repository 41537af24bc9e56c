"""How the outcome of a call reads: it worked, it failed, it gave an answer; and whether the world around it was to blame. Pure."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct

from melete.core.event import ToolEnded
from melete.learn.verbs import last_program
from melete.security.words import names

Cause = Literal["", "environment"]
ANSWERS: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        names(
            "grep egrep fgrep zgrep rg ag ack diff cmp colordiff test [ which type command pgrep pidof expr lsof false fuser"
        ),
        1,
    ),
    "systemctl": 4,
}
"""Programs for which an exit code from 1 up to this one is an answer."""
ANSWERING: Final = frozenset(
    {"git diff", "git grep", "git show-ref", "git merge-base", "git check-ignore", "npm outdated"}
)
"""Subcommands for which 1 is one."""
SURROUNDINGS: Final = re.compile(
    r"could not resolve|name or service not known|temporary failure in name resolution|getaddrinfo"
    r"|network is (?:unreachable|down)|no route to host|connection (?:refused|reset|timed out|aborted|closed by)"
    r"|failed to connect|unable to connect|ssl[_ ]error|tls handshake|certificate verify failed|proxy ?error"
    r"|tunnel connection failed|(?:read|connect|operation|request|gateway) time-?out|timed out|deadline exceeded"
    r"|command not found|not recognized as an internal|no such file or directory: '?(?:/usr)?/bin"
    r"|executable file not found|permission denied|operation not permitted|access (?:is )?denied|\beacces\b"
    r"|\beperm\b|read-only file system|a password is required|must be (?:run as )?root|are you root|no space left"
    r"|disk quota|cannot allocate memory|out of memory|too many (?:requests|open files)|rate.?limit"
    r"|\b(?:429|502|503|504)\b[^\n]{0,40}(?:error|too many|unavailable|gateway|server)"
    r"|(?:error|status|http)[^\n]{0,20}\b(?:429|502|503|504)\b|service unavailable|quota exceeded"
    r"|temporarily unavailable|try again later|cannot connect to the docker daemon|device or resource busy",
    re.IGNORECASE,
)
"""What the world around a call says when it fails: nothing that a lesson could mend."""
CODES: Final = frozenset({124, 126, 127, 137})
"""Exit codes that say the same: a time-out, no leave, no such program, no memory."""
TAIL: Final = 4_000


class Result(Struct, frozen=True, kw_only=True):
    """How a call ended; `answer` is neither success nor failure, `none` says nothing of the call (refused, stopped, unknown)."""

    status: Literal["ok", "failed", "answer", "none"]
    cause: Cause = ""
    code: int | None = None


def result_of(ended: ToolEnded, command: str = "") -> Result:
    """Read an outcome; `command` is the shell text where it was one."""
    if ended.outcome == "timeout":
        return Result(status="failed", cause="environment")
    if ended.outcome not in ("ok", "error"):
        return Result(status="none")
    fields = fields_of(ended.result.content)
    code = fields.get("exit_code")
    if fields.get("timed_out"):
        return Result(status="failed", cause="environment")
    if isinstance(code, int) and code and _answers(command, code):
        return Result(status="answer", code=code)
    if ended.outcome == "error" or ended.result.error or (isinstance(code, int) and code != 0):
        return Result(status="failed", cause=_cause(fields, code), code=code if isinstance(code, int) else None)
    started = command and "exit_code" not in fields
    return Result(status="none" if started else "ok", code=0)  # what runs in the background has not ended


def fields_of(content: str) -> dict[str, Any]:
    """The JSON object of a tool's result; empty where it is none."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _answers(command: str, code: int) -> bool:
    last = last_program(command)
    return code <= ANSWERS.get(last.partition(" ")[0], 0) or (code == 1 and last in ANSWERING)


def _cause(fields: Mapping[str, Any], code: object) -> Cause:
    said = "\n".join(str(fields[key])[-TAIL:] for key in ("error", "output", "note") if fields.get(key))
    return "environment" if code in CODES or _passes(said) else ""


@lru_cache(maxsize=512)
def _passes(said: str) -> bool:
    return SURROUNDINGS.search(said) is not None
