"""A home as a person would write it, and what is left in one afterwards."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from melete.testing import ScriptedModel

WIRES = ("openai-chat", "openai-responses", "anthropic-messages", "gemini")


def configure(home: Path, **settings: Any) -> Path:
    """Write config.yaml, of which JSON is one form, into the test's home; return that home."""
    melete = home / ".melete"
    melete.mkdir(exist_ok=True)
    (melete / "config.yaml").write_bytes(msgspec.json.encode(settings))
    return melete


def keys(home: Path, **values: str) -> None:
    """Write the home's `.env`."""
    melete = home / ".melete"
    melete.mkdir(exist_ok=True)
    (melete / ".env").write_text("".join(f"{name}={value}\n" for name, value in values.items()))


def at(model: ScriptedModel, **more: Any) -> dict[str, Any]:
    """Where a scripted model is, as a section of the settings."""
    return {"base_url": model.base_url, **more}


def nowhere() -> str:
    """The base URL of a server that is not there any more."""
    with ScriptedModel() as gone:
        return gone.base_url


def holders(folder: Path, text: str, *, but: str = "") -> list[str]:
    """The files below a folder in which a text stands, one of a name left aside."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != but]
    return [path.name for path in files if text.encode() in path.read_bytes()]


def of_type(events: list[dict[str, Any]], *types: str) -> list[Mapping[str, Any]]:
    """The events of some types, in order."""
    return [event for event in events if event["type"] in types]
