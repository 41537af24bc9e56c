"""A session as one page of HTML that a person likes to read: no network, no foreign markup, whole without scripts. Pure.

Part of the composition root. Every text is escaped; a model's Markdown goes through markdown-it with HTML off. The policy in the
head allows the page's own style and script by their checksums, embedded pictures, and nothing else.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from melete import __version__
from melete.app.export_text import Fields, arguments, cut, main_argument, one_line, result, when
from melete.app.export_turns import Call, Mark, Page, Turn, Words
from melete.app.figures import duration
from melete.core.message import Image

FOLDER = Path(__file__).with_name("pages")
LONGEST = 20_000
"""Characters of one text of a call or a result, where not everything is wanted."""
PARSED = 200_000
"""Characters up to which a model's Markdown is shown as such; a longer text is shown as it is."""
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
LARGEST_PICTURE = 8_000_000
PICTURES_TOGETHER = 64_000_000
"""Characters of base64 that one picture, and all of a page, may take."""
REL = "noopener noreferrer nofollow"
LINKS = frozenset({"http", "https", "mailto"})
MARKS = {"info": "·", "warning": "!", "error": "✗"}
OUTCOMES = {
    "ok": ("ok", "✓"),
    "open": ("held", "…"),
    "denied": ("held", "⊘"),
    "cancelled": ("held", "⊘"),
    "not_run": ("held", "⊘"),
}
FAILED = ("bad", "✗")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def html(page: Page, *, full: bool = False) -> str:
    """The page; texts of calls and results are cut where they are long, with what is missing told, unless `full`."""
    return "".join(_Writer(None if full else LONGEST).page(page))


class _Writer:
    """Writes one page and counts what its pictures take."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._pictures = 0

    def page(self, page: Page) -> Iterator[str]:
        style, script = _asset("session.css"), _asset("session.js")
        policy = (
            f"default-src 'none'; style-src '{_checksum(style)}'; script-src '{_checksum(script)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )
        yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        yield '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        yield f"<title>{escape(page.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        line = "".join(f"<span>{escape(part)}</span>" for part in page.line)
        yield f'<div class="top"><div><h1 dir="auto">{escape(page.title)}</h1><p>{line}</p></div></div>\n<main>\n'
        rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in page.about)
        yield f'<details class="about"><summary>About this session</summary><dl>{rows}</dl></details>\n'
        for entry in page.entries:
            match entry:
                case Words():
                    yield from self._words(entry)
                case Turn():
                    yield from self._turn(entry)
                case Mark():
                    yield _mark(entry)
        yield f"</main>\n<footer>Session {escape(page.id)}, exported by Melete {__version__}.</footer>\n"
        yield f"<script>{script}</script>\n</body>\n</html>\n"

    def _words(self, words: Words) -> Iterator[str]:
        kind = "words aside" if words.aside else "words"
        yield f'<article class="{kind}" id="fact-{words.seq}"><header><b>{escape(words.who)}</b>{_time(words)}</header>'
        if words.text:
            yield f'<p class="plain" dir="auto">{escape(words.text)}</p>'
        yield from self._images(words.images)
        yield from (f'<p class="missing">{escape(other)}</p>' for other in words.others)
        yield "</article>\n"

    def _turn(self, turn: Turn) -> Iterator[str]:
        yield f'<article class="turn" id="step-{turn.number}"><header>'
        yield f'<a class="n" href="#step-{turn.number}" title="Step {turn.number}">{turn.number}</a>'
        spent = f"<span>{duration(turn.seconds)}</span>" if turn.seconds else ""
        yield f"<b>{escape(turn.model)}</b>{spent}{_time(turn)}</header>"
        if turn.thinking:
            yield f'<details class="thoughts"><summary>Thoughts</summary><p class="plain">{escape(turn.thinking)}</p></details>'
        if turn.text:
            yield f'<div class="text" dir="auto">{_rendered(turn.text)}</div>'
        if turn.note:
            yield f'<p class="missing">({escape(turn.note)})</p>'
        for call in turn.calls:
            yield from self._call(call)
        yield "</article>\n"

    def _call(self, call: Call) -> Iterator[str]:
        kind, mark = OUTCOMES.get(call.outcome, FAILED)
        outcome = call.outcome.replace("_", " ")
        said = "" if call.outcome == "ok" else f" {escape(outcome)}"
        spent = f"<span>{duration(call.seconds)}</span>" if call.seconds else ""
        main = main_argument(call.arguments)
        shown = f"<code>{escape(main)}</code>" if main else ""
        yield f'<details class="call"><summary><i class="{kind}" title="{escape(outcome)}">{mark}{said}</i>'
        yield f"<b>{escape(one_line(call.name))}</b>{shown}{spent}</summary><div>"
        yield from self._fields("Arguments", arguments(call.arguments))
        if call.content:
            yield from self._fields("Result", result(call.content))
        yield from self._images(call.images)
        if call.spilled:
            yield f'<p class="missing">All of it: <code>{escape(one_line(call.spilled))}</code></p>'
        yield "</div></details>"

    def _fields(self, name: str, found: Fields) -> Iterator[str]:
        texts = [(name, text) for text in (found.plain, found.short) if text]
        texts += [(f"{name}: {field.name}", field.text) for field in found.long]
        for title, text in texts:
            part = cut(text, self._limit)
            yield f"<h4>{escape(title)}</h4><pre>{escape(part.head)}"
            if part.missing:
                yield f"\n\n[… {part.missing:,} of {len(text):,} characters left out …]\n\n{escape(part.tail)}"
            yield "</pre>"

    def _images(self, images: Sequence[Image]) -> Iterator[str]:
        for image in images:
            self._pictures += len(image.data)
            if image.url and not image.data:
                yield f'<p class="missing">A picture at {escape(one_line(image.url))}</p>'
            elif image.media_type not in PICTURES or not _BASE64.fullmatch(image.data):
                yield f'<p class="missing">A picture of the type {escape(one_line(image.media_type))}, not shown</p>'
            elif len(image.data) > LARGEST_PICTURE or self._pictures > PICTURES_TOGETHER:
                yield f'<p class="missing">A picture of {len(image.data) * 3 // 4:,} bytes, too large to be shown here</p>'
            else:
                yield f'<img alt="A picture of this conversation" src="data:{image.media_type};base64,{image.data}">'


def _mark(mark: Mark) -> str:
    text = f'<i>{MARKS[mark.level]}</i><span dir="auto">{escape(mark.text)}</span>'
    return f'<p class="mark {mark.level}" id="fact-{mark.seq}">{text}</p>\n'


def _time(entry: Words | Turn) -> str:
    shown = when(entry.at) if isinstance(entry, Words) else f"{entry.at:%H:%M:%S}"
    return f'<time datetime="{entry.at.isoformat()}" title="{when(entry.at)}">{shown}</time>'


# ---- a model's Markdown ----------------------------------------------------------------------------------------------


class _Parser(MarkdownIt):
    """CommonMark with tables; HTML is text, and links lead to pages and mailboxes only."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False})
        self.enable(["table", "strikethrough"])

    def validateLink(self, url: str) -> bool:
        """Whether a link may lead there."""
        try:
            return urlsplit(url.strip()).scheme.lower() in LINKS
        except ValueError:
            return False


def _rendered(text: str) -> str:
    if len(text) > PARSED:
        return f'<p class="plain">{escape(text)}</p>'
    parser, env = _parser(), dict[str, Any]()
    tokens = parser.parse(text, env)
    for token in tokens:
        if token.attrs.pop("style", None) == "text-align:right":  # the policy of the page allows no style of its own
            token.attrSet("class", "right")
        if token.children:
            token.children = list(_without_pictures(token.children))
    return str(parser.renderer.render(tokens, parser.options, env))


def _without_pictures(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens with links that tell nobody where they were followed from; a picture elsewhere is a link, never fetched."""
    inside = 0
    for token in tokens:
        inside += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type == "link_open":
            token.attrSet("rel", REL)
        if token.type != "image":
            yield token
            continue
        url = str(token.attrGet("src") or "")
        if not inside:
            yield Token("link_open", "a", 1, attrs={"href": url, "rel": REL})
        yield Token("text", "", 0, content=f"[picture: {token.content or url}]")
        if not inside:
            yield Token("link_close", "a", -1)


@cache
def _parser() -> MarkdownIt:
    return _Parser()


@cache
def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
