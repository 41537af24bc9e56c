"""What a skill would use: read from its front matter and its files, so that a person sees what an update gains. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from melete.core.plugin import Lazy
from melete.core.skill import Skill

_plan: Lazy[Callable[[str], Any]] = Lazy("melete.security.plan:plan")

FENCE = re.compile(r"^```[ \t]*(?:bash|sh|shell|zsh|console)\b[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^\$ ", re.MULTILINE)
URL = re.compile(r"\bhttps?://[^\s\"'<>`)\]}\\]+", re.IGNORECASE)
PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]*")
OF_THE_SHELL = frozenset(
    ("cd", "echo", "exec", "exit", "export", "false", "printf", "read", "set", "source", "test", "true")
)
"""Words of the shell that are no programs of anybody's."""
SHELL: Final = (".sh", ".bash", ".zsh")


class Permissions(Struct, frozen=True, kw_only=True):
    """The tools that a skill names, variables and files with secrets, programs that it runs, hosts that it speaks of."""

    tools: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def beyond(self, other: "Permissions") -> "Permissions":
        """What is here and not in the other."""
        fields = self.__struct_fields__
        return Permissions(
            **{one: tuple(x for x in getattr(self, one) if x not in getattr(other, one)) for one in fields}
        )


def permissions(skill: Skill, tree: Mapping[str, bytes]) -> Permissions:
    """What a skill with these files would use. Never raises; what is hidden in code is for the scan to find."""
    texts = {path: data.decode("utf-8", "replace") for path, data in tree.items()}
    scripts = (path for path in texts if path.startswith("scripts/"))
    commands = {*skill.commands, *scripts, *(name for path, text in texts.items() for name in _programs(path, text))}
    return Permissions(
        tools=_sorted({*skill.allowed_tools, *skill.conditions.requires_tools}),
        variables=_sorted({*(one.name for one in skill.variables), *skill.credential_files}),
        commands=_sorted(commands),
        hosts=_sorted({host for text in texts.values() for url in URL.findall(text) if (host := _host(url))}),
    )


def _programs(path: str, text: str) -> Iterator[str]:
    pieces = [text] if path.endswith(SHELL) else FENCE.findall(text) if path.endswith(".md") else []
    for piece in pieces:
        for program in _plan.load()(PROMPT.sub("", piece)).programs:
            if PROGRAM.fullmatch(program.name) and program.name not in OF_THE_SHELL:
                yield program.name


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".,;:")
    except ValueError:
        return ""


def _sorted(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
