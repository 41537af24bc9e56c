"""What a command did, as far as a claim can be bound to it: not what only looks, nor what stands in messages. Layer 2, pure."""

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from melete.security.plan import plan
from melete.security.program import Plan, Program
from melete.security.reading import only_reads

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
"""What they are given by `-c` is in the plan by itself."""
VIEWERS: Final = frozenset({"rg", "ag", "ack", "less", "more", "bat", "tree", "man"})
LOOKS: Final = re.compile(
    r".* (?:--version|--help|--dry-run)(?: |$)|\S+ -[hV]$|make -n"
    r"|(?:pip3?|uv|npm|pnpm|yarn|conda|brew|apt|apt-cache|cargo|docker|kubectl|gh|python3? -m pip)(?: pip| pr| release)?"
    r" (?:list|ls|show|view|freeze|info|search|outdated|why|images|ps|logs|describe|version|help)(?: |$)"
)
"""Programs that are only asked about something, by their words."""
MOVERS: Final = frozenset(
    {
        "rm",
        "rmdir",
        "unlink",
        "mv",
        "cp",
        "mkdir",
        "touch",
        "chmod",
        "chown",
        "ln",
        "sed",
        "awk",
        "tee",
        "cat",
        "echo",
        "printf",
    }
)
"""They change files, and neither test nor build nor send anything."""
CHECKERS: Final = frozenset({"pytest", "mypy", "pyright", "flake8", "pylint"})
"""They read the files that they are given."""
OF_GIT: Final = frozenset({"committed", "pushed", "deployed"})
GIT_WRITES: Final = frozenset(
    {
        "checkout",
        "restore",
        "switch",
        "mv",
        "rm",
        "apply",
        "am",
        "stash",
        "merge",
        "cherry-pick",
        "revert",
        "rebase",
        "pull",
    }
    | {"clone", "clean", "reset", "format-patch", "archive"}
)


class Did(Struct, frozen=True, kw_only=True):
    """One program of a command: its words, long texts left out, and all that it was given, files that it writes included."""

    name: str
    words: str
    given: str


@lru_cache(maxsize=1024)
def did(command: str) -> tuple[Did, ...]:
    """The programs of a command that did something; one that cannot be read counts as one program."""
    found = plan(command).programs
    if not found:
        return (Did(name="", words=command, given=command),)
    rows = (_did(one, command) for one in found if not _starts(one) and not only_reads(Plan(programs=(one,))))
    return tuple(row for row in rows if row.name not in VIEWERS and not LOOKS.match(row.words))


@lru_cache(maxsize=1024)
def hides(command: str) -> bool:
    """Whether the exit status may be that of another program of the command than the one that matters."""
    return len(plan(command).programs) > 1


def fits(command: str, kind: str, pattern: re.Pattern[str]) -> bool:
    """Whether a command did what a claim of this kind says; `pattern` tells by the words."""
    return any(
        pattern.search(one.words)
        for one in did(command)
        if one.name not in MOVERS and (one.name != "git" or kind in OF_GIT)
    )


def names(command: str, file: str) -> bool:
    """Whether a command may have changed a file of this name: one of its programs was given it, and does not only read."""
    return any(file in one.given for one in did(command) if one.name not in CHECKERS and not _keeps(one))


def _starts(one: Program) -> bool:
    """Whether it is only what starts others that the plan has by themselves."""
    return one.name == "ssh" or (one.name in SHELLS and any(re.match(r"-\w*c\Z", word) for word in one.words))


def _keeps(one: Did) -> bool:
    return one.name == "git" and GIT_WRITES.isdisjoint(one.words.split())


def _did(one: Program, command: str) -> Did:
    words = [one.name, *one.words]
    files = [redirect.target for redirect in one.redirects if ">" in redirect.operator]
    given = command if one.language else " ".join([*words, *files])
    short = " ".join(word for word in words if not re.search(r"\s", word))
    return Did(name=one.name, words=f"{short} {one.code}".strip(), given=given)
