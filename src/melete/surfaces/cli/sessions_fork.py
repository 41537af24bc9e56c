"""`melete sessions fork`: go on from a step of a session in another one, with another model if wished."""

import click
import msgspec

from melete.app.fork import Forked
from melete.app.fork import fork as make_fork
from melete.app.prompts import prompt_message
from melete.app.settings import Loaded
from melete.core.errors import UsageError
from melete.surfaces.cli.one_session import session_argument
from melete.surfaces.cli.options import Asked, json_option, settings
from melete.surfaces.cli.output import err, one_line, out
from melete.surfaces.cli.run import answer, surface, whole_prompt
from melete.surfaces.cli.running import Interrupts, opened, run_async


@click.command()
@session_argument
@click.argument("prompt", nargs=-1)
@click.option("--at", "step", type=click.IntRange(min=0), metavar="STEP", help="Up to this step; 0: before the first.")
@click.option("--title", default="", help="The fork's title.")
@click.option("-m", "--model", default="", metavar="[PROVIDER/]NAME", help="The model that answers the fork.")
@click.option("-v", "--verbose", is_flag=True, help="Show the work on standard error.")
@json_option
def fork(
    *, session: str, prompt: tuple[str, ...], step: int | None, title: str, model: str, verbose: bool, as_json: bool
) -> int:
    """Go on from a step of SESSION in a new session; SESSION stays as it is.

    Without --at it is the last step. With PROMPT (- for standard input) the fork is run at once, else its id is printed.
    """
    loaded = settings()
    text = whole_prompt(prompt) if prompt else ""
    if prompt and not text.strip():
        raise UsageError("the prompt is empty", kept="no fork was made", next="write one, or leave it out")

    async def work(interrupts: Interrupts) -> int:
        made = await _forked(loaded, session, step=step, title=title, model=model)
        if not text:
            _tell(made, as_json=as_json)
            return 0
        err(f"melete: {_said(made)}\n")
        asked = Asked(session=made.ref.id, verbose=verbose)
        return await answer(
            loaded, asked, prompt_message(text, surface=surface(prompt)), as_json=as_json, interrupts=interrupts
        )

    return run_async(work)


async def _forked(loaded: Loaded, session: str, *, step: int | None, title: str, model: str) -> Forked:
    async with opened(loaded) as app:
        ref = await app.store.find(session)
        made = await make_fork(app, ref, step=step, title=one_line(title), model=model)
        return msgspec.structs.replace(made, title=app.redact(made.title), model=app.redact(made.model))


def _said(made: Forked) -> str:
    return f"{made.ref.id} leaves {made.forked_from} at step {made.step}"


def _tell(made: Forked, *, as_json: bool) -> None:
    if as_json:
        fields = {name: value for name, value in msgspec.structs.asdict(made).items() if name != "ref"}
        out(msgspec.json.encode({"session": made.ref.id, **fields}).decode() + "\n")
        return
    out(f"{made.ref.id}\n")
    err(f"melete: {_said(made)}; go on with: melete run -s {made.ref.id} PROMPT\n")
