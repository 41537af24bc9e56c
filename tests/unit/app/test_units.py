"""Units for systemd: what is in them, that systemd itself can read them, and that nothing of a person's is overwritten."""

import os
import pwd
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.story.cli import melete

from melete.app.units import (
    LONGER,
    SYSTEM_FOLDER,
    Plan,
    address,
    bare,
    complaints,
    fits,
    folder,
    install,
    quoted,
    units,
)
from melete.core.errors import ConfigError, UsageError

ODD = "a b %h 100% $HOME ${x} ; é"
ME = pwd.getpwuid(os.getuid()).pw_name


def plan(**fields: object) -> Plan:
    return Plan(**{"program": ("/opt/melete",), "home": Path("/home/m/.melete"), **fields})


def read(text: str) -> dict[str, list[str]]:
    """The directives of a unit file with their values, as they stand."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def program(where: Path) -> str:
    """Something that systemd accepts as a program, in a folder of an odd name."""
    path = where / ODD / "mel ete"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("account", ["", ME])
def test_systemd_reads_the_units_as_they_are_meant(account: str, tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    made = plan(
        program=(program(tmp_path), "-m", "melete"),
        home=tmp_path / ODD,
        profile="work",
        account=account,
        listen=address("::1", 8642),
        writable=(tmp_path / ODD,),
        search=f"/usr/bin:{tmp_path / ODD}",
    )
    paths = install(units(made), tmp_path / "units")
    assert [path.name for path in paths] == ["melete-work.service", "melete-work.socket"]
    variables = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    assert complaints(paths, user=not account, variables=variables) == []


@pytest.mark.needs("systemd-analyze")
def test_what_systemd_does_not_like_is_passed_on(tmp_path: Path) -> None:
    paths = install(units(plan(program=("/nowhere/melete",), account=ME)), tmp_path)
    found = complaints(paths, user=False, variables=os.environ)
    assert any("/nowhere/melete is not executable" in line for line in found)
    assert complaints(paths, user=False, variables={"PATH": str(tmp_path)}) == ()


def test_a_unit_waits_until_requests_are_answered_and_lets_work_end() -> None:
    for drain in (0.0, 30.0, 599.5):
        found = read(units(plan(drain=drain))["melete.service"])
        assert found["Type"] == ["notify"]
        assert found["NotifyAccess"] == ["main"]
        assert found["KillMode"] == ["mixed"]
        assert drain + LONGER <= int(found["TimeoutStopSec"][0]) <= drain + LONGER + 1
        assert int(found["WatchdogSec"][0]) > 0
        assert found["Restart"] == ["on-failure"]
        assert found["StartLimitBurst"] == ["5"]


def test_walls_of_files_are_for_units_of_the_system() -> None:
    system = read(units(plan(account="m", writable=(Path("/srv/x y"),)))["melete.service"])
    assert system["User"] == ["m"]
    assert system["ProtectSystem"] == ["strict"]
    assert system["ReadWritePaths"] == ['"/home/m/.melete" "/srv/x y"']
    assert system["PrivateTmp"] == ["yes"]
    assert system["WantedBy"] == ["multi-user.target"]
    own = read(units(plan())["melete.service"])
    assert not {"User", "ProtectSystem", "ReadWritePaths", "PrivateTmp"} & own.keys()
    assert own["WantedBy"] == ["default.target"]
    for found in (system, own):
        assert found["NoNewPrivileges"] == ["yes"]
        assert found["RestrictSUIDSGID"] == ["yes"]


def test_a_profile_has_units_of_its_own() -> None:
    found = units(plan(profile="work"))
    unit = read(found["melete-work.service"])
    assert unit["ExecStart"] == [':"/opt/melete" "serve" "--profile" "work"']
    assert unit["Environment"] == ['"MELETE_HOME=/home/m/.melete"']
    assert unit["WorkingDirectory"] == ["-/home/m/.melete/profiles/work/workspace"]


def test_with_a_socket_the_service_gets_it_from_systemd() -> None:
    found = units(plan(listen="127.0.0.1:8642"))
    assert read(found["melete.socket"])["ListenStream"] == ["127.0.0.1:8642"]
    assert read(found["melete.socket"])["WantedBy"] == ["sockets.target"]
    service = read(found["melete.service"])
    assert service["Requires"] == service["Also"] == ["melete.socket"]
    assert "Requires" not in read(units(plan())["melete.service"])


def test_percent_signs_and_spaces_are_kept_and_dollars_mean_nothing() -> None:
    unit = read(units(plan(program=(f"/opt/{ODD}/melete",), home=Path(f"/h/{ODD}")))["melete.service"])
    assert unit["ExecStart"] == [':"/opt/a b %%h 100%% $HOME ${x} ; é/melete" "serve"']  # the colon: no variables
    assert unit["WorkingDirectory"] == ["-/h/a b %%h 100%% $HOME ${x} ; é/workspace"]
    assert unit["Environment"] == ['"MELETE_HOME=/h/a b %%h 100%% $HOME ${x} ; é"']


@pytest.mark.parametrize("odd", ["a\nUser=root", "a\\", 'a"b', "a'b", "a\\b", "a ", "a\x1b", "\udcff", "a\u2028b"])
def test_what_would_mean_something_else_is_refused(odd: str) -> None:
    assert not fits(odd)
    for made in (plan(home=Path("/h") / odd), plan(program=(f"/opt/{odd}",)), plan(search=f"/usr/bin:/{odd}")):
        with pytest.raises(ConfigError, match="cannot stand in a unit file"):
            units(made)


@given(st.text(max_size=30))
def test_a_text_is_refused_or_stands_on_one_line_with_its_percent_signs_doubled(text: str) -> None:
    if not fits(text):
        with pytest.raises(ConfigError):
            quoted(text)
        return
    assert bare(text).replace("%%", "%") == text
    assert quoted(text) == f'"{bare(text)}"'
    assert len(quoted(text).splitlines()) == 1


@pytest.mark.parametrize(
    ("host", "found"),
    [("127.0.0.1", "127.0.0.1:8642"), ("localhost", "127.0.0.1:8642"), ("::1", "[::1]:8642"), ("[::]", "[::]:8642")],
)
def test_a_socket_needs_an_address(host: str, found: str) -> None:
    assert address(host, 8642) == found
    with pytest.raises(ConfigError, match="port"):
        address(host, 0)


@pytest.mark.parametrize("host", ["melete.example", "", "*", "127.0.0.1\n"])
def test_a_name_is_no_address(host: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.host is"):
        address(host, 8642)


def test_units_lie_where_the_manager_looks_for_them() -> None:
    assert folder(plan(account="m"), {}) == SYSTEM_FOLDER
    assert folder(plan(), {"HOME": "/home/m"}) == Path("/home/m/.config/systemd/user")
    assert folder(plan(), {"HOME": "/home/m", "XDG_CONFIG_HOME": "/c"}) == Path("/c/systemd/user")
    assert folder(plan(), {"HOME": "/home/m", "XDG_CONFIG_HOME": "rel"}) == Path("/home/m/.config/systemd/user")


def test_a_file_that_a_person_changed_is_not_written_over(tmp_path: Path) -> None:
    where = tmp_path / "new" / "user"
    service, socket = install(units(plan(listen="127.0.0.1:1")), where)
    assert stat.S_IMODE(service.stat().st_mode) == 0o644
    before = socket.stat().st_mtime_ns
    service.write_text("[Service]\n# mine\n")
    with pytest.raises(UsageError, match=r"nothing was written; put changes .*systemctl edit melete\.service.*--force"):
        install(units(plan(listen="127.0.0.1:2")), where)
    assert (service.read_text(), socket.stat().st_mtime_ns) == ("[Service]\n# mine\n", before)
    install(units(plan(listen="127.0.0.1:1")), where, force=True)
    assert service.read_text() == units(plan(listen="127.0.0.1:1"))["melete.service"]
    assert socket.stat().st_mtime_ns == before  # it said so already
    install(units(plan(listen="127.0.0.1:1")), where)


def test_a_folder_that_cannot_be_written_is_named_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/user cannot be written: .*; run it with sudo, or print"):
        install(units(plan()), tmp_path / "file" / "user")


def test_the_command_prints_units_for_the_home_that_is_in_force(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MELETE_LEARNING", raising=False)
    (own_home / ".melete").mkdir()
    (own_home / ".melete" / "config.yaml").write_text("server: {port: 9001, drain_seconds: 90}\n")
    search = f"{os.environ['PATH']}:/no/such/folder:relative"
    done = melete("serve", "unit", "--user", "--socket", MELETE_SERVER_KEY="k" * 40, PATH=search)
    assert done.returncode == 0, done.stderr
    head, _, tail = done.stdout.partition(f"# {own_home}/.config/systemd/user/melete.socket\n")
    assert head.startswith(f"# {own_home}/.config/systemd/user/melete.service\n")
    service, socket = read(head), read(tail)
    assert socket["ListenStream"] == ["127.0.0.1:9001"]
    assert service["TimeoutStopSec"] == ["120"]
    assert service["Environment"][0] == f'"MELETE_HOME={own_home}/.melete"'
    assert "/no/such/folder" not in service["Environment"][1]
    assert "relative" not in service["Environment"][1]
    assert "k" * 40 not in done.stdout + done.stderr
    assert "set in this shell only: MELETE_ENV, MELETE_SERVER_KEY; the service reads ~/.melete/.env" in done.stderr
    words = [word.strip('"') for word in service["ExecStart"][0].removeprefix(":").split(" ")]
    asked = subprocess.run([*words, "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "Serve the HTTP API" in asked.stdout


def test_the_command_installs_and_says_what_comes_next(own_home: Path, tmp_path: Path) -> None:
    where = tmp_path / "c" / "systemd" / "user"
    words = ("-p", "work", "serve", "unit", "--user", "--socket", "--install")
    done = melete(*words, XDG_CONFIG_HOME=str(tmp_path / "c"), XDG_RUNTIME_DIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert sorted(path.name for path in where.iterdir()) == ["melete-work.service", "melete-work.socket"]
    assert "systemctl --user enable --now melete-work.service melete-work.socket" in done.stderr
    assert "enable-linger" in done.stderr
    assert "not executable" not in done.stderr
    (where / "melete-work.service").write_text("mine")
    again = melete(*words, XDG_CONFIG_HOME=str(tmp_path / "c"))
    assert again.returncode == 2
    assert (where / "melete-work.service").read_text() == "mine"
    assert melete(*words, "--force", XDG_CONFIG_HOME=str(tmp_path / "c")).returncode == 0


def test_a_unit_of_the_system_runs_as_somebody_who_exists(own_home: Path) -> None:
    (own_home / ".melete").mkdir()
    done = melete("serve", "unit", "--system", "--as", "root", "--writable", str(own_home))
    assert done.returncode == 0, done.stderr
    assert read(done.stdout)["User"] == ["root"]
    assert f'"{own_home}"' in read(done.stdout)["ReadWritePaths"][0]
    assert "it will run as root" in done.stderr
    nobody = melete("serve", "unit", "--as", "no-such-user")
    assert nobody.returncode == 2
    assert "there is no user 'no-such-user'" in nobody.stderr


@pytest.mark.parametrize(
    "words", [("--user", "--as", "root"), ("--user", "--writable", "/tmp"), ("--force",), ("--writable", "/no/such")]
)
def test_options_that_make_no_sense_together_are_refused(words: tuple[str, ...]) -> None:
    done = melete("serve", "unit", *words)
    assert done.returncode == 2
    assert done.stdout == ""
