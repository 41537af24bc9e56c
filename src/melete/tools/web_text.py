"""What a person would read of a page: Markdown out of HTML, text out of PDF, anything that is text as it stands. Part: tools.

The extractors are the extra `web`. Without them HTML is still read, by the standard library: all of it, with what stands round it.
"""

import codecs
import itertools
import logging
import re
import time
from collections.abc import Callable
from html.parser import HTMLParser
from io import BytesIO
from typing import Any
from urllib.parse import urljoin

from msgspec import Struct

from melete.core.errors import ConfigError
from melete.core.plugin import Lazy
from melete.core.ports import Fetched
from melete.core.tool import ToolError

log = logging.getLogger("melete.web")
_extract: Lazy[Callable[..., str | None]] = Lazy("trafilatura:extract", extra="web")
_pdf: Lazy[Callable[[BytesIO], Any]] = Lazy("pypdf:PdfReader", extra="web")
HTML = frozenset({"text/html", "application/xhtml+xml"})
PLAIN = re.compile(
    r"text/.+|application/(.*\+)?(json|xml|yaml|javascript|x-ndjson|toml|x-sh|ecmascript|sql)|image/svg\+xml|"
)
META = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)|<\?xml[^>]{0,100}?encoding\s*=\s*["']([\w.:-]+)""",
    re.IGNORECASE,
)
SCRIPTS = re.compile(r"<(/?)(script|style)\b", re.IGNORECASE)
EMBEDDED = re.compile(r"data:[^\s\"'>]{500,}")
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
BEGINNING = 4_096
FEW = 200
"""Characters below which an extractor has missed the page: all of it is shown."""
MOST_PAGES = 1_000
MOST_HTML = 2_000_000
"""Characters of a page that are read at all."""
MOST_TAGS = 20_000
"""Tags of a page that is given to the extractor, whose trees take some kilobytes for each: larger ones are read plainly."""
PIECE, LONGEST_TAG, LAST = 8_192, 65_536, 4_096
LONG_TAG = re.compile(r"<[a-zA-Z](?:[^<>\s]*\s+){1000}")
"""Attributes take the extractor time by their square."""
READING, READING_PDF = 5.0, 20.0
"""Seconds for a plain reading: a page can be written so that the standard library's parser takes an hour for it."""
HINT = "plain reading; a cleaner one comes with "


class Page(Struct, frozen=True, kw_only=True):
    """A page as text; `note` is what a reader should know of how it was read."""

    text: str
    title: str = ""
    note: str = ""


def readable(fetched: Fetched) -> Page:
    """The readable text of an answer; raises ToolError for what has none. Takes processor time: call it in a thread."""
    body, kind = fetched.body, fetched.media_type
    if kind == "application/pdf" or body[:5] == b"%PDF-":
        return _of_pdf(body)
    start = body[:BEGINNING].lstrip()[:200].lower()
    if kind in HTML or (kind in ("", "text/plain") and start.startswith((b"<!doctype html", b"<html"))):
        return _of_html(_decoded(fetched), fetched.url)
    if not PLAIN.fullmatch(kind) and not (kind == "application/octet-stream" and b"\0" not in body[:BEGINNING]):
        raise ToolError(f"this is {kind}, of which no text can be read")
    if b"\0" in body[:BEGINNING] and not body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ToolError("this is no text")
    return Page(text=_decoded(fetched))


def _decoded(fetched: Fetched) -> str:
    """The body as text: by its mark, the server's word, the page's own word, as UTF-8, else as most old pages are."""
    body = fetched.body
    own = META.search(body[:BEGINNING])
    said = ((own[1] or own[2]) if own else b"").decode("ascii", "replace")
    marked = next((name for mark, name in MARKS if body.startswith(mark)), "")
    for name in (marked, fetched.charset, said, "utf-8"):
        try:
            if name:
                return body.decode(name, "replace" if name == marked else "strict")
        except (LookupError, UnicodeError):
            continue
    return body.decode("cp1252", "replace")


def _of_html(text: str, url: str) -> Page:
    note = f"only the first {MOST_HTML:,} characters were read" if len(text) > MOST_HTML else ""
    text = text[:MOST_HTML]
    plain = PlainReader(url)
    plain.read(text)
    title = " ".join(plain.title.split())
    if text.count("<") > MOST_TAGS or LONG_TAG.search(text):
        return Page(text=plain.text, title=title, note=note or "a very large page, read plainly")
    try:
        found = _extract.load()(
            text, url=url, output_format="markdown", include_links=True, include_formatting=True, include_tables=True,
            include_comments=False,
        )  # fmt: skip
    except ConfigError as error:
        return Page(text=plain.text, title=title, note=f"{HINT}{error.next}")
    except Exception:  # a page from anywhere breaks an extractor in any way
        log.exception("the extractor failed at %s, which was read plainly", url)
        found = None
    if found and (len(found) >= FEW or len(found) >= len(plain.text) // 2):
        return Page(text=found, title=title, note=note)
    return Page(text=plain.text, title=title, note=note)


def _of_pdf(body: bytes) -> Page:
    try:
        reader = _pdf.load()(BytesIO(body))
        ends = time.monotonic() + READING_PDF
        pages: list[str] = []
        for page in itertools.islice(reader.pages, MOST_PAGES):
            pages.append(page.extract_text())
            if time.monotonic() > ends:
                break
        count = len(reader.pages)
        title = str(getattr(reader.metadata, "title", None) or "")
    except ConfigError as error:
        raise ToolError(f"this is a PDF, for which a package is missing: {error.next}") from error
    except Exception as error:  # a file from anywhere breaks a reader in any way
        raise ToolError(f"this PDF cannot be read: {error}") from error
    text = "\n\n".join(page.strip() for page in pages).strip()
    if not text:
        raise ToolError(f"this PDF of {len(pages)} pages holds pictures and no text")
    note = f"only the first {len(pages)} of {count} pages were read" if len(pages) < count else ""
    return Page(text=text, title=title, note=note)


def _without_scripts(text: str) -> str:
    """The page without what browsers run, in one pass."""
    kept: list[str] = []
    begin, inside = 0, ""
    for found in SCRIPTS.finditer(text):
        name = found[2].lower()
        if not inside and not found[1]:
            kept.append(text[begin : found.start()])
            inside = name
        elif inside == name and found[1]:
            begin, inside = found.start(), ""
    return "".join(kept) + ("" if inside else text[begin:])


SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "select", "button"})
BLOCKS = frozenset({
    "p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "ul", "ol", "table", "tr", "blockquote", "figure",
    "form", "dl", "dt", "dd", "hr", "address", "details", "summary", "figcaption",
})  # fmt: skip
BEFORE = {
    **{f"h{n}": f"\n\n{'#' * n} " for n in range(1, 7)},
    "li": "\n- ",
    "br": "\n",
    "td": " | ",
    "th": " | ",
    "pre": "\n\n```\n",
}
AFTER = {**{f"h{n}": "\n\n" for n in range(1, 7)}, "pre": "\n```\n\n"}


class PlainReader(HTMLParser):
    """HTML as plain Markdown, everything that is shown in the order in which it stands."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._url = url
        self._pieces: list[str] = []
        self._skipping = ""
        self._depth = 0
        self._inside = {"title": False, "pre": False}
        self._links: list[str] = []

    @property
    def text(self) -> str:
        """What has been read."""
        joined = "".join(self._pieces)
        return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", joined)).strip()

    def read(self, text: str) -> None:
        """Read a page in pieces; a tag without an end is left out, and what takes too long is left unread."""
        text = EMBEDDED.sub("data:", _without_scripts(text))
        ends = time.monotonic() + READING
        for at in range(0, len(text), PIECE):
            self.feed(text[at : at + PIECE])
            if len(self.rawdata) > LONGEST_TAG:
                self.rawdata = ""
            if time.monotonic() > ends:
                return
        if len(self.rawdata) <= LAST:
            self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a tag."""
        if self._skipping or tag in SKIPPED:
            self._skipping = self._skipping or tag
            self._depth += tag == self._skipping
        elif tag in self._inside or tag in BEFORE:
            self._inside |= {tag: True} if tag in self._inside else {}
            self._pieces.append(BEFORE.get(tag, ""))
        elif tag in BLOCKS:
            self._pieces.append("\n\n" if tag != "tr" else "\n")
        elif tag == "a":
            self._links.append(self._target(dict(attrs).get("href") or ""))
            self._pieces.append("[" if self._links[-1] else "")

    def handle_endtag(self, tag: str) -> None:
        """End a tag."""
        if self._skipping:
            self._depth -= tag == self._skipping
            self._skipping = self._skipping if self._depth else ""
        elif tag == "a" and self._links:
            target = self._links.pop()
            self._pieces.append(f"]({target})" if target else "")
        elif tag in self._inside or tag in AFTER:
            self._inside |= {tag: False} if tag in self._inside else {}
            self._pieces.append(AFTER.get(tag, ""))
        elif tag in BLOCKS:
            self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        """Take text."""
        if self._inside["title"]:
            self.title += data
        elif not self._skipping:
            self._pieces.append(data if self._inside["pre"] else re.sub(r"\s+", " ", data))

    def _target(self, href: str) -> str:
        try:
            found = urljoin(self._url, href) if href and not href.startswith("#") else ""
        except ValueError:  # it leads nowhere
            return ""
        return found if found.startswith(("http://", "https://")) else ""
