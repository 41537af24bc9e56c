"""The bodies of `/api/sessions`: what may be asked, and what is answered."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from melete.core.event import Question
from melete.core.moment import FORMS
from melete.core.segments import Segment
from melete.core.session import Hit, SessionInfo
from melete.surfaces.api.chat_types import MOST, Words

Limit = Annotated[int, Meta(ge=1, le=1_000, description="At most so many.")]
Offset = Annotated[int, Meta(ge=0, le=MOST, description="Without the first so many.")]
Seq = Annotated[int, Meta(ge=0, le=MOST)]
Names = Annotated[str, Meta(description="Only of these, with commas between them.")]
Folder = Annotated[str, Meta(description="Only in this folder or below.")]
Since = Annotated[str, Meta(description=f"Not before: {FORMS}; in UTC where nothing else is said.")]
Until = Annotated[str, Meta(description="Only before.")]


class SessionsWanted(Struct, frozen=True, kw_only=True):
    """Which sessions, and in which order."""

    source: Names = ""
    model: Names = ""
    cwd: Folder = ""
    since: Since = ""
    until: Until = ""
    running: Annotated[bool, Meta(description="Only sessions that run now.")] = False
    sort: Annotated[
        Literal["changed", "started", "messages", "tokens", "cost", "size"], Meta(description="What comes first.")
    ] = "changed"
    limit: Limit = 50
    offset: Offset = 0


class SessionList(Struct, frozen=True, kw_only=True):
    """Sessions; `has_more` behind the last of these."""

    data: tuple[SessionInfo, ...]
    has_more: bool
    object: Literal["list"] = "list"


class SessionView(SessionInfo, frozen=True, kw_only=True):
    """A session as it stands: its latest `run`, and what that does; `questions` wait for an answer.

    `segments` are the parts of a conversation that was shortened, each the child of the one before: all of them can be read.
    """

    state: Annotated[
        Literal["idle", "running", "waiting"], Meta(description="`waiting` is for an answer to a question.")
    ]
    run: str | None = None
    questions: tuple[Question, ...] = ()
    seq: int = 0
    segments: tuple[Segment, ...] = ()


class MessagesWanted(Struct, frozen=True, kw_only=True):
    """Which messages."""

    after: Annotated[Seq, Meta(description="Only those behind the fact of this number.")] = 0
    before: Annotated[Seq, Meta(description="Only those before the fact of this number.")] | None = None
    segment: Annotated[str, Meta(description="Only those of the segment of this id or number.")] = ""
    order: Annotated[Literal["asc", "desc"], Meta(description="`desc`: the newest first.")] = "asc"
    limit: Limit = 100


class CallView(Struct, frozen=True, kw_only=True):
    """A call of a tool; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class MessageView(Struct, frozen=True, kw_only=True):
    """A message: `seq` is the number of the fact that holds it.

    An answer has the `calls` that it asks for; the result of one names its `call`, its `tool` and its `outcome`. `origin` says who
    put a user's message there: person, runtime, child, schedule or import. Pictures and files are counted in `attachments`.
    """

    seq: int
    run: str
    at: datetime
    role: Literal["user", "assistant", "tool"]
    text: str
    thinking: str = ""
    calls: tuple[CallView, ...] = ()
    call: str = ""
    tool: str = ""
    outcome: str = ""
    model: str = ""
    origin: str = ""
    attachments: int = 0


class MessageList(Struct, frozen=True, kw_only=True):
    """Messages of a session, and whether there are more behind the last of these."""

    data: tuple[MessageView, ...]
    has_more: bool
    object: Literal["list"] = "list"


class SearchWanted(Struct, frozen=True, kw_only=True):
    """What to look for, and where."""

    q: Annotated[
        str,
        Meta(
            description="Any text; quotes make a phrase, and AND, OR, NOT and -word work.",
            extra_json_schema={"pattern": r"\S"},
        ),
    ]
    role: Annotated[Literal["user", "assistant", "tool"], Meta(description="Only messages of this role.")] | None = None
    tool: Names = ""
    source: Names = ""
    model: Names = ""
    cwd: Folder = ""
    since: Since = ""
    until: Until = ""
    session: Annotated[str, Meta(description="Only in this session.")] = ""
    sort: Annotated[Literal["best", "newest", "oldest"], Meta(description="What comes first.")] = "best"
    each: Annotated[
        int, Meta(ge=0, le=1_000, description="Results of one chain of sessions at most, 0 for any number.")
    ] = 3
    limit: Limit = 10


class HitList(Struct, frozen=True, kw_only=True):
    """Messages that were found."""

    data: tuple[Hit, ...]
    object: Literal["list"] = "list"


class Rename(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session is to be called."""

    title: Annotated[str, Meta(max_length=300, extra_json_schema={"pattern": r"\S"})]


class ForkWanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a fork leaves the session: behind `step`, 0 before the first, without one behind the last whole step."""

    step: Annotated[int, Meta(ge=0, le=MOST)] | None = None
    title: Annotated[str, Meta(max_length=300)] = ""
    model: Annotated[str, Meta(description="The model that answers the fork, `[PROVIDER/]NAME`.")] = ""


class ForkMade(Struct, frozen=True, kw_only=True):
    """A fork; `facts` are those that it shares with the original."""

    id: str
    forked_from: str
    step: int
    facts: int
    title: str = ""
    model: str = ""


class SteerSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to say to a session at its next step; with `queue` when the model would stop."""

    text: Words
    queue: bool = False


class AnswerSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to an open question; `question`, its id, may be left out when only one is open."""

    value: str
    question: str = ""
