"""The bodies of `/v1/runs`: what may be asked, and what is answered."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from melete.core.event import Question
from melete.core.message import Usage
from melete.surfaces.api.chat_types import MOST, UserPart, Words

Status = Literal["running", "waiting", "done", "failed", "cancelled", "limit", "interrupted"]
STATUS = "What it does: `waiting` is for an answer to a question; `interrupted` was cut off and is not taken up again."


class NewRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do, in words or in parts with pictures, and within which limits; without `session` in a new one."""

    input: Words | Annotated[tuple[UserPart, ...], Meta(extra_json_schema={"minItems": 1})]
    session: str = ""
    model: str = ""
    toolsets: tuple[str, ...] = ()
    max_steps: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    budget_usd: Annotated[float, Meta(ge=0)] | None = None


class RunAccepted(Struct, frozen=True, kw_only=True):
    """A run that has begun; its prompt is stored."""

    id: str
    session: str


class RunStatus(Struct, frozen=True, kw_only=True):
    """A run: `text` is the answer, `error` why there is none, `resumed_as` the run that goes on with what was cut off.

    `questions` wait for an answer. `seq` is the number of its latest fact.
    """

    id: str
    session: str
    status: Annotated[Status, Meta(description=STATUS)]
    model: str
    surface: str
    started: datetime
    ended: datetime | None = None
    stop: str | None = None
    text: str | None = None
    error: str | None = None
    steps: int | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    questions: tuple[Question, ...] = ()
    seq: int = 0
    resumes: str | None = None
    resumed_as: str | None = None


class RunLine(Struct, frozen=True, kw_only=True):
    """A run in a listing."""

    id: str
    session: str
    status: Annotated[Status, Meta(description=STATUS)]
    model: str
    surface: str
    started: datetime
    ended: datetime | None = None
    stop: str | None = None
    steps: int = 0
    seconds: float = 0.0


class RunList(Struct, frozen=True, kw_only=True):
    """Runs, the last begun first; `has_more` behind the last of these."""

    data: tuple[RunLine, ...]
    has_more: bool
    object: Literal["list"] = "list"


class RunsWanted(Struct, frozen=True, kw_only=True):
    """Which runs."""

    session: Annotated[str, Meta(description="Only those of this session.")] = ""
    status: Annotated[Status, Meta(description="Only those that are in this state.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="At most so many.")] = 50
    offset: Annotated[int, Meta(ge=0, le=MOST, description="Without the first so many.")] = 0


class After(Struct, frozen=True, kw_only=True):
    """Where to go on in a stream."""

    after: Annotated[str, Meta(pattern=r"^([0-9]{1,15}(\.[0-9]{1,15})?)?$", description="As `Last-Event-ID`.")] = ""


class Steer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to say to a run at its next step."""

    text: Words


class Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to an open question, by the question's id."""

    question: str
    value: str


class Feedback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person says of a run's answer; the model is not told, what led to the answer is measured by it."""

    verdict: Literal["good", "bad"]
    why: Annotated[str, Meta(max_length=1_000)] = ""


class Delivered(Struct, frozen=True, kw_only=True):
    """What became of a message: accepted (as the fact `seq`), queued for a later moment, lost (somebody was first) or expired."""

    status: Literal["accepted", "queued", "lost", "expired", "refused"]
    seq: int = 0
