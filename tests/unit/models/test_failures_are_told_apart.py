"""Status and words of servers to one class each, as vendors word them."""

import ssl
from typing import Any

import msgspec
import pytest

from melete.core.model import (
    AuthError,
    BadRequestError,
    ContentFilterError,
    ContextOverflowError,
    ModelError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    TooLargeError,
    UnavailableError,
    UnknownModelError,
)
from melete.models.errors import Failure, excerpt, retry_after, scrub, unreachable
from melete.models.spec import ModelSpec, endpoint, shown

SPEC = ModelSpec(model="m-1", base_url="https://api.example.com/v1", api_key="abcdefgh12345678", provider="example")
URL = "https://api.example.com/v1/chat/completions"


def error(status: int, message: str = "", **fields: Any) -> ModelError:
    """The error of a refusal with an OpenAI-style body."""
    body = msgspec.json.encode({"error": {"message": message, **fields}})
    return Failure(SPEC, URL, status=status, headers={}, body=body).error()


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the request exceeds the available context size, try increasing it",
        "Input is too long for requested model.",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "Please reduce the length of the messages or completion.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Requested tokens exceed context window of 4096",
    ],
)
@pytest.mark.parametrize("status", [0, 400, 413, 422, 500])
def test_a_full_window_is_known_by_its_words(status: int, message: str) -> None:
    assert type(error(status, message)) is ContextOverflowError


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (
            429,
            "You exceeded your current quota, please check your plan and billing details. insufficient_quota",
            QuotaError,
        ),
        (429, "You exceeded your current quota. Please retry in 32.5s.", RateLimitError),
        (400, "Your credit balance is too low to access the API.", QuotaError),
        (402, "Insufficient Balance", QuotaError),
        (400, "API key not valid; invalid_api_key", AuthError),
        (403, "Country, region, or territory not supported", AuthError),
        (400, "model `x` does not exist", UnknownModelError),
        (404, "No endpoints found for vendor/x.", UnknownModelError),
        (400, "m-9 is not a valid model ID", UnknownModelError),
        (404, "model 'x' not found, try pulling it first", UnknownModelError),
        (413, "entity too large", TooLargeError),
        (400, "The response was filtered due to the prompt triggering content management policy", ContentFilterError),
        (403, "Your input was flagged", ContentFilterError),
        (500, "Overloaded", OverloadedError),
        (503, "no capacity", OverloadedError),
        (529, "", OverloadedError),
        (504, "", UnavailableError),
        (408, "", UnavailableError),
        (0, "upstream went away", UnavailableError),
        (0, "rate limit reached", RateLimitError),
        (0, "bad argument; invalid_request_error", BadRequestError),
        (422, "tools: field required", BadRequestError),
    ],
)
def test_other_causes_are_known_by_status_and_words(status: int, message: str, kind: type[ModelError]) -> None:
    assert type(error(status, message)) is kind


def test_an_address_without_a_version_is_suspected() -> None:
    spec = ModelSpec(model="m", base_url="https://api.example.com")
    found = Failure(spec, endpoint(spec.base_url, "/chat/completions"), status=404, headers={}, body=b"").error()
    assert "is https://api.example.com/v1 the base URL?" in found.next


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":{"message":"one"}}', "one"),
        (b'{"error":"two"}', "two"),
        (b'[{"error":{"message":"three"}}]', "three"),
        (b'{"detail":[{"msg":"four"},{"msg":"five"}]}', "four; five"),
        (b'{"detail":[{"loc":["body","messages",1],"msg":"not permitted"}]}', "body.messages.1: not permitted"),
        (b'{"error":{"message":"Provider returned error","metadata":{"raw":"six"}}}', "Provider returned error: six"),
        (b"<html><head><title>Bad &amp; Gateway</title></head></html>", "Bad & Gateway"),
        (b"<html><body><h1>Not</h1>\n<p>here</p></body></html>", "Not here"),
        (b"plain  words\n", "plain words"),
        (b"\xff\xfe", "��"),
        (b"", ""),
    ],
)
def test_the_words_of_an_error_are_found(body: bytes, words: str) -> None:
    assert excerpt(body) == words


def test_long_words_are_cut() -> None:
    assert len(excerpt(b"x" * 5000)) == 300


def test_keys_are_scrubbed() -> None:
    spec = ModelSpec(model="m", base_url="http://h", api_key="abcdefgh12345678", headers={"x-auth": "another-secret"})
    said = (
        "keys abcdefgh12345678, another-secret, sk-proj-1234567890 and sk-12***90ab were seen; ask a task-oriented desk"
    )
    assert scrub(said, spec) == "keys [key], [key], [key] and [key] were seen; ask a task-oriented desk"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "1m30s"}, 90.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, 0.0),
        ({"retry-after": "later"}, None),
        ({}, None),
    ],
)
def test_the_wish_to_wait_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_the_wish_to_wait_may_stand_in_the_words() -> None:
    assert error(429, "Rate limit reached. Please try again in 1.5s.").retry_after == 1.5


def test_addresses_are_shown_without_what_they_hide() -> None:
    assert shown("https://me:word@host:1/v1?key=abc#x") == "https://host:1/v1"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://h:1/v1", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1/", "http://h:1/v1/chat/completions"),
        (" http://h/v1/chat/completions ", "http://h/v1/chat/completions"),
        ("http://h/v1?api-version=2", "http://h/v1/chat/completions?api-version=2"),
        ("http://h", "http://h/chat/completions"),
    ],
)
def test_the_path_is_added_once(base: str, url: str) -> None:
    assert endpoint(base, "/chat/completions") == url


def test_an_expired_certificate_points_to_the_clock() -> None:
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cause.verify_message = "certificate has expired"
    found = unreachable(SPEC, URL, cause)
    assert "certificate has expired" in str(found)
    assert "clock" in found.next
    assert not found.retryable


def test_a_key_at_the_end_of_what_is_shown_is_not_cut_in_half() -> None:
    spec = ModelSpec(model="m", base_url="http://h", api_key="0123456789abcdef0123456789abcdef")
    for before in range(250, 300):
        shown = excerpt(b"x" * before + spec.api_key.encode(), spec)
        assert "0123" not in shown
        assert len(shown) <= 300
