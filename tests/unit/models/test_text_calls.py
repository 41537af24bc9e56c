"""Calls and thoughts in a model's text: what is one, what is none, and that the pieces in which it comes do not matter."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from melete.core.event import CallDelta, Delta, TextDelta, ThinkingDelta
from melete.models.text_calls import TextReader

NAMES = {"terminal", "plan"}
LS = ("terminal", {"command": "ls -l"})
PY = ("terminal", {"command": 'python -c "print(1)"', "timeout": 5})
EMPTY = ("plan", {})
ALONE: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "tagged": ('<tool_call>{"name": "terminal", "arguments": {"command": "ls -l"}}</tool_call>', [LS]),
    "tagged on lines": ('<tool_call>\n{"name": "terminal", "arguments": {"command": "ls -l"}}\n</tool_call>\n', [LS]),
    "not closed": ('<tool_call>{"name": "terminal", "arguments": {"command": "ls -l"}}', [LS]),
    "a bracket short": ('<tool_call>{"name": "terminal", "arguments": {"command": "ls -l"}</tool_call>', [LS]),
    "a bracket short at the end": ('<tool_call>{"name": "terminal", "arguments": {"command": "ls -l"}', [LS]),
    "a bracket more": ('<tool_call>{"name": "terminal", "arguments": {"command": "ls -l"}}}</tool_call>', [LS]),
    "a dict of Python": ("<tool_call>{'name': 'terminal', 'arguments': {'command': 'ls -l'}}</tool_call>", [LS]),
    "a line break in a string": (
        '<tool_call>{"name": "terminal", "arguments": {"command": "a\nb"}}</tool_call>',
        [("terminal", {"command": "a\nb"})],
    ),
    "fenced inside": (
        '<tool_call>\n```json\n{"name": "terminal", "arguments": {"command": "ls -l"}}\n```\n</tool_call>',
        [LS],
    ),
    "no arguments": ('<tool_call>{"name": "plan"}</tool_call>', [EMPTY]),
    "arguments as text": (
        '<tool_call>{"name": "terminal", "arguments": "{\\"command\\": \\"ls -l\\"}"}</tool_call>',
        [LS],
    ),
    "parameters": ('<tool_call>{"name": "terminal", "parameters": {"command": "ls -l"}}</tool_call>', [LS]),
    "args": ('<tool_call>{"name": "terminal", "args": {"command": "ls -l"}}</tool_call>', [LS]),
    "wrapped": (
        '<tool_call>{"type": "function", "function": {"name": "terminal", "arguments": {"command": "ls -l"}}}</tool_call>',
        [LS],
    ),
    "a function's name": ('<tool_call>{"function": "terminal", "arguments": {"command": "ls -l"}}</tool_call>', [LS]),
    "several": (
        '<tool_call>{"name": "terminal", "arguments": {"command": "ls -l"}}</tool_call>\n'
        '<tool_call>{"name": "plan", "arguments": {}}</tool_call>',
        [LS, EMPTY],
    ),
    "several in one mark": (
        '<tool_call>{"name": "terminal", "arguments": {"command": "ls -l"}}\n{"name": "plan", "arguments": {}}</tool_call>',
        [LS, EMPTY],
    ),
    "a list": (
        '<tool_call>[{"name": "terminal", "arguments": {"command": "ls -l"}}, {"name": "plan"}]</tool_call>',
        [LS, EMPTY],
    ),
    "words between": (
        '<tool_call>{"name": "plan"}</tool_call> and then <tool_call>{"name": "plan"}</tool_call>',
        [EMPTY, EMPTY],
    ),
    "a function": ('<function=terminal>{"command": "ls -l"}</function>', [LS]),
    "a function, not closed": ('<function=terminal>{"command": "ls -l"}', [LS]),
    "a function without arguments": ("<function=plan></function>", [EMPTY]),
    "named parameters": (
        '<tool_call>\n<function=terminal>\n<parameter=command>\npython -c "print(1)"\n</parameter>\n'
        "<parameter=timeout>\n5\n</parameter>\n</function>\n</tool_call>",
        [("terminal", {"command": 'python -c "print(1)"', "timeout": "5"})],
    ),
    "markup in a parameter": (
        "<function=terminal><parameter=command>echo '</function><tool_call>{'</parameter></function>",
        [("terminal", {"command": "echo '</function><tool_call>{'"})],
    ),
    "parameters, not closed": ("<function=terminal><parameter=command>ls -l</parameter>", [LS]),
    "listed": ('[TOOL_CALLS][{"name": "terminal", "arguments": {"command": "ls -l"}}]', [LS]),
    "listed by name": ('[TOOL_CALLS]terminal{"command": "ls -l"}', [LS]),
    "listed with ids": ('[TOOL_CALLS]terminal[CALL_ID]abc[ARGS]{"command": "ls -l"}', [LS]),
    "python tag": ('<|python_tag|>{"name": "terminal", "parameters": {"command": "ls -l"}}<|eom_id|>', [LS]),
    "two python tags": (
        '<|python_tag|>{"name": "plan", "parameters": {}}; {"name": "terminal", "parameters": {"command": "ls -l"}}',
        [EMPTY, LS],
    ),
    "another mark": ('<|tool_call|>[{"name": "terminal", "arguments": {"command": "ls -l"}}]<|/tool_call|>', [LS]),
    "bare": ('{"name": "terminal", "arguments": {"command": "ls -l"}}', [LS]),
    "bare, several": (
        '{"name": "terminal", "arguments": {"command": "ls -l"}}\n{"name": "plan", "parameters": {}}\n',
        [LS, EMPTY],
    ),
    "bare list": ('[{"name": "terminal", "arguments": {"command": "ls -l"}}]', [LS]),
    "bare, wrapped": (
        '{"tool_calls": [{"id": "x", "type": "function", "function": {"name": "terminal", "arguments": '
        '"{\\"command\\": \\"ls -l\\"}"}}]}',
        [LS],
    ),
    "fenced": ('```json\n{"name": "terminal", "arguments": {"command": "ls -l"}}\n```', [LS]),
    "fenced without a name": ('```\n{"name": "terminal", "arguments": {"command": "ls -l"}}\n```\n', [LS]),
    "fenced as a call": ('```tool_call\n{"name": "terminal", "arguments": {"command": "ls -l"}}', [LS]),
    "fenced and marked": (
        '```xml\n<tool_call>{"name": "terminal", "arguments": {"command": "ls -l"}}</tool_call>\n```',
        [LS],
    ),
    "half a pair": (
        '<tool_call>{"name": "terminal", "arguments": {"command": "\\ud800"}}</tool_call>',
        [("terminal", {"command": "\ud800"})],
    ),
    "quotes in quotes": (
        '<tool_call>{"name": "terminal", "arguments": {"command": "python -c \\"print(1)\\"", "timeout": 5}}</tool_call>',
        [PY],
    ),
}
WORDS = {
    "plain": "There are <b>three</b> files: a[1], {x} and `<tool_call>`.",
    "space at the end": "Done. \n",
    "nothing": "",
    "space": " \n",
    "an unknown tool": '<tool_call>{"name": "launch", "arguments": {}}</tool_call>',
    "one of two unknown": '<tool_call>[{"name": "plan", "arguments": {}}, {"name": "launch"}]</tool_call>',
    "an unknown function": "<function=launch><parameter=a>1</parameter></function>",
    "no JSON": "<tool_call>terminal ls</tool_call>",
    "not a number": '<tool_call>{"name": "terminal", "arguments": {"timeout": NaN}}</tool_call>',
    "arguments that are no object": '<tool_call>{"name": "terminal", "arguments": ["ls"]}</tool_call>',
    "broken off in a string": '<tool_call>{"name": "terminal", "arguments": {"command": "rm -rf bui',
    "broken off in a number": '<tool_call>{"name": "terminal", "arguments": {"timeout": 1',
    "broken off in a parameter": "<function=terminal><parameter=command>rm -rf /tm",
    "a parameter that ends too soon": "<function=terminal><parameter=command>a</parameter>b</parameter></function>",
    "an answer in JSON": '{"files": ["a", "b"], "name": "terminal"}',
    "an answer with a tool's name": '{"name": "terminal", "color": "red"}',
    "a listing of tools": '[{"name": "terminal", "arguments": {}, "about": "runs commands"}]',
    "words behind": '{"name": "terminal", "arguments": {"command": "ls -l"}} is what I would call.',
    "words before a block": 'For example:\n```json\n{"name": "terminal", "arguments": {"command": "ls"}}\n```',
    "words behind a block": '```json\n{"name": "plan", "arguments": {}}\n```\nThat is the format.',
    "a block of code": '```python\nprint({"name": "plan"})\n```',
    "quoted": 'Write `<tool_call>{"name": "plan", "arguments": {}}</tool_call>` for that.',
    "quoted in a block": 'The format:\n```\n<tool_call>{"name": "plan", "arguments": {}}</tool_call>\n```\nThat is all.',
    "only the mark": "<tool_call>",
    "half a mark": "a < b and <tool",
    "too deep": '<tool_call>{"name": "plan", "arguments": ' + '{"a":' * 5000 + "1" + "}" * 5002,
}
THOUGHTS = {
    "think": ("<think>Let me see.\n\nYes.</think>\n\nAll is well.", "Let me see.\n\nYes.", "All is well."),
    "thinking": ("\n<thinking>\nHm.\n</thinking>Well.", "Hm.", "Well."),
    "empty": ("<think>\n\n</think>\n\nWell.", "", "Well."),
    "not closed": ("<think>I go on and <tool_call>{} on ", "I go on and <tool_call>{} on", ""),
    "half closed": ("<think>Hm.</thin", "Hm.</thin", ""),
    "channels": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Well.",
        "Hm.",
        "Well.",
    ),
    "in the middle": ("Well. <think>Hm.</think>", "", "Well. <think>Hm.</think>"),
}


def cuts(text: str) -> list[list[str]]:
    """The text whole, by characters, and cut once at every place."""
    ways = [[text], list(text)]
    return ways + [[text[:at], text[at:]] for at in range(1, min(len(text), 400))]


def read(pieces: Sequence[str], *, cut: bool = False, bare: bool = True) -> tuple[TextReader, list[Delta]]:
    reader = TextReader(NAMES, set, bare=bare)
    shown = [delta for piece in pieces for delta in reader.feed(piece)]
    return reader, [*shown, *reader.end(cut=cut)]


def words(deltas: Sequence[object], kind: type[TextDelta | ThinkingDelta] = TextDelta) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, kind))


def calls(reader: TextReader) -> list[tuple[str, Any]]:
    return [(call.name, msgspec.json.decode(call.arguments) if "\\ud" not in call.arguments else {"command": "\ud800"})
            for call in reader.calls]  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_a_call_is_found_however_it_is_written_and_cut(name: str) -> None:
    text, wanted = ALONE[name]
    for pieces in cuts(text):
        reader, shown = read(pieces)
        assert calls(reader) == wanted, pieces
        assert (reader.text, words(shown)) == ("", "")
        told = [delta for delta in shown if isinstance(delta, CallDelta)]
        assert [(d.index, d.id, d.name, d.arguments) for d in told] == [
            (number, call.id, call.name, call.arguments) for number, call in enumerate(reader.calls)
        ]


@pytest.mark.parametrize("name", [n for n in ALONE if not n.startswith(("bare", "fenced"))] + ["fenced inside"])
def test_words_before_a_call_are_the_text(name: str) -> None:
    text, wanted = ALONE[name]
    for pieces in cuts("Let me look. \n" + text):
        reader, shown = read(pieces)
        assert (reader.text, words(shown), calls(reader)) == ("Let me look.", "Let me look.", wanted), pieces


@pytest.mark.parametrize("name", WORDS)
def test_what_is_no_call_stays_as_it_is(name: str) -> None:
    text = WORDS[name]
    for pieces in cuts(text) if len(text) < 1000 else [[text]]:
        reader, shown = read(pieces)
        assert (reader.text, words(shown), reader.calls, reader.split) == (text, text, [], False), pieces


@pytest.mark.parametrize("name", THOUGHTS)
def test_thoughts_at_the_start_are_told_apart(name: str) -> None:
    text, thinking, answer = THOUGHTS[name]
    for pieces in cuts(text):
        reader, shown = read(pieces)
        assert (reader.thinking, reader.text) == (thinking, answer), pieces
        assert (words(shown, ThinkingDelta), words(shown)) == (thinking, answer)


def test_thoughts_and_a_call() -> None:
    for name, (markup, wanted) in ALONE.items():
        for pieces in ([f"<think>I look.</think>\n{markup}"], list(f"<think>I look.</think>\n{markup}")):
            reader, _ = read(pieces)
            assert (reader.thinking, reader.text, calls(reader)) == ("I look.", "", wanted), name


def test_what_follows_a_made_up_result_is_not_read() -> None:
    text = (
        '<tool_call>{"name": "plan"}</tool_call>\n<tool_response>{"ok": true}</tool_response>\n'
        '<tool_call>{"name": "terminal", "arguments": {"command": "rm -rf build"}}</tool_call>'
    )
    reader, _ = read([text])
    assert calls(reader) == [EMPTY]


def test_json_is_no_call_where_the_answer_is_to_be_json() -> None:
    text = '{"name": "terminal", "arguments": {"command": "ls -l"}}'
    reader, _ = read([text], bare=False)
    assert (reader.text, reader.calls) == (text, [])


def test_words_are_shown_as_soon_as_they_are_certain() -> None:
    reader = TextReader(NAMES, set)
    shown = [words(reader.feed(piece)) for piece in ("I ", "see <b", ">. <", "tool", "box> ", '{"a": 1}', " [TOOL")]
    assert shown == ["I", " see <b", ">.", "", " <toolbox>", ' {"a": 1}', ""]
    assert words(reader.end()) == " [TOOL"
    answer = TextReader(NAMES, set)
    assert words(answer.feed('{"files": ')) == '{"files":'


def test_a_call_that_is_cut_off_is_told_and_left_to_be_refused() -> None:
    cut_off = {
        '<tool_call>{"name": "terminal", "arguments": {"command": "rm -rf bui': '{"command": "rm -rf bui',
        '{"name": "terminal", "arguments": {"command": "rm -rf bui': '{"command": "rm -rf bui',
        "<function=terminal><parameter=command>rm -rf /tm": "{",
        '<function=terminal>{"command": "rm': '{"command": "rm',
        "<function=terminal>": "",
        '[TOOL_CALLS]terminal{"command": "rm': '{"command": "rm',
    }
    for text, arguments in cut_off.items():
        reader, _ = read([text], cut=True)
        assert [(call.name, call.arguments) for call in reader.calls] == [("terminal", arguments)]
    for text in ('<tool_call>{"na', '<tool_call>{"name": "lau', '{"files": ["a", "b', "<tool_call>"):
        reader, _ = read([text], cut=True)
        assert (reader.text, reader.calls) == (text, [])


MARKS = [
    "<tool_call>", "</tool_call>", "<function=terminal>", "<function=", "</function>", "<parameter=command>", "</parameter>",
    "[TOOL_CALLS]", "<|python_tag|>", "<|tool_call|>", "```", "```json\n", "\n", " ", "{", "}", "[", "]", '"', "'", ",", ":", "\\",
    '{"name": "terminal", "arguments": ', '{"command": "ls"}', '"name"', '"terminal"', "<think>", "</think>", "plan", "launch", "<",
    "<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant", "<|channel|>final<|message|>", "tool_response",
    "é", "\ud800", "</", "tool_call>",
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(MARKS), st.text(max_size=3)), max_size=14).map("".join)


@settings(max_examples=600)
@given(text=texts, places=st.lists(st.integers(0, 200), max_size=6), cut=st.booleans())
@example(text="<tool_call>``` {", places=[], cut=False)
def test_any_text_in_any_pieces_is_the_same_reply(text: str, places: list[int], cut: bool) -> None:
    whole, _ = read([text], cut=cut)
    ends = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    for pieces in ([text[a:b] for a, b in itertools.pairwise(ends)], list(text)):
        reader, shown = read(pieces, cut=cut)
        assert (reader.thinking, reader.text, reader.calls) == (whole.thinking, whole.text, whole.calls)
        assert words(shown) == reader.text
        assert words(shown, ThinkingDelta) == reader.thinking
    assert {call.name for call in whole.calls} <= NAMES
    if not whole.calls and not whole.split:
        assert whole.text == text
    if not cut:
        for call in whole.calls:
            assert isinstance(msgspec.json.decode(call.arguments.encode("utf-8", "replace")), dict)


def test_a_long_argument_in_small_pieces_costs_little() -> None:
    command = "x = {'a': [1, 2]} <b>\\n" * 4_000
    text = f'<tool_call>{{"name": "terminal", "arguments": {{"command": "{command}"}}}}</tool_call>'
    reader = TextReader(NAMES, set)
    assert not [
        delta
        for at in range(0, len(text), 8)
        for delta in reader.feed(text[at : at + 8])
        if isinstance(delta, TextDelta)
    ]
    reader.end()
    assert calls(reader) == [("terminal", {"command": command.replace("\\n", "\n")})]
