"""What is searched for and what was found: the words that ripgrep's wrapper and our own search share."""

from msgspec import Struct


class Wanted(Struct, frozen=True, kw_only=True):
    """A search: `pattern` a regular expression, `glob` which files, `most` matches of one file at most.

    With `counts` the only thing found in each file is how many of its lines match, as the `number`.
    """

    pattern: str = ""
    glob: str = ""
    context: int = 0
    most: int = 1000
    counts: bool = False


class Found(Struct, frozen=True, kw_only=True):
    """A line: `match` False is context. `path` is relative to where the search began."""

    path: str
    number: int
    text: str
    match: bool = True
