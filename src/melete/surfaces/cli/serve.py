"""`melete serve`: one daemon for the HTTP API and scheduled work."""

from typing import Any

import click
import msgspec
from msgspec import structs

from melete.app.serve import Server, make_server
from melete.app.serve import serve as run_services
from melete.app.settings import load
from melete.app.supervisor import handed_over
from melete.surfaces.cli.lazy import LazyGroup
from melete.surfaces.cli.options import WIRES, json_option, profile_here, shared_options
from melete.surfaces.cli.output import err, out, visible
from melete.surfaces.cli.running import Interrupts, opened, run_async

COMMANDS = {
    "keys": "melete.surfaces.cli.serve_keys:keys",
    "unit": "melete.surfaces.cli.serve_unit:unit",
}
FLAGS = {"model": "model.name", "base_url": "model.base_url", "wire": "model.wire"}


@click.group(cls=LazyGroup, targets=COMMANDS, invoke_without_command=True)
@shared_options
@click.option("-m", "--model", metavar="[PROVIDER/]NAME", help="The model that answers.")
@click.option("--base-url", metavar="URL", help="Address of the model's API.")
@click.option("--wire", metavar="|".join(WIRES), help="Wire format of the model's API.")
@click.option("--host", help="The address to listen on; any but loopback needs a key.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one.")
@click.option("--only", metavar="NAMES", default="", help="Services to run, such as api or api,cron.")
@json_option
@click.pass_context
def serve(
    ctx: click.Context, host: str | None, port: int | None, only: str, as_json: bool, profile: str, **given: Any
) -> int:
    """Serve the HTTP API and run scheduled work, until interrupted.

    It listens on 127.0.0.1:8642 unless server.host and server.port say otherwise. The first Ctrl-C lets running work end, the
    second ends at once.
    """
    root = ctx.find_root()
    if profile:
        root.obj = structs.replace(root.obj, profile=profile)
    if ctx.invoked_subcommand is not None:
        return 0
    flags = {"server.host": host, "server.port": port, **{FLAGS[name]: given[name] for name in FLAGS}}
    loaded = load(flags, profile=profile_here())
    for warning in loaded.warnings:
        err(f"melete: warning: {visible(warning)}\n")

    async def work(interrupts: Interrupts) -> int:
        async with opened(loaded) as app:
            server = make_server(app, sockets=handed_over(loaded.environ))
            interrupts.stop = server.stop.set
            await run_services(
                server,
                told=lambda server: _tell(server, as_json=as_json),
                warn=lambda text: err(f"melete: warning: {visible(text)}\n"),
                only=[name.strip() for name in only.split(",") if name.strip()],
            )
        return 0

    return run_async(work)


def _tell(server: Server, *, as_json: bool) -> None:
    """Say where the server can be reached, and as whom."""
    if as_json:
        out(msgspec.json.encode({"type": "serve.ready", "addresses": server.addresses}).decode() + "\n")
        return
    if not server.addresses:
        err("melete: at work, without an address for requests; stop with Ctrl-C\n")
        return
    key = "no key is needed from this machine" if server.keys.open else "a key is needed"
    err(f"melete: serving on {', '.join(server.addresses)} ({key}); stop with Ctrl-C\n")
