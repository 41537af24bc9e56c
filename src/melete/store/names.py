"""Names of sessions, inbox messages and spilled texts: what may become part of a path. Part of the store."""

import os
import re
from datetime import UTC, datetime

SESSION = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")
MESSAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
LONGEST = 80


def new_session_id(now: datetime) -> str:
    """A new id: sorts by time of birth, is safe in a file name, and does not repeat."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def is_session_id(text: str) -> bool:
    """Whether the text may be a session's id; nothing that says yes here can leave the folder of sessions."""
    return SESSION.fullmatch(text) is not None


def is_message_id(text: str) -> bool:
    """Whether the text may be an inbox message's id."""
    return MESSAGE.fullmatch(text) is not None


def safe_name(text: str) -> str:
    """A file name made from any text: letters, digits, `_` and `-`, never empty, never hidden."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:LONGEST] or "text"
