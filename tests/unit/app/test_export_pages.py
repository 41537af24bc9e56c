"""Markdown and HTML of a session: whatever stands in it, the page stays the page."""

import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec import structs
from tests.unit.store.past import pasts

from melete.app.export_html import html
from melete.app.export_markdown import markdown
from melete.app.export_text import arguments, clean, cut, main_argument, result
from melete.app.export_turns import Call, Mark, Turn, Words, read
from melete.core.event import (
    Fact,
    Notice,
    Opened,
    Reply,
    RunEnded,
    RunStarted,
    Said,
    Spent,
    Titled,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Image, Message, Origin, Text, Thinking, ToolCall, ToolResult, Usage, user

NOW = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<!-- ",
    "</title></head><body onload=alert(1)>",
    "</pre></details></article></main>",
    "[x](javascript:alert(1)) ![p](http://tracker.example/p.png) <http://ok.example>",
    "```\nopen fence",
    "~~~~",
    "- a\n  ```\n  in a list\n  <b>",
    "> ```\n> quoted",
    "# heading\n\n---\n\n===",
    "| a | b |\n|---|---|\n| ` | <i> |",
    "[r]: http://x.example\n\n[r]",
    "<div>\n\n<pre>\n",
    "&lt;script&gt; &amp; \\",
    "`" * 40,
    "\x1b[31mred\x1b[0m \x07 \u202egnp.exe \ud7ff",
    "1. one\n2) two\n+ plus\n    code",
    "<![CDATA[ x",
    "</textarea><svg onload=alert(1)>",
    "x\\",
]
texts = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=12), max_size=3).map("\n".join)


def numbered(*facts: Fact) -> list[Fact]:
    return [structs.replace(fact, seq=number, at=NOW) for number, fact in enumerate(facts, 1)]


def session(said: str, answer: str, arguments: str, content: str) -> list[Fact]:
    """A session that holds the same foreign texts in every place where one can be."""
    call = ToolCall(id="c1", name=said[:20] or "x", arguments=arguments)
    parts = (Thinking(text=said), Text(text=answer), call)
    return numbered(
        Opened(cwd=said, source=said),
        Titled(title=said),
        RunStarted(model=answer, provider=said),
        Said(message=user(said, by=Origin(kind="import", who=said))),
        Reply(message=Message(role="assistant", parts=parts), model=answer),
        ToolStarted(call=call),
        ToolEnded(result=ToolResult(call="c1", name="x", content=content), spilled=content[:100]),
        Notice(text=said),
        RunEnded(stop="failed", error=answer),
    )


# ---- HTML ------------------------------------------------------------------------------------------------------------

OURS = set(
    [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "div",
        "h1",
        "p",
        "span",
        "main",
        "details",
        "summary",
        "dl",
        "dt",
        "dd",
        "article",
        "header",
        "b",
        "a",
        "time",
        "i",
        "code",
        "h4",
        "pre",
        "img",
        "footer",
        "script",
    ]
)
MARKDOWN = set(
    [
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "blockquote",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "em",
        "strong",
        "s",
        "hr",
        "br",
        "code",
        "pre",
        "p",
        "a",
    ]
)


class Reader(HTMLParser):
    """Every element of a page, and whether they close one another."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "hr", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")


def check(page: str) -> Reader:
    reader = Reader(page)
    assert not reader.open
    names = [name for name, _ in reader.elements]
    assert set(names) <= OURS | MARKDOWN
    assert [names.count(name) for name in ("html", "head", "title", "style", "body", "main", "script")] == [1] * 7
    for name, attributes in reader.elements:
        assert not [key for key in attributes if key.startswith("on") or key in ("style", "srcset", "action")]
        link = attributes.get("href")
        if link is not None:
            assert name == "a"
            assert re.match(r"(https?:|mailto:|#step-\d+$)", link or "", re.IGNORECASE)
            assert (link or "").startswith("#") or attributes["rel"] == "noopener noreferrer nofollow"
        if "src" in attributes:
            assert name == "img"
            assert re.match(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$", attributes["src"] or "")
    return reader


@given(said=texts, answer=texts, arguments=texts, content=texts)
def test_foreign_text_stays_text_in_html(said: str, answer: str, arguments: str, content: str) -> None:
    reader = check(html(read(session(said, answer, arguments, content), "s-1")))
    words = "".join(reader.words)
    assert "\x1b" not in words
    assert "\u202e" not in words


@given(facts=pasts())
def test_every_log_has_a_page_of_html(facts: Sequence[Fact]) -> None:
    check(html(read(facts, "s-1")))


@pytest.mark.parametrize("text", HOSTILE)
def test_what_was_said_can_be_read_word_for_word(text: str) -> None:
    reader = check(html(read(numbered(Opened(), Said(message=user(text))), "s-1")))
    assert clean(text) in "".join(reader.words)


def test_only_pictures_that_are_in_the_session_are_shown() -> None:
    images = (
        Image(data="aGVsbG8="),
        Image(media_type="image/svg+xml", data="aGVsbG8="),
        Image(url="https://tracker.example/x.png"),
        Image(data='x" onerror="alert(1)'),
        Image(data="a" * 9_000_000),
    )
    said = Said(message=Message(role="user", parts=images))
    remote = Reply(message=Message(role="assistant", parts=(Text(text="![p](https://tracker.example/p.png)"),)))
    page = html(read(numbered(Opened(), said, remote), "s-1"))
    reader = check(page)
    assert [attributes["src"] for name, attributes in reader.elements if name == "img"] == [
        "data:image/png;base64,aGVsbG8="
    ]
    assert "too large" in page
    assert "[picture: p]" in page


def test_the_policy_names_the_very_style_and_script_of_the_page() -> None:
    page = html(read(numbered(Opened()), "s-1"))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert "://" not in re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)


def test_long_texts_are_cut_with_what_is_missing_told_unless_all_is_wanted() -> None:
    facts = session("hi", "ok", '{"command": "ls"}', '{"output": "' + "x" * 100_000 + '"}')
    for write in (html, markdown):
        short, whole = write(read(facts, "s-1")), write(read(facts, "s-1"), full=True)
        assert len(short) < len(whole) - 70_000
        assert re.search(r"\[… [\d,]+ of 100,000 characters left out …\]", short)
        assert "left out" not in whole


# ---- Markdown --------------------------------------------------------------------------------------------------------


def headings(text: str) -> list[tuple[str, str]]:
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    pairs = itertools.pairwise(tokens)
    return [(one.tag, two.content) for one, two in pairs if one.type == "heading_open" and not one.level]


@given(said=texts, answer=texts, arguments=texts, content=texts)
def test_foreign_text_does_not_break_the_page_of_markdown(said: str, answer: str, arguments: str, content: str) -> None:
    text = markdown(read(session(said, answer, arguments, content), "s-1"))
    found = headings(text)
    assert found[0][0] == "h1"
    assert [name for name, _ in found if name == "h2"][:1] == ["h2"]
    assert [words for name, words in found if name == "h3" and words.startswith("Step 1 — ")]
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    last = next(token for token in reversed(tokens) if token.type == "inline")
    assert "Failed" in last.content
    inline = [child for token in tokens for child in token.children or ()]
    assert not [token for token in (*tokens, *inline) if token.type in ("html_block", "html_inline", "image")]


@given(facts=pasts())
def test_every_log_has_a_page_of_markdown(facts: Sequence[Fact]) -> None:
    assert headings(markdown(read(facts, "s-1")))[0][0] == "h1"


def test_a_model_s_markdown_stays_markdown_below_our_headings() -> None:
    answer = "# Result\n\n**Good** `x` <b>\n\n```python\n# no heading\nif a < b: pass\n```\n"
    text = markdown(read(numbered(Opened(), Reply(message=Message(role="assistant", parts=(Text(text=answer),)))), "s"))
    assert ("h4", "Result") in headings(text)
    assert "**Good** `x` &lt;b>" in text
    assert "```python\n# no heading\nif a < b: pass\n```" in text


# ---- the session as entries ------------------------------------------------------------------------------------------


def test_a_session_is_read_into_words_steps_with_calls_and_marks() -> None:
    call, other = (ToolCall(id=name, name="terminal", arguments='{"command":"ls"}') for name in "ab")
    page = read(
        numbered(
            Opened(title="Trip"),
            RunStarted(model="m-1", provider="acme"),
            Said(message=user("Go")),
            Reply(message=Message(role="assistant", parts=(call, other)), model="m-1", seconds=1.5),
            Spent(usage=Usage(input=1000, output=5), usd=0.01),
            ToolStarted(call=structs.replace(call, arguments='{"command":"ls -l"}')),
            ToolEnded(result=ToolResult(call="a", name="terminal", content="{}"), seconds=2, outcome="error"),
            RunEnded(stop="cancelled", steps=1),
            RunStarted(model="m-2"),
            Reply(message=Message(role="assistant", parts=(Text(text="Done"),)), model="m-2"),
            Spent(usage=Usage(input=1000, output=5), usd=None),
        ),
        "s-1",
    )
    kinds = [type(entry) for entry in page.entries]
    assert kinds == [Words, Turn, Mark, Mark, Turn]
    turn = page.entries[1]
    assert isinstance(turn, Turn)
    assert turn.calls == (
        Call(id="a", name="terminal", arguments='{"command":"ls -l"}', outcome="error", content="{}", seconds=2),
        Call(id="b", name="terminal", arguments='{"command":"ls"}'),
    )
    about = dict(page.about)
    assert (page.title, about["Model"], about["Steps"]) == ("Trip", "acme/m-1, m-2", "2")
    assert (about["Tool calls"], about["Cost"]) == ("2, 1 failed", "$0.01 and some of unknown price")


def test_texts_are_made_fit_for_a_page() -> None:
    assert main_argument('{"path": "a.py", "command": "ls\\n-l"}') == "ls -l"
    assert arguments('{"command": "ls"}').short == ""
    assert arguments('{"command": "ls", "timeout": 3}').short == '{"command":"ls","timeout":3}'
    found = result('{"success": true, "output": "a\\nb", "exit_code": 0}')
    assert (found.short, [(field.name, field.text) for field in found.long]) == (
        '{"exit_code":0}',
        [("output", "a\nb")],
    )
    assert result("no JSON").plain == "no JSON"
    part = cut("line\n" * 100, 100)
    assert (part.head + part.tail).count("line\n") * 5 + part.missing == 500
    assert cut("short", 100).missing == 0


@pytest.mark.parametrize(
    "text",
    [
        "![r][ref]\n\n[ref]: http://tracker.example/p.png",
        "![two\nlines](http://tracker.example/p.png)",
        "![a [b] c](http://tracker.example/p.png)",
        "[x](javascript:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x][r]\n\n[r]: JaVaScRiPt:alert(1)",
    ],
)
def test_markdown_of_a_model_fetches_and_runs_nothing(text: str) -> None:
    class Careless(MarkdownIt):
        def validateLink(self, url: str) -> bool:
            return True

    said = Reply(seq=2, message=Message(role="assistant", parts=(Text(text=text),)))
    tokens = Careless("commonmark").parse(markdown(read([Opened(seq=1), said], "s-1")))
    inner = [token for each in tokens for token in each.children or ()]
    assert not [token for token in inner if token.type in ("image", "link_open")]
    assert any(token.type == "fence" and text.split("\n")[0] in token.content for token in tokens)


def test_names_from_another_home_stay_on_their_line() -> None:
    opened = Opened(seq=1, forked_from="a\n# taken", parent="b\n# taken", title="T")
    image = Image(url="http://e.example/\n\n# taken")
    page = markdown(read([opened, Said(seq=2, message=Message(role="user", parts=(image,)))], "s-1"))
    headings = [line for line in page.splitlines() if line.startswith("# ")]
    assert headings == ["# T"]
