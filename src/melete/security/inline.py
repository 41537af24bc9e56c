"""Commands inside code that an interpreter is given inline. Pure."""

import base64
import binascii
import re
from typing import Final

from melete.security.inner import Inner, at_most

MOST = 100
_RUNS: Final = re.compile(
    r"\b(?:system|popen\d?|subprocess|run|call|check_output|check_call|getoutput|exec\w*|spawn\w*|shell_exec|passthru|proc_open|pty|terminal"
    r"|child_process|execute|qx|Process|ProcessBuilder|shell|open3|capture2e?|Command)\b|`|%x|\"\s*\|\s*(?:getline|\"?sh)|\|&?\s*getline|^\s*:?!|^\s*\.?(?:shell|system)\s|\\!|\bopen\W.{0,60}?(?:['\"]\s*\||\|\s*['\"])",
    re.MULTILINE,
)
_LIST = re.compile(r"((?:(['\"])(?:(?!\2).){0,400}\2\s*,\s*\[?\s*){1,40}(['\"])(?:(?!\3).){0,400}\3)", re.DOTALL)
_STRING = re.compile(
    r"'''(.*?)'''|\"\"\"(.*?)\"\"\"|'((?:\\.|[^'\\\n])*)'|\"((?:\\.|[^\"\\\n])*)\"|`([^`]*)`", re.DOTALL
)
_QUOTED_BY_WORD = re.compile(r"(?:qx|%x|q[qw]?)\s*(?:\((.*?)\)|\{(.*?)\}|\[(.*?)\]|/(.*?)/|\|(.*?)\|)", re.DOTALL)
_PACKED = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}\Z")
_LINES = re.compile(r"^\s*(?::?|\\)!\s*(\S.*)$|^\s*(?:\.?shell|\.?system|exec|spawn)\s+([^\s\"'].*)$", re.MULTILINE)


def commands_in(code: str) -> list[Inner]:
    """The texts that the code may hand to a shell: its strings, lists of strings joined, and encoded strings decoded.

    Empty for code that runs nothing else.
    """
    if _RUNS.search(code) is None and not code.strip().startswith("rm "):
        return []
    lists = [
        " ".join(part for pair in _STRING.findall(match[1]) for part in pair if part) for match in _LIST.finditer(code)
    ]
    strings = ["".join(parts) for parts in _STRING.findall(code)]
    more = ["".join(parts) for found in (_LINES, _QUOTED_BY_WORD) for parts in found.findall(code)]
    decoded = [text for string in strings if (text := _decoded(string))]
    found = [
        text.strip("| ").replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
        for text in (*lists, *strings, *more, *decoded)
    ]
    if code.strip().startswith("rm "):
        found.append(code)
    return at_most([Inner(kind="text", text=text) for text in dict.fromkeys(found) if _likely(text)], MOST)


def _likely(text: str) -> bool:
    return (
        len(text) > 1
        and re.match(r"\s*[\w./~$(!:{-]", text) is not None
        and (" " in text.strip() or "/" in text or text in _ALONE)
    )


_ALONE: Final = frozenset(("reboot", "poweroff", "halt", "shutdown", "sh", "bash"))


def _decoded(string: str) -> str:
    if not _PACKED.match(string) or len(string) % 4:
        return ""
    try:
        text = base64.b64decode(string, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""
    return text if text.isprintable() else ""
