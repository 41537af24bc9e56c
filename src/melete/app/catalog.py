"""From settings to one model at one address: which vendor, which key, which dialect. Part of the composition root."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct, structs

from melete.app.keys import nearest_word
from melete.app.settings import Loaded
from melete.app.vendors import Vendor, address, is_loopback, proxy_for, vendor_at, vendors
from melete.core.errors import ConfigError, NoModelError
from melete.core.model import Capabilities
from melete.models.spec import ModelSpec, Quirks, Timeouts

OWN_KEY = "MELETE_API_KEY"
WIRE = "openai-chat"


class Place(Struct, frozen=True, kw_only=True):
    """Where a model is served: vendor, address, wire and dialect; `own` says that MELETE_API_KEY is meant for it."""

    name: str
    provider: str
    base_url: str
    wire: str
    key_variable: str = ""
    quirks: Quirks = Quirks()
    own: bool = True


def model_spec(loaded: Loaded) -> ModelSpec:
    """The model that the settings choose, ready to be opened.

    Raises NoModelError with the ways to get one when none is configured, ConfigError for an unknown vendor, an address that
    is none, or a missing key.
    """
    place = _place(loaded)
    parts = address(place.base_url, where=loaded.origin("model.base_url").where)
    settings = loaded.settings.model
    context = settings.context_length
    return ModelSpec(
        model=place.name,
        base_url=place.base_url.strip(),
        provider=place.provider,
        wire=place.wire,
        api_key=_key(place, loaded.variables),
        key_variable=place.key_variable or OWN_KEY,
        can=Capabilities() if context is None else Capabilities(context=context, known=True),
        timeouts=Timeouts(
            connect=settings.timeouts.connect,
            first_token=settings.timeouts.first_token,
            between_tokens=settings.timeouts.between_tokens,
        ),
        quirks=place.quirks,
        proxy=proxy_for(parts, loaded.variables),
        ca_file=loaded.variables.get("SSL_CERT_FILE", ""),
    )


def _place(loaded: Loaded) -> Place:
    model = loaded.settings.model
    name = model.name.strip()
    if not name:
        raise no_model(loaded)
    if model.base_url:
        return _at_address(loaded, name)
    provider, rest = split_name(name)
    provider_is_newer = loaded.origin("model.provider").rank <= loaded.origin("model.name").rank
    if model.provider and (not provider or provider_is_newer):
        provider, rest = known_vendor(model.provider), name
    if not provider:
        provider = _by_key(name, loaded.variables)
    # With a configured base URL set aside, MELETE_API_KEY is that server's key and no vendor's.
    own = "model.base_url" not in loaded.origins
    return structs.replace(_of_vendor(provider, rest, wire=model.wire), own=own)


def _at_address(loaded: Loaded, name: str) -> Place:
    model = loaded.settings.model
    parts = address(model.base_url, where=loaded.origin("model.base_url").where)
    found: tuple[str, Vendor] | None = None
    if model.provider:
        found = known_vendor(model.provider), vendors()[model.provider]
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
        key_variable=vendor.key,
        quirks=vendor.quirks,
    )


def _of_vendor(provider: str, name: str, *, wire: str = "") -> Place:
    vendor = vendors()[provider]
    return Place(
        name=name,
        provider=provider,
        base_url=vendor.base_url,
        wire=wire or vendor.wire,
        key_variable=vendor.key,
        quirks=vendor.quirks,
    )


def split_name(name: str) -> tuple[str, str]:
    """PROVIDER and NAME; no provider where the part before the first slash is not in the catalogue."""
    provider, slash, rest = name.partition("/")
    if not slash or provider not in vendors():
        return "", name
    if not rest:
        raise ConfigError(f"{name!r} names a provider and no model", next=f"write {provider}/NAME")
    return provider, rest


def known_vendor(name: str) -> str:
    """`name` if the catalogue has it; raises ConfigError with the nearest one."""
    if name not in vendors():
        near = nearest_word(name, vendors())
        hint = f"did you mean {near}? " if near else ""
        raise ConfigError(
            f"no provider is called {name!r}",
            next=f"{hint}known: {', '.join(vendors())}; any other server: set model.base_url",
        )
    return name


def _by_key(name: str, variables: Mapping[str, str]) -> str:
    able = [n for n, v in vendors().items() if variables.get(v.key, "").strip()]
    if len(able) == 1:
        return able[0]
    if able:
        choices = " or ".join(f"{n}/{name}" for n in able)
        raise ConfigError(
            f"keys of {len(able)} providers are set, and none is named for {name}", next=f"write {choices}"
        )
    raise ConfigError(
        f"no provider is named for {name}",
        next=f"write PROVIDER/{name} (known: {', '.join(vendors())}), or set MELETE_BASE_URL",
    )


def _key(place: Place, variables: Mapping[str, str]) -> str:
    names = [n for n in (OWN_KEY if place.own else "", place.key_variable) if n]
    for variable in names:
        if key := variables.get(variable, "").strip():
            return _checked(key, variable)
    host = urlsplit(place.base_url).hostname or ""
    if is_loopback(host):
        return ""
    raise ConfigError(
        f"no key for {place.provider or host}",
        next=f"put {place.key_variable or OWN_KEY}=… into .env of the home or the environment"
        + ("" if place.provider else "; any value will do where the server wants none")
        + _other_way(place, variables),
    )


def _other_way(place: Place, variables: Mapping[str, str]) -> str:
    other = "openrouter"
    if place.provider in ("", other) or not variables.get(vendors()[other].key, "").strip():
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
    able = [n for n, v in vendors().items() if loaded.variables.get(v.key, "").strip()]
    first = f"{able[0]}/NAME" if able else "PROVIDER/NAME"
    key = "" if able else " (with its key, such as OPENAI_API_KEY, in .env of the home)"
    ways = (
        f"  melete run -m {first} …   or   MELETE_MODEL={first}{key}",
        f"  melete config set model.name {first}   for good; providers: {', '.join(vendors())}",
        "  a server on this machine: -m ollama/NAME, or MELETE_BASE_URL=http://localhost:8000/v1 MELETE_MODEL=NAME",
        "  melete demo   to watch without a model",
    )
    return NoModelError("no model is configured", next="choose one of\n" + "\n".join(ways))
