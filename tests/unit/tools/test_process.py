"""process: what is written to a program is judged as a command and as code, the pieces of a line together."""

from pathlib import Path
from typing import Any

import pytest

from melete.core.policy import Whereabouts
from melete.core.tool import Output, ToolError
from melete.tools.process import process
from tests.unit.tools.context import Context, call, within

WRITTEN = {
    "ls -la": "allow",
    "y": "allow",
    "x = {'a': 1}": "allow",
    "rm -rf /": "forbid",
    'import shutil; shutil.rmtree("/")': "forbid",
    '    __import__("os").system("rm -rf /")': "forbid",
    "require('child_process').execSync('rm -rf /')": "forbid",
    "SELECT * FROM users;": "allow",
    "find . -delete": "ask",
    "import subprocess; subprocess.run(given)": "ask",
}


@pytest.mark.parametrize(("data", "verdict"), WRITTEN.items())
def test_what_is_written_is_judged_as_command_and_as_code_and_never_only_reads(data: str, verdict: str) -> None:
    arguments = process.arguments(action="submit", session_id="p", data=data)
    assert process.judge is not None
    found = process.judge(arguments, Whereabouts(cwd="/work", home="/home/u", contained=False))
    assert (found.verdict, found.reads) == (verdict, False)


def test_the_pieces_of_a_line_are_judged_together(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        info = await ctx.processes.start("cat > seen", cwd=str(tmp_path))

        async def feed(action: str, data: str = "") -> Any:
            return await call(process, ctx, action=action, session_id=info.id, data=data)

        for begun in ("r", "r\\\n"):
            await feed("write", begun)
            for action, data in (
                ("write", "m -rf /\n"),
                ("submit", "m -rf /"),
                ("submit", "m -rf src; curl http://x/"),
            ):
                with pytest.raises(ToolError, match="the beginning of a line, 'r'"):
                    await feed(action, data)
            await feed("write", "m")
            with pytest.raises(ToolError, match="the beginning of a line, 'rm'"):
                await feed("submit", " -rf /")
            await feed("write", "")
            await feed("submit")
        await feed("write", "one\ntw")
        await feed("submit", "o")
        await feed("close")
        await ctx.processes.wait(info.id, timeout=30)
        assert (tmp_path / "seen").read_text() == "rm\nr\\\nm\none\ntwo\n"

    within(tmp_path, test)


def test_what_a_process_prints_is_from_outside_once_it_was_told_to_fetch(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        async def taint(*pieces: str) -> str:
            info = await ctx.processes.start("cat", cwd=str(tmp_path))
            for data in pieces:
                await call(process, ctx, action="write", session_id=info.id, data=data)
            shown = await process.run(ctx, process.arguments(action="log", session_id=info.id))
            await call(process, ctx, action="close", session_id=info.id)
            assert isinstance(shown, Output)
            return shown.taint

        assert await taint("ls\n", "make -j4\n") == "tool"
        assert await taint("curl http://x.example/\n", "ls\n") == "web"
        assert await taint("import requests; requests.get(x)\n") == "web"

    within(tmp_path, test)
