"""Which model, where, with which key."""

from pathlib import Path

import pytest

from melete.app.catalog import choose, choose_other, keys_in, model_spec
from melete.app.sections import Fallback
from melete.app.settings import load
from melete.app.vendors import address, is_loopback, proxy_for
from melete.core.errors import ConfigError, NoModelError
from melete.models.spec import ModelSpec


def spec(tmp_path: Path, flags: dict[str, object] | None = None, /, **variables: str) -> ModelSpec:
    return model_spec(load(flags, environ={"HOME": str(tmp_path), **variables}))


def fails(tmp_path: Path, **variables: str) -> str:
    with pytest.raises(ConfigError) as caught:
        spec(tmp_path, **variables)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_without_a_model_the_ways_to_get_one_are_listed(tmp_path: Path) -> None:
    with pytest.raises(NoModelError) as caught:
        spec(tmp_path)
    for way in (
        "-m PROVIDER/NAME",
        "MELETE_MODEL=",
        "config set model.name",
        "ollama/",
        "MELETE_BASE_URL",
        "melete demo",
    ):
        assert way in str(caught.value)
    with pytest.raises(NoModelError, match="-m groq/NAME"):
        spec(tmp_path, GROQ_API_KEY="12345678")
    with pytest.raises(NoModelError, match="no model is named for localhost"):
        spec(tmp_path, MELETE_BASE_URL="http://localhost:1/v1")


def test_a_provider_before_the_name_gives_address_wire_and_key(tmp_path: Path) -> None:
    found = spec(tmp_path, MELETE_MODEL="openai/gpt-x", OPENAI_API_KEY=" sk-1 ", GROQ_API_KEY="gsk")
    assert (found.model, found.provider, found.base_url) == ("gpt-x", "openai", "https://api.openai.com/v1")
    assert (found.wire, found.api_key, found.key_variable) == ("openai-responses", "sk-1", "OPENAI_API_KEY")
    assert found.quirks.max_tokens == "max_completion_tokens"


def test_a_slash_without_a_known_provider_belongs_to_the_name(tmp_path: Path) -> None:
    found = spec(tmp_path, MELETE_MODEL="meta-llama/llama", OPENROUTER_API_KEY="k")
    assert (found.provider, found.model) == ("openrouter", "meta-llama/llama")
    found = spec(tmp_path, MELETE_MODEL="openrouter/openai/gpt-x", OPENROUTER_API_KEY="k")
    assert (found.provider, found.model) == ("openrouter", "openai/gpt-x")


def test_with_a_base_url_the_name_is_whole(tmp_path: Path) -> None:
    found = spec(tmp_path, MELETE_MODEL="openai/gpt-x", MELETE_BASE_URL="http://127.0.0.1:8000/v1")
    assert (found.model, found.provider, found.api_key, found.wire) == ("openai/gpt-x", "", "", "openai-chat")
    assert found.vendor == "127.0.0.1"
    assert spec(tmp_path, MELETE_MODEL="m", MELETE_BASE_URL="http://[::1]:80/", MELETE_WIRE="w").wire == "w"


def test_a_base_url_of_a_vendor_gets_its_key_and_dialect(tmp_path: Path) -> None:
    found = spec(tmp_path, MELETE_MODEL="m", MELETE_BASE_URL="https://api.openai.com/v1/", OPENAI_API_KEY="k")
    assert (found.provider, found.api_key, found.quirks.cache_key) == ("openai", "k", True)


def test_a_vendors_key_is_never_sent_to_another_host(tmp_path: Path) -> None:
    message = fails(tmp_path, MELETE_MODEL="m", MELETE_BASE_URL="https://api.example.com/v1", OPENAI_API_KEY="k")
    assert "no key for api.example.com; put MELETE_API_KEY=" in message
    assert spec(tmp_path, MELETE_MODEL="m", MELETE_BASE_URL="http://localhost:1", OPENAI_API_KEY="k").api_key == ""


def test_a_provider_in_the_settings_takes_the_name_whole_unless_the_name_is_newer(tmp_path: Path) -> None:
    (tmp_path / ".melete").mkdir()
    (tmp_path / ".melete" / "config.yaml").write_text("model:\n  name: openrouter/auto\n  provider: openrouter\n")
    keys = {"OPENROUTER_API_KEY": "or", "GROQ_API_KEY": "gq"}
    assert spec(tmp_path, **keys).model == "openrouter/auto"
    newer = spec(tmp_path, {"model.name": "groq/llama"}, **keys)
    assert (newer.provider, newer.model, newer.api_key) == ("groq", "llama", "gq")
    plain = spec(tmp_path, {"model.name": "qwen/qwen"}, **keys)
    assert (plain.provider, plain.model) == ("openrouter", "qwen/qwen")


def test_melete_api_key_goes_before_the_vendors(tmp_path: Path) -> None:
    assert spec(tmp_path, MELETE_MODEL="groq/big", MELETE_API_KEY="own", GROQ_API_KEY="gq").api_key == "own"
    assert spec(tmp_path, MELETE_MODEL="groq/big", GROQ_API_KEY="gq").api_key == "gq"


def test_the_key_of_a_base_url_that_was_set_aside_goes_nowhere_else(tmp_path: Path) -> None:
    variables = {"MELETE_BASE_URL": "https://mine.example/v1", "MELETE_API_KEY": "own", "GROQ_API_KEY": "gq"}
    aside: dict[str, object] = {"model.base_url": ""}
    assert spec(tmp_path, MELETE_MODEL="groq/m", **variables).api_key == "own"
    assert spec(tmp_path, aside, MELETE_MODEL="groq/m", **variables).api_key == "gq"
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        spec(tmp_path, aside, MELETE_MODEL="openai/m", **variables)


def test_context_length_and_timeouts_reach_the_model(tmp_path: Path) -> None:
    flags: dict[str, object] = {"model.timeouts.connect": 3}
    variables = {"MELETE_MODEL": "ollama/m", "MELETE_CONTEXT_LENGTH": "32768"}
    found = spec(tmp_path, flags, **variables)
    assert (found.can.context, found.can.known, found.timeouts.connect) == (32_768, True, 3.0)


def test_an_hour_in_the_cache_costs_more_than_five_minutes(tmp_path: Path) -> None:
    variables = {"MELETE_MODEL": "anthropic/claude-opus-4-5", "ANTHROPIC_API_KEY": "sk-ant-12345678"}
    short, hour = spec(tmp_path, **variables), spec(tmp_path, {"model.cache_ttl": "1h"}, **variables)
    assert [s.can.usd_cache_write for s in (short, hour)] == [6.25, 10.0]
    other = spec(tmp_path, {"model.cache_ttl": "1h"}, MELETE_MODEL="openai/gpt-5.6", OPENAI_API_KEY="sk-12345678")
    assert other.can.usd_cache_write == 5.0


def test_one_key_decides_and_several_ask(tmp_path: Path) -> None:
    assert spec(tmp_path, MELETE_MODEL="grok", XAI_API_KEY="k").provider == "xai"
    message = fails(tmp_path, MELETE_MODEL="m", XAI_API_KEY="k", GROQ_API_KEY="k")
    assert "write xai/m or groq/m" in message
    assert "no provider is named for m; write PROVIDER/m" in fails(tmp_path, MELETE_MODEL="m")
    typed = fails(tmp_path, MELETE_MODEL="antropic/claude-x", XAI_API_KEY="k", GROQ_API_KEY="k")
    assert "did you mean anthropic/claude-x? otherwise write xai/antropic/claude-x or" in typed
    assert "did you mean openai/m? otherwise write PROVIDER/opnai/m" in fails(tmp_path, MELETE_MODEL="opnai/m")


def test_what_is_wrong_is_said_with_the_fix(tmp_path: Path) -> None:
    assert "no key for openai; put OPENAI_API_KEY=" in fails(tmp_path, MELETE_MODEL="openai/x")
    asked = fails(tmp_path, MELETE_MODEL="openai/x", OPENROUTER_API_KEY="k")
    assert "openrouter/openai/x" in asked
    assert "names a provider and no model" in fails(tmp_path, MELETE_MODEL="openai/")
    spaced = fails(tmp_path, MELETE_MODEL="openai/x", OPENAI_API_KEY="sk-hidden # my key")
    assert "OPENAI_API_KEY cannot be a key" in spaced
    assert "hidden" not in spaced
    with pytest.raises(ConfigError, match="did you mean openai"):
        spec(tmp_path, {"model.provider": "opnai", "model.name": "x"})


@pytest.mark.parametrize(
    "url",
    ["localhost:8000/v1", "ftp://h/v1", "http://", "http:///v1", "http://h:99999/", "http://h:0", "http://[::1", "a b"],
)
def test_what_is_no_address_is_refused(tmp_path: Path, url: str) -> None:
    assert fails(tmp_path, MELETE_MODEL="m", MELETE_BASE_URL=url).startswith("MELETE_BASE_URL: ")


def test_a_password_in_an_address_is_refused_unshown(tmp_path: Path) -> None:
    message = fails(tmp_path, MELETE_MODEL="m", MELETE_BASE_URL="https://me:hidden@h/v1")
    assert "holds a password" in message
    assert "hidden" not in message


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True), ("a.localhost", True), ("127.8.9.1", True), ("::1", True), ("localhost.evil.com", False),
        ("127.0.0.1.evil.com", False), ("0.0.0.0", False), ("10.0.0.1", False), ("", False),
    ],
)  # fmt: skip
def test_loopback_is_told_by_the_address_alone(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.parametrize(
    ("url", "variables", "proxy"),
    [
        ("https://h/v1", {"https_proxy": "http://p:1"}, "http://p:1"),
        ("https://h/v1", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("http://h/v1", {"https_proxy": "http://p:1"}, ""),
        ("http://h/v1", {"ALL_PROXY": "http://q:1"}, "http://q:1"),
        ("https://a.h.org/", {"all_proxy": "http://q", "no_proxy": "x, .h.org"}, ""),
        ("https://a.h.org/", {"all_proxy": "http://q", "no_proxy": "h.org"}, ""),
        ("https://ah.org/", {"all_proxy": "http://q", "no_proxy": "h.org"}, "http://q"),
        ("https://h.org:8/", {"all_proxy": "http://q", "no_proxy": "h.org:9"}, "http://q"),
        ("https://h.org:9/", {"all_proxy": "http://q", "no_proxy": "h.org:9"}, ""),
        ("https://h.org/", {"all_proxy": "http://q", "no_proxy": "*"}, ""),
        ("http://127.0.0.1:5/", {"http_proxy": "http://q"}, ""),
    ],
)
def test_the_usual_variables_choose_the_proxy(url: str, variables: dict[str, str], proxy: str) -> None:
    assert proxy_for(address(url, where="x"), variables) == proxy


def test_a_server_of_ones_own_is_called_by_its_name(tmp_path: Path) -> None:
    (tmp_path / ".melete").mkdir()
    (tmp_path / ".melete/config.yaml").write_text(
        "providers:\n"
        "  my-lab: {base_url: 'https://lab.example/v1', wire: gemini, context_length: 32768}\n"
        "  groq: {base_url: 'http://localhost:1/v1', key_variable: OTHER}\n"
    )
    found = spec(tmp_path, MELETE_MODEL="my-lab/a/b", MY_LAB_API_KEY="12345678")
    assert (found.model, found.provider, found.base_url, found.wire) == (
        "a/b",
        "my-lab",
        "https://lab.example/v1",
        "gemini",
    )
    assert (found.api_key, found.can.context, found.can.known) == ("12345678", 32768, True)
    assert "MY_LAB_API_KEY" in fails(tmp_path, MELETE_MODEL="my-lab/a")
    own = spec(tmp_path, MELETE_MODEL="Groq/a", OTHER="87654321")
    assert (own.base_url, own.api_key) == ("http://localhost:1/v1", "87654321")


def test_several_keys_of_one_vendor_are_numbered() -> None:
    variables = {"A_KEY": "", "B_KEY": "1", "B_KEY_2": "2", "B_KEY_4": "4", "C_KEY": "5"}
    assert keys_in(("A_KEY", "B_KEY", "C_KEY"), variables) == [("B_KEY", "1"), ("B_KEY_2", "2"), ("B_KEY_4", "4")]
    assert keys_in(("D_KEY",), variables) == []


def test_the_key_of_one_server_is_not_shown_to_a_fallback_elsewhere(tmp_path: Path) -> None:
    loaded = load(
        environ={
            "HOME": str(tmp_path),
            "MELETE_API_KEY": "secret-of-main",
            "MELETE_BASE_URL": "https://main.example",
            "MELETE_MODEL": "m",
        }
    )
    assert choose(loaded).spec.api_key == "secret-of-main"
    with pytest.raises(
        ConfigError, match=r"no key for other\.example; name the variable that holds it in key_variable"
    ):
        choose_other(loaded, Fallback(name="x", base_url="https://other.example"))
    assert choose_other(loaded, Fallback(name="x", base_url="https://main.example/v2")).spec.api_key == "secret-of-main"
    with pytest.raises(ConfigError, match="GROQ_API_KEY"):
        choose_other(loaded, "groq/x")


def test_a_key_and_fields_of_one_vendor_go_to_no_other(tmp_path: Path) -> None:
    variables = {"MELETE_API_KEY": "own-key", "ANTHROPIC_API_KEY": "theirs", "MELETE_MODEL": "openai/gpt-x"}
    flags = {"model.service_tier": "flex", "model.extra": {"provider": {"sort": "price"}}}
    loaded = load(flags, environ={"HOME": str(tmp_path), **variables})
    main, other = choose(loaded).spec, choose_other(loaded, "anthropic/claude-x").spec
    assert (main.api_key, main.service_tier, main.quirks.extra) == ("own-key", "flex", {"provider": {"sort": "price"}})
    assert (other.api_key, other.service_tier, other.quirks.extra) == ("theirs", "", {})
    assert choose_other(loaded, "openai/gpt-y").spec.service_tier == "flex"


def test_a_section_says_which_provider_is_asked(tmp_path: Path) -> None:
    variables = {"MELETE_MODEL": "openai/gpt-x", "OPENAI_API_KEY": "o", "OPENROUTER_API_KEY": "r"}
    loaded = load(environ={"HOME": str(tmp_path), **variables})
    found = choose_other(loaded, Fallback(name="openai/gpt-4.1", provider="openrouter")).spec
    assert (found.provider, found.model) == ("openrouter", "openai/gpt-4.1")


@pytest.mark.parametrize("field", ["messages", "model", "tools", "input", "system"])
def test_fields_that_hold_the_conversation_are_not_sent_twice(tmp_path: Path, field: str) -> None:
    flags: dict[str, object] = {"model.name": "m", "model.base_url": "http://127.0.0.1:1/v1"}
    with pytest.raises(ConfigError, match=f"cannot hold {field}"):
        spec(tmp_path, {**flags, "model.extra": {field: []}})
    assert spec(tmp_path, {**flags, "model.extra": {"stream": False}}).quirks.extra == {"stream": False}


def test_a_newer_name_with_a_known_provider_leaves_the_files_server_aside(tmp_path: Path) -> None:
    (tmp_path / ".melete").mkdir()
    (tmp_path / ".melete/config.yaml").write_text(
        "model: {name: m, base_url: 'https://old.example/v1', wire: gemini, context_length: 2048}\n"
    )
    variables = {"MELETE_API_KEY": "old-server", "GROQ_API_KEY": "groq-key"}
    found = spec(tmp_path, {"model.name": "groq/big"}, **variables)
    assert (found.provider, found.model, found.wire, found.api_key) == ("groq", "big", "openai-chat", "groq-key")
    assert found.can.context != 2048
    whole = spec(tmp_path, {"model.name": "nobody/big"}, **variables)
    assert (whole.base_url, whole.model, whole.wire) == ("https://old.example/v1", "nobody/big", "gemini")
    given: dict[str, object] = {"model.name": "groq/big", "model.base_url": "https://new.example/v1"}
    assert spec(tmp_path, given, **variables).model == "groq/big"
    named = spec(tmp_path, MELETE_MODEL="groq/big", MELETE_BASE_URL="https://env.example/v1", **variables)
    assert (named.base_url, named.model) == ("https://env.example/v1", "groq/big")
