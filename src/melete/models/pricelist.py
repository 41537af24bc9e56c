"""Lists of models that others keep well, read into our own text: models.dev, litellm's table, genai-prices. Part: models.

Used when the list is refreshed and when the package is made, never when a model is asked. What a list says is checked figure by
figure; entries that make no sense are left out, and a list of which nothing is left is an error.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from melete.core.errors import MeleteError
from melete.models.prices import HEAD, Row, day, maintainer, parsed

Rows = dict[tuple[str, str], Row]
"""Models by vendor and name."""

ELSEWHERE = {
    "dashscope": "alibaba", "fireworks-ai": "fireworks", "fireworks_ai": "fireworks", "gemini": "google", "moonshot": "kimi",
    "moonshotai": "kimi", "nousresearch": "nous", "nous-research": "nous", "novita-ai": "novita", "nvidia_nim": "nvidia",
    "together_ai": "together", "togetherai": "together", "x-ai": "xai",
}  # fmt: skip
"""What lists call our vendors, where it is another name than ours."""

MOST_TOKENS = 1_000_000_000
MOST_USD = 100_000.0
LONGEST_NAME = 200
MILLION = 1_000_000
CHATTING = ("chat", "responses")
RESELLERS = ("huggingface", "openrouter")
NO_CHAT = (
    ":batch", "audio", "babbage", "davinci", "embed", "image", "live", "lyria", "moderation", "nano-banana", "ocr", "realtime",
    "rerank", "transcribe", "tts", "whisper",
)  # fmt: skip
"""Parts of the names of what does not chat, for lists that do not say it."""
NOT_SOLD = (("openai", "gpt-oss-"),)
"""Makers, and how the names of models begin that they give away and do not serve."""
FIREWORKS = "accounts/fireworks/models/"


class List(Struct, frozen=True, kw_only=True):
    """A list as it was read: the models of our vendors, who keeps it, and its day where it says so."""

    rows: Rows
    kept_by: str
    day: str = ""

    @property
    def vendors(self) -> frozenset[str]:
        """The vendors that it has models of."""
        return frozenset(provider for provider, _ in self.rows)


class BadListError(MeleteError):
    """What was read is no list of models that we know."""


def read_list(data: bytes, vendors: Collection[str], *, today: str = "") -> List:
    """The models of `vendors` in a list of any kind that is known; those that were withdrawn before `today` are left out.

    Raises BadListError when it is none, or none of its models makes sense.
    """
    if data.startswith(HEAD):
        found = List(rows=_ours(data), kept_by=maintainer(data), day=day(data))
    else:
        found = _foreign(data, vendors, today)
    if not found.rows:
        raise BadListError("the list holds no model of a vendor that is known", next="choose another list with --from")
    return found


def text(rows: Mapping[tuple[str, str], Row], *, day: str, source: str) -> bytes:
    """The rows as our text, sorted, with its head."""
    lines = sorted(_line(row) for row in rows.values())
    return HEAD + f"{day}\n# {source}\n".encode() + b"".join(lines)


def merged(old: bytes, new: Mapping[tuple[str, str], Row]) -> Rows:
    """The rows of the new list, and the old text's for the vendors of which the new one knows no model."""
    covered = {provider for provider, _ in new}
    kept = {key: row for key, row in _ours(old).items() if key[0] not in covered}
    return {**kept, **new}


def filled(first: Mapping[tuple[str, str], Row], second: Mapping[tuple[str, str], Row]) -> Rows:
    """The rows of both lists; where both have a model, the second only fills in what the first does not know.

    Case makes no difference; the first list's spelling stays.
    """
    rows = dict(first)
    folded = {(provider, name.lower()): (provider, name) for provider, name in first}
    for (provider, name), other in second.items():
        key = folded.get((provider, name.lower()), (provider, name))
        row = rows.setdefault(key, other)
        missing = {field: getattr(other, field) for field in row.__struct_fields__ if getattr(row, field) is None}
        rows[key] = structs.replace(row, **missing)
    return rows


def _ours(data: bytes) -> Rows:
    try:
        found = [parsed(line) for line in data.splitlines() if line and not line.startswith(b"#")]
    except (ValueError, UnicodeDecodeError) as error:
        raise BadListError(
            f"a line of the list cannot be read: {error}", next="choose another list with --from"
        ) from error
    return {(row.provider, row.name): row for row in found}


def _foreign(data: bytes, vendors: Collection[str], today: str) -> List:
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        start = data[:40].decode(errors="replace").strip()
        raise BadListError(
            f"that is no list of models: it begins with {start!r}", next="check the address or the file"
        ) from error
    if isinstance(value, list):
        return List(rows=_kept(_genai_prices(cast("list[Any]", value), today), vendors), kept_by="genai-prices")
    entries = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if any(isinstance(_field(entry, "models"), dict) for entry in entries.values()):
        return List(rows=_kept(_models_dev(entries), vendors), kept_by="models.dev")
    if any(_field(entry, "litellm_provider") for entry in entries.values()):
        return List(rows=_kept(_litellm(entries, today), vendors), kept_by="litellm")
    raise BadListError(
        "that is JSON, but no list of models", next="known are models.dev, litellm's table and genai-prices"
    )


def _kept(found: Iterable[Row], vendors: Collection[str]) -> Rows:
    """The rows of our vendors that say anything; the first of two rows of one name wins."""
    rows: Rows = {}
    for row in found:
        says = row.context is not None or row.priced
        plain = 0 < len(row.name) <= LONGEST_NAME and row.name.isprintable() and " " not in row.name
        if row.provider in vendors and says and plain:
            rows.setdefault((row.provider, row.name), row)
    return rows


# ---- models.dev ------------------------------------------------------------------------------------------------------


def _models_dev(entries: Mapping[str, Any]) -> Iterator[Row]:
    for vendor, entry in entries.items():
        for name, model in _items(_field(entry, "models")):
            cost, limit = _field(model, "cost"), _field(model, "limit")
            if "text" not in _words(_field(_field(model, "modalities"), "output") or ["text"]):
                continue
            seen = _field(_field(model, "modalities"), "input")
            tools = _field(model, "tool_call")
            yield Row(
                provider=_ours_is(vendor),
                name=name,
                context=_tokens(_field(limit, "input")) or _tokens(_field(limit, "context")),
                max_output=_tokens(_field(limit, "output")),
                tools=tools if isinstance(tools, bool) else None,
                images="image" in _words(seen) if seen is not None else None,
                usd_input=_usd(_field(cost, "input")),
                usd_output=_usd(_field(cost, "output")),
                usd_cache_read=_usd(_field(cost, "cache_read")),
                usd_cache_write=_usd(_field(cost, "cache_write")),
            )


# ---- litellm ---------------------------------------------------------------------------------------------------------


def _litellm(entries: Mapping[str, Any], today: str) -> Iterator[Row]:
    for key, entry in entries.items():
        vendor = str(_field(entry, "litellm_provider") or "")
        ends = _field(entry, "deprecation_date")
        if _field(entry, "mode") not in CHATTING or (today and isinstance(ends, str) and ends < today):
            continue
        name = _taken_name(_ours_is(vendor), key.removeprefix(f"{vendor}/"))
        if not name:
            continue
        told = any(field.startswith("supports_") for field in entry)
        yield Row(
            provider=_ours_is(vendor),
            name=name,
            context=_tokens(_field(entry, "max_input_tokens")) or _tokens(_field(entry, "max_tokens")),
            max_output=_tokens(_field(entry, "max_output_tokens")),
            tools=_field(entry, "supports_function_calling") is True if told else None,
            images=_field(entry, "supports_vision") is True if told else None,
            usd_input=_per_million(_field(entry, "input_cost_per_token")),
            usd_output=_per_million(_field(entry, "output_cost_per_token")),
            usd_cache_read=_per_million(_field(entry, "cache_read_input_token_cost")),
            usd_cache_write=_per_million(_field(entry, "cache_creation_input_token_cost")) or None,
        )


def _taken_name(vendor: str, name: str) -> str:
    """The name as the vendor takes it; empty for prices of a region, of a size or of tuning, and for what it does not sell."""
    if vendor == "fireworks":
        if name.startswith("fireworks-ai-"):
            return ""
        return name if "/" in name else f"{FIREWORKS}{name}"
    if vendor == "azure" and "/" in name:
        return ""
    given_away = any(vendor == maker and name.startswith(start) for maker, start in NOT_SOLD)
    return "" if given_away or name.startswith("ft:") else name


# ---- genai-prices ----------------------------------------------------------------------------------------------------


def _genai_prices(entries: Iterable[Any], today: str) -> Iterator[Row]:
    for entry in entries:
        vendor, _, host = str(_field(entry, "id") or "").partition("_")
        for model in _listed(_field(entry, "models")):
            name = _taken_name(_ours_is(vendor), str(_field(model, "id") or ""))
            if any(part in name for part in NO_CHAT):
                continue
            window = _tokens(_field(model, "context_window"))
            if window is None and _ours_is(vendor) not in RESELLERS:  # old, or no name that the vendor takes
                continue
            price = _genai_price(_field(model, "prices"), today)
            free = name.endswith(":free")
            yield Row(
                provider=_ours_is(vendor),
                name=f"{name}:{host}" if host else name,
                context=window,
                usd_input=0.0 if free else _usd(price.get("input_mtok")),
                usd_output=0.0 if free else _usd(price.get("output_mtok")),
                usd_cache_read=_usd(price.get("cache_read_mtok")),
                usd_cache_write=_usd(price.get("cache_write_mtok")),
            )


def _genai_price(prices: Any, today: str) -> Mapping[str, Any]:
    """The standing price: of several, the last that holds all day and has begun, else the first."""
    several = _listed(prices)
    if several:
        standing = [one for one in several if _stands(_field(one, "constraint"), today)]
        prices = _field((standing or several[:1])[-1], "prices")
    plain = ((name, _field(value, "base") if isinstance(value, dict) else value) for name, value in _items(prices))
    return dict(plain)


def _stands(condition: Any, today: str) -> bool:
    begins = _field(condition, "start_date")
    return not condition or (isinstance(begins, str) and begins <= today)


# ---- values that anybody may have written -----------------------------------------------------------------------------


def _field(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return cast("dict[str, Any]", value).items() if isinstance(value, dict) else ()


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _words(value: Any) -> set[str]:
    return {word for word in _listed(value) if isinstance(word, str)}


def _ours_is(vendor: str) -> str:
    return ELSEWHERE.get(vendor, vendor)


def _tokens(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 1 <= number <= MOST_TOKENS else None


def _usd(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and 0 <= number <= MOST_USD else None


def _per_million(value: Any) -> float | None:
    number = _number(value)
    return _usd(number * MILLION) if number is not None else None


def _number(value: Any) -> float | None:
    """A number, or a text that is one, as decimals are often written."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _line(row: Row) -> bytes:
    whole = row.context is not None and row.max_output is not None and row.max_output >= row.context
    ability = {True: "y", False: "x", None: "?"}
    can = ability[row.tools].replace("y", "t") + ability[row.images].replace("y", "i")
    prices = (row.usd_input, row.usd_output, row.usd_cache_read, row.usd_cache_write)
    cells = (
        f"{row.provider}/{row.name}",
        str(row.context or "-"),
        "-" if whole else str(row.max_output or "-"),  # as much as the window: no limit of its own
        can,
        *("-" if price is None else f"{price:.6g}" for price in prices),
    )
    return " ".join(cells).encode() + b"\n"
