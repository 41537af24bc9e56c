"""One command: its name, what it runs in turn, and what it changes for those behind it. Pure."""

import re
import shlex
from abc import abstractmethod
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any

from melete.security.decode import output
from melete.security.expansion import RUNNING_INDEX, Expander
from melete.security.inline import commands_in
from melete.security.inner import TOO_DEEP, TOO_FULL, TOO_LONG, Inner
from melete.security.program import Program, Redirect
from melete.security.python import PYTHONS
from melete.security.unwrap import basename, inner
from melete.security.words import UNKNOWN, Word
from melete.security.wrappers import COMPOUND, INDEXED, LOADING, RESERVED, SHORT_NAMES

DEEPEST = 7
MOST_PROGRAMS = 200
MOST_WORDS = 800
MOST_REDIRECTS = 50
MOST_LOOSE = 4
UNREAD = "its syntax cannot be read"
SETTING = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")


def _emptied(word: Word) -> Word:
    """An option without what is not known of it."""
    if UNKNOWN in word.text and word.text[:1] == "-":
        return Word(text=word.text.replace(UNKNOWN, ""))
    return word


class Runner(Expander):
    """Collects the programs that are met, and why some cannot be told; texts are followed by the class below."""

    def __init__(self) -> None:
        super().__init__()
        self.programs: list[Program] = []
        self.functions: dict[str, Any] = {}
        self.via: tuple[str, ...] = ()
        self.depth = 0
        self.misread = False
        self.seconds = 0

    def full(self) -> bool:
        """Whether there are too many programs; those looked at a second time, with words left out, count for a third."""
        return len(self.programs) - self.seconds * 2 // 3 >= MOST_PROGRAMS

    @abstractmethod
    def text(self, source: str, via: tuple[str, ...], *, stdin: str = "") -> str:
        """Follow a shell text with this input; returns what it prints."""

    def set_variable(self, key: str, text: str) -> None:
        """A variable gets a value that the shell may run."""
        self.assign(key, text)
        if re.fullmatch(r"PS[0-4]|PROMPT_COMMAND", key) and text:
            self.text(text, self.via)
        if key in LOADING:
            self.programs.append(Program(argv=(Word(text="env"), Word(text=f"{key}={text}")), via=self.via))

    def either(self, argv: list[Word], redirects: tuple[Redirect, ...], stdin: str) -> str:
        """Run a command, and look also at what it is when words of it that are not known are empty: then they vanish."""
        loose = [at for at, word in enumerate(argv) if word.loose]
        counts = range(len(loose) + 1) if len(loose) < MOST_LOOSE else (0, 1, len(loose))
        for gone in (some for count in counts for some in combinations(loose, count)):
            kept = [_emptied(word) for at, word in enumerate(argv) if at not in gone]
            if kept and kept != argv:
                before = (self.folder, dict(self.variables), dict(self.files), dict(self.renamed))
                found = len(self.programs)
                self.program(kept, redirects, stdin)
                self.seconds += len(self.programs) - found
                self.folder, self.variables, self.files, self.renamed = before
        return self.program(argv, redirects, stdin)

    def given(self, settings: list[str]) -> None:
        """Variables for one command: some name a program that is then run, or code that programs load."""
        for name in (text.partition("=")[0] for text in settings):
            value = self.variables.get(name, "")
            if re.search(r"(?:PAGER|EDITOR|VISUAL|BROWSER|COMMAND|_SSH|PROMPT|ASKPASS|SHELL)\Z", name) and value:
                self.text(value, (*self.via, name))

    def program(self, argv: list[Word], redirects: tuple[Redirect, ...], stdin: str) -> str:
        """One program is run; what it runs in turn is followed. Returns what it prints."""
        if self.full():
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
                folder=self.folder,
                code=coded.text,
                language=coded.language,
            )
        self.programs.append(program)
        printed = self.follow(name, further, stdin=stdin)
        if name in self.renamed and self.depth < DEEPEST:
            self.depth += 1
            self.text(
                shlex.join([*self.renamed[name].split(), *texts[1:]]).replace(shlex.quote(UNKNOWN), UNKNOWN), self.via
            )
            self.depth -= 1
        if name in INDEXED and RUNNING_INDEX.search(" ".join(texts)):
            self.opaque.append("it runs a command inside an index")
            self.text(
                "\n".join(f"echo {text.partition('[')[2].rstrip(']')}" for text in texts if "[" in text), self.via
            )
        if name in self.functions:
            printed = self._called(name, texts[1:], stdin)
        self.noted(name, texts[1:], stdin)
        known = self.here() if texts == ["pwd"] else output(texts, stdin, self.files)
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

    def _named(self, argv: list[Word]) -> list[Word]:
        """The program's name, freed from unknown parts that are empty when nobody set them, and from patterns."""
        if argv[0].text == "coproc" and argv[2:] and argv[2].text in COMPOUND:
            argv = argv[2:]
        while argv[0].text in RESERVED or SETTING.match(argv[0].text):
            name, equals, value = argv[0].text.partition("=")
            if equals:
                self.set_variable(name, value)
            argv = argv[1:] or [Word(text=":")]
        first = argv[0].text
        self.misread = self.misread or first in COMPOUND
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
            argv = [next((Word(text=one) for one in SHORT_NAMES if fnmatchcase(one, name)), argv[0]), *argv[1:]]
        if first[:1] == "!" and len(first) > 1:
            self.opaque.append("it runs a command inside another program")
            argv = [Word(text=first[1:]), *argv[1:]]
        return argv

    def follow(self, name: str, further: list[Inner], *, stdin: str = "") -> str:
        """What a program runs in turn; returns what that prints."""
        printed = ""
        via = (*self.via, name)
        for item in further:
            if item.kind == "opaque":
                self.opaque.append(item.text)
            elif item.kind == "text":
                printed += self.text(item.text, via, stdin="" if item.text == stdin else stdin)
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
