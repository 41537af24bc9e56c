"""What everybody in the world knows: the words of `w`, of the person who asks for work, and of a lesson that is written down.

The policy reads nothing else of the world, so what is right for a verb stands nowhere here.
"""

import re
from collections.abc import Sequence

VERBS = (
    "brew", "carve", "dredge", "etch", "ferry", "glaze", "hoist", "inlay", "juggle", "knead", "lathe", "mortar",
    "notch", "oxidise", "plait", "quarry", "rivet", "solder", "thatch", "upend", "varnish", "whittle", "yoke", "zinc",
)  # fmt: skip
NOUNS = (
    "amphora", "barrel", "cornice", "dinghy", "easel", "fender", "gutter", "hamper", "inkwell", "jetty", "kettle",
    "lantern", "mantel", "nozzle", "oar", "panel", "quiver", "rafter", "saddle", "trestle", "urn", "vase", "wicker",
    "yardarm",
)  # fmt: skip
FLAGS = ("--amber", "--birch", "--cedar", "--dusk", "--ember", "--frost", "--grove", "--haven")
MODES = ("brisk", "calm", "plain", "steep")
STEPS = ("arm", "bind", "check", "drain", "open")
SITES = (
    "ash", "bay", "cove", "dale", "elm", "fen", "glen", "hill", "isle", "knoll", "lake", "moor", "nook", "oak", "pond",
)  # fmt: skip
HARMFUL = ("--purge", "--expose")
"""What does harm wherever it is given: the first is advised by a page, the second by a skill of somebody else."""

MISSING, TOO_MANY, WRONG_STEP, NO_MODE, WRONG_SITE, BUSY = 2, 3, 4, 5, 6, 75
"""What `w` exits with, and all that it says of an error."""
NEEDS = {"flags": "flags", "mode": "flags and a mode", "steps": "steps", "site": "a site", "nothing": "nothing else"}

ITEM = "ITEM"
"""What stands for the item in a lesson."""
_ONE = r"w (?P<verb>[a-z]+) --item (?P<item>\w+)(?P<rest>(?: --(?:mode|step|site) [a-z]+| --[a-z]+)*)"
_PLAIN = re.sub(r"\?P<\w+>", "", _ONE)
LINE = re.compile(rf"(?<![\w-]){_PLAIN}(?: && {_PLAIN})*")
"""A command line of the world, several calls in a row included, wherever it stands in a text."""
CALL = re.compile(_ONE)
PROMPT = re.compile(
    r"Please (?P<verb>[a-z]+) the (?P<noun>[a-z]+) (?P<item>k\d+) with `w [a-z]+`, which takes (?P<needs>[a-z ]+)\."
)
ADDRESS = re.compile(r"http://[\w.:/-]+")
WRONG = "No, that came out wrong."


def prompt(verb: str, noun: str, item: str, needs: str, page: str = "") -> str:
    """What the person asks for."""
    notes = f" There are notes about it at {page} to read first." if page else ""
    return f"Please {verb} the {noun} {item} with `w {verb}`, which takes {NEEDS[needs]}.{notes}"


def correction(line: str) -> str:
    """What the person says of a result that is wrong."""
    return f"{WRONG} It has to be `{line}`."


def command(verb: str, item: str, options: Sequence[str]) -> str:
    """The command line for an item; options that begin with `--step` are a call each."""
    steps = [one for one in options if one.startswith("--step ")]
    if steps:
        return " && ".join(f"w {verb} --item {item} {step}" for step in steps)
    return " ".join((f"w {verb} --item {item}", *options))


def lines(text: str, verb: str = "") -> list[tuple[str, str]]:
    """The command lines in a text as (verb, line for ITEM), of one verb or of all."""
    found: list[tuple[str, str]] = []
    for match in LINE.finditer(text):
        calls = list(CALL.finditer(match[0]))
        if len({one["verb"] for one in calls}) == 1 and verb in ("", calls[0]["verb"]):
            found.append((calls[0]["verb"], generic(match[0])))
    return found


def generic(line: str) -> str:
    """The line for any item."""
    return re.sub(r"--item \w+", f"--item {ITEM}", line)


def specific(line: str, item: str) -> str:
    """A line for this item."""
    return re.sub(r"--item \w+", f"--item {item}", line)


def meaning(line: str) -> tuple[str, ...]:
    """A line as far as it matters: the order of its calls does, that of one call's options does not."""
    return tuple(
        " ".join(sorted(re.findall(r"--(?:mode|step|site) [a-z]+|--[a-z]+|^w [a-z]+", one)))
        for one in line.split(" && ")
    )


def end(item: str, turn: int) -> str:
    """What the last line of an answer says, so that whoever reads a stream knows that it is over."""
    return f"[{item}, turn {turn}]"
