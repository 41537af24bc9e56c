"""Claims of work done, as the runtime finds them checked. Layer 0."""

from typing import Literal

from msgspec import Struct

Verdict = Literal["verified", "false", "unverifiable"]


class Claim(Struct, frozen=True, kw_only=True):
    """What a text says was done: `kind` as in agent/claim_words.py, `handle` the path, address, id or number, `words` the text."""

    kind: str
    words: str
    handle: str = ""


class Checked(Struct, frozen=True, kw_only=True):
    """A claim and what the runtime knows of it; `why` is in words."""

    claim: str
    kind: str
    verdict: Verdict
    why: str = ""
