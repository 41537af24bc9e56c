"""The bridge as rows of the suite: pydantic-ai's own clients, pointed at the scripted server."""

import re
from collections.abc import AsyncGenerator, Callable
from functools import partial

import msgspec
import pytest

from melete.core.event import Delta, Reply, Retried
from melete.core.model import ModelClient, ModelRequest, ModelWrapper
from melete.models.bridge import open_model
from melete.models.spec import ModelSpec
from tests.wire.adapters import Adapter

WORDS = "the vendor's library drops what is no event: the cause is told, what the server wrote is not"
SURROUNDINGS = "the vendor's library takes proxies and certificates from the process's environment, never from us"
POOL = "the vendor's library keeps the connections; one that died meanwhile is a failure, which is tried again above it"

CANNOT = {
    r"test_text_and_thinking_stream_and_add_up": "pydantic-ai keeps the answer's id, not the one of the request",
    r"test_each_cause_is_told_in_one_line\[.*-(html|not_json|other_json)-": WORDS,
    r"test_a_missing_key_is_named\[bridge to anthropic": "pydantic-ai asks for this vendor's key before it sends anything",
    r"test_steps_share_one_connection": POOL,
    r"test_a_base_url_that_is_none.*(openai-chat|openai-responses|anthropic-messages)-\]": "no base URL means the vendor's own",
    r"test_a_refused_image": "the bridge passes a refusal on: its dialects are pydantic-ai's",
    r"test_a_path_that_is_given_whole": "the vendor's library adds its path to every base URL",
    r"test_(a_named_certificate|plain_requests_go_through_a_proxy|encrypted_requests_go_through)": SURROUNDINGS,
    r"test_a_proxy_that_refuses": SURROUNDINGS,
}
"""Tests of the suite that cannot hold for the bridge, and why; each must fail, or its line is out of date."""

ELSEWHERE = {
    r"test_cut_at_every_byte|test_in_two_pieces": "a request takes the vendor's library too long for thousands of cuts: "
    "test_the_bridge_reaches_other_vendors.py cuts at some",
}
"""Tests that are done in a smaller form of their own."""


class Bridge(Adapter, frozen=True, kw_only=True):
    """The bridge to a vendor that speaks the wire `to`."""

    to: str


class Named(ModelWrapper):
    """The model under the name that the suite gave it, without the vendor in front."""

    @property
    def name(self) -> str:
        return self.inner.name.partition(":")[2]

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        return self.inner.stream(request)


def _open(spec: ModelSpec, *, vendor: str, strip: str) -> ModelClient:
    base_url = spec.base_url.removesuffix(strip)
    return Named(open_model(msgspec.structs.replace(spec, model=f"{vendor}:{spec.model}", base_url=base_url)))


def _row(to: str, vendor: str, *, strip: str = "") -> Bridge:
    opened: Callable[[ModelSpec], ModelClient] = partial(_open, vendor=vendor, strip=strip)
    return Bridge(wire="bridge", open=opened, to=to)


BRIDGES = (
    _row("openai-chat", "openai-chat"),
    _row("openai-responses", "openai"),
    _row("anthropic-messages", "anthropic", strip="/v1"),
)


def shown(adapter: Adapter) -> str:
    """What a row is called in the names of tests."""
    return f"bridge to {adapter.to}" if isinstance(adapter, Bridge) else adapter.wire


def excuse(adapter: Adapter, test: str) -> pytest.MarkDecorator | None:
    """The mark for a test that cannot hold for a row; None where it has to."""
    if not isinstance(adapter, Bridge):
        return None
    for pattern, reason in ELSEWHERE.items():
        if re.search(pattern, test):
            pytest.skip(reason)
    reason = next((reason for pattern, reason in CANNOT.items() if re.search(pattern, test)), "")
    return pytest.mark.xfail(reason=reason, strict=True) if reason else None
