"""execute_code: Python that calls tools, through the real door, here and behind walls."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from melete.app.reaching import inbox_message, send
from melete.core.event import Asked, ToolEnded
from melete.core.policy import Verdict
from melete.core.tool import Tool, ToolContext, tool
from melete.testing import Call, Say, ScriptedModel
from melete.tools import code as subject
from tests.talking import Talk, content, is_question, talk, until
from tests.unit.tools.test_files import PIXEL

PLACES = pytest.mark.parametrize("where", ["local", pytest.param("sandbox", marks=pytest.mark.needs("bwrap"))])


@tool(name="take-it", parallel=True)
async def oddly_named(ctx: ToolContext, *, given: Any = None) -> dict[str, Any]:
    """Gives back what it got."""
    return {"given": given}


@tool(parallel=True)
async def many(ctx: ToolContext, *, second: int = 2, first: str, words: list[str] = []) -> dict[str, Any]:  # noqa: B006
    """Has an optional parameter before a required one."""
    return {"got": [first, second, *words]}


@tool(judge=lambda *_: Verdict(verdict="ask", rule="r", reason="is risky"))
async def risky(ctx: ToolContext) -> dict[str, Any]:
    """Needs approval."""
    return {"answer": "approved"}


@tool()
async def slowly(ctx: ToolContext, *, seconds: float) -> dict[str, Any]:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return {"slept": seconds}


def told(folder: Path, *codes: str, where: str = "local", **more: Any) -> list[dict[str, Any]]:
    """What the model reads of each execute_code, one after the other in one session."""

    async def main() -> list[dict[str, Any]]:
        tools: tuple[Tool, ...] = (oddly_named, many, slowly)
        async with talk(model, folder / "work", env=where, tools=tools, yolo=True, **more) as here:
            await here.say("Run it.")
            facts = await here.facts(ToolEnded)
            return [content(fact) for fact in facts if fact.result.name == "execute_code"]

    with ScriptedModel([*(Call("execute_code", {"code": code}) for code in codes), Say("Done.")]) as model:
        return asyncio.run(main())


def lines(result: Mapping[str, Any]) -> list[str]:
    assert isinstance(result["output"], str)
    return result["output"].splitlines()


@PLACES
def test_tools_are_functions_with_named_parameters(tmp_path: Path, where: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("hello\nthere\n")
    (done,) = told(
        tmp_path,
        "from melete_tools import read_file, ToolError\nimport os, inspect\n"
        "print(read_file('a.txt', limit=1)['content'])\n"
        "print(terminal(command='echo hi; exit 3'))\n"
        "print(many('one'), many(first='one', second=3, words=('x',))['got'])\n"
        "print(call_tool('take-it', given={'deep': [1, None, 'ü']})['given'])\n"
        "print(list(inspect.signature(many).parameters), many.__doc__)\n"
        "write_file('made/b.txt', 'by the tool')\nprint(open('made/b.txt').read())\n"
        "try:\n    read_file('nope.txt')\nexcept ToolError as error:\n    print('failed:', error, error.result['success'])\n",
        where=where,
    )
    assert lines(done) == [
        "1|hello",
        "{'output': 'hi\\n', 'exit_code': 3}",
        "{'got': ['one', 2]} ['one', 3, 'x']",
        "{'deep': [1, None, 'ü']}",
        "['first', 'second', 'words'] Has an optional parameter before a required one.",
        "by the tool",
        "failed: nope.txt does not exist False",
    ]
    assert done["exit_code"] == 0


@PLACES
def test_all_that_is_printed_comes_back_and_in_order(tmp_path: Path, where: str) -> None:
    (done,) = told(
        tmp_path,
        "import os, subprocess, sys, threading, atexit\nprint('one')\nos.system('echo two; echo three >&2')\n"
        "print('four', file=sys.stderr)\nsubprocess.run(['echo', 'five'])\natexit.register(print, 'eight')\n"
        "os.write(1, b'\\xff six\\n')\nthreading.Thread(target=lambda: print('seven')).start()\n",
        where=where,
    )
    assert lines(done) == ["one", "two", "three", "four", "five", "\ufffd six", "seven", "eight"]


@pytest.mark.parametrize(
    ("code", "status"),
    [("import sys; sys.exit(4)", 4), ("raise SystemExit", 0), ("exit('why')", 1), ("import os; os._exit(7)", 7),
     ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137), ("raise KeyboardInterrupt", 1)],
)  # fmt: skip
def test_the_exit_status_is_told(tmp_path: Path, code: str, status: int) -> None:
    (done,) = told(tmp_path, code)
    assert done["exit_code"] == status


def test_a_traceback_shows_the_persons_code_alone(tmp_path: Path) -> None:
    (done, wrong, broken) = told(
        tmp_path,
        "def f():\n    try:\n        1 / 0\n    except ZeroDivisionError:\n        read_file('gone')\nf()",
        "terminal(comand='ls')",
        "if True\n    pass",
    )
    assert "File \"<code>\", line 5, in f\n    read_file('gone')" in done["output"]
    assert "ZeroDivisionError: division by zero" in done["output"]
    assert lines(done)[-1] == "melete_tools.ToolError: gone does not exist"
    assert "melete>" not in done["output"]
    assert lines(wrong)[-1] == "TypeError: terminal() got an unexpected keyword argument 'comand'"
    assert "melete>" not in wrong["output"]
    assert lines(broken)[0] == '  File "<code>", line 1'
    assert lines(broken)[-1].startswith("SyntaxError")


@PLACES
def test_threads_call_tools_side_by_side(tmp_path: Path, where: str) -> None:
    (done,) = told(
        tmp_path,
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool:\n"
        "    print([r['given'] for r in pool.map(lambda n: call_tool('take-it', given=n), range(24))] == list(range(24)))\n"
        "    print([r['output'].strip() for r in pool.map(lambda n: terminal(f'echo {n}'), range(8))])\n",
        where=where,
    )
    assert lines(done) == ["True", str([str(n) for n in range(8)])]


def test_some_tools_are_not_for_code(tmp_path: Path) -> None:
    (done,) = told(
        tmp_path,
        "for name in ('execute_code', 'clarify', 'no_such_tool'):\n    try:\n        call_tool(name, code='1')\n"
        "    except ToolError as error:\n        print(error)\nprint('execute_code' in dir(), 'clarify' in dir())",
    )
    assert lines(done) == [
        "execute_code cannot be called from code",
        "clarify cannot be called from code",
        "no_such_tool is no tool",
        "False False",
    ]


def test_fifty_calls_and_no_more(tmp_path: Path) -> None:
    count = "made = 0\nwhile True:\n    try:\n        call_tool('take-it', given=1); made += 1\n    except ToolError as error:\n"
    (done, flood) = told(tmp_path, f"{count}        print(made, error)\n        break", f"{count}        pass")
    assert lines(done) == ["50 50 calls were made, which is all that one execute_code may make"]
    assert flood["error"] == "the code went on calling tools after 50 calls; it was ended"
    assert flood["success"] is False if "success" in flood else flood["exit_code"] is None


def test_long_output_keeps_its_head_and_tail(tmp_path: Path) -> None:
    (done, huge) = told(
        tmp_path,
        "for n in range(20_000):\n    print('number', n)",
        "import sys\nfor _ in range(100):\n    sys.stdout.write('x' * 1_000_000)\nprint('\\nlast')",
    )
    assert lines(done)[0] == "number 0"
    assert lines(done)[-1] == "number 19999"
    kept = done["output"] if "full_output" not in done else Path(done["full_output"]).read_text()
    assert "bytes left out here" in kept
    assert len(kept.encode()) < subject.OUTPUT + 200
    assert lines(huge)[-1] == "last"


@PLACES
def test_the_deadline_ends_everything_and_keeps_what_was_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(subject, "SECONDS", 2)
    (late, called) = told(
        tmp_path,
        "import signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('begun')\n"
        "subprocess.run(['sh', '-c', 'echo $$ > pid; exec sleep 300'])",
        "print('calling')\nslowly(300)",
        where=where,
    )
    assert (late["output"], late["timed_out"], late["exit_code"]) == ("begun\n", True, None)
    assert "stopped after 2 s" in late["error"]
    assert (called["output"], called["timed_out"]) == ("calling\n", True)
    if where == "local":
        assert not Path(f"/proc/{(tmp_path / 'work/pid').read_text().strip()}").exists()


@PLACES
@pytest.mark.parametrize(
    "forged",
    ["b'z' * 100", "b'o\\xff\\xff\\xff\\xff'", "b'c\\0\\0\\0\\2{}'", "b'c\\0\\0\\0\\1\\xff'", "b'\\0melete\\0' * 3"],
)
def test_a_program_that_forges_frames_gains_nothing(tmp_path: Path, forged: str, where: str) -> None:
    (done, after) = told(
        tmp_path,
        f"import os, time\nfor fd in range(3, 30):\n    try:\n        os.write(fd, {forged})\n    except OSError:\n        pass\n"
        "time.sleep(30)",
        "print('still here')",
        where=where,
    )
    assert done["error"] == "the code broke the connection to its tools; it was ended"
    assert lines(after) == ["still here"]


def test_forged_calls_pass_the_same_door(tmp_path: Path) -> None:
    (done,) = told(
        tmp_path,
        "import json, os, struct, time\nfor n, name in enumerate(('execute_code', 'terminal')):\n"
        "    data = json.dumps({'id': 900 + n, 'name': name, 'arguments': {'command': 'rm -rf /', 'code': '1'}}).encode()\n"
        "    for fd in range(3, 30):\n        try:\n            os.write(fd, b'c' + struct.pack('>I', len(data)) + data)\n"
        "        except OSError:\n            pass\n        \ntime.sleep(1)\nprint('over')",
    )
    assert done["exit_code"] in (0, 1)  # an answer to a call that it never made is its own problem


@PLACES
def test_a_program_that_lets_go_of_its_streams_ends_at_its_end(tmp_path: Path, where: str) -> None:
    (done,) = told(
        tmp_path, "import os, time\nprint('before')\ntime.sleep(0.5)\nos.closerange(0, 50)\nos._exit(5)", where=where
    )
    assert (done["output"], done["exit_code"]) == ("before\n", 5)


def test_a_fork_cannot_call_and_does_not_end_the_code(tmp_path: Path) -> None:
    (done,) = told(
        tmp_path,
        "import os\npid = os.fork()\nif pid == 0:\n    try:\n        read_file('x')\n    except ToolError as error:\n"
        "        print(error)\n"
        "else:\n    os.waitpid(pid, 0)\n    print(call_tool('take-it', given=1))",
    )
    assert lines(done) == [
        "tools can be called from the code's own process only, not from a fork of it",
        "{'given': 1}",
    ]


def test_files_of_the_folder_do_not_pass_for_the_library_and_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for name in ("json", "struct", "threading", "traceback"):
        (tmp_path / f"work/{name}.py").write_text("raise RuntimeError('the wrong file')")
    (tmp_path / "work/mine.py").write_text("value = 42")
    (done,) = told(tmp_path, "import mine\nprint(mine.value, __name__)\nread_file('mine.py')")
    assert lines(done) == ["42 __main__"]


def test_what_a_shell_set_holds_for_code_too(tmp_path: Path) -> None:
    code = "import os\nprint(os.environ.get('SET_THERE'), os.getcwd() == os.path.realpath(os.environ['WORK']))"

    async def main() -> dict[str, Any]:
        async with talk(model, tmp_path / "work") as here:
            await here.say("Run it.")
            return (await here.results())[-1]

    script = [
        Call("terminal", {"command": "export SET_THERE=yes WORK=$PWD; mkdir in; cd in"}),
        Call("execute_code", {"code": code}),
        Say("Done."),
    ]
    with ScriptedModel(script) as model:
        assert lines(asyncio.run(main())) == ["yes True"]


def test_without_python_it_says_what_to_do(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh"):
        (tools / name).symlink_to(f"/bin/{name}")

    async def main() -> list[dict[str, Any]]:
        async with talk(model, tmp_path / "work", variables={"PATH": str(tools)}) as here:
            await here.say("Run it.")
            return await here.results()

    code = Call("execute_code", {"code": "print(1)"})
    with ScriptedModel([code, Call("terminal", {"command": "x=1"}), code, Say("Done.")]) as model:
        first, _, second = asyncio.run(main())
    for result in (first, second):
        assert subject.NO_PYTHON in result["error"]


def test_empty_code_and_code_with_a_nul(tmp_path: Path) -> None:
    empty, nul, half = told(tmp_path, "  \n", "print('\0')", "print('\ud800')")
    assert empty["error"] == "code is empty"
    assert nul["error"] == "code holds a NUL character"
    assert half["exit_code"] == 0


def test_dangerous_commands_in_code_are_judged(tmp_path: Path) -> None:
    (done,) = told(tmp_path, "import os\nos.system('rm -rf /')")
    assert "Forbidden" in done["error"]


@PLACES
def test_stopping_the_run_ends_the_program(tmp_path: Path, where: str) -> None:
    work = tmp_path / "work"

    async def main() -> None:
        async with talk(model, work, env=where) as here:
            running = asyncio.create_task(here.say("Run it."))
            until = time.monotonic() + 20
            while not (work / "pid").exists() and time.monotonic() < until:  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
            running.cancel()
            await asyncio.wait([running])
            assert (work / "pid").exists()
            results = await here.results()
            assert results[-1]["error"] == "Stopped by the user."

    code = "import os, subprocess\nsubprocess.run(['sh', '-c', 'echo $$ > tmp; mv tmp pid; exec sleep 300'])"
    with ScriptedModel([Call("execute_code", {"code": code}), Say("Done.")]) as model:
        asyncio.run(main())
    if where == "local":
        assert not Path(f"/proc/{(work / 'pid').read_text().strip()}").exists()


def test_the_deadline_stands_still_while_a_person_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "SECONDS", 3)

    async def answer(here: Talk) -> None:
        asked = await until(here.conversation, is_question)
        assert isinstance(asked, Asked)
        await asyncio.sleep(4)
        await send(
            here.app, here.conversation.ref, inbox_message(here.app, "answer", text="yes", question=asked.question.id)
        )

    async def main() -> dict[str, Any]:
        async with talk(model, tmp_path / "work", tools=[risky], attended=True) as here:
            answering = here.app.group.create_task(answer(here))
            await asyncio.sleep(0)
            await here.say("Run it.")
            await answering
            return (await here.results())[-1]

    with ScriptedModel([Call("execute_code", {"code": "print(risky())"}), Say("Done.")]) as model:
        assert lines(asyncio.run(main())) == ["{'answer': 'approved'}"]


def test_a_picture_that_code_opens_is_told_of_since_it_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.png").write_bytes(PIXEL)
    code = "from melete_tools import read_file\nprint(read_file(path='a.png')['image'])"
    (result,) = told(tmp_path, code)
    assert lines(result) == ["image/png"]
    assert result["pictures"] == "pictures that code opens cannot be seen (1): call the tool yourself to see one"


def test_nobody_there_to_approve_is_an_error_in_the_code(tmp_path: Path) -> None:
    async def main() -> dict[str, Any]:
        async with talk(model, tmp_path / "work", tools=[risky]) as here:
            await here.say("Run it.")
            return (await here.results())[-1]

    code = "try:\n    risky()\nexcept ToolError as error:\n    print(error)"
    with ScriptedModel([Call("execute_code", {"code": code}), Say("Done.")]) as model:
        assert "nobody is there to give it" in asyncio.run(main())["output"]
