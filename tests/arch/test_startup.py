"""What a command loads before it does anything: the price of starting, paid by everyone each time."""

import json
import subprocess
import sys
from pathlib import Path

from melete.testing import ScriptedModel
from tests.talking import environ

RUN = """
import atexit, json, sys
from melete.__main__ import main
sys.argv = ["melete", *sys.argv[1:]]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
HEAVY = {
    "asyncio", "click", "email", "h11", "http", "importlib.metadata", "logging", "msgspec", "rich", "sqlite3", "ssl", "yaml",
}  # fmt: skip
NOT_FOR_AN_ANSWER = {
    "email",
    "http",
    "importlib.metadata",
    "rich",
    "sqlite3",
    "urllib.request",
    "yaml",
    "zipfile",
    "starlette",
    "uvicorn",
    "prometheus_client",
    "cronsim",
    "opentelemetry",
}


def loaded(*arguments: str, status: int, variables: dict[str, str]) -> tuple[set[str], str]:
    """The modules that a command has loaded at its end, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    *said, modules = done.stderr.splitlines()
    return set(json.loads(modules)), done.stdout + "\n".join(said)


def test_the_version_is_told_before_anything_is_loaded(own_home: Path) -> None:
    modules, said = loaded("--version", status=0, variables={"HOME": str(own_home)})
    assert said.startswith("melete ")
    assert not modules & HEAVY
    assert {name for name in modules if name.split(".")[0] == "melete"} <= {
        "melete", "melete.__main__", "melete.core", "melete.core.errors", "melete.core.plugin",
    }  # fmt: skip


def test_a_run_loads_only_what_an_answer_needs() -> None:
    """A server that refuses the connection is met by everything that the first request needs, and by nothing else.

    That holds for a new home too, into which the skills are copied first.
    """
    with ScriptedModel() as model:
        variables = environ(model)
    modules, said = loaded("run", "hi", status=1, variables=variables)
    assert "refused the connection" in said
    assert {"h11", "melete.agent.loop", "melete.store.log"} <= modules
    assert not modules & NOT_FOR_AN_ANSWER
    ours = {name for name in modules if name.startswith("melete.")}
    assert not {
        name for name in ours if name.startswith(("melete.store.sqlite", "melete.store.search", "melete.testing"))
    }
    assert not {
        name for name in ours if name.startswith(("melete.app.doctor", "melete.app.demo", "melete.app.config_edit"))
    }
