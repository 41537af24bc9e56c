"""Whether signals tell of nothing that a lesson does not say already: then that was not found, and none is missing. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from melete.core.event import Fact, ToolEnded, ToolStarted
from melete.learn.facts import Debt
from melete.learn.results import fields_of
from melete.learn.signals import SHELL
from melete.learn.verbs import shows, verbs

LOOKING: Final = frozenset({"skill_view", "skills_list", "skill_search", "session_search"})
"""Calls that are part of no way."""


def said_already(signals: Sequence[Debt], facts: Sequence[Fact], texts: Mapping[str, str]) -> Sequence[str]:
    """The names of the texts that show the commands to which all these signals led; empty where one is about something else.

    Only failures that were mended count, what was tried before, and a way that is nothing more than that.
    """
    weighty = [one for one in signals if one.weight]
    begun = {fact.call.id: fact.call for fact in facts if isinstance(fact, ToolStarted)}
    calls = {fact.seq: begun.get(fact.result.call) for fact in facts if isinstance(fact, ToolEnded)}
    done = {
        seq: str(fields_of(call.arguments).get("command", "")) if call and call.name == SHELL else ""
        for seq, call in calls.items()
        if call and call.name not in LOOKING
    }
    said: dict[tuple[int, str], str] = {}
    for one in weighty:
        if one.signal == "fixed":
            command = done.get(max(one.facts, default=0), "")
            name = next((name for name, text in texts.items() if command and shows(text, command)), "")
            said[one.turn, one.verb] = name if said.get((one.turn, one.verb), name) else ""
    known = {key for key, name in said.items() if name}
    return [*dict.fromkeys(said.values())] if weighty and all(_is_known(one, known, done) for one in weighty) else ()


def _is_known(signal: Debt, known: Collection[tuple[int, str]], done: Mapping[int, str]) -> bool:
    if signal.signal == "sequence":
        way = [verbs(done[seq]) for seq in signal.facts if seq in done]
        return bool(way) and all(verb and all((signal.turn, one) in known for one in verb) for verb in way)
    return signal.signal in ("fixed", "retries") and (signal.turn, signal.verb) in known
