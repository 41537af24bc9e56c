"""What a provider's cache did with the requests of a session, for people."""

from melete.app.context_report import Caching, Request
from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.render import percent
from melete.surfaces.cli.table import entry, table

LATEST = 12
"""Requests that are shown besides those whose cache broke."""
BAR = 10
ROOMY = 60
INDENT = 14


def cache_text(caching: Caching, paint: Paint) -> str:
    """The latest requests and every break with its cause, then the sums; nothing where nothing was asked yet."""
    found = [request for request in caching.requests if request.prompt]
    if not found:
        return ""
    first = len(found) - LATEST
    shown = [request for place, request in enumerate(found) if place >= first or request.broken]
    head = ("REQUEST", "PROMPT", "CACHED", "WRITTEN", "SHARE", "MODEL")
    text = "\n" + table(head, [_row(request, paint) for request in shown], paint, right=head[1:5])
    if len(shown) < len(found):
        text += paint("dim", f"… {len(found) - len(shown):,} of {len(found):,} requests are not shown.") + "\n"
    text += "".join(_break(request, paint) for request in shown if request.broken)
    return text + paint("bold", _sums(caching)) + "\n"


def _row(request: Request, paint: Paint) -> tuple[str, ...]:
    usage = request.usage
    share = percent(request.share)
    if paint.redraws and paint.width >= ROOMY:
        full = int(request.share * BAR)
        share += f" {'█' * full}{'░' * (BAR - full)}"
    number = f"{request.number}{'!' if request.broken else ''}"
    written = f"{usage.cache_write:,}" if usage.cache_write else "-"
    return number, f"{request.prompt:,}", f"{usage.cache_read:,}", written, share, one_line(request.model) or "-"


def _break(request: Request, paint: Paint) -> str:
    broken = request.broken
    if broken is None:
        return ""
    texts = [one_line(broken.why), f"{broken.tokens:,} tokens were read anew"]
    return entry(("yellow", "!"), f"request {request.number}", texts, paint=paint, indent=INDENT)


def _sums(caching: Caching) -> str:
    text = f"From the cache: {caching.cached:,} of {caching.prompt:,} tokens ({percent(caching.share)})"
    if caching.usd is None:
        return f"{text}."
    if caching.usd < 0:
        return f"{text}; writing it has cost ${-caching.usd:.4f} more than was saved so far."
    return f"{text}; ${caching.usd:.4f} saved."
