"""Whether a skill may be loaded: every byte of it is looked at, its words as orders and its code as what it would do. Pure.

The rules are data (`skillscan_rules.py`), code is read by `skillscan_code.py`, shell commands are judged by the command policy. Who
wrote a skill decides what its verdict means (`allowed`), never what it is.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Final, Literal

from msgspec import Struct

from melete.security import threats
from melete.security.skillscan_code import read
from melete.security.skillscan_rules import BY_ID, CODE, FLOWS, PROSE, Flow, ScanRule, Severity
from melete.security.skillscan_shell import Sign, is_local, owner_of, uploads
from melete.security.words import names

Verdict = Literal["safe", "caution", "dangerous"]
Answer = Literal["allow", "ask", "block"]

MOST_FILES: Final = 50
MOST_BYTES: Final = 1_000_000
LARGEST: Final = 256_000
MOST_CODE: Final[Mapping[str, int]] = {"shell": 200_000, "python": 300_000, "javascript": 200_000}
DEAR: Final = 20
"""What is read of the code in one skill: characters, and signs that make commands and calls, which count so much more."""
MOST_WORDS: Final = 500_000
"""Characters of text in which orders are looked for."""
MOST_BLOCKS: Final = 400
MOST_FINDINGS: Final = 50
MOST_MATCHES: Final = 200
SHOWN: Final = 160

POLICY: Final[Mapping[str, tuple[Answer, Answer, Answer]]] = {
    **dict.fromkeys(("bundled", "builtin"), ("allow", "allow", "allow")),
    **dict.fromkeys(("external", "trusted"), ("allow", "allow", "block")),
    **dict.fromkeys(("hub", "project", "community"), ("allow", "block", "block")),
    **dict.fromkeys(("agent", "agent-created"), ("allow", "ask", "block")),
    "user": ("allow", "allow", "ask"),
}
"""By owner or kind of trust: what becomes of safe, caution and dangerous."""
VERDICTS: Final = ("safe", "caution", "dangerous")
_ORDER: Final[Mapping[str, int]] = {"": 0, "low": 1, "medium": 2, "high": 3}


class Finding(Struct, frozen=True, kw_only=True):
    """One reason against a skill: the rule, how much it weighs, where (line 0: the file as a whole), why, and what stands there."""

    rule: str
    severity: Severity
    file: str
    line: int
    reason: str
    text: str = ""


class Report(Struct, frozen=True, kw_only=True):
    """What was found, the gravest first."""

    verdict: Verdict = "safe"
    findings: tuple[Finding, ...] = ()

    @property
    def why(self) -> str:
        """The gravest finding in one line, empty when there is none."""
        if not self.findings:
            return ""
        first = self.findings[0]
        more = f" (and {len(self.findings) - 1} more)" if self.findings[1:] else ""
        return f"{first.file}{f':{first.line}' if first.line else ''} {first.reason}{more}"


def allowed(verdict: Verdict, owner: str) -> Answer:
    """What becomes of a skill with this verdict that belongs to this owner; an unknown owner counts as a stranger.

    For a skill that the agent wrote nobody is there to be asked: `ask` is a refusal.
    """
    return POLICY.get(owner, POLICY["community"])[VERDICTS.index(verdict)]


def scan(files: Mapping[str, bytes], *, links: Sequence[str] = ()) -> Report:
    """Judge a skill by its files, the paths inside its folder with `/`; `links` are those that are links and were not followed.

    A category's description goes in as `../DESCRIPTION.md`. Never raises; bounded in time by what it reads of too large a skill.
    """
    found = [*_structure(files, links)]
    reader = _Reader()
    left = MOST_BYTES
    for path in sorted(files, key=lambda each: (each.rpartition("/")[2] != "SKILL.md", each))[: MOST_FILES * 2]:
        data = files[path][: min(LARGEST, left)]
        left -= len(data)
        if (text := _text(data)) is not None:
            reader.file(path, text)
    found += reader.findings()
    found.sort(key=lambda each: -_ORDER[each.severity])
    gravest = max((_ORDER[each.severity] for each in found), default=0)
    return Report(verdict=VERDICTS[max(0, gravest - 1)], findings=tuple(found[:MOST_FINDINGS]))


# ---- files ---------------------------------------------------------------------------------------

_PROGRAMS: Final = (
    b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\0asm",
    b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"7z\xbc\xaf", b"Rar!", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd", b"MSCF", b"!<arch>",
    b"L\0\0\0\x01\x14\x02",
)  # fmt: skip
_OFFICE: Final = re.compile(r"\.(?:docx|xlsx|pptx|dotx|xltx|potx|odt|ods|odp|epub)\Z", re.IGNORECASE)
_HARMLESS: Final = re.compile(
    r"\.(?:png|jpe?g|gif|webp|ico|bmp|tiff?|avif|pdf|ttf|otf|woff2?|eot|mp3|wav|ogg|mp4|webm|mov|docx|xlsx|pptx|dotx|xltx|potx|odt|ods|odp|epub)\Z",
    re.IGNORECASE,
)
_RUNNABLE: Final = re.compile(
    r"\.(?:exe|dll|so|dylib|scr|com|msi|bat|cmd|vbs|hta|lnk|jar|pyc|class|node|wasm|app|dmg|pkg|deb|rpm|apk|zip|7z|rar|tar|t?gz|xz|bz2|whl|iso)\Z",
    re.IGNORECASE,
)
_TWO_ENDINGS: Final = re.compile(
    r"\.(?:pdf|docx?|txt|md|png|jpe?g|csv|json)\.(?:exe|scr|bat|cmd|js|vbs|sh|py|ps1|hta|lnk|app)\Z", re.IGNORECASE
)
_STEERING: Final = re.compile(
    r"(?:\A|/)(?:\.git/|\.(?:bashrc|zshrc|profile|bash_profile|npmrc|pypirc|netrc|gitconfig|ssh/|envrc|env)\Z|\.(?:claude|cursor|vscode)/(?:settings|hooks|tasks)|sitecustomize\.py\Z|[^/]*\.pth\Z)",
    re.IGNORECASE,
)
_ODD: Final = re.compile(r"[\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")


def _structure(files: Mapping[str, bytes], links: Sequence[str]) -> Iterator[Finding]:
    size = sum(map(len, files.values()))
    if len(files) > MOST_FILES:
        yield _finding("many-files", "", text=f"{len(files)} files")
    if size > MOST_BYTES:
        yield _finding("large", "", text=f"{size:,} bytes")
    for path in links:
        yield _finding("link", path)
    for path, data in files.items():
        parts = path.replace("\\", "/").split("/")
        escapes = path != "../DESCRIPTION.md" and (".." in parts or parts[0] == "" or ":" in parts[0])
        if escapes or _ODD.search(path) or _TWO_ENDINGS.search(path):
            yield _finding("bad-name", path)
        if _STEERING.search(path):
            yield _finding("hidden-file", path)
        if len(data) > LARGEST and not _HARMLESS.search(path):
            yield _finding("large-file", path, text=f"{len(data):,} bytes")
        if rule := _bytes(path, data):
            yield _finding(rule, path)


def _bytes(path: str, data: bytes) -> str:
    if data.startswith(_PROGRAMS) or _RUNNABLE.search(path):
        office = _OFFICE.search(path) and data.startswith(b"PK") and b"vbaProject" not in data
        return "" if office else "binary"
    if _text(data[:LARGEST]) is None and not _HARMLESS.search(path):
        return "unknown-bytes"
    return (
        "key-inside"
        if re.search(rb"-----BEGIN (?:\w+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]{200}", data[:LARGEST])
        else ""
    )


def _text(data: bytes) -> str | None:
    """The text of a file, None for what is none."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("utf-8-sig", "replace")
        return None if text.count("\ufffd") * 10 > len(text) else text


# ---- words and code ------------------------------------------------------------------------------

_LANGUAGES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("md", "markdown", "mdx", "mdc", "txt", "rst", "adoc", ""), "markdown"),
    **dict.fromkeys(("sh", "bash", "zsh", "shell", "ksh", "command", "console", "terminal", "shellsession", "shell-session"), "shell"),
    **dict.fromkeys(("py", "python", "python3", "pyw"), "python"),
    **dict.fromkeys(("js", "mjs", "cjs", "jsx", "ts", "tsx", "mts", "cts", "javascript", "typescript", "node"), "javascript"),
    **dict.fromkeys(
        ("ps1", "psm1", "powershell", "pwsh", "bat", "cmd", "batch", "rb", "ruby", "pl", "perl", "php", "lua", "go", "rs", "java", "vbs",
         "applescript", "swift", "c", "cpp", "cs", "kt", "dockerfile", "makefile", "mk"), "code"),
}  # fmt: skip
_FENCE: Final = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)?(`{3,}|~{3,})\s*\{?\.?([\w+-]*)")
_SPAN: Final = re.compile(
    r"`((?:sudo |\$ )?(?:curl|wget|bash|sh|zsh|rm|python3?|node|echo|printf|eval|nc|base64|pip3?|npm|npx|source|cat|powershell|iex|irm|iwr|find|tar|zip|chmod|chown|dd|crontab|export|unset|history|scp|rsync|gpg|shutdown|reboot|git config|git -c)\s[^`\n]{4,1000})`"
)
_DEAR: Final = re.compile(r"[|&;(){}<`\n'\"]")
_PROMPT: Final = re.compile(r"^[ \t]*(?:(?:\$|%|PS[^>\n]{0,40}>|>)[ \t]+|[\u2500-\u257f].*)", re.MULTILINE)
"""What stands before a command, and lines of drawings, which are none."""
_LOOSE: Final = re.compile(
    r"(?<![`\w/.-])((?:sudo\s+)?(?:curl|wget|bash|sh|echo|eval|iex)\s[^`\n]{0,1000}?(?:\|\s*(?:sudo\s+)?(?:ba|z|da|k)?sh\b|\$\(\s*(?:curl|wget)\s)[^`\n]{0,300})"
)
"""A command that runs what it downloads or decodes, in the midst of words."""
_RUNS: Final = re.compile(r"\|\s*(?:sudo\s+)?(?:ba|z|da|k)?sh\b|\$\(\s*(?:curl|wget)\s")
_SHEBANG: Final = re.compile(
    r"#![^\n]*?\b(?:(?P<shell>(?:ba|z|da|k)?sh)|(?P<python>python)\w*|(?P<javascript>node|deno|bun))\b"
)
_OWN_SCRIPT: Final = re.compile(
    r"(?<![\w/.:-])(?:(?:\./|\{?\w*\}?/)?(?:scripts|bin|tools)/)?([\w-]+\.(?:sh|py|js|mjs|ts|rb|ps1))\b"
)
_BLOB: Final = re.compile(
    r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{32,8000}={0,2}(?![A-Za-z0-9+/=_-])|(?:\\x[0-9a-fA-F]{2}){12,2000}|(?<![0-9a-fA-F])(?:[0-9a-f]{2}){32,2000}(?![0-9a-fA-F])"
)
_COMMANDING: Final = re.compile(
    r"\b(?:curl|wget|bash|powershell|iex|invoke-expression|chmod|eval|exec|os\.system|subprocess|child_process|/dev/tcp)\b|/bin/(?:ba|z)?sh|https?://\d|ignore (?:all|previous)",
    re.IGNORECASE,
)
_REFUSED: Final = re.compile(
    r"\b(?:never|not|cannot|avoid|without|refuse|prevent|detects?|blocks?|rejects?|no|stop)\b|n't\b"
)
_TEACHING: Final = re.compile(
    r"red flags?|malicious|attack|injection|suspicious|detect|jailbreak|exploit|vulnerab|phishing|scam|threat|unsafe|untrusted|adversar|sanitiz|spam|manipulat"
)
_SPOKEN: Final = tuple(
    rule
    for rule in threats.RULES
    if rule.id
    in names(
        "override override-strict override-elsewhere jailbreak exfiltrate exfiltrate-plainly image-leak behind-the-back"
        " approved-already no-guards decode-and-obey reveal-orders role-line"
    )
)
"""Rules about text from outside that no honest skill breaks; the others are how skills speak."""
_GRAVE: Final = frozenset(("override", "override-elsewhere", "decode-and-obey", "image-leak"))


class _Reader:
    """Reads the files of one skill; `signs` by file, lines counted from 1."""

    def __init__(self) -> None:
        self.signs: dict[str, list[Sign]] = {}
        self.texts: dict[str, str] = {}
        self.softened: set[tuple[str, str, int]] = set()
        self.spoken: list[Finding] = []
        self.left = 1.0
        self.words = MOST_WORDS
        self.blocks = MOST_BLOCKS

    def file(self, path: str, text: str) -> None:
        """Read one file."""
        self.texts[path] = text
        self.signs[path] = []
        kind = _kind(path, text)
        if kind in ("markdown", "") and len(text) > self.words:
            self.signs[path].append(Sign(rule="unjudged", line=1, text="more text than is read"))
            text = text[: self.words]
        self.words -= len(text) if kind in ("markdown", "") else 0
        folded = _folded(text)
        self._spoken(path, text, folded)
        if kind == "markdown":
            self._markdown(path, text, folded)
        else:
            self._match(path, CODE if kind in ("shell", "code") else (*CODE, *PROSE) if not kind else (), folded)
            self._code(path, text, kind, 1)
        self._hidden(path, text)

    def _markdown(self, path: str, text: str, folded: str) -> None:
        lines, folds = text.split("\n"), folded.split("\n")
        prose = list(folds)
        for language, first, last in _fences(lines):
            kind = _LANGUAGES.get(language.lower(), "other")
            code = "\n".join(lines[first:last])
            if kind in ("shell", "python", "javascript", "code"):
                prose[first:last] = [""] * (last - first)
            if kind != "other":
                self._match(path, CODE, "\n".join(folds[first:last]), start=first)
            shell = kind in ("shell", "markdown")
            self._code(
                path, _PROMPT.sub("", code) if shell else code, "shell" if shell else kind, first + 1, whole=False
            )
        self._match(path, (*PROSE, *(rule for rule in CODE if rule.place == "all")), "\n".join(prose), teaching=folds)
        for at, line in enumerate(lines):
            for span in (*_SPAN.finditer(line), *(_LOOSE.finditer(line) if prose[at] and _RUNS.search(line) else ())):
                self._code(path, span[1].removeprefix("$ "), "shell", at + 1, whole=False)
        self._scripts(path, lines)

    def _match(
        self, path: str, rules: Iterable[ScanRule], folded: str, *, start: int = 0, teaching: Sequence[str] = ()
    ) -> None:
        """Patterns; what the text says not to do is no finding."""
        for rule in rules:
            found = (one for span in _lines(rule.words, folded) for one in _pattern(rule).finditer(folded, *span))
            for match in islice(found, MOST_MATCHES):
                if not (rule.place == "prose" and _refused(folded, match.start())):
                    line = start + folded.count("\n", 0, match.start()) + 1
                    if teaching and _quoted(folded, match.start()) and _taught(teaching, line - 1):
                        self.softened.add((rule.id, path, line))
                    self.signs[path].append(Sign(rule=rule.id, line=line, text=match[0]))

    def _code(self, path: str, code: str, language: str, first: int, *, whole: bool = True) -> None:
        """Code; a snippet in a text need not be whole."""
        if most := MOST_CODE.get(language, 0):
            cost = (len(code) + DEAR * len(_DEAR.findall(code))) / most
            share = min(1.0, self.left / cost) if cost and self.blocks > 0 else float(not cost)
            self.left = max(0.0, self.left - cost)
            self.blocks -= 1
            allowance = int(len(code) * share)
            if share < 1:
                self.signs[path].append(Sign(rule="unjudged", line=first, text="more code than is read"))
            for sign in read(code[:allowance], language):
                if whole or sign.rule not in ("unjudged", "endless", "made-code"):
                    self.signs[path].append(
                        Sign(rule=sign.rule, line=sign.line + first, text=sign.text, host=sign.host)
                    )
        if language == "code":
            self.signs[path] += (
                Sign(rule=s.rule, line=s.line + first, text=s.text, host=s.host) for s in uploads(code)
            )

    def _scripts(self, path: str, lines: list[str]) -> None:
        for at, line in enumerate(lines):
            for match in _OWN_SCRIPT.finditer(line) if "script" in line or " run " in line.lower() else ():
                self.signs[path].append(Sign(rule="absent-script", line=at + 1, text=match[1]))

    def _spoken(self, path: str, text: str, folded: str) -> None:
        """What the scan of text from outside says, as far as skills do not speak so."""
        for found in threats.scan(text, _SPOKEN if _kind(path, text) in ("markdown", "") else ()):
            unseen = all(found.rule != rule.id for rule in _SPOKEN)
            at = max(0, folded.find(found.text)) if found.text else 0
            if not unseen and _refused(folded, at):
                continue
            line = folded.count("\n", 0, at)
            quoted = not unseen and _quoted(folded, at) and _taught(folded.split("\n"), line)
            severity: Severity = "low" if quoted else "high" if unseen or found.rule in _GRAVE else "medium"
            self.spoken.append(
                Finding(
                    rule=found.rule, severity=severity, file=path, line=line + 1, reason=found.reason, text=found.text
                )
            )

    def _hidden(self, path: str, text: str) -> None:
        """Commands that stand there encoded."""
        for count, match in enumerate(_BLOB.finditer(text)):
            if count < MOST_BLOCKS and (said := _decoded(match[0])) and _COMMANDING.search(said):
                line = text.count("\n", 0, match.start()) + 1
                self.signs[path].append(Sign(rule="encoded-text", line=line, text=said))

    # what it comes to

    def findings(self) -> Iterator[Finding]:
        """All that weighs something, each rule at most thrice a file."""
        yield from self.spoken
        self._lone()
        there = {path.rpartition("/")[2] for path in self.texts}
        seen: dict[tuple[str, str], int] = {}
        for path, signs in self.signs.items():
            signs[:] = [s for s in signs if s.rule != "absent-script" or s.text not in there]
            for sign in signs:
                seen[sign.rule, path] = seen.get((sign.rule, path), 0) + 1
                if BY_ID[sign.rule].severity and seen[sign.rule, path] <= 3:  # noqa: PLR2004 - the rest says no more
                    soft = (sign.rule, path, sign.line) in self.softened
                    yield _finding(sign.rule, path, line=sign.line, text=sign.text, soft=soft)
            for flow in FLOWS:
                if flow.lines >= 0 and (sign := _flows(flow, signs)):
                    yield _flow(flow, path, sign)
        code = [
            (path, s)
            for path, signs in self.signs.items()
            if _kind(path, self.texts[path]) != "markdown"
            for s in signs
        ]
        for flow in FLOWS:
            if flow.lines < 0 and (first := _flows(flow, [sign for _, sign in code])):
                yield _flow(flow, next(path for path, sign in code if sign is first), first)

    def _lone(self) -> None:
        """Uploads to hosts that the skill never speaks of otherwise."""
        sent = [sign for signs in self.signs.values() for sign in signs if sign.rule in ("uploads", "upload-unsigned")]
        for host in {sign.host for sign in sent if not is_local(sign.host)}:
            name = owner_of(host).split(".")[0]
            whole = sum(text.lower().count(name) for text in self.texts.values())
            if whole <= sum(sign.text.lower().count(name) for sign in sent if sign.host == host):
                for signs in self.signs.values():
                    signs += [
                        Sign(rule="upload-lone", line=s.line, text=s.text, host=host)
                        for s in signs
                        if s.host == host and s.rule in ("uploads", "upload-unsigned")
                    ]


def _flows(flow: Flow, signs: Sequence[Sign]) -> Sign | None:
    """The first sign of a flow whose other signs stand near enough."""
    wanted = [need.split("|") for need in flow.needs]
    kept = [[sign for sign in signs if sign.rule in need] for need in wanted]
    for first in kept[0]:
        near = (
            any(flow.lines <= 0 or abs(other.line - first.line) <= flow.lines for other in others)
            for others in kept[1:]
        )
        if all(near):
            return first
    return None


def _kind(path: str, text: str) -> str:
    """How a file is read: `markdown`, a language, `code` for other languages, empty for data."""
    name = path.rpartition("/")[2].lower()
    found = _LANGUAGES.get(
        name.rpartition(".")[2] if "." in name else name if name in ("dockerfile", "makefile") else "", ""
    )
    if (shebang := _SHEBANG.match(text[:200])) and found in ("markdown", ""):
        return shebang.lastgroup or found
    return found


def _fences(lines: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """The code blocks: language, first line, line behind the last."""
    open_, language, first = "", "", 0
    for at, line in enumerate(lines):
        match = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if match and not open_:
            open_, language, first = match[1], match[2], at + 1
        elif match and match[1].startswith(open_) and not match[2]:
            yield language, first, at
            open_ = ""
    if open_:
        yield language, first, len(lines)


def _folded(text: str) -> str:
    plain = text if text.isascii() else unicodedata.normalize("NFKC", threats.UNSEEN.sub("", text))
    return threats.BLANKS.sub(" ", plain).lower()


def _decoded(blob: str) -> str:
    try:
        if blob.startswith("\\x"):
            data = bytes.fromhex(blob.replace("\\x", ""))
        elif re.fullmatch(r"[0-9a-f]+", blob):
            data = bytes.fromhex(blob)
        else:
            data = base64.b64decode(blob + "=" * (-len(blob) % 4))
    except (ValueError, binascii.Error):
        return ""
    wide = data[1::2].count(0) * 3 > len(data)
    said = data.decode("utf-16-le" if wide else "utf-8", "replace")
    return said if said.count("\ufffd") * 20 <= len(said) else ""


def _lines(words: Sequence[str], text: str) -> Iterator[tuple[int, int]]:
    """Where lines begin that hold one of the words, and where those behind them end; together where they overlap."""
    starts: set[int] = set()
    for word in words:
        at = text.find(word)
        while at >= 0:
            starts.add(text.rfind("\n", 0, at) + 1)
            end = text.find("\n", at)
            at = text.find(word, end) if end >= 0 else -1
    first = last = -1
    for start in sorted(starts):
        if start > last:
            if last >= 0:
                yield first, last
            first = start
        end = text.find("\n", start)
        last = len(text) if end < 0 or (after := text.find("\n", end + 1)) < 0 else after
    if last >= 0:
        yield first, last


def _refused(folded: str, at: int) -> bool:
    """Whether the words before a place say not to do it."""
    return _REFUSED.search(re.split(r"[.!?:;\n,]", folded[max(0, at - 80) : at])[-1]) is not None


def _quoted(folded: str, at: int) -> bool:
    """Whether a place stands in quotes, in a code span, in a table or in a list of patterns."""
    before = folded[folded.rfind("\n", 0, at) + 1 : at]
    return before.count('"') % 2 == 1 or before.count("`") % 2 == 1 or "“" in before or before.lstrip().startswith("|")


def _taught(folds: Sequence[str], at: int) -> bool:
    """Whether the text round a line speaks about attacks."""
    heading = next((line for line in reversed(folds[: at + 1]) if line.startswith("#")), "")
    return any(_TEACHING.search(line) for line in (heading, *folds[max(0, at - 3) : at + 1]))


@cache
def _pattern(rule: ScanRule) -> re.Pattern[str]:
    return re.compile(rule.pattern)


def _finding(rule: str, file: str, *, line: int = 0, text: str = "", soft: bool = False) -> Finding:
    known = BY_ID[rule]
    severity: Severity = "low" if soft else known.severity
    return Finding(rule=rule, severity=severity, file=file, line=line, reason=known.reason, text=text[:SHOWN])


def _flow(flow: Flow, path: str, sign: Sign) -> Finding:
    return Finding(
        rule=flow.id, severity=flow.severity, file=path, line=sign.line, reason=flow.reason, text=sign.text[:SHOWN]
    )
