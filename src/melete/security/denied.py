"""Files that no tool reads, and files that no tool writes: one list for the file tools and for the sandbox. Pure judgement.

Paths without a leading slash are relative to a person's home folder. A name that does not exist costs nothing.
"""

import fnmatch
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from melete.core.policy import Verdict
from melete.security.paths import within

SECRETS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".netrc", "_netrc", ".npmrc",
    ".yarnrc.yml", ".pypirc", ".git-credentials", ".config/git/credentials", ".config/gcloud", ".config/gh",
    ".config/glab-cli", ".config/hub", ".config/op", ".config/containers/auth.json", ".config/helm", ".config/rclone",
    ".config/sops", ".config/age", ".config/doctl", ".config/fly", ".fly", ".config/heroku", ".config/netlify",
    ".config/vercel", ".vercel", ".config/stripe", ".config/ngrok", ".ngrok2", ".terraform.d", ".terraformrc",
    ".config/pypoetry/auth.toml", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
    ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".composer/auth.json",
    ".config/composer/auth.json", ".nuget", ".config/nuget", ".pgpass", ".my.cnf", ".mylogin.cnf", ".mongorc.js",
    ".boto", ".s3cfg", ".databrickscfg", ".snowflake", ".snowsql", ".dbt", ".huggingface", ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens", ".kaggle", ".config/kaggle", ".netlify", ".oci", ".bluemix", ".aliyun",
    ".minikube", ".vault-token", ".vagrant.d", ".ansible", ".wakatime.cfg", ".ICEauthority", ".Xauthority", ".claude",
    ".claude.json", ".codex", ".gemini", ".hermes", ".melete", ".config/github-copilot", ".config/anthropic",
    ".config/openai", ".config/io.datasette.llm", ".aider.conf.yml", ".continue", ".cursor", ".env",
)  # fmt: skip
"""Keys, tokens and passwords, each where its program keeps them."""

HISTORIES = (
    ".bash_history", ".zsh_history", ".zsh_sessions", ".histfile", ".sh_history", ".ash_history",
    ".local/share/fish/fish_history", ".python_history", ".node_repl_history", ".irb_history", ".psql_history",
    ".mysql_history", ".sqlite_history", ".rediscli_history", ".mongo_history", ".dbshell", ".lesshst", ".viminfo",
    ".local/state/nvim", ".local/share/nushell", ".config/nushell/history.txt", ".wget-hsts",
)  # fmt: skip
"""What a person typed: passwords and tokens are found there."""

KEPT_BY_PROGRAMS = (
    ".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
    ".config/microsoft-edge", ".config/opera", ".config/vivaldi", ".config/Slack", ".config/discord",
    ".config/Signal", ".config/Code", ".config/VSCodium", ".config/Bitwarden", ".config/1Password",
    ".config/keepassxc", ".local/share/keyrings", ".local/share/kwalletd", ".kde/share/apps/kwallet",
    ".local/share/TelegramDesktop", ".purple", ".config/evolution", ".local/share/evolution", ".var/app", "snap",
    ".electrum", ".bitcoin", ".ethereum", ".config/solana", ".cache/mozilla", ".cache/google-chrome",
    ".cache/chromium", ".config/filezilla", ".config/remmina", ".local/share/remmina", ".pki", ".config/dconf",
    ".dbus", ".config/pulse", ".local/share/Trash",
)  # fmt: skip
"""Profiles of browsers and chat programs, password stores, wallets."""

DENIED = SECRETS + HISTORIES + KEPT_BY_PROGRAMS
"""What of a home is hidden even where the home itself is shown."""

RUN_AT_LOGIN = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc", ".zshrc",
    ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".tcshrc", ".cshrc", ".login", ".xprofile", ".xinitrc",
    ".xsession", ".xsessionrc", ".pam_environment", ".config/fish", ".config/autostart", ".config/systemd",
    ".config/environment.d", ".config/plasma-workspace", ".gitconfig", ".config/git", ".vimrc", ".vim",
    ".config/nvim", ".emacs", ".emacs.d", ".tmux.conf", ".local/bin", ".cargo/bin", "bin", "go/bin",
)  # fmt: skip
"""What runs by itself outside when a person logs in or starts a program: it can be read but not changed when a home is the
working folder."""

SECRET_NAMES = (
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "*.kdbx",
    "*.keychain",
    "*.keychain-db",
    ".netrc",
    ".pgpass",
    ".git-credentials",
)
"""Names that hold secrets wherever they lie."""
SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private", "/root/.ssh")
RUN_BY_SYSTEM = (
    "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/zsh", "/etc/environment", "/etc/ld.so.preload", "/etc/passwd",
    "/etc/group", "/etc/cron.d", "/etc/cron.daily", "/etc/cron.hourly", "/etc/crontab", "/etc/systemd", "/etc/pam.d",
    "/etc/ssh", "/etc/hosts", "/var/spool/cron", "/boot", "/dev", "/proc", "/sys",
)  # fmt: skip
"""What the system itself runs or obeys: never written by a file tool."""
PROCESS_SECRETS = ("environ", "mem", "auxv", "maps", "fd", "root", "cwd")
"""What of another process, or of this one, tells its variables or its memory."""
OWN_FOLDERS = ("workspace", "plans")
"""Of Melete's own home, what a file tool may write: the rest is changed by its own commands and tools."""
OWN_SECRETS = (".env", "keys", "server-keys", "*.key", "auth*.json")
"""Of Melete's own home, what holds keys."""
HOMES = ("/home", "/root", "/var/home", "/export/home", "/Users")
"""Where people's homes lie; the homes that the list of users names are added."""
NEVER: Final = "files.secret"


class Whose(Struct, frozen=True, kw_only=True):
    """Whose files they are: the homes of people, Melete's own homes and the working folder, absolute and without links."""

    homes: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    cwd: str = ""


ALLOWED = Verdict(verdict="allow", rule="files.ordinary", reason="")


def judge_file(path: str, whose: Whose, *, write: bool) -> Verdict:
    """Whether a tool may read, or with `write` change, the file at an absolute path without links."""
    for own in whose.own:
        if within(path, own):
            return _own(path[len(own) :].strip("/"), write=write)
    homes = (*whose.homes, *_home_of(path))
    if why := _secret(path, homes):
        return Verdict(verdict="forbid", rule=NEVER, reason=why)
    if write and (why := _obeyed(path, homes, whose.cwd)):
        return Verdict(verdict="forbid", rule="files.startup", reason=why)
    return ALLOWED


def _home_of(path: str) -> Sequence[str]:
    """The home in which a path lies, by the usual places."""
    for folder in HOMES:
        if within(path, folder) and path != folder:
            return [folder if folder == "/root" else f"{folder}/{path[len(folder) + 1 :].partition('/')[0]}"]
    return []


def _own(below: str, *, write: bool) -> Verdict:
    name = below.rpartition("/")[2]
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in OWN_SECRETS):
        return Verdict(verdict="forbid", rule=NEVER, reason="it holds keys of Melete's own")
    while below.startswith("profiles/"):
        below = below.partition("/")[2].partition("/")[2]
    if write and not any(within(below, folder) for folder in OWN_FOLDERS):
        return Verdict(
            verdict="forbid",
            rule="files.own",
            reason="Melete's own settings, policy and records are not written by tools; a person changes them with `melete config`",
        )
    return ALLOWED


def _secret(path: str, homes: Sequence[str]) -> str:
    for home in homes:
        if within(path, home):
            below = path[len(home) :].strip("/")
            if any(within(below, name) for name in DENIED):
                return "it holds keys, passwords or what a person typed"
    name = path.rpartition("/")[2]
    if any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in SECRET_NAMES):
        return "it is where keys are kept"
    if any(within(path, one) for one in SYSTEM_SECRETS):
        return "it holds secrets of the system"
    pieces = path.split("/")
    if pieces[:2] == ["", "proc"] and any(piece in PROCESS_SECRETS for piece in pieces[3:]):
        return "it shows the variables or the memory of a process"
    return ""


def _obeyed(path: str, homes: Sequence[str], cwd: str) -> str:
    startup = [f"{home}/{name}" for home in homes for name in RUN_AT_LOGIN if not name.endswith("bin")]
    if any(within(path, one) and not within(cwd, one) for one in startup):  # who starts in such a folder works on it
        return "it runs by itself when a person logs in or starts a program"
    if any(within(path, one) for one in RUN_BY_SYSTEM):
        return "it is run or obeyed by the system"
    return (
        "belongs to git, which runs what stands there"
        if "/.git/hooks/" in path or path.endswith("/.git/config")
        else ""
    )
