"""The slash commands: one table that help, completion and every surface's dispatch are made of. Composition root.

What a command does belongs to the surface that offers it; which there are, what they are called and what they are for
stands here alone. Another alias is another word in one row.
"""

from collections.abc import Sequence

from msgspec import Struct

from melete.app.keys import nearest_word
from melete.core.errors import UsageError

EVERYWHERE = ("cli", "gateway", "web")


class CommandDef(Struct, frozen=True, kw_only=True):
    """A slash command; `surfaces` says where it is offered, `args_hint` what may follow it."""

    name: str
    about: str
    category: str
    aliases: tuple[str, ...] = ()
    args_hint: str = ""
    surfaces: tuple[str, ...] = EVERYWHERE

    @property
    def usage(self) -> str:
        """How it is written."""
        return f"/{self.name} {self.args_hint}".rstrip()


COMMANDS: tuple[CommandDef, ...] = (
    CommandDef(name="new", aliases=("reset",), about="Begin a new session.", category="Session"),
    CommandDef(name="sessions", about="List past sessions.", category="Session", args_hint="[N]"),
    CommandDef(name="resume", about="Go on in another session.", category="Session", args_hint="[ID|TITLE]"),
    CommandDef(name="search", about="Search what was said in all sessions.", category="Session", args_hint="WORDS"),
    CommandDef(name="history", about="Show the last steps of this session.", category="Session", args_hint="[N]"),
    CommandDef(
        name="branch",
        aliases=("fork",),
        about="Go on in a copy of this session, from its end or from a step.",
        category="Session",
        args_hint="[STEP]",
    ),
    CommandDef(name="undo", about="Go on before the last prompt, in a copy.", category="Session"),
    CommandDef(
        name="rollback",
        about="Put files back as they were before a turn; without N, list what there is.",
        category="Session",
        args_hint="[diff] [N] [force]",
        surfaces=("cli",),
    ),
    CommandDef(
        name="export",
        about="Write this session into a file of HTML, Markdown or JSON lines.",
        category="Session",
        args_hint="[FILE]",
        surfaces=("cli",),
    ),
    CommandDef(name="insights", about="Show what was used in the last days.", category="Session", args_hint="[DAYS]"),
    CommandDef(name="title", about="Show or change this session's title.", category="Session", args_hint="[TEXT]"),
    CommandDef(name="retry", about="Go on where the last run failed or was stopped.", category="Session"),
    CommandDef(
        name="status", aliases=("usage",), about="Show session, model, tokens and cost so far.", category="Session"
    ),
    CommandDef(
        name="agents",
        aliases=("tasks",),
        about="Show the children that work for this session, and how others ended.",
        category="Session",
        surfaces=("cli",),
    ),
    CommandDef(
        name="model", about="Show the model, or use another one.", category="Model", args_hint="[[PROVIDER/]NAME]"
    ),
    CommandDef(name="context", about="Show what the next request costs, part by part.", category="Model"),
    CommandDef(
        name="compress",
        aliases=("compact",),
        about="Sum up what is older, now; the last N exchanges stay, or as much as fits.",
        category="Model",
        args_hint="[here N] [focus WHAT] [--preview]",
        surfaces=("cli",),
    ),
    CommandDef(name="tools", about="List the tools.", category="Tools"),
    CommandDef(
        name="skills", about="List the skills, or find some; /NAME calls one.", category="Tools", args_hint="[WORDS]"
    ),
    CommandDef(
        name="learn",
        about="Draft a skill from this session, and keep it if you say so.",
        category="Tools",
        args_hint="[WHAT]",
        surfaces=("cli",),
    ),
    CommandDef(
        name="good", about="Say that the last answer was right: what led to it gets the credit.", category="Tools"
    ),
    CommandDef(
        name="bad",
        about="Say that the last answer was wrong, and why: what led to it gets the blame.",
        category="Tools",
        args_hint="[WHY]",
    ),
    CommandDef(
        name="inbox", about="List what was learned and waits for your word.", category="Tools", surfaces=("cli",)
    ),
    CommandDef(
        name="accept",
        about="Make usable what waits in the inbox.",
        category="Tools",
        args_hint="N [anyway]",
        surfaces=("cli",),
    ),
    CommandDef(
        name="reject",
        about="Turn down what waits in the inbox; it is not proposed again.",
        category="Tools",
        args_hint="N [WHY]",
        surfaces=("cli",),
    ),
    CommandDef(name="memory", about="Show what is remembered, or find some.", category="Tools", args_hint="[WORDS]"),
    CommandDef(name="yolo", about="Approve what would be asked, or ask again.", category="Tools", args_hint="[on|off]"),
    CommandDef(name="help", aliases=("commands", "?"), about="List the commands.", category="Help"),
    CommandDef(name="exit", aliases=("quit", "q"), about="Leave.", category="Help", surfaces=("cli",)),
)


def commands(surface: str) -> Sequence[CommandDef]:
    """The commands that a surface offers, in the order of help."""
    return tuple(command for command in COMMANDS if surface in command.surfaces)


def words(surface: str) -> Sequence[str]:
    """Every name and alias on a surface, with its slash, sorted: for completion."""
    return sorted(f"/{word}" for command in commands(surface) for word in (command.name, *command.aliases))


def is_command(line: str) -> bool:
    """Whether a line is meant as a slash command, and not as a path such as /etc/hosts."""
    word = line.split(maxsplit=1)[0] if line.strip() else ""
    return word.startswith("/") and "/" not in word[1:] and len(word) > 1


def parse(line: str, surface: str) -> tuple[CommandDef, str]:
    """The command of a line and what follows it; raises UsageError that names the nearest one."""
    word, _, rest = line.strip().partition(" ")
    name = word.removeprefix("/").lower()
    for command in commands(surface):
        if name == command.name or name in command.aliases:
            return command, rest.strip()
    near = nearest_word(f"/{name}", words(surface), cutoff=0.5)
    hint = f"did you mean {near}? " if near else ""
    raise UsageError(f"there is no command {word}", next=f"{hint}/help lists them")
