"""From a SKILL.md to a Skill, leniently; and the strict check of what is to be written.

Reading takes what people wrote: a field of the wrong shape counts as not there, and only the name and the description are
needed. Writing follows agentskills.io, with `metadata` as the place for all that is ours.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from melete.core.skill import Conditions, Option, Skill, Variable
from melete.security.paths import wrong_id
from melete.skills.frontmatter import Front, FrontMatterError, read_front

MOST_ITEMS: Final = 50
LONGEST_ITEM: Final = 500
LONGEST_CATEGORY: Final = 64
LONGEST_BODY: Final = 90_000
SYSTEMS = {"darwin": "macos", "mac": "macos", "osx": "macos", "win": "windows", "win32": "windows"}
"""What else the systems are called."""
SPEC = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
"""The fields of agentskills.io."""
OURS = frozenset(
    {
        "version", "author", "category", "trigger", "platforms", "required_environment_variables", "prerequisites", "setup",
        "required_credential_files",
    }
)  # fmt: skip
"""Fields that agents read beside those."""


def read_skill(data: bytes | str, *, folder: str = "") -> tuple[Skill, str]:
    """The skill that a SKILL.md in a folder of this name describes, and its text; raises FrontMatterError.

    Where it lies, whose it is and its trust are for the caller to say.
    """
    front = read_front(data, folder=folder)
    return skill_of(front), front.body


def skill_of(front: Front) -> Skill:
    """What the front matter says, as a Skill."""
    fields = front.fields
    if fields.keys() <= {"name", "description"}:
        return Skill(name=front.name, description=front.description, warnings=front.warnings)
    metadata = _map(fields.get("metadata"))
    hermes = _map(metadata.get("hermes"))
    needs, setup = _map(fields.get("prerequisites")), _map(fields.get("setup"))
    return Skill(
        name=front.name,
        description=front.description,
        category=_text(fields.get("category") or hermes.get("category") or metadata.get("category"))[:LONGEST_CATEGORY],
        conditions=Conditions(
            platforms=tuple(SYSTEMS.get(one.lower(), one.lower()) for one in _list(fields.get("platforms"))),
            requires_tools=_list(hermes.get("requires_tools")),
            requires_toolsets=_list(hermes.get("requires_toolsets")),
            fallback_for_tools=_list(hermes.get("fallback_for_tools")),
            fallback_for_toolsets=_list(hermes.get("fallback_for_toolsets")),
        ),
        tags=_list(hermes.get("tags") or metadata.get("tags") or fields.get("tags")),
        related=_list(hermes.get("related_skills")),
        trigger=_text(fields.get("trigger")),
        version=_text(fields.get("version") or metadata.get("version")),
        author=_text(fields.get("author") or metadata.get("author")),
        license=_text(fields.get("license")),
        compatibility=_text(fields.get("compatibility")),
        variables=_variables(fields, needs, setup),
        commands=_list(needs.get("commands")),
        setup=_text(setup.get("help")),
        options=tuple(
            Option(
                key=_text(one.get("key")),
                description=_text(one.get("description")),
                default=one.get("default"),
                prompt=_text(one.get("prompt")),
            )
            for one in _maps(hermes.get("config"), "key")
        ),
        credential_files=tuple(
            _text(one.get("path")) for one in _maps(fields.get("required_credential_files"), "path")
        ),
        allowed_tools=_list(fields.get("allowed-tools"), split=True),
        tried=_text(metadata.get("tried") or hermes.get("tried")),
        warnings=front.warnings,
    )


def strict(text: str, *, name: str = "") -> Front:
    """What a SKILL.md that is to be written says; raises FrontMatterError with the first thing to mend.

    The rules are those of agentskills.io, the fields beside them those that agents read. `name` is the folder's name.
    """
    front = read_front(text)
    for why in (*front.warnings, *_wrong(front, name)):
        raise FrontMatterError(why)
    return front


def _wrong(front: Front, name: str) -> Sequence[str]:
    """What a strict reader would not accept, though we do."""
    fields = front.fields
    found: list[str] = []
    if name and front.name != name:
        found.append(f"its name is {front.name!r}, and must be that of its folder, {name!r}")
    if unknown := sorted(fields.keys() - SPEC - OURS):
        found.append(f"it has the field {unknown[0][:80]!r}, which nobody reads; put it below metadata")
    if not isinstance(fields.get("allowed-tools", ""), str):
        found.append("its allowed-tools are not one text with spaces between the names")
    metadata = cast("Mapping[str, Any]", fields.get("metadata", {}))
    found += [
        f"metadata.{key[:80]} is not text: put it between quotes"
        for key, value in metadata.items()
        if not isinstance(value, str) and not (key == "hermes" and isinstance(value, dict))
    ]
    if not front.body.strip():
        found.append("there is no text below it")
    if len(front.body) > LONGEST_BODY:
        found.append(f"the text below it is longer than {LONGEST_BODY:,} characters; move details into references/")
    return found


def _map(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _maps(value: Any, key: str) -> list[Mapping[str, Any]]:
    """A list of mappings, each with `key`; a plain text stands for a mapping with that alone."""
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    found = (_map({key: one} if isinstance(one, str) else one) for one in listed[:MOST_ITEMS])
    return [one for one in found if _text(one.get(key))]


def _text(value: Any) -> str:
    """A text, or a number as one; bounded."""
    return str(value).strip()[:LONGEST_ITEM] if isinstance(value, str | int | float) else ""


def _list(value: Any, *, split: bool = False) -> tuple[str, ...]:
    """A list of texts; one text is a list of one, or of several with commas (or spaces, with `split`) between them."""
    if isinstance(value, str):
        value = value.replace(",", " ").split() if split else value.split(",")
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return tuple(text for one in listed[:MOST_ITEMS] if (text := _text(one)))


def _variables(fields: Mapping[str, Any], needs: Mapping[str, Any], setup: Mapping[str, Any]) -> tuple[Variable, ...]:
    """The variables of the environment, by whichever of three ways they are named; each once."""
    found: dict[str, Variable] = {}
    for one in _maps(fields.get("required_environment_variables"), "name"):
        found[_text(one["name"])] = Variable(
            name=_text(one["name"]),
            prompt=_text(one.get("prompt")),
            help=_text(one.get("help")),
            required_for=_text(one.get("required_for")),
        )
    for one in _maps(setup.get("collect_secrets"), "env_var"):
        name, url = _text(one["env_var"]), _text(one.get("provider_url"))
        found.setdefault(name, Variable(name=name, prompt=_text(one.get("prompt")), help=url))
    for name in _list(needs.get("env_vars")):
        found.setdefault(name, Variable(name=name))
    return tuple(one for one in found.values() if one.name.isidentifier() and one.name.isascii())


def spelled(name: str) -> str:
    """The name as it is kept, from one with underscores, capitals or spaces; the same where that gives none."""
    made = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    return name if wrong_id(made) else made
