"""What a shell text would run, as values: programs with their words, redirections and input. Pure."""

from msgspec import Struct

from melete.security.unwrap import basename
from melete.security.words import Word


class Redirect(Struct, frozen=True, kw_only=True):
    """One redirection to or from a file: the operator (`>`, `>>`, `<` …) and the file."""

    operator: str
    target: str


class Program(Struct, frozen=True, kw_only=True):
    """One program that would run.

    `via` are the programs that start it, outermost first; `stdin` is its literal input (NUL: unknown, empty: none); `code` is
    what an interpreter is given inline, in `language`.
    """

    argv: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    via: tuple[str, ...] = ()
    stdin: str = ""
    code: str = ""
    language: str = ""
    folder: str = ""

    @property
    def name(self) -> str:
        """The program's name without its folder."""
        return basename(self.argv[0].text) if self.argv else ""

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments behind the name, as text."""
        return tuple(word.text for word in self.argv[1:])


class Plan(Struct, frozen=True, kw_only=True):
    """All programs of a text, why parts of it cannot be decided, the variables that it sets, and whether it counts with them:
    the shell runs what stands in an index there, also when that comes out of a file."""

    programs: tuple[Program, ...] = ()
    opaque: tuple[str, ...] = ()
    assigned: frozenset[str] = frozenset()
    counts: bool = False
