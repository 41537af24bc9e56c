"""What a rule about commands is, and whether it fits a program. Rules themselves are data in `rules_*.py`. Pure."""

import posixpath
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

from melete.security.program import Program
from melete.security.words import HERE, UNKNOWN


class Rule(Struct, frozen=True, kw_only=True):
    """What a program may look like, why that matters, and an example that proves the rule.

    Each field that is given must fit; a field holds words separated by blanks. `programs`: names or patterns; `but`: names that are
    excepted. `sub`: what the first operands are, alternatives separated by `|`. `verb`: patterns, one of which fits one of the first
    five operands. `any`, `all`: options and words. `none`: those that make it harmless, where the program is sure to take them so. `operand`: classes (see PLACES), one of which fits an operand, with `last` the last one;
    `unless`:
    classes into which every operand falls. `redirect`: classes of what is written to. `code`: a pattern for inline code and, for
    programs that run none, their arguments and input; with `inline`, only for inline code; with
    `piped`, only for programs that are fed something. `contained`: a sandbox makes it harmless.
    """

    id: str
    reason: str
    example: str
    programs: str
    verdict: Literal["forbid", "ask"] = "ask"
    but: str = ""
    sub: str = ""
    verb: str = ""
    any: str = ""
    all: str = ""
    none: str = ""
    operand: str = ""
    last: bool = False
    unless: str = ""
    redirect: str = ""
    code: str = ""
    inline: bool = False
    piped: bool = False
    contained: bool = False


class Where(Struct, frozen=True, kw_only=True):
    """Where a command runs: its working folder, the person's home and Melete's, empty when not known."""

    cwd: str = ""
    home: str = ""
    own: str = ""


_TOP = r"bin|boot|dev|etc|home|lib\w*|opt|proc|root|sbin|srv|sys|usr|var|run|Users|System|Library|Applications|private|nix|Volumes"
_UNDER = (
    r"usr/(?:bin|s?bin|lib\w*|local|share|include|libexec)|var/(?:lib|log|spool|mail|db|backups|www)|boot/\w+|System/\w+|Library/\w+"
    r"|private/(?:etc|var)|etc/(?:ssh|ssl|pam\.d|systemd|sudoers\.d|security|default|apt|init\.d|cron\.\w+|kubernetes|X11|skel)"
    r"|lib\w*/(?:systemd|modules|x86_64-linux-gnu)|sys/firmware(?:/\S*)?"
)
_ALL = r"(?:/(?:\*|\.\*|\.?\[[^/]*|\.?\?+\*|\{\S*))?"
PLACES: Final[dict[str, re.Pattern[str]]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "root": r"/(?:\*|\.|\.\.|\.\*|\?\*|\[[^/]*|[^/\0]*[*?\[][^/]*)?\Z|//+\*?\Z",
        "system": rf"/(?:{_TOP}){_ALL}\Z|/(?:{_UNDER}){_ALL}\Z",
        "home": rf"(?:~[\w.-]*|/root|/(?:home|Users)/(?:[^/\0]+|\0)|/home/\*|/Users/\*){_ALL}\Z",
        "critical": r"/etc/(?:passwd|shadow|group|gshadow|sudoers|fstab|crypttab|master\.passwd|pam\.d/\S+|ld\.so\.cache)-?\Z"
        r"|/boot/\S+|/(?:usr/)?(?:bin|sbin)/(?:\w*sh|init|login|su|sudo|systemd|ls|cp|mount)\Z|/(?:usr/)?lib\w*/(?:\S+/)?(?:ld-|libc[.-])\S*"
        r"|/sys/firmware/\S+|/etc/\*\Z|/(?:usr/)?s?bin/\*\Z|/dev/\*\Z",
        "device": r"/dev/(?:r?disk\d|(?:sd|hd|vd|xvd)[a-z*?\[]|nvme\d|nvme\*|mmcblk|mapper/|md\d|md/|dm-|zd\d|nbd\d|zvol/|disk/|mem\Z|kmem\Z"
        r"|port\Z|sr\d|mtd|loop\d|ram\d|block/|pmem|vg|root\Z)",
        "kernel": r"/proc/(?:sysrq-trigger|kcore)\Z",
        "wildcard": r"(?:.*/)?(?:\*|\.\*|\*\.\*|\?\*)\Z|\.{1,2}/?\Z",
        "unknown": rf".*{UNKNOWN}",
        "absolute": rf"/|~|\.\.(?:/|\Z)|.*{UNKNOWN}",
        "temporary": r"(?:/private)?(?:/var)?/tmp/(?!\*|\.)[^\0]+\Z",
        "generated": r"(?!.*\.\.)(?:\./)?(?:[\w.-]+/)*(?:node_modules|__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.hypothesis|\.tox|\.nox"
        r"|build|dist|target|out|coverage|htmlcov|\.coverage|\.next|\.nuxt|\.cache|\.parcel-cache|\.turbo|[\w.*-]*\.egg-info|\.eggs|site)/?\Z",
        "secret": r".*(?:/etc/(?:g?shadow|sudoers|krb5\.keytab|ssh/ssh_host_\w+_key)-?\Z|/\.ssh(?:/(?:id_[\w*?\[]+|identity|\*|.*\.pem|\0)?)?\Z|/id_(?:rsa|dsa|ecdsa|ed25519)\Z|/ssl/private/"
        r"|\.aws(?:/(?:credentials.*|\*)?)?\Z|/(?:run|var/run)/secrets/|/etc/kubernetes/\S*\.conf\Z|\.cargo/credentials|\.gem/credentials|\.m2/settings|\.password-store/|keyrings/"
        r"|rclone\.conf\Z|\.config/(?:op|sops|hub|doctl)/|\.(?:s3cfg|boto|my\.cnf|snowsql|databrickscfg)\Z|/(?:Cookies|key4\.db|cookies\.sqlite)\Z|\.fly/config|/proc/\d+/(?:mem|maps)\Z"
        r"|/dev/(?:k?mem|port)\Z|\.kaggle/|\.huggingface/token|\.netrc\Z|\.pgpass\Z|\.kube/config\Z|\.docker/config\.json|\.gnupg(?:/|\Z)|\.git-credentials|\.npmrc\Z"
        r"|\.pypirc\Z|\.config/(?:gcloud|gh)/|/proc/(?:\d+|self|\*)/environ|Login Data\Z"
        r"|logins\.json|wallet\.dat|\.vault-token|\.azure/|\.terraform\.d/credentials|/master\.key\Z|key\.pem\Z|Keychains/)",
        "dotenv": r"(?:.*/)?\.env(?:\.(?:local|production|prod))?\Z",
        "startup": r".*(?:/etc/(?:cron[\w.]*(?:/|\Z)|profile|bash\.bashrc|zsh/|rc\.local|init\.d/|systemd/|ld\.so\.|modprobe|modules-load|update-motd|xdg/"
        r"autostart|pam\.d|sudoers|udev/)|/var/spool/cron|\.bashrc|\.zshrc|\.profile|\.bash_profile|\.bash_login|\.zprofile|\.zshenv"
        r"|\.bash_logout|\.config/(?:fish|autostart|systemd)|\.ssh/(?:authorized_keys|config|rc)|LaunchAgents|LaunchDaemons|\.git/hooks/"
        r"|\.git/config\Z|\.config/(?:environment\.d|git|nvim|systemd)/|\.local/bin/|\.cargo/config|\.bash_aliases|\.gitconfig|\.vimrc|\.inputrc|/lib/systemd/|\.pam_environment|\.xinitrc|\.xprofile|sitecustomize\.py|\.pth\Z)",
        "etc": r"/(?:etc|boot|usr|bin|sbin|lib\w*|sys|proc|System|Library)/(?!local/src)\S|/etc\Z",
        "own": r"(?:.*/)?\.melete(?:/profiles/[^/]+)?(?:/(?:config\.yaml|\.env|grants\.[^/]*|state(?:/.*)?|profiles|\*|\.\*?|\{.*)?)?\Z"
        r"|(?:.*/)?\.m?e?l?e?t?e?[*?\[][^/]*/(?:config\.yaml|\.env|grants\.[^/]*|state(?:/.*)?)\Z",
        "skills": r"(?:.*/)?\.melete(?:/profiles/[^/]+)?/skills(?:/.*)?\Z",
        "history": r".*(?:\.(?:bash|zsh|sh|fish|python|mysql|psql|node_repl)_history|/fish_history|\.lesshst)\Z",
        "log": r"/var/log(?:/|\Z)|/var/run/utmp|/(?:private/)?var/(?:audit|db/diagnostics)",
        "shell": r"(?:.*[\s='\"!:,;(|{<]|)(?:/usr)?(?:/local)?/bin/(?:ba|da|z|k|c|tc|fi|a)?sh(?:[\s'\",;:)}\]|<>].*|\Z)",
        "socket": r"(?:/dev/(?:tcp|udp)/|.*(?:docker|containerd|podman)\.sock)",
        "file": r"(?!/dev/(?:null|stdout|stderr)\Z).",
        "fed": r"\0<",
        "upload": r"(?:gopher|dict)://|@[^-\s]|\w+=@\S|[^=\s]+=<\S",
    }.items()
}  # fmt: skip
"""Classes of operands, as patterns for the whole path or word."""

VALUED: Final[dict[str, frozenset[str]]] = {
    name: frozenset(options.split())
    for name, options in {
        "git": "-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix",
        "docker": "-H --host --context --config -l --log-level -f --file -p --project-name --profile --env-file",
        "kubectl": "-n --namespace --context --kubeconfig --cluster --user -s --server --token --as -l -o",
        "helm": "-n --namespace --kube-context --kubeconfig", "terraform": "-chdir", "systemctl": "-H -M -t -p -n -o --type",
        "melete": "-p --profile", "restic": "-r --repo -p --password-file -o", "borg": "--repo -r",
        "apt-get": "-o -c -t", "apt": "-o -c -t", "npm": "--prefix -C -w", "redis-cli": "-h -p -a -n -u --user --pass",
    }.items()
}  # fmt: skip
SAME: Final = {
    "podman": "docker",
    "nerdctl": "docker",
    "docker-compose": "docker",
    "oc": "kubectl",
    "tofu": "terraform",
}


_compiled = lru_cache(maxsize=None)(re.compile)


@lru_cache(maxsize=4096)
def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def named(rule: Rule, name: str) -> bool:
    """Whether the rule speaks of a program of this name."""
    if name in _split(rule.but):
        return False
    return any(one == name or ("*" in one and fnmatchcase(name, one)) for one in _split(rule.programs))


def fits(rule: Rule, program: Program, where: Where) -> bool:  # noqa: PLR0911 - a condition a line
    """Whether a rule that speaks of the program's name fits the program."""
    if (rule.inline and not program.code) or (rule.piped and not program.stdin):
        return False
    if rule.redirect and not (program.redirects and _redirected(rule, program, where)):
        return False
    words = program.words
    if (rule.any and not any(_has(words, one) for one in _split(rule.any))) or (
        rule.all and not all(_has(words, one) for one in _split(rule.all))
    ):
        return False
    if rule.none and _spared(rule, program.name, words):
        return False
    if (rule.sub or rule.verb) and not _subcommand(rule, program.name, words):
        return False
    if (rule.operand or rule.unless) and not _operands(rule, program, where):
        return False
    return not rule.code or _compiled(rule.code).search(_code(program)) is not None


def _code(program: Program) -> str:
    return program.code or "\n".join((*program.words, program.stdin))


def _redirected(rule: Rule, program: Program, where: Where) -> bool:
    targets = [r.target for r in program.redirects if ">" in r.operator or r.target.startswith("/dev/tcp")]
    return any(_placed(rule.redirect, resolved(target, program.folder, where)) for target in targets)


def _has(words: Sequence[str], option: str) -> bool:
    if option.endswith("*"):
        return any(word.startswith(option[:-1]) for word in words)
    if not option.startswith("-"):
        return option in words
    if not option[2:] and option != "--":
        return any(
            word[:1] == "-" and option[1] in word[1:] and word[1:].replace(UNKNOWN, "").isalnum() for word in words
        )
    for word in words:
        key = word.partition("=")[0]
        if key == option or (key[4:] and key.startswith("--") and option.startswith(key)):
            return True
    return False


_SWITCH = re.compile(
    r"-[afvqrdxyRzuXA]+\Z|--(?:recursive|force|yes|all|verbose|quiet|delete|prune|assume-yes|now|hard|staged|del|auto-approve|no-[\w-]+)\Z"
)
"""Options that take no value in any program that the rules speak of, so that the word behind them stands for itself."""


def _spared(rule: Rule, name: str, words: Sequence[str]) -> bool:
    """Whether something that makes the program harmless stands where the program takes it as that.

    An option counts before `--`, and where no other option may take it as its value; for what is forbidden only before the first
    operand, as some programs read no options behind it. A word counts before the one that the rule speaks of.
    """
    end = words.index("--") if "--" in words else len(words)
    if rule.verdict == "forbid":
        end = next((at for at, word in enumerate(words[:end]) if word[:1] != "-"), end)
    sure = [
        word
        for at, word in enumerate(words[:end])
        if not at or words[at - 1][:1] != "-" or _SWITCH.match(words[at - 1]) or "=" in words[at - 1]
    ]
    found = operands(name, words)
    patterns = _split(rule.verb)
    said = next((at for at, word in enumerate(found) if any(fnmatchcase(word, one) for one in patterns)), 1)
    return any(
        any(_is_option(word, one, clusters=rule.verdict == "ask") for word in sure)
        if one.startswith("-")
        else one in sure and one in found[:said]
        for one in _split(rule.none)
    )


def _is_option(word: str, option: str, *, clusters: bool) -> bool:
    key, _, value = word.partition("=")
    if option.endswith("*"):
        return key.startswith(option[:-1]) and value not in _OFF
    if key == option:
        return value not in _OFF
    return (
        clusters
        and option[1] != "-"
        and not option[2:]
        and word[-1:] == option[1]
        and _SWITCH.match(word[:-1]) is not None
    )


_OFF: Final = ("none", "false", "no", "0", "never", "False")


def operands(name: str, words: Iterable[str]) -> list[str]:
    """The arguments that are no options, nor values of the options that stand before a subcommand."""
    values = VALUED.get(SAME.get(name, name), frozenset())
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-") and word != "-":
            skip = word in values and not found
        else:
            found.append(word)
    return found


def _subcommand(rule: Rule, name: str, words: Sequence[str]) -> bool:
    found = operands(name, words)
    if rule.sub and not any(_starts(found, choice.split()) for choice in rule.sub.split("|")):
        return False
    patterns = _split(rule.verb)
    return not patterns or any(fnmatchcase(word, pattern) for word in found[:5] for pattern in patterns)


def _starts(found: Sequence[str], choice: Sequence[str]) -> bool:
    return len(found) >= len(choice) and all(fnmatchcase(a, b) for a, b in zip(found, choice, strict=False))


def _operands(rule: Rule, program: Program, where: Where) -> bool:
    values = [w for w in program.words if not w.startswith("-") or w == "-"]
    known = program.folder[:1] in ("/", "~") or ".." not in program.folder
    below = program.folder if program.folder[:1] in ("/", "~") else ""
    if rule.unless and known and values and all(_placed(rule.unless, resolved(w, below, Where())) for w in values):
        return False
    if not rule.operand:
        return True
    if rule.last and "-t" not in program.words:
        values = values[-1:]
    values += [w.partition("=")[2] for w in program.words if "=" in w]
    values += [w[2:] for w in program.words if w[3:] and w[0] == "-" and w[1] != "-"]
    values += [f"{UNKNOWN}<" for redirect in program.redirects if redirect.operator == "<"]
    values += [redirect.target for redirect in program.redirects if redirect.operator.endswith("<")]
    if program.name in _HERE and not any(word[:1] not in "-(!" for word in program.words[:1]):
        values.append(".")
    below = rule.operand.replace("absolute", "")
    return any(
        _placed(rule.operand, resolved(word, program.folder, Where()))
        or _placed(below, resolved(word, program.folder, where))
        or _placed(rule.operand, word)
        for word in dict.fromkeys(values)
    )


_HERE: Final = ("find", "gfind")
"""Programs that look at the folder where they run when they are told no other."""


def _placed(classes: str, word: str) -> bool:
    return any(PLACES[name].match(word) is not None for name in _split(classes))


def resolved(word: str, folder: str, where: Where) -> str:
    """A path made absolute as far as the folder is known, `..` and doubled slashes taken out; `~` for the person's home."""
    if not word or word[0] == "-" or "://" in word:
        return word
    if where.cwd and (word == HERE or word.startswith(f"{HERE}/")):
        word = f"{where.cwd}{word.removeprefix(HERE)}"
    base = folder if folder[:1] == "~" else posixpath.join(where.cwd, folder)
    if word[0] not in "/~" and base[:1] in ("/", "~"):
        word = posixpath.join(base, word)
    if word[0] in "/~":
        word = posixpath.normpath(word)
        word = word[1:] if word.startswith("//") else word
    if where.own and (word == where.own or word.startswith(f"{where.own}/")):
        return f"~/.melete{word.removeprefix(where.own)}"
    if where.home and (word == where.home or word.startswith(f"{where.home}/")):
        return f"~{word.removeprefix(where.home)}"
    return word
