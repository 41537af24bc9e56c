"""What commands see of the variables of this process."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from melete.app.keys import looks_secret
from melete.app.settings import load
from melete.app.variables import variables_for_commands
from melete.app.vendors import vendors

KEY = "sk-Zq7-wz2Lr9_fXo4TbV1s"


def seen(home: Path, *, where: str = "local", env: str = "", config: str = "", **variables: str) -> Mapping[str, str]:
    home.mkdir(exist_ok=True)
    (home / ".env").write_text(env)
    (home / "config.yaml").write_text(config)
    base = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "MELETE_HOME": str(home), "EDITOR": "ed"}
    return variables_for_commands(load(environ=base | variables), where)


def test_names_of_secrets_are_left_out(tmp_path: Path) -> None:
    found = seen(
        tmp_path, OPENAI_API_KEY=KEY, GITHUB_TOKEN="x", DB_PASSWORD="y", MELETE_API_KEY_2="z", MELETE_MODEL="m"
    )
    assert set(found) == {"PATH", "HOME", "MELETE_HOME", "EDITOR", "MELETE_MODEL"}


@pytest.mark.parametrize(
    "name",
    ("SMTP_PASS", "SSHPASS", "GPG_PASSPHRASE", "MYSQL_PWD", "SECRET_KEY_BASE", "STORAGE_CONNECTION_STRING", "API_KEYS"),
)
def test_less_usual_names_of_secrets_are_left_out_as_well(tmp_path: Path, name: str) -> None:
    assert name not in seen(tmp_path, **{name: "x"})


@pytest.mark.parametrize("name", ("PWD", "OLDPWD", "BYPASS", "SECRETARY", "COMPASS"))
def test_names_that_only_look_alike_are_kept(tmp_path: Path, name: str) -> None:
    assert seen(tmp_path, **{name: "x"})[name] == "x"


def test_the_key_of_every_vendor_has_such_a_name() -> None:
    assert all(looks_secret(name) for vendor in vendors().values() for name in vendor.keys)


def test_a_variable_that_the_settings_name_as_a_key_is_left_out(tmp_path: Path) -> None:
    config = "providers:\n  mine: {base_url: 'http://127.0.0.1:1', key_variable: MINE}\n"
    found = seen(tmp_path, config=config, MINE=KEY, MINE_2=KEY + "2", MINER="gold")
    assert not {"MINE", "MINE_2"} & set(found)
    assert found["MINER"] == "gold"


def test_a_harmless_name_with_a_secret_in_its_value_is_left_out(tmp_path: Path) -> None:
    found = seen(
        tmp_path,
        OPENAI_API_KEY=KEY,
        DB_PASSWORD="hunter22",
        AGAIN=KEY,
        HEADERS=f"authorization=Bearer {KEY}",
        DATABASE="postgres://me:hunter22@127.0.0.1/db",
        TITLE="the hunter22 of words",
    )
    assert not {"AGAIN", "HEADERS", "DATABASE"} & set(found)
    assert found["TITLE"] == "the hunter22 of words"  # so short a secret may be an ordinary word


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("postgres://me:hunter22@db.test:5432/x", "postgres://db.test:5432/x"),
        ("http://me:p@ss@proxy.test:3128", "http://proxy.test:3128"),
        ("redis://:pw@cache.test", "redis://cache.test"),
        ("https://a:b@one.test/x,https://c:d@two.test|direct", "https://one.test/x,https://two.test|direct"),
        ("https://me@host.test:80/a:b@c", "https://me@host.test:80/a:b@c"),
        ("http://[::1]:80/x@y", "http://[::1]:80/x@y"),
    ],
)
def test_passwords_are_taken_out_of_addresses_unless_they_are_passed(tmp_path: Path, given: str, left: str) -> None:
    config = "env: {passthrough: [PASSED]}\ndocker: {variables: [OF_DOCKER]}\n"
    found = seen(tmp_path, config=config, where="docker", ADDRESS=given, PASSED=given, OF_DOCKER=given)
    assert (found["ADDRESS"], found["PASSED"], found["OF_DOCKER"]) == (left, given, given)


def test_what_the_env_file_holds_is_left_out_under_its_name_and_any_other(tmp_path: Path) -> None:
    env = "WEBHOOK=https://hooks.test/T0/B0/abcdef\nFOLDER=/home/me/projects/long-name\nMELETE_MODEL=a-model-with-a-long-name\n"
    found = seen(
        tmp_path,
        env=env,
        WEBHOOK="https://hooks.test/T0/B0/abcdef",
        OTHER="see https://hooks.test/T0/B0/abcdef",
        PWD="/home/me/projects/long-name/src",
        MODEL="a-model-with-a-long-name",
    )
    assert not {"WEBHOOK", "OTHER"} & set(found)
    assert {"PATH", "PWD", "MODEL"} <= set(found)


def test_another_value_than_the_env_files_is_judged_by_itself(tmp_path: Path) -> None:
    assert seen(tmp_path, env="EDITOR=vi\nPATH=/opt/bin\n")["PATH"] == "/usr/bin:/bin"


def test_passthrough_names_what_is_seen_all_the_same(tmp_path: Path) -> None:
    config = "env: {passthrough: [GITHUB_TOKEN, DEPLOY_KEY, LISTEN_PID]}\n"
    found = seen(
        tmp_path, env=f"DEPLOY_KEY={KEY}\n", config=config, GITHUB_TOKEN="ghp_0123456789abcdef", OTHER_TOKEN="o", LISTEN_PID="1"
    )  # fmt: skip
    assert found["GITHUB_TOKEN"] == "ghp_0123456789abcdef"
    assert found["DEPLOY_KEY"] == KEY
    assert not {"OTHER_TOKEN", "LISTEN_PID"} & set(found)


def test_an_environments_own_section_names_variables_as_well(tmp_path: Path) -> None:
    config = "ssh: {variables: [DEPLOY_TOKEN]}\n"
    assert "DEPLOY_TOKEN" in seen(tmp_path, where="ssh", config=config, DEPLOY_TOKEN="ghp_0123456789abcdef")
    assert "DEPLOY_TOKEN" not in seen(tmp_path, where="local", config=config, DEPLOY_TOKEN="ghp_0123456789abcdef")


@pytest.mark.parametrize(("where", "is_seen"), [("local", True), ("ssh", True), ("sandbox", False), ("modal", False)])
def test_the_keys_of_an_ssh_agent_are_for_commands_of_this_machine(tmp_path: Path, where: str, is_seen: bool) -> None:
    found = seen(tmp_path, where=where, SSH_AUTH_SOCK="/run/agent.sock")
    assert ("SSH_AUTH_SOCK" in found) is is_seen
