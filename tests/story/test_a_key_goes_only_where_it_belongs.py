"""The key of one server is never shown to another; a stand-in without its key is left out, and that is said."""

from pathlib import Path

from melete.testing import Fault, ScriptedModel
from tests.story.cli import melete
from tests.story.homes import at, configure, holders, keys

OURS = "sk-ours-0123456789abcdef"
THEIRS = "sk-theirs-fedcba9876543210"


def test_the_key_of_the_main_server_is_not_sent_to_a_stand_in_elsewhere(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel([Fault("quota")] * 3) as first, ScriptedModel(["By name."]) as second, ScriptedModel() as third:
        elsewhere = second.base_url.replace("127.0.0.1", "localhost")
        home = configure(
            own_home,
            model={
                **at(first, name="wanted"),
                "fallbacks": [
                    {"name": "other", "base_url": elsewhere},
                    {
                        "name": "keyed",
                        "base_url": third.base_url.replace("127.0.0.1", "localhost"),
                        "key_variable": "THEIRS",
                    },
                ],
            },
        )
        keys(own_home, MELETE_API_KEY=OURS, THEIRS=THEIRS)
        done = melete("run", "hello", cwd=tmp_path)
        second.play(Fault("quota"))
        other = melete("run", "hello", cwd=tmp_path)
    assert (done.stdout, other.stdout) == ("By name.\n", "(script is over)\n")
    assert [request.headers["authorization"] for request in first.requests] == [f"Bearer {OURS}"] * 2
    assert not [request for request in second.requests if OURS in str(request) or THEIRS in str(request)]
    (request,) = third.requests
    assert request.headers["authorization"] == f"Bearer {THEIRS}"
    assert OURS not in str(request)
    assert not holders(home, OURS, but=".env") + holders(home, THEIRS, but=".env")


def test_a_stand_in_of_a_provider_of_ones_own_gets_that_providers_key(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel([Fault("quota")]) as first, ScriptedModel(["Hello."]) as second:
        configure(
            own_home,
            model={**at(first, name="wanted"), "fallbacks": ["my-box/small"]},
            providers={"my-box": at(second, wire="anthropic-messages")},
        )
        done = melete("run", "hello", cwd=tmp_path, MELETE_API_KEY=OURS, MY_BOX_API_KEY=THEIRS)
    assert done.stdout == "Hello.\n", done.stderr
    (request,) = second.requests
    assert THEIRS in str(request.headers)
    assert OURS not in str(request)


def test_a_stand_in_without_its_key_is_left_out(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["Well."]) as first:
        configure(own_home, model={**at(first, name="wanted"), "fallbacks": ["anthropic/claude-opus-4-5"]})
        done = melete("run", "hello", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "Well.\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("melete: warning: the fallback anthropic/claude-opus-4-5 is left out: no key for anthropic;")
    assert "ANTHROPIC_API_KEY=" in line
