"""Words of the grammar's tree with their variables, substitutions and quotes resolved, as far as the text tells. Pure."""

import posixpath
import re
from abc import ABC, abstractmethod
from typing import Any, Final

from melete.security.decode import downloaded, output
from melete.security.inner import TOO_LONG, TOO_WORDY
from melete.security.unwrap import basename, runs_others
from melete.security.words import (
    FIELD,
    HERE,
    UNKNOWN,
    Word,
    double_quoted,
    expanded,
    plain,
    unescape,
    unquoted,
    vanishing,
    words_of,
)
from melete.security.wrappers import MATTER

_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPANSION = re.compile(r"\$\{(!)?([A-Za-z_]\w*|[@*#?$!0-9-])(.*)\}\Z", re.DOTALL)
_STARTING: Final = {
    "IFS": " \t\n", "HOME": "~", "@": "", "*": "", "TMPDIR": "/tmp",  # noqa: S108 - the usual value
    "EDITOR": "vi", "VISUAL": "vi", "PAGER": "less", "SHELL": "sh", "CC": "cc", "CXX": "c++", "PYTHON": "python3", "MAKE": "make",
    "MELETE_HOME": "~/.melete",
}  # fmt: skip
MOST_ARGUMENTS = 20
RUNNING_INDEX = re.compile(r"\w\[[^\]]*(?:\$\(|`)")
"""Arithmetic runs what stands in an index, also when it comes out of a variable."""
_LISTING: Final = ("*", "@", "[@]", "[*]")
"""Behind `${!name`: these list names, or the keys of an array."""
MOST_STEPS = 5_000
MOST_VALUE = 10_000
DEEPEST_TREE = 100
_TEXTS: Final = ("command_substitution", "process_substitution")
_LISTED: Final = re.compile(r'"\$(?:@|\{@\}|\{\w+\[@\]\})"')
"""Arguments between quotes that may be none at all."""


class Expander(ABC):
    """Knows the variables and the files written so far; what runs inside substitutions is followed by the class below."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = dict(_STARTING)
        self.files: dict[str, str] = {}
        self.opaque: list[str] = []
        self.assigned: set[str] = set()
        self.read: set[int] = set()
        self.default = ""
        self.folder: str = ""
        self.renamed: dict[str, str] = {}
        self.steps = 0
        self.level = 0

    @abstractmethod
    def walk(self, node: Any, stdin: str) -> str:
        """Follow a node with this input; returns what it prints."""

    @abstractmethod
    def substituted(self, node: Any) -> str:
        """What the commands inside a substitution print."""

    def words(self, node: Any) -> list[Word]:
        """The words that a node becomes."""
        found = words_of(self.marked(node))
        if found and found[-1].cut:
            self.opaque.append(TOO_WORDY)
        return found

    def assign(self, name: str, value: str) -> None:
        """A variable is given a value."""
        value = value if len(value) <= MOST_VALUE else UNKNOWN
        self.assigned.add(name)
        if "[" in value and RUNNING_INDEX.search(value):
            self.opaque.append("it runs a command inside an index")
        self.variables[name] = value

    def set_by(self, name: str, words: list[str], stdin: str) -> None:
        """A program of the shell sets variables."""
        if name == "printf":
            if words[:1] == ["-v"] and len(words) > 2:  # noqa: PLR2004 - option, name, pattern
                self.assign(words[1], output(["printf", *words[2:]], "", {}))
        elif name == "read":
            line = stdin.partition("\n")[0] if stdin else UNKNOWN
            names = [word for word in words if re.fullmatch(r"[A-Za-z_]\w*", word)] or ["REPLY"]
            fields = line.split(None, len(names) - 1)
            if re.search(r"(?m)^-\w*a", "\n".join(words)):
                fields = [FIELD.join(line.split())]
            for at, one in enumerate(names):
                self.assign(one, UNKNOWN if UNKNOWN in line else "".join(fields[at : at + 1]))
        elif name in ("mapfile", "readarray", "getopts"):
            for word in words:
                self.variables.update({word: UNKNOWN} if re.fullmatch(r"[A-Za-z_]\w*", word) else {})
        else:
            if name != "export" and any(re.match(r"-[A-Za-z]*n", word) for word in words):
                self.opaque.append("a name stands for another variable")
            self.assigned.update(word.partition("=")[0] for word in words if "=" in word)

    def noted(self, name: str, words: list[str], stdin: str) -> None:
        """What a program changes for those behind it: the folder, the arguments, the files."""
        if name in ("cd", "pushd"):
            target = next((word for word in words if word[:1] != "-" and word), "~")
            self.folder = target if target[:1] == "~" else posixpath.join(self.folder, target)
        elif name == "set" and "--" in words:
            self.set_positional(words[words.index("--") + 1 :])
        elif name == "shift":
            self.set_positional(self.positional()[1:])
        elif name in (
            "read",
            "mapfile",
            "readarray",
            "getopts",
            "printf",
            "local",
            "declare",
            "export",
            "typeset",
            "readonly",
        ):
            self.set_by(name, words, stdin)
        elif name in ("curl", "wget"):
            self.files.update(dict.fromkeys(downloaded(words), UNKNOWN))
        elif name in ("tee", "sponge"):
            self.files.update({text: stdin for text in words if not text.startswith("-")})
        elif name == "dd":
            self.files.update({word[3:]: stdin for word in words if word.startswith("of=")})
        elif name in ("alias", "cp", "mv", "ln", "install"):
            self._renames(words)

    def _renames(self, words: list[str]) -> None:
        """A name, or a file, stands for another one from here on."""
        self.renamed.update({word.partition("=")[0]: word.partition("=")[2] for word in words if "=" in word})
        if len(words) > 1:
            source, target = words[-2:]
            self.files.update({target: self.files[source]} if source in self.files else {})
            if runs_others(basename(source)) or basename(source) in MATTER:
                self.renamed[basename(target)] = basename(source)

    def spent(self) -> bool:
        """Count a step; whether there were too many, or too many levels of the tree are open."""
        self.steps += 1
        return self.steps > MOST_STEPS or self.level > DEEPEST_TREE

    def positional(self) -> list[str]:
        """The arguments of the function, or of the text."""
        return self.variables["@"].split(FIELD) if self.variables["@"] else []

    def set_positional(self, arguments: list[str]) -> None:
        """Replace them."""
        numbered = {str(at): text for at, text in enumerate(arguments[:MOST_ARGUMENTS], 1)}
        joined = FIELD.join(arguments)
        self.variables = {name: value for name, value in self.variables.items() if not name.isdigit()}
        self.variables.update(numbered, **{"@": joined, "*": joined.replace(FIELD, " ")})

    def marked(self, node: Any) -> str:
        """The text of a node, expanded, with its active characters marked."""
        return self._piece(node, quoted=False)

    def _piece(self, node: Any, *, quoted: bool) -> str:
        if self.spent():
            self.opaque.append(TOO_LONG)
            return UNKNOWN
        self.level += 1
        self.read.add(node.id)
        made = self._read(node, quoted=quoted)
        self.level -= 1
        return made

    def _read(self, node: Any, *, quoted: bool) -> str:  # noqa: PLR0911 - a table of kinds
        text = node.text.decode("utf-8", "replace")
        match node.type:
            case "raw_string":
                return text[1:-1]
            case "ansi_c_string":
                return unescape(text[2:-1])
            case "string" | "translated_string":
                made = self._parts(node, quoted=True, ends=True)
                return vanishing(made) if _LISTED.fullmatch(text) else made
            case "simple_expansion":
                return self._value(self._variable(text[1:]), quoted=quoted)
            case "expansion":
                return self._valued(self._expansion(text, node), quoted=quoted)
            case "command_substitution":
                return self._value(self.substituted(node), quoted=quoted)
            case "process_substitution":
                return self._substituted(node, text)
            case "arithmetic_expansion":
                self._parts(node, quoted=True)
                return UNKNOWN
            case _:
                if node.named_child_count or node.type in ("concatenation", "command_name"):
                    return self._parts(node, quoted=quoted)
                return double_quoted(text) if quoted else unquoted(text)

    def _parts(self, node: Any, *, quoted: bool, ends: bool = False) -> str:
        """The children's texts and, between them, what the grammar leaves out."""
        source: bytes = node.text
        start, made = node.start_byte, ""
        at = 0
        for child in node.named_children if not ends or node.type == "string" else node.children:
            gap = source[at : child.start_byte - start].decode("utf-8", "replace")
            made += (double_quoted(gap) if quoted else self._bare(gap)) + self._piece(child, quoted=quoted)
            at = child.end_byte - start
        gap = source[at:].decode("utf-8", "replace")
        made += double_quoted(gap) if quoted else self._bare(gap)
        return made[1:-1] if node.type == "string" and len(made) > 1 else made.removeprefix("$") if ends else made

    def _bare(self, gap: str) -> str:
        if "`" in gap:
            self.opaque.append("its syntax cannot be read")
        return unquoted(gap)

    def _valued(self, value: str, *, quoted: bool) -> str:
        if value and value is self.default:
            return plain(value) if quoted else vanishing(value.replace("\t", FIELD).replace("\n", FIELD))
        return self._value(value, quoted=quoted)

    def _value(self, value: str, *, quoted: bool) -> str:
        return value if quoted else expanded(value, self.variables["IFS"])

    def _variable(self, name: str) -> str:
        return self.variables.get(name, self.here() if name == "PWD" else UNKNOWN)

    def here(self) -> str:
        """The folder that a command runs in, as far as the text tells."""
        return self.folder if self.folder[:1] in ("/", "~") and self.folder else UNKNOWN if self.folder else HERE

    def _expansion(self, text: str, node: Any) -> str:
        for child in node.named_children:
            if child.type in _TEXTS:
                self._piece(child, quoted=True)
        match = _EXPANSION.match(text)
        if match is None:
            return UNKNOWN
        value = self._variable(match[2])
        if match[1]:
            value = self._variable(value) if _NAME.fullmatch(value) else UNKNOWN
            self.opaque += (
                ["a name stands for another variable"] if value == UNKNOWN and match[3] not in _LISTING else []
            )
        changed = self._changed(value, match[3], node)
        if re.match(":?=", match[3]) and value in ("", UNKNOWN):
            self.assign(match[2], plain(changed))
        return changed

    def _changed(self, value: str, change: str, node: Any) -> str:
        operator = re.match(r":?[-=+?]", change)
        if change in ("[@]", "[*]") or not change:
            return value
        if operator:
            last = node.named_children[-1] if node.named_child_count > 1 else None
            other = self._piece(last, quoted=False) if last is not None else unquoted(change[operator.end() :])
            self.default = other
            unset = value in ("", UNKNOWN)
            return (other if unset else value) if operator[0][-1] in "-=?" else ("" if unset else other)
        part = re.fullmatch(r":\s*(-?\d+)(?::(\d+))?", change)
        if part and value != UNKNOWN:
            start = int(part[1])
            return value[start : start + int(part[2])] if part[2] else value[start:]
        swap = re.fullmatch(r"(//?)([^/*?\[\\]+)/?([^/]*)", change)
        if swap and len(value) * len(swap[3]) > MOST_VALUE * 100:
            return UNKNOWN
        if swap:
            return value.replace(swap[2], swap[3], -1 if swap[1] == "//" else 1)
        if change == "@P":
            self.opaque.append("it runs what stands in a variable")
        cases = {"^^": str.upper, ",,": str.lower, "^": str.capitalize}
        return cases[change](value) if change in cases else UNKNOWN

    def _substituted(self, node: Any, text: str) -> str:
        name = f"/dev/fd/{63 + len(self.files)}"
        if text.startswith("<"):
            self.files[name] = self.substituted(node)
        else:
            for child in node.named_children:
                self.walk(child, UNKNOWN)
        return name
