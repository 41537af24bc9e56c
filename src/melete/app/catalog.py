"""From settings to one model at one address: which vendor, which key, which dialect. Part of the composition root."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, structs

from melete.app.keys import nearest_word
from melete.app.modelbook import capabilities
from melete.app.sections import Fallback, ModelSettings
from melete.app.settings import Loaded, Origin
from melete.app.vendors import Vendor, address, is_loopback, key_set, proxy_for, vendor_at, vendor_named, vendors
from melete.core.errors import ConfigError, NoModelError
from melete.core.model import Capabilities
from melete.models.spec import ModelSpec, Quirks, Timeouts

OWN_KEY = "MELETE_API_KEY"
WIRE = "openai-chat"
MOST_KEYS = 20
OURS = frozenset({
    "model", "messages", "input", "contents", "system", "instructions", "systemInstruction", "tools",
})  # fmt: skip
"""The fields of a request that hold the conversation, whatever the wire."""
HOUR_IN_CACHE = 2.0
"""What a token costs that Claude keeps cached for an hour, in tokens of input; price lists have that of five minutes."""


class Place(Struct, frozen=True, kw_only=True):
    """Where a model is served: vendor, address, wire and dialect; `own` says that MELETE_API_KEY is meant for it."""

    name: str
    provider: str
    base_url: str
    wire: str
    key_variables: tuple[str, ...] = ()
    quirks: Quirks = Quirks()
    own: bool = True


class Chosen(Struct, frozen=True, kw_only=True):
    """A model ready to be opened, and the variables under which its keys may stand, the nearest first."""

    spec: ModelSpec
    key_variables: tuple[str, ...]


def model_spec(loaded: Loaded) -> ModelSpec:
    """The model that the settings choose; raises as `choose` does."""
    return choose(loaded).spec


def choose_other(loaded: Loaded, other: str | Fallback) -> Chosen:
    """Another model than the one of the settings: `[PROVIDER/]NAME`, or a fallback of its own address; raises as `choose` does.

    What is meant for the settings' model alone (MELETE_API_KEY, `model.extra`, `model.service_tier`) goes to no other server.
    """
    if isinstance(other, str):
        return choose(with_model(loaded, other), beside=loaded)
    return choose(with_fallback(loaded, other), key_variable=other.key_variable, beside=loaded)


def choose_for_children(loaded: Loaded, *, key_variable: str) -> Chosen:
    """The model that `delegation` names, whose own key, if it has one, stands in `key_variable`; raises as `choose` does.

    Another key goes only to the very address that it was set for: a vendor's to that vendor, MELETE_API_KEY to the settings' own
    server.
    """
    given = loaded.settings.delegation
    if not (given.provider or given.base_url or given.api_key):
        return choose(with_model(loaded, given.model), beside=loaded)
    name = given.model or loaded.settings.model.name
    item = Fallback(name=name, provider=given.provider, base_url=given.base_url)
    variable = key_variable if given.api_key or given.base_url else ""
    return choose(with_fallback(loaded, item), key_variable=variable, beside=loaded, strict=True)


def choose(loaded: Loaded, *, key_variable: str = "", beside: Loaded | None = None, strict: bool = False) -> Chosen:
    """The model that the settings choose; `key_variable` names one that stands before the usual variables.

    `beside` are the settings in whose model's place it stands, where it stands in for another. With `strict` a key is for one
    address, port and all, and not for whatever address stands beside its vendor's name.

    Raises NoModelError with the ways to get one when none is configured, ConfigError for an unknown vendor, an address that
    is none, or a missing key.
    """
    loaded = _set_aside(loaded)
    place = _place(loaded)
    parts = address(place.base_url, where=loaded.origin("model.base_url").where) if place.base_url else None
    settings = loaded.settings.model
    its = _place_of(beside) if beside else place
    same = its is not None and _host(place) == _host(its)
    ours = _is_ours(place, beside, strict=strict) if beside else place.own
    names = _names(loaded, place, key_variable, ours=ours, strict=strict)
    spec = ModelSpec(
        model=place.name,
        base_url=place.base_url.strip(),
        provider=place.provider,
        wire=place.wire,
        api_key=_key(place, names, loaded.variables),
        key_variable=key_variable or (place.key_variables or (OWN_KEY,))[0],
        can=_capabilities(loaded, place),
        timeouts=Timeouts(
            connect=settings.timeouts.connect,
            first_token=settings.timeouts.first_token,
            between_tokens=settings.timeouts.between_tokens,
        ),
        quirks=structs.replace(place.quirks, extra={**place.quirks.extra, **(_extra(loaded) if same else {})}),
        proxy=proxy_for(parts, loaded.variables) if parts else "",
        ca_file=loaded.variables.get("SSL_CERT_FILE", ""),
        cache_ttl=settings.cache_ttl,
        service_tier=settings.service_tier if same else "",
    )
    return Chosen(spec=spec, key_variables=names)


def _names(loaded: Loaded, place: Place, key_variable: str, *, ours: bool, strict: bool) -> tuple[str, ...]:
    """The variables whose keys may go to a place, the nearest first."""
    vendor = known_providers(loaded).get(place.provider)
    elsewhere = strict and vendor is not None and _origin(vendor.base_url) != _origin(place.base_url)
    names = (key_variable, OWN_KEY if ours else "", *(() if elsewhere else place.key_variables))
    return tuple(name for name in names if name)


def _is_ours(place: Place, beside: Loaded, *, strict: bool) -> bool:
    """Whether MELETE_API_KEY may go there: it is for the settings' own server, or for the vendor of their model."""
    server = beside.settings.model.base_url.strip()
    its = structs.replace(place, base_url=server) if server else _place_of(beside)
    if its is None or not place.own:
        return False
    return _host(its) == _host(place) and (not strict or _origin(its.base_url) == _origin(place.base_url))


def _origin(url: str) -> tuple[str, str]:
    """What tells servers apart: scheme, and host with port as they are written."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2].lower()


def _host(place: Place) -> str:
    return urlsplit(place.base_url).hostname or place.wire


def _place_of(loaded: Loaded) -> Place | None:
    """Where the settings' own model is; None where they choose none."""
    try:
        return _place(_set_aside(loaded))
    except ConfigError:
        return None


def _extra(loaded: Loaded) -> Mapping[str, Any]:
    """The person's own fields of a request; raises ConfigError for one that would stand in it twice."""
    extra = loaded.settings.model.extra
    if twice := sorted(OURS & extra.keys()):
        raise ConfigError(
            f"{loaded.origin('model.extra').where}: model.extra cannot hold {', '.join(twice)}: every request has its own",
            next="take it out of model.extra; a model is chosen with model.name",
        )
    return extra


def _capabilities(loaded: Loaded, place: Place) -> Capabilities:
    known = capabilities(loaded.home, place.provider, place.name)
    own = loaded.settings.providers.get(place.provider)
    if loaded.settings.model.cache_ttl == "1h" and "claude" in place.name.lower() and known.usd_input is not None:
        known = structs.replace(known, usd_cache_write=HOUR_IN_CACHE * known.usd_input)
    context = loaded.settings.model.context_length or (own.context_length if own else None)
    return known if context is None else structs.replace(known, context=context, known=True)


def keys_in(names: Sequence[str], variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """Variable and key of every key that is set for a model: NAME, NAME_2, NAME_3 … of the first name that is set at all."""
    for name in names:
        numbered = (name, *(f"{name}_{number}" for number in range(2, MOST_KEYS + 1)))
        if found := [(n, _checked(key, n)) for n in numbered if (key := variables.get(n, "").strip())]:
            return found
    return []


def with_model(loaded: Loaded, name: str) -> Loaded:
    """The settings with `[PROVIDER/]NAME` as the model; a provider in the name leaves a configured base URL aside."""
    provider, _ = split_name(name, known_providers(loaded))
    model = structs.replace(loaded.settings.model, name=name)
    if provider:
        model = structs.replace(model, provider="", base_url="", wire="", context_length=None)
    return _with(loaded, model)


def with_fallback(loaded: Loaded, item: Fallback) -> Loaded:
    """The settings with a fallback of its own address in the model's place."""
    model = structs.replace(
        loaded.settings.model,
        name=item.name,
        provider=item.provider,
        base_url=item.base_url,
        wire=item.wire,
        context_length=item.context_length,
    )
    return _with(loaded, model, address=bool(item.base_url))


def _with(loaded: Loaded, model: ModelSettings, *, address: bool = False) -> Loaded:
    """The settings with another model; with `address` it stands where its base URL says, whatever its name begins with."""
    settings = structs.replace(loaded.settings, model=model)
    chosen = Origin(kind="flag", where="the model just chosen")
    origins = {**loaded.origins, "model.name": chosen}
    if model.provider != loaded.settings.model.provider:
        origins["model.provider"] = chosen
    if address:
        origins["model.base_url"] = chosen
    return structs.replace(loaded, settings=settings, origins=origins)


def _set_aside(loaded: Loaded) -> Loaded:
    """The settings without the file's server, where a newer name says whose model it is: `-m PROVIDER/NAME`."""
    model, by_name = loaded.settings.model, loaded.origin("model.name").rank
    old = [k for k in ("base_url", "wire", "context_length") if loaded.origin(f"model.{k}").kind == "file"]
    if "base_url" not in old or by_name >= loaded.origin("model.base_url").rank:
        return loaded
    if not split_name(model.name.strip(), known_providers(loaded))[0]:
        return loaded
    plain = ModelSettings()
    model = structs.replace(model, **{key: getattr(plain, key) for key in old})
    return structs.replace(loaded, settings=structs.replace(loaded.settings, model=model))


def _place(loaded: Loaded) -> Place:
    model = loaded.settings.model
    name = model.name.strip()
    if not name:
        raise no_model(loaded)
    if model.base_url:
        return _at_address(loaded, name)
    known = known_providers(loaded)
    provider, rest = split_name(name, known)
    provider_is_newer = loaded.origin("model.provider").rank <= loaded.origin("model.name").rank
    if model.provider and (not provider or provider_is_newer):
        provider, rest = known_vendor(model.provider, known), name
    if not provider:
        provider = _by_key(name, known, loaded.variables)
    # With a configured base URL set aside, MELETE_API_KEY is that server's key and no vendor's.
    own = "model.base_url" not in loaded.origins
    return structs.replace(_of_vendor(provider, known[provider], rest, wire=model.wire), own=own)


def _at_address(loaded: Loaded, name: str) -> Place:
    model = loaded.settings.model
    parts = address(model.base_url, where=loaded.origin("model.base_url").where)
    found: tuple[str, Vendor] | None = None
    if model.provider:
        known = known_providers(loaded)
        provider = known_vendor(model.provider, known)
        found = provider, known[provider]
    elif not is_loopback(parts.hostname or ""):
        found = vendor_at(parts.hostname or "")
    if found is None:
        return Place(name=name, provider="", base_url=model.base_url, wire=model.wire or WIRE)
    provider, vendor = found
    return Place(
        name=name,
        provider=provider,
        base_url=model.base_url,
        wire=model.wire or vendor.wire,
        key_variables=vendor.keys,
        quirks=vendor.quirks,
    )


def _of_vendor(provider: str, vendor: Vendor, name: str, *, wire: str = "") -> Place:
    return Place(
        name=name,
        provider=provider,
        base_url=vendor.base_url,
        wire=wire or vendor.wire,
        key_variables=vendor.keys,
        quirks=vendor.quirks,
    )


def known_providers(loaded: Loaded) -> Mapping[str, Vendor]:
    """The person's own providers and those of the catalogue, by name; an own one hides another of its name."""
    own = {
        name.lower(): Vendor(
            wire=p.wire, base_url=p.base_url, key=p.key_variable or f"{re.sub('[^A-Z0-9]', '_', name.upper())}_API_KEY"
        )
        for name, p in loaded.settings.providers.items()
    }
    return {**own, **{name: vendor for name, vendor in vendors().items() if name not in own}} if own else vendors()


def split_name(name: str, known: Mapping[str, Vendor]) -> tuple[str, str]:
    """PROVIDER and NAME; no provider where the part before the first slash is not a known one."""
    written, slash, rest = name.partition("/")
    provider = _named(written, known)
    if not slash or not provider:
        return "", name
    if not rest:
        raise ConfigError(f"{name!r} names a provider and no model", next=f"write {provider}/NAME")
    return provider, rest


def known_vendor(name: str, known: Mapping[str, Vendor]) -> str:
    """The name by which a provider is known; raises ConfigError with the nearest one."""
    found = _named(name, known)
    if not found:
        near = nearest_word(name, known)
        hint = f"did you mean {near}? " if near else ""
        raise ConfigError(
            f"no provider is called {name!r}",
            next=f"{hint}known: {', '.join(known)}; any other server: set model.base_url",
        )
    return found


def _named(name: str, known: Mapping[str, Vendor]) -> str:
    plain = name.strip().lower()
    return plain if plain in known else vendor_named(plain)


def _by_key(name: str, known: Mapping[str, Vendor], variables: Mapping[str, str]) -> str:
    able = [n for n, v in known.items() if key_set(v, variables)]
    if len(able) == 1:
        return able[0]
    written, slash, rest = name.partition("/")
    near = nearest_word(written.lower(), known) if slash and rest else ""
    hint = f"did you mean {near}/{rest}? otherwise " if near else ""
    if able:
        choices = " or ".join(f"{n}/{name}" for n in able)
        raise ConfigError(
            f"keys of {len(able)} providers are set, and none is named for {name}", next=f"{hint}write {choices}"
        )
    raise ConfigError(
        f"no provider is named for {name}",
        next=f"{hint}write PROVIDER/{name} (known: {', '.join(known)}), or set MELETE_BASE_URL",
    )


def _key(place: Place, names: Sequence[str], variables: Mapping[str, str]) -> str:
    if found := keys_in(names, variables):
        return found[0][1]
    host = urlsplit(place.base_url).hostname or ""
    if is_loopback(host) or not place.base_url:
        return ""
    if not names:
        raise ConfigError(f"no key for {host}", next="name the variable that holds it in key_variable")
    wanted = next((n for n in names if n != OWN_KEY), OWN_KEY)
    raise ConfigError(
        f"no key for {place.provider or host}",
        next=(f"set {wanted}" if "." in wanted else f"put {wanted}=… into .env of the home or the environment")
        + ("" if place.provider else "; any value will do where the server wants none")
        + _other_way(place, variables),
    )


def _other_way(place: Place, variables: Mapping[str, str]) -> str:
    other = "openrouter"
    if place.provider in ("", other) or not key_set(vendors()[other], variables):
        return ""
    return f"; or ask OpenRouter, whose key is set: {other}/{place.provider}/{place.name}"


def _checked(key: str, variable: str) -> str:
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(
            f"the value of {variable} cannot be a key: it holds a space or a character that no key has",
            next="copy it anew; a comment belongs on a line of its own",
        )
    return key


def no_model(loaded: Loaded) -> NoModelError:
    """The error that lists the ways to get a model, the nearest one first."""
    if loaded.settings.model.base_url:
        return NoModelError(
            f"no model is named for {urlsplit(loaded.settings.model.base_url).hostname or 'the base URL'}",
            next="set MELETE_MODEL=NAME or pass -m NAME",
        )
    able = [n for n, v in vendors().items() if key_set(v, loaded.variables)]
    first = f"{able[0]}/NAME" if able else "PROVIDER/NAME"
    key = "" if able else " (with its key, such as OPENAI_API_KEY, in .env of the home)"
    ways = (
        f"  melete run -m {first} …   or   MELETE_MODEL={first}{key}",
        f"  melete config set model.name {first}   for good; providers: {', '.join(vendors())}",
        "  a server on this machine: -m ollama/NAME, or MELETE_BASE_URL=http://localhost:8000/v1 MELETE_MODEL=NAME",
        "  melete demo   to watch without a model",
    )
    return NoModelError("no model is configured", next="choose one of\n" + "\n".join(ways))
