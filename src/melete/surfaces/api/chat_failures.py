"""Runs that gave no answer, as the errors that OpenAI's clients know."""

from collections.abc import Callable, Sequence

from melete.core.event import RunEnded, Stop
from melete.surfaces.api.errors import ApiError

KNOWN: dict[str, tuple[int, str]] = {
    "RateLimitError": (429, "model_rate_limited"),
    "QuotaError": (429, "insufficient_quota"),
    "UnknownModelError": (404, "model_not_found"),
    "ContextOverflowError": (400, "context_length_exceeded"),
    "TooLargeError": (400, "context_length_exceeded"),
    "ContentFilterError": (400, "content_filter"),
    "AuthError": (502, "model_refused_key"),
    "OverloadedError": (503, "model_overloaded"),
}
"""Status and code by the cause of a failed run. The provider's 401 is none of ours: the client's key was right."""
LIMITS: dict[str, tuple[int, str]] = {
    Stop.OUT_OF_BUDGET: (429, "budget_exceeded"),
    Stop.CONTEXT_FULL: (400, "context_length_exceeded"),
}
FAILED = (502, "model_failed")
NO_RETRY = {"x-should-retry": "false"}
"""Tells OpenAI's libraries not to repeat the request: what its tools did would be done twice."""


def failure(ended: RunEnded, redact: Callable[[str], str]) -> ApiError | None:
    """The error of a run without an answer; None where there is one, a limit's last words included."""
    headers = {**NO_RETRY, **headers_of(ended.session, ended.run)}
    kept = f"the run {ended.run} is in the session {ended.session}"
    if ended.stop == Stop.CANCELLED:
        return ApiError(409, "cancelled", f"the run was cancelled; {kept}", headers=headers)
    if ended.stop != Stop.FAILED and (ended.text.strip() or ended.stop not in LIMITS):
        return None
    status, code = LIMITS.get(ended.stop) or KNOWN.get(ended.cause, FAILED)
    what = redact(ended.error) if ended.error else f"the run ended without an answer ({ended.stop})"
    return ApiError(status, code, f"{what}; {kept}", headers=headers)


def headers_of(session: str, run: str, *, ignored: Sequence[str] = ()) -> dict[str, str]:
    """The headers that tell which run answers, in which session, and which fields of the request were left out of account."""
    names = {"x-melete-ignored": ", ".join(ignored)} if ignored else {}
    return {"x-melete-session-id": session, "x-melete-run-id": run, **names}
