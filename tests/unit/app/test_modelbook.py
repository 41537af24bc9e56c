"""What a home knows of models: the newer list wins, a new one is kept whole or not at all, what is not known is said."""

import json
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from melete.app import modelbook
from melete.app.catalog import model_spec
from melete.app.fetch import FetchError
from melete.app.home import Home
from melete.app.settings import Loaded, load
from melete.core.errors import ConfigError, StorageError, UsageError
from melete.core.model import Capabilities
from melete.models import prices
from melete.models.pricelist import BadListError
from melete.testing.server import Connection, LoopbackServer, Received

DEV = {
    "anthropic": {
        "models": {"claude-new": {"limit": {"context": 500_000, "output": 1000}, "cost": {"input": 7, "output": 8}}}
    }
}
LATER = "2100-01-01"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(root=tmp_path / "home", user=tmp_path)


def here(home: Home, **variables: str) -> Loaded:
    return load(environ={"HOME": str(home.user), "MELETE_HOME": str(home.root), **variables})


def keep(home: Home, day: str, *lines: str) -> None:
    home.folder(home.root)
    modelbook.path(home).write_text("\n".join((f"# melete models 1 {day}", "# mine", *lines, "")))


@contextmanager
def serving(answer: Callable[[Connection, Received], None]) -> Iterator[str]:
    with LoopbackServer(answer) as server:
        yield f"http://127.0.0.1:{server.port}"


def body(data: bytes, status: int = 200, **headers: str) -> Callable[[Connection, Received], None]:
    def answer(connection: Connection, _: Received) -> None:
        connection.begin(status, headers=headers, length=len(data))
        connection.finish(data)

    return answer


def test_without_a_list_of_its_own_a_home_has_the_one_that_is_shipped(home: Home) -> None:
    can = modelbook.capabilities(home, "anthropic", "claude-opus-4.5")
    assert (can.context, can.known) == (200_000, True)
    assert "2026" in can.source
    assert not home.root.exists()


def test_the_newer_list_wins(home: Home) -> None:
    line = "anthropic/claude-opus-4-5 1000 - tx 1 2 - -"
    keep(home, LATER, line)
    assert modelbook.capabilities(home, "anthropic", "claude-opus-4-5").context == 1000
    keep(home, "2000-01-01", line)
    assert modelbook.capabilities(home, "anthropic", "claude-opus-4-5").context == 200_000
    modelbook.path(home).write_text("nonsense")
    assert modelbook.capabilities(home, "anthropic", "claude-opus-4-5").context == 200_000


def test_a_damaged_list_is_named_with_the_fix(home: Home) -> None:
    keep(home, LATER, "anthropic/claude-x many")
    with pytest.raises(ConfigError, match=r"~/home/models\.txt is damaged.*melete model refresh"):
        modelbook.capabilities(home, "anthropic", "claude-x")
    with pytest.raises(ConfigError, match="is damaged"):
        modelbook.known_models(home, "anthropic")


def test_a_model_that_nobody_lists_takes_the_defaults(home: Home) -> None:
    assert modelbook.capabilities(home, "anthropic", "nothing-like-it") == Capabilities()
    assert modelbook.capabilities(home, "", "claude-opus-4-5") == Capabilities()


def test_a_server_on_this_machine_is_free(home: Home) -> None:
    can = modelbook.capabilities(home, "ollama", "qwen-something")
    assert (can.known, can.usd_input, can.usd_output, can.source) == (False, 0.0, 0.0, "this machine")
    assert modelbook.capabilities(home, "ollama", "something:1t-cloud").usd_input is None


def test_what_is_known_reaches_the_model(home: Home) -> None:
    spec = model_spec(here(home, MELETE_MODEL="openai/gpt-4.1", OPENAI_API_KEY="k"))
    assert (spec.can.context, spec.can.known, spec.can.max_output) == (1_047_576, True, 32_768)
    assert spec.can.usd_input == 2.0
    own = model_spec(here(home, MELETE_MODEL="openai/gpt-4.1", OPENAI_API_KEY="k", MELETE_CONTEXT_LENGTH="5000"))
    assert (own.can.context, own.can.usd_input) == (5000, 2.0)


def test_what_is_not_known_is_said_with_the_way_round(home: Home) -> None:
    unknown = modelbook.notes(home, "openai", "gpt-4.1-minii", Capabilities())
    assert len(unknown) == 2
    assert (
        "the window of gpt-4.1-minii is not known: 128,000 tokens are assumed; set model.context_length" in unknown[0]
    )
    assert "gpt-4.1-mini" in unknown[0].partition("nearest names")[2]
    assert "the price of gpt-4.1-minii is not known" in unknown[1]
    assert "melete model refresh" in unknown[1]
    assert modelbook.notes(home, "", "m", Capabilities(known=True, usd_input=0.0, usd_output=0.0)) == ()
    assert "nearest" not in modelbook.notes(home, "", "gpt-4.1", Capabilities())[0]


def test_a_list_is_fetched_and_kept(home: Home) -> None:
    with serving(body(json.dumps(DEV).encode())) as url:
        done = modelbook.refresh(here(home), origin=url, today=LATER)
    assert (done.models, done.vendors) == (1, 1)
    assert done.source.startswith("models.dev; where it has none, litellm")
    assert stat.S_IMODE(done.path.stat().st_mode) == 0o600
    new = modelbook.capabilities(home, "anthropic", "claude-new")
    assert (new.context, new.usd_input, LATER in new.source) == (500_000, 7.0, True)
    assert not modelbook.capabilities(home, "anthropic", "claude-opus-4-5").known
    assert modelbook.capabilities(home, "openai", "gpt-4.1").known


def test_a_file_of_our_own_keeps_its_day(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("# melete models 1 2099-05-05\n# a friend\nopenai/gpt-x 2000 - ti 1 2 - -\n")
    done = modelbook.refresh(here(home), origin=str(file))
    assert done.source.startswith("a friend")
    assert prices.day(modelbook.book(home)) == "2099-05-05"


@pytest.mark.parametrize("data", [b"<html>proxy</html>", b"{}", b'{"openai": {"models": {"a b": {}}}}'])
def test_a_bad_list_leaves_the_old_one(home: Home, data: bytes) -> None:
    keep(home, LATER, "openai/gpt-x 1000 - ti 1 2 - -")
    before = modelbook.path(home).read_bytes()
    with serving(body(data)) as url, pytest.raises(BadListError):
        modelbook.refresh(here(home), origin=url)
    assert modelbook.path(home).read_bytes() == before
    assert [path.name for path in home.root.iterdir()] == [modelbook.NAME]


@pytest.mark.parametrize(
    ("status", "fix"), [(404, "check the address"), (500, "try again later"), (429, "wait a little"), (403, "check it")]
)
def test_a_refusal_names_the_status_and_the_fix(home: Home, status: int, fix: str) -> None:
    with serving(body(b"no", status)) as url, pytest.raises(FetchError, match=f"status {status}") as caught:
        modelbook.refresh(here(home), origin=f"{url}/x?token=hidden")
    assert fix in caught.value.next
    assert "hidden" not in str(caught.value)
    assert not home.root.exists()


def test_a_server_that_is_not_there_is_named(home: Home) -> None:
    with serving(body(b"")) as url:
        pass
    with pytest.raises(FetchError, match=r"cannot be reached: Connection refused; start the server"):
        modelbook.refresh(here(home), origin=url)


def test_the_proxy_of_the_environment_is_used_and_named_when_it_fails(home: Home) -> None:
    asked: list[str] = []

    def proxy(connection: Connection, received: Received) -> None:
        asked.append(received.target)
        body(json.dumps(DEV).encode())(connection, received)

    with serving(proxy) as url:
        modelbook.refresh(here(home, HTTP_PROXY=url), origin="http://models.example/api.json", today=LATER)
        assert asked == ["http://models.example/api.json"]
        modelbook.path(home).unlink()
    with pytest.raises(FetchError, match="check the proxy"):
        modelbook.refresh(here(home, http_proxy=url.removeprefix("http://")), origin="http://models.example/x")


def test_redirects_are_followed_for_a_list(home: Home) -> None:
    with serving(body(json.dumps(DEV).encode())) as there, serving(body(b"", 302, location=f"{there}/list")) as url:
        assert modelbook.refresh(here(home), origin=url, today=LATER).models == 1


@pytest.mark.parametrize("origin", ["/nowhere/at-all", "", "ftp://host/list", "https://"])
def test_what_cannot_be_read_is_said(home: Home, origin: str, tmp_path: Path) -> None:
    with pytest.raises((UsageError, ConfigError)):
        modelbook.refresh(here(home), origin=origin or str(tmp_path))


def test_a_home_that_cannot_be_written_is_said(home: Home, tmp_path: Path) -> None:
    home.root.write_text("a file")
    file = tmp_path / "list.json"
    file.write_text(json.dumps(DEV))
    with pytest.raises(StorageError, match="nothing was changed"):
        modelbook.refresh(here(Home(root=tmp_path / "home" / "deeper", user=tmp_path)), origin=str(file))
