"""The public surface: a few names, loaded only when asked for; a docstring on every module."""

import ast
import json
import subprocess
import sys

import melete
from tests.arch.sources import package

LOADED = """
import json, sys
before = set(sys.modules)
{code}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter loads to run some code."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOADED.format(code=code)], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_melete_loads_nothing_else_of_it() -> None:
    assert {name for name in loaded_by("import melete") if name.split(".")[0] == "melete"} == {"melete"}


def test_importing_melete_loads_no_dependency() -> None:
    loaded = {name.split(".")[0] for name in loaded_by("import melete")}
    assert not loaded & {"asyncio", "click", "msgspec", "rich", "sqlite3", "ssl", "yaml"}


def test_every_exported_name_resolves() -> None:
    for name in melete.__all__:
        assert getattr(melete, name) is not None, name


def test_exported_names_are_few_and_listed() -> None:
    assert 15 <= len(melete.__all__) <= 40
    assert len(set(melete.__all__)) == len(melete.__all__)
    assert set(melete.__all__) <= set(dir(melete))


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(melete, "no_such_name")


def test_every_module_says_what_it_is() -> None:
    silent = [source.where for source in package() if not ast.get_docstring(source.tree)]
    assert not silent, silent
