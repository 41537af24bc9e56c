"""The learning report in words that its text and its page share. Part of the composition root."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from melete.app.figures import money, percent, plural, short
from melete.learn.share import FLOOR

if TYPE_CHECKING:
    from melete.learn.report import Effect, Report, Trend

STATES: Mapping[str, str] = {
    "trial": "in use as a trial",
    "accepted": "accepted by a person",
    "waiting": "waiting for a person",
    "refused": "refused by a gate",
    "rejected": "rejected by a person",
    "undone": "taken back",
    "replaced": "replaced by another",
}
"""Where a proposal stands, in the order in which they are told."""
SIGNALS: Mapping[str, str] = {
    "fixed": "an error, then success",
    "corrected": "a correction",
    "failed_skill": "a followed skill that failed",
    "remember": "“remember this”",
    "retries": "the same try again and again",
    "sequence": "a long way that led to the end",
    "failed": "a run that failed",
    "positive": "praise",
}
MEASURED = (
    "A task is a turn in which anything was called. Its class is the verb of the last call that worked and changed something, such "
    "as `git push`; its calls are all calls of tools, those that load a skill among them, its work those without such lookups.",
    "A lesson was followed in a task when at least 30 % of its commands and options occur in the calls behind the moment at which "
    "it was shown. Nothing else gets credit or blame.",
    "The reward is 1 for a task that was done, less .5 if it was corrected, .25 if an error came twice, .1 for each time the usual "
    "number of calls beyond the first, and .05 per 10,000 tokens.",
    "Intervals hold nine of ten; a few equal values are not taken for certain. P is the probability that a gain has its sign.",
)
UNMEASURED = (
    "Whether a task would have gone as well without the lesson: it is compared with tasks of the same class from before it, and "
    "time brings other changes as well. Only withheld uses would be a true control.",
    "What the same work would take without learning: the first meeting of a class holds a search that is not needed twice in one "
    "conversation. `melete learn bench` runs the same tasks with and without, in a world whose right answers are known.",
    "Whether an answer was right where nobody said otherwise: a mistake that nobody corrected counts as done.",
    "Lessons that name no command, such as a tone or a preference: whether they are heeded cannot be seen in a call.",
    "Whether the work itself got easier or harder: classes are told apart by what was run, not by how hard it was.",
)


def share_text(found: "Report") -> str:
    """What reviews took of the tokens of the last seven days, beside what they may take."""
    all_ = found.reviews.week[1]
    if not all_:
        return "nothing was spent in the last 7 days"
    allowed = f"{percent(found.reviews.allowed)}, and {short(FLOOR)} on any day"
    return f"{percent(found.reviews.share)} of {short(all_)} tokens in the last 7 days (allowed {allowed})"


def reviews_cost(found: "Report") -> str:
    """What all reviews took."""
    reviews = found.reviews
    text = f"{short(reviews.tokens)} tokens"
    if reviews.usd is None:
        return text if not reviews.unpriced else f"{text}, price unknown"
    more = f" and {reviews.unpriced} of unknown price" if reviews.unpriced else ""
    return f"{text}, {money(reviews.usd)}{more}"


def course(trend: "Trend") -> Iterator[str]:
    """What the course of calls says, and how sure that is."""
    pairs = trend.fewer + trend.same + trend.more
    if not pairs:
        yield "No class of tasks was met twice yet: nothing can be said of a course."
        return
    yield (
        f"Of {pairs} {plural(pairs, 'class', many='classes')} met more than once, {trend.fewer} took fewer calls later, "
        f"{trend.same} as many, {trend.more} more."
    )
    if trend.saved:
        low, high = trend.saved.low, trend.saved.high
        yield f"Later meetings took {trend.saved.value:.1f} calls fewer than the first (nine of ten: {low:.1f} to {high:.1f})."
    if trend.chance is not None:
        yield f"By chance alone so many classes would take fewer calls with probability {_tiny(trend.chance)} (sign test)."


def together(found: "Report") -> str:
    """What all lessons bring, taken together."""
    all_ = found.together
    if all_ is None:
        return "No lesson was followed yet that has a task from before it to be compared with."
    lessons = f"{all_.number} {plural(all_.number, 'lesson')}"
    return (
        f"Over {lessons} with anything to compare with, following one brings {all_.value:+.2f} in reward "
        f"(nine of ten: {all_.low:+.2f} to {all_.high:+.2f}) against tasks of its classes from before it."
    )


def controls(found: "Report") -> str:
    """What the effects are compared with."""
    if found.withheld:
        return (
            f"{found.withheld} {plural(found.withheld, 'use')} withheld as controls, and tasks from before each lesson."
        )
    return "No use was withheld: each lesson is compared with tasks of its classes from before it alone."


def brings(one: "Effect") -> str:
    """The verdict, with the models where there are several."""
    if len(one.models) < 2:  # noqa: PLR2004 - one model needs no comparison
        return one.verdict
    each = (f"{use.model} {use.reward.value:+.2f} ({use.number})" for use in one.models if use.reward)
    return f"{one.verdict}; by model: {', '.join(each)}"


def _tiny(chance: float) -> str:
    return "below .001" if chance < 0.001 else f"{chance:.3f}".lstrip("0")  # noqa: PLR2004
