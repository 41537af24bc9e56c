"""What is known of a model is found under the names that people write."""

import pytest

from melete.models.prices import (
    SHIPPED,
    Row,
    capabilities,
    count,
    day,
    find,
    lookup,
    maintainer,
    parsed,
    rows,
    source,
    undated,
)

BOOK = b"""# melete models 1 2026-01-02
# a list (MIT)
anthropic/claude-opus-4-5 200000 64000 ti 5 25 0.5 6.25
azure/gpt-5-mini 272000 128000 ti 0.3 2 - -
deepseek/deepseek-v3.2 128000 - tx 0.3 0.4 - -
huggingface/Qwen/Qwen3-32B:groq 131072 - t? 0.29 0.59 - -
huggingface/Qwen/Qwen3-32B:together 40960 - t? 1 2 - -
openai/gpt-5 272000 128000 ti 1.25 10 0.125 -
openai/gpt-5-pro 272000 128000 ti 15 120 - -
openai/o9 - - ?? 2 8 - -
openrouter/anthropic/claude-opus-4.5 - - ?? 5.5 27.5 - -
openrouter/meta/llama:free 8192 - ?? 0 0 - -
openrouter/tencent/hy3 262144 - ?? 0.1 0.2 - -
together/Qwen/Qwen3.5-9B 262144 - tx 0.17 0.25 - -
"""


def test_a_model_is_found_with_window_abilities_and_prices() -> None:
    can = lookup(BOOK, "openai", "gpt-5")
    assert can is not None
    assert (can.context, can.max_output, can.tools, can.images, can.known) == (272_000, 128_000, True, True, True)
    assert (can.usd_input, can.usd_output, can.usd_cache_read, can.usd_cache_write) == (1.25, 10.0, 0.125, None)
    assert can.source == "a list (MIT), 2026-01-02"


@pytest.mark.parametrize(
    ("provider", "written", "name"),
    [
        ("openai", "gpt-5-latest", "gpt-5"),
        ("openai", "gpt-5-2025-08-07", "gpt-5"),
        ("openai", "gpt-5-20250807", "gpt-5"),
        ("openai", "gpt-5@20250807", "gpt-5"),
        ("openai", "models/gpt-5", "gpt-5"),
        ("openai", "GPT-5-Pro", "gpt-5-pro"),
        ("openai", "gpt-5:flex", "gpt-5"),
        ("anthropic", "claude-opus-4.5", "claude-opus-4-5"),
        ("anthropic", "claude-opus-4.5-20251101", "claude-opus-4-5"),
        ("deepseek", "deepseek-v3-2", "deepseek-v3.2"),
        ("together", "qwen/qwen3.5-9b", "Qwen/Qwen3.5-9B"),
    ],
)
def test_other_spellings_mean_the_same_model(provider: str, written: str, name: str) -> None:
    row = find(BOOK, provider, written)
    assert row is not None
    assert row.name == name


@pytest.mark.parametrize("written", ["gpt", "gpt-5-mini", "gpt-5 272000", "", "g\npt-5", "gpt-55", "5", "\ud800"])
def test_a_name_that_only_looks_alike_is_another_model(written: str) -> None:
    assert lookup(BOOK, "openai", written) is None


def test_a_vendor_that_is_not_there_knows_nothing() -> None:
    assert lookup(BOOK, "", "gpt-5") is None
    assert lookup(BOOK, "open", "ai/gpt-5") is None
    assert lookup(b"", "openai", "gpt-5") is None


def test_a_reseller_lacks_a_window_and_the_maker_has_it() -> None:
    can = lookup(BOOK, "openrouter", "anthropic/claude-opus-4.5")
    assert can is not None
    assert (can.context, can.known, can.usd_input, can.images) == (200_000, True, 5.5, True)


def test_only_a_vendor_that_passes_prices_on_has_the_makers() -> None:
    passed = lookup(BOOK, "openrouter", "openai/gpt-5")
    assert passed is not None
    assert (passed.context, passed.usd_input) == (272_000, 1.25)
    own = lookup(BOOK, "huggingface", "deepseek-ai/DeepSeek-V3.2")
    assert own is not None
    assert (own.context, own.usd_input, own.source) == (128_000, None, "")


def test_a_model_that_any_host_may_serve_has_no_price_of_its_makers_elsewhere() -> None:
    can = lookup(BOOK, "openrouter", "deepseek/deepseek-v3.2")
    assert can is not None
    assert (can.context, can.usd_input, can.source) == (128_000, None, "")


def test_a_vendor_with_anothers_names_has_its_windows() -> None:
    same = lookup(BOOK, "nous", "tencent/hy3")
    assert same is not None
    assert (same.context, same.usd_input) == (262_144, None)
    deployed = lookup(BOOK, "azure", "gpt-5")
    assert deployed is not None
    assert (deployed.context, deployed.usd_input) == (272_000, None)


def test_a_router_without_a_host_has_a_window_and_no_price() -> None:
    any_host = lookup(BOOK, "huggingface", "Qwen/Qwen3-32B")
    assert any_host is not None
    assert (any_host.context, any_host.usd_input) == (131_072, None)
    named = lookup(BOOK, "huggingface", "Qwen/Qwen3-32B:together")
    assert named is not None
    assert (named.context, named.usd_input) == (40_960, 1.0)


def test_what_is_free_costs_nothing() -> None:
    for name in ("tencent/hy3:free", "meta/llama:free", "openai/gpt-5:free"):
        can = lookup(BOOK, "openrouter", name)
        assert can is not None
        assert (can.usd_input, can.usd_output, can.usd_cache_read) == (0.0, 0.0, 0.0)


def test_a_price_without_a_window_leaves_the_window_unknown() -> None:
    can = lookup(BOOK, "openai", "o9")
    assert can is not None
    assert (can.known, can.context, can.usd_input) == (False, 128_000, 2.0)


def test_what_is_not_known_of_a_row_takes_the_defaults() -> None:
    can = capabilities(Row(provider="p", name="m", context=1000), source="s")
    assert (can.context, can.tools, can.images, can.source, can.known) == (1000, True, True, "", True)


def test_a_vendors_models_are_listed_and_counted() -> None:
    assert [row.name for row in rows(BOOK, "openai")] == ["gpt-5", "gpt-5-pro", "o9"]
    assert [row.name for row in rows(BOOK, "together")] == ["Qwen/Qwen3.5-9B"]
    assert (count(BOOK, "openai"), count(BOOK, "nobody"), list(rows(BOOK, "nobody"))) == (3, 0, [])


def test_the_head_tells_the_day_and_who_keeps_the_list() -> None:
    assert (day(BOOK), maintainer(BOOK), source(BOOK)) == ("2026-01-02", "a list (MIT)", "a list (MIT), 2026-01-02")
    assert day(b"something else") == ""


@pytest.mark.parametrize(
    "line", [b"openai/gpt-5", b"gpt-5 1 1 ti 1 1 1 1", b"p/m x - ti - - - -", b"p/m 1 - t - - - -", b""]
)
def test_a_line_that_is_none_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"columns|invalid literal"):
        parsed(line)


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("a-2025-01-02", "a"),
        ("a-latest", "a"),
        ("a-1106", "a-1106"),
        ("2025-01-02", "2025-01-02"),
        ("a-2025-01", "a-2025-01"),
    ],
)
def test_only_a_whole_date_at_the_end_is_a_date(name: str, without: str) -> None:
    assert undated(name) == without


def test_the_list_that_is_shipped_is_sorted_and_whole() -> None:
    data = SHIPPED.read_bytes()
    lines = data.splitlines()[2:]
    assert day(data) >= "2026-11-22"
    assert "MIT" in maintainer(data)
    assert len(data) <= 300_000
    assert lines == sorted(set(lines))
    assert all(parsed(line).name for line in lines)
    for provider in (
        "openai",
        "anthropic",
        "openrouter",
        "google",
        "zai",
        "kimi",
        "minimax",
        "deepseek",
        "xai",
        "groq",
    ):
        assert count(data, provider) > 5, provider


def test_well_known_models_are_in_the_list_that_is_shipped() -> None:
    data = SHIPPED.read_bytes()
    for provider, name, window in (
        ("openai", "gpt-4.1", 1_047_576),
        ("anthropic", "claude-opus-4.5", 200_000),
        ("openrouter", "anthropic/claude-opus-4-5", 200_000),
        ("google", "gemini-2.5-pro", 1_048_576),
    ):
        can = lookup(data, provider, name)
        assert can is not None, name
        assert can.context == window
        assert can.usd_input
        assert can.usd_output
