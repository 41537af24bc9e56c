"""File name patterns: globs as `search_files` takes them, and the rules of `.gitignore`. Pure."""

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

WILD = re.compile(r"[*?\[]")


class Rule(Struct, frozen=True, kw_only=True):
    """One line of a `.gitignore`: what it matches is relative to the folder of that file."""

    pattern: str
    keep: bool = False
    folders_only: bool = False


@lru_cache(maxsize=512)
def compiled(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression for a whole path: `*` and `?` stay within a name, `**` crosses folders."""
    out: list[str] = []
    at = 0
    while at < len(glob):
        piece, at = _piece(glob, at)
        out.append(piece)
    return re.compile("".join(out) + r"\Z", re.DOTALL)


def _piece(glob: str, at: int) -> tuple[str, int]:
    """The expression for what stands at a place of the glob, and the place behind it."""
    if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
        return "(?:.*/)?", at + 3
    if glob.startswith("**", at):
        return ".*", at + 2
    if glob[at] in "[{":
        return _set(glob, at) if glob[at] == "[" else _choice(glob, at)
    if glob[at] == "\\" and at + 1 < len(glob):
        return re.escape(glob[at + 1]), at + 2
    return {"*": "[^/]*", "?": "[^/]"}.get(glob[at]) or re.escape(glob[at]), at + 1


def _set(glob: str, at: int) -> tuple[str, int]:
    end = glob.find("]", at + 2)
    if end < 0:
        return r"\[", at + 1
    inside = glob[at + 1 : end].replace("\\", r"\\").replace("[", r"\[")
    if inside.startswith("!"):
        inside = "^" + inside[1:]
    return f"[{inside}]", end + 1


def _choice(glob: str, at: int) -> tuple[str, int]:
    end = glob.find("}", at)
    if end < 0:
        return r"\{", at + 1
    choices = (compiled(choice).pattern.removesuffix(r"\Z") for choice in glob[at + 1 : end].split(","))
    return f"(?:{'|'.join(choices)})", end + 1


def fits(glob: str, path: str) -> bool:
    """Whether a path fits: a glob without a slash is about the name, a word without wildcards may be any part of it."""
    name = path.rpartition("/")[2]
    if not WILD.search(glob) and "{" not in glob:
        return glob.lower() in (path if "/" in glob else name).lower()
    if "/" in glob:
        return compiled(glob.removeprefix("./")).match(path) is not None
    return compiled(glob).match(name) is not None


def rules(text: str) -> list[Rule]:
    """The rules of a `.gitignore`."""
    return [rule for line in text.splitlines() if (rule := _rule(line)) is not None]


def _rule(line: str) -> Rule | None:
    line = line.rstrip("\r") if line.endswith("\\ ") else line.rstrip()
    if not line or line.startswith("#"):
        return None
    keep = line.startswith("!")
    line = line[1:] if keep else line
    line = line[1:] if line.startswith(("\\#", "\\!")) else line
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    anchored = "/" in line
    line = line.removeprefix("/")
    return Rule(pattern=line if anchored else f"**/{line}", keep=keep, folders_only=folders_only)


def ignored(path: str, *, folder: bool, layers: Sequence[tuple[str, Sequence[Rule]]]) -> bool:
    """Whether a path is ignored; `layers` are (folder, rules) from the outermost on, paths relative to one root."""
    for base, found in reversed(layers):
        inner = path[len(base) + 1 :] if base else path
        for rule in reversed(found):
            if (folder or not rule.folders_only) and compiled(rule.pattern).match(inner):
                return not rule.keep
    return False
