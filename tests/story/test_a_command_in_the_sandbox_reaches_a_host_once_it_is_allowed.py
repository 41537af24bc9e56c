"""A command is refused a host, the model and the person read what would allow it, the person types that, and it is reached."""

import json
import re
import shlex
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from melete.testing import Call, ScriptedModel
from tests.story.cli import melete

pytestmark = pytest.mark.needs("bwrap", "curl")
FETCH = Call("terminal", {"command": "curl -sS http://host.example/page; env | grep -ci secret-word"})
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nthe page"


class Upstream(socketserver.StreamRequestHandler):
    """The proxy that this machine goes through: answers in the place of every host."""

    asked: list[str]

    def handle(self) -> None:
        self.asked.append(self.rfile.readline().decode().strip())
        self.asked += [
            line.decode().strip() for line in iter(self.rfile.readline, b"\r\n") if line.startswith(b"Proxy-")
        ]
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in iter(self.rfile.readline, b"\r\n"):
            pass
        self.wfile.write(PAGE)


@contextmanager
def proxy() -> Iterator[tuple[str, list[str]]]:
    """(address, what it was asked)"""
    asked: list[str] = []
    handler = type("Asked", (Upstream,), {"asked": asked})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://me:secret-word@127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def result(model: ScriptedModel) -> dict[str, str]:
    """What the model read of its command."""
    return json.loads(model.requests[-1].json["messages"][-1]["content"])


def test_what_was_refused_is_allowed_by_what_the_refusal_says(tmp_path: Path) -> None:
    with proxy() as (address, asked), ScriptedModel([FETCH, "No.", FETCH, "Yes."]) as model:
        melete(
            "run", "--env", "sandbox", "Fetch it.", model=model, cwd=tmp_path, HTTPS_PROXY=address, NO_PROXY="127.0.0.1"
        )
        first = result(model)
        assert "host.example:80: it is not on the allow-list" in first["note"]
        assert asked == []
        advice = re.search(r"melete (config set sandbox\.allow [^\s;]+)", first["note"])
        assert advice
        assert melete(*shlex.split(advice[1])).returncode == 0
        done = melete(
            "run", "--env", "sandbox", "Again.", model=model, cwd=tmp_path, HTTPS_PROXY=address, NO_PROXY="127.0.0.1"
        )
        assert done.stdout == "Yes.\n"
        second = result(model)
        assert second["output"].split() == ["the", "page0"]  # and of the proxy's password nothing is seen in there
        assert "note" not in second
        assert asked[0] == "CONNECT host.example:80 HTTP/1.1"
        assert asked[1].startswith("Proxy-Authorization: Basic ")
