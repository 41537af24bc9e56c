"""Claims in answers: found in sentences with labels, bound to calls, and checked in reports."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from melete.agent.claim_words import claims, handles, paths
from melete.agent.claims import Done, check_answer, check_report
from tests.unit.agent.claim_set import SET


def found(text: str) -> set[str]:
    return {claim.kind for claim in claims(text)}


def test_the_labelled_sentences() -> None:
    wanted = [(text, set(kinds.split())) for text, kinds in SET]
    pairs = [(found(text), kinds, text) for text, kinds in wanted]
    hits = sum(len(got & kinds) for got, kinds, _ in pairs)
    missed = [text for got, kinds, text in pairs if kinds - got]
    wrong = [text for got, kinds, text in pairs if got - kinds]
    assert hits >= 0.95 * sum(len(kinds) for _, kinds in wanted), missed
    assert len(wrong) <= 2, wrong


def call(
    command: str = "", *, tool: str = "terminal", code: int = 0, result: str = "", path: str = "", ok: bool = True
) -> Done:
    arguments = {"path": path} if path else {"command": command}
    return Done(
        tool=tool, asked=msgspec.json.encode(arguments).decode(), arguments=arguments, ok=ok, code=code, result=result
    )


def answer(text: str, *calls: Done, folder: Path | None = None) -> list[tuple[str, str]]:
    async def look(path: str) -> bool | None:
        return (folder / path).exists() if folder else None

    return [(one.kind, one.verdict) for one in asyncio.run(check_answer(text, calls, look))]


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        ((), "unverifiable"),
        ((call("ls"),), "unverifiable"),
        ((call("pytest -q"),), "verified"),
        ((call("pytest -q", code=1),), "false"),
        ((call("pytest -q", code=1), call("sed -i s/a/b/ x.py"), call("pytest -q")), "verified"),
        ((call("pytest -q", ok=False),), "false"),
        ((call("make test", tool="process"),), "verified"),
        ((call("ls tests"), call("cat tests/test_a.py")), "unverifiable"),
        ((call("git add tests && git commit -m 'tests pass'"),), "unverifiable"),
        ((call("pytest --version"),), "unverifiable"),
        ((call("bash run_tests.sh"),), "verified"),
        ((call("bash -c 'ls tests'"),), "unverifiable"),
        ((call("pytest"), call("grep -rn old_name tests", code=1)), "verified"),
        ((call("bash -lc 'cd a && pytest -q' | tail -3"),), "verified"),
        ((call("pytest -q | tail -3", result='{"output": "x\\n2 failed, 3 passed in 1.1s"}'),), "false"),
        ((call("pytest || true", result='{"output": "2 failed, 3 passed"}'),), "false"),
    ],
)
def test_tests_are_bound_to_the_last_call_that_ran_them(calls: tuple[Done, ...], verdict: str) -> None:
    assert answer("All tests pass.", *calls) == [("tests", verdict)]


def test_files_are_looked_at_and_bound_to_what_wrote_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    wrote = call(tool="write_file", path="a.txt", code=-1)
    assert answer("I wrote `a.txt`.", wrote, folder=tmp_path) == [("wrote", "verified")]
    assert answer("I wrote `a.txt`.", call("echo a > a.txt"), folder=tmp_path) == [("wrote", "verified")]
    assert answer("I wrote `a.txt`.", folder=tmp_path) == [("wrote", "unverifiable")]
    assert answer("I wrote `b.txt`.", wrote, folder=tmp_path) == [("wrote", "false")]
    assert answer("I deleted `a.txt`.", call("rm a.txt"), folder=tmp_path) == [("removed", "false")]
    assert answer("I deleted `b.txt`.", call("rm b.txt"), folder=tmp_path) == [("removed", "verified")]
    assert answer("The file has been written.") == [("wrote", "unverifiable")]
    assert answer("I wrote `a.txt`.", wrote) == [("wrote", "unverifiable")]


def test_what_only_looks_at_a_file_has_not_written_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a")
    for looked in ("cat a.py", "grep -n x a.py", "pytest a.py", "git add a.py && git commit -m a.py"):
        assert answer("I fixed the bug in `a.py`.", call(looked), folder=tmp_path) == [("wrote", "unverifiable")], (
            looked
        )
    for changed in ("sed -i s/a/b/ a.py", "cat x > a.py", "git checkout a.py", "python - <<'E'\nopen('a.py', 'w')\nE"):
        assert answer("I fixed the bug in `a.py`.", call(changed), folder=tmp_path) == [("wrote", "verified")], changed
    built = call("make", result='{"output": "wrote a.py"}')
    assert answer("I generated `a.py`.", built, folder=tmp_path) == [("wrote", "verified")]


def test_a_part_that_is_removed_and_a_name_that_was_left(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a")
    edit, move = call(tool="patch", path="a.py", code=-1), call("git mv b.py a.py")
    assert answer("I removed the debug prints from `a.py`.", edit, folder=tmp_path) == [("wrote", "verified")]
    assert answer("I renamed `b.py` to `a.py`.", move, folder=tmp_path) == [("wrote", "verified")]


def test_a_report_names_what_can_be_checked(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("x")

    async def look(path: str) -> bool | None:
        return (tmp_path / path).exists()

    calls = (call("curl", result='{"url": "https://host/pull/12", "number": 12}'), call("make", code=2))
    text = (
        "See `there.md` and `gone.md`. It is https://host/pull/12, not https://host/pull/13. PR #12 and ticket 99. "
        "make exited with status 2. The script exited with code 7. `missing.md` does not exist."
    )
    rows = {one.claim: one.verdict for one in asyncio.run(check_report(text, calls, look))}
    assert rows == {
        "there.md": "verified",
        "gone.md": "false",
        "https://host/pull/12": "verified",
        "https://host/pull/13": "unverifiable",
        "12": "verified",
        "99": "unverifiable",
        "2": "verified",
        "7": "false",
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("I wrote brief.txt and other.txt.", ["brief.txt", "other.txt"]),
        ("Created `a.py`, b.py and then `c/d.py`. All is well.", ["a.py", "b.py", "c/d.py"]),
        ("I edited a.py, which imports b.py, and c.py is unchanged.", ["a.py"]),
        ("I wrote a.py, not b.py.", ["a.py"]),
    ],
)
def test_files_that_are_listed_share_their_verb(text: str, named: list[str]) -> None:
    assert [claim.handle for claim in claims(text)] == named


def test_names_that_are_no_paths() -> None:
    text = "With Node.js 3.11 from python.org, e.g. https://host/a.txt, run `f(x)` or `a=b` and/or wait; see ./bin and x/y.py"
    assert [*paths(text)] == ["./bin", "x/y.py"]
    assert not handles("There is no `a.txt`.")


def test_a_long_text_costs_little() -> None:
    text = "All tests pass, and I wrote `a/b.txt`. " * 5_000
    assert len(claims(text)) == 2
    assert claims("word " * 50_000) == []
