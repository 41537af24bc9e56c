"""`melete learn work` and `melete learn review`: finished work is looked at for what is worth keeping."""

import click
import msgspec

from melete.app.learn_hand import Worked, review_one, work_off
from melete.app.wire import Melete
from melete.surfaces.cli.options import Asked, json_option, profile_here, settings
from melete.surfaces.cli.output import out, visible
from melete.surfaces.cli.running import run_with_app


@click.command()
@json_option
@click.option("--detached", is_flag=True, hidden=True)
@click.option("--model", metavar="[PROVIDER/]NAME", hidden=True)
@click.option("--base-url", metavar="URL", hidden=True)
@click.option("--wire", hidden=True)
def work(as_json: bool, detached: bool, model: str | None, base_url: str | None, wire: str | None) -> int:
    """Review what is due, then end.

    One process at a time does so in a profile; a second one ends at once. `melete run` leaves such a process behind by itself
    (learning.detach).
    """
    loaded = settings(Asked(model=model, base_url=base_url, wire=wire, profile=profile_here()))

    async def body(app: Melete) -> int:
        _show(await work_off(app, shown=not detached), as_json=as_json, quiet=detached)
        return 0

    return run_with_app(loaded, body)


@click.command()
@click.argument("session", required=False, default="")
@json_option
def review(session: str, as_json: bool) -> int:
    """Review SESSION, or the latest one, now, whatever its signals weigh."""

    async def body(app: Melete) -> int:
        _show(await review_one(app, session), as_json=as_json)
        return 0

    return run_with_app(settings(), body)


def _show(worked: Worked, *, as_json: bool, quiet: bool = False) -> None:
    """What was done, in words or as one object."""
    if as_json:
        out(msgspec.json.encode(worked).decode() + "\n")
    elif not quiet:
        for line in worked.lines:
            out(f"{visible(line)}\n")
