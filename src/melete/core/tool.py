"""Tools: one decorated async function each, whose signature is the schema and whose docstring is what the model reads. Layer 0."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, get_type_hints

import msgspec
from msgspec import Struct

from melete.core.event import Question, ToolSchema
from melete.core.message import Image, Taint, ToolCall, ToolResult
from melete.core.policy import Budget, Decision, Verdict, Whereabouts
from melete.core.ports import Environment, Memory, Processes, SkillLibrary
from melete.core.session import Session, Store

Effect = Literal["read", "write", "outside"]


class ToolError(Exception):
    """A failure that the model can act on; its text becomes the call's result. `fields` are added to the JSON object."""

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields


class Refused(Exception):
    """A guard's no: the call does not run and the model reads why; `decision` is stored with it."""

    def __init__(self, message: str, decision: Decision | None = None) -> None:
        super().__init__(message)
        self.decision = decision


class Output(Struct, frozen=True, kw_only=True):
    """What a tool gives back when a plain dict is not enough; `fields` is the JSON object that the model reads.

    `taint` is where its text came from, and `source` names that place closer than the tool does.
    """

    fields: Mapping[str, Any]
    images: tuple[Image, ...] = ()
    taint: Taint = "tool"
    source: str = ""
    failed: bool = False


class ToolContext(Protocol):
    """What a running call may use; everything outside it comes from the Toolset that made the tool.

    `arguments` are the call's, repaired and checked: an instance of `tool.arguments`. A guard may put others in their place,
    such as those that name a sealed copy, and notes in `decision` why the call may run.
    """

    arguments: Any
    decision: Decision | None

    @property
    def env(self) -> Environment:
        """Where commands run and files live."""
        ...

    @property
    def processes(self) -> Processes:
        """Background processes of this session."""
        ...

    @property
    def store(self) -> Store:
        """Past sessions."""
        ...

    @property
    def skills(self) -> SkillLibrary | None:
        """The skill library, where there is one."""
        ...

    @property
    def memory(self) -> Memory | None:
        """The memory, where there is one."""
        ...

    @property
    def session(self) -> Session:
        """The session that the call belongs to."""
        ...

    @property
    def budget(self) -> Budget:
        """What the run may still spend."""
        ...

    @property
    def call_id(self) -> str:
        """The id of this call."""
        ...

    @property
    def tool(self) -> "Tool":
        """The tool that is called."""
        ...

    @property
    def tools(self) -> Mapping[str, "Tool"]:
        """All tools that can be called in this session, by name."""
        ...

    @property
    def state(self) -> dict[str, Any]:
        """Values that tools keep between calls of one session in this process; lost when the process ends."""
        ...

    async def ask(self, question: Question) -> str | None:
        """Ask the person and wait; None when nobody could or did answer. The call's deadline stops meanwhile."""
        ...

    def say(self, progress: str) -> None:
        """Show progress; never waits and never fails."""
        ...

    async def spill(self, name: str, text: str) -> str:
        """Keep a text that is too long for the result, secrets taken out, and return its path."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run another tool through the same door."""
        ...

    async def within(self, seconds: float, work: Awaitable[Any]) -> Any:
        """Await `work` at most `seconds`, the time of open questions not counted; raises TimeoutError."""
        ...

    def spawn(self, task: Coroutine[Any, Any, None]) -> None:
        """Run something beside the call, owned by the run."""
        ...


Result = Mapping[str, Any] | Output
Run = Callable[[ToolContext, Any], Awaitable[Result]]
Judge = Callable[[Any, Whereabouts], Verdict]


class Act(Struct, frozen=True, kw_only=True):
    """The shell command that a call would run: `argument` is the name of the argument that holds it, `cwd` its folder.

    `probe` runs a few lines with the variables and functions that the command would have, and returns what they print; empty
    where that cannot be found out.
    """

    command: str
    argument: str
    cwd: str
    probe: Callable[[str], Awaitable[bytes]]


class Tool(Struct, frozen=True, kw_only=True):
    """A tool: `about` and `schema` are what the model reads, `arguments` validates and coerces, `run` does it.

    `effect` says what it may change, `parallel` whether calls may share the clock, `limit` the longest result in
    characters, `deadline` the longest run in seconds, `deferred` that the schema is shown only when asked for.
    `at_most` is how many calls one reply may hold, 0 any number.
    `enclosed` says that whatever it does happens where commands run, so that walls there hold it.
    `judge` says of checked arguments whether the call may run, must be asked about, or is forbidden; `act` says which shell
    command it would run, so that what is approved can be bound and sealed; `reaches` names the addresses that it would fetch.
    """

    name: str
    about: str
    schema: msgspec.Raw
    arguments: type[Struct]
    run: Run
    parallel: bool = False
    effect: Effect = "read"
    limit: int = 50_000
    deadline: float = 420.0
    deferred: bool = False
    enclosed: bool = False
    at_most: int = 0
    judge: Judge | None = None
    act: Callable[[ToolContext, Any], Act] | None = None
    reaches: Callable[[Any], Sequence[str]] | None = None

    @property
    def shown(self) -> ToolSchema:
        """The tool as it is sent to a model."""
        return ToolSchema(name=self.name, about=self.about, parameters=self.schema)


Go = Callable[[ToolCall], Awaitable[ToolResult]]


class Guard(Protocol):
    """One layer of the onion round every call: approval, budget, redaction, checkpoints, taint."""

    async def __call__(self, call: ToolCall, ctx: ToolContext, go: Go) -> ToolResult:
        """Let the call through with `go(call)`, change it or its result, or answer in its place."""
        ...


class Toolset(Protocol):
    """A named group of tools with a common life: files, an MCP server, a plugin."""

    @property
    def name(self) -> str:
        """The group's name, as in `--toolsets`."""
        ...

    def available(self) -> bool:
        """Whether it can be used here; must not block, connect or install anything."""
        ...

    def open(self) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Start what the tools need; the tools stop working when the block ends."""
        ...


def tool(**traits: Any) -> Callable[[Callable[..., Awaitable[Result]]], Tool]:
    """Turn `async def name(ctx, *, …) -> dict` into a Tool; `traits` are the fields of Tool from `parallel` on, and `name`.

    Parameters become the schema: their annotations are the types, `Annotated[T, msgspec.Meta(description=…)]` adds a hint,
    defaults make them optional. The docstring is the description. Raises TypeError for a function that is not one.
    """

    def decorate(function: Callable[..., Awaitable[Result]]) -> Tool:
        if not inspect.iscoroutinefunction(function):
            raise TypeError(f"{function!r} is not an async function")
        arguments = _arguments(function)

        async def run(ctx: ToolContext, values: Any) -> Result:
            return await function(ctx, **{f: getattr(values, f) for f in values.__struct_fields__})

        return Tool(
            about=inspect.cleandoc(function.__doc__ or ""),
            schema=msgspec.Raw(msgspec.json.encode(compact_schema(arguments))),
            arguments=arguments,
            run=run,
            name=traits.pop("name", "") or function.__name__,
            **traits,
        )

    return decorate


def _arguments(function: Callable[..., Any]) -> type[Struct]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        hint = hints[parameter.name]
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, parameter.default))
    return msgspec.defstruct(f"{function.__name__}_arguments", fields, frozen=True, kw_only=True)


def compact_schema(arguments: type[Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct without titles, nulls and references: as few bytes as a model needs."""
    schema = msgspec.json.schema(arguments)
    definitions = schema.get("$defs", {})

    def shrink(node: Any) -> Any:
        if isinstance(node, list):
            return [shrink(n) for n in node]  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(node, dict):
            return node
        mapping: dict[str, Any] = dict(node)  # pyright: ignore[reportUnknownArgumentType]
        if "$ref" in mapping:
            return shrink(definitions[mapping["$ref"].rsplit("/", 1)[-1]])
        if "anyOf" in mapping:
            choices = [c for c in mapping["anyOf"] if c != {"type": "null"}]
            if len(choices) == 1:
                return shrink({**{k: v for k, v in mapping.items() if k != "anyOf"}, **choices[0]})
        properties = mapping.pop("properties", None)
        if "enum" in mapping:
            mapping.setdefault("type", "string")
        small = {k: shrink(v) for k, v in mapping.items() if k not in ("title", "$defs") and not _empty_default(k, v)}
        if properties is not None:
            small["properties"] = {k: shrink(v) for k, v in properties.items()}
        return small

    return shrink(shrink({"$ref": schema["$ref"]}) if "$ref" in schema else schema)


def _empty_default(key: str, value: Any) -> bool:
    return (key == "default" and value in (None, "", False, [], ())) or (key == "required" and not value)
