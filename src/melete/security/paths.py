"""One way from a path that somebody else wrote to a path inside a folder of ours. No state; the disk is read for links alone.

Whoever gets a path from a model, a skill, an archive or an id calls `resolve`. What no honest relative path has is refused as
such, on every system alike: a skill that was packed on one machine is opened on another. Nothing is decoded: `%2e%2e` is a
name of six characters, and must not become another one later.
"""

import os
import re
import stat
import unicodedata
from typing import Final

from melete.core.errors import MeleteError

LONGEST: Final = 4_096
LONGEST_NAME: Final = 255
DEEPEST: Final = 32
MOST_LINKS: Final = 16
LONGEST_ID: Final = 64
LONGEST_SHOWN: Final = 80
DEVICES = frozenset(
    {"aux", "clock$", "con", "conin$", "conout$", "nul", "prn"}
    | {f"{kind}{n}" for kind in ("com", "lpt") for n in "0123456789¹²³"}
)
"""Names that are devices on Windows, whatever follows a dot."""
RESERVED = DEVICES | {"node_modules", "__pycache__"}
"""Names that tools give a meaning of their own."""
SEPARATORS = frozenset("/\\")
ODD = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Kinds of characters that nobody sees, or that are none."""
PLAIN_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
"""Most names; they need no closer look."""
JOINERS = frozenset("\u200c\u200d")
"""What belongs to the spelling of some languages and of emoji."""


class PathRefusedError(MeleteError):
    """A path that was given does not stay where it must; nothing was opened."""

    def __init__(self, text: str, why: str) -> None:
        shown = ascii(text[:LONGEST_SHOWN] + "…" * (len(text) > LONGEST_SHOWN))
        super().__init__(
            f"the path {shown} is refused: {why}", kept="nothing was opened", next="give a plain relative path"
        )
        self.why = why


def parts(text: str) -> tuple[str, ...]:
    """The names that a relative path is made of, `.` left out and `..` taken back; raises PathRefusedError.

    Pure: the disk is not asked. A path that climbs above its root at any point is refused, and so is every form that another
    system reads in another way: backslashes, drives, streams, devices, names that end in a dot or a space.
    """
    if why := _wrong_whole(text):
        raise PathRefusedError(text, why)
    found: list[str] = []
    for name in text.split("/"):
        if name == "..":
            if not found:
                raise PathRefusedError(text, "it leads out of its folder")
            found.pop()
        elif name not in ("", "."):
            if why := wrong_name(name):
                raise PathRefusedError(text, why)
            found.append(name)
    if len(found) > DEEPEST:
        raise PathRefusedError(text, f"it is more than {DEEPEST} folders deep")
    return tuple(found)


def _wrong_whole(text: str) -> str:
    if not text.strip():
        return "it is empty"
    if len(text) > LONGEST or len(text.encode("utf-8", "replace")) > LONGEST:
        return f"it is longer than {LONGEST} bytes"
    if text.startswith("/"):
        return "it is absolute"
    return "it begins with ~, which stands for somebody's home" if text.startswith("~") else ""


def wrong_name(name: str) -> str:
    """Why a name of one file or folder cannot be used, empty where it can."""
    plain = unicodedata.normalize("NFKC", name)
    found = (
        ("it holds a backslash, which separates folders on Windows", "\\" in name),
        ("it holds a colon, which names a drive, a stream or a scheme", ":" in name),
        ("it holds characters that cannot be seen, or are none", any(_unseen(c) for c in name)),
        ("it looks like a separator or a step to the folder above", SEPARATORS & set(plain) or not plain.strip(". ")),
        ("a name ends in a dot or a space, which Windows leaves out", name.endswith((".", " "))),
        ("it is the name of a device on Windows", plain.partition(".")[0].strip().lower() in DEVICES),
        (f"a name is longer than {LONGEST_NAME} bytes", len(name.encode("utf-8", "replace")) > LONGEST_NAME),
    )
    return next((why for why, holds in found if holds), "")


def _unseen(character: str) -> bool:
    return unicodedata.category(character) in ODD and character not in JOINERS


def resolve(root: str, text: str) -> str:
    """The absolute path that `text` leads to below the folder `root`, no link in it; raises PathRefusedError, OSError of `root`.

    Links are followed one by one, and refused as soon as one leads outside; what is not there yet may be made. The folder must
    not be one that somebody else changes meanwhile.
    """
    base = os.path.realpath(root, strict=True)
    names = list(reversed(parts(text)))
    here, links = base, 0
    while names:
        name = names.pop()
        if name == "..":  # only a link brings these
            here = here.rpartition("/")[0] or "/"
        else:
            here, target = _step(here, name, text)
            if target:
                links += 1
                if target.startswith("/"):
                    target = os.path.normpath(target)
                    here, target = (base, target[len(base) :]) if within(target, base) else ("/", "")
                names += [one for one in reversed(target.split("/")) if one not in ("", ".")]
        if links > MOST_LINKS:
            raise PathRefusedError(text, "its links lead in a circle, or there are too many")
        if not within(here, base):
            raise PathRefusedError(text, "a link in it leads out of its folder")
    return here


def _step(here: str, name: str, text: str) -> tuple[str, str]:
    """Where one more name leads, and what a link there says has still to be walked."""
    path = f"{here.rstrip('/')}/{name}"
    try:
        if not stat.S_ISLNK(os.lstat(path).st_mode):
            return path, ""
        target = os.readlink(path)  # noqa: PTH115 - pathlib is five times slower
    except (FileNotFoundError, NotADirectoryError):
        return path, ""
    except (OSError, ValueError) as error:
        raise PathRefusedError(text, f"it cannot be looked at: {error}") from error
    return here, target


def within(path: str, folder: str) -> bool:
    """Whether an absolute path without links is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def same_name(name: str) -> str:
    """What two names have in common that some file system takes for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def wrong_id(name: str) -> str:
    """Why something cannot be called so, such as a skill; empty where it can.

    A name is small letters of one script and digits, with single hyphens between them.
    """
    if len(name) <= LONGEST_ID and PLAIN_ID.fullmatch(name) and name not in RESERVED:
        return ""
    scripts = {unicodedata.name(c, "?").partition(" ")[0] for c in name if c.isalpha()}
    found = (
        (f"a name has 1 to {LONGEST_ID} characters", not 0 < len(name) <= LONGEST_ID),
        ("it is not written in the usual form of its characters", unicodedata.normalize("NFKC", name) != name),
        ("use small letters, digits and hyphens only", not all(_in_id(c) for c in name)),
        ("hyphens stand alone, between other characters", name.startswith("-") or name.endswith("-") or "--" in name),
        ("it mixes letters of several scripts, which look alike", len(scripts) > 1),
        ("it is reserved", name in RESERVED),
    )
    return next((why for why, holds in found if holds), "")


def _in_id(character: str) -> bool:
    return character in "-0123456789" or (character.isalpha() and character == character.lower())
