"""What lasts from one command of the terminal to the next, and what does not."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from melete.tools.process import process
from melete.tools.shell import plain
from melete.tools.terminal import terminal
from tests.unit.tools.context import Context, call, within

PLACES = ["local", pytest.param("sandbox", marks=pytest.mark.needs("bwrap"))]
SHELLS = pytest.mark.parametrize("program", ["dash", pytest.param("busybox", marks=pytest.mark.needs("busybox"))])
Test = Callable[[Context], Awaitable[None]]


async def run(ctx: Context, command: str, **more: Any) -> dict[str, Any]:
    return await call(terminal, ctx, command=command, **more)


async def said(ctx: Context, command: str, **more: Any) -> str:
    done = await run(ctx, command, **more)
    assert isinstance(done["output"], str)
    return done["output"].strip()


@pytest.mark.parametrize("where", PLACES)
def test_folder_variables_functions_and_aliases_last(tmp_path: Path, where: str) -> None:
    async def test(ctx: Context) -> None:
        (tmp_path / "in ner").mkdir()
        moved = await run(
            ctx,
            "cd 'in ner'; plain=1; export EXPORTED=\"a 'b\"; list=(1 'x y'); declare -A map=([k]='v w'); lines=$'l1\\nl2'\n"
            "hello() { echo \"hello $plain $1\"; }; alias hi='echo hi there'",
        )
        assert moved == {"output": "", "cwd": str(tmp_path / "in ner"), "exit_code": 0}
        assert await said(ctx, "pwd; hello you; hi now") == f"{tmp_path}/in ner\nhello 1 you\nhi there now"
        assert await said(ctx, 'echo "$EXPORTED ${list[1]} ${map[k]} $lines"; env | grep -c ^EXPORTED') == (
            "a 'b x y v w l1\nl2\n1"
        )
        await run(ctx, "unset plain EXPORTED list; unset -f hello; unalias hi; cd -")
        done = await run(ctx, 'echo "${plain-}${EXPORTED-}${list-}"; hello; hi')
        assert done["exit_code"] == 127
        assert "cwd" not in done

    within(tmp_path, test, where=where)


def test_options_last_but_not_those_that_end_scripts(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "shopt -s extglob nullglob; set -o noglob; set -C; umask 027")
        assert await said(ctx, "shopt -q extglob nullglob && echo on; echo *; umask") == "on\n*\n0027"
        assert (await run(ctx, "echo >f; echo >f"))["exit_code"] == 1
        await run(ctx, "shopt -u extglob; set +f +C")
        assert await said(ctx, "shopt -q extglob || echo off; echo f* >| f; cat f") == "off\nf"
        assert await said(ctx, "set -euo pipefail; x=1; false; echo no") == ""
        assert await said(ctx, "false | true; false; echo $x ${unset} on") == "1 on"
        assert await said(ctx, "set -x; y=2 2>/dev/null; exit 3") != ""
        assert await said(ctx, "echo $y") == "2"

    within(tmp_path, test)


def test_what_the_environment_begins_with_can_be_taken_away(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "unset LC_ALL; export PATH=/extra:$PATH")
        assert await said(ctx, 'echo "${LC_ALL-gone} ${PATH%%:*}"; env | grep -c ^LC_ALL') == "gone /extra\n0"

    within(tmp_path, test)


def test_a_virtual_environment_stays_active(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        (tmp_path / "venv/bin").mkdir(parents=True)
        python = tmp_path / "venv/bin/python"
        python.write_text("#!/bin/sh\necho of the venv\n")
        python.chmod(0o755)
        (tmp_path / "venv/bin/activate").write_text(
            "deactivate() { PATH=$_OLD; unset VIRTUAL_ENV; unset -f deactivate; }\n"
            f"_OLD=$PATH; VIRTUAL_ENV={tmp_path}/venv; export VIRTUAL_ENV; PATH=$VIRTUAL_ENV/bin:$PATH; export PATH\n"
        )
        await run(ctx, ". venv/bin/activate")
        assert await said(ctx, "python; echo $VIRTUAL_ENV") == f"of the venv\n{tmp_path}/venv"
        await run(ctx, "deactivate")
        assert await said(ctx, "echo ${VIRTUAL_ENV-none}; command -v python || :") != f"none\n{python}"

    within(tmp_path, test)


@pytest.mark.parametrize(
    ("command", "code"),
    [("x=2; exit 3", 3), ("x=2; false", 1), ("set -e; x=2; false", 1), ("x=2; (exit 4)", 4), ("trap 'echo bye' EXIT; x=2", 0),
     ("x=2; exec 1>&- 2>&-", 0), ("x=2; no-such-command-here", 127), ("f() { exit 5; }; x=2; f", 5), ("x=2; set -n", 0)],
)  # fmt: skip
def test_the_exit_code_is_the_commands_own(tmp_path: Path, command: str, code: int) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "x=1")
        assert (await run(ctx, command))["exit_code"] == code
        assert await said(ctx, "echo $x") == ("1" if "set -n" in command else "2")

    within(tmp_path, test)


@pytest.mark.parametrize(
    "command",
    ["x=2; if", "x=2; kill -9 $$", "x=2; exec true", "trap 'echo bye' EXIT; x=2; exit", "x=2; ulimit -f 0; exit"],
)
def test_a_shell_that_could_not_leave_its_state_leaves_that_of_before(tmp_path: Path, command: str) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "x=1; f() { echo f; }")
        await run(ctx, command)
        assert await said(ctx, "echo $x; f") == "1\nf"

    within(tmp_path, test)


@pytest.mark.parametrize("where", PLACES)
def test_a_command_that_ran_too_long_changes_nothing(tmp_path: Path, where: str) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "x=1")
        for ignores in ("", "trap '' TERM; "):
            late = await run(ctx, f"{ignores}cd /; x=2; sleep 300", timeout=1)
            assert late["timed_out"]
            assert await said(ctx, "pwd; echo $x") == f"{tmp_path}\n1"

    within(tmp_path, test, where=where)


def test_a_command_that_was_stopped_changes_nothing(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "x=1")
        running = asyncio.create_task(run(ctx, "x=2; touch begun; sleep 300"))
        while not (tmp_path / "begun").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await said(ctx, "echo $x") == "1"

    within(tmp_path, test)


def test_messages_count_the_commands_own_lines_and_nothing_of_ours_is_printed(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "x=1")
        assert await said(ctx, "nope-a\n\nnope-b") == (
            "bash: line 1: nope-a: command not found\nbash: line 3: nope-b: command not found"
        )
        assert await said(ctx, "echo $# $0 $-; env | grep -i melete") == "0 bash hBc"
        await run(ctx, "set -a; exported=1")
        assert await said(ctx, "env | grep -ci -e melete -e shell-; echo $exported") == "0\n1"
        assert await said(ctx, "set -v; echo hi") == "hi"

    within(tmp_path, test)


def test_a_readonly_variable_comes_back_writable(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "readonly a=1; declare -rx b=2; declare -ra c=(3 4); declare -rA d=([k]=5)")
        assert await said(ctx, "echo $a $b ${c[1]} ${d[k]}; a=6 b=7; echo $a$b; env | grep ^b=") == "1 2 4 5\n67\nb=7"

    within(tmp_path, test)


def test_a_text_in_a_function_is_left_as_it_is(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        told = "declare -r foo\ndeclare -rx bar\n# functions\ndeclare -ar baz"
        await run(ctx, f"readonly a=1; text=$'\\n# functions\\n'; f() {{ cat <<E\n{told}\nE\n}}")
        assert await said(ctx, "true; f; a=2; echo $a") == f"{told}\n2"
        assert await said(ctx, "f") == told

    within(tmp_path, test)


def test_a_folder_that_is_gone_is_left_with_a_word(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "mkdir -p a/b; cd a/b; x=1")
        await run(ctx, "rm -r ../../a")
        back = await run(ctx, "pwd; echo $x")
        assert (back["output"], back.get("cwd")) == (f"{tmp_path}\n1\n", None)
        assert back["note"] == f"{tmp_path}/a/b is gone: back in the working folder"
        assert "note" not in await run(ctx, "pwd")

    within(tmp_path, test)


@pytest.mark.parametrize(
    "name", ["ünï côde", "$(touch x)`y`", "new\nline", "'\"\\", b"latin-\xe9".decode("utf-8", "surrogateescape")]
)
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    async def test(ctx: Context) -> None:
        (tmp_path / "deep" / name).mkdir(parents=True)
        assert "cwd" in await run(ctx, "cd deep/*")
        assert await said(ctx, '[ . -ef "$OLDPWD"/deep/* ] && [ "$PWD" != "$OLDPWD" ] && echo there') == "there"
        assert not (tmp_path / "deep" / name / "x").exists()

    within(tmp_path, test)


@pytest.mark.parametrize("where", PLACES)
def test_a_program_of_python_in_the_background_keeps_nothing_to_itself(tmp_path: Path, where: str) -> None:
    server = "python3 -c 'import sys; print(\"ready\"); sys.stdin.read()'"

    async def test(ctx: Context) -> None:
        for _ in range(2):  # without a state and with one
            name = (await run(ctx, server, background=True))["session_id"]
            while "ready" not in ctx.processes.output(name)[0]:  # noqa: ASYNC110 - what is waited for tells nobody
                await asyncio.sleep(0.02)
            await ctx.processes.kill(name)
            await run(ctx, "x=1")
        await run(ctx, "export PYTHONUNBUFFERED=")  # what is said counts
        name = (await run(ctx, 'echo "[$PYTHONUNBUFFERED]"', background=True))["session_id"]
        await ctx.processes.wait(name, timeout=10)
        assert ctx.processes.output(name)[0] == "[]\n"

    within(tmp_path, test, where=where)


@pytest.mark.parametrize("where", PLACES)
def test_background_commands_begin_with_the_state_and_do_not_change_it(tmp_path: Path, where: str) -> None:
    async def test(ctx: Context) -> None:
        (tmp_path / "inner").mkdir()
        await run(ctx, "cd inner; x=1; f() { echo f$x; }")
        started = await run(ctx, "pwd; f; x=2; cd /", background=True)
        done = await call(process, ctx, action="wait", session_id=started["session_id"])
        assert done["output"] == f"{tmp_path}/inner\nf1\n"
        assert done["command"] == "pwd; f; x=2; cd /"
        assert await said(ctx, "pwd; f") == f"{tmp_path}/inner\nf1"
        elsewhere = await run(ctx, "pwd; f", background=True, workdir=str(tmp_path))
        done = await call(process, ctx, action="wait", session_id=elsewhere["session_id"])
        assert done["output"] == f"{tmp_path}\nf1\n"

    within(tmp_path, test, where=where)


def test_a_command_on_a_terminal_takes_part(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        on_terminal = await run(ctx, "test -t 0 && x=1; cd /", pty=True)
        assert (on_terminal["exit_code"], on_terminal["cwd"]) == (0, "/")
        assert await said(ctx, "pwd; echo $x") == "/\n1"
        assert (await run(ctx, "x=2; sleep 300", pty=True, timeout=1))["timed_out"]
        assert await said(ctx, "echo $x") == "1"

    within(tmp_path, test)


def test_commands_side_by_side_begin_alike_and_the_last_to_end_decides(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "x=0")
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                waits = f"touch in{number}; while [ ! -e go{number} ]; do sleep 0.01; done"
                group.create_task(run(ctx, f"test $x = 0 || touch wrong; {waits}; x={number}"))
            async with asyncio.timeout(60):
                while len([*tmp_path.glob("in*")]) < 6:  # noqa: ASYNC110 - the shells are other processes
                    await asyncio.sleep(0.01)
            (tmp_path / "go5").touch()
            for number in range(5):
                await asyncio.sleep(0.05)
                (tmp_path / f"go{number}").touch()
        assert not (tmp_path / "wrong").exists()
        assert await said(ctx, "echo $x") == "4"

    within(tmp_path, test)


def test_files_of_old_states_go(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        for number in range(70):
            await run(ctx, f"x={number}; cd /; cd - >/dev/null")
        assert await said(ctx, "echo $x") == "69"
        assert len(await ctx.env.list(await ctx.env.temp())) < 90

    within(tmp_path, test)


def test_only_the_owner_can_read_the_state(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "umask 000; secret=hunter2")
        await run(ctx, "echo")
        temp = Path(await ctx.env.temp())
        states = [path for path in temp.iterdir() if b"hunter2" in path.read_bytes()]
        assert states
        assert {path.stat().st_mode & 0o777 for path in states} == {0o600}

    within(tmp_path, test)


def test_a_large_state_lasts(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "big=$(head -c 300000 /dev/zero | tr '\\0' a); for i in {1..2000}; do eval \"v$i=$i\"; done")
        assert await said(ctx, "echo ${#big} $v2000") == "300000 2000"
        long = "y=1 # " + "x" * 200_000
        await run(ctx, long)
        assert await said(ctx, "echo $y") == "1"

    within(tmp_path, test)


@SHELLS
def test_with_sh_alone_the_folder_and_exported_variables_last(tmp_path: Path, program: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    found = next(p for p in (Path("/bin") / program, Path("/usr/bin") / program) if p.exists())
    (tools / "sh").symlink_to(found)
    for name in ("cat", "rm"):
        (tools / name).symlink_to(f"/bin/{name}")

    async def test(ctx: Context) -> None:
        (tmp_path / "in ner").mkdir()
        moved = await run(ctx, "cd 'in ner'; export X='a '\\''b'; plain=1; umask 027")
        assert (moved["exit_code"], moved["cwd"]) == (0, str(tmp_path / "in ner"))
        assert await said(ctx, 'pwd; echo "$X ${plain-none}"; umask') == f"{tmp_path}/in ner\na 'b none\n0027"
        assert (await run(ctx, "X=2; exit 3"))["exit_code"] == 3
        assert (await run(ctx, "X=3; if"))["exit_code"] == 2
        started = await run(ctx, "pwd; echo $X", background=True)
        done = await call(process, ctx, action="wait", session_id=started["session_id"])
        assert done["output"] == f"{tmp_path}/in ner\n2\n"
        for number in range(40):
            await run(ctx, f"export X={number}")
        assert await said(ctx, "echo $X; cd ..") == "39"
        assert "cwd" not in await run(ctx, ":")

    within(tmp_path, test, path=str(tools))


PLAIN = ("true 1", "ls -la", "pytest -q 2>&1 | tail -20", "git commit -m 'a $b (c)'", 'a "b c";b&d\ne', "echo x >> f")
NOT_PLAIN = (
    *(
        "cd x && ls",
        "A=1 make",
        'echo "$x"',
        "'cd' /",
        "c'd' /",
        '"cd" /',
        "2>f cd /",
        "> f cd /",
        "if true; then cd /; fi",
    ),
    *(
        "ls # c",
        "echo 'a' \"b",
        "cat <<E\ncd\nE",
        "ls $(pwd)",
        "{ ls; }",
        "(ls)",
        "\\cd /",
        "! ls",
        "echo x;\ncd /",
        ". f",
    ),
    *("", "  ", "ls | read x", "time ls", "export A", "echo `ls`", "f() { ls; }", "ls && unset x"),
)


def test_only_a_command_that_cannot_change_the_shell_is_plain() -> None:
    assert [command for command in PLAIN if not plain(command)] == []
    assert [command for command in NOT_PLAIN if plain(command)] == []


@pytest.mark.parametrize("where", PLACES)
def test_a_plain_command_that_is_a_function_or_an_alias_may_change_the_shell(tmp_path: Path, where: str) -> None:
    async def test(ctx: Context) -> None:
        assert (await run(ctx, "exit 3"))["exit_code"] == 3
        assert (await run(ctx, "no-such-program"))["exit_code"] == 127
        (tmp_path / "lib").write_text("use() { chosen=$1; cd /; }\nalias pick='chosen=picked; :'\n")
        await run(ctx, f". {tmp_path}/lib; umask 027; shopt -s nullglob; set -o allexport")
        assert (await run(ctx, "use one"))["cwd"] == "/"
        assert await said(ctx, 'pwd; echo "$chosen"; umask; echo *.none; env | grep -c __melete') == "/\none\n0027\n\n0"
        assert await said(ctx, "pwd") == "/"
        await run(ctx, "pick it")
        assert await said(ctx, 'echo "$chosen"; shopt -q nullglob && [[ -o allexport ]] && echo on') == "picked\non"
        assert await said(ctx, "env | grep -c __melete; true") == "0"

    within(tmp_path, test, where=where)


def test_a_function_that_the_environment_brings_may_change_the_shell(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        await run(ctx, "load gcc")
        assert await said(ctx, 'echo "$loaded"') == "gcc"

    within(tmp_path, test, more={"BASH_FUNC_load%%": "() { loaded=$1; }"})
