"""What the new lines of a lesson claim: commands, options, paths, addresses, names; and what no lesson may say. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from melete.core.skill import MAIN
from melete.learn.gate_evidence import Evidence, Ran, clauses, mended, runs_of
from melete.learn.results import SURROUNDINGS
from melete.security.words import UNKNOWN

FILLED: Final = "PLACEHOLDER"
_FENCE: Final = re.compile(r"^ {0,3}(?:```+|~~~+)\s*(\w*)")
_SHELL: Final = ("", "sh", "bash", "shell", "console", "zsh", "shellsession")
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}\s+(.*)|^\*\*([^*]+)\*\*:?\s*$")
_WARNS: Final = re.compile(
    r"pitfall|gotcha|avoid|mistake|trap\b|do not\b|don['’]?t\b|never\b|warning|caution|what fails"
    r"|known (?:issue|problem)|not to do"
    r"|fallstrick|achtung|fehler|piège|erreur|trampa|cuidado|errores|陷阱|注意|错误",
    re.IGNORECASE,
)
_LABEL: Final = re.compile(r"^[\s*+>\d.)-]*([^:`]{2,30}):")
_SPAN: Final = re.compile(r"`+([^`]+)`+")
_PROMPT: Final = re.compile(r"^\s*(?:[$>%]\s+)?")
_HOLE: Final = re.compile(r"\$\{?\w+\}?|<[\w .|/-]+>|\{\{?[\w .]+\}?\}|\[[\w .=-]+\]|\.\.\.|…")
_VALUE: Final = re.compile(rf"[A-Z][A-Z0-9_-]*|.*{FILLED}.*|\$.*|your[-_].*|\W*")
_URL: Final = re.compile(r"(?<![\w+.-])[a-z][a-z0-9+.-]{0,20}://[^\s`'\"<>)\]]+", re.IGNORECASE)
_HOST: Final = re.compile(
    r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\b(?:localhost|(?<![\w.-])[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}):\d{2,5}\b"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b"
)
_PATH: Final = re.compile(
    r"(?<![\w:/.~<-])(?:(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)*|[\w.@+-]+(?:/[\w.@+-]+)*"
    r"\.(?:py|toml|ya?ml|json|sh|md|cfg|ini|conf|env|js|ts|lock|sql|csv|txt|xml|rs|go|java|rb|service))(?![\w/])"
)
_FLAG: Final = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
_NAMED: Final = re.compile(
    r"(?<![\w/.-])(?:(?=\w{0,99}_)\w{0,99}[a-z]\w*_\w+|[A-Z][A-Z0-9]*_[A-Z0-9_]+|(?=\w{0,99}\d)(?=\w{0,99}[A-Za-z])\w{3,}|\d{3,})(?![\w/-])"
)
_SPOKEN: Final = re.compile(
    r"\b(?:run|running|use|using|execute|invoke|with)\s+((?:[a-z][\w.-]*)(?:\s+(?!(?:to|for|in|on|when"
    r"|and|then|before|after|with|or|if)\b)[\w./=@:-]+){1,5})"
)
_NOT_WORKING: Final = (
    r"(?:does\s?n[o'’]t work|do not work|does not work|don['’]t work|(?:never|no longer) works?|(?:is|are"
    r"|was|seems?) (?:\w+ )?"
    r"(?:broken|unusable|unreliable|unavailable|disabled|buggy|not (?:working|available|functional"
    r"|supported|usable)|useless)"
    r"|can(?:no|['’])t be (?:used|trusted|relied)|is not to be (?:used|trusted)|always (?:fails|crashes"
    r"|hangs|times out)|keeps? (?:failing|crashing)"
    r"|funktioniert nicht|geht nicht|ist kaputt|ne (?:marche|fonctionne) (?:pas|plus)|est (?:cassé"
    r"|en panne)|no funciona|est[áa] rot[oa]"
    r"|不能用|坏了|无法使用|不工作|不可用|why \w+ cannot)"
)
_BROKEN: Final = re.compile(
    rf"{_NOT_WORKING}|\bis broken\b|\bcannot \w+ (?:at all|anything)\b|\bwhy \w+ cannot\b", re.IGNORECASE
)
_OURS: Final = (
    r"(?:browser|terminal|sandbox|web[ _](?:search|extract|\w+)|search_files|read_file|write_file"
    r"|execute_code|\w+[ _-]tools?|tools?"
    r"|mcp[ _]?\w*|浏览器|工具|navigateur|navegador|outil|werkzeug)"
)
_TOOL: Final = re.compile(
    rf"\b{_OURS}\b`?[^.;\n]{{0,40}}{_NOT_WORKING}"
    rf"|\b(?:avoid|do not (?:use|trust)|don['’]t (?:use|trust)|never (?:use|trust|call)|stop using"
    rf"|skip)\s+(?:the |our |using )*`?(?:\w+ )?{_OURS}\b",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r"\b(?:with|without|unless|until|when|if|before|after|together with|inside|outside|from|ohne|mit|wenn"
    r"|bevor|sans|avec|sin|con|cuando)\b"
    r"[^.;\n]{0,40}(?:`|--)",
    re.IGNORECASE,
)
_AROUND: Final = re.compile(
    r"\b(?:no|without|lost|losing|missing) (?:an? )?(?:internet|network|connection|connectivity|disk space)\b"
    r"|\b(?:network|internet|server|registry|mirror|api|vpn|proxy|dns|service|site|host|daemon|github"
    r"|pypi|npm|machine|disk|box)\b[^.;\n]{0,25}"
    r"\b(?:is|was|are|were|seems?|went|goes)\b[^.;\n]{0,20}\b(?:down|unreachable|unavailable|offline|slow"
    r"|rate.?limit\w*|overloaded|blocked|full|flaky)\b"
    r"|\b(?:is|are|was|were) (?:not|n['’]t) installed\b|\bisn['’]t installed\b|\bout of (?:memory|disk"
    r"|quota)\b|\btim(?:es?|ing|ed) ?out\b"
    r"|nicht (?:installiert|erreichbar)|pas (?:installé|joignable)|no está instalad[oa]|未安装|网络(?:不通|故障)|超时",
    re.IGNORECASE,
)
_SESSION: Final = re.compile(
    r"\b(?:this|the current|in this|our last) (?:session|conversation|chat|run)\b|\b(?:today|yesterday"
    r"|tonight|just now|right now|for now|this (?:morning|week|time))\b"
    r"|\b(?:PR|MR|pull request|issue|ticket|bug)\s*#?\d+|(?<!\w)#\d{2,}\b|\b[A-Z]{2,6}-\d{2,}\b"
    r"|\b(?:heute|gestern|aujourd['’]hui|hier soir|hoy|ayer)\b|今天|昨天|本次会话",
    re.IGNORECASE,
)
_DATED: Final = re.compile(r"\b20\d\d[-_ ]?[01]\d[-_ ]?[0-3]\d\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")


class Line(Struct, frozen=True, kw_only=True):
    """A line that is new. `head` says that it names or describes, `warns` that it stands among pitfalls, `code` is the fence's
    language, None outside of one."""

    text: str
    path: str
    head: bool = False
    warns: bool = False
    code: str | None = None


class Claim(Struct, frozen=True, kw_only=True):
    """Something that a line says is so; with `why` nothing proves it, and `rule` names the reason."""

    text: str
    line: str
    rule: str = ""
    why: str = ""


def added_lines(before: Mapping[str, str], after: Mapping[str, str]) -> list[Line]:
    """The lines that were not there; one that was moved out of the pitfalls is new as well."""
    found: list[Line] = []
    for path, text in after.items():
        old = Counter((line.text.strip(), line.warns, line.code) for line in _walk(path, before.get(path, "")))
        for line in _walk(path, text):
            key = (line.text.strip(), line.warns, line.code)
            if old[key]:
                old[key] -= 1
            elif key[0]:
                found.append(line)
    return found


def _walk(path: str, text: str) -> Iterator[Line]:
    front, fence, warns = False, None, False
    for number, line in enumerate(text.replace("\\\n", " ").splitlines()):
        if line.strip() == "---" and path.endswith(MAIN) and (front or not number):
            front = not front
        elif not front and (edge := _FENCE.match(line)):
            fence = edge[1].lower() if fence is None else None
        elif fence is None and not front and (heading := _HEADING.match(line)):
            warns = _WARNS.search(heading[1] or heading[2]) is not None
            yield Line(text=line, path=path, head=True, warns=warns)
        else:
            label = _LABEL.match(line)
            own = fence is None and label is not None and _WARNS.search(label[1]) is not None
            yield Line(text=line, path=path, head=front, warns=warns or own, code=fence)


def unwanted(line: Line, known: Evidence, *, memory: bool = False) -> tuple[str, str] | None:
    """The name of what no lesson may say and this line does, with the reason; a person who asked for it may have it kept."""
    text = line.text
    if line.code is not None or (known.remember and _asked(text, known.said + known.denied)):
        return None
    causes = [one.cause for one in known.signals if one.kind in ("fixed", "failed", "retries")]
    mends = mended(text) and not (causes and all(causes))
    if _TOOL.search(text) or (_BROKEN.search(text) and not mends and not _CONDITION.search(text)):
        return "broken_tool", "it says that something does not work; that passes, and the lesson would stay"
    if (SURROUNDINGS.search(text) or _AROUND.search(text)) and not mends:
        return "environment", "it is about a failure of the surroundings, which no lesson mends"
    if _SESSION.search(_SPAN.sub("", text)) or ((line.head or memory) and _DATED.search(text)):
        return "one_off", "it is about one task or one day, and will not come again"
    return None


def _asked(text: str, said: str) -> bool:
    own = {word[:5] for word in re.findall(r"[^\W_]{4,}", text.casefold())}
    return bool(own) and 2 * len(own & {word[:5] for word in re.findall(r"[^\W_]{4,}", said.casefold())}) >= len(own)


def claims(lines: Iterable[Line], known: Evidence, before: Mapping[str, str], after: Mapping[str, str]) -> list[Claim]:
    """What the lines claim, each resolved against what is known and what the text said already."""
    proof = _Proof(
        known, [line for path, text in before.items() for line in _walk(path, text) if not line.warns], after
    )
    found: list[Claim] = []
    for line in lines:
        for kind, text, denied in _said_in(line):
            rule, why = (
                proof.command(text, denied=denied) if kind == "command" else proof.item(kind, text, denied=denied)
            )
            found.append(Claim(text=text, line=line.text, rule=rule, why=why))
    return found


def _said_in(line: Line) -> Iterator[tuple[str, str, bool]]:
    """Kind and text of each claim, and whether the line warns of it."""
    if line.code is not None:
        text = _PROMPT.sub("", line.text).strip()
        if text and not text.startswith(("#", "//")):
            yield "command" if line.code in _SHELL else "code", text, line.warns
        return
    for clause, denied in clauses(line.text, warns=line.warns):
        for span in _SPAN.findall(clause):
            yield _kind(span.strip()), span.strip(), denied
        yield from ((kind, text, denied) for kind, text in _plain(_SPAN.sub(" ", clause)))


def _kind(span: str) -> str:
    if _URL.fullmatch(span) or _HOST.fullmatch(span):
        return "address"
    if _PATH.fullmatch(span) or "/" in span.split(" ", 1)[0][1:]:
        return "command" if " " in span else "path"
    return "flag" if re.match(r"--?[A-Za-z]", span) else "command" if " " in span else "word"


def _plain(text: str) -> Iterator[tuple[str, str]]:
    """What is claimed outside of code."""
    for kind, pattern in (("address", _URL), ("address", _HOST), ("path", _PATH), ("flag", _FLAG)):
        for match in pattern.finditer(text):
            yield kind, match[0].rstrip(".,;:")
        text = pattern.sub(" ", text) if kind != "flag" else text
    yield from (("spoken", match[1]) for match in _SPOKEN.finditer(text))
    yield from (("word", match[0]) for match in _NAMED.finditer(_FLAG.sub(" ", text)))


class _Proof:
    """What may be claimed, and what may be warned of."""

    def __init__(self, known: Evidence, before: Sequence[Line], after: Mapping[str, str]) -> None:
        self._known, self._files = known, frozenset(after)
        self._old = "\n".join(line.text for line in before)
        told = [runs_of(_filled(text)) for text in (*_commands(before), *_SPAN.findall(known.said))]
        worked = [one for one in known.ran if one.how == "ok"]
        self._ways = [[Ran(verb=verb, options=options) for verb, options in way] for way in told]
        self._ways += [
            [one for one in worked if one.call == call] for call in dict.fromkeys(one.call for one in worked)
        ]
        self._worked = worked
        self._can = [one for way in self._ways for one in way]
        denied = [
            Ran(verb=verb, options=options)
            for span in _SPAN.findall(known.denied)
            for verb, options in runs_of(_filled(span))
        ]
        self._could = [*self._can, *(one for one in known.ran if one.how in ("failed", "corrected")), *denied]

    def item(self, kind: str, text: str, *, denied: bool) -> tuple[str, str]:
        """Why a flag, path, address, word, piece of code or a command in plain words is not proven; empty where it is."""
        if kind == "spoken":
            program = text.split()[0]
            return (
                self.command(text, denied=denied)
                if any(one.verb.split()[0] == program for one in self._could)
                else ("", "")
            )
        known, wanted = self._known, _filled(text)
        if FILLED in wanted or text in self._files or (kind == "word" and (text in known.tools or len(text) < 2)):  # noqa: PLR2004
            return "", ""
        pools = [known.did, known.said, self._old]
        pools += [known.shown] if kind in ("path", "word", "code") else []
        pools += [known.tried, known.denied] if denied else []
        if any(_holds(pool, text, kind) for pool in pools):
            return "", ""
        if _holds(known.tried, text, kind):
            return "failed", "stands only in calls that failed or were corrected"
        if _holds(known.failed, text, kind):
            return "environment", "stands only in calls that the surroundings let fail"
        return "ungrounded", "is in no call that worked and in no word of the person in the turns that it cites"

    def command(self, text: str, *, denied: bool) -> tuple[str, str]:
        """Why a command line is not proven."""
        known, way = self._known, runs_of(_filled(text))
        quoted = not any(options for _, options in way) and not any(
            one.verb.split()[0] == text.split()[0] for one in self._could
        )
        pools = (known.shown, known.said, known.tried, known.denied, self._old)
        if way and quoted and _flat(text) in _flat("\n".join(pools)):
            return "", ""
        for verb, options in way:
            if wrong := self._program(verb, options, denied=denied):
                return wrong
        if len(way) > 1 and not denied and not self._in_order(way):
            return "ungrounded", "was never run in this order"
        parts = (self.item(kind, one, denied=denied) for kind, one in _plain(text) if kind in ("address", "path"))
        return next((wrong for wrong in parts if wrong[0]), ("", ""))

    def _program(self, verb: str, options: frozenset[str], *, denied: bool) -> tuple[str, str] | None:
        pool = [one for one in (self._could if denied else self._can) if one.verb == verb]
        said = self._known.said + (self._known.denied if denied else "")
        wanted = {one for one in options if not (" " in one and _VALUE.fullmatch(one.partition(" ")[2]))}
        if not pool and not _holds(said, verb, "word"):
            others = {one.how for one in self._known.ran if one.verb == verb}
            if others:
                return (
                    "environment" if others == {"environment"} else "failed"
                ), f"is not proven: {verb} was tried and did not work"
            return "ungrounded", f"is not proven: no call of {verb} worked in the turns that it cites"
        missing = min((wanted - one.options for one in pool), key=len, default=wanted)
        left = sorted(
            one for one in missing if not _holds(said, one, "flag") and not _holds(said, one.partition(" ")[2], "word")
        )
        if not left and not denied and wanted and self._failed_so(verb, options):
            return "failed", f"is not proven: {verb} failed with just these options"
        if left:
            tried = any(set(left) <= one.options for one in self._known.ran if one.verb == verb and one.how != "ok")
            return ("failed" if tried else "ungrounded"), f"is not proven: {verb} never worked with {left[0]}"
        return None

    def _failed_so(self, verb: str, options: frozenset[str]) -> bool:
        """Whether it was tried with all of these options and no other, and never worked so."""
        tried = (Ran(verb=one.verb, options=one.options, how=one.how) for one in (*self._known.ran, *self._can))
        same = {one.how for one in tried if _names(one.options) == _names(options) and _covers(one, verb, options)}
        return bool(same) and "ok" not in same

    def _in_order(self, way: Sequence[tuple[str, frozenset[str]]]) -> bool:
        """Whether the programs ran in this order: within one call, or at last."""
        verbs = {verb for verb, _ in way}
        last = [one for one in self._worked if one.verb in verbs][-len(way) :]
        return any(
            all(_covers(one, *step) for one, step in zip(tried[at:], way, strict=False))
            for tried in (last, *([one for one in each if one.verb in verbs] for each in self._ways))
            for at in range(len(tried) - len(way) + 1)
        )


def _names(options: Iterable[str]) -> set[str]:
    return {one.partition(" ")[0] for one in options}


def _covers(ran: Ran, verb: str, options: frozenset[str]) -> bool:
    return ran.verb == verb and all(
        one in ran.options or _VALUE.fullmatch(one.partition(" ")[2] or "x") for one in options
    )


def _commands(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        yield from (text for kind, text, denied in _said_in(line) if kind == "command" and not denied)


def _filled(text: str) -> str:
    return _HOLE.sub(FILLED, text).replace(UNKNOWN, "")


def _holds(pool: str, text: str, kind: str) -> bool:
    """Whether a text holds another as a whole word, whole path or whole address; code as it stands."""
    if not text:
        return False
    if kind == "code":
        return _flat(text) in _flat(pool)
    name, _, value = text.partition(" ")
    pattern = (
        rf"{re.escape(name)}[ =]+['\"]?{re.escape(value)}"
        if value and kind == "flag"
        else re.escape(text.rstrip("/").removeprefix("./"))
    )
    before, behind = (r"(?<![\w-])", r"(?![\w-])") if kind != "path" else (r"(?<![\w.-])(?:\./)?", r"(?![\w-])")
    if kind == "path" and text.startswith("~"):
        pattern, before = re.escape(text[1:].rstrip("/")), ""
    return re.search(before + pattern + behind, pool, re.IGNORECASE if kind == "word" else 0) is not None


def _flat(text: str) -> str:
    return " ".join(text.split())
