"""Shortening a conversation: what its compactor is given, and doing it because a person asks. Part of the composition root."""

from collections.abc import Awaitable, Callable, Sequence
from operator import is_
from typing import TYPE_CHECKING

from msgspec import Struct

from melete.agent.budget import Budgeted, RunBudget, characters
from melete.agent.compact import Compactor
from melete.app.wire import Melete
from melete.core.event import Fact, Notice
from melete.core.message import Message, Text
from melete.core.model import ModelClient
from melete.core.plugin import Lazy
from melete.core.session import Session, SessionRef

if TYPE_CHECKING:
    from melete.agent.shorten import Means, Wish
    from melete.agent.summary import Summariser
    from melete.app.service import Conversation

_means: "Lazy[Callable[..., Means]]" = Lazy("melete.agent.shorten:Means")
_wish: "Lazy[Callable[..., Wish]]" = Lazy("melete.agent.shorten:Wish")
_summariser: "Lazy[Callable[..., Summariser]]" = Lazy("melete.agent.summary:Summariser")
_recalled: Lazy[Callable[..., Awaitable[Message]]] = Lazy("melete.app.recalled:recalled")
_passages: Lazy[Callable[..., Awaitable[Text | None]]] = Lazy("melete.app.recalled:passages")
Before = Callable[[Sequence[Message]], Awaitable[str]]


class Compressed(Struct, frozen=True, kw_only=True):
    """What shortening a conversation did, or would do: numbers of messages and tokens before and after.

    `how` is what the fact says; empty where there was nothing to gain. `notes` are remarks for the person.
    """

    messages_before: int
    messages_after: int
    tokens_before: int = 0
    tokens_after: int = 0
    how: str = ""
    notes: tuple[str, ...] = ()


class Compacting:
    """What the compactors of one conversation share from run to run: what was read of its log, and the model for summaries.

    Those in `before` are told what is about to fall out of view, and say what the summary should not miss.
    """

    def __init__(self, app: Melete, ref: SessionRef) -> None:
        self.before: list[Before] = []
        self._app = app
        self._ref = ref
        self._model: ModelClient | None = None
        self._budget: RunBudget | None = None
        self._made: Means | None = None

    def compactor(self, model: ModelClient, budget: RunBudget) -> Compactor:
        """The compactor of a run that this model answers, on the run's account."""
        self._budget = budget
        return self._compactor(model)

    def _compactor(self, model: ModelClient) -> Compactor:
        given = self._app.loaded.settings.compaction
        return Compactor(
            window=lambda: model.can.context, threshold=given.threshold, target=given.target, means=self._means
        )

    def _means(self) -> "Means":
        if self._made is None:
            summariser = _summariser.load()(self._open, deadline=self._app.loaded.settings.compaction.deadline)
            self._made = _means.load()(facts=self._facts, summariser=summariser, before=self._asked, recall=self._found)
        return self._made

    async def said(self, session: Session, prompt: Message | None, model: ModelClient) -> Message | None:
        """The prompt of a run that this model answers, with what bears on it and will be out of view."""
        stays = self._compactor(model).stays(session)
        whole = len(stays) == len(session.messages) and all(map(is_, stays, session.messages))
        if prompt is None or (whole and not session.transcript.segment):
            return prompt
        return await _recalled.load()(self._app, session, prompt, window=model.can.context, stays=stays)

    async def aclose(self) -> None:
        """Release the model's connections; a second call does nothing."""
        model, self._model = self._model, None
        if model:
            await self._app.models.close(model)

    async def _facts(self, after: int) -> Sequence[Fact]:
        return await self._app.store.facts(self._ref, after=after)

    def _open(self) -> ModelClient:
        """The model for summaries; raises ConfigError, NoModelError."""
        if self._model is None:
            self._model = self._app.models.model("compact")
        return Budgeted(self._model, self._budget, estimate=characters) if self._budget else self._model

    async def _found(self, asked: str, view: str, room: int) -> Text | None:
        return await _passages.load()(self._app, self._ref, asked, view=view, room=room)

    async def _asked(self, messages: Sequence[Message]) -> str:
        said = [await ask(messages) for ask in self.before]
        return "\n".join(one for one in said if one)


async def compress(
    conversation: "Conversation", *, keep: int | None = None, focus: str = "", preview: bool = False
) -> Compressed:
    """Shorten the conversation now; its last `keep` exchanges stay word for word, as many as fit without it.

    With `focus` the summary dwells on that; with `preview` nothing is done and no model is asked. Raises SessionBusyError while it
    runs.
    """
    compactor = conversation.compacting.compactor(conversation.model, conversation.budget())
    async with conversation.app.store.claim(conversation.ref) as session:
        before, seq = len(session.messages), session.transcript.seq
        fact = await compactor.sum_up(session, _wish.load()(keep=keep, focus=focus, preview=preview))
        new = await conversation.app.store.facts(conversation.ref, after=seq)
    if fact is None:
        return Compressed(messages_before=before, messages_after=before)
    return Compressed(
        messages_before=before,
        messages_after=len(fact.messages),
        tokens_before=fact.tokens_before,
        tokens_after=fact.tokens_after,
        how="preview: no summary was written" if preview else fact.how,
        notes=tuple(one.text for one in new if isinstance(one, Notice) and one.about == "compaction"),
    )
