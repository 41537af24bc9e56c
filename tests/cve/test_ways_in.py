"""What agents were attacked by through their server, the addresses they fetch, the files they read and what surrounds them."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from melete.app.checks import CHECKS, How, Row, answer
from melete.security.commands import judge_command
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.served import Served, served
from tests.story import test_a_key_goes_only_where_it_belongs as belonging
from tests.story import test_api_sessions_are_their_owners_alone as owned
from tests.story import test_cli_serve_keys_open_a_running_server as opening
from tests.story import test_every_way_out_is_redacted as leaving
from tests.story.cli import melete
from tests.unit.api import test_gate_keys as gate_keys
from tests.unit.api import test_gate_names as gate_names
from tests.unit.api import test_gate_requests as gate_requests
from tests.unit.app import test_server_keys_strength as strength
from tests.unit.net import test_dial as dial
from tests.unit.net import test_fetch as fetch
from tests.unit.security import test_paths as paths
from tests.unit.skills import test_archive as archive
from tests.unit.tools import test_sessions as sessions

PRIVATE = (
    "http://127.0.0.1/", "http://0x7f.1/", "http://localhost/", "http://[::ffff:10.0.0.1]/", "file:///etc/passwd",
    "http://169.254.169.254/latest/", "http://inner.example/", "http://mixed.example/", "http://a:b@host.example/",
)  # fmt: skip
CONTROL = (
    "MELETE_HOME", "MELETE_MODEL", "MELETE_BASE_URL", "MELETE_API_KEY", "MELETE_WIRE", "MELETE_PROFILE", "MELETE_SERVER_KEY",
    "MELETE_CLOCK", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY",
    "ALL_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PATH", "HOME", "SHELL", "BASH_ENV", "ENV", "PROMPT_COMMAND", "LD_PRELOAD",
    "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "NODE_OPTIONS", "PERL5OPT",
    "RUBYOPT", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", "GIT_EXEC_PATH", "EDITOR", "PAGER", "BROWSER", "DOCKER_HOST", "KUBECONFIG",
)  # fmt: skip
ESCAPES = (
    "echo x > {out}", "sh -c 'echo x > {out}'", "setsid sh -c 'echo x > {out}'", "nohup sh -c 'echo x > {out}' & wait",
    "python3 -c \"open('{out}', 'w')\"", "find . -maxdepth 0 -exec touch {out} ';'", "echo {out} | xargs touch",
    "ln -s {top} way; echo x > way/out", "mkdir -p a && ln -s {top} a/b && echo x > a/b/../out; cd a/b && echo x > out",
)  # fmt: skip


def test_08_pairing_or_reconnect_widens_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key does what its scopes say; once it is taken away the next call is refused and its open streams end."""
    for name in ("one", "two", "three", "four"):
        (tmp_path / name).mkdir()
    gate_keys.test_a_named_key_is_itself_and_may_do_what_its_scopes_say(tmp_path / "one")
    gate_keys.test_what_becomes_of_a_key_counts_at_once(tmp_path / "two")
    gate_keys.test_a_removed_key_opens_nothing_even_where_no_key_is_needed(tmp_path / "three")
    gate_requests.test_a_stream_ends_with_its_key(tmp_path / "four", monkeypatch)


def test_09_api_server_without_or_with_a_known_key(own_home: Path) -> None:
    """Reachable by others, the server does not start without a key, with a placeholder or with one that is easy to guess."""
    for key in strength.WEAK:
        strength.test_a_key_that_is_easily_guessed_is_refused_where_others_can_reach_the_server(key)
    for settings, complaint in (
        ({"host": "0.0.0.0"}, "api_key is not set"),
        ({"host": "::", "api_key": "changeme"}, "characters"),
    ):
        opening.test_a_server_that_anybody_could_enter_is_not_started(own_home, settings, complaint)


def test_10_cross_site_requests_from_a_browser(tmp_path: Path) -> None:
    """A page of another origin, a name that was rebound to this machine, and a page that hides its origin get nothing."""
    for number, test in enumerate(
        (
            gate_names.test_a_foreign_host_is_refused_before_anything_else,
            lambda folder: gate_names.test_a_page_of_another_origin_is_refused(folder, key=True),
            lambda folder: gate_names.test_a_page_of_another_origin_is_refused(folder, key=False),
            gate_names.test_a_page_that_hides_its_origin_is_refused_but_a_link_is_not,
            gate_names.test_without_a_key_nobody_from_elsewhere_is_served,
        )
    ):
        (tmp_path / str(number)).mkdir()
        test(tmp_path / str(number))


def test_11_tokens_in_urls_logs_or_sent_to_other_hosts(tmp_path: Path, own_home: Path) -> None:
    """A key is refused in an address, is sent to its own server alone, and stands in nothing that is written or sent."""
    gate_keys.test_a_key_in_the_address_is_refused_and_written_nowhere(tmp_path)
    belonging.test_the_key_of_the_main_server_is_not_sent_to_a_stand_in_elsewhere(tmp_path, own_home)
    leaving.test_no_way_out_shows_a_key(tmp_path, own_home)


def test_12_path_traversal_in_ids_and_archives(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Names and paths from outside stay in their folder: in the one helper, in archives, in addresses and in ids."""
    paths.test_links_are_followed_inside_and_refused_outside(tmp_path)
    paths.test_nothing_leaves_the_folder_whatever_is_put_together(tmp_path_factory)
    for number, name in enumerate(("../evil", "/evil", "a/../../evil", "a\\evil")):
        (tmp_path / str(number)).mkdir()
        archive.test_an_entry_that_is_no_plain_file_inside_ends_it(tmp_path / str(number), name, {})
    (tmp_path / "gate").mkdir()
    gate_requests.test_odd_paths_are_refused(tmp_path / "gate")
    (tmp_path / "secret.jsonl").write_text("the secret")
    for name in ("../../secret", "../secret.jsonl", str(tmp_path / "secret"), "..", "%2e%2e/secret"):
        done = melete("sessions", "show", name)
        assert done.returncode == 2, done
        assert "the secret" not in done.stdout + done.stderr


def test_13_ssrf_through_fetch_and_redirects() -> None:
    """What is not public is never dialled: not by its address, by a redirect, by its name, or by a name that changes its mind."""
    for url in PRIVATE:
        fetch.test_what_may_not_be_reached_is_never_dialled(url)
    for status in (301, 307):
        fetch.test_every_redirect_is_judged_anew("http://169.254.169.254/latest/", status)
        fetch.test_every_redirect_is_judged_anew("http://inner.example/", status)
    fetch.test_a_name_server_that_changes_its_mind_changes_nothing()
    dial.test_a_name_is_asked_for_once_so_that_a_second_answer_helps_nobody()


@pytest.mark.needs("bwrap")
def test_14_sandbox_not_inherited(tmp_path: Path, own_home: Path) -> None:
    """Whatever a command in the sandbox starts, and however, it is in the sandbox as well."""
    top, work = own_home / "top", tmp_path / "work"
    top.mkdir()
    work.mkdir()
    commands = [each.format(out=top / "out", top=top) for each in ESCAPES]
    calls = [
        *(Call("terminal", {"command": command}) for command in commands),
        *(Call("terminal", {"command": command, "background": True}) for command in commands[:4]),
        Call(
            "execute_code",
            {"code": f"import subprocess\nsubprocess.run(['touch', '{top}/out'])\nopen('{top}/out', 'w')"},
        ),
        Call("execute_code", {"code": f"from melete_tools import terminal\nterminal(command='touch {top}/out')"}),
        Call("terminal", {"command": "sleep 1; touch inside"}),
    ]
    with ScriptedModel([Calls(calls), Say("Done.")]) as model:
        done = melete("run", "--json", "--env", "sandbox", "--yolo", "Go.", model=model, cwd=work)
    assert done.returncode == 0, done.stderr
    assert (work / "inside").exists(), done.stdout
    assert list(top.iterdir()) == []


def test_15_workspace_env_redirects_the_runtime(tmp_path: Path) -> None:
    """A `.env` in the working folder is a file like any other: 200 variables that control programs change nothing."""
    log = tmp_path / "evil.log"
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(log)!r}, 'a').write('ran')\n")
    names = [*CONTROL, *(f"{name}_{number}" for number in range(4) for name in CONTROL)]
    hostile = "".join(f"{name}={evil}\n" for name in names)
    (tmp_path / ".env").write_text(hostile)
    (tmp_path / ".envrc").write_text(hostile)
    show = Call("terminal", {"command": "env > seen.txt; python3 -c 'import sys; print(sys.path)' >> seen.txt"})
    with ScriptedModel([show, Say("Mine.")]) as model:
        done = melete("run", "--env", "local", "Who answers?", model=model, cwd=tmp_path)
        assert len(model.requests) >= 2
    assert (done.returncode, done.stdout) == (0, "Mine.\n")
    assert len(names) >= 200
    assert str(evil) not in (tmp_path / "seen.txt").read_text()
    assert not log.exists()


def test_18_unbounded_input(tmp_path: Path) -> None:
    """Bodies, heads, pages, archives, commands, texts and lines have an end, and what is longer is refused in bounded memory."""
    bounded = (gate_requests.test_heads_have_an_end, gate_requests.test_a_body_has_an_end)
    for number, test in enumerate((*bounded, archive.test_bombs_are_refused_before_they_unpack)):
        (tmp_path / str(number)).mkdir()
        test(tmp_path / str(number))
    fetch.test_a_page_is_unpacked_and_bounded("gzip")
    fetch.test_a_page_without_a_length_is_bounded_as_well()
    assert judge_command("$(" * 400_000).verdict == "ask"
    assert judge_command("echo a; " * 100_000).verdict == "ask"
    deep = b'{"id": 1, "text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    texts = (
        "a-" * 300_000,
        "eyJ" * 200_000,
        "always send " * 5_000,
        "<!--" * 100_000,
        "http://" + "a." * 50_000,
        "../" * 50_000,
    )
    tracemalloc.start()
    for name in CHECKS:
        assert "error" in answer(name, deep, How())
    for text in texts:
        for name in ("url", "text", "path"):
            CHECKS[name](Row(text=text, root=str(tmp_path)), How())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """A server of a person, in which others have keys."""
    with ScriptedModel(owned.play) as model, served(tmp_path, model, env={"MELETE_SERVER_KEY": owned.OWN}) as found:
        yield found


def test_20_cross_session_or_cross_user_disclosure(tmp_path: Path, server: Served) -> None:
    """Two people with keys of their own: no way of the API and no tool of sessions shows one what belongs to the other."""
    ann, bob = (owned.Client(server, server.add_key(name)) for name in ("ann", "bob"))
    for method, path, body in owned.ACTS:
        owned.test_what_is_anothers_is_answered_as_what_is_not_there(ann, bob, method, path, body)
    owned.test_another_key_can_neither_go_on_with_a_session_nor_guess_it(ann, bob)
    (tmp_path / "tools").mkdir()
    sessions.test_another_owners_session_cannot_be_reached(tmp_path / "tools")
