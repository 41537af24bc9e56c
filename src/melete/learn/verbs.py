"""What a call does, in a word or two: the program and its subcommand behind every wrapper, or the tool's name. Pure."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from melete.security.plan import plan
from melete.security.program import Program
from melete.security.rules import SAME, VALUED
from melete.security.unwrap import basename
from melete.security.words import names

PREPARING: Final = names(
    ": cd pushd popd export set unset source . true false sleep echo printf tee tail head wc sort uniq cut tr less"
    " more cat clear mkdir touch xargs read wait exit local declare date pwd which command type column nl fold test ["
)
"""What stands before or behind the work: it names a command only where nothing else is in it."""
OPERANDS: Final = names(
    "cat ls rm cp mv ln mkdir rmdir touch chmod chown find grep egrep fgrep rg ag ack sed awk gawk tail head wc sort"
    " uniq cut tr tee less more diff cmp file stat du df tar zip unzip gzip gunzip xz curl wget ssh scp rsync ping dig"
    " nslookup python pypy node ruby perl php lua bash sh zsh dash fish echo printf test [ cd pushd source . kill"
    " killall pkill pgrep which type command jq yq vi vim nano emacs open xdg-open sqlite3 psql mysql time timeout env"
    " nohup sudo watch xargs tsc gcc g++ clang cc ruff mypy pyright pytest black eslint prettier sleep export set"
    " unset read mktemp basename dirname realpath readlink md5sum sha256sum base64 expr seq tree man help history id"
    " whoami hostname"
)
"""Programs whose first word is what they work on, no subcommand."""
SCRIPTED: Final = names("python pypy node ruby perl php lua bash sh zsh deno bun")
"""Programs that are known by the script that they run."""
STAYING: Final = names("docker podman nerdctl kubectl ssh git find make ansible vagrant")
"""Programs that run others and whose own part is work all the same."""
NESTED: Final = names("docker gh glab aws gcloud az kubectl uv pip npm-run openstack doctl heroku flyctl")
"""Programs whose subcommand may have one of its own."""
GROUPS: Final = names(
    "compose pr issue repo release workflow s3 ec2 iam lambda compute storage container image volume network tool"
    " cache config rollout"
)
LONGEST_WORD: Final = 24
MOST_LINES: Final = 60
"""Command lines that are read out of one text."""
_SUBCOMMAND: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_:][a-z0-9]+)*")
_SCRIPT: Final = re.compile(r"[\w./@+-]*\w\.\w{1,4}")
_FENCE: Final = re.compile(r"^ {0,3}```([^\n]*)\n(.*?)^ {0,3}```", re.DOTALL | re.MULTILINE)
SHELL: Final = names("sh bash shell zsh console")
"""What a block of code says that holds commands; one that says nothing may."""
_INLINE: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_OPTION: Final = re.compile(r"(?<!\S)(--?[A-Za-z][\w-]*)(?:[= ]([a-z]+)(?![^\s.,;:)\"']))?(?![\w/-])")
_PROMPT: Final = re.compile(r"^\s*(?:[$>%]\s+)?")
_HOLE: Final = re.compile(r"(?<![A-Za-z0-9])[A-Z][A-Z0-9_-]{2,}(?![a-z0-9])|\{\w+\}")
_COMMAND: Final = re.compile(r"(?:(?:~|\.{1,2})?/)?[A-Za-z][\w./+-]*\s+\S")


def verbs(command: str) -> tuple[str, ...]:
    """The verbs of a shell text in their order, each once: `git push` of `cd r && timeout 5 git -C . push | tee log`."""
    found = working(plan(command).programs)
    return tuple(dict.fromkeys(program_verb(program) for program in found))


def last_program(command: str) -> str:
    """The name of the program that the exit code of a shell text is of, as far as its text tells."""
    programs = plan(command).programs
    return program_verb(programs[-1]) if programs else ""


def tokens(command: str) -> frozenset[str]:
    """The verbs of a shell text, and each option with its verb before it: `git push`, `git push --tags`."""
    found: set[str] = set()
    for program in working(plan(command).programs):
        verb = program_verb(program)
        found.add(verb)
        found.update(f"{verb} {word.partition('=')[0]}" for word in program.words if re.match(r"--?[A-Za-z]", word))
    return frozenset(found)


def taught(text: str) -> frozenset[str]:
    """The tokens of every command that a Markdown text shows, in blocks of code and in the midst of sentences."""
    found: set[str] = set()
    for line in list(_lines(text))[:MOST_LINES]:
        found |= tokens(line)
    return frozenset(found)


def ways(text: str) -> dict[str, dict[str, str]]:
    """Each verb that the commands of a Markdown text show, with the ways in which it is called there and a line for each.

    A way are the options of a call, with the values that are plain words; several calls in a line are a way of their own. What is
    called everywhere (`grep`, `python`) is left out, and so is code in other languages.
    """
    found: dict[str, dict[str, str]] = {}
    for line in islice(_lines(text, SHELL), MOST_LINES):
        said: dict[str, list[str]] = {}
        for program in working(plan(line).programs):
            if (verb := program_verb(program)).rstrip("0123456789.") not in OPERANDS | PREPARING:
                said.setdefault(verb, []).append(way(" ".join(program.words)))
        for verb, several in said.items():
            found.setdefault(verb, {}).update(dict.fromkeys((*several, "; ".join(several)), line.strip()))
    return found


def way(words: str) -> str:
    """The options among words, in one order, with the values that are plain words."""
    return " ".join(sorted(" ".join(one).strip() for one in _OPTION.findall(words)))


def _lines(text: str, languages: frozenset[str] = frozenset()) -> Iterator[str]:
    for language, block in _FENCE.findall(text):
        if languages and language.split() and language.split()[0] not in languages:
            continue
        yield from (_PROMPT.sub("", line) for line in block.replace("\\\n", " ").splitlines() if _COMMAND.search(line))
    yield from (span for span in _INLINE.findall(_FENCE.sub("", text)) if _COMMAND.match(span))


def working(programs: Sequence[Program]) -> Sequence[Program]:
    """The programs that do the work: no wrapper whose command is known, and what prepares only where it is alone."""
    wrappers = {name for program in programs for name in program.via} - STAYING
    bare = [one for one in programs if one.name and (one.name not in wrappers or one.via)]
    return [one for one in bare if one.name not in PREPARING] or bare[-1:]


def program_verb(program: Program) -> str:
    """What a program does: its name and its subcommand, where it has one."""
    name = program.name[:LONGEST_WORD]
    if name in SCRIPTED:
        script = next((word for word in program.words if not word.startswith("-")), "")
        return f"{name} {basename(script)}" if _SCRIPT.fullmatch(script) else name
    if name in OPERANDS:
        return name
    valued = VALUED.get(SAME.get(name, name), frozenset())
    said: list[str] = []
    waiting = list(program.words)
    while waiting and len(said) < 1 + (name in NESTED):
        word = waiting.pop(0)
        if word.startswith("-"):
            del waiting[: word in valued]
        elif not _SUBCOMMAND.fullmatch(word) or len(word) > LONGEST_WORD or (said and said[0] not in GROUPS):
            break
        else:
            said.append(word)
    return " ".join((name, *said))


def shows(text: str, command: str) -> bool:
    """Whether a Markdown text has this very shell text among its commands, but for what stands in CAPITALS or {braces} there."""
    wanted = _said(command)
    found = (_said(line) for line in islice(_lines(text, SHELL), MOST_LINES))
    return bool(wanted) and any(len(one) == len(wanted) and all(map(_fits, one, wanted)) for one in found)


def _said(command: str) -> Sequence[str]:
    """The words of the programs that do the work, each program behind a mark."""
    return [word for program in working(plan(command).programs) for word in ("", program.name, *program.words)]


def _fits(said: str, word: str) -> bool:
    return said == word or re.fullmatch(".+".join(map(re.escape, _HOLE.split(said))), word) is not None
