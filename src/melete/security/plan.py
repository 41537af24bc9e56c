"""What a shell text would run: every program with its arguments, redirections, wrappers and input. Pure.

The text is read with the grammar of bash. Nothing is run: variables, substitutions, decoders and nested shells are followed as far
as the text itself tells, and what it does not tell is named in `opaque`.
"""

import posixpath
import re
import unicodedata
from fnmatch import fnmatchcase
from typing import Any, Final

from msgspec import Struct

from melete.core.plugin import Lazy
from melete.security.decode import output
from melete.security.expansion import Expander
from melete.security.inline import commands_in
from melete.security.unwrap import Inner, basename, inner
from melete.security.words import UNKNOWN, Word, plain, unquoted, words_of

LONGEST = 60_000
DEEPEST = 7
MOST_PROGRAMS = 300
MOST_STEPS = 6_000
MOST_WORDS = 800
MOST_VALUE = 10_000
FORK_BOMB = "(fork-bomb)"

_Language: Lazy[Any] = Lazy("tree_sitter:Language")
_Parser: Lazy[Any] = Lazy("tree_sitter:Parser")
_grammar: Lazy[Any] = Lazy("tree_sitter_bash:language")

_ESCAPES = re.compile(r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|\[[0-?]*[ -/]*[@-~]|[@-_])?")
_HIDING = re.compile("[\x1b\x08\u202a-\u202e\u2066-\u2069]")
_COMMAND_BRACES = re.compile(r"((?:^|[;&|(\n])\s*)\{([^\s{}'\"`$,]+(?:,[^\s{}'\"`$,]*)+)\}(?=\s|$|[;&|)])")
"""A command that is one brace expansion, which the grammar does not know."""
_FORK_BOMB = re.compile(r"([\w:.]{1,40})\s*\(\)\s*\{[^}]{0,200}?\1\s*\|&?\s*\1\s*&")
_NO_BODY = re.compile(r"(?<![<\w)])<<-?\s*(['\"]?)[A-Za-z_]\w*\1(?=[^\n]*\Z)")
"""A here-document that ends before it begins."""
_STATEMENTS: Final = frozenset(
    [
        "comment",
        "pipeline",
        "subshell",
        "redirected_statement",
        "function_definition",
        "for_statement",
        "variable_assignment",
        "test_command",
        "case_item",
        "command_substitution",
        "declaration_command",
        "unset_command",
        "command",
    ]
)
_SHORT_NAMES: Final = [
    "rm",
    "dd",
    "chmod",
    "chown",
    "mkfs",
    "shred",
    "mv",
    "cp",
    "sh",
    "bash",
    "kill",
    "reboot",
    "find",
    "git",
    "tee",
    "wipefs",
]
"""What a pattern in the place of a program's name may stand for."""
_LOADING: Final = frozenset(
    [
        "LD_PRELOAD",
        "LD_AUDIT",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "PYTHONSTARTUP",
        "PERL5OPT",
        "PERL5LIB",
        "NODE_OPTIONS",
        "LESSOPEN",
        "PYTHONHOME",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
    ]
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
    """All programs of a text, and why parts of it cannot be decided."""

    programs: tuple[Program, ...] = ()
    opaque: tuple[str, ...] = ()


def plan(text: str) -> Plan:
    """What the text would run. Never raises; bounded in time by its limits on length, depth and steps."""
    if len(text) > LONGEST:
        return Plan(opaque=("it is too long to be judged",))
    planner = _Planner()
    if _HIDING.search(text):
        planner.opaque.append("it holds characters that hide or reorder what is shown")
    planner.text(normalise(text), ())
    return Plan(programs=tuple(planner.programs), opaque=tuple(dict.fromkeys(planner.opaque)))


def plan_code(code: str, language: str) -> Plan:
    """What inline code would run, as far as its text shows: itself as a program, and the commands in it."""
    if len(code) > LONGEST:
        return Plan(opaque=("it is too long to be judged",))
    planner = _Planner()
    program = Program(argv=(Word(text=language),), code=code, language=language)
    planner.programs.append(program)
    planner.follow(language, [Inner(kind="code", text=code, language=language)])
    return Plan(programs=tuple(planner.programs), opaque=tuple(dict.fromkeys(planner.opaque)))


def normalise(text: str) -> str:
    """The text without terminal escapes and invisible characters, look-alikes replaced by the letters that they stand for."""
    if text.isascii() and text.isprintable():
        return text
    text = unicodedata.normalize("NFKC", _ESCAPES.sub("", text))
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cf", "Cc", "Cs", "Cn"))


def _parse(text: str) -> Any:
    return _Parser.load()(_Language.load()(_grammar.load()())).parse(text.encode("utf-8", "replace")).root_node


def _downloaded(words: list[str]) -> list[str]:
    """The files that a download is written to."""
    found = [
        b
        for a, b in zip(words, [*words[1:], ""], strict=True)
        if re.fullmatch(r"-\w*o|--output(?:-document)?|-\w*O", a) and "://" not in b
    ]
    found += [word.partition("=")[2] for word in words if word.startswith(("--output=", "--output-document="))]
    return found + [basename(word) for word in words if "://" in word and basename(word)]


class _Planner(Expander):
    """Walks one text; what it meets is collected in `programs` and `opaque`."""

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.opaque: list[str] = []
        super().__init__()
        self.functions: dict[str, Any] = {}
        self.via: tuple[str, ...] = ()
        self.folder = ""
        self.depth = 0

    def text(self, source: str, via: tuple[str, ...]) -> str:
        """Follow a shell text; returns what it prints."""
        if self.depth >= DEEPEST or len(self.programs) >= MOST_PROGRAMS or len(source) > LONGEST:
            self.opaque.append("commands are nested too deeply or are too many")
            return UNKNOWN
        before, self.via = self.via, via
        self.depth += 1
        source = _COMMAND_BRACES.sub(
            lambda match: match[1] + match[2].replace(",", " "), _NO_BODY.sub("", source.replace("\\\n", ""))
        )
        root = _parse(source)
        if root.has_error:
            self._broken(source)
        printed = self.walk(root, "")
        self.depth -= 1
        self.via = before
        return printed

    def _broken(self, source: str) -> None:
        """The grammar does not fit: look at the pieces between separators as if each were a command."""
        if _FORK_BOMB.search(source):
            self.program([Word(text=FORK_BOMB)], (), "")
        if re.search(r"\$[\w{(@*'\"]|`|<[(<]|>\(", source):  # without these the pieces are all that there is
            self.opaque.append("its syntax cannot be read")
        for piece in re.split(r"[;&|\n`()]+|\bdo\b|\bthen\b", source)[:100]:
            argv = [w for text in re.sub(r"[\\'\"]", "", piece).split() for w in words_of(unquoted(text))]
            if argv:
                self.program(argv, (), "")

    # statements

    def walk(self, node: Any, stdin: str) -> str:
        """Follow a node of the tree with this input; returns what it prints, NUL when unknown."""
        self.steps += 1
        if self.steps > MOST_STEPS or len(self.programs) >= MOST_PROGRAMS:
            self.opaque.append("it is too long to be judged")
            return UNKNOWN
        if node.type in _STATEMENTS:
            return getattr(self, f"_{node.type}")(node, stdin)
        return "".join([self.walk(child, stdin) for child in node.named_children])

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
        for value in values[:8] or [UNKNOWN]:
            if name is not None:
                self.variables[name.text.decode()] = value
            if body is not None:
                self.walk(body, stdin)
        return UNKNOWN

    def _variable_assignment(self, node: Any, _stdin: str) -> str:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        key = name.text.decode() if name is not None else ""
        text = plain(self.marked(value)) if value is not None else ""
        appended = any(child.type == "+=" for child in node.children)
        text = self.variables.get(key, "") + text if appended else text
        self.variables[key] = text if len(text) <= MOST_VALUE else UNKNOWN
        return ""

    def _test_command(self, node: Any, _stdin: str) -> str:
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
        if name in _LOADING:
            self.programs.append(Program(argv=(Word(text="env"), Word(text=text)), via=self.via))
        if re.search(r"(?:PAGER|EDITOR|VISUAL|BROWSER|COMMAND|_SSH|PROMPT|ASKPASS|SHELL)\Z", name) and value:
            self.text(value, (*self.via, name))

    def program(self, argv: list[Word], redirects: tuple[Redirect, ...], stdin: str) -> str:
        """One program is run; what it runs in turn is followed. Returns what it prints."""
        if len(self.programs) >= MOST_PROGRAMS:
            self.opaque.append("commands are nested too deeply or are too many")
            return UNKNOWN
        if len(argv) > MOST_WORDS:
            self.opaque.append("a program has too many arguments to be judged")
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
        if name in self.functions and self.depth < DEEPEST:
            self.depth += 1
            self.variables.update({str(i): text for i, text in enumerate(texts[1:10], 1)}, **{"@": " ".join(texts[1:])})
            printed = self.walk(self.functions[name], stdin)
            self.depth -= 1
        if name in ("cd", "pushd"):
            self.folder = posixpath.join(self.folder, texts[1] if len(texts) > 1 else "~")
            self.folder = texts[1] if texts[1:] and texts[1][:1] == "~" else self.folder
        if name in ("curl", "wget"):
            self.files.update(dict.fromkeys(_downloaded(texts[1:]), UNKNOWN))
        if name in ("tee", "sponge"):
            self.files.update({text: stdin for text in texts[1:] if not text.startswith("-")})
        known = output(texts, stdin, self.files)
        return printed if known == UNKNOWN and printed else known

    def _named(self, argv: list[Word]) -> list[Word]:
        """The program's name, freed from unknown parts that are empty when nobody set them, and from patterns."""
        while argv[1:] and argv[0].text == "!":
            argv = argv[1:]
        first = argv[0].text
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
                for text in commands_in(item.text):
                    self.text(text, via)
            elif item.kind == "argv":
                before, self.via = self.via, via
                self.depth += 1
                if self.depth > DEEPEST * 2:
                    self.opaque.append("commands are nested too deeply or are too many")
                else:
                    printed += self.program([Word(text=text) for text in item.argv], (), item.text)
                self.depth -= 1
                self.via = before
        return printed
