"""Programs that change nothing and send nothing, as data, and whether a plan holds nothing else. Pure.

This is what a command must be to run without a question after text from outside. So a program that is not named here does not
merely read, nor does one with an option or a word that is not known to be harmless.
"""

import re
from typing import Final

from melete.security.program import Plan, Program
from melete.security.words import UNKNOWN, names

_ANY: Final = names(
    "arch basename cat cd cksum cmp comm cut df diff dirname du echo egrep expand expr false fgrep fold grep groups head id join ls"
    " lsblk lscpu md5sum b2sum nl nproc od paste pgrep printenv ps pwd readlink realpath rev seq sha1sum sha256sum sha512sum sleep"
    " stat strings tac tail test tr true tty type uname unexpand uptime users wc which whereis who whoami : free zcat"
    " jq locate column sum getconf"
)
"""Whatever their arguments are, these only read."""
_BUT: Final = {
    "find": r"-(?:delete|exec|execdir|ok|okdir|fprint\w*|fls|files0-from)\Z",
    "fd": r"-\w*[xX]|--exec",
    "rg": r"--(?:pre|hostname-bin)|-\w*z",
    "sort": r"-\w*[oT]|--(?:o|t|co|files0)",
    "tree": r"-\w*o|--output|-R",
    "file": r"-\w*[Cz]|--(?:co|un)",
    "base64": r"-\w*o|--o",
    "printf": r"-v",
    **dict.fromkeys(("test", "[", "[["), r".*\[.*[$`]|-v\Z|-R\Z"),
    "timeout": r"(?!)",
    "time": r"-\w*[oa]|--(?:output|append)",
    "nice": r"(?!)",
    "stdbuf": r"(?!)",
    "command": r"-\w*p",
    "xargs": r"-\w*[aIJiSp]|--(?:arg-file|replace|interactive|open-tty|process-slot)|-o",
}
"""Programs that read unless an argument is of this kind; their arguments must all be known."""
_ONLY: Final = {
    "env": r"\Z",
    "hostname": r"(?:-s\n)*\Z",
    "date": r"(?:(?:-u|--utc|-R|-I\w*|\+[^\n]*|-d|--date(?:=[^\n]*)?|[^-+\n\d][^\n]*)\n)*\Z",
    "uniq": r"(?:--?\w[\w=-]*\n)*(?:[^-\n][^\n]*\n)?\Z",
    "sed": r"(?:-[nErs]+\n)*(?:-e\n)?(?:(?:\d+|\$|/[\w .:#()=-]*/)(?:,(?:\d+|\+\d+|\$|/[\w .:#()=-]*/))?p;?)+\n"
    r"(?:[^-\n][^\n]*\n)*\Z",
    "git": r"(?:--no-pager\n|-P\n)*(?:status|log|diff|show|blame|shortlog|describe|rev-parse|rev-list|ls-files|ls-tree|cat-file"
    r"|grep|merge-base|name-rev|count-objects|diff-tree|whatchanged|var|reflog\nshow|reflog\n\Z|stash\n(?:list|show)|worktree\nlist|config\n(?:--get|--list|-l|--get-all)"
    r"|remote(?:\n-v)?\n\Z|branch\n(?:(?:-[avr]+|--list|--all|--show-current|-vv|--contains|--merged)\n)*\Z|tag\n(?:(?:-l|--list)(?:\n[^\n]*)?\n)?\Z)(?:\n|\Z)"
    r"(?!(?:[^\n]*\n)*(?:--o(?!neline\n|nly-)|--ext|--textc|--filters|-\w*O))",
}
"""Programs that read when their arguments, a line each, are as a whole of this kind."""
_FREE_NAMES: Final = re.compile(
    r"[a-z_][a-z0-9_]*\Z(?<!\Apath)|LANG\Z|LC_\w+\Z|TZ\Z|NO_COLOR\Z|COLUMNS\Z|LINES\Z|[A-Z]\Z"
)
"""Variables that make no program do something else."""


def only_reads(plan: Plan) -> bool:
    """Whether all that would run is known, only reads, and writes to nothing but the output."""
    return (
        not plan.opaque
        and not plan.counts
        and bool(plan.programs)
        and all(_FREE_NAMES.match(name) for name in plan.assigned)
        and all(map(_reads, plan.programs))
    )


def _reads(program: Program) -> bool:
    path = program.argv[0].text
    if ("/" in path and not re.fullmatch(r"/(?:usr/)?bin/[\w\[.-]+", path)) or not all(
        (redirect.target == "/dev/null" or (">" not in redirect.operator and UNKNOWN not in redirect.target))
        and not redirect.target.startswith(("/dev/tcp", "/dev/udp"))
        for redirect in program.redirects
    ):
        return False
    name, words = program.name, program.words
    if name in _ANY:
        return name != "test" or {"-v", "-R"}.isdisjoint(words)
    if any(UNKNOWN in word.text or (word.glob and word.text[:1] in "*?[") for word in program.argv):
        return False
    if name in _BUT:
        return not any(re.match(_BUT[name], word) for word in words)
    lines = "".join(f"{word}\n" for word in words)
    return name in _ONLY and not (name == "git" and program.folder) and re.match(_ONLY[name], lines) is not None
