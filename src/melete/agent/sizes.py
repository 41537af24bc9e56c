"""How much of a window messages take, as far as their bytes tell. Layer 2, pure."""

from collections.abc import Sequence
from itertools import chain

import msgspec

from melete.core.message import Image, Message, Part, ToolResult

PICTURE = 1_500
"""Tokens that a picture takes in the window, about; its bytes say nothing about that."""
PER_TOKEN = 4


def size(values: Sequence[Message | Part]) -> int:
    """Bytes of the values as JSON."""
    return len(msgspec.json.encode(values))


def tokens(values: Sequence[Message | Part]) -> int:
    """Bytes / 4, and a fixed number for a picture."""
    values = [
        msgspec.structs.replace(one, wire=None) if isinstance(one, Message) and one.wire else one for one in values
    ]
    pictures = [*chain.from_iterable(map(_images, values))]
    return (size(values) - sum(len(image.data) for image in pictures)) // PER_TOKEN + PICTURE * len(pictures)


def _images(value: Message | Part) -> list[Image]:
    if isinstance(value, Message):
        return [image for part in value.parts for image in _images(part)]
    if isinstance(value, ToolResult):
        return list(value.images)
    return [value] if isinstance(value, Image) else []
