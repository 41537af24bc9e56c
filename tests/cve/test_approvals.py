"""What agents were attacked by on the way from a question to a command: the first five classes, and two ways round the policy."""

import ast
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from melete.security.commands import judge_command
from melete.security.plan import plan
from melete.security.words import UNKNOWN
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.story import test_approval_is_asked_once_and_the_first_answer_wins as asking
from tests.story import test_what_was_approved_is_what_runs as approved
from tests.story.cli import lines, melete
from tests.story.homes import configure, of_type
from tests.unit.agent import test_sealing as sealing
from tests.unit.security import test_visible as shown

SOURCE = Path(__file__).parents[2] / "src" / "melete"
STUB = """#!/bin/sh
{ printf '%s' "$0" | sed 's|.*/||'; for each in "$@"; do printf '\\0%s' "$each"; done; printf '\\n'; } >> "$STUB_LOG"
"""
NESTED = """
from melete_tools import terminal
for command in {}:
    try:
        print(terminal(command=command))
    except Exception as error:
        print(error)
"""
PRACTICE = ("skills/user/mine/SKILL.md", "skills/hub/theirs/SKILL.md", "skills/.hub/lock.json")
"""What the agent may change through its skill tools only, which scan, ask and keep the version before."""
QUOTED = (
    "probe a 'b c' \"d e\"", "p'ro'be \"\"x", "\\probe a\\ b", "X=probe; $X one", "${X:-probe} two", "probe $'a\\tb' $'\\x41'",
    "probe {a,b}{1..3}", "sh -c 'probe \"$1\" \"$0\"' zero one", "env -i PATH=\"$PATH\" STUB_LOG=\"$STUB_LOG\" probe in env",
    "env -S 'probe split words'", "eval 'probe' \"'ev al'\"", "echo probe from a pipe | sh", "printf 'probe %s\\n' printed | sh",
    "sh <<'E'\nprobe heredoc\nE", "bash -c \"$(echo cHJvYmUgZGVjb2RlZA== | base64 -d)\"", "timeout 5 nice -n 1 probe wrapped",
    "f() { probe \"$1\" inside; }; f called", "for i in 1 2; do probe $i; done", "true && probe and || probe or",
    "echo one two | xargs probe", "find . -name log -exec probe {} \\;", "bash <<< 'probe here string'", "command probe builtin",
)  # fmt: skip


def test_01_approval_parse_differs_from_execution(tmp_path: Path) -> None:
    """What the plan holds is, argument by argument, what a real shell then runs; what it does not know it says."""
    stub = tmp_path / "bin" / "probe"
    stub.parent.mkdir()
    stub.write_text(STUB)
    stub.chmod(0o755)
    log = tmp_path / "log"
    variables = {"PATH": f"{stub.parent}:{os.environ['PATH']}", "STUB_LOG": str(log), "HOME": str(tmp_path)}
    for command in QUOTED:
        log.write_text("")
        subprocess.run(
            ["bash", "-c", command], env=variables, cwd=tmp_path, check=False, capture_output=True, timeout=30
        )
        ran = [line.split("\0") for line in log.read_text().splitlines()]
        found = plan(command)
        told = [[program.name, *program.words] for program in found.programs if program.name == "probe"]
        assert ran, command
        assert all(any(_same(argv, each) for each in told) for argv in ran), (command, ran, told)


def _same(ran: Sequence[str], told: Sequence[str]) -> bool:
    """Whether the arguments are the ones that were told, where those are known."""
    known = [re.escape(word).replace(re.escape(UNKNOWN), ".*") for word in told]
    return len(ran) == len(told) and all(map(re.fullmatch, known, ran))


def test_02_always_allow_grant_covers_more_than_was_shown(tmp_path: Path) -> None:
    """A grant for one command of a program that runs others covers that command alone, and never the program."""
    folder = approved.work(tmp_path)
    delete = "busybox find . -name none -delete"
    approved.play(folder, [approved.shell(delete), approved.DONE], ["always"])
    others = [delete, f"busybox sh -c {shlex.quote(delete)}", "busybox find . -delete", f"{delete}; {delete}"]
    ended, _, _ = approved.play(folder, [*map(approved.shell, others), approved.DONE], [], attended=False)
    assert [fact.outcome == "denied" for fact in ended] == [False, True, True, True]
    approved.test_an_interpreter_alone_is_never_granted_for_longer(tmp_path)


def test_03_approval_display_spoofed_or_truncated(tmp_path: Path) -> None:
    """Nothing in a question hides, moves or looks like something else, and what is too long to read cannot be approved."""
    approved.test_a_question_shows_what_a_terminal_would_hide(tmp_path)
    approved.test_what_cannot_be_shown_whole_cannot_be_approved(tmp_path)
    shown.test_two_texts_never_look_the_same_and_nothing_hidden_is_left()


def test_04_approved_object_changes_before_it_runs(tmp_path: Path) -> None:
    """A script or folder that is swapped behind the yes does not run (`python -m benchmarks approvals` does it 1,000 times)."""
    for name, test in (
        ("one", approved.test_a_script_that_changes_while_it_is_asked_about_runs_as_it_was),
        ("two", sealing.test_a_script_that_is_changed_afterwards_runs_as_it_was),
        ("three", sealing.test_a_folder_that_is_another_one_runs_nothing),
    ):
        (tmp_path / name).mkdir()
        test(tmp_path / name)


def test_05_approver_identity_not_checked(tmp_path: Path) -> None:
    """A yes from another person, another key or the agent's own machinery does not count."""
    approved.test_an_answer_of_somebody_who_was_not_asked_does_not_count(tmp_path)


def test_16_the_agent_loosens_its_own_policy(tmp_path: Path, own_home: Path) -> None:
    """Not even with questions switched off do the agent's tools change the settings, the keys or the grants."""
    home = configure(own_home, approvals={"mode": "off"})
    (home / ".env").write_text("ACME_API_KEY=0123456789abcdef\n")
    (home / "grants.json").write_text('{"version":1,"grants":[]}')
    before = {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()}
    writes = [
        *(Call("write_file", {"path": str(home / name), "content": "{}"}) for name in before),
        *(Call("patch", {"path": str(home / name), "old_string": "a", "new_string": "b"}) for name in before),
        *(Call("terminal", {"command": f"echo x >> {home / name}"}) for name in before),
        *(Call("terminal", {"command": f"rm -f ~/.melete/{name}"}) for name in before),
        Call("terminal", {"command": "melete config set approvals.after_untrusted allow"}),
        Call("terminal", {"command": "melete policy revoke --all"}),
        Call("terminal", {"command": "melete skills uninstall greet; melete skills install /tmp/x --yes"}),
        *(Call("write_file", {"path": str(home / name), "content": "x"}) for name in PRACTICE),
        *(
            Call("terminal", {"command": f"mkdir -p {(home / name).parent}; echo x > {home / name}"})
            for name in PRACTICE
        ),
        Call(
            "execute_code", {"code": f"from melete_tools import write_file\nwrite_file('{home}/config.yaml', '{{}}')"}
        ),
    ]
    with ScriptedModel([Calls(writes), Say("Done.")]) as model:
        done = melete("run", "--json", "--env", "local", "--yolo", "Go.", model=model, cwd=tmp_path)
    ended = of_type(lines(done.stdout), "tool.ended")
    assert len(ended) >= len(writes)
    assert {path.name: path.read_bytes() for path in home.iterdir() if path.name in before} == before
    assert not [name for name in PRACTICE if (home / name).exists()]


def test_17_second_path_skips_the_tool_policy(tmp_path: Path, own_home: Path) -> None:
    """Tools are run in one place, behind the guards; whichever way a call comes, it is judged there, and headless means no."""
    assert _callers_of_run() == ["agent/dispatch.py"]
    asking.test_without_a_person_it_is_denied_with_a_reason(tmp_path)
    forbidden, asked = "rm -rf /etc", "find . -name none -delete"
    assert judge_command(forbidden).verdict == "forbid"
    calls = [
        Call("terminal", {"command": forbidden}),
        Call("terminal", {"command": forbidden, "background": True}),
        Call("execute_code", {"code": NESTED.format([forbidden, asked])}),
        Call("terminal", {"command": asked, "background": True}),
    ]
    with ScriptedModel([Calls(calls), Say("Done.")]) as model:
        done = melete("run", "--json", "--env", "local", "Go.", model=model, cwd=tmp_path)
    ended = [msgspec.convert({**row["result"], **row}, dict) for row in of_type(lines(done.stdout), "tool.ended")]
    commands = [row for row in ended if row["name"] == "terminal"]
    assert len(commands) == 5
    assert {row["outcome"] for row in commands} == {"denied"}


def _callers_of_run() -> Sequence[str]:
    """The files in which a tool's `run` is called."""
    return [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("tool.run")
    ]
