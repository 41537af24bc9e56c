"""A model that takes no images is told in words that there was one, and the person is told as well."""

import asyncio
import json
from typing import Any

from melete.core.event import Reply, Retried
from melete.core.message import Image, Message, Text, user
from melete.testing import Fault, Say, ScriptedModel
from melete.testing import Reply as Scripted
from tests.wire.adapters import Adapter, asking, collect, spec

PICTURE = Message(role="user", parts=(Text(text="What is this?"), Image(data="aW1hZ2U=")))
REFUSAL = Fault("bad_request", message="scripted-model does not support image input")


def blind(body: dict[str, Any], _: int) -> Scripted | str:
    return REFUSAL if "aW1hZ2U=" in json.dumps(body) else Say("No picture here.")


def test_a_refused_image_is_left_out_from_then_on(adapter: Adapter) -> None:
    async def main(base_url: str) -> list[object]:
        client = adapter.open(spec(base_url))
        try:
            first = await collect(client.stream(asking(PICTURE)))
            return [*first, *await collect(client.stream(asking(PICTURE, user("And now?"))))]
        finally:
            await client.aclose()

    with ScriptedModel(blind) as server:
        items = asyncio.run(main(server.base_url))
        bodies = [request.body for request in server.requests]
    (told,) = [item for item in items if isinstance(item, Retried)]
    assert "takes no images" in told.reason
    assert [item.message.text for item in items if isinstance(item, Reply)] == ["No picture here."] * 2
    assert [b"aW1hZ2U=" in body for body in bodies] == [True, False, False]
    assert all(b"an image was left out" in body for body in bodies[1:])
