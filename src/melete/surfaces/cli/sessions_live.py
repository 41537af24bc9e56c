"""`melete sessions steer`, `answer` and `cancel`: reaching a session that runs."""

from collections.abc import Mapping, Sequence

import click
import msgspec

from melete.app.reaching import Kind, choice, inbox_message, send
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.session import Receipt, SessionRef
from melete.core.transcript import Transcript
from melete.surfaces.cli.one_session import session_argument, with_session
from melete.surfaces.cli.options import json_option, settings
from melete.surfaces.cli.output import one_line, out

PATIENCE: Mapping[Kind, float] = {"steer": 1.5, "queue": 0.5, "answer": 5.0, "cancel": 5.0}
"""Seconds to wait for what becomes of a message: a step may last long, answers and cancels act at once."""


@click.command()
@session_argument
@click.argument("text", nargs=-1, required=True)
@click.option("--queue", is_flag=True, help="Deliver it when the model would stop, not at the next step.")
@json_option
def steer(session: str, text: tuple[str, ...], queue: bool, as_json: bool) -> int:
    """Say something to a session that runs, without stopping it."""

    async def work(app: Melete, ref: SessionRef) -> int:
        return await _deliver(app, ref, "queue" if queue else "steer", text=" ".join(text), as_json=as_json)

    return with_session(settings(), session, work)


@click.command()
@session_argument
@click.argument("question_and_value", nargs=-1, required=True, metavar="[QUESTION] VALUE")
@json_option
def answer(session: str, question_and_value: tuple[str, ...], as_json: bool) -> int:
    """Answer an open question; QUESTION may be left out when only one is open."""

    async def work(app: Melete, ref: SessionRef) -> int:
        state = Transcript(await app.store.facts(ref))
        question, value = _chosen(state, question_and_value)
        if (known := state.questions.get(question)) is not None:
            meant = choice(known, value)
            if meant is None:
                choices = ", ".join(known.choices)
                raise UsageError(
                    f"{value!r} is none of the choices", kept="nothing was sent", next=f"say one of {choices}"
                )
            value = meant
        return await _deliver(app, ref, "answer", text=value, question=question, as_json=as_json)

    return with_session(settings(), session, work)


@click.command()
@session_argument
@json_option
def cancel(session: str, as_json: bool) -> int:
    """Stop what a session is doing."""

    async def work(app: Melete, ref: SessionRef) -> int:
        return await _deliver(app, ref, "cancel", as_json=as_json)

    return with_session(settings(), session, work)


def _chosen(state: Transcript, words: Sequence[str]) -> tuple[str, str]:
    """The question that is meant and the answer; raises UsageError when it is not clear which."""
    matching = [name for name in state.questions if name.startswith(words[0])]
    if len(words) > 1 and len(matching) == 1:
        return matching[0], " ".join(words[1:])
    if len(words) == 1 and len(state.questions) == 1:
        return next(iter(state.questions)), words[0]
    if len(words) == 1:
        listed = "".join(f"\n  {name}  {one_line(q.text)}" for name, q in state.questions.items())
        count = f"{len(state.questions)} questions are open" if state.questions else "no question is open"
        raise UsageError(count, kept="nothing was sent", next=f"name one: answer ID QUESTION VALUE{listed}")
    return words[0], " ".join(words[1:])


async def _deliver(
    app: Melete, ref: SessionRef, kind: Kind, *, text: str = "", question: str = "", as_json: bool = False
) -> int:
    message = inbox_message(app, kind, text=text, question=question)
    receipt = await send(app, ref, message, wait=PATIENCE[kind])
    if as_json:
        out(msgspec.json.encode(receipt).decode() + "\n")
    else:
        runs = receipt.status == "queued" and (await app.store.info(ref)).running
        out(f"{receipt.status}: {_explained(kind, receipt, runs=runs)}\n")
    return 0 if receipt.status in ("accepted", "queued") else 1


def _explained(kind: Kind, receipt: Receipt, *, runs: bool) -> str:
    match receipt.status:
        case "accepted":
            return f"it is fact {receipt.seq} of the session"
        case "queued" if runs and kind in ("steer", "queue"):
            return (
                f"the session runs and will read it {'at its next step' if kind == 'steer' else 'when it would stop'}"
            )
        case "queued" if kind in ("steer", "queue"):
            return "nothing runs in the session now; it waits in its inbox for the next run"
        case "queued":
            return "it waits in the session's inbox; the process that runs the session has not taken it yet"
        case "lost":
            return "somebody else answered first"
        case _:
            return "nothing runs in the session now" if kind == "cancel" else "the question is no longer open"
