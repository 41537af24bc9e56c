"""The memory beside the two files, where the settings name one: asked when something is said, told what was. Composition root.

What it brings for a message is stored with the message, so that a session that goes on later sends the same bytes.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import UNSET, structs

from melete.app.plugins import add_installed, registry
from melete.app.settings import Loaded
from melete.app.skills import CALLED, SUGGESTED
from melete.app.wire import Melete
from melete.core.errors import ConfigError
from melete.core.event import Compacted, Fact, RunEnded, ToolSchema
from melete.core.memory import Noted, Noting, Recalled
from melete.core.message import Message, Taint, Text
from melete.core.plugin import Lazy
from melete.core.ports import Memory, ProviderStart
from melete.core.session import Hit, Line, Query, SessionInfo, SessionRef, Store, Which
from melete.core.taskstate import RECALLED
from melete.core.tool import Output, Tool, ToolContext
from melete.core.transcript import Transcript

if TYPE_CHECKING:
    from melete.app.service import Conversation
    from melete.memory.providers import Hosted

_hosted: "Lazy[Callable[..., Hosted]]" = Lazy("melete.memory.providers:Hosted")
_scan: Lazy[Callable[[str], Sequence[Any]]] = Lazy("melete.security.threats:scan")

T = TypeVar("T")
REMEMBERED = "[From earlier conversations, found by the memory because it may bear on the message above]"
"""How what is recalled for a message begins."""
ADDED = (REMEMBERED, RECALLED, SUGGESTED, CALLED)
MOST, ROOM, SHARE = 3, 1_500, 0.08
"""Texts that one message recalls, their characters together, and the same as a share of the window in tokens."""
LONGEST_BLOCK = 2_000
"""Characters that a provider may add to the prompt."""
LONGEST_SHOWN = 500
DEPTH = 30
"""Hits of the search by words that a provider is given to order."""
SECONDS = 5.0
"""What a provider's tool, or its word before a compaction, may take."""
ALL = 1 << 30


def provider_of(app: Melete) -> Callable[[ProviderStart], object] | None:
    """What makes the provider that the settings name; None for none. Raises ConfigError for a name that nobody has."""
    name = app.loaded.settings.memory.provider
    if not name or not app.loaded.settings.memory.enabled or app.ephemeral or app.then:
        return None
    add_installed(app.registry, "memory", [name])
    if name not in app.registry.all("memory"):
        return app.registry.get("memory", name)
    return lambda start: app.registry.get("memory", name)(start)  # imported in the provider's own thread


def look(loaded: Loaded) -> str:
    """Why the provider that the settings name would not be loaded here; empty where it should. Nothing is started."""
    name, known = loaded.settings.memory.provider, registry()
    try:
        add_installed(known, "memory", [name])
        known.get("memory", name)
    except Exception as error:  # noqa: BLE001 - what others wrote may fail in any way; here it is told
        return str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
    return ""


class Provided:
    """The memory provider of one conversation; without one, everything here is as if there were no such thing."""

    def __init__(self, app: Melete, ref: SessionRef) -> None:
        self.store: Store = app.store
        self._app = app
        self._ref = ref
        self._hosted: Hosted | None = None
        self._recalling: asyncio.Task[list[Recalled] | None] | None = None
        self._said = ""
        self._seen: set[str] = set()
        self._room = self._turns = 0
        self._problems: list[str] = []

    async def open(self, conversation: "Conversation", stack: AsyncExitStack) -> None:
        """Make the provider and get it ready, with its tools; one that fails or cannot be used here is told as a problem."""
        try:
            make = provider_of(self._app)
        except ConfigError as error:
            self._problems.append(f"the memory is not used: {error}")
            return
        if make is None:
            return
        given, folder = self._app.loaded.settings.memory, self._app.loaded.home.memories
        past = PersonsPast(self._app.store, self._ref.owner)
        start = ProviderStart(folder=str(folder), config=given.config, past=past)
        home = str(self._app.loaded.home.root)
        about = {"session": self._ref.id, "who": self._ref.owner, "home": home}
        about |= {"surface": conversation.options.surface, "cwd": conversation.env.cwd}
        hosted = _hosted.load()(lambda: make(start), name=given.provider, about=about, deadline=given.deadline)
        for schema in await hosted.rows("tools", of=ToolSchema) or ():
            self._add(schema, conversation)
        self._room = min(ROOM, int(SHARE * conversation.model.can.context))
        conversation.compacting.before.append(self.before)
        self._hosted, self.store = hosted, mixed(self._app.store, hosted)
        self._app.listeners.append(self._heard)
        stack.push_async_callback(self.aclose)

    def problems(self) -> Sequence[str]:
        """What the person should know of it, told once."""
        found, self._problems = self._problems, []
        return [*found, *(self._hosted.problems() if self._hosted else ())]

    def delegated(self, task: str, result: str, child: str) -> None:
        """A child has come back; nothing waits for what the provider makes of it."""
        if self._hosted:
            self._hosted.later("on_delegation", self._app.redact(task), self._app.redact(result), child)

    async def behind(self, block: str) -> str:
        """The block of the prompt with what the provider adds to it, as far as that is no order to the reader."""
        text = await self._hosted.ask("prompt_block", kind=str) if self._hosted else ""
        clean = self._clean([text.strip()[:LONGEST_BLOCK]]) if text else ()
        return "\n\n".join((block, *clean)).strip()

    def begin(self, prompt: Message | None, state: Transcript) -> None:
        """Look for what bears on a message while the request is made ready."""
        self._said, self._recalling = prompt.text if prompt else "", None
        if self._hosted is None or not self._said.strip():
            return
        looking = self._hosted.rows("prefetch", self._said, limit=2 * MOST, of=Recalled)
        self._recalling = self._app.group.create_task(looking)
        number = sum(message.role == "user" for message in state.messages) + 1
        self._hosted.later("on_turn_start", number, self._said)
        self._hosted.later("queue_prefetch", self._said)

    async def said(self, prompt: Message | None) -> Message | None:
        """The prompt with what was found for it behind it."""
        recalling, self._recalling = self._recalling, None
        if prompt is None or recalling is None:
            return prompt
        left = self._room
        rows: dict[Taint, list[str]] = {}
        for one in await recalling or ():
            source = " ".join(one.source.split())
            row = f"- {source}: {one.text.strip()}" if source else f"- {one.text.strip()}"
            if (
                sum(map(len, rows.values())) < MOST
                and len(row) <= left
                and row not in self._seen
                and self._clean([row])
            ):
                self._seen.add(row)
                rows.setdefault("tool" if one.taint == "none" else one.taint, []).append(self._app.redact(row))
                left -= len(row)
        added = [Text(text="\n".join((REMEMBERED, *found)), taint=taint) for taint, found in rows.items()]
        return structs.replace(prompt, parts=(*prompt.parts, *added)) if added else prompt

    async def before(self, messages: Sequence[Message]) -> str:
        """What a summary of these messages should not miss; what was to be taken in is taken in first."""
        if self._hosted is None:
            return ""
        await self._hosted.flush()
        text = await self._hosted.ask("on_pre_compress", tuple(messages), kind=str, seconds=SECONDS)
        return "\n".join(self._clean([text.strip()[:LONGEST_BLOCK]])) if text else ""

    def hearing(self, memory: Memory | None) -> Memory | None:
        """The memory of the files, which tells the provider what is written."""
        return cast("Memory", _Hearing(memory, self._hosted)) if memory and self._hosted else memory

    async def aclose(self) -> None:
        """Say that the session is closed, and let the provider finish."""
        if self._hosted is None:
            return
        self._app.listeners.remove(self._heard)
        if self._turns:
            messages = Transcript(await self._app.store.facts(self._ref)).messages
            self._hosted.later("on_session_end", tuple(messages))
        await self._hosted.aclose()

    def _heard(self, ref: SessionRef, fact: Fact) -> None:
        """Tell the provider what became of the session, as its facts say."""
        if ref.id != self._ref.id or self._hosted is None:
            return
        if isinstance(fact, Compacted):
            self._hosted.later("on_session_switch", fact.segment, parent=ref.id)
        elif isinstance(fact, RunEnded) and fact.text and self._said.strip():
            self._hosted.later("sync_turn", self._said, fact.text)
            self._turns += 1

    def _clean(self, texts: Sequence[str]) -> list[str]:
        """The texts without those that order their reader about; each is told."""
        kept: list[str] = []
        for text in texts:
            if found := _scan.load()(text):
                told = f"a text of the memory was left out: it reads like an order to the agent ({found[0].rule})"
                self._problems += [told] if told not in self._problems else []
            else:
                kept.append(self._app.redact(text))
        return kept

    def _add(self, schema: ToolSchema, conversation: "Conversation") -> None:
        """Offer a tool of the provider's own, unless another has its name or it makes no sense."""
        if schema.name in self._app.loaded.settings.tools.disabled:
            return
        try:
            if any(tool.name == schema.name for tool in conversation.tools):
                raise ValueError("another tool has that name")  # noqa: TRY301 - told like what the library finds
            conversation.tools = (*conversation.tools, self._tool(schema))
        except (ValueError, TypeError, AttributeError, msgspec.DecodeError) as error:
            self._problems.append(f"the tool {schema.name!r} of the memory is left out: {error}")

    def _tool(self, schema: ToolSchema) -> Tool:
        about: dict[str, Any] = msgspec.json.decode(schema.parameters)
        needed = about.get("required", ())
        fields = [(name, Any) if name in needed else (name, Any, UNSET) for name in about.get("properties", {})]
        arguments = msgspec.defstruct(schema.name, fields, kw_only=True, frozen=True)

        async def run(_: ToolContext, values: Any) -> Output:
            given = {name: value for name, value in structs.asdict(values).items() if value is not UNSET}
            hosted = self._hosted
            found: Any = await hosted.ask("call", schema.name, given, kind=dict, seconds=SECONDS) if hosted else None
            if found is None:
                return Output(
                    fields={"success": False, "error": "the memory did not answer; go on without it"}, failed=True
                )
            return Output(fields=found, source=schema.name)

        return Tool(
            name=schema.name,
            about=schema.about,
            schema=schema.parameters,
            arguments=arguments,
            run=run,
            effect="outside",
        )


# ---- the conversations that a provider reads


class PersonsPast:
    """The conversations of one person, for a provider: asked from its thread, read where the store lives."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._infos: dict[str, SessionInfo] = {}

    async def sessions(self) -> Sequence[SessionInfo]:
        """All of them, the last changed first."""
        return await self._there(self._list())

    async def lines(self, session: str, *, after: int = 0) -> Sequence[Line]:
        """The messages behind the fact `after`; none of a session that is gone or somebody else's."""
        return await self._there(self._lines(session, after))

    async def search(self, query: Query) -> Sequence[Hit]:
        """What the search by words finds, whatever owner the query names."""
        return await self._there(self._search(query))

    async def hit(self, session: str, seq: int) -> Hit | None:
        """A message as a search shows it; None for one that is gone or somebody else's."""
        return await self._there(self._hit(session, seq))

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio.get_running_loop() is self._loop:
            return await work
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the conversation is over")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _list(self) -> Sequence[SessionInfo]:
        own = await self._store.list(owner=self._owner, which=Which(alone=True), limit=ALL)
        self._infos = {info.id: info for info in own}
        return own

    async def _info(self, session: str) -> SessionInfo | None:
        if session not in self._infos:
            await self._list()
        return self._infos.get(session)

    async def _lines(self, session: str, after: int) -> Sequence[Line]:
        if await self._info(session) is None:
            return ()
        ref = SessionRef(id=session, owner=self._owner)
        found = await self._store.scroll(ref, around=0, window=ALL)
        return [structs.replace(line, text=said_itself(line.text)) for line in found if line.seq > after]

    async def _search(self, query: Query) -> Sequence[Hit]:
        which = structs.replace(query.which, alone=True)
        return await self._store.search(structs.replace(query, owner=self._owner, which=which))

    async def _hit(self, session: str, seq: int) -> Hit | None:
        info = await self._info(session)
        if info is None:
            return None
        ref = SessionRef(id=session, owner=self._owner)
        found = [line for line in await self._store.scroll(ref, around=seq, window=0) if line.seq == seq]
        if not found:
            return None
        text = " ".join(said_itself(found[0].text).split())
        shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
        return Hit(
            session=session,
            seq=seq,
            role=found[0].role,
            snippet=shown,
            title=info.title,
            source=info.source,
            root=info.root or session,
            at=found[0].at,
        )


def said_itself(text: str) -> str:
    """A message without what was put behind it: else what is recalled would be recalled again."""
    return text[: min((at for mark in ADDED if (at := text.find(f"\n\n{mark}")) >= 0), default=len(text))]


# ---- what others use in its place


class _Over:
    """Something else, but for what is written here."""

    def __init__(self, inner: Any, hosted: "Hosted") -> None:
        self._inner = inner
        self._hosted = hosted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Hearing(_Over):
    """A memory that tells a provider what is written."""

    async def apply(self, change: Noting) -> Noted:
        """Make the change, and tell of it."""
        noted: Noted = await self._inner.apply(change)
        if noted.ok:
            self._hosted.later("on_memory_write", change)
        return noted


class _Mixed(_Over):
    """A store whose searches a provider puts in order."""

    async def search(self, query: Query) -> Sequence[Hit]:
        """What the words find, with what the provider knows; without it where that is late or fails."""
        if query.order != "best" or self._hosted.resting or not query.text.strip():
            return await self._inner.search(query)
        wide = structs.replace(query, limit=max(query.limit, DEPTH), each=3 * query.each)
        hits: Sequence[Hit] = await self._inner.search(wide)
        ranked = await self._hosted.rows("rank", query, hits, of=Hit)
        return first_of(ranked or hits, query)


def mixed(store: Store, hosted: "Hosted") -> Store:
    """A store whose searches a provider puts in order."""
    return cast("Store", _Mixed(store, hosted))


def first_of(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """As many of the hits as the query asks for, each chain of sessions as often as it may."""
    chosen: list[Hit] = []
    for hit in hits:
        root = hit.root or hit.session
        if not query.each or sum((one.root or one.session) == root for one in chosen) < query.each:
            chosen.append(hit)
        if len(chosen) >= query.limit:
            break
    return chosen
