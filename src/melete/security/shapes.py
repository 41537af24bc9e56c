"""Programs that run others in a way of their own: git, editors, sed, tmux. Pure."""

import re
import shlex
from collections.abc import Mapping
from typing import Final

from melete.security.inner import Inner

_SED_RUNS = re.compile(r"(?:^|[;\n{]|--expression=)\s*(?:[\d,]+|\$|/[^/]*/)?!?\s*e(?:\s+(.+)|\Z)")
_BANG = re.compile(r"(?:^|[:|\n;])\s*(?:silent\s+|sil\s+)?(?:r(?:ead)?\s*)?!+\s*(.+)")


_GIT_RUNS: Final = re.compile(
    r"(?i)(core\.(pager|editor|sshcommand|fsmonitor|gitproxy|askpass)|pager\.\w+|sequence\.editor|diff\.external|credential\..*helper"
    r"|gpg\.program|filter\..*|merge\..*driver|.*tool\..*cmd|protocol\.ext\.allow|uploadpack\.\w+hook)"
)


def run_by_git(words: list[str], _stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    """Aliases, pagers, filters and commands that git is given to run."""
    found: list[Inner] = []
    for at, word in enumerate(words[:-1]):
        if word == "-c":
            key, _, value = words[at + 1].partition("=")
            if key.lower().startswith("alias."):
                found.append(Inner(kind="text", text=value[1:] if value.startswith("!") else f"git {value}"))
            elif _GIT_RUNS.fullmatch(key) and value not in ("", "cat", "less", "true", "false"):
                found.append(Inner(kind="text", text=value.removeprefix("!")))
    for at, word in enumerate(words):
        if word in ("foreach", "run") and at and words[at - 1] in ("submodule", "bisect"):
            rest = words[at + 1 :]
            rest = rest[1:] if rest[:1] in (["--recursive"], ["-q"], ["--quiet"]) else rest
            found.append(Inner(kind="text", text=shlex.join(rest) if len(rest) > 1 else "".join(rest)))
        elif word in ("--exec", "-x", "--tree-filter", "--index-filter", "--upload-pack", "-O", "--receive-pack"):
            found.append(
                Inner(kind="text", text="".join(words[at + 1 : at + 2])) if word != "-O" else Inner(kind="text")
            )
        elif word.startswith(("--upload-pack=", "--open-files-in-pager=", "--exec=", "--extcmd=")):
            found.append(Inner(kind="text", text=word.partition("=")[2]))
        elif word.startswith("ext::"):
            found.append(Inner(kind="text", text=word.removeprefix("ext::")))
    return found


def run_by_editor(words: list[str], _stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    """Commands of an editor or pager, and the shell commands in them."""
    found: list[Inner] = []
    for at, word in enumerate(words):
        command = (
            words[at + 1]
            if word in ("-c", "--cmd", "-S") and at + 1 < len(words)
            else word[1:]
            if word[:1] == "+"
            else ""
        )
        match = _BANG.search(command)
        if match:
            found.append(Inner(kind="text", text=match[1]))
        elif command:
            found.append(Inner(kind="code", text=command, language="vim"))
    return found


def run_by_sed(words: list[str], _stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    """What `e` runs, and that the result of a substitution is run."""
    runs = [match[1] for word in words for match in _SED_RUNS.finditer(word)]
    found = [Inner(kind="text", text=text) for text in runs if text]
    words = [word.removeprefix("--expression=") for word in words]
    if None in runs or any(map(_substitutes_and_runs, re.split(r"[;\n]", re.sub(r"\\.", "", "\n".join(words))))):
        found.append(Inner(kind="opaque", text="sed runs what it makes of its input"))
    return found


def _substitutes_and_runs(script: str) -> bool:
    start = re.match(r"[\s\d,$!]*(?:/[^/]*/)?s([^\w\s])", script)
    return start is not None and "e" in "".join(script[start.end() :].split(start[1])[2:3]).partition("w")[0]


def run_by_tmux(words: list[str], _stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    """What is typed into a terminal."""
    values = {"-s", "-n", "-c", "-t", "-x", "-y", "-L", "-S", "-f", "-e", "-F", "-l", "-p"}
    operands = [w for at, w in enumerate(words) if not w.startswith("-") and (not at or words[at - 1] not in values)]
    if not operands or operands[0] not in (
        "new-session", "new", "new-window", "neww", "split-window", "splitw", "send-keys", "send", "respawn-pane", "run-shell",
        "run", "if-shell", "pipe-pane", "display-popup", "popup",
    ):  # fmt: skip
        return []
    rest = [w for w in operands[1:] if w not in ("Enter", "C-m")]
    return [Inner(kind="text", text=" ".join(rest))] if rest else []
