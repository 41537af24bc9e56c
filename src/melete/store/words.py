"""How any text becomes a query: the words that are worth looking for. Part of the store."""

import re

LONGEST_QUERY = 1_000
TERMS = 32

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by did do does for from had has have how i if in into is it its me my not of on or "
        "our so than that the their them then there these they this to was we were what when where which who why will "
        "with you your",
    )
)


def terms(query: str) -> list[str]:
    """The words of a query, at most 32; stop words count only where there is nothing else."""
    words = list(dict.fromkeys(re.findall(r"\w+", query[:LONGEST_QUERY].lower())))
    return ([word for word in words if word not in STOP_WORDS] or words)[:TERMS]
