"""The terminal and execute_code do the same wherever commands run: state lasts, code calls tools."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from melete.core.environment import Environment
from melete.core.event import Opened
from melete.core.tool import ToolError
from melete.environments.processes import Background
from melete.store.memory import MemoryStore
from melete.testing.clock import ManualClock
from melete.tools.code import NO_PYTHON, execute_code
from melete.tools.files import read_file
from melete.tools.process import process
from melete.tools.terminal import terminal
from tests.places.row import Row
from tests.places.test_conformance import folder, rows, run
from tests.unit.tools.context import Context, call

__all__ = ["folder"]
Test = Callable[[Context], Awaitable[None]]


class Calling(Context):
    """A context whose tools can be called by tools."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return await call(self.tools[name], self, **arguments)
        except ToolError as error:
            return {"success": False, "error": str(error), **error.fields}


def at(row: Row, given: Any, folder: Path, test: Test) -> None:
    async def check(place: Environment) -> None:
        clock = ManualClock(datetime(2026, 1, 1, 12, tzinfo=UTC), step=0.001)
        store = MemoryStore(clock=clock)
        ref = await store.create(Opened(cwd=place.cwd, owner="me"))
        async with aclosing(store), asyncio.TaskGroup() as group, store.claim(ref) as session:
            processes = Background(place, spawn=group.create_task, clock=clock)
            ctx = Calling(place, processes, store, session)
            ctx.tools = {one.name: one for one in (terminal, read_file, execute_code)}
            try:
                await test(ctx)
            finally:
                await processes.aclose()

    run(row, given, folder, check)


@pytest.mark.parametrize("row", rows())
def test_the_state_of_the_shell_lasts(row: Row, given: Any, folder: Path) -> None:
    async def test(ctx: Context) -> None:
        first = await call(
            terminal, ctx, command="mkdir 'in ner' && cd 'in ner' && export X=\"a 'b\"; y=2; f() { echo f$y; }"
        )
        assert (first["exit_code"], first["output"]) == (0, "")
        stands = first["cwd"]
        assert stands.endswith("/in ner")
        second = await call(terminal, ctx, command='pwd; echo "$X"; exit 3')
        assert (second["output"], second["exit_code"], second["cwd"]) == (f"{stands}\na 'b\n", 3, stands)
        with_bash = (await call(terminal, ctx, command="echo ${BASH_VERSION:+yes}"))["output"].strip() == "yes"
        if with_bash:
            assert (await call(terminal, ctx, command="f"))["output"] == "f2\n"
        late = await call(terminal, ctx, command="cd /; export X=late; sleep 300", timeout=1)
        assert late["timed_out"]
        started = await call(terminal, ctx, command='pwd; echo "$X"', background=True)
        ended = await call(process, ctx, action="wait", session_id=started["session_id"], timeout=60)
        assert ended["output"] == f"{stands}\na 'b\n"
        assert (await call(terminal, ctx, command="pwd", workdir="/"))["output"] == "/\n"
        gone = await call(terminal, ctx, command="cd ..; rmdir 'in ner'; mkdir x; cd x; rmdir ../x")
        assert gone["exit_code"] == 0
        back = await call(terminal, ctx, command="pwd; exit 0")
        assert back["output"].strip() == ctx.env.cwd
        assert "is gone" in back["note"]

    at(row, given, folder, test)


@pytest.mark.parametrize("row", rows())
def test_code_calls_tools(row: Row, given: Any, folder: Path) -> None:
    code = (
        "from melete_tools import read_file, terminal, ToolError\nimport os, sys\n"
        "open('made.txt', 'w').write('line\\n' * 3)\n"
        "print(read_file('made.txt')['lines'], terminal('cat made.txt | wc -l')['output'].strip())\n"
        "try:\n    read_file('gone.txt')\nexcept ToolError as error:\n    print(error)\n"
        "print('to stderr', file=sys.stderr)\nos.system('echo from a child')\nsys.exit(4)"
    )

    async def test(ctx: Context) -> None:
        if (await ctx.env.exec(["sh", "-c", "command -v python3"])).code != 0:
            with pytest.raises(ToolError, match=NO_PYTHON):
                await call(execute_code, ctx, code=code)
            return
        for _ in range(2):
            done = await call(execute_code, ctx, code=code)
            assert (done["output"], done["exit_code"]) == ("3 3\ngone.txt does not exist\nto stderr\nfrom a child\n", 4)
            await call(terminal, ctx, command="export SET=1")

    at(row, given, folder, test)
