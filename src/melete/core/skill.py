"""Skills as values: what one says about itself, where it lies, whose it is, and how far it is trusted. Layer 0."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from melete.core.message import Taint

MAIN: Final = "SKILL.md"
"""The file that makes a folder a skill."""
PLACES: Final = ("{base_dir}", "${SKILL_DIR}", "${HERMES_SKILL_DIR}")
"""What stands in a skill's text for its own folder."""
CALLED: Final = "[The person calls for the skill"
SUGGESTED: Final = "[From the skill library, for this message; skill_view loads one]"
"""How the parts begin that stand behind a person's words in a message: a skill's text, and the names of some that fit."""
Root = Literal["bundled", "user", "hub", "external", "project"]
OTHERS: Final[Sequence[Root]] = ("hub", "external", "project")
"""The shelves of what somebody else wrote."""
Owner = Literal["bundled", "user", "agent", "hub", "external", "project"]
State = Literal["trial", "active", "stale", "archived", "quarantined"]


class Variable(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A variable of the environment that a skill needs."""

    name: str
    prompt: str = ""
    help: str = ""
    required_for: str = ""


class Option(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A setting of a skill's own, kept below `skills.config`."""

    key: str
    description: str = ""
    default: Any = None
    prompt: str = ""


class Conditions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a skill is shown: hidden without what it requires, with what it only stands in for, and on other systems."""

    platforms: tuple[str, ...] = ()
    requires_tools: tuple[str, ...] = ()
    requires_toolsets: tuple[str, ...] = ()
    fallback_for_tools: tuple[str, ...] = ()
    fallback_for_toolsets: tuple[str, ...] = ()


class Skill(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A skill without its text. `folder` is absolute; owner, trust (0 to 4) and state come from the ledger, never from the skill.

    `warnings` are what was repaired when it was read; `variables` to `tried` are what its front matter says.
    """

    name: str
    description: str
    category: str = ""
    root: Root = "user"
    folder: str = ""
    owner: Owner = "user"
    trust: int = 4
    state: State = "active"
    pinned: bool = False
    conditions: Conditions = Conditions()
    tags: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    trigger: str = ""
    version: str = ""
    author: str = ""
    license: str = ""
    compatibility: str = ""
    variables: tuple[Variable, ...] = ()
    commands: tuple[str, ...] = ()
    setup: str = ""
    options: tuple[Option, ...] = ()
    credential_files: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    tried: str = ""
    warnings: tuple[str, ...] = ()


class Problem(Struct, frozen=True, kw_only=True):
    """A folder that looks like a skill and is not used, and why."""

    path: str
    reason: str


class Here(Struct, frozen=True, kw_only=True):
    """What a skill's conditions are judged by: the tools and toolsets that can be called, the system, the working folder."""

    tools: frozenset[str] = frozenset()
    toolsets: frozenset[str] = frozenset()
    platform: Literal["linux", "macos", "windows"] = "linux"
    cwd: str = ""


def fits(conditions: Conditions, here: Here) -> bool:
    """Whether a skill is shown here."""

    def some(names: Sequence[str], there: frozenset[str]) -> bool:
        return any(name in there for name in names)

    if conditions.platforms and here.platform not in conditions.platforms:
        return False
    if some(conditions.fallback_for_tools, here.tools) or some(conditions.fallback_for_toolsets, here.toolsets):
        return False
    return here.tools.issuperset(conditions.requires_tools) and here.toolsets.issuperset(conditions.requires_toolsets)


class Version(Struct, frozen=True, kw_only=True):
    """A skill as it was once, as the ledger tells it: `version` stands for its `files`, paths to the digests of their content.

    `author` made it (user, agent, bundled, hub or import), `owner`, `trust` and `state` are the skill's from then on. `turns` are
    facts of the session that it came from, `taint` what had been read there.
    """

    number: int = 0
    at: str = ""
    skill: str
    version: str = ""
    parent: str = ""
    author: str = "user"
    owner: Owner = "user"
    trust: int = 4
    state: State = "active"
    session: str = ""
    turns: tuple[int, ...] = ()
    model: str = ""
    reason: str = ""
    taint: Taint = "none"
    files: Mapping[str, str] = {}


class SkillText(Struct, frozen=True, kw_only=True):
    """One file of a skill, and the version that it was read from.

    `base` is the skill's folder as it is told, `files` are all in it, `missing` the variables that are not set, and `config` the
    values of its own settings.
    """

    skill: Skill
    part: str
    text: str
    version: str
    base: str = ""
    files: tuple[str, ...] = ()
    missing: tuple[Variable, ...] = ()
    config: Mapping[str, Any] = {}


def unconditional(conditions: Conditions) -> bool:
    """Whether a skill is shown everywhere."""
    return conditions == Conditions()
