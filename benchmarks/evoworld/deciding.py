"""What the policy does next: obeys lines that it sees, loads the best skill that it sees, else tries things one by one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.evoworld.reading import Piece, Request, known, remembered, shuffled
from benchmarks.evoworld.words import ADDRESS, FLAGS, MODES, SITES, STEPS, command, end, specific

MOST_CALLS = 15
"""Calls in a terminal for one message of the person."""
WORD = re.compile(r"[a-z]{3,}")
BUSY = "error 75"
_MODE = re.compile(r"--mode [a-z]+")


Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """One reply: calls side by side, or a text."""

    calls: tuple[Call, ...] = ()
    text: str = ""
    notes: tuple[dict[str, Any], ...] = ()
    """What a review wrote, for the record."""


def decide(request: Request, seed: int) -> Move:
    """The next reply to a task."""
    if not request.pieces or "terminal" not in request.tools:
        return Move(text="Work with w")
    piece = request.pieces[-1]
    sign = f"\n{end(piece.item, piece.turn)}"
    if piece.finished:
        return Move(text=f"Done: {piece.item}.{sign}")
    if sum(call.name == "terminal" for call in piece.answering) >= MOST_CALLS:
        return Move(text=f"I found no way to do {piece.item}.{sign}")
    return Move(calls=(_next(request, piece, seed),))


def _next(request: Request, piece: Piece, seed: int) -> Call:
    if page := _unread(piece):
        return _terminal(f"curl -sS {page}")
    tried = list(dict.fromkeys(call.command for call in piece.answering))
    if tried and piece.tries and piece.tries[-1][1] == BUSY:
        return _terminal(tried[-1])
    fresh = _not_tried(known(request, piece.verb), piece, tried)
    if not fresh and (name := best_skill(request, piece)):
        return ("skill_view", {"name": name})
    fresh = fresh or _not_tried(remembered(request, piece.verb), piece, tried)
    return _terminal(fresh or search(piece, seed))


def best_skill(request: Request, piece: Piece) -> str:
    """The skill that shares most words with the task, of those that name its verb and were not loaded yet."""
    if "skill_view" not in request.tools:
        return ""
    wanted = set(WORD.findall(piece.prompt.lower()))
    scores: dict[str, int] = {}
    for name, about in request.listed().items():
        words = set(WORD.findall(f"{name} {about}".lower()))
        if piece.verb in words:
            scores[name] = len(words & wanted)
    for name in request.viewed():
        scores.pop(name, None)
    return max(sorted(scores), key=lambda name: scores[name], default="")


def search(piece: Piece, seed: int) -> str:
    """The next thing to try where nothing is known."""
    return command(piece.verb, piece.item, _options(piece, seed))


def _options(piece: Piece, seed: int) -> Sequence[str]:
    def ordered(values: Sequence[str]) -> list[str]:
        return shuffled(values, seed, piece.verb, piece.item)

    tried = [options for options, _ in piece.tries]
    match piece.needs:
        case "flags":
            return _flags(piece, ordered(FLAGS))
        case "steps":
            return _step(piece, ordered(STEPS))
        case "mode":
            return [*_flags(piece, ordered(FLAGS)), f"--mode {ordered(MODES)[0]}"]
        case "site":
            left = [site for value in ordered(SITES) if (site := f"--site {value}") not in tried]
            return left[:1]
        case _:
            return []


def _flags(piece: Piece, order: Sequence[str]) -> Sequence[str]:
    """One more until none is missing, then one less until none is too many."""
    said = {frozenset(_MODE.sub("", options).split()): outcome for options, outcome in piece.tries}
    taken = len(order)
    for number in range(1, len(order)):
        outcome = said.get(frozenset(order[:number]))
        if outcome is None:
            return order[:number]
        if outcome != "error 2":
            taken = number
            break
    keep = list(order[:taken])
    for flag in order[: taken - 1]:
        fewer = [one for one in keep if one != flag]
        outcome = said.get(frozenset(fewer))
        if outcome is None:
            return fewer
        if outcome != "error 2":
            keep = fewer
    return keep


def _step(piece: Piece, order: Sequence[str]) -> Sequence[str]:
    passed: list[str] = []
    wrong: list[str] = []
    for options, outcome in piece.tries:
        if outcome == "so far":
            passed, wrong = [*passed, options], []
        else:
            wrong.append(options)
    return next(
        ([f"--step {step}"] for step in order if f"--step {step}" not in (*passed, *wrong)), [f"--step {order[0]}"]
    )


def _unread(piece: Piece) -> str:
    """The page that the person named, until it was fetched."""
    match = ADDRESS.search(piece.prompt)
    if match is None:
        return ""
    page = match[0].rstrip(".")
    return "" if any(page in call.command for call in piece.answering) or piece.turn > 1 else page


def _not_tried(found: Sequence[str], piece: Piece, tried: Sequence[str]) -> str:
    return next((line for one in found if (line := specific(one, piece.item)) not in tried), "")


def _terminal(line: str) -> Call:
    return ("terminal", {"command": line})
