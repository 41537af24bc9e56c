"""Names to targets that load when they are asked for."""

import pytest

from melete.core.errors import ConfigError
from melete.core.plugin import Lazy, Registry


def test_a_target_is_imported_when_it_is_asked_for() -> None:
    registry = Registry()
    registry.add("tools", "join", Lazy("posixpath:join"))
    assert registry.get("tools", "join")("a", "b") == "a/b"
    assert list(registry.names("tools")) == ["join"]


def test_a_package_that_is_missing_is_named() -> None:
    registry = Registry()
    registry.add("tools", "x", Lazy("no_such_package_here.inner:thing"))
    with pytest.raises(ConfigError, match="no_such_package_here"):
        registry.get("tools", "x")


def test_a_package_that_an_extra_brings_is_installed_by_the_extra() -> None:
    with pytest.raises(ConfigError, match=r'no_such_package_here.*pip install "melete\[local\]"'):
        Lazy[object]("no_such_package_here:thing", extra="local").load()


def test_a_name_is_taken_once_unless_it_is_replaced() -> None:
    registry = Registry()
    registry.add("tools", "x", len)
    with pytest.raises(ConfigError, match="two plugins"):
        registry.add("tools", "x", print)
    registry.add("tools", "x", print, replaces=True)
    assert registry.get("tools", "x") is print


def test_an_unknown_kind_or_name_lists_what_there_is() -> None:
    registry = Registry()
    registry.add("environments", "local", len)
    with pytest.raises(ConfigError, match="there is no environment 'docker'; known: local"):
        registry.get("environments", "docker")
    with pytest.raises(ConfigError, match="environments"):
        registry.add("tool", "x", len)
