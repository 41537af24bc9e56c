"""Writes the generated pages of the documentation from the code itself; with --check only says whether they are up to date."""

import argparse
import asyncio
import html
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from melete.app import commands as slash
from melete.app import sections, settings
from melete.app.context_report import schema_bytes
from melete.app.keys import Key
from melete.app.plugins import BUILT_IN, registry
from melete.core import event
from melete.core.tool import Tool, Toolset
from melete.security import skillscan_rules
from melete.security.commands import ASKED, FORBIDDEN
from melete.surfaces.api import openapi
from melete.surfaces.api.route import HEADERS, Route
from melete.surfaces.api.routes import ROUTES
from melete.surfaces.cli.main import melete

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
GENERATED = "<!-- Made by scripts/reference.py from the code; edits here are lost. -->"


# ---- events --------------------------------------------------------------------------------------


def events() -> str:
    """Every event with its fields, in the order of the code."""
    stamp = frozenset(event.Stamp.__struct_fields__)
    lines = [
        "# Events",
        "",
        "What `melete run --json` prints, one object a line, and what the log holds. Every event has `type`, `seq`, `session`,",
        "`run` and `at`. A **fact** is stored before it is shown, and `seq` counts facts without gaps; a **delta** is not stored:",
        "its `seq` is the last fact's and `sub` counts the deltas behind it. `melete config schema events` prints the JSON Schema.",
    ]
    for title, union in (
        ("Facts of a run", event.RunFact),
        ("Facts of a session", event.SessionFact),
        ("Deltas", event.Delta | event.ToolProgress | event.Lagged),
    ):
        lines += ["", f"## {title}"]
        for kind in typing.get_args(union):
            lines += ["", f"### `{kind.__struct_config__.tag}`", "", inspect.cleandoc(kind.__doc__ or "")]
            lines += _fields(kind, without=stamp)
    lines += ["", "## Values inside"]
    for kind in _values(event.Event):
        tag = kind.__struct_config__.tag
        lines += [
            "",
            f"### {kind.__name__} {{ #value-{kind.__name__.lower()} }}",
            "",
            inspect.cleandoc(kind.__doc__ or ""),
        ]
        lines += [f'Its `type` is `"{tag}"`.'] if tag else []
        lines += _fields(kind)
    return "\n".join(lines)


def _values(union: Any) -> Iterator[Any]:
    """The structs that events hold, each once, in the order in which they are met."""
    seen: list[Any] = []

    def visit(hint: Any) -> None:
        for inner in typing.get_args(hint):
            visit(inner)
        if not (inspect.isclass(hint) and issubclass(hint, msgspec.Struct)) or hint in seen:
            return
        if not issubclass(hint, event.Stamp):
            seen.append(hint)
        for field in msgspec.structs.fields(hint):
            visit(field.type)

    visit(union)
    yield from seen


def _fields(kind: Any, *, without: frozenset[str] = frozenset()) -> list[str]:
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in without]
    rows = [(f"`{f.encode_name}`", _type(f.type), _default(f), _meaning(f.type)) for f in fields]
    return _table("Field", rows)


def _table(name: str, rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """A table of fields or parameters; what they mean is a column where any says so."""
    if not rows:
        return []
    many = 4 if any(meaning for *_, meaning in rows) else 3
    titles = (name, "Type", "Default", "Meaning")[:many]
    return ["", f"| {' | '.join(titles)} |", "|---" * many + "|", *(f"| {' | '.join(row[:many])} |" for row in rows)]


def _meaning(hint: Any) -> str:
    """What a type says of itself, anywhere but in the types that it is made of."""
    found = [meta.description for meta in getattr(hint, "__metadata__", ()) if meta.description]
    if typing.get_origin(hint) in {typing.Union, types.UnionType, typing.Annotated}:
        found += filter(None, map(_meaning, typing.get_args(hint)))
    return _cell(_sentence(" ".join(dict.fromkeys(found))))


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if value is msgspec.NODEFAULT:
        return "required"
    if value is msgspec.UNSET:
        return "none"
    if isinstance(value, msgspec.Struct):
        return "its defaults"
    return f"`{msgspec.json.encode(value).decode()}`"


def _type(hint: Any) -> str:
    """A type as JSON has it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(_type(kind) for kind in inner if kind is not msgspec.UnsetType)
    if origin is typing.Annotated:
        return _type(inner[0])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in {tuple, list}:
        return f"list of {_type(inner[0])}" if inner else "an empty list"
    if origin is dict:
        return f"object of {_type(inner[1])}"
    plain = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        type(None): "null",
        datetime: "time",
        msgspec.Raw: "JSON",
        Any: "JSON",
        dict: "object",
    }
    return plain.get(hint) or f"[{hint.__name__}](#value-{hint.__name__.lower()})"


# ---- commands ------------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its arguments and options, in the order of the help, and the slash commands of a chat."""
    lines = [
        "# Commands",
        "",
        "`melete COMMAND --help` shows the same. `-h` and `--help` go with each; `melete --version` prints the version.",
        "What the exit statuses mean stands in [Running](../guides/running.md#exit-status).",
    ]
    for path, command in _tree("melete", melete):
        *group, _ = path.removeprefix("melete ").split()
        lines += ["", f"{'###' if group else '##'} `{path}`", ""]
        lines += [f"    {_usage(path, command)}", "", inspect.cleandoc(command.help or "")]
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        rows = [f"| {_code(_spelled(option))} | {_about(option)} |" for option in options if option.name != "version"]
        lines += ["", "| Option | Effect |", "|---|---|", *rows] if rows else []
    lines += ["", "## In a chat", "", "| Command | Effect |", "|---|---|"]
    for command in slash.commands("cli"):
        also = f" Also {', '.join(f'`/{alias}`' for alias in command.aliases)}." if command.aliases else ""
        lines.append(f"| {_code(command.usage)} | {command.about}{also} |")
    return "\n".join(lines)


def _tree(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (inner := command.get_command(context, name)) is not None and not inner.hidden:
                yield from _tree(f"{path} {name}", inner)


def _usage(path: str, command: click.Command) -> str:
    return " ".join([path, *command.collect_usage_pieces(click.Context(command, info_name=path))])


def _spelled(option: click.Option) -> str:
    """An option as it is typed."""
    names = ", ".join(sorted([*option.opts, *option.secondary_opts], key=len))
    if option.is_flag:
        return names
    number = isinstance(option.type, click.types.IntParamType) and not option.metavar
    return f"{names} {'N' if number else option.make_metavar(click.Context(melete))}"


def _about(option: click.Option) -> str:
    about = _sentence(option.help or "")
    if option.show_default and option.default is not None:
        about += f" Default: {option.default}."
    return about + (" May be given several times." if option.multiple else "")


# ---- settings ------------------------------------------------------------------------------------


def setting_keys() -> str:
    """Every key of config.yaml by section, with its default, what it takes and the variable that sets it."""
    variables = {key: name for name, key in settings.VARIABLES.items()}
    lines = [
        "# Settings",
        "",
        "The keys of `config.yaml`; a dot is one level deeper. `melete config set KEY VALUE` changes one and",
        "`melete config schema` prints the JSON Schema. [Configuration](../guides/configuration.md) tells where values come from.",
    ]
    section = ""
    for key in settings.keys().values():
        if (this := key.name.partition(".")[0]) != section:
            section = this
            lines += ["", f"## `{section}`", "", _of_section(section, key), ""]
            lines += ["| Key | Default | A value is | Effect |", "|---|---|---|---|"]
        also = f" Variable: `{variables[key.name]}`." if key.name in variables else ""
        lines.append(
            f"| `{key.name}` | {_setting_default(key)} | {_cell(key.expects)} | {_sentence(key.about)}{also} |"
        )
    return "\n".join(lines)


def _of_section(section: str, first: Key) -> str:
    """What a section is for; one of free names has no class of its own that could say it."""
    kind = _section(section)
    return inspect.cleandoc(kind.__doc__ or "") if isinstance(kind, type) and issubclass(kind, Struct) else first.about


def _section(name: str) -> Any:
    return typing.get_type_hints(sections.Settings)[name]


def _setting_default(key: Key) -> str:
    return f"`{msgspec.json.encode(key.default).decode()}`" if key.default not in ("", ()) else "empty"


# ---- tools ---------------------------------------------------------------------------------------


def tools() -> str:
    """Every built-in tool as a model sees it, by toolset."""
    found = asyncio.run(_toolsets())
    total = sum(schema_bytes(tool.shown) for group in found.values() for tool in group)
    lines = [
        "# Tools",
        "",
        "What a model can call. `-t` and the [settings](settings.md#tools) choose among the toolsets; the text below a name is",
        f"what the model reads. All schemas together take {total:,} bytes of every request.",
    ]
    for name, group in found.items():
        lines += ["", f"## Toolset `{name}`"]
        for tool in group:
            lines += ["", f"### `{tool.name}`", "", "```text", tool.about, "```", ""]
            lines += ["| Parameter | Type | Default |", "|---|---|---|", *_parameters(tool), "", _traits(tool)]
    return "\n".join(lines)


async def _toolsets() -> Mapping[str, tuple[Tool, ...]]:
    made = registry()
    found: dict[str, tuple[Tool, ...]] = {}
    async with AsyncExitStack() as stack:
        for name in BUILT_IN["tools"]:
            toolset: Toolset = made.get("tools", name)()
            found[name] = tuple(await stack.enter_async_context(toolset.open()))
    return found


def _parameters(tool: Tool) -> Iterator[str]:
    schema = msgspec.json.decode(tool.schema)
    defaults = {field.encode_name: _default(field) for field in msgspec.structs.fields(tool.arguments)}
    for name, node in schema.get("properties", {}).items():
        hint = f": {_cell(node['description'])}" if "description" in node else ""
        yield f"| `{name}` | {_cell(_schema_type(node))}{hint} | {defaults[name]} |"


def _schema_type(node: Mapping[str, Any]) -> str:
    """The type of a JSON Schema in words."""
    if "anyOf" in node:
        return " or ".join(_schema_type(choice) for choice in node["anyOf"])
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if node.get("type") == "array":
        return f"list of {_schema_type(node.get('items', {}))}"
    if "properties" in node:
        return f"object of {', '.join(f'`{name}`' for name in node['properties'])}"
    plain = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    return plain.get(node.get("type", ""), "JSON")


EFFECTS = {"read": "reads only", "write": "changes files", "outside": "may change anything"}


def _traits(tool: Tool) -> str:
    together = "calls of one reply run side by side" if tool.parallel else "calls run one after the other"
    judged = ["some calls are asked about first"] if tool.judge else []
    words = [
        EFFECTS[tool.effect],
        together,
        *judged,
        f"at most {tool.deadline:g} s",
        f"a result above {tool.limit:,} characters goes to a file",
        f"{schema_bytes(tool.shown):,} bytes of schema",
    ]
    text = "; ".join(words)
    return f"{text[:1].upper()}{text[1:]}."


# ---- the HTTP API ----------------------------------------------------------------------------------


def api() -> str:
    """Every route of the HTTP API by tag: what it takes, what it answers, and the values in both."""
    lines = [
        "# HTTP API",
        "",
        "What `melete serve` answers, on `http://127.0.0.1:8642` unless it is told otherwise; [Serving](../guides/serve.md) shows",
        "it in use. A running server has the same as an OpenAPI document at `/openapi.json`, and `melete config schema openapi`",
        "prints it.",
        "",
        "A key goes into the header `Authorization: Bearer KEY`. *Scope* is what a key needs for a route; `admin` holds all. Every",
        "answer has an `X-Request-Id`. What is refused is answered with an [ErrorBody](#value-errorbody); beside the statuses of a",
        f"route these may come from any: {_listed(openapi.ALWAYS)}.",
        "",
        "| Status | Meaning |",
        "|---|---|",
        *(f"| {status} | {_cell(text)} |" for status, text in openapi.REFUSALS.items()),
    ]
    for tag in dict.fromkeys(route.tag for route in ROUTES):
        lines += ["", f"## {tag.capitalize()}", "", openapi.TAGS[tag]]
        for route in (route for route in ROUTES if route.tag == tag):
            lines += _route(route)
    lines += ["", "## Values"]
    shown = (hint for route in ROUTES for hint in (route.takes, route.gives) if hint is not None)
    for kind in openapi.structs_in((openapi.ErrorBody, *shown)):
        lines += ["", f"### {kind.__name__} {{ #value-{kind.__name__.lower()} }}", ""]
        lines += [inspect.cleandoc(kind.__doc__ or ""), *_fields(kind)]
    return "\n".join(lines)


def _route(route: Route) -> Iterator[str]:
    yield from ("", f"### `{route.method} {openapi.template(route.path)}`", "")
    yield inspect.cleandoc(route.handler.__doc__ or "")
    rows = [(f"`{f.encode_name}`", _type(f.type), _default(f), _meaning(f.type)) for f in _of(route.query)]
    yield from _table("In the query", rows)
    yield from _table("Header", [(f"`{name}`", "text", "none", _cell(HEADERS[name][1])) for name in route.headers])
    takes = [f"takes {_type(route.takes)}{' or nothing' * route.optional}"] if route.takes is not None else []
    scope = "no key needed" if route.public else f"scope `{route.scope}`" if route.scope else "any key"
    refuses = [f"refuses with {_listed(own)}"] if (own := sorted({*route.errors} - {*openapi.ALWAYS})) else []
    text = "; ".join([*takes, f"answers {route.status} with {_gives(route)}", *refuses, scope])
    yield from ("", f"{text[:1].upper()}{text[1:]}.")


def _of(kind: Any) -> Sequence[msgspec.structs.FieldInfo]:
    return msgspec.structs.fields(kind) if kind is not None else ()


def _gives(route: Route) -> str:
    kinds = [_type(route.gives)] if route.gives is not None else []
    kinds += [f"`{media}`" for media in route.media]
    if route.stream:
        own = route.events is event.Event
        kinds.append("a stream of [events](events.md)" if own else "a stream of server-sent events")
    kinds += ["with 204 and no body"] if route.nothing else []
    return " or ".join(kinds) or "no body"


def _listed(statuses: Sequence[int]) -> str:
    *most, last = map(str, statuses)
    return f"{', '.join(most)} and {last}" if most else last


# ---- words ---------------------------------------------------------------------------------------


def _sentence(text: str) -> str:
    """A text as one table cell that ends with a full stop."""
    line = _cell(" ".join(text.split()))
    return f"{line}." if line and line[-1] not in ".!?" else line


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")


def _code(text: str) -> str:
    """Code in a table cell, also where it holds the table's own separator."""
    return f"<code>{_cell(html.escape(text, quote=False))}</code>" if "|" in text else f"`{text}`"


# ---- the command rules ---------------------------------------------------------------------------


def policy() -> str:
    """Every rule about shell commands, with its reason and an example."""
    lines = [
        "# Command rules",
        "",
        "A shell command is read as what it would run: every program with its arguments, also behind wrappers, variables, decoders",
        "and nested shells. The first rule that fits decides. What cannot be told from the text asks, as `undecided`.",
    ]
    for title, about, rules in (
        ("Forbidden", "Nobody can allow these: no setting, mode or grant.", FORBIDDEN),
        (
            "Asked",
            "A person must allow these. Where the last column says so, a sandbox makes them harmless and nobody is asked.",
            ASKED,
        ),
    ):
        lines += [
            "",
            f"## {title}",
            "",
            about,
            "",
            "| Rule | What it does | Example | In a sandbox |",
            "|---|---|---|---|",
        ]
        for rule in rules:
            example = _code(rule.example.replace("\n", "⏎"))
            lines.append(f"| `{rule.id}` | {_cell(rule.reason)} | {example} | {'allowed' if rule.contained else ''} |")
    return "\n".join(lines)


# ---- the rules about skills -----------------------------------------------------------------------


def skill_rules() -> str:
    """Every rule of the scan of skills, with its weight, its reason and an example."""
    weights = {"high": "dangerous", "medium": "caution", "low": "told"}
    lines = [
        "# Rules of the skill scan",
        "",
        "[The scan](../concepts/skill-scan.md) holds each of these against every file of a skill; the gravest decides its verdict.",
    ]
    for title, rules in (
        ("In the text for the agent", skillscan_rules.PROSE),
        ("In code", skillscan_rules.CODE),
        ("In what code would do, and in files", skillscan_rules.READ),
        ("In several things together", skillscan_rules.FLOWS),
    ):
        lines += ["", f"## {title}", "", "| Rule | Verdict | What the skill does | Example |", "|---|---|---|---|"]
        for rule in (rule for rule in rules if rule.severity):
            shown = _code(rule.example.replace("`", "'").replace("\n", "⏎")) if rule.example else ""
            lines.append(f"| `{rule.id}` | {weights[rule.severity]} | {_cell(rule.reason)} | {shown} |")
    return "\n".join(lines)


# ---- the pages -----------------------------------------------------------------------------------

PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "settings.md": setting_keys,
    "events.md": events,
    "tools.md": tools,
    "policy.md": policy,
    "skill-scan.md": skill_rules,
    "api.md": api,
}


def main() -> int:
    """Write the pages, or with --check compare them; the exit status is 1 when one is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is out of date")
    check = parser.parse_args().check
    stale: list[str] = []
    for name, page in PAGES.items():
        text = f"{GENERATED}\n\n{page().rstrip()}\n"
        path = FOLDER / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and check:
        print(f"out of date: {', '.join(stale)}; run python scripts/reference.py", file=sys.stderr)
        return 1
    print(f"written: {', '.join(stale)}" if stale else "the reference is up to date")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
