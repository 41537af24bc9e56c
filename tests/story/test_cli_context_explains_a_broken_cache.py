"""`melete context` of a session shows what came from the provider's cache, request by request, and what broke it."""

from pathlib import Path

import pytest

from melete.core.message import Usage
from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import Terminal, lines, melete

WARM = Usage(input=200, cache_read=19_800, output=20)
COLD = Usage(input=20_000, output=20)
SCRIPT = [
    Call("terminal", {"command": "true"}, usage=Usage(input=200, cache_write=19_800, output=20)),
    Say("Done.", usage=WARM),
    Say("Done again.", usage=COLD),
]


def two_runs(model: ScriptedModel, folder: Path) -> None:
    assert melete("run", "Do it.", model=model, cwd=folder).returncode == 0
    done = melete("run", "-v", "-c", "-t", "file", "Once more.", model=model, cwd=folder)
    assert done.returncode == 0
    assert "the prompt cache was lost: the tools changed: " in done.stderr
    assert "-terminal" in done.stderr


def test_each_request_is_listed_with_its_share_and_what_broke_it(tmp_path: Path) -> None:
    with ScriptedModel(SCRIPT) as model:
        two_runs(model, tmp_path)
        shown = melete("context", "-c", model=model, cwd=tmp_path)
        rows = lines(melete("context", "-c", "--json", model=model, cwd=tmp_path).stdout)
        new = melete("context", model=model, cwd=tmp_path)
    assert "REQUEST  PROMPT  CACHED  WRITTEN  SHARE  MODEL" in shown.stdout
    assert "3!       20,000       0        -     0%" in shown.stdout
    assert "! request 3   the tools changed: " in shown.stdout
    assert "20,000 tokens were read anew" in shown.stdout
    assert shown.stdout.endswith("From the cache: 19,800 of 60,000 tokens (33%).\n")
    cache = [row for row in rows if row["group"] == "cache"]
    assert [(row["request"], row["prompt"], row["cached"], row["share"]) for row in cache] == [
        (1, 20_000, 0, 0.0), (2, 20_000, 19_800, 0.99), (3, 20_000, 0, 0.0),
    ]  # fmt: skip
    assert [row["broken_by"] is None for row in cache] == [True, True, False]
    assert cache[0]["seq"] < cache[1]["seq"] < cache[2]["seq"]
    assert {"system", "tools", "messages"} <= {row["group"] for row in rows}
    assert "REQUEST" not in new.stdout


@pytest.mark.parametrize(("columns", "more"), [(100, {}), (20, {}), (12, {"NO_COLOR": "1"}), (40, {"TERM": "dumb"})])
def test_it_fits_any_terminal(columns: int, more: dict[str, str], tmp_path: Path) -> None:
    with ScriptedModel(SCRIPT) as model:
        two_runs(model, tmp_path)
        with Terminal(["context", "-c"], model=model, cwd=tmp_path, columns=columns, more=more) as terminal:
            assert terminal.end() == 0
            shown = terminal.rest()
    assert ("99% █████████░" in shown) == (columns == 100)
    assert "request 3" in shown
    assert "19,800 of 60,000" in " ".join(shown.split())


def test_a_run_and_the_chat_show_the_share(tmp_path: Path) -> None:
    with ScriptedModel(SCRIPT) as model:
        done = melete("run", "-v", "Do it.", model=model, cwd=tmp_path)
        assert "40,000 tokens in (19,800 cached, 49%)" in done.stderr
        told = melete("chat", "-c", model=model, cwd=tmp_path, stdin=b"/context\n/exit\n")
    assert "From the cache: 19,800 of 40,000 tokens (49%)." in told.stdout
