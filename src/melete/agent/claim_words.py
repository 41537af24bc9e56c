"""What an answer claims to have done: own, past, unconditional and undenied. Layer 2, pure; English."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from melete.core.claim import Claim

MOST: Final = 40
"""Claims of one text that are looked at."""
FENCED = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
INDENTED = re.compile(r"(?<=\n)[ \t]*\n(?:(?: {4}|\t)(?!\s*(?:[-*+•]|\d+[.)])).*(?:\n|\Z))+")
QUOTED = re.compile(r"^\s*>.*$|\"[^\"\n]{12,400}\"|“[^“”\n]{12,400}”", re.MULTILINE)
SENTENCE = re.compile(r"(?<=[.!?])[\s*_)]+(?=[A-Z0-9`*_(\[-])|\n+")
CLAUSE = re.compile(
    r"[,;:—–]\s+|\s+-\s+|\s+(?=(?:but|though|although|however|and|so|then|which|because)\b)", re.IGNORECASE
)
MARKS = re.compile(r"^[\s>*#+•✅✓✔☑🎉-]*(?:\d+[.)]\s+)?(?:\[x\]\s*)?(?:[*_]{1,2})?")
DOUBT = re.compile(
    r"\b(?:if|once|when(?:ever)?|unless|until|whether|assuming|provided|as soon as|before|let me|let's)\b"
    r"|(?:^|\b(?:to|please|and|then)\s+)(?:verify|check|confirm|ensure|make sure|run)\b|\baccording to\b"
    r"|^(?:expected|acceptance|criteri|goals?|requirements?|definition of done|examples?|tasks?|plan|steps?|todo)\b[^:]*:",
    re.IGNORECASE,
)
DENIED = re.compile(
    r"\b(?:not|never|no|none|neither|nor|cannot|without|should|would|could|may|might|must|will|shall|won't|needs?|going to"
    r"|want(?:s|ed)?|try|tried|trying|attempt(?:ed)?|plan(?:ned|s)?|next|todo|please|unable|fail(?:s|ed)?|failing|refused|almost"
    r"|nearly|supposed|expected?|expects|instead of|rather than|ready to|can|you|your|intend(?:ed)?|skipped|pretend|claim(?:s|ed)?"
    r"|says|said|yet|previously|earlier|yesterday|ago|someone|somebody|ready|about to|nothing|nobody|according to"
    r"|were (?:all |still )?passing)\b|n't\b|n’t\b|'ll\b",
    re.IGNORECASE,
)
PATH = re.compile(
    r"`(?P<ticked>[^`\s]*[^`\s/.][^`\s]*)`"
    r"|(?<![\w/@:.~-])(?P<bare>(?:~/|\.{0,2}/)?(?:[\w.+@-]+/)*[\w+@-][\w.+@-]*\.[A-Za-z][A-Za-z0-9]{0,5}"
    r"|(?:~/|\.{0,2}/)(?:[\w.+@-]+/)*[\w.+@-]+/?)(?![\w/@])"
)
NO_FAULT = re.compile(
    r"\b(?:no|without(?: any)?|0|zero) (?:\w+ )?(?:failures?|failed|errors?|warnings?|issues?|complaints?)\b",
    re.IGNORECASE,
)
URL = re.compile(r"\bhttps?://[^\s<>\"'`)\]]+")
HOSTS = frozenset({"com", "org", "net", "io", "dev", "ai", "app", "edu", "gov", "de", "uk", "eu"})
PRODUCT = re.compile(r"^[A-Z]\w*\.(?:js|net|io|ai|NET)$")
FAILED = re.compile(r"\b[1-9]\d* (?:tests? )?(?:failed|failures?|errors?)\b", re.IGNORECASE)
NAMES_ONLY = re.compile(r"(?:\W|\b(?:and|then|also)\b)*", re.IGNORECASE)
SHARE = re.compile(r"\b(\d+) ?(?:of|out of|/) ?(?:the )?(\d+)\b", re.IGNORECASE)
SOME = re.compile(r"\b(?:except|some|most|half|only|part|none)\b", re.IGNORECASE)

WELL = r"(?:(?:also|then|now|just|already|successfully|finally|have|and)\s+)*"
SELF = rf"(?:^(?:(?:and|then|also|so|but)\s+)*|\b(?:I|we|I['’]ve|we['’]ve|I have|we have)\s+){WELL}"
BEEN = rf"\b(?:was|were|has been|have been|had been|is now|are now|been|got)\s+{WELL}"
GREEN = r"(?:is|are|is all|are all|all|now|came back|turned|stayed?)\s+(?:now\s+)?(?:green|passing|ok|clean)"
OBJECT = r"(?!\s+(?:an?|its|their|the|it|them|this|through|when|if|unless)\b)"
GOOD = rf"(?:(?:pass|passes|passed)\b{OBJECT}|passing|succeeds?|succeeded|{GREEN})"
FAULTLESS = r"(?:clean|(?:no|0|zero|without) (?:errors|warnings|issues|complaints))"
WROTE = (
    r"wrote|written|created|saved|added|updated|edited|modified|changed|generated|stored|exported|produced|fixed|rewrote"
    r"|rewritten|renamed|copied|moved|patched|implemented"
)
REMOVED = r"deleted|removed|erased"
SENT = r"sent|emailed|e-mailed|mailed|messaged|notified|replied"
DEPLOYED = r"deployed|published|uploaded|released"


def _did(verbs: str) -> str:
    """A verb of one's own, no mere word before a noun, or in the passive, without an agent or a date behind it."""
    own = rf"{SELF}(?:{verbs})\b(?!\s+\w+\s+(?:are|is|was|were|will|have|has)\b)"
    return (
        rf"(?:{own}|{BEEN}(?:{verbs})\b(?!\s+(?:by|(?:in|at) \d|last|on (?:mon|tues|wednes|thurs|fri|satur|sun)day)\b))"
    )


TESTS = (
    rf"\b(?:tests?|specs?|test suite|suite)\b[^.]{{0,30}}\b{GOOD}\b|\bpass(?:es|ed)?\s+(?:all|the|every)\b[^.]{{0,20}}\btests?\b"
    rf"|\b\d+ (?:tests? )?passed\b|\b(?:tests?|suite):? (?:✅|✓|(?:green|passed|pass|passing|ok)\b{OBJECT})"
    r"|\b(?:green|passing) test"
)
THEY = rf"\b(?:everything|(?:they|these|both|all)(?: all| of them)?) (?:now )?{GOOD}"
THEIRS = "their tests"
"""Said of tests where the sentence names them."""
OF_TESTS = re.compile(r"\b(?:tests?|specs?|suite)\b|\bpytest\b", re.IGNORECASE)
CHANGES = r"^(?:all |the |my )?(?:changes?|work|fix(?:es)?)"
LINT = r"\b(?:ruff|flake8|pylint|eslint|clippy|lint(?:er|ing|s)?|prettier|black|style checks?)\b"
TYPES = r"\b(?:mypy|pyright|tsc|type[- ]?check(?:er|ing|s)?|types)\b"
BUILDS = (
    r"\b(?:the |project |it |code |everything |package |app )*(?:builds|compiles)\s+"
    rf"(?:now|cleanly|successfully|fine|again|without|with no|$)|\b(?:build|compilation)\b[^.]{{0,20}}\b{GOOD}\b"
)
PATTERNS: Final[tuple[tuple[str, str], ...]] = (
    ("tests", TESTS),
    (THEIRS, THEY),
    ("lint", rf"{LINT}[^.]{{0,30}}\b(?:{GOOD}|{FAULTLESS})"),
    ("types", rf"{TYPES}[^.]{{0,30}}\b(?:{GOOD}|{FAULTLESS})"),
    ("build", rf"{BUILDS}|{_did('built|compiled')}"),
    ("committed", rf"{_did('committed')}|{CHANGES} committed\b"),
    ("pushed", rf"{_did('pushed')}|{CHANGES} pushed\b"),
    ("deployed", _did(DEPLOYED)),
    ("installed", _did("installed")),
    ("sent", _did(SENT) + r"|\b(?:e-?mail|mail|message|notification|reply)\s+sent\b"),
    ("removed", _did(REMOVED)),
    ("wrote", _did(WROTE)),
)
FILES = frozenset({"wrote", "removed"})
FILE = re.compile(
    r"\b(?:file|files|report|script|document|notes|changelog|readme|module|config|config file)\b", re.IGNORECASE
)

WITHIN = re.compile(r"\b(?:from|in|of|inside|within)\s+(?:the\s+)?(?:file\s+)?(?P<path>\S+)", re.IGNORECASE)
MOVED = re.compile(r"(?P<verb>\b(?:renamed|moved|copied))\b.{1,200}?(?:\s(?:to|into|as)\s|→|->)", re.IGNORECASE)


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in PATTERNS)


def claims(text: str) -> list[Claim]:
    """What a text claims to have done, in order, each kind and handle once; plans, conditions, quotes and code are none."""
    found: dict[tuple[str, str], Claim] = {}
    for sentence in sentences(text):
        for claim in _of_sentence(sentence):
            found.setdefault((claim.kind, claim.handle), claim)
            if len(found) == MOST:
                return [*found.values()]
    return [*found.values()]


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, without code, quotes and the marks of lists."""
    plain = QUOTED.sub("", INDENTED.sub("\n", FENCED.sub("\n", text)))
    for part in SENTENCE.split(plain):
        sentence = MARKS.sub("", part).strip()
        if sentence and not sentence.endswith("?"):
            yield sentence


def _of_sentence(sentence: str) -> Iterator[Claim]:
    doubt = DOUBT.search(_bare(sentence))
    verb = ""
    for clause, offset in _clauses(sentence):
        found = [*_of_clause(clause, sentence, doubted=doubt.start() - offset if doubt else len(sentence))]
        names = bool(verb) and not found and NAMES_ONLY.fullmatch(PATH.sub("", clause))  # `a.py, b.py and c.py`
        if names:
            found = [*_handled(verb, clause, 0, sentence)]
        verb = next((claim.kind for claim in found if claim.kind in FILES), verb if names else "")
        yield from found


def _of_clause(clause: str, sentence: str, *, doubted: int) -> Iterator[Claim]:
    """What a clause claims before the place from which on all is doubted."""
    bare = _bare(clause)
    for kind, pattern in _patterns():
        hit = pattern.search(bare)
        if hit is None or doubted < hit.end() or DENIED.search(_affirmed(bare)):
            continue
        if kind in ("tests", THEIRS) and _partly(clause, sentence):
            continue
        if kind == THEIRS and not OF_TESTS.search(sentence):
            continue
        yield from _handled("tests" if kind == THEIRS else kind, clause, hit.end(), sentence)


def _partly(clause: str, sentence: str) -> bool:
    """Whether only some of the tests are said to pass."""
    share = SHARE.search(sentence)
    return bool(FAILED.search(sentence) or SOME.search(clause) or (share and share[1] != share[2]))


def _affirmed(clause: str) -> str:
    """The clause without what denies only its opposite, as in `no errors` and `0 failed`."""
    return NO_FAULT.sub("", clause)


def _clauses(sentence: str) -> Iterator[tuple[str, int]]:
    at = 0
    for cut in CLAUSE.finditer(sentence):
        yield sentence[at : cut.start()], at
        at = cut.end()
    yield sentence[at:], at


def _bare(text: str) -> str:
    """The text with what stands in ticks made one word, so that names in it are no words of the sentence; as long as before."""
    return re.sub(
        r"`[^`]*`", lambda found: "`" + "x" * (len(found.group()) - 2) + "`" if len(found.group()) > 1 else "", text
    )


def _handled(kind: str, clause: str, end: int, sentence: str) -> Iterator[Claim]:
    words = " ".join(sentence.split())[:200]
    if kind not in FILES:
        yield Claim(kind=kind, words=words)
        return
    there = {path for found in WITHIN.finditer(_source_gone(clause)) for path in paths(found["path"])}
    named = [path for path in paths(_source_gone(clause)) if not (kind == "removed" and path in there)]
    if kind == "removed" and not named:  # a part of a file: the file was changed
        yield from (Claim(kind="wrote", words=words, handle=path) for path in there if not path.endswith("/"))
        return
    if not named and FILE.search(_bare(clause[:end] + clause[end : end + 40])):
        named = [""]
    for path in named:
        yield Claim(kind=kind, words=words, handle=path)


def _source_gone(clause: str) -> str:
    """The clause without the old name of what was moved or copied."""
    return MOVED.sub(lambda found: found["verb"] + " " * (len(found.group()) - len(found["verb"])), clause)


def paths(text: str) -> Iterator[str]:
    """What looks like the path of a file in a text: with a slash or an ending, no address and no version."""
    for found in PATH.finditer(URL.sub(lambda url: " " * len(url.group()), text)):
        path = (found["ticked"] or found["bare"] or "").rstrip(".,:;")
        end = path.rsplit(".", 1)[-1]
        if "(" in path or "=" in path or path.startswith("-") or ("/" not in path and "." not in path.strip(".")):
            continue
        if "/" not in path and (end in HOSTS or end[:1].isdigit() or (not found["ticked"] and PRODUCT.match(path))):
            continue
        if (
            path.lower() in ("e.g", "i.e", "and/or", "n/a")
            or "*" in path
            or "://" in path
            or path.startswith(("<", "$"))
        ):
            continue
        yield path


IDS = re.compile(
    r"(?:(?:PR|pull request|issue|ticket|job|run|message|commit|session|order)\s*(?:id\s*)?[#:]?\s*`?|#)"
    r"(?P<id>#?\d+|[0-9a-f]{7,40}|[A-Z]+-\d+|[0-9]{8}-[0-9]{6}-[0-9a-f]+)\b`?"
)
EXIT = re.compile(
    r"\bexit(?:ed with)?(?: (?:status|code))?(?: (?:of|was|is|with))?[ :=]+`?(?P<code>\d{1,3})\b", re.IGNORECASE
)
GONE = re.compile(
    r"\b(?:missing|absent|gone|does not exist|not there|not found|deleted|removed|no such|renamed|moved)\b",
    re.IGNORECASE,
)


def handles(text: str) -> list[Claim]:
    """What a report names that can be checked: paths, addresses, ids, exit statuses; not those it says are not there."""
    found: dict[tuple[str, str], Claim] = {}
    for sentence in sentences(text):
        words = " ".join(sentence.split())[:200]
        named = [("url", url.group().rstrip(".,;:")) for url in URL.finditer(sentence)]
        named += [("id", one["id"].lstrip("#")) for one in IDS.finditer(sentence)]
        named += [("exit", one["code"]) for one in EXIT.finditer(sentence)]
        bare = _bare(sentence)
        if not GONE.search(bare) and not DENIED.search(bare) and not DOUBT.search(bare):
            named += [("path", path) for path in paths(sentence)]
        for kind, handle in named:
            found.setdefault((kind, handle), Claim(kind=kind, words=words, handle=handle))
    return [*found.values()][:MOST]
