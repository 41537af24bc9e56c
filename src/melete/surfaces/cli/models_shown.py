"""How models are shown: the one that answers, those that are known, and how they did when they were tried."""

from collections.abc import Mapping, Sequence
from typing import Any

from melete.app.catalog import ModelSpec, known_providers
from melete.app.modelbook import Row
from melete.app.sections import Fallback
from melete.app.settings import Loaded
from melete.app.trial import Trial
from melete.app.vendors import key_set, shown
from melete.core.model import Capabilities
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.table import entry, table

INDENT = 12
"""The column where the text behind a role begins."""
TOOLS = {
    "called": "the tool was called",
    "as text": "the call came as plain text: model.text_calls reads such",
    "ignored": "the tool was not called: this model may be unfit for work with tools",
    "refused": "tools are refused: this model can only talk",
}


def usd(value: float | None) -> str:
    """A price for people, `?` where there is none."""
    if value is None:
        return "?"
    if value == 0:
        return "0"
    short, long = f"{value:.2f}", f"{value:.6f}"
    if float(short) == value:
        return short
    return long.rstrip("0") if float(long) else f"{value:.1g}"


def price_text(can: Capabilities) -> str:
    """The prices of a model in a line."""
    if can.usd_input is None or can.usd_output is None:
        return "not known"
    if not any((can.usd_input, can.usd_output)):
        return f"nothing ({can.source})" if can.source else "nothing"
    parts = [f"${usd(can.usd_input)} in", f"${usd(can.usd_output)} out"]
    parts += [f"${usd(can.usd_cache_read)} cached"] if can.usd_cache_read is not None else []
    parts += [f"${usd(can.usd_cache_write)} to cache"] if can.usd_cache_write is not None else []
    return f"{', '.join(parts)} for a million tokens ({can.source})"


def current_table(loaded: Loaded, spec: ModelSpec, paint: Paint) -> str:
    """The model that answers, what is known of it, and which models stand beside it."""
    can = spec.can
    output = f", at most {can.max_output:,} in a reply" if can.max_output else ""
    abilities = [word for word, has in (("tools", can.tools), ("images", can.images)) if has]
    rows = [
        ("model", spec.model),
        ("provider", spec.vendor),
        ("address", f"{shown(spec.base_url) or 'in this process'} ({spec.wire})"),
        ("key", _key(loaded, spec)),
        ("window", f"{can.context:,} tokens{'' if can.known else ' (assumed)'}{output}"),
        ("takes", ", ".join(abilities) or "text only"),
        ("price", price_text(can)),
        ("set in", loaded.origin("model.name").where),
        *beside(loaded),
    ]
    return table(("", ""), rows, paint)


def beside(loaded: Loaded) -> Sequence[tuple[str, str]]:
    """The models that stand in for the main one or do side work, with what they are for."""
    settings = loaded.settings
    rows = [("fallback", item.name if isinstance(item, Fallback) else item) for item in settings.model.fallbacks]
    if settings.model.routing.enabled and settings.model.routing.model:
        rows.append(("routing", settings.model.routing.model))
    side = settings.auxiliary
    return [*rows, *((role, name) for role in side.__struct_fields__ if (name := getattr(side, role)))]


def current_json(loaded: Loaded, spec: ModelSpec | None) -> Mapping[str, Any]:
    """The same as an object; `current` is null where no model is set."""
    others: dict[str, list[str]] = {}
    for role, name in beside(loaded):
        others.setdefault(role, []).append(name)
    if spec is None:
        return {"current": None, "beside": others}
    now = {
        "model": spec.model,
        "provider": spec.provider,
        "base_url": shown(spec.base_url),
        "wire": spec.wire,
        "key_set": bool(spec.api_key),
        "context": spec.can.context,
        "max_output": spec.can.max_output,
        "known": spec.can.known,
        "tools": spec.can.tools,
        "images": spec.can.images,
        "usd_input": spec.can.usd_input,
        "usd_output": spec.can.usd_output,
        "usd_cache_read": spec.can.usd_cache_read,
        "usd_cache_write": spec.can.usd_cache_write,
        "source": spec.can.source,
    }
    return {"current": now, "beside": others}


def vendor_rows(loaded: Loaded, counts: Mapping[str, int], current: str) -> Sequence[Mapping[str, Any]]:
    """The vendors as objects: how many of their models are known, and whether a key is set."""
    return [
        {
            "provider": name,
            "models": counts.get(name, 0),
            "wire": vendor.wire,
            "base_url": vendor.base_url,
            "key": key_set(vendor, loaded.variables) or vendor.key,
            "key_set": bool(key_set(vendor, loaded.variables)),
            "aliases": vendor.aliases,
            "note": vendor.note,
            "current": name == current,
        }
        for name, vendor in known_providers(loaded).items()
    ]


def known_table(rows: Sequence[Row], paint: Paint, *, whole: bool) -> str:
    """Models with their window in tokens and prices in USD for a million; `whole` names come with their provider."""
    cells = [
        (
            f"{row.provider}/{row.name}" if whole else row.name,
            f"{row.context:,}" if row.context else "?",
            _able(row.tools),
            _able(row.images),
            usd(row.usd_input),
            usd(row.usd_output),
            usd(row.usd_cache_read),
        )
        for row in rows
    ]
    head = ("MODEL", "WINDOW", "TOOLS", "IMAGES", "$ IN", "$ OUT", "$ CACHED")
    return table(head, cells, paint, right=("WINDOW", "$ IN", "$ OUT", "$ CACHED"))


def trial_lines(trial: Trial, paint: Paint) -> str:
    """How one model did: what it took, or why it failed and what to do about it."""
    name = f"{trial.provider}/{trial.model}" if trial.provider else trial.model or "no model"
    if not trial.ok:
        fix = trial.fix.splitlines()
        texts = [
            name,
            *trial.cause.splitlines(),
            *(f"→ {line}" for line in fix[:1]),
            *(f"  {line}" for line in fix[1:]),
        ]
        return entry(("red", "✗"), trial.role, texts, paint=paint, indent=INDENT)
    usage = trial.usage
    cost = "price not known" if trial.usd is None else f"${usd(trial.usd)}"
    texts = [
        f"{name} ({trial.wire})",
        f"first token after {trial.first_token_seconds:.2f} s, whole answer after {trial.seconds:.2f} s",
        f"{usage.total:,} tokens ({usage.output:,} of output), {cost}",
        TOOLS[trial.tools] if trial.tools else "",
    ]
    mark = ("green", "✓") if trial.tools == "called" else ("yellow", "!")
    return entry(mark, trial.role, texts, paint=paint, indent=INDENT)


def _key(loaded: Loaded, spec: ModelSpec) -> str:
    if not spec.api_key:
        return "none is needed"
    vendor = known_providers(loaded).get(spec.provider)
    names = vendor.keys if vendor else ()
    held = (name for name in ("MELETE_API_KEY", spec.key_variable, *names) if loaded.variables.get(name))
    same = (name for name in held if loaded.variables[name].strip() == spec.api_key)
    return f"{next(same, spec.key_variable)} is set"


def _able(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "?"}[value]
