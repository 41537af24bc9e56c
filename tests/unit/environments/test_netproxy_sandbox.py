"""The network of a real sandbox: commands reach the hosts on the list through the proxy, and nothing by any other way."""

import asyncio
import functools
import http.server
import os
import shutil
import socket
import subprocess
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from melete.core.environment import Completed, Place
from melete.core.places import SandboxOptions
from melete.environments.network import without_proxies
from melete.environments.sandbox import Sandbox

pytestmark = pytest.mark.needs("bwrap", "curl")
HOST = "host.example"
OPTIONS = SandboxOptions(allow=(HOST,), derive=False, walls="bwrap")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and says nothing about it; `/away` leads to a private address."""

    def do_GET(self) -> None:
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/latest/meta-data/")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """A web server on this machine's loopback that shows a folder."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class To:
    """A dialer that leads every name to one port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> tuple[StreamReader, StreamWriter]:
        self.asked.append((host, port))
        return await asyncio.open_connection("127.0.0.1", self.port)


def with_sandbox(
    tmp_path: Path,
    test: Callable[[Sandbox], Awaitable[None]],
    *,
    dial: Any = None,
    options: SandboxOptions = OPTIONS,
    **more: str,
) -> None:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    variables = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PIP_CONFIG_FILE": "/dev/null", **more}

    async def main() -> None:
        place = Place(
            cwd=str(folder), variables=variables, options=options, dial=dial, scratch=str(tmp_path / "scratch")
        )
        env = Sandbox(place)
        try:
            async with asyncio.timeout(90):
                await test(env)
        finally:
            await env.aclose()

    before = _descriptors()
    asyncio.run(main())
    assert _descriptors() <= before
    assert "melete-sandbox-network" not in [thread.name for thread in threading.enumerate()]


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def bash(env: Sandbox, command: str) -> Completed:
    return await env.exec(["bash", "-c", command], timeout=60)


def test_curl_reaches_what_is_on_the_list_and_is_told_what_is_not(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("the page")

    async def test(env: Sandbox) -> None:
        done = await bash(
            env, f"curl -sS http://{HOST}/page; curl -sS --socks5-hostname ${{http_proxy#http://}} http://{HOST}/page"
        )
        assert (done.output, done.notes) == (b"the pagethe page", ())
        done = await bash(
            env, "curl -sS http://evil.example/; curl -sS https://evil.example/; curl -sS http://evil.example/"
        )
        assert b"melete config set sandbox.allow host.example,evil.example" in done.output
        assert b"response 403" in done.output
        assert len(done.notes) == 1
        assert "evil.example:80, evil.example:443: it is not on the allow-list" in done.notes[0]
        done = await bash(env, "true")
        assert done.notes == ()

    with serving(tmp_path) as port:
        dial = To(port)
        with_sandbox(tmp_path, test, dial=dial)
        assert dial.asked == [(HOST, 80), (HOST, 80)]


def test_a_redirect_to_a_private_address_leads_nowhere(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        done = await bash(env, f"curl -sSL http://{HOST}/away")
        assert b"link-local" in done.output
        assert "169.254.169.254:80" in done.notes[0]

    with serving(tmp_path) as port:
        dial = To(port)
        with_sandbox(tmp_path, test, dial=dial)
        assert dial.asked == [(HOST, 80)]


RAW = """
import socket, sys
def tried(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(2)
        try:
            s.connect(address)
            s.send(b"x" * 20)
            return s.recv(10)
        except OSError as error:
            return error
for family, kind, address in [
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(sys.argv[1]))),
    (socket.AF_INET, socket.SOCK_STREAM, ("10.0.0.1", 80)),
    (socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80)),
    (socket.AF_INET, socket.SOCK_STREAM, ("93.184.215.14", 80)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("93.184.215.14", 53)),
    (socket.AF_INET6, socket.SOCK_STREAM, ("::1", int(sys.argv[1]))),
    (socket.AF_INET6, socket.SOCK_STREAM, ("2606:4700::1111", 80)),
]:
    found = tried(family, kind, address)
    assert isinstance(found, OSError), (address, found)
for name in ("host.example", "data.evil.example"):
    try:
        socket.getaddrinfo(name, 80)
    except OSError:
        continue
    raise AssertionError("a name was resolved")
print("nothing")
"""


@pytest.mark.needs("python3")
def test_no_other_way_leads_out(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        await env.write("raw.py", RAW.encode())
        done = await bash(env, f"python3 raw.py {port}")
        assert done.output == b"nothing\n"

    with serving(tmp_path) as port:
        with_sandbox(tmp_path, test, dial=To(port))
        with_sandbox(tmp_path, test, dial=To(port), options=structs.replace(OPTIONS, network="off"))


def test_the_machines_own_proxy_and_its_password_stay_outside(tmp_path: Path) -> None:
    secret = {
        name: "http://me:hidden@proxy.example:3128"
        for name in ("HTTPS_PROXY", "http_proxy", "npm_config_proxy", "FTP_PROXY")
    }
    assert without_proxies({**secret, "GOPROXY": "off", "HOME": "/"}) == {"GOPROXY": "off", "HOME": "/"}

    async def test(env: Sandbox) -> None:
        done = await bash(env, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
        assert b"hidden" not in done.output
        assert b"proxy.example" not in done.output

    for network in ("allow", "off"):
        with_sandbox(tmp_path, test, options=structs.replace(OPTIONS, network=network), **secret)


def test_certificates_that_commands_cannot_see_are_not_named_to_them(tmp_path: Path) -> None:
    seen = tmp_path / "work" / "seen.pem"
    seen.parent.mkdir()
    seen.write_text("")

    async def test(env: Sandbox) -> None:
        done = await bash(env, "echo $SSL_CERT_FILE $CURL_CA_BUNDLE.")
        assert done.output == f"{seen} .\n".encode()

    with_sandbox(tmp_path, test, SSL_CERT_FILE=str(seen), CURL_CA_BUNDLE="/no/such/file.pem")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_a_named_port_of_this_machines_loopback_is_reached_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("the page")

    async def test(env: Sandbox) -> None:
        done = await bash(env, f"curl -sS http://127.0.0.1:{port}/page; curl -sS http://localhost:{port}/page")
        assert done.output == b"the pagethe page"
        done = await bash(env, f"curl -sS http://127.0.0.1:{other}/page")
        assert done.code == 7

    with serving(tmp_path) as port, serving(tmp_path) as other:
        with_sandbox(tmp_path, test, options=structs.replace(OPTIONS, loopback=(port,)))


@pytest.mark.needs("python3")
def test_a_published_port_leads_into_the_sandbox(tmp_path: Path) -> None:
    port = free_port()

    async def test(env: Sandbox) -> None:
        await env.write("page", b"from inside")
        server = await env.start(["python3", "-m", "http.server", "--bind", "127.0.0.1", str(port)])
        page = b""
        while b"from inside" not in page:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /page HTTP/1.0\r\n\r\n")
            page = await reader.read()
            writer.close()
            await asyncio.sleep(0.02)
        await server.kill()

    with_sandbox(tmp_path, test, options=structs.replace(OPTIONS, publish=(port,)))
    with pytest.raises(OSError, match=r"."), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


def test_settings_that_cannot_be_followed_are_said_with_the_first_command(tmp_path: Path) -> None:
    async def test(env: Sandbox) -> None:
        done = await bash(env, "echo works")
        assert done.output == b"works\n"
        told = "\n".join(done.notes)
        assert f"sandbox.publish: port {port}" in told
        assert "sandbox.loopback: port 80" in told
        assert "sandbox.allow holds 'http://x'" in told
        assert "sandbox.private_networks holds 'everything'" in told
        assert (await bash(env, "true")).notes == ()

    with serving(tmp_path) as port:
        options = SandboxOptions(
            derive=False,
            walls="bwrap",
            publish=(port,),
            loopback=(80,),
            allow=("http://x",),
            private_networks=("everything",),
        )
        with_sandbox(tmp_path, test, options=options)


def test_a_sandbox_that_starts_anew_has_its_network_again(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("the page")

    async def test(env: Sandbox) -> None:
        assert (await bash(env, f"curl -sS http://{HOST}/page")).output == b"the page"
        inside = await env.inside()
        inside.close()
        assert (await bash(env, f"curl -sS http://{HOST}/page")).output == b"the page"

    with serving(tmp_path) as port:
        with_sandbox(tmp_path, test, dial=To(port))


def test_many_commands_at_once_share_it(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("p")

    async def test(env: Sandbox) -> None:
        one = f"for i in 1 2 3 4 5 6 7 8 9 10; do curl -sS http://{HOST}/page & done; wait"
        done = await asyncio.gather(*[bash(env, one) for _ in range(5)])
        assert [result.output for result in done] == [b"p" * 10] * 5

    with serving(tmp_path) as port:
        with_sandbox(tmp_path, test, dial=To(port))


def test_the_end_of_the_sandbox_ends_a_download_in_mid_flow(tmp_path: Path) -> None:
    async def drip(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegin")
        try:
            await reader.read()
        finally:
            writer.close()
            ended.set()

    async def test(env: Sandbox) -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        dial.port = server.sockets[0].getsockname()[1]
        download = await env.start(["curl", "-sSN", f"http://{HOST}/"])
        assert await download.read() == b"begin"
        await env.aclose()
        await ended.wait()
        server.close()

    dial, ended = To(0), asyncio.Event()
    with_sandbox(tmp_path, test, dial=dial)


@pytest.mark.needs("git")
def test_git_clones_over_http_through_it(tmp_path: Path) -> None:
    served, source = tmp_path / "served", tmp_path / "source"
    served.mkdir()

    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *words], check=True, capture_output=True
        )

    git("init", "-q", str(source))
    (source / "file").write_text("kept")
    git("-C", str(source), "add", "file")
    git("-C", str(source), "commit", "-q", "-m", "first")
    git("clone", "-q", "--bare", str(source), str(served / "it.git"))
    git("-C", str(served / "it.git"), "update-server-info")

    async def test(env: Sandbox) -> None:
        done = await bash(env, f"git clone -q http://{HOST}/it.git && cat it/file")
        assert done.output.endswith(b"kept"), done.output
        done = await bash(env, "git clone -q http://evil.example/it.git other")
        assert done.code
        assert "evil.example:80" in done.notes[0]

    with serving(served) as port:
        with_sandbox(tmp_path, test, dial=To(port))


@pytest.mark.needs("pip")
def test_pip_downloads_from_an_index_that_the_owner_has_set(tmp_path: Path) -> None:
    """The list comes from the owner's own configuration, so nothing has to be allowed by hand."""
    index = tmp_path / "index" / "simple" / "tiny"
    index.mkdir(parents=True)
    (index / "index.html").write_text('<a href="tiny-1.0-py3-none-any.whl">tiny</a>')
    _wheel(index / "tiny-1.0-py3-none-any.whl")

    async def test(env: Sandbox) -> None:
        done = await bash(
            env, "pip download --no-cache-dir --no-deps --disable-pip-version-check -d got tiny && ls got"
        )
        assert done.output.endswith(b"tiny-1.0-py3-none-any.whl\n"), (done.output, done.notes)

    with serving(tmp_path / "index") as port:
        dial = To(port)
        with_sandbox(
            tmp_path, test, dial=dial, options=SandboxOptions(walls="bwrap"),
            PIP_INDEX_URL=f"http://{HOST}/simple", PIP_TRUSTED_HOST=HOST, PATH=_own_path("pip"),
        )  # fmt: skip
        assert set(dial.asked) == {(HOST, 80)}


def _own_path(program: str) -> str:
    found = shutil.which(program)
    assert found
    return f"{Path(found).resolve().parent}{os.pathsep}{os.environ['PATH']}"


def _wheel(path: Path) -> None:
    import_free = path.with_suffix("")
    info = import_free / "tiny-1.0.dist-info"
    info.mkdir(parents=True)
    (import_free / "tiny.py").write_text("")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (info / "RECORD").write_text("")
    shutil.make_archive(str(path), "zip", import_free)
    path.with_name(path.name + ".zip").rename(path)
    shutil.rmtree(import_free)


def test_a_remote_that_a_command_adds_opens_nothing_not_even_in_the_next_session(tmp_path: Path) -> None:
    config = tmp_path / "work" / ".git" / "config"
    config.parent.mkdir(parents=True)
    config.write_text(f'[remote "origin"]\n\turl = http://{HOST}/it\n')
    (tmp_path / "page").write_text("the page")
    add = """printf '[remote "more"]\\n\\turl = http://evil.example/\\n' >> .git/config"""

    async def test(env: Sandbox) -> None:
        done = await bash(env, f"{add}; curl -sS http://evil.example/page; curl -sS http://{HOST}/page")
        assert done.output.endswith(b"the page")
        assert "added after this folder was first worked in" in done.notes[0]
        assert [str(entry) for entry in env.network.hosts() if entry.why.startswith("git")] == [HOST]

    with serving(tmp_path) as port:
        for _ in range(2):
            dial = To(port)
            with_sandbox(tmp_path, test, dial=dial, options=SandboxOptions(walls="bwrap"))
            assert dial.asked == [(HOST, 80)]


def test_a_big_download_passes(tmp_path: Path) -> None:
    size = 200 << 20
    with (tmp_path / "big").open("wb") as file:
        file.truncate(size)

    async def test(env: Sandbox) -> None:
        done = await bash(env, f"curl -sS http://{HOST}/big | wc -c")
        assert int(done.output) == size

    with serving(tmp_path) as port:
        with_sandbox(tmp_path, test, dial=To(port))
