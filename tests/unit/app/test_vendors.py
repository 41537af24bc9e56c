"""Every vendor of the catalogue is whole, and found under the names that people use."""

import pytest

from melete.app.vendors import address, key_set, vendor_at, vendor_named, vendors
from melete.core.errors import ConfigError

WIRES = {"openai": "openai-responses", "anthropic": "anthropic-messages", "google": "gemini"}
CLOUD = [
    "openai", "anthropic", "openrouter", "google", "nous", "zai", "kimi", "minimax", "huggingface", "deepseek", "xai", "mistral",
    "groq", "together", "fireworks", "azure", "nvidia", "cerebras", "novita", "deepinfra", "alibaba",
]  # fmt: skip
HERE = ["ollama", "llamacpp", "vllm", "lmstudio"]
INSIDE = ["local", "bridge"]


def test_every_vendor_of_the_catalogue_is_whole() -> None:
    known = vendors()
    assert set(CLOUD + HERE + INSIDE) == set(known)
    for name, vendor in known.items():
        if name in INSIDE:
            assert (vendor.wire, vendor.base_url, vendor.keys) == (name, "", ())
            continue
        parts = address(vendor.base_url.replace("{resource}", "mine"), where=name)
        assert parts.scheme == ("http" if vendor.local else "https")
        assert vendor.wire == WIRES.get(name, vendor.wire)
        assert all(key.endswith(("_API_KEY", "_TOKEN")) for key in vendor.keys)
    keys = [key for vendor in known.values() for key in vendor.keys]
    names = [name for vendor in known.values() for name in vendor.aliases] + list(known)
    assert len(set(keys)) == len(keys)
    assert len(set(names)) == len(names)


def test_servers_on_this_machine_are_told_from_vendors() -> None:
    assert [name for name in CLOUD if vendors()[name].local] == []
    assert [name for name in HERE if not vendors()[name].local] == []


@pytest.mark.parametrize(
    ("written", "name"),
    [("gemini", "google"), ("Moonshot", "kimi"), ("z.ai", "zai"), ("OpenAI", "openai"), ("nobody", ""), ("", "")],
)
def test_a_vendor_has_other_names(written: str, name: str) -> None:
    assert vendor_named(written) == name


def test_what_others_put_before_a_slash_is_no_other_name() -> None:
    """So that these names still reach the vendor whose key is set."""
    assert [
        name for name in ("moonshotai", "z-ai", "x-ai", "qwen", "meta-llama", "mistralai") if vendor_named(name)
    ] == []


def test_a_key_may_stand_in_several_variables() -> None:
    google = vendors()["google"]
    assert google.keys == ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    assert key_set(google, {"GOOGLE_API_KEY": "k"}) == "GOOGLE_API_KEY"
    assert key_set(google, {"GOOGLE_API_KEY": "k", "GEMINI_API_KEY": "k"}) == "GEMINI_API_KEY"
    assert key_set(google, {"GEMINI_API_KEY": " "}) == ""


def test_a_host_finds_its_vendor() -> None:
    found = vendor_at("api.anthropic.com")
    assert found is not None
    assert found[0] == "anthropic"
    assert vendor_at("127.0.0.1") is None


def test_an_address_with_a_part_of_ones_own_asks_for_it() -> None:
    with pytest.raises(ConfigError) as caught:
        address(vendors()["azure"].base_url, where="default")
    assert str(caught.value) == (
        "the address of azure has a part of your own: resource; set model.base_url to "
        "https://YOUR-RESOURCE.openai.azure.com/openai/v1, and model.provider to azure"
    )
