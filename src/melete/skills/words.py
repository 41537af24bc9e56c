"""The words of a text that say something, for finding skills."""

import re
from collections import Counter
from typing import Final

LONGEST_QUERY: Final = 20_000
LONGEST_WORD: Final = 64
WORD = re.compile(r"[^\W_]+")
RUN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]+")
"""Scripts that put no spaces between words."""
STOP = frozenset(
    {
        "a", "about", "above", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
        "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "could", "did", "do", "does",
        "doing", "done", "down", "during", "each", "either", "else", "etc", "every", "few", "for", "from", "further",
        "get", "give", "given", "had", "has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "if",
        "in", "into", "is", "it", "its", "itself", "just", "let", "like", "make", "many", "may", "me", "might", "more",
        "most", "much", "must", "my", "need", "no", "nor", "not", "now", "of", "off", "on", "once", "one", "only", "or",
        "other", "our", "out", "over", "own", "per", "please", "same", "shall", "she", "should", "so", "some", "such",
        "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "through", "to", "too",
        "two", "under", "until", "up", "us", "use", "used", "using", "very", "via", "want", "was", "we", "were", "what",
        "when", "where", "whether", "which", "while", "who", "whom", "why", "will", "with", "within", "without", "would",
        "you", "your",
    }
)  # fmt: skip
"""Words that say nothing about the task."""


def split(text: str) -> str:
    """The text with runs of scripts that have no spaces cut into pairs, as they are indexed and asked for."""
    return text if text.isascii() else RUN.sub(_pairs, text)


def _pairs(found: re.Match[str]) -> str:
    run = found[0]
    return f" {' '.join(run[at : at + 2] for at in range(max(1, len(run) - 1)))} "


def words(query: str) -> Counter[str]:
    """The words of a query that say something, with how often they occur."""
    return Counter(
        word
        for word in WORD.findall(split(query[:LONGEST_QUERY].lower()))
        if word not in STOP and (len(word) > 1 or not word.isascii()) and len(word) <= LONGEST_WORD
    )
