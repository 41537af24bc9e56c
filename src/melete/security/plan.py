"""What a shell text would run: every program with its arguments, redirections, wrappers and input. Pure.

The text is read with the grammar of bash. Nothing is run: variables, substitutions, decoders and nested shells are followed as far
as the text itself tells, and what it does not tell is named in `opaque`.
"""

import posixpath
import re
from fnmatch import fnmatchcase
from typing import Any, Final

from msgspec import Struct

from melete.security.decode import downloaded, output
from melete.security.expansion import RUNNING_INDEX, Expander
from melete.security.inline import commands_in
from melete.security.inner import TOO_DEEP, TOO_FULL, TOO_LONG, TOO_OFTEN, Inner
from melete.security.python import PYTHONS, actions
from melete.security.syntax import (
    ACTIVE_PARTS,
    FORKING,
    HIDING,
    SEPARATORS,
    WRITTEN,
    leaves_out,
    normalise,
    parsed,
    prepared,
)
from melete.security.unwrap import basename, inner, runs_others
from melete.security.words import FIELD, UNKNOWN, Word, names, plain, unquoted, words_of

LONGEST = 30_000
DEEPEST = 7
MOST_PROGRAMS = 200
MOST_WORDS = 800
MOST_ROUNDS = 120
MOST_PIECES = 200
MOST_REDIRECTS = 50
FORK_BOMB = "(fork-bomb)"

_STATEMENTS: Final = names(
    "comment pipeline subshell redirected_statement function_definition for_statement variable_assignment test_command"
    " case_item command_substitution declaration_command unset_command command"
)
_BRANCHES: Final = frozenset(("if_statement", "while_statement", "case_statement", "c_style_for_statement", "list"))
"""What may be run or not: a variable that is set there has one of two values behind it."""
_SHORT_NAMES: Final = (
    "rm", "dd", "chmod", "chown", "mkfs", "shred", "mv", "cp", "sh", "bash", "kill", "reboot", "find", "git", "tee", "wipefs",
    "truncate", "shutdown", "poweroff", "halt", "mkfs.ext4", "python3", "perl",
)  # fmt: skip
"""What a pattern in the place of a program's name may stand for."""
_RESERVED: Final = frozenset(("", "!", "{", "}", "(", "do", "then", "else", "if", "while", "until"))
"""What may stand before a program where the grammar has taken a word of the shell for one."""
_LOADING: Final = names(
    "PATH LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES BASH_ENV ENV PROMPT_COMMAND PYTHONSTARTUP PERL5OPT PERL5LIB"
    " HISTFILE HISTSIZE HISTFILESIZE PERL5DB NODE_OPTIONS LESSOPEN LESSCLOSE PYTHONHOME RUBYOPT JAVA_TOOL_OPTIONS"
)


class Redirect(Struct, frozen=True, kw_only=True):
    """One redirection to or from a file: the operator (`>`, `>>`, `<` …) and the file."""

    operator: str
    target: str


class Program(Struct, frozen=True, kw_only=True):
    """One program that would run.

    `via` are the programs that start it, outermost first; `stdin` is its literal input (NUL: unknown, empty: none); `code` is
    what an interpreter is given inline, in `language`.
    """

    argv: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    via: tuple[str, ...] = ()
    stdin: str = ""
    code: str = ""
    language: str = ""
    folder: str = ""

    @property
    def name(self) -> str:
        """The program's name without its folder."""
        return basename(self.argv[0].text) if self.argv else ""

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments behind the name, as text."""
        return tuple(word.text for word in self.argv[1:])


class Plan(Struct, frozen=True, kw_only=True):
    """All programs of a text, why parts of it cannot be decided, and the variables that it sets."""

    programs: tuple[Program, ...] = ()
    opaque: tuple[str, ...] = ()
    assigned: frozenset[str] = frozenset()


def plan(text: str) -> Plan:
    """What the text would run. Never raises; bounded in time by its limits on length, depth and steps."""
    if len(text) > LONGEST:
        return Plan(opaque=(TOO_LONG,))
    planner = _Planner()
    if HIDING.search(text):
        planner.opaque.append("it holds characters that hide or reorder what is shown")
    try:
        planner.text(normalise(text), ())
    except RecursionError:
        planner.opaque.append(TOO_DEEP)
    return planner.plan()


def plan_code(code: str, language: str) -> Plan:
    """What inline code would run, as far as its text shows: itself as a program, and the commands in it."""
    if len(code) > LONGEST:
        return Plan(opaque=(TOO_LONG,))
    planner = _Planner()
    found = actions(code) if language in PYTHONS else [Inner(kind="code", text=code, language=language)]
    planner.programs.append(Program(argv=(Word(text=language),), code=found[0].text, language=language))
    try:
        planner.follow(language, found)
    except RecursionError:
        planner.opaque.append(TOO_DEEP)
    return planner.plan()


class _Planner(Expander):
    """Walks one text; what it meets is collected in `programs` and `opaque`."""

    def __init__(self) -> None:
        super().__init__()
        self.programs: list[Program] = []
        self.functions: dict[str, Any] = {}
        self.via: tuple[str, ...] = ()
        self.folder = ""
        self.depth = 0

    def plan(self) -> Plan:
        """What was found."""
        return Plan(
            programs=tuple(self.programs), opaque=tuple(dict.fromkeys(self.opaque)), assigned=frozenset(self.assigned)
        )

    def text(self, source: str, via: tuple[str, ...]) -> str:
        """Follow a shell text; returns what it prints."""
        if self.depth >= DEEPEST or len(self.programs) >= MOST_PROGRAMS or len(source) > LONGEST:
            self.opaque.append(TOO_DEEP)
            return UNKNOWN
        before, self.via = self.via, via
        self.depth += 1
        source = prepared(source)
        root = parsed(source)
        if root is None:
            self.opaque.append(TOO_LONG)
        if root is None or root.has_error:
            self._broken(source)
        printed = UNKNOWN if root is None else self.walk(root, "")
        self.depth -= 1
        self.via = before
        return printed

    def _broken(self, source: str) -> None:
        """The grammar does not fit: look at the pieces between separators as if each were a command."""
        if FORKING.search(source):
            self.program([Word(text=FORK_BOMB)], (), "")
        pieces = SEPARATORS.split(source)
        if len(pieces) > MOST_PIECES or ACTIVE_PARTS.search(source):  # without these the pieces are all that there is
            self.opaque.append("its syntax cannot be read")
        for piece in pieces[:MOST_PIECES]:
            bare = re.sub(r"[\\'\"]", "", piece)
            written = tuple(Redirect(operator=">", target=target) for target in WRITTEN.findall(bare))
            argv = [w for text in WRITTEN.sub("", bare).split() for w in words_of(unquoted(text))]
            if argv and runs_others(basename(argv[0].text)):
                self.opaque.append("its syntax cannot be read")
            if argv or written:
                self.program(argv or [Word(text=":")], written, "")

    # statements

    def walk(self, node: Any, stdin: str) -> str:
        """Follow a node of the tree with this input; returns what it prints, NUL when unknown."""
        if self.spent() or len(self.programs) >= MOST_PROGRAMS:
            self.opaque.append(TOO_LONG)
            return UNKNOWN
        self.level += 1
        before = dict(self.variables) if node.type in _BRANCHES and node.parent.type != "list" else None
        if node.type in _STATEMENTS:
            printed = getattr(self, f"_{node.type}")(node, stdin)
        else:
            printed = "".join([self.walk(child, stdin) for child in node.named_children])
        if before is not None:
            changed = [name for name, value in self.variables.items() if before.get(name, value) != value]
            self.variables.update(dict.fromkeys(changed, UNKNOWN))
        self.level -= 1
        return printed

    def _comment(self, _node: Any, _stdin: str) -> str:
        return ""

    def _pipeline(self, node: Any, stdin: str) -> str:
        for child in node.named_children:
            stdin = self.walk(child, stdin)
        return stdin

    def _subshell(self, node: Any, stdin: str) -> str:
        folder = self.folder
        printed = "".join([self.walk(child, stdin) for child in node.named_children])
        self.folder = folder
        return printed

    def _redirected_statement(self, node: Any, stdin: str) -> str:
        redirects: list[Redirect] = []
        after: list[Any] = []
        if leaves_out(node):
            self.opaque.append("its syntax cannot be read")
        for child in node.named_children:
            if child.type == "herestring_redirect":
                stdin = "".join(plain(self.marked(word)) for word in child.named_children[-1:]) + "\n"
            elif child.type == "heredoc_redirect":
                stdin = self._heredoc(child, redirects, after)
            elif child.type == "file_redirect":
                redirects += self._file(child)
        stdin = next((self.files[r.target] for r in redirects if r.operator == "<" and r.target in self.files), stdin)
        body = node.child_by_field_name("body")
        printed = self._body(body, tuple(redirects), stdin)
        for redirect in redirects:
            if ">" in redirect.operator:
                before = self.files.get(redirect.target, "") if ">>" in redirect.operator else ""
                self.files[redirect.target] = before + printed
                printed = ""
        for child in after:
            printed = self.walk(child, printed)
        return printed

    def _body(self, body: Any, redirects: tuple[Redirect, ...], stdin: str) -> str:
        if body is None:
            self.program([Word(text=":")], redirects, stdin)
            return stdin
        if body.type in ("command", "declaration_command"):
            return self._command(body, stdin, redirects=redirects)
        if body.type == "pipeline" and body.named_children:  # a redirection behind a pipeline is its last command's
            *first, last = body.named_children
            for child in first:
                stdin = self.walk(child, stdin)
            return self._body(last, redirects, stdin)
        if body.type == "list" and body.named_children:
            *first, last = body.named_children
            for child in first:
                self.walk(child, "")
            return self._body(last, redirects, stdin)
        if redirects:
            self.program([Word(text=":")], redirects, stdin)
        return self.walk(body, stdin)

    def _heredoc(self, node: Any, redirects: list[Redirect], after: list[Any]) -> str:
        body, quoted = "", False
        for child in node.named_children:
            if child.type == "heredoc_start":
                quoted = any(c in child.text.decode() for c in "'\"\\")
            elif child.type == "heredoc_body":
                body = child.text.decode("utf-8", "replace") if quoted else plain(self._parts(child, quoted=True))
            elif child.type == "file_redirect":
                redirects += self._file(child)
            elif child.type != "heredoc_end":
                after.append(child)
        return body

    def _file(self, node: Any) -> list[Redirect]:
        operator = "".join(c.text.decode() for c in node.children if not c.is_named)
        targets = [w.text for c in node.named_children if c.type != "file_descriptor" for w in self.words(c)]
        return [Redirect(operator=operator, target=t) for t in targets if not (operator.endswith("&") and t.isdigit())]

    def _function_definition(self, node: Any, stdin: str) -> str:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return ""
        called = name.text.decode()
        inside = body.text.decode("utf-8", "replace")
        if re.search(rf"(?<![\w-]){re.escape(called)}\s*(?:\|&?|&)\s*{re.escape(called)}(?![\w-])", inside):
            self.program([Word(text=FORK_BOMB)], (), "")
        elif called not in self.functions:
            self.functions[called] = body
            self.walk(body, stdin)
        return ""

    def _for_statement(self, node: Any, stdin: str) -> str:
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values = [w.text for c in node.children_by_field_name("value") for w in self.words(c)]
        if len(values) > MOST_ROUNDS:
            self.opaque.append(TOO_OFTEN)
        for value in values[:MOST_ROUNDS] or [UNKNOWN]:
            if name is not None:
                self.assign(name.text.decode(), value)
            if body is not None:
                self.walk(body, stdin)
        return UNKNOWN

    def _variable_assignment(self, node: Any, _stdin: str) -> str:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        key = name.text.decode() if name is not None else ""
        if value is not None and value.type == "array":
            text = FIELD.join(word.text for child in value.named_children for word in self.words(child))
        else:
            text = plain(self.marked(value)) if value is not None else ""
        appended = any(child.type == "+=" for child in node.children)
        self.assign(key, self.variables.get(key, "") + text if appended else text)
        if re.fullmatch(r"PS[0-4]|PROMPT_COMMAND", key) and text:
            self.text(text, self.via)
        if key in _LOADING:
            self.programs.append(Program(argv=(Word(text="env"), Word(text=f"{key}={text}")), via=self.via))
        return ""

    def _test_command(self, node: Any, _stdin: str) -> str:
        if RUNNING_INDEX.search(node.text.decode("utf-8", "replace")):
            self.opaque.append("it runs a command inside an index")
        self._parts(node, quoted=True)
        return ""

    def _case_item(self, node: Any, stdin: str) -> str:
        patterns = {child.id for child in node.children_by_field_name("value")}
        return "".join([self.walk(c, stdin) for c in node.named_children if c.id not in patterns])

    def _command_substitution(self, node: Any, _stdin: str) -> str:
        return self.substituted(node)

    def substituted(self, node: Any) -> str:
        """What the commands inside print."""
        folder = self.folder
        printed = "".join([self.walk(child, "") for child in node.named_children])
        self.folder = folder
        return printed.rstrip("\n")

    # commands

    def _unset_command(self, node: Any, stdin: str) -> str:
        return self._command(node, stdin)

    def _declaration_command(self, node: Any, stdin: str) -> str:
        return self._command(node, stdin)

    def _command(self, node: Any, stdin: str, *, redirects: tuple[Redirect, ...] = ()) -> str:
        argv: list[Word] = []
        given: list[str] = []
        if leaves_out(node):
            self.opaque.append("its syntax cannot be read")
        for child in node.children:
            if child.type == "variable_assignment":
                self.walk(child, "")
                given.append(child.text.decode("utf-8", "replace"))
            elif child.type == "herestring_redirect":
                stdin = "".join(plain(self.marked(word)) for word in child.named_children[-1:]) + "\n"
            elif child.type == "file_redirect":
                redirects = (*redirects, *self._file(child))
            elif child.is_named or not argv:
                argv += self.words(child) if len(argv) <= MOST_WORDS else ()
        if not argv:
            self.program([Word(text=":")], redirects, stdin)
            return ""
        declared = node.type == "declaration_command"
        for text in given if not declared else ():
            self._given(text)
        argv += [Word(text=text) for text in given if declared]
        return self.program(argv, redirects, stdin)

    def _given(self, text: str) -> None:
        """A variable for one command: some name a program that is then run, or code that programs load."""
        name = text.partition("=")[0]
        value = self.variables.get(name, "")
        if re.search(r"(?:PAGER|EDITOR|VISUAL|BROWSER|COMMAND|_SSH|PROMPT|ASKPASS|SHELL)\Z", name) and value:
            self.text(value, (*self.via, name))

    def program(self, argv: list[Word], redirects: tuple[Redirect, ...], stdin: str) -> str:
        """One program is run; what it runs in turn is followed. Returns what it prints."""
        if len(self.programs) >= MOST_PROGRAMS:
            self.opaque.append(TOO_DEEP)
            return UNKNOWN
        if len(argv) > MOST_WORDS:
            self.opaque.append(TOO_FULL)
        if len(redirects) > MOST_REDIRECTS:
            self.opaque.append(TOO_LONG)
            redirects = redirects[:MOST_REDIRECTS]
        argv = self._named(argv[:MOST_WORDS])
        texts = [word.text for word in argv]
        program = Program(argv=tuple(argv), redirects=redirects, via=self.via, stdin=stdin, folder=self.folder)
        name = program.name
        further = inner(texts[0], texts[1:], stdin, self.files)
        coded = next((item for item in further if item.kind == "code"), None)
        if coded is not None:
            program = Program(
                argv=program.argv,
                redirects=redirects,
                via=self.via,
                stdin=stdin,
                code=coded.text,
                language=coded.language,
            )
        self.programs.append(program)
        printed = self.follow(name, further)
        if name in self.functions:
            printed = self._called(name, texts[1:], stdin)
        self._noted(name, texts[1:], stdin)
        known = output(texts, stdin, self.files)
        return printed if known == UNKNOWN and printed else known

    def _called(self, name: str, arguments: list[str], stdin: str) -> str:
        """A function of the text is run."""
        if self.depth >= DEEPEST:
            self.opaque.append(TOO_DEEP)
            return UNKNOWN
        self.depth += 1
        before = self.positional()
        self.set_positional(arguments)
        printed = self.walk(self.functions[name], stdin)
        self.set_positional(before)
        self.depth -= 1
        return printed

    def _noted(self, name: str, words: list[str], stdin: str) -> None:
        """What a program changes for those behind it: the folder, the arguments, the files."""
        if name in ("cd", "pushd"):
            self.folder = posixpath.join(self.folder, words[0] if words else "~")
            self.folder = words[0] if words and words[0][:1] == "~" else self.folder
        elif name == "set" and "--" in words:
            self.set_positional(words[words.index("--") + 1 :])
        elif name == "shift":
            self.set_positional(self.positional()[1:])
        elif name in (
            "read",
            "mapfile",
            "readarray",
            "getopts",
            "printf",
            "local",
            "declare",
            "export",
            "typeset",
            "readonly",
        ):
            self.set_by(name, words, stdin)
        elif name in ("curl", "wget"):
            self.files.update(dict.fromkeys(downloaded(words), UNKNOWN))
        elif name in ("tee", "sponge"):
            self.files.update({text: stdin for text in words if not text.startswith("-")})
        elif name == "dd":
            self.files.update({word[3:]: stdin for word in words if word.startswith("of=")})
        elif name in ("cp", "mv", "ln") and len(words) > 1 and words[-2] in self.files:
            self.files[words[-1]] = self.files[words[-2]]

    def _named(self, argv: list[Word]) -> list[Word]:
        """The program's name, freed from unknown parts that are empty when nobody set them, and from patterns."""
        while argv[1:] and argv[0].text in _RESERVED:
            argv = argv[1:]
        if argv[0].text == "coproc" and argv[3:] and argv[2].text == "{":
            argv = argv[3:]
        first = argv[0].text
        if re.match(r"[^/\s]+\s", first):
            self.opaque.append("the name of the program is not known")
        if UNKNOWN in first:
            rest = first.replace(UNKNOWN, "")
            if not rest or rest.endswith("/"):
                self.opaque.append("the name of the program is not known")
            argv = [Word(text=rest, glob=argv[0].glob), *argv[1:]]
        if argv[0].glob and len(argv) > 1:
            self.opaque.append("the name of the program is a pattern")
            name = basename(first)
            argv = [next((Word(text=one) for one in _SHORT_NAMES if fnmatchcase(one, name)), argv[0]), *argv[1:]]
        if first[:1] == "!" and len(first) > 1:
            self.opaque.append("it runs a command inside another program")
            argv = [Word(text=first[1:]), *argv[1:]]
        return argv

    def follow(self, name: str, further: list[Inner]) -> str:
        """What a program runs in turn; returns what that prints."""
        printed = ""
        via = (*self.via, name)
        for item in further:
            if item.kind == "opaque":
                self.opaque.append(item.text)
            elif item.kind == "text":
                printed += self.text(item.text, via)
            elif item.kind == "code":
                self.follow(name, commands_in(item.text) if item.language not in PYTHONS else [])
            elif item.argv or item.writes:
                before, self.via = self.via, via
                self.depth += 1
                if self.depth > DEEPEST * 2:
                    self.opaque.append(TOO_DEEP)
                else:
                    written = tuple(Redirect(operator=">", target=target) for target in item.writes)
                    printed += self.program([Word(text=text) for text in item.argv or (":",)], written, item.text)
                self.depth -= 1
                self.via = before
        return printed
