"""Files that no tool reads, and files that no tool writes: one list for the file tools and for the sandbox. Pure judgement.

Paths without a leading slash are relative to a person's home folder. A name that does not exist costs nothing.
"""

import fnmatch
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from melete.core.policy import Verdict
from melete.security.paths import same_name, within

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
    ".dbus", ".config/pulse", ".local/share/Trash", "Library/Keychains", "Library/Cookies", "Library/Safari", "Library/Mail",
    "Library/Messages", "Library/Containers", "Library/Group Containers", "Library/Thunderbird",
    *(f"Library/Application Support/{name}" for name in (
        "Google/Chrome", "Chromium", "BraveSoftware", "Microsoft Edge", "Firefox", "Vivaldi", "com.operasoftware.Opera", "Arc",
        "Slack", "discord", "Signal", "Telegram Desktop", "Bitwarden", "1Password", "Code", "Bitcoin", "Electrum",
    )),
)  # fmt: skip
"""Profiles of browsers and chat programs, password stores, wallets."""

DENIED = SECRETS + HISTORIES + KEPT_BY_PROGRAMS
"""What of a home is hidden even where the home itself is shown."""

RUN_AT_LOGIN = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc", ".zshrc",
    ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".tcshrc", ".cshrc", ".login", ".xprofile", ".xinitrc",
    ".xsession", ".xsessionrc", ".pam_environment", ".config/fish", ".config/autostart", ".config/systemd",
    ".config/environment.d", ".config/plasma-workspace", ".gitconfig", ".config/git", ".vimrc", ".vim",
    ".config/nvim", ".emacs", ".emacs.d", ".tmux.conf", ".local/bin", ".cargo/bin", "bin", "go/bin", ".config/zsh", ".oh-my-zsh",
    ".config/nushell", ".config/powershell", ".config/tmux", ".screenrc", ".exrc", ".config/emacs", ".gdbinit", ".config/gdb",
    ".lldbinit", ".psqlrc", ".sqliterc", ".curlrc", ".wgetrc", ".ipython/profile_default/startup", ".pythonrc",
    ".irbrc", ".pryrc", ".Rprofile", ".mailcap",
    ".lessfilter", ".pip", ".config/pip", ".config/direnv", ".local/share/systemd", ".local/share/dbus-1",
    ".local/share/applications", ".config/i3", ".config/sway", ".config/hypr", ".config/awesome", ".config/bspwm",
    ".config/openbox", ".config/kitty", ".config/alacritty", "Library/LaunchAgents", "Library/LaunchDaemons",
    "Library/Application Scripts", "Library/Services", "Library/Input Methods", "Library/QuickLook",
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
SYSTEM_SECRETS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd", "/etc/sudoers", "/etc/sudoers.d",
    "/etc/ssl/private", "/etc/letsencrypt", "/etc/krb5.keytab", "/etc/kubernetes", "/etc/rancher", "/etc/wireguard", "/etc/openvpn",
    "/etc/networkmanager/system-connections", "/etc/docker/key.json", "/root/.ssh", "/var/lib/kubelet", "/var/lib/sss/secrets",
    "/var/db/dslocal", "/library/keychains", "/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore",
)  # fmt: skip
"""Folded, as all that paths are compared with: some disks take large and small letters for one."""
SYSTEM_SECRET = re.compile(
    r"/etc/ssh/ssh_host_[^/]*key|/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|dm-|md|r?disk|mapper/|block/).*"
)
"""Keys of the machine itself, and whole disks."""
RUN_BY_SYSTEM = (
    "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/zsh", "/etc/environment", "/etc/ld.so.preload", "/etc/passwd",
    "/etc/group", "/etc/cron.d", "/etc/cron.daily", "/etc/cron.hourly", "/etc/cron.weekly", "/etc/cron.monthly",
    "/etc/cron.yearly", "/etc/crontab", "/etc/anacrontab", "/etc/init.d", "/etc/init", "/etc/inittab", "/etc/rc.local",
    "/etc/rc.d", "/etc/systemd", "/etc/pam.d", "/etc/security", "/etc/polkit-1", "/etc/dbus-1", "/etc/udev", "/etc/modprobe.d",
    "/etc/modules", "/etc/modules-load.d", "/etc/sysctl.conf", "/etc/sysctl.d", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/xdg/autostart", "/etc/x11", "/etc/update-motd.d", "/etc/networkmanager", "/etc/network", "/etc/nsswitch.conf",
    "/etc/resolv.conf", "/etc/gitconfig", "/etc/inputrc", "/etc/fish", "/etc/apt", "/etc/yum.repos.d", "/etc/ssh", "/etc/hosts",
    "/etc/launchd.conf", "/var/spool/cron", "/var/spool/at", "/var/at", "/boot", "/dev", "/proc", "/sys", "/bin", "/sbin", "/lib",
    "/usr/bin", "/usr/sbin", "/usr/lib/systemd", "/lib64", "/system", "/library/launchagents", "/library/launchdaemons",
    "/library/startupitems", "/library/extensions",
)  # fmt: skip
"""What the system itself runs or obeys: never written by a file tool."""
RUN_BY_PROGRAMS: Final = (
    (
        re.compile(
            r"/\.git(?:/(?:.*/)?(?:hooks(?:/.*)?|config(?:\.worktree)?|commondir|gitdir|attributes|git-rebase-todo))?\Z"
        ),
        "belongs to git, which runs what stands there",
    ),
    (re.compile(r"/site-packages/[^/]+\.pth\Z|/(?:site|user)customize\.py\Z"), "Python runs it at every start"),
)
PROCESS_SECRETS = ("environ", "mem", "auxv", "maps", "fd", "root", "cwd")
"""What of another process, or of this one, tells its variables or its memory."""
OWN_FOLDERS = ("workspace", "plans")
"""Of Melete's own home, what a file tool may write: the rest is changed by its own commands and tools."""
OWN_SECRETS = (".env", "keys", "server-keys", "*.key", "auth*.json")
"""Of Melete's own home, what holds keys."""
HOMES = ("/home", "/root", "/var/home", "/export/home", "/Users")
"""Where people's homes lie; the homes that the list of users names are added."""
NEVER: Final = "files.secret"
_DENIED, _RUN_AT_LOGIN = (tuple(map(same_name, names)) for names in (DENIED, RUN_AT_LOGIN))


class Whose(Struct, frozen=True, kw_only=True):
    """Whose files they are: the homes of people, Melete's own homes and the working folder, absolute and without links."""

    homes: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    cwd: str = ""


ALLOWED = Verdict(verdict="allow", rule="files.ordinary", reason="")


def judge_file(path: str, whose: Whose, *, write: bool) -> Verdict:
    """Whether a tool may read, or with `write` change, the file at an absolute path without links."""
    path = _folded(path)
    for own in map(_folded, whose.own):
        if within(path, own):
            return _own(path[len(own) :].strip("/"), write=write)
    homes = (*map(_folded, whose.homes), *_home_of(path))
    if why := _secret(path, homes):
        return Verdict(verdict="forbid", rule=NEVER, reason=why)
    if write and (why := _obeyed(path, homes, _folded(whose.cwd))):
        return Verdict(verdict="forbid", rule="files.startup", reason=why)
    return ALLOWED


def _folded(path: str) -> str:
    """A path as it is compared: on a Mac `/etc` is a link."""
    path = same_name(path)
    return path.removeprefix("/private") if path.startswith(("/private/etc/", "/private/var/")) else path


def _home_of(path: str) -> Sequence[str]:
    """The home in which a path lies, by the usual places."""
    for folder in map(_folded, HOMES):
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
            reason="Melete's own code, settings, policy and records are not written by tools; settings change by `melete config`",
        )
    return ALLOWED


def _secret(path: str, homes: Sequence[str]) -> str:
    for home in homes:
        if within(path, home):
            below = path[len(home) :].strip("/")
            if any(within(below, name) for name in _DENIED):
                return "it holds keys, passwords or what a person typed"
    name = path.rpartition("/")[2]
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in SECRET_NAMES):
        return "it is where keys are kept"
    if any(within(path, one) for one in SYSTEM_SECRETS) or SYSTEM_SECRET.fullmatch(path):
        return "it holds secrets of the system"
    pieces = path.split("/")
    if pieces[:2] == ["", "proc"] and any(piece in PROCESS_SECRETS for piece in pieces[3:]):
        return "it shows the variables or the memory of a process"
    return ""


def _obeyed(path: str, homes: Sequence[str], cwd: str) -> str:
    startup = [f"{home}/{name}" for home in homes for name in _RUN_AT_LOGIN if not name.endswith("bin")]
    if any(within(path, one) and not within(cwd, one) for one in startup):  # who starts in such a folder works on it
        return "it runs by itself when a person logs in or starts a program"
    if any(within(path, one) for one in RUN_BY_SYSTEM):
        return "it is run or obeyed by the system"
    return next((why for pattern, why in RUN_BY_PROGRAMS if pattern.search(path)), "")
