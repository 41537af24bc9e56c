"""What the doctor sees, and that it always gets to the end."""

import os
import socket
from datetime import UTC, datetime
from pathlib import Path

from melete.app.doctor import Check, checks, worst
from melete.app.key_file import KeyFile
from melete.app.settings import find_home
from melete.testing import ScriptedModel
from melete.testing.server import Connection, LoopbackServer, Received


def examine(tmp_path: Path, *, online: bool = False, **variables: str) -> dict[str, Check]:
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], **variables}
    found = list(checks(environ=environ, online=online))
    assert all(check.fix for check in found if check.status != "ok"), found
    return {check.name: check for check in found}


def test_an_empty_home_is_fine_and_a_model_is_asked_for(tmp_path: Path) -> None:
    found = examine(tmp_path)
    assert (found["model"].status, found["model"].text) == ("warn", "no model is configured")
    assert {
        name: found[name].status for name in ("python", "sockets", "home", "settings", "sqlite", "logs", "bash")
    } == (dict.fromkeys(("python", "sockets", "home", "settings", "sqlite", "logs", "bash"), "ok"))
    assert not (tmp_path / ".melete").exists()


def test_files_that_others_may_read_are_named(tmp_path: Path) -> None:
    home = tmp_path / ".melete"
    home.mkdir(mode=0o755)
    (home / ".env").write_text("A_KEY=1\n")
    (home / ".env").chmod(0o644)
    found = examine(tmp_path)
    assert found["home"].fix == "chmod 700 ~/.melete"
    assert found["keys"].fix == "chmod 600 ~/.melete/.env"
    home.chmod(0o700)
    (home / ".env").chmod(0o600)
    found = examine(tmp_path)
    assert (found["home"].status, found["keys"].status) == ("ok", "ok")


def test_broken_settings_do_not_stop_the_rest(tmp_path: Path) -> None:
    (tmp_path / ".melete").mkdir()
    (tmp_path / ".melete" / "config.yaml").write_text("agnet: 1\nb: 2\n")
    found = examine(tmp_path)
    assert found["settings"].status == "fail"
    assert found["settings"].text == "~/.melete/config.yaml:1: unknown key agnet"
    assert "did you mean agent?" in found["settings"].fix
    assert "sqlite" in found
    assert "model" not in found
    assert worst(found.values()) == "fail"


def test_a_server_that_would_not_start_is_told_with_the_way_out(tmp_path: Path) -> None:
    assert examine(tmp_path)["server"].status == "ok"
    found = examine(tmp_path, MELETE_SERVER_HOST="0.0.0.0")["server"]
    assert (found.status, "is not set" in found.text, "MELETE_SERVER_KEY=" in found.fix) == ("fail", True, True)
    found = examine(tmp_path, MELETE_SERVER_HOST="0.0.0.0", MELETE_SERVER_KEY="Gq7vXw2LmZ9sRk4TbN8c")["server"]
    assert (found.status, "your own key" in found.text) == ("ok", True)
    assert "Gq7vXw2" not in found.text
    (tmp_path / ".melete").mkdir(mode=0o700)
    (tmp_path / ".melete" / "config.yaml").write_text("cron: {timezone: Europe/Brelin}\n")
    assert "Europe/Brelin" in examine(tmp_path)["server"].text


def test_named_keys_without_one_of_ones_own_are_worth_a_word(tmp_path: Path) -> None:
    home = find_home(environ={"HOME": str(tmp_path)})
    KeyFile(home).add("phone", scopes=("chat",), now=datetime.now(UTC))
    found = examine(tmp_path)["server"]
    assert (found.status, "1 named" in found.text, "MELETE_SERVER_KEY" in found.fix) == ("warn", True, True)
    assert examine(tmp_path, MELETE_SERVER_KEY="mine")["server"].status == "ok"


def test_what_listens_at_the_servers_address_is_noticed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert "something listens there" in examine(tmp_path, MELETE_SERVER_PORT=port)["server"].text
    assert "something listens there" not in examine(tmp_path, MELETE_SERVER_PORT=port)["server"].text


def test_a_home_that_is_a_file_and_a_profile_that_is_none(tmp_path: Path) -> None:
    (tmp_path / ".melete").write_text("")
    assert "move that file away" in examine(tmp_path)["home"].fix
    assert "is not the name of a profile" in examine(tmp_path, MELETE_PROFILE="../x")["home"].text


def test_a_server_on_this_machine_is_asked_at_once(tmp_path: Path) -> None:
    with ScriptedModel() as server:
        found = examine(tmp_path, MELETE_BASE_URL=server.base_url, MELETE_MODEL=server.model)
        assert (found["model"].status, found["reach"].status) == ("ok", "ok")
        assert "without a key" in found["model"].text
        other = examine(tmp_path, MELETE_BASE_URL=server.base_url, MELETE_MODEL="other")["reach"]
        assert (other.status, other.fix) == ("warn", f"it lists {server.model}")
        assert server.requests == []
        assert [asked.path.endswith("/models") for asked in server.others] == [True, True]


def test_a_server_that_does_not_run_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    reach = examine(tmp_path, MELETE_BASE_URL=f"http://127.0.0.1:{port}/v1", MELETE_MODEL="m")["reach"]
    assert (reach.status, reach.fix) == ("fail", "start the server")
    assert "refused" in reach.text


def answer(status: int, body: bytes, **headers: str) -> LoopbackServer:
    def handle(connection: Connection, _: Received) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.begin(status, headers=named, length=len(body))
        connection.finish(body)

    return LoopbackServer(handle)


def reach(tmp_path: Path, server: LoopbackServer) -> Check:
    url = f"http://127.0.0.1:{server.port}/v1"
    return examine(tmp_path, MELETE_BASE_URL=url, MELETE_MODEL="m", MELETE_API_KEY="sk-hidden-key")["reach"]


def test_a_wrong_key_names_its_variable_and_never_shows_it(tmp_path: Path) -> None:
    with answer(401, b"{}") as server:
        found = reach(tmp_path, server)
    assert (found.status, found.fix) == ("fail", "check MELETE_API_KEY")
    assert "hidden" not in found.text


def test_what_is_not_an_api_is_said(tmp_path: Path) -> None:
    with answer(200, b"<html>") as server:
        assert "not with a list of models" in reach(tmp_path, server).text
    with answer(404, b"") as server:
        assert reach(tmp_path, server).status == "warn"


def test_a_redirect_is_not_followed_with_the_key(tmp_path: Path) -> None:
    with ScriptedModel() as elsewhere:
        with answer(302, b"", location=f"{elsewhere.base_url}/models") as server:
            assert "status 302" in reach(tmp_path, server).text
        assert elsewhere.others == []


def test_a_clock_that_is_off_is_noticed(tmp_path: Path) -> None:
    with answer(200, b'{"data": []}', date="Fri, 01 Jan 2021 00:00:00 GMT") as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        environ = {"HOME": str(tmp_path), "MELETE_BASE_URL": url, "MELETE_MODEL": "m"}
        clocks = [check for check in checks(environ=environ) if check.name == "clock"]
    assert "differ by" in clocks[0].text
    assert examine(tmp_path, MELETE_CLOCK="+1")["clock"].status == "warn"


def test_errors_in_the_log_and_missing_programs_are_named(tmp_path: Path) -> None:
    home = find_home(environ={"HOME": str(tmp_path)})
    home.folder(home.logs)
    (home.logs / "errors.log").write_text("2999-01-01T00:00:00.000Z ERROR   melete [-] it broke\n")
    found = examine(tmp_path, PATH=str(tmp_path))
    assert found["logs"].text == "1 errors in the last day, the last: it broke"
    assert [found[name].status for name in ("bash", "rg", "git")] == ["warn"] * 3


def test_a_base_url_without_its_version_is_told_the_usual_one(tmp_path: Path) -> None:
    with answer(404, b"") as server:
        url = f"http://127.0.0.1:{server.port}"
        bare = examine(tmp_path, MELETE_BASE_URL=url, MELETE_MODEL="m")["reach"]
        whole = examine(tmp_path, MELETE_BASE_URL=f"{url}/api/v2", MELETE_MODEL="m")["reach"]
    assert bare.fix == f"check the base URL: most servers want {url}/v1"
    assert whole.fix == "check the base URL"


def test_the_list_of_models_is_looked_at(tmp_path: Path) -> None:
    assert examine(tmp_path)["models"].status == "ok"
    (tmp_path / ".melete").mkdir(mode=0o700)
    own = tmp_path / ".melete" / "models.txt"
    own.write_text("<html>")
    found = examine(tmp_path)["models"]
    assert (found.status, "~/.melete/models.txt is no list of models" in found.text) == ("warn", True)
    own.write_text("# melete models 1 2100-01-01\n# mine\nopenai/gpt 10 - ti - - - -\n")
    assert examine(tmp_path)["models"].text == "1 models, as of 2100-01-01"


def test_a_window_that_is_assumed_is_said(tmp_path: Path) -> None:
    known = examine(tmp_path, MELETE_MODEL="openai/gpt-4.1", OPENAI_API_KEY="k")["model"].text
    assumed = examine(tmp_path, MELETE_MODEL="openai/gpt-0", OPENAI_API_KEY="k")["model"].text
    assert "1,047,576 tokens, with a key" in known
    assert "128,000 tokens assumed, with a key" in assumed


def test_a_wire_that_nobody_speaks_fails_before_a_run_does(tmp_path: Path) -> None:
    base_url = "http://127.0.0.1:1/v1"
    model = examine(tmp_path, MELETE_BASE_URL=base_url, MELETE_MODEL="m", MELETE_WIRE="opnai-chat")["model"]
    assert (model.status, model.text) == ("fail", "there is no wire 'opnai-chat'")
    assert "openai-chat" in model.fix
