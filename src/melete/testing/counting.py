"""Plausible token counts for a scripted model: four bytes are a token, and a prompt's known beginning is cached. Part `testing`."""

import threading
from collections import deque

from melete.core.message import Usage
from melete.testing.faults import Answer

BYTES_PER_TOKEN = 4
PROMPTS_KEPT = 16


class PromptCache:
    """Remembers the last prompts and counts a new one against the longest beginning that it shares with any of them."""

    def __init__(self) -> None:
        self._seen: deque[bytes] = deque(maxlen=PROMPTS_KEPT)
        self._lock = threading.Lock()

    def count(self, prompt: bytes, answer: Answer) -> Usage:
        """The usage of one request; the answer's own, where the script gives one."""
        with self._lock:
            cached = max((common_prefix(prompt, seen) for seen in self._seen), default=0) // BYTES_PER_TOKEN
            self._seen.append(prompt)
        if answer.usage is not None:
            return answer.usage
        reasoning = _tokens(answer.thinking)
        spoken = _tokens(answer.text) + sum(_tokens(call.name + call.arguments) for call in answer.calls)
        total = -(-len(prompt) // BYTES_PER_TOKEN)
        return Usage(input=total - cached, cache_read=cached, output=spoken + reasoning, reasoning=reasoning)


def common_prefix(one: bytes, other: bytes) -> int:
    """How many bytes two texts share from their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
