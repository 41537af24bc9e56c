"""How a conversation is asked for. Part of the composition root; apart from `service`, so that reading a command line is cheap."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from melete.app.answers import AnswerSchema
from melete.core.errors import UsageError
from melete.core.event import RunEnded, RunStarted, Stop
from melete.core.session import SessionRef

N = TypeVar("N", int, float)
log = logging.getLogger("melete.recovery")

PLACE = ("env", "folder")
"""Keys of `Opened.about`: the environment that was asked for, and a working folder that stands before `Opened.cwd`."""


class Options(Struct, frozen=True, kw_only=True):
    """How a conversation is opened.

    `session` is an id, an unambiguous beginning of one, or a title; `latest` continues the session that changed last.
    `attended` says that a person can answer questions on this surface. None leaves a choice to the settings. `answer` is the
    schema that each run's answer has to follow. `model` names one for this conversation; with `shares` it is one that all
    conversations of the process ask. `extra` goes into the system prompt; an empty one
    leaves there what earlier runs have put, unless `keeps_extra` is false. `temperature`, `max_output` (tokens of one reply) and
    `effort` go along with every request. With `waits` a run does not end before the background processes that it is to hear of
    have said so: nobody is there to begin another one for them. `skills` are loaded with the first prompt. Without
    `learns` nothing is learned from its runs, nor from what comes behind them.
    """

    session: str = ""
    latest: bool = False
    owner: str = ""
    surface: str = "cli"
    cwd: str = ""
    env: str = ""
    toolsets: tuple[str, ...] = ()
    max_steps: int | None = None
    temperature: float | None = None
    max_output: int | None = None
    effort: str = ""
    budget_usd: float | None = None
    yolo: bool = False
    attended: bool = False
    extra: str = ""
    keeps_extra: bool = True
    model: str = ""
    shares: bool = False
    answer: AnswerSchema | None = None
    waits: bool = False
    skills: tuple[str, ...] = ()
    learns: bool = True

    @property
    def noted(self) -> dict[str, str]:
        """What `RunStarted.about` says of runs that are opened so: also what goes along with every request."""
        own = {
            "temperature": "" if self.temperature is None else str(self.temperature),
            "max_output": "" if self.max_output is None else str(self.max_output),
            "effort": self.effort,
            "answer": bytes(self.answer.schema).decode() if self.answer else "",
            "learn": "" if self.learns else "off",
        }
        return {key: value for key, value in own.items() if value}


def asked_for(begun: RunStarted, ref: SessionRef) -> Options:
    """The options with which a run was begun, as far as they are stored; a value that makes no sense counts as none."""
    about = begun.about
    return Options(
        session=ref.id,
        owner=ref.owner,
        surface=begun.surface,
        attended=True,
        shares=True,
        model=about.get("model", ""),
        toolsets=tuple(filter(None, about.get("toolsets", "").split(","))),
        budget_usd=number(about, "budget_usd", float),
        max_steps=number(about, "max_steps", int),
        temperature=number(about, "temperature", float),
        max_output=number(about, "max_output", int),
        effort=about.get("effort", ""),
        extra=about.get("extra", ""),
        learns=about.get("learn") != "off",
        answer=_schema(about.get("answer", "")),
    )


def number(about: Mapping[str, str], name: str, kind: Callable[[str], N]) -> N | None:
    """A number that is stored under a name; None where there is none."""
    try:
        return kind(about[name])
    except (KeyError, ValueError):
        return None


def _schema(text: str) -> AnswerSchema | None:
    if not text:
        return None
    try:
        return AnswerSchema(msgspec.json.decode(text, type=dict[str, Any]))
    except (UsageError, msgspec.DecodeError) as error:
        log.warning("the form of an answer that is stored cannot be used: %s", error)
        return None


def exit_code(ended: RunEnded) -> int:
    """The status of a command whose run ended so: 0 answered, 1 failed, 3 a limit, 130 cancelled."""
    if ended.stop == Stop.DONE:
        return 0
    if ended.stop == Stop.CANCELLED:
        return 130
    return 3 if ended.stop in Stop.LIMITS else 1
