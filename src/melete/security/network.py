"""Which commands reach a network, as far as their text tells. Pure.

A script or a build can reach it as well and nobody sees that here: walls keep such from the network, or a person is asked.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from melete.security.plan import plan, plan_code
from melete.security.program import Plan, Program

_TABLE: Final = (
    (
        "curl wget http https xh aria2c axel lynx w3m links elinks nc ncat netcat socat telnet ftp lftp tftp ssh scp sftp rsync"
        " mosh rclone s3cmd ping dig nslookup host whois traceroute mail mailx mutt sendmail msmtp swaks openssl gh glab hub yt-dlp"
        " aws gcloud gsutil az doctl heroku flyctl vercel netlify wrangler kubectl helm terraform tofu pulumi ansible"
        " ansible-playbook apt apt-get aptitude dnf yum zypper pacman apk brew snap flatpak npx bunx pipx twine huggingface-cli hf"
        " gist xdg-open open www-browser chromium google-chrome firefox psql mysql mongosh redis-cli",
        "",
    ),
    ("git", "push fetch pull clone remote ls-remote submodule send-email lfs svn p4 archive request-pull maintenance"),
    ("npm pnpm yarn bun", "install i ci add update up upgrade publish audit outdated view info search login exec dlx create"),
    ("pip pip3 uv poetry pdm pipenv conda mamba micromamba", "install download index search sync add update upgrade publish"
     " lock create tool self pip wheel"),
    ("cargo rustup", "install fetch update publish add search owner login yank toolchain component"),
    ("go", "get install mod"),
    ("gem bundle composer mix hex dart flutter dotnet nuget", "install update push publish add require get restore search"),
    ("docker podman nerdctl buildah skopeo", "pull push login run build compose buildx search copy create"),
)  # fmt: skip
"""Programs, and the words among their arguments that make them reach out; none for those that always do."""
REACHING: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(words.split()) for names, words in _TABLE for name in names.split()
}
_ALONE: Final = frozenset({"yarn", "bun"})
"""Programs that install when they are told nothing."""
_CODE: Final = re.compile(
    r"\b(?:socket|urllib|requests|httpx2?|aiohttp|http\.client|smtplib|ftplib|telnetlib|paramiko|axios|XMLHttpRequest|LWP"
    r"|IO::Socket|Net::\w+|TCPSocket|open-uri|fsockopen|file_get_contents|require\W+(?:node:)?(?:net|https?|dgram|tls))\b"
)
_FETCH: Final = re.compile(r"(?<![.\w])fetch\s*\(")
_DEVICE: Final = re.compile(r"/dev/(?:tcp|udp)/")
_VERSION: Final = re.compile(r"[\d.]+\Z")
_LOCAL: Final = re.compile(r"(?:https?://)?(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?(?:[/?#].*)?\Z")
_TEXT: Final = frozenset({
    "curl", "wget", "http", "https", "xh", "lynx", "w3m", "links", "elinks", "nc", "ncat", "netcat", "socat", "telnet", "ftp",
    "lftp", "tftp", "gh", "glab", "hub", "whois", "ssh",
})  # fmt: skip
"""Programs that print what somebody out there wrote; the others print what they do themselves."""


def brings(text: str) -> bool:
    """Whether a shell text names a program that prints what a network brings, and so what somebody else wrote."""
    return any(
        _connects(program.code, program.language) or (program.name in _TEXT and _program(program))
        for program in plan(text).programs
    )


def reaches(text: str) -> bool:
    """Whether a shell text names a program that reaches a network; what cannot be told of it is not looked into."""
    return _reaching(plan(text))


def code_reaches(code: str, language: str = "python") -> bool:
    """The same for inline code: what connects in it, and what the commands that it runs name."""
    return _connects(code, language) or _reaching(plan_code(code, language))


def _reaching(found: Plan) -> bool:
    return any(_program(program) for program in found.programs)


def _program(program: Program) -> bool:
    if program.code and _connects(program.code, program.language):
        return True
    if any(_DEVICE.match(redirect.target) for redirect in program.redirects):
        return True
    return _named(program.name, program.words) and not _stays_here(program)


def _stays_here(program: Program) -> bool:
    """Whether all that could be an address is this machine's own."""
    words = [word for word in program.words if not word.startswith("-") and ("." in word or ":" in word or "/" in word)]
    plain = program.name in ("curl", "wget", "http", "xh") and not any("proxy" in word for word in program.words)
    return plain and bool(words) and all(map(_LOCAL.match, words))


def _connects(code: str, language: str) -> bool:
    return _CODE.search(code) is not None or (language != "python" and _FETCH.search(code) is not None)


def _named(name: str, words: Sequence[str]) -> bool:
    name = _VERSION.sub("", name) or name
    if name in ("python", "pypy") and "-m" in words:
        at = words.index("-m") + 1
        return at < len(words) and _named(words[at].partition(".")[0], words[at + 1 :])
    wanted = REACHING.get(name)
    if wanted is None:
        return False
    return not wanted or not wanted.isdisjoint(words) or (name in _ALONE and not words)
