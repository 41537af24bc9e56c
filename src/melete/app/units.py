"""Unit files with which systemd runs `melete serve`: written, quoted, installed and checked. Part of the composition root.

A unit of the person's own manager and one of the system differ: only the latter can be shut in by file system without user
namespaces, which would take file owners away from ssh and git. See systemd.service(5), systemd.exec(5) and systemd.socket(5).
"""

import ipaddress
import math
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from melete.app.home import DEFAULT_PROFILE
from melete.app.text_file import replacing
from melete.core.errors import ConfigError, UsageError

SYSTEM_FOLDER = Path("/etc/systemd/system")
READABLE = 0o644
LONGER = 30
"""Seconds that stopping may take after running work had its time: to store results, to send traces, to close."""
WATCHDOG = 60
"""Seconds without a sign of the event loop after which the process is started anew."""
FILES = 16_384
"""Files and connections that may be open at a time: a stream is one, and the run behind it has some of its own."""
PATIENCE = 60.0

HARDENED = (
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "SystemCallArchitectures=native",
)
SHUT_IN = (
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
)


class Plan(Struct, frozen=True, kw_only=True):
    """What the units are made of.

    `program` begins with an absolute path; `home` is that of the default profile; `listen` is ADDRESS:PORT for a socket unit, empty
    for none; `account` is who a unit of the system runs as, empty for one of the person's own manager; `writable` are folders
    besides the home that commands may write to; `search` is PATH, empty for systemd's own.
    """

    program: tuple[str, ...]
    home: Path
    profile: str = DEFAULT_PROFILE
    account: str = ""
    listen: str = ""
    drain: float = 30.0
    writable: tuple[Path, ...] = ()
    search: str = ""

    @property
    def name(self) -> str:
        """The units' name without its ending."""
        return "melete" if self.profile == DEFAULT_PROFILE else f"melete-{self.profile}"

    @property
    def root(self) -> Path:
        """The home of the profile."""
        return self.home if self.profile == DEFAULT_PROFILE else self.home / "profiles" / self.profile

    @property
    def control(self) -> str:
        """The command that controls the units."""
        return "sudo systemctl" if self.account else "systemctl --user"


def units(plan: Plan) -> Mapping[str, str]:
    """The unit files by name, the service first; raises ConfigError for a path or address that no unit can hold."""
    service = "\n\n".join("\n".join(part) for part in (_unit(plan), _service(plan), _install(plan))) + "\n"
    found = {f"{plan.name}.service": service}
    if plan.listen:
        found[f"{plan.name}.socket"] = _socket(plan)
    return found


def address(host: str, port: int) -> str:
    """ADDRESS:PORT as a socket unit has it; raises ConfigError for a host that is only a name, and for no port."""
    host = "127.0.0.1" if host == "localhost" else host
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError as error:
        raise ConfigError(
            f"server.host is {host!r}, and a socket unit needs an address", next="set server.host to an address"
        ) from error
    if not port:
        raise ConfigError("server.port is 0, and a socket unit needs a port", next="set server.port, such as 8642")
    return f"[{found}]:{port}" if found.version == 6 else f"{found}:{port}"  # noqa: PLR2004 - the protocol's version


def quoted(text: str) -> str:
    """A word of a unit file that means exactly this text; raises ConfigError for text that systemd takes nowhere."""
    return f'"{bare(text)}"'


def bare(text: str) -> str:
    """The same for a directive that takes the rest of its line as it stands: percent signs alone have a meaning there."""
    if not fits(text):
        raise ConfigError(
            f"{text!r} cannot stand in a unit file",
            next="use a path without quotes, backslashes and control characters that does not end with a space",
        )
    return text.replace("%", "%%")


def fits(text: str) -> bool:
    """Whether a unit file can hold this text: programs may have neither quotes nor backslashes in their path."""
    return text.isprintable() and text == text.rstrip() and not any(mark in text for mark in "\"'\\")


def folder(plan: Plan, variables: Mapping[str, str]) -> Path:
    """Where the manager looks for units that are not a package's."""
    if plan.account:
        return SYSTEM_FOLDER
    given = variables.get("XDG_CONFIG_HOME", "")
    return Path(given if given.startswith("/") else Path(variables.get("HOME", "~"), ".config")) / "systemd" / "user"


def install(found: Mapping[str, str], where: Path, *, force: bool = False) -> Sequence[Path]:
    """Write the units into a folder and return their paths; what stands there already as it should is left alone.

    Raises UsageError, with nothing written, for a file that is different unless `force`, and ConfigError where none can be written.
    """
    paths = {where / name: text.encode() for name, text in found.items()}
    try:
        changed = {path: data for path, data in paths.items() if not path.exists() or path.read_bytes() != data}
        other = [path for path in changed if path.exists()]
        if other and not force:
            raise UsageError(
                f"{other[0]} is there already and says something else",
                kept="nothing was written",
                next=f"put changes of your own into `systemctl edit {other[0].name}`, and write it anew with --force",
            )
        where.mkdir(parents=True, exist_ok=True)
        for path, data in changed.items():
            with replacing(path) as handle:
                os.fchmod(handle, READABLE)
                os.write(handle, data)
    except OSError as error:
        raise ConfigError(
            f"{where} cannot be written: {error.strerror}",
            next="run it with sudo, or print the unit without --install and put it there",
        ) from error
    return list(paths)


def complaints(paths: Sequence[Path], *, user: bool, variables: Mapping[str, str]) -> Sequence[str]:
    """What `systemd-analyze verify` has to say of units in files; nothing where it does not exist or cannot work."""
    program = shutil.which("systemd-analyze", path=variables.get("PATH"))
    if program is None or not paths:
        return ()
    words = [program, *(["--user"] if user else []), "verify", *map(str, paths)]
    try:
        done = subprocess.run(  # noqa: S603 - a program of the system, with paths that we wrote
            words, capture_output=True, text=True, errors="replace", timeout=PATIENCE, env=dict(variables), check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return [line for line in done.stderr.splitlines() if any(path.name in line for path in paths)]


def _unit(plan: Plan) -> Sequence[str]:
    return (
        f"# Made by `melete serve unit`. For changes of your own: {plan.control} edit {plan.name}.service",
        "[Unit]",
        "Description=Melete, an agent that works with real tools"
        + ("" if plan.profile == DEFAULT_PROFILE else f" (profile {plan.profile})"),
        *(("Wants=network-online.target", "After=network-online.target") if plan.account else ()),
        *((f"Requires={plan.name}.socket", f"After={plan.name}.socket") if plan.listen else ()),
        f"# After five failures in a minute it stays down until: {plan.control} reset-failed {plan.name}.service",
        "StartLimitIntervalSec=60",
        "StartLimitBurst=5",
    )


def _service(plan: Plan) -> Sequence[str]:
    more = () if plan.profile == DEFAULT_PROFILE else ("--profile", plan.profile)
    stop = math.ceil(plan.drain) + LONGER
    return (
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        *((f"User={plan.account}",) if plan.account else ()),
        "ExecStart=:" + " ".join(quoted(word) for word in (*plan.program, "serve", *more)),
        f"WorkingDirectory=-{bare(str(plan.root / 'workspace'))}",
        f"Environment={quoted(f'MELETE_HOME={plan.home}')}",
        *((f"Environment={quoted(f'PATH={plan.search}')}",) if plan.search else ()),
        f"# Keys and other variables belong into {bare(str(plan.root / '.env'))}, which only you can read.",
        "UMask=0077",
        "",
        "Restart=on-failure",
        "RestartSec=2",
        "# Settings that are wrong do not get better by another start.",
        "RestartPreventExitStatus=2",
        "SuccessExitStatus=129 130 143",
        f"WatchdogSec={WATCHDOG}",
        "TimeoutStartSec=90",
        f"# Running work has {plan.drain:g} s to end (server.drain_seconds); what is left is cancelled and stored.",
        f"TimeoutStopSec={stop}",
        "# Only Melete is told to stop: the commands that it runs end with the work that they belong to.",
        "KillMode=mixed",
        "# A command that takes too much memory is killed alone, not the server with it.",
        "OOMPolicy=continue",
        f"LimitNOFILE={FILES}",
        "",
        *(_system_walls(plan) if plan.account else _user_walls()),
    )


def _system_walls(plan: Plan) -> Sequence[str]:
    paths = " ".join(quoted(str(path)) for path in (plan.home, *plan.writable))
    return (
        "# Commands of the agent live inside these walls too. No sudo and nothing else that is setuid works in them;",
        "# rootless containers need setuid programs: remove this line for those.",
        "NoNewPrivileges=yes",
        "# All files are read-only except these; add the folders that the agent is to work in.",
        "ProtectSystem=strict",
        f"ReadWritePaths={paths}",
        "# A /tmp of its own: files that others put into /tmp, and sockets of tmux or ssh-agent there, are not seen.",
        "PrivateTmp=yes",
        *SHUT_IN,
        *HARDENED,
        "# Not set: ProtectHome and PrivateDevices (projects and GPUs are there), RestrictNamespaces (sandboxes need them),",
        "# MemoryDenyWriteExecute (programs that compile while they run, such as node, need it).",
    )


def _user_walls() -> Sequence[str]:
    return (
        "# No sudo and nothing else that is setuid works in commands of the agent; rootless containers need setuid",
        "# programs: remove this line for those.",
        "NoNewPrivileges=yes",
        *HARDENED,
        "# Not set: ProtectSystem, ReadWritePaths and PrivateTmp. For a person's own units they need user namespaces, in",
        "# which files of others belong to nobody: ssh then refuses its settings, and some systems forbid them altogether.",
        "# `melete serve unit --system` has them. PrivateTmp would also hide /tmp and the sockets of tmux and ssh-agent.",
    )


def _install(plan: Plan) -> Sequence[str]:
    return (
        "[Install]",
        *((f"Also={plan.name}.socket",) if plan.listen else ()),
        f"WantedBy={'multi-user.target' if plan.account else 'default.target'}",
    )


def _socket(plan: Plan) -> str:
    lines = (
        f"# Made by `melete serve unit --socket`. For changes of your own: {plan.control} edit {plan.name}.socket",
        "# systemd listens, also while the service starts anew: clients wait instead of being refused. Scheduled jobs",
        "# run only while the service does, so enable both.",
        "[Unit]",
        "Description=The address of Melete",
        "",
        "[Socket]",
        f"ListenStream={plan.listen}",
        "NoDelay=yes",
        "",
        "[Install]",
        "WantedBy=sockets.target",
    )
    return "\n".join(lines) + "\n"
