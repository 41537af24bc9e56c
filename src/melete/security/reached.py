"""Addresses that text from outside may have had made: fetching one tells its server whatever stands in it. Pure. Layer 1.

A page can ask that a secret be written into an address. So after untrusted text an address may be fetched without a question only
if nothing was written into it: it stands, whole, in what the person said or in what the web itself has shown.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from melete.core.message import Message, Text, ToolResult
from melete.security.taint import UNTRUSTED
from melete.security.urls import Where, read

_ENDS: Final = frozenset(" \t\r\n\"'`<>()[]{}|\\,;")
"""What no address goes on with where it stands in a text; of these some may be in one, which then asks."""
_CLOSES: Final = ".:!?*_"
"""What may stand behind an address at the end of a sentence."""


def made_up(addresses: Sequence[str], messages: Iterable[Message]) -> tuple[str, ...]:
    """Those of the addresses that stand nowhere whole, and are not, without a query, on a server that the person named."""
    if not addresses:
        return ()
    said, shown = _texts(messages)
    named = [where for text in said for word in text.split() if (where := _where(word.strip("\"'`<>()[],;.:!?")))]
    return tuple(
        address
        for address in addresses
        if not _on_named(address, named) and not any(_stands(address, text) for text in (*said, *shown))
    )


def _texts(messages: Iterable[Message]) -> tuple[list[str], list[str]]:
    """What the person said, and what came from outside."""
    said: list[str] = []
    shown: list[str] = []
    for message in messages:
        persons = message.role == "user" and (message.by is None or message.by.kind == "person")
        for part in message.parts:
            if isinstance(part, ToolResult) and part.taint in UNTRUSTED:
                shown.append(part.content)
            elif isinstance(part, Text) and (part.taint in UNTRUSTED or persons):
                (shown if part.taint in UNTRUSTED else said).append(part.text)
    return said, shown


def _stands(address: str, text: str) -> bool:
    """Whether the address is in the text and nothing more of it behind it; a slash at its end counts for nothing."""
    plain = address.partition("#")[0].rstrip("/")
    at = text.find(plain) if plain else -1
    while at >= 0:
        behind = text[at + len(plain) : at + len(plain) + 3].removeprefix("/")
        if _ended(behind):
            return True
        at = text.find(plain, at + 1)
    return False


def _ended(behind: str) -> bool:
    return (
        not behind or behind[0] in _ENDS or behind[0] == "#" or (behind[0] in _CLOSES and behind[1:2] in ("", *_ENDS))
    )


def _on_named(address: str, named: Sequence[Where]) -> bool:
    where = _where(address)
    if where is None or "?" in where.target:
        return False
    return any((one.secure, one.host, one.port) == (where.secure, where.host, where.port) for one in named)


def _where(address: str) -> Where | None:
    found = read(address) if "://" in address else None
    return found if isinstance(found, Where) else None
