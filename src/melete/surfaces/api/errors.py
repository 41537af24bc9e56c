"""Errors as OpenAI's clients expect them: a status, and `{"error": {"message", "type", "code", "param"}}`."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from melete.app.runs import StoppingError, TooManyRunsError
from melete.core.errors import (
    ConfigError,
    LimitError,
    MeleteError,
    NoModelError,
    SessionBusyError,
    SessionNotFoundError,
    StoreError,
    UsageError,
)

FAILED = 500
"""From this status on it is the server that is to blame."""
NONE: Mapping[str, str] = {}


class ErrorDetail(Struct, frozen=True, kw_only=True):
    """What went wrong: `type` is the class of it, `code` the exact cause, `param` the field that is to blame."""

    message: str
    type: str
    code: str | None = None
    param: str | None = None


class ErrorBody(Struct, frozen=True, kw_only=True):
    """The body of every answer that is no success."""

    error: ErrorDetail


class ApiError(MeleteError):
    """A request that is refused, with the status and code that say so."""

    def __init__(
        self, status: int, code: str, what: str, *, param: str = "", next: str = "", headers: Mapping[str, str] = NONE
    ) -> None:
        super().__init__(what, next=next)
        self.status = status
        self.code = code
        self.param = param
        self.headers = headers


TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "unavailable_error",
}
RETRY = {"retry-after": "1"}
STATUSES: tuple[tuple[type[MeleteError], int, str], ...] = (
    (TooManyRunsError, 429, "too_many_runs"),
    (StoppingError, 503, "stopping"),
    (SessionBusyError, 409, "session_busy"),
    (SessionNotFoundError, 404, "not_found"),
    (NoModelError, 503, "no_model"),
    (ConfigError, 422, "invalid_configuration"),
    (UsageError, 400, "invalid_request"),
    (LimitError, 429, "limit_reached"),
    (StoreError, 500, "storage_failed"),
)
"""The status and code of each class of error; the first that fits counts."""


def refusal(error: MeleteError) -> ApiError:
    """The answer to a request that ended in this error."""
    if isinstance(error, ApiError):
        return error
    for kind, status, code in STATUSES:
        if isinstance(error, kind):
            headers = RETRY if status in (429, 503) else NONE
            return ApiError(status, code, str(error), headers=headers)
    return ApiError(500, "internal_error", str(error))


def encoded(error: ApiError) -> bytes:
    """The body that says what went wrong."""
    kind = TYPES.get(error.status, "invalid_request_error" if error.status < FAILED else "server_error")
    detail = ErrorDetail(message=str(error), type=kind, code=error.code, param=error.param or None)
    return msgspec.json.encode(ErrorBody(error=detail))
