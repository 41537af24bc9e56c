"""Addresses that text from outside may have had made: fetching one tells its server whatever stands in it. Pure. Layer 1.

A page can ask that a secret be written into an address. So after untrusted text an address may be fetched without a question only
if nothing was written into it: it stands, whole, in what the person said, or in what the web itself has shown before the model
wrote it anywhere. What a server or a tool says may repeat what it was asked.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final
from urllib.parse import unquote

import msgspec

from melete.core.message import Message, Text, ToolCall, ToolResult
from melete.core.taskstate import RECALLED
from melete.security.taint import UNTRUSTED
from melete.security.urls import Where, read

_ENDS: Final = frozenset(" \t\r\n\"'`<>()[]{}|\\,;")
"""What no address goes on with where it stands in a text; of these some may be in one, which then asks."""
_CLOSES: Final = ".:!?*_"
"""What may stand behind an address at the end of a sentence."""
_BETWEEN: Final = re.compile(r"[\s\"'`<>()\[\]{},;\\]+")
_Server = tuple[bool, str, int]

_SHOWING: Final = frozenset({"web_extract", "web_search", "read_file", "search_files"})
"""Tools whose web text, a page's rest out of its file included, holds no words of a model but those that it was called with."""


def made_up(addresses: Sequence[str], messages: Iterable[Message]) -> tuple[str, ...]:
    """Those of the addresses that stand nowhere whole, and are not, without a query, on a server that the person named.

    Such a server counts until the model has read something of it: from then on it may be its page that wants to be told.
    """
    if not addresses:
        return ()
    texts = list(_texts(messages))
    said = [text for who, text in texts if who == "person"]
    named = {_server(where) for text in said for where in _addresses(text)} - _heard(texts)
    if any(who == "past" for who, _ in texts):  # what the model has read of them is out of view
        named = set[_Server]()
    return tuple(address for address in addresses if not _on_named(address, named) and not _written_out(address, texts))


def _heard(texts: Sequence[tuple[str, str]]) -> set[_Server]:
    """The servers that the model named before the last text from outside: it may be theirs."""
    last = max((at for at, (who, _) in enumerate(texts) if who == "web"), default=0)
    return {_server(where) for who, text in texts[:last] if who == "model" for where in _addresses(text)}


def _texts(messages: Iterable[Message]) -> Iterable[tuple[str, str]]:
    """What was said in order, and by whom: the `person`, the `web` (empty where a model's words may be in it), the `model`.

    What the runtime brings back of the past with text from outside in it is nobody's word: a model's may be among it.
    """
    for message in messages:
        kind = message.by.kind if message.by else "person"
        persons = message.role == "user" and kind == "person"
        for part in message.parts:
            if isinstance(part, ToolResult) and part.taint in UNTRUSTED:
                yield "web", part.content if part.name in _SHOWING else ""
            elif isinstance(part, ToolCall):
                yield "model", unquote(_plain(part.arguments))
            elif isinstance(part, Text) and (kind == "runtime" or part.text.startswith(RECALLED)):
                if part.taint in UNTRUSTED:
                    yield "past", ""
            elif isinstance(part, Text) and (part.taint in UNTRUSTED or (persons and part.taint == "none")):
                yield ("web" if part.taint in UNTRUSTED else "person"), part.text
            elif isinstance(part, Text) and message.role == "assistant":
                yield "model", unquote(part.text)


def _plain(arguments: str) -> str:
    """Arguments without the escapes in which a model may have written them."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments)).decode()
    except msgspec.MsgspecError:
        return arguments


def _written_out(address: str, texts: Iterable[tuple[str, str]]) -> bool:
    """Whether the person wrote it, or the web showed it before a model that had read text from outside did."""
    plain = unquote(address.partition("#")[0].rstrip("/"))
    read = models = False
    for who, text in texts:
        if who == "model":
            models = models or (read and plain in text)
        elif not (models and who == "web") and _stands(address, text):
            return True
        read = read or who in ("web", "past")
    return False


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


def _on_named(address: str, named: Collection[_Server]) -> bool:
    where = _where(address)
    return where is not None and "?" not in where.target and _server(where) in named


def _server(where: Where) -> _Server:
    return where.secure, where.host, where.port


def _addresses(text: str) -> Iterable[Where]:
    for word in _BETWEEN.split(text):
        if where := _where(word.rstrip(":.!?")):
            yield where


def _where(address: str) -> Where | None:
    found = read(address) if "://" in address else None
    return found if isinstance(found, Where) else None
