"""`melete config`: read and change the settings."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence

import click
import msgspec

from melete.app import config_edit
from melete.app.home import Home
from melete.app.settings import Loaded, hidden, keys
from melete.core.errors import ConfigError
from melete.surfaces.cli.options import home_here, json_option, painter, settings, variables_here
from melete.surfaces.cli.output import err, out, visible
from melete.surfaces.cli.table import table

EDITORS = ("editor", "nano", "vim", "vi")


@click.group()
def config() -> None:
    """Read and change the settings."""


@config.command()
@click.argument("key", default="")
@json_option
def get(key: str, as_json: bool) -> int:
    """Show a setting, a section, or all of them with where they come from."""
    loaded = settings()
    names = [name for name in keys() if not key or name == key or name.startswith(f"{key}.")]
    if not names:
        loaded.get(key)  # raises, naming the nearest right key
    if as_json:
        out(msgspec.json.encode(loaded.shown(key)).decode() + "\n")
    elif names == [key]:
        out(f"{visible(_plain(loaded, key))}\n")
    else:
        rows = [(name, _plain(loaded, name), loaded.origin(name).where) for name in names]
        out(table(("KEY", "VALUE", "FROM"), rows, painter(loaded)))
    return 0


def _plain(loaded: Loaded, name: str) -> str:
    value = loaded.shown(name)
    plain = tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return config_edit.written(plain, keys()[name])


@config.command("set")
@click.argument("key")
@click.argument("value")
def set_(key: str, value: str) -> int:
    """Change one setting in config.yaml; comments and everything else stay."""
    home = home_here()
    new = config_edit.set_value(home, key, value)
    err(f"{key} is now {config_edit.written(hidden(key, new), keys()[key])} in {home.display(home.config)}\n")
    origin = settings().origin(key)
    if origin.kind in ("flag", "variable"):
        err(f"melete: warning: {origin.where} stands before the file, so this has no effect while it is set\n")
    return 0


@config.command()
def check() -> int:
    """Say what is wrong in config.yaml; exit 2 when something is."""
    home = home_here()
    return _report(home, config_edit.check(home))


def _report(home: Home, problems: Sequence[ConfigError]) -> int:
    for problem in problems:
        err(f"melete: {visible(str(problem))}\n")
    if not problems:
        what = "is fine" if home.config.exists() else "does not exist: all settings have their defaults"
        err(f"{home.display(home.config)} {what}\n")
    return ConfigError.exit_code if problems else 0


@config.command()
def path() -> int:
    """Print where config.yaml is."""
    out(f"{home_here().config}\n")
    return 0


@config.command()
@click.argument("what", default="settings", metavar="[settings|events|openapi]")
def schema(what: str) -> int:
    """Print the JSON Schema of the settings or of the events, or the OpenAPI document of the HTTP API."""
    out(msgspec.json.format(msgspec.json.encode(config_edit.schema(what)), indent=2).decode() + "\n")
    return 0


@config.command()
def edit() -> int:
    """Open config.yaml in your editor, and check it after."""
    home = home_here()
    return _report(home, config_edit.edit(home, editor(variables_here()), subprocess.call))


def editor(variables: Mapping[str, str]) -> str:
    """The editor that the variables name, else one that the system has; empty without any."""
    named = variables.get("VISUAL", "").strip() or variables.get("EDITOR", "").strip()
    return named or next((name for name in EDITORS if shutil.which(name, path=variables.get("PATH"))), "")
