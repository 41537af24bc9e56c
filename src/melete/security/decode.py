"""What simple programs print, as far as the text of a command tells: echo, printf, cat, and the usual decoders. Pure."""

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from melete.security.words import UNKNOWN, unescape

MOST = 60_000
LONGEST_SCRIPT = 200
_FORMAT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?([sbdiqxXocueEfgG%])")


def output(argv: Sequence[str], stdin: str, files: Mapping[str, str]) -> str:
    """What the program prints, or NUL when that cannot be told. `files` are the texts of files written before."""
    known = _PROGRAMS.get(argv[0].rpartition("/")[2]) if argv else None
    if known is None:
        return UNKNOWN
    try:
        text = known(list(argv[1:]), _source(argv[1:], stdin, files))
    except (ValueError, binascii.Error, UnicodeError, IndexError):
        return UNKNOWN
    return text if len(text) <= MOST else UNKNOWN


def _listing(arguments: list[str], _: str) -> str:
    return "" if arguments else UNKNOWN


def _which(arguments: list[str], _: str) -> str:
    return f"/usr/bin/{arguments[-1]}\n"


def downloaded(words: Sequence[str]) -> list[str]:
    """The files that a download is written to."""
    found = [b for a, b in pairwise(words) if re.fullmatch(r"-\w*o|--output(?:-document)?|-\w*O", a) and "://" not in b]
    found += [word.partition("=")[2] for word in words if word.startswith(("--output=", "--output-document="))]
    return found + [word.rpartition("/")[2] for word in words if "://" in word and word.rpartition("/")[2]]


def _source(arguments: Sequence[str], stdin: str, files: Mapping[str, str]) -> str:
    found = [files[name] for name in arguments if name in files]
    return "".join(found) or stdin


def _echo(arguments: list[str], _: str) -> str:
    flags = ""
    while arguments and re.fullmatch("-[neE]+", arguments[0]):
        flags += arguments.pop(0)
    text = " ".join(arguments)
    return (unescape(text) if "e" in flags else text) + ("" if "n" in flags else "\n")


def _printf(arguments: list[str], _: str) -> str:
    if arguments[:1] == ["--"]:
        del arguments[0]
    pattern, values = unescape(arguments[0]), arguments[1:]
    made = ""
    while True:
        before = len(values)
        made += _FORMAT.sub(lambda match: _formatted(match[1], values), pattern)
        if not values or len(values) == before or len(made) > MOST:
            return made


def _formatted(kind: str, values: list[str]) -> str:
    if kind == "%":
        return "%"
    value = values.pop(0) if values else ""
    return unescape(value) if kind == "b" else value


def _base64(arguments: list[str], text: str) -> str:
    if not any(re.fullmatch(r"-\w*[dD]\w*|--decode|-base64", word) for word in arguments):
        return base64.b64encode(text.encode()).decode() if UNKNOWN not in text else UNKNOWN
    packed = re.sub(r"\s", "", text)
    return _text(base64.b64decode(packed + "=" * (-len(packed) % 4)))


def _base32(arguments: list[str], text: str) -> str:
    if not any(word in ("-d", "-D", "--decode") for word in arguments):
        return UNKNOWN
    packed = re.sub(r"\s", "", text)
    return _text(base64.b32decode(packed + "=" * (-len(packed) % 8)))


def _openssl(arguments: list[str], text: str) -> str:
    return _base64(arguments, text) if "-d" in arguments and {"base64", "-base64", "-a"} & set(arguments) else UNKNOWN


def _xxd(arguments: list[str], text: str) -> str:
    if not any(re.fullmatch(r"-\w*r\w*|--revert", word) for word in arguments):
        return UNKNOWN
    return _text(bytes.fromhex(re.sub(r"\s|0x|\\x", "", text)))


def _text(found: bytes) -> str:
    return found.decode("utf-8", "strict")


def _rev(_: list[str], text: str) -> str:
    return "".join(f"{line[::-1]}\n" for line in text.splitlines())


def _tac(_: list[str], text: str) -> str:
    return "".join(f"{line}\n" for line in reversed(text.splitlines()))


def _tr(arguments: list[str], text: str) -> str:
    sets = [_characters(word) for word in arguments if not re.fullmatch("-[cdst]+", word)]
    if "-d" in arguments:
        return text.translate({ord(c): None for c in sets[0]})
    if not sets[1:] or any(word in ("-c", "-s", "-cd") for word in arguments):
        return UNKNOWN
    target = sets[1].ljust(len(sets[0]), sets[1][-1])
    return text.translate({ord(a): b for a, b in zip(sets[0], target, strict=False)})


def _characters(word: str) -> str:
    for name, members in (("[:lower:]", "a-z"), ("[:upper:]", "A-Z"), ("[:space:]", " \t\n"), ("[:digit:]", "0-9")):
        word = word.replace(name, members)
    spread = re.sub(
        r"(.)-(.)", lambda m: "".join(map(chr, range(ord(m[1]), min(ord(m[2]), ord(m[1]) + 200) + 1))), word
    )
    return unescape(spread)


def _sed(arguments: list[str], text: str) -> str:
    scripts = [word for word in arguments if not word.startswith("-")]
    match = (
        re.fullmatch(r"s(.)(.*?)\1(.*?)\1(g?)", scripts[0]) if scripts and len(scripts[0]) < LONGEST_SCRIPT else None
    )
    if match is None or re.search(r"[\\.*\[\]^$&+]", match[2] + match[3]):
        return UNKNOWN
    return "".join(line.replace(match[2], match[3], -1 if match[4] else 1) for line in text.splitlines(keepends=True))


def _rot13(_: list[str], text: str) -> str:
    return codecs.encode(text, "rot13")


def _same(arguments: list[str], text: str) -> str:
    return text if text else UNKNOWN if [word for word in arguments if not word.startswith("-")] else ""


def _through(_: list[str], text: str) -> str:
    return text


def _nothing(_: list[str], _text: str) -> str:
    return ""


def _settings(arguments: list[str], _: str) -> str:
    """Variables for the shell, from programs that are made to print them."""
    return (
        ""
        if arguments and arguments[0] in ("shellenv", "init", "hook", "env", "activate", "-s", "-c", "shell.bash")
        else UNKNOWN
    )


_PROGRAMS: Final[Mapping[str, Callable[[list[str], str], str]]] = {
    "echo": _echo, "printf": _printf, "print": _echo, "base64": _base64, "gbase64": _base64, "base32": _base32,
    "openssl": _openssl, "xxd": _xxd, "rev": _rev, "tac": _tac, "tr": _tr, "sed": _sed, "rot13": _rot13,
    "cat": _same, "tee": _through, "head": _same, "tail": _same, "sort": _same, "uniq": _same, "pv": _same,
    **dict.fromkeys(
        ["ssh-agent", "brew", "pyenv", "rbenv", "direnv", "opam", "fnm", "mise", "zoxide", "starship", "conda"], _settings),
    "which": _which, "set": _listing, "export": _listing,
    **dict.fromkeys(["true", "false", ":", "cd", "sleep", "chmod", "test", "[", "mkdir", "touch", "rm"], _nothing),
}  # fmt: skip
