"""Events as lines: what they hold, and that no text of a model or tool can move the cursor."""

import io
import unicodedata
from datetime import UTC, datetime
from typing import Literal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from melete.app.reaching import choice
from melete.core.event import (
    Answered,
    Asked,
    CallDelta,
    Event,
    Notice,
    Question,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Steered,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from melete.core.message import Message, Origin, Text, Thinking, ToolCall, ToolResult, Usage, user
from melete.security.redact import Redactor
from melete.surfaces.cli.output import one_line, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.progress import Progress
from melete.surfaces.cli.questions import no_answer
from melete.surfaces.cli.render import facts, question_lines, short_argument, tool_line, usage_text
from melete.surfaces.cli.tables import ago

PLAIN = Paint(io.StringIO(), {})


def ended(content: str, outcome: str = "ok") -> ToolEnded:
    result = ToolResult(call="c", name="terminal", content=content)
    return msgspec.convert({"type": "tool.ended", "result": result, "outcome": outcome, "seconds": 1.25}, ToolEnded)


def began(arguments: str) -> ToolStarted:
    return ToolStarted(call=ToolCall(id="c", name="terminal", arguments=arguments))


def test_a_call_is_one_line() -> None:
    start = began('{"workdir": "x", "command": "ls\\n -l"}')
    assert tool_line(ended("{}"), start, PLAIN) == "✓ terminal ls -l  1.2 s"
    assert tool_line(ended('{"exit_code": 3}', "error"), start, PLAIN) == "✗ terminal ls -l  1.2 s  exit status 3"
    assert tool_line(ended('{"error": "no\\nway"}', "denied"), None, PLAIN) == "⊘ terminal  1.2 s  denied: no way"
    assert tool_line(ended("not json", "not_run"), None, PLAIN) == "⊘ terminal  1.2 s  not run"


def test_a_secret_is_taken_out_before_a_line_is_cut() -> None:
    narrow = Paint(io.StringIO(), {})
    narrow.width = 40
    shown: list[str] = []
    progress = Progress(
        narrow, Redactor({"KEY": "sk-0123456789-0123456789-0123456789"}), verbose=False, write=shown.append
    )
    progress.show(began('{"command": "curl -H sk-0123456789-0123456789-0123456789 there"}'))
    progress.show(ended("{}"))
    assert shown == ["✓ terminal curl -H [redacted:KE…  1.2 s\n"]


def test_the_argument_that_says_most_is_shown() -> None:
    assert short_argument('{"timeout": 3, "pattern": "p", "path": "a"}') == "a"
    assert short_argument('{"other": "b"}') == "b"
    assert short_argument('{"number": 1}') == ""
    assert short_argument("{broken") == "{broken"


def test_tokens_are_told_with_what_came_from_a_cache() -> None:
    assert usage_text(Usage(input=10, cache_read=1000, cache_write=5, output=7)) == (
        "1,015 tokens in (1,000 cached, 98%), 7 out"
    )


def test_how_long_ago() -> None:
    now = datetime(2026, 1, 10, tzinfo=UTC)
    shown = [ago(datetime.fromtimestamp(now.timestamp() - s, UTC), now) for s in (-5, 59, 60, 7200, 200_000)]
    assert shown == ["0 s ago", "59 s ago", "1 min ago", "2 h ago", "2 d ago"]


APPROVAL = Question(id="q", kind="approval", text="t", choices=("once", "session", "deny"))
CLARIFY = Question(id="q", kind="clarify", text="t", choices=("red", "green", "grey"))


def test_a_line_is_understood_as_the_choice_that_it_means() -> None:
    for line, meant in (("1", "once"), ("s", "session"), ("DENY", "deny"), ("y", "once"), ("no", "deny")):
        assert choice(APPROVAL, line) == meant
    for line in ("", "4", "0", "maybe"):
        assert choice(APPROVAL, line) is None
    assert choice(CLARIFY, "2") == "green"
    assert choice(CLARIFY, "red") == "red"
    assert choice(CLARIFY, "g") == "g"  # two begin so: taken as words
    assert choice(CLARIFY, "blue, please") == "blue, please"
    assert choice(CLARIFY, "9") is None
    assert choice(Question(id="q", kind="clarify", text="t"), "") == ""
    assert (no_answer(APPROVAL), no_answer(CLARIFY)) == ("deny", "")


hostile = st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Lu", "So"]))


@given(text=hostile)
def test_no_control_character_is_shown(text: str) -> None:
    for shown in (visible(text), one_line(text)):
        assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t"]
    assert "\n" not in one_line(text)


@given(text=hostile)
def test_no_fact_shows_one_either(text: str) -> None:
    question = Question(id="q", kind="approval", text=text, detail=text, choices=(text or "x",))
    reply = Message(role="assistant", parts=(Thinking(text=text), Text(text=text)))
    shown = [
        *facts(Said(message=user(text)), PLAIN),
        *facts(Steered(message=user(text, by=Origin(kind="child"))), PLAIN),
        *facts(Reply(message=reply, model="m"), PLAIN),
        *facts(
            ended(msgspec.json.encode({"error": visible(text)}).decode(), "error"),
            PLAIN,
            started={"c": began(visible(text))},
        ),
        *facts(Asked(question=question), PLAIN),
        *facts(Answered(question="q", value=text), PLAIN),
        *facts(Notice(text=text), PLAIN),
        *facts(Retried(attempt=1, cause="c", reason=text, delay=1.0), PLAIN),
        *facts(RunEnded(stop="failed", error=text), PLAIN),
        *question_lines(question, PLAIN),
    ]
    assert not [c for line in shown for c in line if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress(events: list[Event], *, terminal: bool, streaming: bool, verbose: bool = False) -> str:
    written: list[str] = []
    stream = Tty() if terminal else io.StringIO()
    paint = Paint(stream, {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "60"})
    shows = Progress(
        paint, lambda text: text.replace("sesame", "***"), verbose=verbose, streaming=streaming, write=written.append
    )
    for event in events:
        shows.show(event)
    return "".join(written)


CALL = ToolCall(id="c", name="terminal", arguments="{}")
RUN: list[Event] = [
    ThinkingDelta(text="Well "),
    ThinkingDelta(text="then."),
    TextDelta(text="I say "),
    TextDelta(text="sesame."),
    CallDelta(index=0, id="c", name="terminal"),
    Reply(message=Message(role="assistant", parts=(Text(text="I say sesame."), CALL))),
    began('{"command": "ls"}'),
    ToolProgress(call="c", text="a line"),
    ended("{}"),
    RunEnded(stop="done", steps=1),
]


def test_without_a_terminal_only_whole_lines_are_written() -> None:
    text = progress(RUN, terminal=False, streaming=False)
    assert text.splitlines() == ["I say ***.", "✓ terminal ls  1.2 s", "· done · 1 step · 0 tokens in, 0 out · 0.0 s"]


def test_text_is_streamed_where_that_is_wanted() -> None:
    text = progress(RUN, terminal=False, streaming=True, verbose=True)
    assert text.startswith("Well then.\nI say ***.\n✓ terminal ls")


def test_what_goes_on_now_is_taken_back_before_anything_else_is_written() -> None:
    text = progress(RUN, terminal=True, streaming=False)
    final = [line.rpartition("\r\x1b[K")[2] for line in text.rstrip("\n").split("\n")]
    assert final == ["I say ***.", "✓ terminal ls  1.2 s", "· done · 1 step · 0 tokens in, 0 out · 0.0 s"]
    assert "… a line" in text


def test_a_reply_that_broke_off_is_said_to_be_void() -> None:
    events: list[Event] = [TextDelta(text="Half"), Retried(attempt=1, cause="reset", reason="it broke", delay=0.5)]
    assert progress(events, terminal=False, streaming=True).splitlines() == [
        "Half",
        "(what is above is void: the reply broke off)",
        "↻ it broke; again in 0.5 s",
    ]


def test_a_question_is_shown_whole_with_its_id() -> None:
    question = Question(id="a1b2", kind="approval", text="removes files", detail='{"command": "rm"}\n' + "x" * 200)
    narrow = Paint(Tty(), {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "20"})
    shown = list(facts(Asked(question=question), narrow))
    assert shown == ["? removes files (a1b2)", '    {"command": "rm"}', f"    {'x' * 200}"]
    assert list(question_lines(question, narrow)) == shown


def test_a_warning_is_marked_where_there_are_no_colours() -> None:
    levels: tuple[Literal["info", "warning", "error"], ...] = ("info", "warning", "error")
    shown = [line for level in levels for line in facts(Notice(text="careful", level=level), PLAIN)]
    assert shown == ["· careful", "! careful", "! careful"]


def test_what_a_run_was_called_elsewhere_moves_no_cursor() -> None:
    esc = "\x1b[2J\n"
    begun = RunStarted(model=f"m{esc}", provider=f"p{esc}", run=f"r{esc}")
    ended = RunEnded(stop=f"odd{esc}")
    paint = Paint(io.StringIO(), {"TERM": "xterm"})
    lines = [line for fact in (begun, ended) for line in facts(fact, paint)]
    assert len(lines) == 2
    assert "\x1b" not in "".join(lines)
    assert "\n" not in "".join(lines)


def test_an_error_that_is_nested_without_end_is_told_by_its_outcome() -> None:
    content = "[" * 5_000
    call = ToolEnded(result=ToolResult(call="c", name="x", content=f'{{"a":{content}'), outcome="error")
    assert "error" in next(iter(facts(call, Paint(io.StringIO(), {"TERM": "xterm"}))))
