"""What a gate says of a lesson. Pure."""

from typing import Literal

from msgspec import Struct

Gate = Literal["form", "grounding", "safety", "ownership", "duplicates"]


class Verdict(Struct, frozen=True, kw_only=True):
    """What a gate says: `ok` lets the lesson pass, with `needs_person` only into the inbox; without `ok` it is refused.

    `rule` names the reason for the ledger, `reason` says it in a sentence, `lines` are those that it is about.
    """

    gate: Gate
    ok: bool = True
    needs_person: bool = False
    rule: str = ""
    reason: str = ""
    lines: tuple[str, ...] = ()
