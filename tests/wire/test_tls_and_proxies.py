"""Encrypted connections, certificates that cannot be trusted, and proxies in between."""

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest

from melete.core.errors import ConfigError
from melete.core.model import ConnectionFailedError
from melete.testing import Fault, Say, ScriptedModel
from tests.wire.adapters import Adapter, answered, ask, asking, spec
from tests.wire.raw import Act, head, sending, serving
from tests.wire.recordings import ANSWERS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for `localhost` that nobody signed, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", "req", *kind, *name, *files], check=True, capture_output=True)
    return cert, key


def server_side(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """A context that shows the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def relaying(asked: list[bytes], *, status: bytes = b"200 Connection established") -> Act:
    """A proxy that opens tunnels."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readuntil(b"\r\n\r\n")
        asked.append(line)
        if status[:1] != b"2":
            writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")
            writer.close()
            return
        _, _, port = line.split(b" ")[1].rpartition(b":")
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(b"HTTP/1.1 " + status + b"\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, far_writer))
            group.create_task(pump(far_reader, writer))

    return act


@pytest.mark.needs("openssl")
def test_a_named_certificate_is_trusted(adapter: Adapter, certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        act = sending(head(), ANSWERS[adapter.wire])
        async with serving(act, ssl=server_side(certificate)) as port:
            client = adapter.open(spec(f"https://localhost:{port}/v1", ca_file=str(certificate[0])))
            assert (await answered(client, asking("Go"))).message.calls
            await client.aclose()

    asyncio.run(main())


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_an_unknown_certificate_stops_at_once(adapter: Adapter, certificate: tuple[Path, Path], host: str) -> None:
    """Under `localhost` nobody vouches for it; under the address it is trusted but names another host."""

    async def main() -> None:
        trusted = str(certificate[0]) if host == "127.0.0.1" else ""
        async with serving(sending(head()), ssl=server_side(certificate)) as port:
            client = adapter.open(spec(f"https://{host}:{port}/v1", ca_file=trusted))
            with pytest.raises(ConnectionFailedError, match=r"no secure connection to https://.*certificate") as caught:
                await answered(client, asking("Go"))
            assert not caught.value.retryable
            await client.aclose()

    asyncio.run(main())


def test_tls_to_a_server_that_speaks_none_is_told(adapter: Adapter) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
            client = adapter.open(spec(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"))
            with pytest.raises(ConnectionFailedError, match="try http://"):
                await answered(client, asking("Go"))
            await client.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_plain_requests_go_through_a_proxy_by_their_full_address(adapter: Adapter, scheme: str) -> None:
    with ScriptedModel([Say("by proxy")]) as server:
        proxy = server.base_url.removesuffix("/v1").replace("http://", f"{scheme}me:pass%40word@")
        replies = ask(adapter, "http://far.example.com/v1", asking("Go"), proxy=proxy)
        request = server.requests[0]
    assert replies[0].message.text == "by proxy"
    assert request.headers["host"] == "far.example.com"
    assert request.headers["proxy-authorization"] == "Basic bWU6cGFzc0B3b3Jk"


@pytest.mark.needs("openssl")
def test_encrypted_requests_go_through_a_tunnel(adapter: Adapter, certificate: tuple[Path, Path]) -> None:
    asked: list[bytes] = []

    async def main() -> None:
        act = sending(head(), ANSWERS[adapter.wire])
        proxy = await asyncio.start_server(relaying(asked), "127.0.0.1", 0)
        near = proxy.sockets[0].getsockname()[1]
        async with serving(act, ssl=server_side(certificate)) as port:
            options = {"ca_file": str(certificate[0]), "proxy": f"http://me:word@127.0.0.1:{near}"}
            client = adapter.open(spec(f"https://localhost:{port}/v1", **options))
            assert (await answered(client, asking("Go"))).message.calls
            await client.aclose()
            assert asked[0].startswith(f"CONNECT localhost:{port} HTTP/1.1\r\n".encode())
            assert b"proxy-authorization: Basic bWU6d29yZA==" in asked[0]
        proxy.close()
        await asyncio.sleep(0.05)

    asyncio.run(main())


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxy_that_refuses_is_told_without_its_password(adapter: Adapter, scheme: str) -> None:
    async def main() -> None:
        proxy = await asyncio.start_server(relaying([], status=b"407 No"), "127.0.0.1", 0)
        near = proxy.sockets[0].getsockname()[1]
        client = adapter.open(spec("https://far.example.com/v1", proxy=f"{scheme}me:secretword@127.0.0.1:{near}"))
        with pytest.raises(ConnectionFailedError, match="HTTP 407") as caught:
            await answered(client, asking("Go"))
        assert "secretword" not in str(caught.value)
        assert "proxy" in caught.value.next
        assert not caught.value.retryable
        await client.aclose()
        proxy.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "base_url", ["", "ftp://example.com/v1", "example.com/v1", "http://", "http://[::1/v1", "http://a:b/v1"]
)
def test_a_base_url_that_is_none_is_refused_before_any_request(adapter: Adapter, base_url: str) -> None:
    with pytest.raises(ConfigError):
        adapter.open(spec(base_url))


@pytest.mark.parametrize("key", ["sk-line\nend", "“quoted”", "sk-\x00"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(adapter: Adapter, key: str) -> None:
    with pytest.raises(ConfigError, match="MELETE_API_KEY holds the character") as caught:
        adapter.open(spec("http://127.0.0.1/v1", api_key=key))
    assert key not in str(caught.value)


PATHS = {
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic-messages": "/messages",
    "gemini": "/models/scripted-model:streamGenerateContent",
}


def test_a_path_that_is_given_whole_is_not_doubled(adapter: Adapter) -> None:
    path = PATHS[adapter.wire]
    with ScriptedModel([Say("ok"), Say("ok"), Say("ok"), Fault("unauthorized")]) as server:
        for base in (server.base_url, server.base_url + "/", f"{server.base_url}{path}?x=1"):
            ask(adapter, base, asking("Go"))
        assert [r.path for r in server.requests] == [f"/v1{path}"] * 3
        assert "x=1" in server.requests[2].target
