"""How a conversation is asked for. Part of the composition root; apart from `service`, so that reading a command line is cheap."""

from msgspec import Struct

from melete.app.answers import AnswerSchema

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
        """What `RunStarted.about` says of runs that are opened so."""
        return {} if self.learns else {"learn": "off"}
