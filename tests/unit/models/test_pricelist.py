"""Lists that others keep are read, checked and written as ours."""

import json
from typing import Any

import pytest

from melete.models.pricelist import BadListError, filled, merged, read_list, text
from melete.models.prices import Row, day, lookup, maintainer, rows

VENDORS = ("openai", "anthropic", "google", "kimi", "openrouter", "huggingface", "fireworks", "azure")


def read(value: Any, today: str = "2026-06-01") -> dict[tuple[str, str], Row]:
    return read_list(json.dumps(value).encode(), VENDORS, today=today).rows


def test_models_dev_is_read() -> None:
    found = read_list(
        json.dumps(
            {
                "moonshotai": {
                    "models": {
                        "kimi-k3": {
                            "limit": {"context": 262_144, "output": 8192},
                            "cost": {"input": 0.6, "output": 2.5, "cache_read": 0.15},
                            "tool_call": True,
                            "modalities": {"input": ["text", "image"], "output": ["text"]},
                        },
                        "kimi-draw": {"limit": {"context": 10}, "modalities": {"output": ["image"]}},
                    }
                },
                "openai": {"models": {"gpt": {"limit": {"context": 400_000, "input": 272_000, "output": 128_000}}}},
                "unheard-of": {"models": {"m": {"limit": {"context": 10}}}},
            }
        ).encode(),
        VENDORS,
    )
    assert found.kept_by == "models.dev"
    assert found.vendors == {"kimi", "openai"}
    row = found.rows["kimi", "kimi-k3"]
    assert (row.context, row.max_output, row.tools, row.images) == (262_144, 8192, True, True)
    assert (row.usd_input, row.usd_output, row.usd_cache_read, row.usd_cache_write) == (0.6, 2.5, 0.15, None)
    assert found.rows["openai", "gpt"].context == 272_000
    assert ("kimi", "kimi-draw") not in found.rows


def litellm(**more: Any) -> dict[str, Any]:
    return {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 1000, **more}


def test_litellms_table_is_read() -> None:
    found = read(
        {
            "sample_spec": {"litellm_provider": "one of a page", "mode": "one of: chat", "max_input_tokens": "max"},
            "gpt": litellm(
                max_output_tokens=100,
                input_cost_per_token=1.25e-6,
                output_cost_per_token="0.00001",
                cache_read_input_token_cost=1.25e-7,
                supports_function_calling=True,
            ),
            "gemini/flash": litellm(litellm_provider="gemini", supports_vision=True),
            "plain": litellm(),
            "old": litellm(deprecation_date="2026-05-31"),
            "ft:gpt": litellm(),
            "dall-e": litellm(mode="image_generation"),
            "fireworks_ai/kimi": litellm(litellm_provider="fireworks_ai"),
            "fireworks_ai/accounts/x/models/y": litellm(litellm_provider="fireworks_ai"),
            "fireworks-ai-up-to-4b": litellm(litellm_provider="fireworks_ai"),
            "azure/eu/gpt": litellm(litellm_provider="azure"),
            "azure/gpt": litellm(litellm_provider="azure"),
        }
    )
    assert sorted(found) == [
        ("azure", "gpt"),
        ("fireworks", "accounts/fireworks/models/kimi"),
        ("fireworks", "accounts/x/models/y"),
        ("google", "flash"),
        ("openai", "gpt"),
        ("openai", "plain"),
    ]
    gpt = found["openai", "gpt"]
    assert (gpt.usd_input, gpt.usd_output, gpt.usd_cache_read) == pytest.approx((1.25, 10.0, 0.125))
    assert (gpt.tools, gpt.images) == (True, False)
    assert (found["openai", "plain"].tools, found["google", "flash"].images) == (None, True)


def test_genai_prices_are_read() -> None:
    found = read(
        [
            {
                "id": "openai",
                "models": [
                    {
                        "id": "gpt",
                        "context_window": 1000,
                        "prices": [
                            {"prices": {"input_mtok": 1, "output_mtok": 2}},
                            {"constraint": {"start_date": "2026-05-01"}, "prices": {"input_mtok": 3, "output_mtok": 4}},
                            {"constraint": {"start_date": "2099-01-01"}, "prices": {"input_mtok": 9, "output_mtok": 9}},
                            {"constraint": {"start_time": "01:00:00Z"}, "prices": {"input_mtok": 8, "output_mtok": 8}},
                        ],
                    },
                    {"id": "gpt-oss-120b", "context_window": 1000, "prices": {"input_mtok": 1, "output_mtok": 2}},
                    {"id": "gpt-tts", "context_window": 1000, "prices": {"input_mtok": 1, "output_mtok": 2}},
                    {"id": "without-a-window", "prices": {"input_mtok": 1, "output_mtok": 2}},
                ],
            },
            {
                "id": "huggingface_together",
                "models": [{"id": "a/b", "context_window": 5, "prices": {"input_mtok": {"base": 0.3, "tiers": []}}}],
            },
            {
                "id": "openrouter",
                "models": [{"id": "x/y:free", "prices": {}}, {"id": "x/y:batch", "context_window": 1}],
            },
        ]
    )
    assert sorted(found) == [("huggingface", "a/b:together"), ("openai", "gpt"), ("openrouter", "x/y:free")]
    assert (found["openai", "gpt"].usd_input, found["openai", "gpt"].usd_output) == (3.0, 4.0)
    assert found["huggingface", "a/b:together"].usd_input == 0.3
    assert found["openrouter", "x/y:free"].usd_output == 0.0


@pytest.mark.parametrize(
    "entry",
    [
        {"limit": {"context": "many"}},
        {"limit": {"context": -1}, "cost": {"input": -1, "output": 2}},
        {"limit": {"context": 1e300}},
        {"limit": {"context": True}},
        {"limit": [], "cost": {"input": "nan", "output": "inf"}},
        None,
        "text",
        [],
    ],
)
def test_figures_that_make_no_sense_are_left_out(entry: Any) -> None:
    with pytest.raises(BadListError, match="holds no model"):
        read({"openai": {"models": {"gpt": entry}}})


@pytest.mark.parametrize("name", ["", "two words", "tab\tname", "line\nname", "x" * 300])
def test_names_that_no_model_has_are_left_out(name: str) -> None:
    with pytest.raises(BadListError, match="holds no model"):
        read({"openai": {"models": {name: {"limit": {"context": 10}}}}})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"<html>", "begins with '<html>'"),
        (b"", "that is no list"),
        (b"\xff\xfe", "that is no list"),
        (b"{}", "no list of models"),
        (b"[]", "holds no model"),
        (b"3", "no list of models"),
        (b"[" * 100_000, "that is no list"),
        (b'{"openai": {"models": []}}', "no list of models"),
        (b"# melete models 1 2026-01-01\n# x\nopenai/gpt 1\n", "cannot be read"),
        (b"# melete models 1 2026-01-01\n# x\n\xff\n", "cannot be read"),
    ],
)
def test_what_is_no_list_is_refused_with_the_reason(data: bytes, said: str) -> None:
    with pytest.raises(BadListError, match=said) as caught:
        read_list(data, VENDORS)
    assert caught.value.next


def test_what_is_written_is_read_again() -> None:
    full = Row(
        provider="openai", name="gpt", context=10, max_output=5, tools=True, images=False,
        usd_input=1.25, usd_output=10, usd_cache_read=0.125, usd_cache_write=1 / 3,
    )  # fmt: skip
    bare = Row(provider="anthropic", name="c")
    data = text({("openai", "gpt"): full, ("anthropic", "c"): bare}, day="2026-02-03", source="me")
    assert data.decode() == (
        "# melete models 1 2026-02-03\n# me\nanthropic/c - - ?? - - - -\nopenai/gpt 10 5 tx 1.25 10 0.125 0.333333\n"
    )
    again = read_list(data, VENDORS)
    assert (again.day, again.kept_by, again.rows["anthropic", "c"]) == ("2026-02-03", "me", bare)
    assert lookup(data, "openai", "gpt")


def test_an_output_as_large_as_the_window_is_no_limit_of_its_own() -> None:
    data = text({("p", "m"): Row(provider="p", name="m", context=10, max_output=10)}, day="2026-02-03", source="me")
    assert next(rows(data, "p")).max_output is None


def test_a_new_list_replaces_the_vendors_that_it_has() -> None:
    old = text(
        {(p, n): Row(provider=p, name=n, context=1) for p, n in (("openai", "old"), ("google", "kept"))},
        day="2026-01-01",
        source="old",
    )
    new = {("openai", "new"): Row(provider="openai", name="new", context=2)}
    assert sorted(merged(old, new)) == [("google", "kept"), ("openai", "new")]


def test_a_second_list_only_fills_in() -> None:
    first = {("openai", "GPT"): Row(provider="openai", name="GPT", context=1)}
    second = {
        ("openai", "gpt"): Row(provider="openai", name="gpt", context=2, usd_input=3.0),
        ("openai", "more"): Row(provider="openai", name="more", context=4),
    }
    both = filled(first, second)
    assert sorted(both) == [("openai", "GPT"), ("openai", "more")]
    assert (both["openai", "GPT"].context, both["openai", "GPT"].usd_input) == (1, 3.0)
    assert (day(b""), maintainer(b"")) == ("", "")
