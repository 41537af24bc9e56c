"""Results within their limit, whatever their shape: redacted, sound JSON, and nothing lost that is not in the file."""

import asyncio
import json
import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from melete.agent.results import LARGE, encode, failure, shape
from melete.core.message import ToolCall
from melete.core.tool import Output

LIMIT = 3_000
any_text = st.text(max_size=60) | st.text(st.sampled_from('"\\\n\x00äé😀'), min_size=1, max_size=20).map(
    lambda t: t * 400
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | any_text,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def shaped(fields: dict[str, Any], limit: int = LIMIT) -> tuple[str, str, dict[str, str]]:
    """The content, the path and the files that were written."""
    files: dict[str, str] = {}

    async def spill(name: str, text: str) -> str:
        files[f"/state/{name}"] = text
        return f"/state/{name}"

    _, content, path = asyncio.run(shape(fields, limit=limit, redact=lambda text: text, spill=spill))
    return content, path, files


@given(st.dictionaries(st.text(max_size=8), values, max_size=5))
def test_any_result_is_json_within_the_limit_and_loses_nothing(fields: dict[str, Any]) -> None:
    content, path, files = shaped(fields)
    assert len(content) <= LIMIT
    shown = json.loads(content)
    if not path:
        assert content == encode(fields)
        return
    assert shown["full_output"] == path
    if "truncated" in shown:
        assert files[path] == encode(fields)
    else:
        (name,) = [key for key, value in fields.items() if value == files[path] and shown[key] != value]
        assert {**shown, name: None} == {**json.loads(encode(fields)), name: None, "full_output": path}


def test_a_short_result_stays_as_it_is() -> None:
    assert shaped({"success": True, "n": 1}) == ('{"success":true,"n":1}', "", {})


def test_many_lines_are_cut_by_lines() -> None:
    content, path, files = shaped({"output": "\n" * 2_600}, 20_000)
    assert path
    assert "602 lines left out" in json.loads(content)["output"]
    assert files[path] == "\n" * 2_600


def test_a_failed_output_says_so_when_it_is_cut_as_a_whole() -> None:
    content, _, _ = shaped({"success": False, "rows": list(range(3_000))})
    assert json.loads(content)["success"] is False


def test_what_json_cannot_say_is_written_out() -> None:
    assert encode({"a": {1}, "half": "\ud83d"}) == '{"a":[1],"half":"\\\\ud83d"}'
    assert json.loads(encode({"e": ValueError("no")})) == {"e": "no"}


def test_an_output_keeps_its_marks() -> None:
    async def spill(name: str, text: str) -> str:
        raise AssertionError(name)

    given_ = Output(fields={"a": 1}, failed=True, taint="web")
    output, content, path = asyncio.run(shape(given_, limit=LIMIT, redact=str.upper, spill=spill))
    assert (output, content, path) == (given_, '{"A":1}', "")


def test_a_failure_is_one_object_whatever_fields_it_has() -> None:
    ended = failure(
        ToolCall(id="c", name="n", arguments=""), "no", fields={"success": True, "error": "x", "near": ["a"]}
    )
    assert json.loads(ended.result.content) == {"success": False, "error": "no", "near": ["a"]}
    assert (ended.result.error, ended.outcome) == (True, "error")


def test_a_large_result_is_looked_through_beside_the_loop_a_small_one_at_once() -> None:
    threads: set[int] = set()

    def redact(text: str) -> str:
        threads.add(threading.get_ident())
        return text

    async def spill(name: str, text: str) -> str:
        return name

    for size, aside in ((LARGE // 2, False), (LARGE * 2, True)):
        threads.clear()
        asyncio.run(shape({"lines": ["word " * (size // 5)]}, limit=LIMIT, redact=redact, spill=spill))
        assert (threads == {threading.get_ident()}) is not aside
