"""Names of sessions, inbox messages and spilled texts: what may become part of a path. Part of the store."""

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from melete.core.errors import SessionNotFoundError
from melete.core.session import SessionRef

SESSION = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")
MESSAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
LONGEST = 80
NAMED = 5
"""Sessions that an error names one by one."""


def new_session_id(now: datetime) -> str:
    """A new id: sorts by time of birth, is safe in a file name, and does not repeat."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{os.urandom(5).hex()}"


def is_session_id(text: str) -> bool:
    """Whether the text may be a session's id; nothing that says yes here can leave the folder of sessions."""
    return SESSION.fullmatch(text) is not None


def is_message_id(text: str) -> bool:
    """Whether the text may be an inbox message's id."""
    return MESSAGE.fullmatch(text) is not None


def safe_name(text: str) -> str:
    """A file name made from any text: letters, digits, `_` and `-`, never empty, never hidden."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:LONGEST] or "text"


def only(name: str, found: Sequence[SessionRef]) -> SessionRef:
    """The one session that a name means; raises SessionNotFoundError, which says between which it cannot choose."""
    if len(found) == 1:
        return found[0]
    if not found:
        raise SessionNotFoundError(f"there is no session {name!r}", next="see `melete sessions list`")
    some = ", ".join(ref.id for ref in found[:NAMED])
    prefix = all(ref.id.startswith(name) for ref in found)
    what = "the beginning" if prefix else "the title"
    raise SessionNotFoundError(
        f"{name!r} is {what} of {len(found)} sessions: {some}", next="type more of it" if prefix else "give an id"
    )
