"""What is known of models: windows, abilities and prices, in one sorted text that is searched as bytes. Part: models.

After a head of two lines each line is one model:

    provider/name context max_output abilities input output cache_read cache_write

in tokens, in two letters (`t` calls tools, `i` sees images; `x` does not, `?` is not known) and in USD per million tokens; `-`
stands for what is not known. Nothing of it is parsed but the line that was looked for; pricelist.py writes such a text.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from melete.core.model import Capabilities

SHIPPED = Path(__file__).with_name("models.txt")
HEAD = b"# melete models 1 "
"""How the text begins; the day follows, and on the second line where the figures are from."""

MAKERS = {
    "anthropic": "anthropic", "deepseek": "deepseek", "deepseek-ai": "deepseek", "google": "google", "minimax": "minimax",
    "minimaxai": "minimax", "mistralai": "mistral", "moonshotai": "kimi", "openai": "openai", "qwen": "alibaba",
    "x-ai": "xai", "z-ai": "zai", "zai-org": "zai",
}  # fmt: skip
"""Who sells a model himself, by what stands before the slash where others sell it."""

LIKE = {"nous": "openrouter", "azure": "openai"}
"""Vendors that take another's names."""

PASSES_ON = ("openrouter",)
"""Vendors that charge what the maker charges, where nobody but the maker serves his models."""

SERVED_BY_MAKER = ("anthropic", "google", "openai", "xai")
"""Makers who keep their weights to themselves; open ones cost something else at every host."""

COLUMNS = 7
"""What stands behind the name."""

_DATES = ((11, "-dddd-dd-dd"), (9, "-dddddddd"), (9, "@dddddddd"))
_FREE = ":free"


class Row(Struct, frozen=True, kw_only=True):
    """One model of the text; None is not known, prices are USD per million tokens."""

    provider: str
    name: str
    context: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    images: bool | None = None
    usd_input: float | None = None
    usd_output: float | None = None
    usd_cache_read: float | None = None
    usd_cache_write: float | None = None

    @property
    def priced(self) -> bool:
        """Whether both prices are there that every bill needs."""
        return self.usd_input is not None and self.usd_output is not None


def lookup(data: bytes, provider: str, model: str) -> Capabilities | None:
    """What the text knows of a vendor's model; None when it knows nothing.

    Names are tried as they are, without a variant (`:free`), without `-latest` or a date, with dots for dashes, and last
    without regard to case. A window that a reseller's line lacks is the maker's; prices are the vendor's own, or the maker's
    where the vendor passes them on and no other host can serve the model. A `:free` variant costs nothing.
    """
    own = find(data, provider, model)
    if own is None or own.context is None or not own.priced:
        own = _completed(own, _elsewhere(data, provider, model), provider)
    if own is None:
        return None
    if model.endswith(_FREE):
        own = _free(own)
    return capabilities(own, source=source(data))


def find(data: bytes, provider: str, model: str) -> Row | None:
    """The line of a vendor's model under the first spelling that the text has; None when it has none."""
    block = _block(data, provider)
    if not block or any(c.isspace() for c in model):
        return None
    forms = tuple(dict.fromkeys(spellings(model)))
    for text, fold in ((block, False), (block.lower(), True)):
        for form in forms:
            wanted = f"\n{provider}/{form.lower() if fold else form} ".encode(errors="replace")
            if (at := text.find(wanted)) >= 0:
                return parsed(block[at + 1 : block.index(b"\n", at + 1)])
    return None


def rows(data: bytes, provider: str) -> Iterator[Row]:
    """Every model of a vendor, by name."""
    for line in _block(data, provider).splitlines():
        if line:
            yield parsed(line)


def count(data: bytes, provider: str) -> int:
    """How many models of a vendor are known."""
    return data.count(f"\n{provider}/".encode())


def day(data: bytes) -> str:
    """The day of the figures as an ISO date; empty for a text that is none of ours."""
    if not data.startswith(HEAD):
        return ""
    return data[len(HEAD) : data.find(b"\n")].decode(errors="replace").strip()


def source(data: bytes) -> str:
    """Where the figures are from, and of which day they are."""
    return ", ".join(part for part in (maintainer(data), day(data)) if part)


def maintainer(data: bytes) -> str:
    """Who keeps the figures, as the second line says it."""
    second = data.split(b"\n", 2)[1:2]
    return second[0].removeprefix(b"#").decode(errors="replace").strip() if second else ""


def capabilities(row: Row, *, source: str) -> Capabilities:
    """A line as what a model can do; `known` says that its window is, and defaults stand in for the rest."""
    usual = Capabilities()
    return Capabilities(
        context=row.context or usual.context,
        max_output=row.max_output,
        tools=usual.tools if row.tools is None else row.tools,
        images=usual.images if row.images is None else row.images,
        known=row.context is not None,
        usd_input=row.usd_input,
        usd_output=row.usd_output,
        usd_cache_read=row.usd_cache_read,
        usd_cache_write=row.usd_cache_write,
        source=source if row.priced else "",
    )


def spellings(name: str) -> Iterator[str]:
    """The ways in which a name may stand in the text, the likeliest first; some come twice."""
    bare = name.removeprefix("models/")
    for start in (name, bare, bare.partition(":")[0]):
        for form in (start, undated(start)):
            yield form
            yield form.replace(".", "-")
            yield _dotted(form)


def undated(name: str) -> str:
    """The name without `-latest` and without a date at its end."""
    name = name.removesuffix("-latest")
    for length, shape in _DATES:
        tail = name[-length:]
        if len(name) > length and "".join("d" if c in "0123456789" else c for c in tail) == shape:
            return name[:-length]
    return name


def parsed(line: bytes) -> Row:
    """A line of the text; raises ValueError when it is none."""
    place, *cells = line.decode().split(" ")
    provider, slash, name = place.partition("/")
    if not slash or not name or len(cells) != COLUMNS or len(cells[2]) != 2:  # noqa: PLR2004 - two letters
        raise ValueError("a line of a model has a name and seven columns")
    context, most, can, *prices = cells
    ability = {"t": True, "i": True, "x": False, "?": None}
    usd_input, usd_output, usd_cache_read, usd_cache_write = (None if p == "-" else float(p) for p in prices)
    return Row(
        provider=provider,
        name=name,
        context=None if context == "-" else int(context),
        max_output=None if most == "-" else int(most),
        tools=ability.get(can[0]),
        images=ability.get(can[1]),
        usd_input=usd_input,
        usd_output=usd_output,
        usd_cache_read=usd_cache_read,
        usd_cache_write=usd_cache_write,
    )


def _block(data: bytes, provider: str) -> bytes:
    """The lines of a vendor with an end of line on both sides; they stand together, because the text is sorted."""
    start = f"\n{provider}/".encode()
    if not provider or (first := data.find(start)) < 0:
        return b""
    last = data.find(b"\n", data.rfind(start) + 1)
    return data[first : last + 1] if last >= 0 else data[first:] + b"\n"


def _elsewhere(data: bytes, provider: str, model: str) -> Row | None:
    """The line of the same model at its maker, or at a vendor with the same names."""
    maker, slash, name = model.partition("/")
    seller = MAKERS.get(maker.lower()) if slash else None
    if seller and seller != provider and (row := find(data, seller, name)):
        return row
    if like := LIKE.get(provider):
        return find(data, like, model)
    return _at_any_host(data, provider, model)


def _at_any_host(data: bytes, provider: str, model: str) -> Row | None:
    """The first line of a model that a router lists host by host, as MODEL:HOST; what it costs there says nothing here."""
    block = _block(data, provider)
    at = block.lower().find(f"\n{provider}/{model.lower()}:".encode(errors="replace"))
    if at < 0:
        return None
    row = parsed(block[at + 1 : block.index(b"\n", at + 1)])
    return Row(provider=provider, name=model, context=row.context, tools=row.tools, images=row.images)


def _completed(own: Row | None, other: Row | None, provider: str) -> Row | None:
    if other is None:
        return own
    row = own or Row(provider=provider, name=other.name)
    alike = provider in PASSES_ON and other.provider in SERVED_BY_MAKER
    price = other if alike and not row.priced else row
    fact = other if row.context is None else row
    return Row(
        provider=row.provider,
        name=row.name,
        context=fact.context,
        max_output=fact.max_output,
        tools=fact.tools if row.tools is None else row.tools,
        images=fact.images if row.images is None else row.images,
        usd_input=price.usd_input,
        usd_output=price.usd_output,
        usd_cache_read=price.usd_cache_read,
        usd_cache_write=price.usd_cache_write,
    )


def _free(row: Row) -> Row:
    return Row(
        provider=row.provider,
        name=row.name,
        context=row.context,
        max_output=row.max_output,
        tools=row.tools,
        images=row.images,
        usd_input=0.0,
        usd_output=0.0,
        usd_cache_read=0.0,
        usd_cache_write=0.0,
    )


def _dotted(name: str) -> str:
    """The name with a dot for each dash between two digits: claude-opus-4-5 as claude-opus-4.5."""
    last = len(name) - 1
    digits = "0123456789"
    return "".join(
        "." if c == "-" and 0 < n < last and name[n - 1] in digits and name[n + 1] in digits else c
        for n, c in enumerate(name)
    )
