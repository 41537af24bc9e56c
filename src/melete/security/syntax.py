"""The text of a command as the grammar of bash reads it, and what is left of it where the grammar does not fit. Pure."""

import re
import unicodedata
from collections.abc import Container
from typing import Any, Final

from msgspec import Struct

from melete.core.plugin import Lazy
from melete.security.words import names

MOST_DOCUMENTS = 60
MOST_SIGNS = 700
"""How many operators a text may hold outside quotes and here-documents: the parser is slow beyond."""

_Language: Lazy[Any] = Lazy("tree_sitter:Language")
_Parser: Lazy[Any] = Lazy("tree_sitter:Parser")
_grammar: Lazy[Any] = Lazy("tree_sitter_bash:language")

_ESCAPES = re.compile(r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|\[[0-?]*[ -/]*[@-~]|[@-_])?")
HIDING = re.compile("[\x1b\x08\u202a-\u202e\u2066-\u2069]")
_COMMAND_BRACES = re.compile(r"((?:^|[;&|(\n])[ \t]*)\{([^\s{}'\"`$,]+(?:,[^\s{}'\"`$,]*)+)\}(?=\s|$|[;&|)])")
"""A command that is one brace expansion, which the grammar does not know."""
FORKING = re.compile(r"([\w:.]{1,40})\s*\(\)\s*\{[^}]{0,200}?\1\s*\|&?\s*\1\s*&")
SEPARATORS = re.compile(
    r"[;&|\n`(){}!]+|\b(?:do|then|else|elif|if|while|until|time|coproc|exec|eval|command|builtin)\b|\bcase\s+\S+\s+in\b"
)
ACTIVE_PARTS = re.compile(r"\$[\w{(\[@*'\"]|`|<[<(]|>\(|\{")
WRITTEN = re.compile(r"\d*&?>+[|&]?\s*([^\s<>]+)")
FED = re.compile(r"\d*<+[&-]?\s*[^\s<>]+")
_NO_BODY = re.compile(r"(?<![<\w)])<<-?\s*(['\"]?)[A-Za-z_]\w*\1(?=[^\n]*\Z)")
"""A here-document that ends before it begins."""
_SEPARATOR = re.compile(r"\$IFS(?!\w)")
_TIMED = re.compile(
    r"((?:^|[;&|(\n{`]|\b(?:then|do|else)\s|!)\s*)(?:coproc\s+(?:[A-Za-z_]\w*\s+(?=[{(]))?"
    r"|time\s+(?:-p\s+)?(?=[{(!]|(?:if|for|while|until|case|select|function)\s))"
)
"""Words of the shell before a command that the grammar takes for programs."""
_CLOSING = re.compile(r"(?:(?<![^\s;&|(`'\"])\d+|\{\w+\})?[<>]&-(?=[\s;&|)]|\Z)")
_BOTH_WAYS = re.compile(r"(?<!<)(\d*)<>(?=\s*[\w/.$\"'~&])")
_NOTHING = re.compile(r"(?<![`\\])``(?!`)")
_LONE_DASH = re.compile(r"(?<=\s)-(?=[ \t]*<<)")
"""A dash that the grammar leaves out, before a here-document."""
WORDS = names(
    "word concatenation string raw_string ansi_c_string translated_string simple_expansion expansion number command_name"
    " command_substitution"
)
_SHUT = re.compile(r"<<-?\s*(['\"]?)(\w{1,40})\1[\s\S]*?\n\s*\2(?=\n|\Z)|'[^']*'|\"[^\"`$]*\"")
_SIGNS = re.compile(r"[|&;(){}<>`]")
_BLANK = {ord("\n"): " ", ord("\t"): " "}


def normalise(text: str) -> str:
    """The text without terminal escapes and invisible characters, look-alikes replaced by the letters that they stand for."""
    if text.isascii() and text.translate(_BLANK).isprintable():
        return text
    text = unicodedata.normalize("NFKC", _ESCAPES.sub("", text))
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cf", "Cc", "Cs", "Cn", "Co"))


def prepared(text: str) -> str:
    """The text in a form that the grammar knows."""
    text = _CLOSING.sub(" ", _TIMED.sub(r"\1", _TIMED.sub(r"\1", text)))
    text = _BOTH_WAYS.sub(lambda match: f"{match[1] or ' '}>", text)
    text = _NOTHING.sub("", _SEPARATOR.sub("${IFS}", text.replace("\\\n", "")))
    if text.count("<<") <= MOST_DOCUMENTS:
        text = _LONE_DASH.sub("'-'", _NO_BODY.sub("", text))
    return _COMMAND_BRACES.sub(lambda match: match[1] + match[2].replace(",", " "), text)


def parsed(text: str) -> Any:
    """The root of the text's tree, or None for a text with too many operators."""
    if text.count("<<") > MOST_DOCUMENTS or len(_SIGNS.findall(_SHUT.sub("", text))) > MOST_SIGNS:
        return None
    return _Parser.load()(_Language.load()(_grammar.load()())).parse(text.encode("utf-8", "replace")).root_node


def leaves_out(node: Any) -> bool:
    """Whether the grammar has passed over something between the parts of a node, or has divided a word."""
    source, start = node.text, node.start_byte
    end, worded = start, False
    for child in node.children:
        between = source[end - start : child.start_byte - start]
        word = child.type in WORDS
        if between.strip() or (word and worded and not between):
            return True
        end, worded = child.end_byte, word
    return False


_DATA: Final = names(
    "case_statement case_item for_statement select_statement c_style_for_statement function_definition subscript array test_command"
    " binary_expression unary_expression postfix_expression ternary_expression parenthesized_expression arithmetic_expansion"
    " expansion heredoc_body string concatenation variable_assignment"
)
"""Where a word is a value and none of a command's arguments."""


def unread_words(root: Any, read: Container[int]) -> bool:
    """Whether a word of a command, or of a redirection, is not among those that were read."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in WORDS and node.parent.type not in _DATA and node.id not in read:
            return True
        waiting += [] if node.type in WORDS else node.named_children
    return False


class Substitutions(Struct, frozen=True, kw_only=True):
    """What runs inside a text: the nodes that hold commands, the texts of those that the grammar takes for plain words, and
    whether some of these cannot be told or change a value."""

    nodes: tuple[Any, ...]
    texts: tuple[str, ...]
    unread: bool


COUNTS = re.compile(
    r"\(\((?![\d\s+*/%<>=()-]*\)\))|\$\[|\[\[.*\s-(?:eq|ne|lt|le|gt|ge|v)\s|(?<![\w-])let\s|\$\{\w+(?:\[|:(?![-=+?])|@)"
)
"""Where the shell counts with variables."""
_RUNNING = names("command declaration_command unset_command subshell command_substitution process_substitution")
_QUOTING = names("raw_string ansi_c_string comment heredoc_start")
_OPENING = re.compile(rb"\\.|\$\((?!\()|`|[<>]\(", re.DOTALL)
_ESCAPED = re.compile(r"\\([`$\\])")


def substitutions(root: Any, source: str) -> Substitutions:
    """Every place of a text where commands stand, also where the grammar does not look for them."""
    nodes: list[Any] = []
    known: set[int] = set()
    plain: list[tuple[int, int]] = []
    valued: list[tuple[int, int]] = []
    nested: list[str] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        span = (node.start_byte, node.end_byte)
        if node.type in _RUNNING:
            nodes.append(node)
            if node.type.endswith("substitution"):
                known.update((span[0], span[1] - 1))
                inner = node.text[1:-1].decode("utf-8", "replace")
                nested += [_ESCAPED.sub(r"\1", inner)] if node.text[:1] == b"`" and _ESCAPED.search(inner) else []
        elif node.type in _QUOTING or (node.type == "heredoc_redirect" and _quoted(node)):
            plain.append(span)
        elif node.type == "expansion":
            valued.append(span)
        waiting += reversed(node.children)
    data, at = source.encode("utf-8", "replace"), 0
    texts: list[str] = []
    unread = False
    while found := _OPENING.search(data, at):
        at = found.end()
        start = found.start()
        inside = any(a <= start < b for a, b in valued)
        if found[0][:1] == b"\\" or start in known or any(a <= start < b for a, b in plain):
            continue
        if found[0][:1] in b"<>" and not inside:
            continue
        end = data.find(b"`", at) if found[0] == b"`" else _closing(data, at)
        if re.search(rb"\bcase\s", data[at:end]):  # its patterns end with brackets
            end, unread = data.rfind(b")"), True
        unread = unread or inside or end < 0
        texts.append(data[at : end if end >= 0 else None].decode("utf-8", "replace"))
        at = end + 1 if found[0] == b"`" and end >= 0 else at
    return Substitutions(nodes=tuple(nodes), texts=(*nested, *texts[:MOST_DOCUMENTS]), unread=unread)


def _quoted(node: Any) -> bool:
    return any(c.type == "heredoc_start" and re.search(rb"['\"\\]", c.text) for c in node.children)


def _closing(data: bytes, at: int) -> int:
    depth = 1
    for found in re.finditer(rb"[()]", data[at:]):
        depth += 1 if found[0] == b"(" else -1
        if not depth:
            return at + found.start()
    return -1
