"""The text of a command as the grammar of bash reads it, and what is left of it where the grammar does not fit. Pure."""

import re
import unicodedata
from typing import Any

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
WRITTEN = re.compile(r">+[|&]?\s*([^\s<>]+)")
_NO_BODY = re.compile(r"(?<![<\w)])<<-?\s*(['\"]?)[A-Za-z_]\w*\1(?=[^\n]*\Z)")
"""A here-document that ends before it begins."""
_SEPARATOR = re.compile(r"\$IFS(?!\w)")
_LONE_DASH = re.compile(r"(?<=\s)-(?=[ \t]*<<)")
"""A dash that the grammar leaves out, before a here-document."""
_WORDS = names(
    "word concatenation string raw_string ansi_c_string translated_string simple_expansion expansion number command_name"
    " command_substitution"
)
_SHUT = re.compile(r"<<-?\s*(['\"]?)(\w{1,40})\1[\s\S]*?\n\s*\2(?=\n|\Z)|'[^']*'|\"[^\"`$]*\"")
_SIGNS = re.compile(r"[|&;(){}<>`]")


def normalise(text: str) -> str:
    """The text without terminal escapes and invisible characters, look-alikes replaced by the letters that they stand for."""
    if text.isascii() and text.isprintable():
        return text
    text = unicodedata.normalize("NFKC", _ESCAPES.sub("", text))
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cf", "Cc", "Cs", "Cn"))


def prepared(text: str) -> str:
    """The text in a form that the grammar knows."""
    text = _SEPARATOR.sub("${IFS}", text.replace("\\\n", ""))
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
        word = child.type in _WORDS
        if between.strip() or (word and worded and not between):
            return True
        end, worded = child.end_byte, word
    return False
