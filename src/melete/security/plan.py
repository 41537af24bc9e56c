"""What a shell text would run: every program with its arguments, redirections, wrappers and input. Pure.

The text is read with the grammar of bash. Nothing is run: variables, substitutions, decoders and nested shells are followed as far
as the text itself tells, and what it does not tell is named in `opaque`.
"""

import logging
import re
import shlex
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from melete.security.expansion import RUNNING_INDEX
from melete.security.inner import FAILED, TOO_DEEP, TOO_LONG, TOO_OFTEN, Inner
from melete.security.program import Plan, Program, Redirect
from melete.security.python import PYTHONS, actions
from melete.security.running import DEEPEST, MOST_WORDS, SETTING, UNREAD, Runner
from melete.security.syntax import (
    ACTIVE_PARTS,
    COUNTS,
    FED,
    FORKING,
    HIDING,
    SEPARATORS,
    WORDS,
    WRITTEN,
    leaves_out,
    normalise,
    parsed,
    prepared,
    substitutions,
    unread_words,
)
from melete.security.unwrap import basename, runs_others
from melete.security.words import FIELD, UNKNOWN, Word, names, plain, unquoted, words_of
from melete.security.wrappers import SHADOWED

log = logging.getLogger("melete.security")

LONGEST = 30_000
MOST_ROUNDS = 120
MOST_PIECES = 200
FORK_BOMB = "(fork-bomb)"

_STATEMENTS: Final = names(
    "comment pipeline subshell redirected_statement function_definition for_statement variable_assignment test_command"
    " case_item command_substitution declaration_command unset_command command"
)
_BRANCHES: Final = frozenset(("if_statement", "while_statement", "case_statement", "c_style_for_statement", "list"))
"""What may be run or not: a variable that is set there has one of two values behind it."""


@lru_cache(maxsize=32)
def plan(text: str) -> Plan:
    """What the text would run. Never raises; bounded in time by its limits on length, depth and steps."""
    planner = _Planner()
    if HIDING.search(text):
        planner.opaque.append("it holds characters that hide or reorder what is shown")
    return _followed(planner, text, lambda: planner.text(normalise(text), ()))


def plan_code(code: str, language: str) -> Plan:
    """What inline code would run, as far as its text shows: itself as a program, and the commands in it. Never raises."""
    planner = _Planner()

    def follow() -> str:
        found = actions(code) if language in PYTHONS else [Inner(kind="code", text=code, language=language)]
        planner.programs.append(Program(argv=(Word(text=language),), code=found[0].text, language=language))
        return planner.follow(language, found)

    return _followed(planner, code, follow)


def _followed(planner: "_Planner", text: str, follow: Callable[[], str]) -> Plan:
    """The plan, as far as it came: what fails here must not pass for harmless."""
    if len(text) > LONGEST:
        return Plan(opaque=(TOO_LONG,))
    try:
        follow()
    except RecursionError:
        planner.opaque.append(TOO_DEEP)
    except Exception:
        log.exception("a command could not be judged; it counts as one that cannot be told")
        planner.opaque.append(FAILED)
    return planner.plan()


def _names_descriptor(node: Any) -> bool:
    """Whether this is the name in `{name}>file`, no argument."""
    if node.type not in ("concatenation", "command_name") or not re.fullmatch(rb"\{\w+\}", node.text):
        return False
    root = node
    while root.parent is not None:
        root = root.parent
    return root.text[node.end_byte - root.start_byte :][:1] in (b"<", b">")


def _divided(text: str) -> list[str]:
    """The words of a piece of a text, without its quotes."""
    try:
        return shlex.split(text)
    except ValueError:
        return re.sub(r"[\\'\"]", "", text).split()


class _Planner(Runner):
    """Walks one text; what it meets is collected in `programs` and `opaque`."""

    def __init__(self) -> None:
        super().__init__()
        self.walked: set[int] = set()
        self.counts = False

    def plan(self) -> Plan:
        """What was found."""
        return Plan(
            programs=tuple(self.programs),
            opaque=tuple(dict.fromkeys(self.opaque)),
            assigned=frozenset(self.assigned),
            counts=self.counts,
        )

    def text(self, source: str, via: tuple[str, ...], *, stdin: str = "") -> str:
        """Follow a shell text with this input; returns what it prints."""
        if self.depth >= DEEPEST or self.full() or len(source) > LONGEST:
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
        seen = (self.walked, self.read, self.misread)
        self.walked, self.read, self.misread = set(), set(), False
        printed = UNKNOWN if root is None else self.walk(root, stdin)
        self.counts = self.counts or COUNTS.search(source) is not None
        if root is not None and not root.has_error:
            if re.search(r"[`(]", source):
                self._passed_over(root, source)
            if self.misread or unread_words(root, self.read):
                self.opaque.append(UNREAD)
                self._broken(source)
        self.walked, self.read, self.misread = seen
        self.depth -= 1
        self.via = before
        return printed

    def _passed_over(self, root: Any, source: str) -> None:
        """What runs in places that the words above do not look into: indexes, patterns, defaults, here-documents."""
        if source.count("$(") + source.count("`") > MOST_WORDS:
            self.opaque.append(TOO_LONG)
            return
        found = substitutions(root, source)
        for node in (one for one in found.nodes if one.id not in self.walked):
            self.walk(node, "")
        for text in found.texts:
            self.text(text, self.via)
        self.opaque += [UNREAD] if found.unread else []

    def _broken(self, source: str) -> None:
        """The grammar does not fit: look at the pieces between separators as if each were a command."""
        if FORKING.search(source):
            self.program([Word(text=FORK_BOMB)], (), "")
        pieces = SEPARATORS.split(source)
        if len(pieces) > MOST_PIECES or ACTIVE_PARTS.search(source):  # without these the pieces are all that there is
            self.opaque.append(UNREAD)
        for piece in pieces[:MOST_PIECES]:
            bare = re.sub(r"[\\'\"]", "", piece)
            written = tuple(Redirect(operator=">", target=target) for target in WRITTEN.findall(bare))
            argv = [w for text in _divided(FED.sub("", WRITTEN.sub("", piece))) for w in words_of(unquoted(text))]
            if argv and runs_others(basename(argv[0].text)):
                self.opaque.append(UNREAD)
            if argv or written:
                self.program(argv or [Word(text=":")], written, "")

    # statements

    def walk(self, node: Any, stdin: str) -> str:
        """Follow a node of the tree with this input; returns what it prints, NUL when unknown."""
        if self.spent() or self.full():
            self.opaque.append(TOO_LONG)
            return UNKNOWN
        self.level += 1
        self.walked.add(node.id)
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
        more: list[Any] = []
        after: list[Any] = []
        body, parts = node, list[Any]()
        while body is not None and body.type == "redirected_statement":
            if leaves_out(body):
                self.opaque.append(UNREAD)
            parts = [child for child in body.named_children if child.type.endswith("_redirect")] + parts
            body = body.child_by_field_name("body")
        for child in parts:
            if child.type == "herestring_redirect":
                stdin = self._herestring(child, more) + stdin
            elif child.type == "heredoc_redirect":
                stdin = self._heredoc(child, redirects, more, after) + stdin
            else:
                redirects += self._file(child, more)
        stdin = next((self.files[r.target] for r in redirects if r.operator == "<" and r.target in self.files), stdin)
        printed = self._body(body, tuple(redirects), stdin, more)
        for redirect in redirects:
            if ">" in redirect.operator:
                before = self.files.get(redirect.target, "") if ">>" in redirect.operator else ""
                self.files[redirect.target] = before + printed
        for child in after:
            printed = self.walk(child, printed)
        return printed

    def _body(self, body: Any, redirects: tuple[Redirect, ...], stdin: str, more: list[Any]) -> str:
        """What the redirections belong to; `more` are its words that stand behind them."""
        if body is None:
            printed = self._simple(more, stdin, redirects)
            return printed if more else stdin
        if body.type in ("command", "declaration_command", "unset_command"):
            return self._command(body, stdin, redirects=redirects, more=more)
        if body.type in ("pipeline", "list", "negated_command") and body.named_children:  # they are its last command's
            *first, last = body.named_children
            for child in first:
                printed = self.walk(child, stdin if body.type == "pipeline" else "")
                stdin = printed if body.type == "pipeline" else stdin
            return self._body(last, redirects, stdin, more)
        if redirects or more:
            self._simple(more, stdin, redirects)
        self.misread = self.misread or bool(more)
        return self.walk(body, stdin)

    def _herestring(self, node: Any, more: list[Any]) -> str:
        words = [child for child in node.named_children if child.type != "file_descriptor"]
        more += words[1:]
        return "".join(plain(self.marked(word)) for word in words[:1]) + "\n"

    def _heredoc(self, node: Any, redirects: list[Redirect], more: list[Any], after: list[Any]) -> str:
        body, quoted = "", False
        for child in node.named_children:
            if child.type == "heredoc_start":
                quoted = any(c in child.text.decode() for c in "'\"\\")
            elif child.type == "heredoc_body":
                body = child.text.decode("utf-8", "replace") if quoted else plain(self._parts(child, quoted=True))
            elif child.type == "file_redirect":
                redirects += self._file(child, more)
                self.misread = self.misread or any(word.text[:1].isspace() for word in more)
            elif child.type in WORDS:
                more.append(child)
            elif child.type not in ("heredoc_end", "file_descriptor"):
                after.append(child)
        return body

    def _file(self, node: Any, more: list[Any]) -> list[Redirect]:
        """Where it leads; the grammar gives it the words behind its target as well, which are the command's."""
        operator = "".join(c.text.decode() for c in node.children if not c.is_named)
        words = [c for c in node.named_children if c.type != "file_descriptor"]
        target = [] if operator.endswith("-") else words[:1]
        more += words[len(target) :]
        targets = [w.text for c in target for w in self.words(c)]
        return [Redirect(operator=operator, target=t) for t in targets if not (operator.endswith("&") and t.isdigit())]

    def _function_definition(self, node: Any, stdin: str) -> str:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return ""
        called = name.text.decode()
        inside = body.text.decode("utf-8", "replace")
        if re.search(rf"(?<![\w-]){re.escape(called)}\s*(?:\|&?|&)\s*{re.escape(called)}(?![\w-])", inside):
            self.program([Word(text=FORK_BOMB)], (), "")
        else:
            self.functions[called] = body
            if called in SHADOWED:
                self.opaque.append("a function takes the name of a program")
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
            text = FIELD.join(
                word.text for child in value.named_children if child.type != "comment" for word in self.words(child)
            )
        else:
            text = plain(self.marked(value)) if value is not None else ""
        appended = any(child.type == "+=" for child in node.children)
        self.set_variable(key, self.variables.get(key, "") + text if appended else text)
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
        self.walked.add(node.id)
        folder = self.folder
        printed = ""
        for child in node.named_children:
            if child.type == "file_redirect":  # $(<file)
                more: list[Any] = []
                read = [Word(text=r.target) for r in self._file(child, more)]
                printed += self._simple(more, "", ()) if more else self.program([Word(text="cat"), *read], (), "")
            else:
                printed += self.walk(child, "")
        self.folder = folder
        return printed.rstrip("\n")

    # commands

    def _unset_command(self, node: Any, stdin: str) -> str:
        return self._command(node, stdin)

    def _declaration_command(self, node: Any, stdin: str) -> str:
        return self._command(node, stdin)

    def _command(self, node: Any, stdin: str, *, redirects: tuple[Redirect, ...] = (), more: Sequence[Any] = ()) -> str:
        self.walked.add(node.id)
        if leaves_out(node):
            self.opaque.append(UNREAD)
        return self._simple([*node.children, *more], stdin, redirects, declared=node.type == "declaration_command")

    def _simple(
        self, parts: Sequence[Any], stdin: str, redirects: tuple[Redirect, ...], *, declared: bool = False
    ) -> str:
        """A simple command of these parts, in their order."""
        argv: list[Word] = []
        given: list[str] = []
        waiting = [child for child in parts if child.type != "comment"]
        while waiting:
            child = waiting.pop(0)
            more: list[Any] = []
            if child.type == "variable_assignment":
                self.walk(child, "")
                given.append(child.text.decode("utf-8", "replace"))
            elif child.type == "herestring_redirect":
                stdin = self._herestring(child, more) + stdin
            elif child.type == "file_redirect":
                redirects = (*redirects, *self._file(child, more))
            elif _names_descriptor(child):
                self.read.update((child.id, *(one.id for one in child.named_children)))
            elif not argv and SETTING.match(child.text.decode("utf-8", "replace")):
                name, _, value = plain(self.marked(child)).partition("=")
                self.set_variable(name, value)
            elif child.is_named or not argv:
                argv += self.words(child) if len(argv) <= MOST_WORDS else ()
            waiting[:0] = more
        if not argv:
            self.program([Word(text=":")], redirects, stdin)
            return ""
        if declared:
            argv += [Word(text=text) for text in given]
        else:
            self.given(given)
        return self.either(argv, redirects, stdin)
