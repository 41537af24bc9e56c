"""`melete serve unit`: files with which systemd runs the server."""

import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from melete.app.dotenv import read_env_file
from melete.app.settings import VARIABLES, Loaded, load
from melete.app.units import Plan, address, complaints, fits, folder, install, units
from melete.core.errors import UsageError
from melete.surfaces.cli.options import profile_here
from melete.surfaces.cli.output import err, out, visible


@click.command()
@click.option(
    "--user/--system", "user", default=None, help="For your own systemd, or for the system's; root: the latter."
)
@click.option("--socket", is_flag=True, help="Also a socket unit: systemd listens, so restarts refuse nobody.")
@click.option("--as", "account", default="", metavar="USER", help="Who a unit of the system runs as.")
@click.option(
    "--writable",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="With --system: a folder besides the home that the agent may write to.",
)
@click.option("--install", "installs", is_flag=True, help="Write the files where systemd looks for them.")
@click.option("--force", is_flag=True, help="With --install: also over files that say something else.")
def unit(user: bool | None, socket: bool, account: str, writable: tuple[Path, ...], installs: bool, force: bool) -> int:
    """Print the systemd units that run `melete serve`, or install them.

    They are made for the home, profile, address and drain time that are in force now. Make them anew when one of these changes.
    """
    mine = user if user is not None else not account and os.getuid() != 0
    if mine and (account or writable):
        raise UsageError("--as and --writable are for units of the system", next="add --system, or leave them out")
    if force and not installs:
        raise UsageError("--force says nothing without --install", next="add --install, or leave it out")
    loaded = load(profile=profile_here())
    who = "" if mine else account or loaded.environ.get("SUDO_USER", "") or pwd.getpwuid(os.getuid()).pw_name
    loaded = _of(who, loaded) if who else loaded
    for warning in (*loaded.warnings, *_remarks(loaded, who)):
        err(f"melete: warning: {visible(warning)}\n")
    plan = _plan(loaded, who, socket=socket, writable=writable)
    where, found = folder(plan, loaded.environ), units(plan)
    if installs:
        paths = install(found, where, force=force)
        for line in complaints(paths, user=mine, variables=loaded.environ):
            err(f"melete: warning: {visible(line)}\n")
        _tell_installed(plan, paths)
        return 0
    out("\n".join(f"# {where / name}\n{text}" for name, text in found.items()))
    return 0


def _of(account: str, loaded: Loaded) -> Loaded:
    """The settings of whoever the unit runs as; raises UsageError for nobody."""
    try:
        home = pwd.getpwnam(account).pw_dir
    except KeyError as error:
        raise UsageError(f"there is no user {account!r} here", next="give one that exists with --as") from error
    if loaded.environ.get("HOME", "") == home or loaded.environ.get("MELETE_HOME", ""):
        return loaded
    return load(environ={**loaded.environ, "HOME": home}, profile=profile_here())


def _plan(loaded: Loaded, account: str, *, socket: bool, writable: Sequence[Path]) -> Plan:
    server = loaded.settings.server
    script = Path(sys.executable).with_name("melete")
    mine = not account or account == pwd.getpwuid(os.getuid()).pw_name
    return Plan(
        program=(str(script),) if script.is_file() else (sys.executable, "-m", "melete"),
        home=loaded.home.profiles.parent,
        profile=loaded.home.profile,
        account=account,
        listen=address(server.host, server.port) if socket else "",
        drain=server.drain_seconds,
        writable=tuple(writable),
        search=_search(loaded.environ) if mine else "",
    )


def _search(variables: Mapping[str, str]) -> str:
    """PATH as the agent's commands know it here, without entries that are no folders."""
    folders = dict.fromkeys(variables.get("PATH", "").split(":"))
    return ":".join(name for name in folders if name.startswith("/") and fits(name) and Path(name).is_dir())


def _remarks(loaded: Loaded, account: str) -> Sequence[str]:
    """What will be otherwise than in this shell, or dangerous."""
    home = loaded.home
    stored = read_env_file(home.env, shown=home.display(home.env)).values
    names = [name for name in loaded.environ if name in VARIABLES or name.endswith("_API_KEY")]
    missing = sorted(name for name in names if loaded.environ[name].strip() and not stored.get(name))
    found: list[str] = []
    if missing:
        found.append(f"set in this shell only: {', '.join(missing)}; the service reads {home.display(home.env)}")
    if account == "root":
        found.append("it will run as root, and so will every command of the agent; name somebody else with --as")
    if account and not home.root.is_dir():
        found.append(f"{home.root} does not exist yet, and the service cannot make it: run melete as {account} once")
    return found


def _tell_installed(plan: Plan, paths: Sequence[Path]) -> None:
    names = " ".join(path.name for path in paths)
    for path in paths:
        err(f"{visible(str(path))} is written\n")
    err(f"next: {plan.control} daemon-reload && {plan.control} enable --now {names}\n")
    if not plan.account:
        err("so that it runs while you are not logged in: loginctl enable-linger\n")
