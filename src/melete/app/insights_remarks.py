"""What stands out in the statistics of a time, and what can be done about it. Part of the composition root, pure.

Every rule needs enough of what it speaks about; the rules stand in the order of what they may cost.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from melete.app.figures import DAY_NAMES, money, percent, plural
from melete.core.event import Stop
from melete.core.statistics import Spending, Statistics

FEW_CALLS = 5
FEW_RUNS = 5
FEW_REQUESTS = 10
FEW_TOKENS = 100_000
FAILING = 0.4
LOW_CACHE = 0.3
FAILED_RUNS = 0.2
REPEATED = 0.1
DEAREST = 0.5
FEW_SESSIONS = 4
RISEN = 2.0
A_CENT = 0.01
BUSY = 20
A_WEEK = 7


class Remark(Struct, frozen=True, kw_only=True):
    """A sentence on what stands out, `about` a thing with this name, and what to do `next`, empty where nothing is."""

    about: str
    text: str
    next: str = ""


def remarks(
    found: Statistics, *, earlier: Spending | None = None, saved_usd: float | None = None
) -> tuple[Remark, ...]:
    """What a person should know, the most important first; nothing where nothing stands out."""
    rules: tuple[Callable[[], Iterator[Remark]], ...] = (
        lambda: _failing_tools(found),
        lambda: _failed_runs(found),
        lambda: _no_end(found),
        lambda: _risen(found, earlier),
        lambda: _cache(found, saved_usd),
        lambda: _repeated(found),
        lambda: _limits(found),
        lambda: _one_session(found),
        lambda: _unpriced(found),
        lambda: _busiest(found),
    )
    return tuple(remark for rule in rules for remark in rule())


def _failing_tools(found: Statistics) -> Iterator[Remark]:
    failing = [use for use in found.tools if use.calls >= FEW_CALLS and use.errors >= FAILING * use.calls]
    for use in sorted(failing, key=lambda use: -use.errors):
        yield Remark(
            about="tool",
            text=f"{use.name} failed in {use.errors:,} of {use.calls:,} calls ({percent(use.errors / use.calls)})",
            next=f"`melete sessions search --tool {use.name} error` shows how",
        )


def _failed_runs(found: Statistics) -> Iterator[Remark]:
    failed, runs = found.stops.get(Stop.FAILED, 0), found.counts.runs
    if runs >= FEW_RUNS and failed >= FAILED_RUNS * runs:
        yield Remark(
            about="runs",
            text=f"{failed:,} of {runs:,} runs failed ({percent(failed / runs)})",
            next="`melete logs -l error` shows why, `melete doctor` what can be mended",
        )


def _no_end(found: Statistics) -> Iterator[Remark]:
    if open_runs := found.stops.get("", 0):
        runs = plural(open_runs, "run has", many="runs have")
        yield Remark(
            about="runs",
            text=f"{open_runs:,} {runs} no end: still at work, or killed",
            next="`melete sessions list --running` shows which run now; `melete run -s ID` goes on with one that was killed",
        )


def _risen(found: Statistics, earlier: Spending | None) -> Iterator[Remark]:
    if earlier is None or not earlier.usd or earlier.unpriced or found.spending.usd is None:
        return
    if found.spending.usd >= RISEN * earlier.usd and found.spending.usd - earlier.usd >= A_CENT:
        times = found.spending.usd / earlier.usd
        yield Remark(
            about="cost",
            text=f"{money(found.spending.usd)} is {times:.1f} times what the same time before it cost ({money(earlier.usd)})",
            next="the dearest sessions are below; `budget.day.usd` sets a limit",
        )


def _cache(found: Statistics, saved_usd: float | None) -> Iterator[Remark]:
    spending = found.spending
    free = spending.usd == 0.0 and not spending.unpriced
    if spending.requests < FEW_REQUESTS or spending.prompt < FEW_TOKENS or free:
        return
    if spending.cache_share < LOW_CACHE:
        yield Remark(
            about="cache",
            text=f"only {percent(spending.cache_share)} of what the models read came from a cache",
            next="`melete context -c` shows what broke it",
        )
    elif saved_usd is not None and saved_usd < 0:
        yield Remark(
            about="cache",
            text=f"writing to the cache cost {money(-saved_usd)} more than reading from it saved",
            next="`melete context -c` shows what broke it; `model.cache_ttl` sets how long it lives",
        )


def _repeated(found: Statistics) -> Iterator[Remark]:
    requests = found.spending.requests
    if found.retries >= FEW_CALLS and found.retries >= REPEATED * requests:
        lost = found.discarded.usd
        paid = f"; answers that were thrown away cost {money(lost)}" if lost else ""
        yield Remark(
            about="retries",
            text=f"requests were repeated {found.retries:,} times{paid}",
            next="`melete model test` tries the servers; `model.fallbacks` names models that stand in",
        )


def _limits(found: Statistics) -> Iterator[Remark]:
    reached = {stop: n for stop, n in found.stops.items() if stop in Stop.LIMITS}
    if (count := sum(reached.values())) >= max(3, FAILED_RUNS * found.counts.runs):
        most = max(reached, key=lambda stop: reached[stop])
        settings = {
            Stop.OUT_OF_STEPS: "`agent.max_steps` allows more",
            Stop.OUT_OF_BUDGET: "`budget.run` and `budget.day` allow more",
            Stop.CONTEXT_FULL: "a model with a longer window, or shorter sessions, would help",
            Stop.LOOPING: "say what to do differently, or take a stronger model",
        }
        yield Remark(about="runs", text=f"{count:,} of {found.counts.runs:,} runs met a limit", next=settings[most])


def _one_session(found: Statistics) -> Iterator[Remark]:
    if not found.dearest or not found.spending.usd or found.counts.sessions < FEW_SESSIONS:
        return
    use, total = found.dearest[0], found.spending.usd
    if use.spending.usd is not None and use.spending.usd >= max(DEAREST * total, A_CENT):
        share = percent(min(1.0, use.spending.usd / total))
        yield Remark(
            about="cost",
            text=f"one session took {share} of the money: {use.session.title or use.session.id}",
            next=f"`melete sessions show {use.session.id}`",
        )


def _unpriced(found: Statistics) -> Iterator[Remark]:
    if not found.spending.unpriced:
        return
    names = [name for use in found.models if use.spending.unpriced and (name := use.model or use.provider)]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""  # noqa: PLR2004 - a sentence holds two names
    yield Remark(
        about="prices",
        text=f"no price is known for {', '.join(names[:2]) or 'some models'}{more}",
        next="`melete model refresh` fetches the newest list; servers of your own have no price",
    )


def _busiest(found: Statistics) -> Iterator[Remark]:
    days = {use.day for use in found.days if use.counts.said}
    if found.counts.said < BUSY or len(days) < A_WEEK:
        return
    use = max(found.hours, key=lambda use: (use.said, use.requests), default=None)
    if use is not None and use.said:
        text = f"most is asked on {DAY_NAMES[use.weekday]}s from {use.hour:02}:00 to {(use.hour + 1) % 24:02}:00"
        yield Remark(about="hours", text=text)
