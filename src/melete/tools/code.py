"""`execute_code`: Python, run where commands run, that calls the agent's tools.

The program inside (`inside.py`) talks through its standard input and output, which every environment has. What comes out of it
is data from a stranger: a frame that is none ends it, and a call passes the same door as one of the model's.
"""

import asyncio
import contextlib
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from melete.core.errors import EnvironmentFailure
from melete.core.plugin import Lazy
from melete.core.policy import Verdict, Whereabouts
from melete.core.ports import RunningProcess
from melete.core.tool import Output, Tool, ToolContext, ToolError, tool
from melete.tools.exits import HINTS, exit_code
from melete.tools.group import Group
from melete.tools.shell import shell_of
from melete.tools.text import clean_output

_judged: Lazy[Callable[..., Verdict]] = Lazy("melete.security.commands:judge_code")
_reaches: Lazy[Callable[[str], bool]] = Lazy("melete.security.network:code_reaches")

SECONDS = 300
CALLS = 50
REFUSED = 200
"""Calls above the limit that are answered with a refusal; a program that goes on is ended."""
OUTPUT = 50_000
HEAD = 20_000
LONGEST_FRAME = 16_000_000
KINDS = ("o", "c")
HELLO = b"\0melete\0"
NOT_FROM_CODE = frozenset({"execute_code", "delegate_task", "clarify", "memory", "skill_manage", "tool_search"})
"""Tools that code cannot call: itself, other agents, questions to the person, what is learnt for good, and what finds schemas."""
NO_PYTHON = "execute_code needs python3 where commands run, and there is none; use terminal in its place"
NOT_FOUND = (126, 127)


def _judge(arguments: Any, where: Whereabouts) -> Verdict:
    """Commands that the code runs are judged as those of `terminal`, and so is what it does to files by itself."""
    verdict = _judged.load()(arguments.code, contained=where.contained)
    return structs.replace(verdict, sends=verdict.verdict == "allow" and _reaches.load()(arguments.code))


@tool(effect="outside", limit=100_000, deadline=SECONDS + 60, enclosed=True, judge=_judge)
async def execute_code(ctx: ToolContext, *, code: str) -> Output:
    """Run Python in the working folder. Your tools are functions there (`from melete_tools import read_file, terminal`), with
    the same parameters; each returns its result as a dict or raises ToolError. Only what the code prints comes back. Use
    it for many calls, loops and large results that you need not read: 300 s, 50 calls, 50 kB of output."""
    if not code.strip():
        raise ToolError("code is empty")
    if "\0" in code:
        raise ToolError("code holds a NUL character")
    tools = {name: found for name, found in ctx.tools.items() if name not in NOT_FROM_CODE}
    argv = await shell_of(ctx).launching(ctx.env, ["python3", "-c", _program()])
    try:
        process = await ctx.env.start(argv)
    except EnvironmentFailure as error:
        raise ToolError(f"{error}. {NO_PYTHON}") from error
    program = Program(ctx, process, tools)
    late = False
    try:
        await ctx.within(SECONDS, program.run(code))
    except TimeoutError:
        late = True
    finally:
        if program.code is None:
            await process.kill()
    return structs.replace(_result(program, late=late), taint="web" if _reaches.load()(code) else "tool")


def _result(program: "Program", *, late: bool) -> Output:
    fields: dict[str, Any] = {"output": clean_output(program.output.all())}
    if late:
        error = f"stopped after {SECONDS} s, with everything that it had started; do less at a time, or use terminal in background"
        return Output(fields={**fields, "exit_code": None, "timed_out": True, "error": error}, failed=True)
    if program.broken:
        return Output(fields={**fields, "exit_code": None, "error": program.broken}, failed=True)
    code = exit_code(program.code)
    if not program.greeted and code in NOT_FOUND:
        raise ToolError(NO_PYTHON, **fields)
    fields["exit_code"] = code
    if code in HINTS:
        fields["note"] = HINTS[code]
    return Output(fields=fields, failed=code != 0)


class Asked(Struct, frozen=True, kw_only=True):
    """A call as the program sends it."""

    id: int
    name: str
    arguments: dict[str, Any]


class Broken(Exception):
    """What the program sent is not what it may send."""


class Kept:
    """Output within its bound: the head, the tail, and how much is missing between them."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        self._total += len(data)
        room = HEAD - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * OUTPUT:
            del self._tail[: HEAD - OUTPUT]

    def all(self) -> bytes:
        """What is kept, the gap marked."""
        if self._total <= OUTPUT:
            return bytes(self._head + self._tail)
        tail = self._tail[HEAD - OUTPUT :]
        gap = b"\n[%d bytes left out here: print less, or write to a file]\n" % (
            self._total - len(self._head) - len(tail)
        )
        return bytes(self._head) + gap + bytes(tail)


class Program:
    """One run of the program inside; `code` is its exit status once it has ended."""

    def __init__(self, ctx: ToolContext, process: RunningProcess, tools: Mapping[str, Tool]) -> None:
        self._ctx = ctx
        self._process = process
        self._tools = tools
        self._waiting = bytearray()
        self._calls = 0
        self._sending = asyncio.Lock()
        self._in_turn = asyncio.Lock()
        self.output = Kept()
        self.greeted = False
        self.broken = ""
        self.code: int | None = None

    async def run(self, code: str) -> None:
        """Run the code to its end; calls that it leaves open are given up."""
        shown = [found.shown for found in self._tools.values()]
        job = {"code": code.encode("utf-8", "replace").decode(), "tools": shown}
        try:
            async with asyncio.TaskGroup() as group:
                open_calls = [group.create_task(self._send(job))]
                while data := await self._process.read():
                    open_calls += [group.create_task(self._answer(*asked)) for asked in self._asked(data)]
                self.code = await self._process.wait()
                for task in open_calls:
                    task.cancel()
        except ExceptionGroup as group:
            first = group.exceptions[0]
            if not isinstance(first, Broken):
                raise first from group
            self.broken = f"{first}; it was ended"
        if not self.greeted:
            self.output.add(bytes(self._waiting))

    def _asked(self, data: bytes) -> Iterator[tuple[Asked, int]]:
        """The calls in what has come, with their numbers; output goes where it is kept. Raises Broken."""
        self._waiting += data
        if not self.greeted:
            before, found, rest = self._waiting.partition(HELLO)
            if not found:
                self._take_early()
                return
            self.output.add(bytes(before))
            self._waiting, self.greeted = rest, True
        while len(self._waiting) >= 5:  # noqa: PLR2004 - a letter and four bytes of length
            kind = chr(self._waiting[0])
            (length,) = struct.unpack_from(">I", self._waiting, 1)
            if kind not in KINDS or length > LONGEST_FRAME:
                raise Broken("the code broke the connection to its tools")
            if len(self._waiting) < 5 + length:
                return
            payload = bytes(self._waiting[5 : 5 + length])
            del self._waiting[: 5 + length]
            if kind == "o":
                self.output.add(payload)
            else:
                yield self._checked(payload)

    def _take_early(self) -> None:
        """What comes before the greeting is a complaint about Python, or of it."""
        keep = len(HELLO)
        self.output.add(bytes(self._waiting[:-keep]))
        del self._waiting[:-keep]

    def _checked(self, payload: bytes) -> tuple[Asked, int]:
        self._calls += 1
        if self._calls > CALLS + REFUSED:
            raise Broken(f"the code went on calling tools after {CALLS} calls")
        try:
            return msgspec.json.decode(payload, type=Asked), self._calls
        except msgspec.MsgspecError as error:
            raise Broken("the code broke the connection to its tools") from error

    async def _answer(self, asked: Asked, number: int) -> None:
        await self._send({"id": asked.id, "result": await self._outcome(asked, number)})

    async def _outcome(self, asked: Asked, number: int) -> Mapping[str, Any]:
        found = self._tools.get(asked.name)
        if number > CALLS:
            return {"error": f"{CALLS} calls were made, which is all that one execute_code may make"}
        if found is None:
            known = asked.name in self._ctx.tools
            why = "cannot be called from code" if known else "is no tool"
            return {"error": f"{asked.name} {why}", "tools": sorted(self._tools)}
        if found.parallel:
            return await self._ctx.call(asked.name, asked.arguments)
        async with self._in_turn:
            return await self._ctx.call(asked.name, asked.arguments)

    async def _send(self, message: Mapping[str, Any]) -> None:
        data = msgspec.json.encode(message)
        async with self._sending:
            with contextlib.suppress(EnvironmentFailure):  # it has ended, or closed its input: its output says the rest
                await self._process.write(struct.pack(">I", len(data)) + data)


def _program() -> str:
    """The command text that runs the program inside."""
    text = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")
    return f"exec(compile({text!r}, '<melete>', 'exec'), {{'__name__': 'melete_inside'}})"


class CodeTools(Group):
    """Code that calls tools."""

    name = "code_execution"
    tools = (execute_code,)
