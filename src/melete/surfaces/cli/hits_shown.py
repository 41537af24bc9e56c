"""What a search found, as people read it: by session, with the places that matched."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from melete.core.errors import SessionNotFoundError
from melete.core.session import Hit, Line, SessionRef, Store
from melete.core.steps import Step, steps
from melete.surfaces.cli.output import one_line, visible
from melete.surfaces.cli.paint import Paint, cut
from melete.surfaces.cli.step_span import step_of
from melete.surfaces.cli.tables import ago

BESIDE = 200
"""Columns of a line beside a hit at most."""
NAMES = {"assistant": "model", "tool": "tool"}
_SPACE = re.compile(r"\s+")


class Found(Struct, frozen=True, kw_only=True):
    """A hit with the number of its step, 0 where there is none, and the lines round it."""

    hit: Hit
    step: int = 0
    before: tuple[Line, ...] = ()
    after: tuple[Line, ...] = ()


async def round_hit(store: Store, hit: Hit, many: int) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """The messages before and after a hit, `many` of each; none of a session that is gone."""
    if not many:
        return (), ()
    try:
        near = await store.scroll(SessionRef(id=hit.session), around=hit.seq, window=many)
    except SessionNotFoundError:  # deleted since the index was read
        return (), ()
    return tuple(line for line in near if line.seq < hit.seq), tuple(line for line in near if line.seq > hit.seq)


async def found_in(store: Store, hits: Sequence[Hit], *, many: int = 0) -> Sequence[Found]:
    """The hits with their steps, and with `many` messages on each side."""
    numbered: dict[str, Sequence[Step]] = {}
    found: list[Found] = []
    for hit in hits:
        if hit.session not in numbered:
            numbered[hit.session] = await _steps(store, hit.session)
        before, after = await round_hit(store, hit, many)
        found.append(Found(hit=hit, step=step_of(numbered[hit.session], hit.seq), before=before, after=after))
    return found


async def _steps(store: Store, session: str) -> Sequence[Step]:
    try:
        return steps(await store.facts(SessionRef(id=session)))
    except SessionNotFoundError:
        return ()


def by_session(found: Sequence[Found]) -> Mapping[str, Sequence[Found]]:
    """The hits of each session, in the order of the search."""
    groups: dict[str, list[Found]] = {}
    for each in found:
        groups.setdefault(each.hit.session, []).append(each)
    return groups


def hits_text(found: Sequence[Found], paint: Paint, *, now: datetime, redact: Callable[[str], str]) -> str:
    """Sessions, each with its hits below it."""
    return "\n".join(_session(group, paint, now=now, redact=redact) for group in by_session(found).values())


def _session(group: Sequence[Found], paint: Paint, *, now: datetime, redact: Callable[[str], str]) -> str:
    first = group[0].hit
    title = one_line(redact(first.title or first.name)) or "untitled"
    about = (first.session, first.source, ago(max(each.hit.at for each in group), now))
    lines = [
        paint("bold", paint.fit(title)),
        paint("dim", " · ".join(one_line(redact(part)) for part in about if part)),
    ]
    for number, each in enumerate(group):
        if number and (each.before or group[number - 1].after):
            lines.append(paint("dim", "  --"))
        lines += [paint("dim", f"  {_beside(line, paint, redact)}") for line in each.before]
        lines.append(f"  {_head(each, paint, redact)} {highlighted(each.hit, paint, redact)}")
        lines += [paint("dim", f"  {_beside(line, paint, redact)}") for line in each.after]
    return "".join(f"{line}\n" for line in lines)


def _head(each: Found, paint: Paint, redact: Callable[[str], str]) -> str:
    who = NAMES.get(each.hit.role, "you")
    tool = f" {one_line(redact(each.hit.tool))}" if each.hit.tool else ""
    step = f"{paint('cyan', f'[{each.step}]')} " if each.step else ""
    return f"{step}{paint('dim', f'{who}{tool}:')}"


def _beside(line: Line, paint: Paint, redact: Callable[[str], str]) -> str:
    text = f"{NAMES.get(line.role, 'you')}: {one_line(redact(line.text))}"
    return paint.fit(cut(text, BESIDE), taken=2)


def highlighted(hit: Hit, paint: Paint, redact: Callable[[str], str]) -> str:
    """The snippet on one line, in bold what matched; without that where a secret was taken out of it."""
    clean = redact(hit.snippet)
    if not paint.colours or clean != hit.snippet:
        return one_line(clean)
    shown: list[str] = []
    done = 0
    for start, end in sorted(hit.marks):
        if done <= start < end <= len(clean):
            shown += [_flat(clean[done:start]), paint("bold", _flat(clean[start:end]))]
            done = end
    return "".join((*shown, _flat(clean[done:]))).strip()


def _flat(text: str) -> str:
    return visible(_SPACE.sub(" ", text))
