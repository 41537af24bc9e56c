"""What a scripted model answers: the values that a script is made of. Part `testing`.

A reply is a `Say`, a `Call`, several `Calls`, a `Fault`, or a plain string, which is a `Say`. The first fields of each may be
given by position, because a script reads best that way; everything else goes by name. The same values read from JSON, where
`type` says which one it is: `{"type": "call", "name": "terminal", "arguments": {"command": "ls"}}`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from melete.core.message import Usage

StopReason = Literal["end", "tool_calls", "length", "content_filter"]

FaultKind = Literal[
    # the request is refused with a status
    "status", "rate_limited", "overloaded", "server_error", "bad_request", "unauthorized", "quota", "unknown_model", "overflow",
    # the answer is not what a model server sends
    "html", "not_json", "other_json",
    # the connection
    "reset", "reset_midway", "cut", "stall", "slow",
    # the body
    "truncated", "content_type", "error_event", "no_end",
    # the message
    "empty", "length", "malformed_arguments", "unknown_tool", "duplicate_ids",
]  # fmt: skip


class Spoken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every answer may have besides its words.

    `thinking` is visible reasoning; `usage` None means counted from the bytes; `stop` None follows from the answer; `extra`
    adds provider's own fields to the message, word for word; `pieces` is how many characters one streamed piece holds.
    """

    thinking: str = ""
    usage: Usage | None = None
    stop: StopReason | None = None
    extra: dict[str, Any] = {}
    pieces: int = 24


class Say(Spoken, frozen=True, tag="say"):
    """An answer in words."""

    text: str = ""


class Call(Spoken, frozen=True, tag="call"):
    """A wish to run one tool. `arguments` is an object, or the exact text to send, valid JSON or not; an empty `id` is made up."""

    name: str
    arguments: dict[str, Any] | str = {}
    text: str = ""
    id: str = ""


class Calls(Spoken, frozen=True, tag="calls"):
    """A wish to run several tools at once; only name, arguments and id of each call are read."""

    calls: Sequence[Call]
    text: str = ""


class Fault(Struct, frozen=True, tag="fault", forbid_unknown_fields=True):
    """Something that goes wrong, by `kind`; where an answer is needed to go wrong with, it is `reply`.

    | kind | what the client meets |
    |---|---|
    | `status` | `status` with `body` (or an error object made from `message`), `retry_after` as given |
    | `rate_limited` `overloaded` `server_error` | 429, 503, 500 |
    | `bad_request` `unauthorized` `quota` `unknown_model` | 400, 401, 402, 404 |
    | `overflow` | the provider's error for a prompt that is too long |
    | `html` | a proxy's page, status 200 unless given |
    | `not_json`, `other_json` | status 200 with text, or with JSON that is no answer |
    | `reset` | the connection is reset before any byte |
    | `reset_midway`, `cut` | reset, or closed early, after `after` pieces |
    | `stall` | silence of `seconds`: before the head, or with `after` behind that many pieces; then the rest |
    | `slow` | `seconds` between any two pieces |
    | `truncated` | the last piece's JSON ends in the middle, and so does the body |
    | `content_type` | the right body under the type in `body` (`text/plain` unless given) |
    | `error_event` | an error object inside the stream after `after` pieces |
    | `no_end` | the stream ends without its last words (stop reason, end marker) |
    | `empty` | neither text nor calls |
    | `length` | stopped by the output limit |
    | `malformed_arguments` | a call whose arguments break off |
    | `unknown_tool` | a call of a tool that nobody has |
    | `duplicate_ids` | two calls under one id |
    """

    kind: FaultKind
    status: int = 0
    retry_after: str | float | None = None
    message: str = ""
    body: str = ""
    after: int | None = None
    seconds: float = 60.0
    reply: Say | Call | Calls | None = None


Reply = Say | Call | Calls | Fault
Play = Callable[[dict[str, Any], int], Reply | str]
"""A script as a function: given the request's JSON and its number from 0, the reply."""

OVER = Say(text="(script is over)")
