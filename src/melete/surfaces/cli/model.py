"""`melete model`: which model answers, and which vendors are known."""

import click
import msgspec

from melete.app import config_edit
from melete.app.catalog import model_spec
from melete.app.settings import Loaded
from melete.app.vendors import vendors
from melete.app.wire import with_model
from melete.core.errors import NoModelError
from melete.surfaces.cli.options import home_here, json_option, painter, settings
from melete.surfaces.cli.output import err, out, visible
from melete.surfaces.cli.tables import model_table


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def model(ctx: click.Context, as_json: bool) -> int:
    """Show or choose the model.

    Without a command: the model that answers now, and the vendors that are known.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    loaded = settings()
    if as_json:
        _print_json(loaded)
        return 0
    paint = painter(loaded)
    try:
        spec = model_spec(loaded)
    except NoModelError as error:
        out(f"{visible(str(error))}\n\n")
    else:
        out(f"{paint('bold', visible(spec.model))} of {spec.vendor} at {visible(spec.base_url)} ({spec.wire})\n")
        origin = loaded.origin("model.name")
        out(f"{paint('dim', f'from {origin.where}')}\n\n")
    out(model_table(loaded, paint))
    return 0


def _print_json(loaded: Loaded) -> None:
    try:
        spec = model_spec(loaded)
        now = {"model": spec.model, "provider": spec.provider, "base_url": spec.base_url, "wire": spec.wire}
    except NoModelError:
        now = None
    for name, vendor in vendors().items():
        row = {
            "provider": name,
            "wire": vendor.wire,
            "base_url": vendor.base_url,
            "key": vendor.key,
            "key_set": bool(loaded.variables.get(vendor.key, "").strip()),
            "current": bool(now) and now["provider"] == name,
        }
        out(msgspec.json.encode(row).decode() + "\n")
    out(msgspec.json.encode({"current": now}).decode() + "\n")


@model.command("set")
@click.argument("name", metavar="[PROVIDER/]NAME")
def set_(name: str) -> int:
    """Let this model answer from now on; it is written into config.yaml."""
    home = home_here()
    loaded = settings()
    spec = model_spec(with_model(loaded, name))
    config_edit.set_value(home, "model.name", name)
    if loaded.settings.model.provider not in ("", spec.provider):
        config_edit.set_value(home, "model.provider", "")
    err(f"{visible(spec.model)} of {spec.vendor} answers from now on ({home.display(home.config)})\n")
    origin = settings().origin("model.name")
    if origin.kind == "variable":
        err(f"melete: warning: {origin.where} stands before the file, so this has no effect while it is set\n")
    return 0
