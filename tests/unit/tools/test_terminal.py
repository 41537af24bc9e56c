"""terminal and process."""

from pathlib import Path

import pytest

from melete.core.tool import ToolError
from melete.tools.process import process
from melete.tools.terminal import terminal
from melete.tools.text import clean_output
from tests.unit.tools.context import Context, call, output, within


def test_output_and_exit_code(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        assert await call(terminal, ctx, command="echo hi; echo there >&2") == {"output": "hi\nthere\n", "exit_code": 0}
        failed = await output(terminal, ctx, command="exit 3")
        assert (failed.fields, failed.failed) == ({"output": "", "exit_code": 3}, True)

    within(tmp_path, test)


def test_hints_for_codes_that_need_them(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        unknown = await call(terminal, ctx, command="no-such-command-here")
        assert (unknown["exit_code"], unknown["note"]) == (127, "a command was not found")
        killed = await call(terminal, ctx, command="kill -9 $$")
        assert killed["exit_code"] == 137
        assert "SIGKILL" in killed["note"]

    within(tmp_path, test)


def test_workdir_holds_for_one_command(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        (tmp_path / "inner").mkdir()
        assert (await call(terminal, ctx, command="pwd", workdir="inner"))["output"].strip() == str(tmp_path / "inner")
        assert (await call(terminal, ctx, command="pwd"))["output"].strip() == str(tmp_path)
        (tmp_path / "plain").write_text("")
        with pytest.raises(ToolError, match="workdir nowhere does not exist"):
            await call(terminal, ctx, command="pwd", workdir="nowhere")
        with pytest.raises(ToolError, match="workdir plain is not a folder"):
            await call(terminal, ctx, command="pwd", workdir="plain")

    within(tmp_path, test)


def test_a_command_that_takes_too_long_says_what_to_do(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        late = await output(terminal, ctx, command="echo begun; sleep 300", timeout=1)
        assert late.failed
        assert (late.fields["output"], late.fields["exit_code"], late.fields["timed_out"]) == ("begun\n", None, True)
        assert "background: true" in late.fields["error"]
        with pytest.raises(ToolError, match=r"600 seconds at most; .* background"):
            await call(terminal, ctx, command="sleep 1", timeout=601)
        with pytest.raises(ToolError, match="command is empty"):
            await call(terminal, ctx, command="  ")

    within(tmp_path, test)


def test_a_script_longer_than_an_argument_may_be_runs(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        text = "line of text\n" * 30_000
        done = await call(terminal, ctx, command=f"cat > long.txt <<'END'\n{text}END\nwc -c < long.txt")
        assert int(done["output"]) == len(text)

    within(tmp_path, test)


def test_without_bash_it_is_sh(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "sh").symlink_to("/bin/sh")

    async def test(ctx: Context) -> None:
        assert (await call(terminal, ctx, command="echo $0"))["output"] == "sh\n"
        started = await call(terminal, ctx, command="echo $0", background=True)
        assert (await call(process, ctx, action="wait", session_id=started["session_id"]))["output"] == "sh\n"

    within(tmp_path, test, path=str(tools))


def test_a_terminal_for_programs_that_want_one(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        assert await call(terminal, ctx, command="test -t 1 && echo yes", pty=True) == {
            "output": "yes\n",
            "exit_code": 0,
        }
        late = await call(terminal, ctx, command="echo on; sleep 300", pty=True, timeout=1)
        assert (late["output"], late["timed_out"]) == ("on\n", True)

    within(tmp_path, test)


def test_a_background_process_is_followed_fed_and_ended(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        started = await call(terminal, ctx, command="while read x; do echo got $x; done; echo over", background=True)
        name = started["session_id"]
        assert started["status"] == "running"
        assert await call(process, ctx, action="submit", session_id=name, data="a") == {
            "success": True, "session_id": name, "sent": 1,
        }  # fmt: skip
        await call(process, ctx, action="write", session_id=name, data="b\n")
        await call(process, ctx, action="close", session_id=name)
        done = await call(process, ctx, action="wait", session_id=name, timeout=20)
        assert (done["status"], done["exit_code"], done["output"]) == ("exited", 0, "got a\ngot b\nover\n")
        assert (await call(process, ctx, action="poll", session_id=name))["output"] == ""
        log = await call(process, ctx, action="log", session_id=name, limit=1)
        assert (log["output"], log["lines"], log["offset"]) == ("over", 3, 2)
        assert (await call(process, ctx, action="log", session_id=name, offset=1))["output"] == "got b\nover"
        with pytest.raises(ToolError, match="has ended"):
            await call(process, ctx, action="submit", session_id=name, data="c")

    within(tmp_path, test)


def test_waiting_listing_and_killing(tmp_path: Path) -> None:
    async def test(ctx: Context) -> None:
        name = (await call(terminal, ctx, command="sleep 300", background=True))["session_id"]
        waited = await call(process, ctx, action="wait", session_id=name, timeout=0)
        assert (waited["status"], waited["timed_out"]) == ("running", True)
        assert [p["session_id"] for p in (await call(process, ctx, action="list"))["processes"]] == [name]
        assert (await call(process, ctx, action="kill", session_id=name))["status"] == "killed"
        with pytest.raises(ToolError, match="poll needs session_id") as caught:
            await call(process, ctx, action="poll")
        assert caught.value.fields == {"known": [name]}
        with pytest.raises(ToolError, match="no background process 'p77'"):
            await call(process, ctx, action="poll", session_id="p77")

    within(tmp_path, test)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07text", "red text"),
        (b"10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        (b"nul\0bell\x07 tab\t", "nulbell tab\t"),
        (b"caf\xe9", "caf�"),
        (b"\x1b(Bplain\x1b=", "plain"),
    ],
)
def test_output_is_what_a_person_would_see(raw: bytes, shown: str) -> None:
    assert clean_output(raw) == shown
