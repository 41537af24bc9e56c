"""What may be kept, and what is said of a change: room, secrets, texts that want to steer their reader. Part of the memory."""

import re
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final

from msgspec import Struct

from melete.core.memory import MemoryEntry, Target
from melete.core.plugin import Lazy
from melete.memory.files import joined
from melete.memory.marks import contradicted
from melete.memory.plan import Plan

_scan: Lazy[Callable[[str], Sequence[Any]]] = Lazy("melete.security.threats:scan")
_redactor: Lazy[Callable[..., Callable[[str], str]]] = Lazy("melete.security.redact:Redactor")
_SECRET: Final = re.compile(r"\[redacted:([^\]]*)\]")


class Rules(Struct, frozen=True, kw_only=True):
    """How many characters each file may hold; `redact` takes secrets out of a text, `mark` stands for the rules of the scan.

    Nothing about a person is shown without `user`, and nothing is written without `keeps`.
    """

    memory_limit: int = 2_200
    user_limit: int = 1_375
    redact: Callable[[str], str] | None = None
    mark: str = ""
    user: bool = True
    keeps: bool = True

    def limit(self, target: Target) -> int:
        """The characters that a file may hold."""
        return self.user_limit if target == "user" else self.memory_limit


class Judge:
    """What may not be kept or shown, and by which rule."""

    def __init__(self, rules: Rules) -> None:
        self._redact = rules.redact

    def redact(self, text: str) -> str:
        """The text without its secrets."""
        if self._redact is None:
            self._redact = _redactor.load()({})
        return self._redact(text)

    def secret(self, entry: MemoryEntry, known: MutableMapping[str, str]) -> str:
        """What kind of secret an entry's text holds, empty where it holds none; looked up in what is `known` by version."""
        if (key := f"{entry.version}:secret") not in known:
            redacted = self.redact(entry.text)
            kinds = dict.fromkeys(_SECRET.findall(redacted))
            known[key] = "" if redacted == entry.text else " and ".join(kinds) or "secret"
        return known[key]

    def threat(self, entry: MemoryEntry, known: MutableMapping[str, str]) -> str:
        """The rule by which an entry's text is refused, empty where it may be shown; looked up in what is `known` by version."""
        if entry.version not in known:
            found = _scan.load()(entry.text)
            known[entry.version] = f"{found[0].rule}: {found[0].reason}" if found else ""
        return known[entry.version]

    def refusal(self, before: Sequence[MemoryEntry], plan: Plan, known: MutableMapping[str, str]) -> str:
        """Why what is new in a plan, or said again, may not be kept; empty where it may. What is `known` is as for `threat`."""
        old = {entry.version for entry in before}
        for entry in plan.entries:
            if entry.version in old and entry.id not in plan.confirmed:
                continue
            if kind := self.secret(entry, known) or (
                "in its anchor" if self.redact(entry.anchor) != entry.anchor else ""
            ):
                return f"it holds a secret ({kind}), and memory is in every prompt: say where it is kept instead"
            if rule := self.threat(entry, known):
                return f"the scan refuses it ({rule})"
        return ""


def too_long(before: int, after: int, limit: int) -> bool:
    """Whether a change does not fit; one that makes a file shorter always does."""
    return after > limit and after >= before


def length(entries: Sequence[MemoryEntry]) -> int:
    """The characters that count."""
    return len(joined([entry.text for entry in entries]))


def receipts(before: Sequence[MemoryEntry], plan: Plan, brief: Callable[[MemoryEntry], str]) -> tuple[str, ...]:
    """What a change replaces, removes or only confirms, and what else seems to say otherwise; `brief` tells an entry."""
    old = {entry.id: entry for entry in before}
    told: list[str] = []
    for entry in plan.entries:
        known = old.pop(entry.id, None)
        if known and known.text != entry.text:
            told.append(f"[{entry.id}] replaced; it said, as version {known.version}: {brief(known)}")
        elif entry.id in plan.confirmed:
            told.append(f"[{entry.id}] was there already, and is confirmed")
        if known is None or known.text != entry.text:
            others = [one for one in plan.entries if one.id != entry.id]
            told += (
                f"[{one.id}] seems to say otherwise and is marked as doubtful; replace or remove it: {brief(one)}"
                for one in contradicted(entry.text, others)
            )
    told += (f"[{gone.id}] removed; it is kept as version {gone.version}: {brief(gone)}" for gone in old.values())
    return (*told,)
