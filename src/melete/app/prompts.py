"""A person's words and pictures as the message that begins a run. Part of the composition root."""

import stat
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from melete.core.errors import UsageError
from melete.core.message import Image, Message, Origin, Part, Text

IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
LARGEST_IMAGE = 20_000_000


def prompt_message(text: str, images: Sequence[Path] = (), *, surface: str = "cli") -> Message:
    """A prompt with pictures; raises UsageError for a file that is none."""
    parts: list[Part] = [Text(text=text)] if text else []
    for path in images:
        media = IMAGES.get(path.suffix.lower())
        if media is None:
            raise UsageError(f"{path} is not a picture that models read", next=f"use one of {', '.join(IMAGES)}")
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is no file", next="check the path")
            if status.st_size > LARGEST_IMAGE:
                raise UsageError(f"{path} is larger than {LARGEST_IMAGE // 1_000_000} MB", next="make it smaller")
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}", next="check the path") from error
        parts.append(Image(media_type=media, data=b64encode(data).decode()))
    return Message(role="user", parts=tuple(parts), by=Origin(kind="person", surface=surface))
