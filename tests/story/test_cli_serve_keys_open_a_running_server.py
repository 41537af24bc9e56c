"""A running server sees what becomes of its keys at once, and one that others could enter is not even started."""

from pathlib import Path

import pytest

from melete.testing import ScriptedModel
from tests.served import Served, served
from tests.story.cli import melete
from tests.story.homes import configure

GOOD = "b1946ac92492d2347c6235b4d2611184"


def status(server: Served, key: str = "", *, host: str = "", origin: str = "") -> int:
    """How the server answers who asks for a run that is not there: 404 means that the key is good."""
    headers = {
        **({"authorization": f"Bearer {key}"} if key else {}),
        **({"host": host} if host else {}),
        **({"origin": origin} if origin else {}),
    }
    return server.client.get("/v1/runs/none", headers=headers).status_code


def keys(*words: str) -> str:
    done = melete("serve", "keys", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_keys_are_made_renewed_and_taken_away_under_a_running_server(own_home: Path) -> None:
    with ScriptedModel() as model, served(own_home, model, env={"MELETE_SERVER_KEY": GOOD}) as server:
        assert (status(server), status(server, GOOD)) == (401, 404)
        first = keys("add", "webui")
        assert status(server, first) == 404
        second = keys("rotate", "webui")
        assert (status(server, first), status(server, second)) == (404, 404)
        third = keys("rotate", "webui", "--grace", "0")
        assert [status(server, key) for key in (first, second, third)] == [401, 401, 404]
        keys("remove", "webui")
        assert (status(server, third), status(server, GOOD)) == (401, 404)


def test_the_first_key_shuts_the_server_for_those_without_one(own_home: Path) -> None:
    with ScriptedModel() as model, served(own_home, model) as server:
        assert status(server) == 404
        key = keys("add", "webui")
        assert (status(server), status(server, key)) == (401, 404)


def test_strangers_are_refused(own_home: Path) -> None:
    configure(own_home, server={"cors_origins": ["https://chat.example"]})
    with ScriptedModel() as model, served(own_home, model) as server:
        assert status(server, host="evil.example") == 403
        assert status(server, origin="https://evil.example") == 403
        assert status(server, origin="null") == 403
        assert status(server, origin="https://chat.example") == 404
        assert server.client.get("/health?api_key=x").status_code == 400
        assert server.client.get("/health").json()["status"] == "ok"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"host": "0.0.0.0"}, "api_key is not set"),
        ({"host": "0.0.0.0", "api_key": "changeme"}, "characters"),
        ({"host": "0.0.0.0", "api_key": "your-api-key-goes-here"}, "placeholder"),
        ({"host": "0.0.0.0", "api_key": f"{GOOD} 1234567890123456789"}, "easy to guess"),
        ({"api_key": "schl\u00fcssel"}, "header"),
    ],
)
def test_a_server_that_anybody_could_enter_is_not_started(
    own_home: Path, settings: dict[str, str], complaint: str
) -> None:
    configure(own_home, server=settings)
    done = melete("serve", "--port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert 'echo "MELETE_SERVER_KEY=$(' in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_whose_keys_are_damaged_is_not_started(own_home: Path) -> None:
    keys("add", "webui")
    (own_home / ".melete" / "state" / "server_keys.json").write_text("{")
    done = melete("serve", "--port", "0")
    assert done.returncode == 1
    assert "server_keys.json" in done.stderr
