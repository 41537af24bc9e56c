"""Two edits of one text put together: what only one side changed is taken, what both changed differently is a conflict. Pure."""

import difflib
from collections.abc import Iterator, Sequence

Region = tuple[int, int, int, int]
"""Where lines are alike: the place in the base, in ours and in theirs, and how many."""


def merge(base: str, ours: str, theirs: str) -> str | None:
    """The text with both changes, or None where they meet; a change that both sides made is made once."""
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    b, o, t = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    merged: list[str] = []
    at_b = at_o = at_t = 0
    for in_b, in_o, in_t, size in (*_alike(b, o, t), (len(b), len(o), len(t), 0)):
        chosen = _choose(b[at_b:in_b], o[at_o:in_o], t[at_t:in_t])
        if chosen is None:
            return None
        merged += chosen
        merged += b[in_b : in_b + size]
        at_b, at_o, at_t = in_b + size, in_o + size, in_t + size
    return "".join(merged)


def merge_file(base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | str | None:
    """One file after two edits; a text is why they cannot be put together."""
    if theirs in (base, ours):
        return ours
    if base is None or ours is None or theirs is None:
        return "was removed or made"
    try:
        merged = merge(base.decode(), ours.decode(), theirs.decode())
    except UnicodeDecodeError:
        merged = None
    return "has changed in the same place" if merged is None else merged.encode()


def _choose(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    if ours in (base, theirs):
        return theirs
    return ours if theirs == base else None


def _alike(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> Iterator[Region]:
    """The runs of lines that stand in all three, in order."""
    left, right = (
        difflib.SequenceMatcher(None, base, side, autojunk=False).get_matching_blocks() for side in (ours, theirs)
    )
    i = j = 0
    while i < len(left) and j < len(right):
        start = max(left[i].a, right[j].a)
        end = min(left[i].a + left[i].size, right[j].a + right[j].size)
        if start < end:
            yield start, left[i].b + start - left[i].a, right[j].b + start - right[j].a, end - start
        if left[i].a + left[i].size < right[j].a + right[j].size:
            i += 1
        else:
            j += 1
