"""`melete model`: which model answers, which are known, and whether they work."""

from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from melete.app import config_edit, modelbook
from melete.app.catalog import ModelSpec, known_providers, known_vendor, model_spec, with_model
from melete.app.modelbook import Row
from melete.app.settings import Loaded
from melete.app.trial import Candidate, attempt, candidates
from melete.core.errors import ConfigError, NoModelError, UsageError
from melete.core.plugin import Lazy
from melete.surfaces.cli.models_shown import current_json, current_table, known_table, trial_lines, vendor_rows
from melete.surfaces.cli.options import home_here, json_option, painter, settings
from melete.surfaces.cli.output import err, out, visible
from melete.surfaces.cli.running import run_async
from melete.surfaces.cli.tables import model_table

_listing: Lazy[Callable[[ModelSpec], Any]] = Lazy("melete.app.online:listing")

OF_A_SERVER = ("base_url", "wire", "context_length")
"""The settings of the model that say nothing of another vendor's."""


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def model(ctx: click.Context, as_json: bool) -> int:
    """Show, choose or try the model.

    Without a command: the model that answers now, with what is known of it.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    loaded = settings()
    try:
        spec = model_spec(loaded)
    except NoModelError as error:
        out(_json(current_json(loaded, None)) if as_json else f"{visible(str(error))}\n")
        return 0
    if as_json:
        out(_json(current_json(loaded, spec)))
        return 0
    out(current_table(loaded, spec, painter(loaded)))
    _note(loaded, spec)
    return 0


@model.command("list")
@click.argument("provider", default="")
@click.option("--search", default="", metavar="TEXT", help="Only models whose name holds this.")
@click.option("--online", is_flag=True, help="Ask the vendor's server instead of the list.")
@json_option
def list_(provider: str, search: str, online: bool, as_json: bool) -> int:
    """List vendors, or the models of one.

    With windows in tokens and prices in US dollars for a million tokens. --online without a provider asks the server of
    the model that is set.
    """
    loaded = settings()
    known = known_providers(loaded)
    if online:
        rows = _online(loaded, provider)
    elif provider or search:
        names = [known_vendor(provider, known)] if provider else list(known)
        rows = [row for name in names for row in modelbook.known_models(loaded.home, name)]
    else:
        return _list_vendors(loaded, as_json=as_json)
    found = [row for row in rows if search.lower() in f"{row.provider}/{row.name}".lower()]
    if as_json:
        for row in found:
            out(_json(row))
    elif found:
        out(known_table(found, painter(loaded), whole=not provider and not online))
    if provider and (note := known[known_vendor(provider, known)].note):
        err(f"{note}\n")
    if not online:
        err(f"{len(found):,} models, as of {modelbook.day(loaded.home)}\n")
    elif not found:
        err("The server lists no such model.\n")
    return 0


def _list_vendors(loaded: Loaded, *, as_json: bool) -> int:
    counts = modelbook.counts(loaded.home)
    if not as_json:
        out(model_table(loaded, painter(loaded), counts=counts))
        err(f"{sum(counts.values()):,} models: {modelbook.source(loaded.home)}\n")
        return 0
    try:
        current = model_spec(loaded).provider
    except ConfigError:  # the list is of use without a model, too
        current = ""
    for row in vendor_rows(loaded, counts, current):
        out(_json(row))
    return 0


def _online(loaded: Loaded, provider: str) -> Sequence[Row]:
    """What the vendor's server lists, completed with what is known here; raises UsageError where there is no server to ask."""
    spec = _server(loaded, provider)
    if not spec.base_url:
        raise UsageError(f"{spec.vendor} has no server that could list its models", next="leave out --online")
    return list(modelbook.completed(loaded.home, _listing.load()(spec).models))


def _server(loaded: Loaded, provider: str) -> ModelSpec:
    if not provider:
        return model_spec(loaded)
    name = known_vendor(provider, known_providers(loaded))
    if loaded.settings.model.base_url and loaded.settings.model.name:
        spec = model_spec(loaded)
        if spec.provider == name:  # at an address of the person's own
            return spec
    return model_spec(with_model(loaded, f"{name}/any"))


@model.command("set")
@click.argument("name", metavar="[PROVIDER/]NAME")
def set_(name: str) -> int:
    """Let this model answer from now on; it is written into config.yaml.

    A PROVIDER in it empties model.base_url, model.wire and model.context_length, which belong to the server before.
    """
    home = home_here()
    loaded = settings()
    chosen = with_model(loaded, name)
    spec = model_spec(chosen)
    config_edit.set_value(home, "model.name", name)
    if loaded.settings.model.provider not in ("", spec.provider):
        config_edit.set_value(home, "model.provider", "")
    aside = [key for key in OF_A_SERVER if getattr(chosen.settings.model, key) != getattr(loaded.settings.model, key)]
    emptied = [f"model.{key}" for key in aside if loaded.origin(f"model.{key}").kind == "file"]
    for key in emptied:
        config_edit.set_value(home, key, "null" if key == "model.context_length" else "")
    err(f"{visible(spec.model)} of {spec.vendor} answers from now on ({home.display(home.config)})\n")
    if emptied:
        err(f"melete: note: {', '.join(emptied)} belonged to the server before and {_is(emptied)} emptied\n")
    _note(loaded, spec)
    after = settings()
    for key in ("model.name", *(f"model.{key}" for key in aside)):
        if (origin := after.origin(key)).kind == "variable":
            err(f"melete: warning: {origin.where} stands before the file, so this has no effect while it is set\n")
    return 0


@model.command()
@click.argument("name", default="", metavar="[[PROVIDER/]NAME]")
@json_option
def test(name: str, as_json: bool) -> int:
    """Send each model that is set one tiny request.

    Streamed, with a tool to call: says how long the first token took, what it cost and whether tools work. Without a name
    every model of the settings is tried: main, fallbacks, side work. Exit 1 when one fails.
    """
    loaded = settings()
    wanted = (Candidate(role="named", name=name),) if name else candidates(loaded)
    paint = painter(loaded)

    async def work() -> int:
        failed = False
        for candidate in wanted:
            trial = await attempt(loaded, candidate)
            failed = failed or not trial.ok
            out(_json(trial) if as_json else trial_lines(trial, paint))
        return 1 if failed else 0

    return run_async(lambda _: work())


@model.command()
@click.option("--from", "origin", default="", metavar="FILE|URL", help="Another list than models.dev's.")
@json_option
def refresh(origin: str, as_json: bool) -> int:
    """Fetch a newer list of models.

    Windows, abilities and prices, from models.dev unless told otherwise; litellm's table and genai-prices' data are read,
    too. The list is kept in the home and used while it is newer than the one that came with the package.
    """
    loaded = settings()
    done = modelbook.refresh(loaded, origin=origin)
    where = loaded.home.display(done.path)
    if as_json:
        out(_json({"models": done.models, "vendors": done.vendors, "source": done.source, "path": str(done.path)}))
    else:
        out(f"{done.models:,} models of {done.vendors} vendors from {visible(done.source)} ({where})\n")
    return 0


def _is(keys: Sequence[str]) -> str:
    return "are" if len(keys) > 1 else "is"


def _note(loaded: Loaded, spec: ModelSpec) -> None:
    for line in modelbook.notes(loaded.home, spec.provider, spec.model, spec.can):
        err(f"melete: note: {visible(line)}\n")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode() + "\n"
