"""What goes wrong inside pydantic-ai, as errors of our taxonomy. Part: models, the extra `bridge`."""

import re
import ssl
from collections.abc import Iterator

import msgspec
from pydantic_ai import exceptions as theirs

from melete.core.errors import ConfigError, MeleteError
from melete.core.model import (
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    MalformedReplyError,
    ModelError,
)
from melete.models.errors import EXCERPT, Failure, scrub, unreachable
from melete.models.http import stalled
from melete.models.spec import ModelSpec, shown

STATUS: tuple[tuple[type[theirs.ModelAPIError], int], ...] = (
    (theirs.ModelQuotaExceededError, 402),
    (theirs.ModelRateLimitError, 429),
    (theirs.ModelOverloadedError, 529),
    (theirs.ModelUnavailableError, 503),
    (theirs.ModelServerError, 500),
    (theirs.ModelAuthenticationError, 401),
    (theirs.ModelNotFoundError, 404),
    (theirs.ModelRequestRejectedError, 400),
)
"""The status that a vendor would have used who has none of its own for a cause, or uses 400 for everything."""
NO_STATUS_OF_ITS_OWN = (0, 400)
REFUSED = 300
ADVERTISEMENT = " To try Pydantic AI"
"""Where a message about a missing key goes on about something else."""


def failure(spec: ModelSpec, error: Exception) -> MeleteError:
    """The error of our taxonomy; one that is of it already stays."""
    if isinstance(error, MeleteError):
        return error
    if isinstance(error, theirs.ModelTimeoutError) and error.phase != "connect":
        return stalled(spec, spec.base_url, spec.timeouts.first_token)
    if isinstance(error, theirs.ModelConnectionError | OSError):
        return unreachable(spec, spec.base_url, _cause(error))
    if _status(error) or _category(error):
        return _told(spec, error)
    return _strange(spec, error)


def cannot_open(spec: ModelSpec, vendor: str, error: Exception) -> ConfigError:
    """The error for a model that pydantic-ai does not open: no such vendor, no package, no key."""
    words = _words(spec, error)
    if isinstance(error, ImportError):
        told = re.search(r'pip install "[^"]+"', str(error))
        return ConfigError(
            f"the vendor {vendor} needs the package {error.name!r}, which is not installed"
            if error.name
            else f"the vendor {vendor} needs a package that is not installed",
            next=told.group() if told else f'pip install "pydantic-ai-slim[{vendor}]"',
        )
    if isinstance(error, ValueError):
        return ConfigError(
            f"pydantic-ai knows no vendor {vendor!r} ({words})", next="its documentation lists the names of its vendors"
        )
    return ConfigError(
        f"the bridge cannot open {spec.model} ({words})",
        next=f"set the variables that {vendor} wants in the environment, or {spec.key_variable}",
    )


def _strange(spec: ModelSpec, error: Exception) -> ModelError:
    """The error for what has neither a status nor a cause of its own."""
    words = _words(spec, error)
    if isinstance(error, theirs.ContentFilterError):
        return ContentFilterError(f"{spec.vendor} refused the content ({words})", next="say it in other words")
    if isinstance(error, theirs.UserError | TypeError | ValueError | NotImplementedError):
        return BadRequestError(f"the bridge cannot make this request ({words})", next="choose another model or wire")
    return MalformedReplyError(
        f"{shown(spec.base_url)} answered with something that pydantic-ai cannot read ({words})",
        next="check the base URL and the vendor's name",
    )


def _told(spec: ModelSpec, error: Exception) -> ModelError:
    """The error that a vendor told, with its status, or the one that its cause stands for."""
    status = _status(error)
    headers = (error.headers if isinstance(error, theirs.ModelHTTPError) else None) or {}
    body = error.body if isinstance(error, theirs.ModelAPIError) else None
    said = _body(body if body is not None else str(error))
    if isinstance(error, theirs.ModelContextWindowExceededError):
        told = Failure(spec, spec.base_url, status=status, headers=headers, body=said)
        what = f"the conversation does not fit {spec.model} ({told.said})"
        return ContextOverflowError(what, next="shorten it, or start anew", status=status)
    if status in NO_STATUS_OF_ITS_OWN:
        status = _category(error) or status
    found = Failure(spec, spec.base_url, status=status, headers=headers, body=said).error()
    if found.retry_after is None and isinstance(error, theirs.ModelAPIError):
        found.retry_after = error.retry_after
    return found


def _status(error: Exception) -> int:
    """The status that the server answered with, else the one that pydantic-ai took it for; 0 for none."""
    for cause in list(_causes(error))[1:]:
        status = getattr(cause, "status_code", None)
        if isinstance(status, int) and status >= REFUSED:
            return status
    return error.status_code if isinstance(error, theirs.ModelHTTPError) else 0


def _category(error: Exception) -> int:
    return next((status for kind, status in STATUS if isinstance(error, kind)), 0)


def _body(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return msgspec.json.encode(value, enc_hook=str)


def _cause(error: Exception) -> Exception:
    """What lies behind a broken connection: the system's own error where there is one."""
    causes = list(_causes(error))
    for kind in (ssl.SSLError, OSError):
        for cause in causes:
            if isinstance(cause, kind) and (cause.errno is not None or isinstance(cause, ssl.SSLError)):
                return cause
    return causes[-1] if len(causes) > 1 else error


def _causes(error: BaseException | None) -> Iterator[Exception]:
    seen: set[int] = set()
    while isinstance(error, Exception) and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _words(spec: ModelSpec, error: Exception) -> str:
    text = scrub(" ".join(str(error).split()).partition(ADVERTISEMENT)[0], spec)
    return text[:EXCERPT] or type(error).__name__
