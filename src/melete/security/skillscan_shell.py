"""What shell text in a skill does, as signs in the plan of its programs, and whose an address is. Pure; nothing is run."""

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, ip_address
from typing import Any, Final

from msgspec import Struct

from melete.security.commands import FORBIDDEN, fitting
from melete.security.decode import downloaded
from melete.security.inner import CUTS
from melete.security.plan import Plan, Program, plan
from melete.security.rules import PLACES
from melete.security.skillscan_rules import COLLECTORS, DUBIOUS, FREE_HOSTS, INSTALLERS, SHORTENERS
from melete.security.words import UNKNOWN, names

SLICE: Final = 12_000
BLOCK: Final = 3_000
"""Characters of code, and of shell, that are read at once: what a plan takes grows faster than its text."""
SHELLS: Final = names("sh bash zsh dash ksh ash fish")
_INTERPRETERS: Final = names("python pypy node nodejs deno bun perl ruby php iex invoke-expression")
_FETCHERS: Final = names("curl wget iwr irm invoke-webrequest invoke-restmethod fetch aria2c axel http https xh")
_SENDERS: Final = _FETCHERS | names("nc ncat netcat socat telnet ftp sftp scp rsync mail sendmail openssl dig nslookup")
_DECODERS: Final = names("base64 gbase64 base32 xxd openssl rev tr rot13")
_GRAVE: Final = DUBIOUS | {rule.id for rule in FORBIDDEN}
_NEAR: Final = 4
"""Programs between a download and what runs it."""
URL: Final = re.compile(r"https?://[^\s\"'`<>()\\|]+", re.IGNORECASE)
_HOST: Final = re.compile(r"(?:[A-Za-z+]+://)?(?:[^/@\s]*@)?(\[[^\]]*\]|[^/?#:]*)")
_BARE: Final = re.compile(r"(?:[\w-]+\.)+[a-z]{2,}(?:[:/]\S*)?\Z", re.IGNORECASE)
_LOCAL: Final = tuple(
    IPv4Network(n) for n in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "0.0.0.0/32")
)  # fmt: skip
_UPLOAD: Final = re.compile(
    r"(?<![\w/.-])(?:curl|wget)\s(?:[^`\n]{0,1500}?\s)?(?:-X ?(?:POST|PUT|PATCH)\b|-d\b|-F\b|-T ?[\w./~$<\"'-]*[A-Za-z]|--data\S*|--json|--form\S*|--post-\S+|--upload-file)[^`\n]{0,1500}"
)
_SIGNED: Final = re.compile(
    r"(?i)authori[sz]ation|api[-_]?key|apikey|token|bearer|cookie|secret|passw|client_id|grant_type|username|signature"
    r"|x-[\w-]*(?:key|auth|id)|[?&\"']\w*key|\s-u\s|--user\b|\s-b\s|--netrc|--cert\b|\$\{?\w*(?:KEY|TOKEN|SECRET|AUTH|PASS)"
)
_SET: Final = re.compile(r"^(?:export )?[A-Za-z_]\w*=[^\n$`(]{1,300}$", re.MULTILINE)
_BLANK: Final = re.compile(r"\n{3,}")
MOST_SET: Final = 40
FEWEST: Final = 12
"""Lines that are not divided further."""
_FILE_SENT: Final = re.compile(
    r"(?:-d|--data\S*|-F|--form) ?[\"']?(?:\w+=)?@|\w=@|\s-T ?[\"']?[^\s\d]|--upload-file|--post-file|--body-file"
)


class Sign(Struct, frozen=True, kw_only=True):
    """One thing that was found: the rule, the line in the code, counted from 0, and the text; `host` where it is about one."""

    rule: str
    line: int = 0
    text: str = ""
    host: str = ""


# ---- addresses -----------------------------------------------------------------------------------


def host_of(url: str) -> str:
    """The host of an address in lower case, without port; of a bare host itself."""
    match = _HOST.match(url)
    return match[1].lower() if match else ""


def owner_of(host: str) -> str:
    """The name below which one owner speaks: the registrable domain, as far as its spelling tells."""
    labels = host.split(".")
    short = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in ("co", "com", "org", "net", "gov", "ac", "edu")  # noqa: PLR2004
    owner = ".".join(labels[-3 if short else -2 :])
    return host if owner in FREE_HOSTS or _address(host) else owner


def is_local(host: str) -> bool:
    """Whether a host is this machine or its own network."""
    address = _address(host)
    if address is not None:
        return any(address in network for network in _LOCAL)
    return "." not in host or host.endswith((".local", ".internal", ".lan", ".home")) or UNKNOWN in host


def hides(url: str) -> bool:
    """Whether an address says nothing about whose it is: a number, a short link, a place where anybody leaves things."""
    host = host_of(url)
    return _address(host) is not None or any(
        host == one or host.endswith("." + one) for one in COLLECTORS | SHORTENERS | FREE_HOSTS
    )


def collects(url: str) -> bool:
    """Whether anybody can collect there what others send."""
    host = host_of(url)
    return any(host == one or host.endswith("." + one) for one in COLLECTORS)


def _address(host: str) -> Any:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _known(url: str) -> bool:
    host, rest = host_of(url), url.partition("://")[2].partition("/")[2]
    if is_local(host):
        return True
    owner = f"{host}/{rest.partition('/')[0].lower()}"
    return not url.lower().startswith("http://") and bool({host, owner, owner_of(host)} & INSTALLERS)


# ---- shell ---------------------------------------------------------------------------------------


def shell(code: str) -> Iterator[Sign]:
    """Signs in a shell text of any length."""
    known = ""
    for start, piece in _blocks(code):
        yield from (moved(sign, start) for sign in _piece(piece, known))
        known = "".join(f"{line}\n" for line in (*known.splitlines(), *_SET.findall(piece))[-MOST_SET:])
    yield from uploads(code)


def _piece(piece: str, known: str) -> Iterator[Sign]:
    """Signs in a piece; what is too much to be judged at once is judged by halves."""
    found = plan(known + _BLANK.sub("\n\n", piece))
    lines = piece.splitlines(keepends=True)
    if lines[FEWEST:] and any(why in CUTS for why in found.opaque):
        half = len(lines) // 2
        yield from _piece("".join(lines[:half]), known)
        yield from (moved(sign, half) for sign in _piece("".join(lines[half:]), known))
    else:
        yield from planned(found, piece)


def _blocks(code: str, most: int = BLOCK) -> Iterator[tuple[int, str]]:
    """The code in pieces that end where a blank line stands before one that is not indented."""
    start, size = 0, 0
    lines = code.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if size > most and not lines[at - 1].strip() and line[:1].strip():
            yield start, "".join(lines[start:at])
            start, size = at, 0
        size += len(line)
    for more, piece in slices("".join(lines[start:]), max(SLICE, 2 * most)):
        yield start + more, piece


def uploads(text: str) -> Iterator[Sign]:
    """Commands that send data to a literal host without a key."""
    joined = text.replace("\\\r\n", "  \r").replace("\\\n", "  ")
    for match in _UPLOAD.finditer(joined):
        url = URL.search(match[0])
        if (
            url is None
            or is_local(host_of(url[0]))
            or _SIGNED.search(match[0].replace(url[0], url[0].partition("?")[2]))
        ):
            continue
        line = text.count("\n", 0, match.start())
        rule = "upload-unsigned" if _FILE_SENT.search(match[0]) else "uploads"
        yield Sign(rule=rule, line=line, text=match[0], host=host_of(url[0]))


def planned(found: Plan, source: str) -> Iterator[Sign]:
    """Signs in a plan; lines are found by the words in its source."""
    for rule, program in fitting(found, _GRAVE):
        kind = "forbidden-command" if rule.verdict == "forbid" else "dubious-command"
        yield Sign(rule=kind, line=_line(source, program.name), text=f"{program.name}: {rule.reason}")
    if any(why in CUTS for why in found.opaque):
        yield Sign(rule="unjudged")
    for program in found.programs:
        yield from _own(program, found, source)
        yield from _habits(program, source)
    yield from _runs(found, source)
    yield from _takes(found, source)


def _runs(found: Plan, source: str) -> Iterator[Sign]:
    """Downloads that are run, and data that is sent."""
    last, since = "", -_NEAR - 1
    files: dict[str, str] = {}
    for at, program in enumerate(found.programs):
        if url := _fetched(program):
            last, since = url, at
            files.update({_plain(name): url for name in (*downloaded(program.words), *_written(program))})
            if program.stdin or UNKNOWN in "".join(program.words) or "@" in "".join(program.words):
                yield from _sent(url, source)
        if ran := _ran(program, files, last if at - since <= _NEAR else ""):
            rule = "download-run-hidden" if hides(ran) else "download-run"
            if ran == UNKNOWN or not _known(ran):
                yield Sign(rule=rule, line=_line(source, ran), text=ran, host=host_of(ran))


def _takes(found: Plan, source: str) -> Iterator[Sign]:
    """Secrets that are read, and what sends them on."""
    secret = -_NEAR - 3
    for at, program in enumerate(found.programs):
        line = _line(source, program.words[-1] if program.words else program.name)
        if _reads_secret(program):
            secret = at
            yield Sign(rule="secret-file", line=line, text=" ".join((program.name, *program.words))[:200])
        if at - secret <= _NEAR + 2 and program.name in _SENDERS and _carries(program, alone=at == secret):
            yield Sign(rule="secret-sent", line=line, text=program.name)


def _own(program: Program, found: Plan, source: str) -> Iterator[Sign]:
    """Signs in one program alone."""
    name, words = program.name, program.words
    if any(redirect.target.startswith(("/dev/tcp/", "/dev/udp/")) for redirect in program.redirects):
        yield Sign(rule="reverse-shell", line=_line(source, "/dev/"), text=" ".join((name, *words))[:200])
    if (name in SHELLS or name in _INTERPRETERS) and program.stdin.replace(UNKNOWN, "").strip():
        decoded = any(p.name in _DECODERS for p in found.programs) and program.stdin.strip() not in source
        if decoded and program.stdin.strip() not in source.replace("\\\n", ""):
            yield Sign(rule="encoded-command", line=_line(source, "base64"), text=program.stdin[:200])


def _habits(program: Program, source: str) -> Iterator[Sign]:
    """Code in its arguments, broad deletions, packages from odd places."""
    name, words = program.name, program.words
    if coded := _inline(name, words):
        yield Sign(
            rule="inline", line=_line(source, coded), text=coded, host="python" if name == "python" else "javascript"
        )
    if (
        name in ("find", "gfind")
        and "-delete" in words
        and any(PLACES["home"].match(w) or w[:2] == ".." for w in words)
    ):
        yield Sign(rule="deletes-broadly", line=_line(source, "find "), text=" ".join(words))
    if name == "rm" and any(word.startswith("-") and set(word) & set("rRf") for word in words):
        broad = [
            w.text
            for w in program.argv[1:]
            if w.text in (".git", ".") or (w.glob and w.text.startswith(("./*", "../", "*", "~")))
        ]
        if broad:
            yield Sign(rule="deletes-broadly", line=_line(source, "rm "), text=" ".join(broad))
    if name in ("pip", "pip3", "uv", "npm", "pnpm", "yarn") and "install" in words:
        for url in (word for word in words if "://" in word):
            if hides(url) or url.lower().startswith(("http://", "git+http://")):
                yield Sign(rule="odd-source", line=_line(source, url), text=url, host=host_of(url))


def _inline(name: str, words: tuple[str, ...]) -> str:
    """The code that an interpreter is given among its arguments."""
    option = {"python": "-c", "node": "-e", "nodejs": "-e", "bun": "-e"}.get(name, "")
    at = words.index(option) + 1 if option in words else len(words)
    return words[at] if at < len(words) else ""


def _fetched(program: Program) -> str:
    if program.name.lower() not in _FETCHERS:
        return ""
    found = next((w for w in program.words if "://" in w), "") or next((w for w in program.words if _BARE.match(w)), "")
    return found or ("" if not any(UNKNOWN in w for w in program.words) else UNKNOWN)


def _written(program: Program) -> list[str]:
    return [redirect.target for redirect in program.redirects if ">" in redirect.operator]


def _ran(program: Program, files: Mapping[str, str], last: str) -> str:
    """The address of what the program runs, if that was downloaded."""
    name, words = program.name.lower(), program.words
    operand = next((word for word in words if not word.startswith("-")), "")
    if _plain(program.argv[0].text) in files and name not in SHELLS:
        return files[_plain(program.argv[0].text)]
    if name in SHELLS or name in _INTERPRETERS or name in ("source", ".", "eval"):
        if _plain(operand) in files:
            return files[_plain(operand)]
        whole = operand in (UNKNOWN, "/dev/fd/63")
        piped = program.stdin == UNKNOWN and (not operand or "-s" in words or operand == "/dev/stdin")
        if whole or piped:
            return last
    return ""


def _sent(url: str, source: str) -> Iterator[Sign]:
    yield Sign(rule="sends", line=_line(source, url), text=url, host=host_of(url))
    if collects(url):
        yield Sign(rule="drop-host", line=_line(source, url), text=url, host=host_of(url))


def _reads_secret(program: Program) -> bool:
    if program.name in ("env", "printenv", "set") and not program.words:
        return True
    if program.name in (
        "ssh",
        "ssh-keygen",
        "ssh-add",
        "chmod",
        "ls",
        "test",
        "[",
        "[[",
        "mkdir",
        "echo",
        "export",
        "touch",
    ):
        return False
    if program.name in ("tar", "zip", "7z") and any(
        PLACES["home"].match(w) or PLACES["root"].match(w) for w in program.words
    ):
        return True
    return any(PLACES["secret"].match(w.lstrip("@").partition("=@")[2] or w.lstrip("@")) for w in program.words) or (
        program.name in _SENDERS
        and any(PLACES["dotenv"].match(w.rpartition("@")[2]) for w in program.words if "@" in w)
    )


def _carries(program: Program, *, alone: bool) -> bool:
    """Whether a program that sends takes along what another one has read, or what its own words name."""
    return alone or program.stdin == UNKNOWN or any(UNKNOWN in word or "@" in word for word in program.words)


def _plain(name: str) -> str:
    return name.removeprefix("./")


def slices(code: str, most: int = SLICE) -> Iterator[tuple[int, str]]:
    """The code in pieces of whole lines, each with the number of its first line; too long a line is cut."""
    piece: list[str] = []
    start, size = 0, 0
    for at, line in enumerate(code.splitlines(keepends=True)):
        for cut in range(0, len(line), most):
            part = line[cut : cut + most]
            if size and size + len(part) > most:
                yield start, "".join(piece)
                piece, start, size = [], at, 0
            piece.append(part)
            size += len(part)
    if size:
        yield start, "".join(piece)


def moved(sign: Sign, lines: int) -> Sign:
    """The same so many lines further on."""
    return Sign(rule=sign.rule, line=sign.line + lines, text=sign.text, host=sign.host)


def _line(source: str, needle: str) -> int:
    at = source.find(needle.strip(UNKNOWN)) if needle.strip(UNKNOWN) else 0
    return source.count("\n", 0, max(at, 0))
