"""What a program runs in turn: the command behind a wrapper, the text for a shell, the code for an interpreter. Pure."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from melete.security.inner import MOST, Inner, at_most
from melete.security.python import PYTHONS, actions
from melete.security.shapes import run_by_editor, run_by_git, run_by_sed, run_by_tmux
from melete.security.words import UNKNOWN, names
from melete.security.wrappers import (
    ALIASES,
    LANGUAGES,
    MATTER,
    NO_OPERANDS,
    OPTION_TEXTS,
    SHELLS,
    SOUGHT,
    WRAPPERS,
    Wrapper,
)

SHORT = 2
"""How long an option of one letter is."""
_VERSIONED: Final = re.compile(r"^(python|pypy|perl|ruby|php|lua|node|tclsh|emacs|vim)[\d.]+$")
_EDITORS: Final = frozenset(["vi", "vim", "nvim", "view", "gvim", "ex", "rvim", "vimdiff", "rview"])


def runs_others(name: str) -> bool:
    """Whether a program of this name may run other programs, a shell's text or code."""
    name = ALIASES.get(name, name)
    return name in SHELLS or name in LANGUAGES or name in WRAPPERS or name in _SPECIAL or name in OPTION_TEXTS


def basename(text: str) -> str:
    """A program's name without its folder and without a version behind it."""
    name = text.rpartition("/")[2]
    return name if name[-1:].isalpha() else _VERSIONED.sub(r"\1", name)


def inner(name: str, arguments: Sequence[str], stdin: str, files: Mapping[str, str]) -> list[Inner]:
    """What this program runs in turn; empty for one that runs nothing else."""
    path, name = name, basename(name)
    name = ALIASES.get(name, name)
    words = list(arguments)
    found: list[Inner] = []
    if name in SHELLS:
        return _shell(name, words, stdin, files)
    if name in LANGUAGES:
        found += _language(name, words, stdin, files)
    special = _SPECIAL.get(name)
    if special is not None:
        found += special(words, stdin, files)
    elif name in WRAPPERS:
        found += _wrapped(WRAPPERS[name], words, stdin)
    found += _options(name, words)
    written = next((text for file, text in files.items() if basename(file) == name), "") if "/" in path else ""
    return found + ([_text(written, "a file is run whose text cannot be told")] if written else [])


def _shell(name: str, words: list[str], stdin: str, files: Mapping[str, str]) -> list[Inner]:
    found: list[Inner] = []
    from_input = False
    while words and re.match(r"[-+]", words[0]) and words[0] not in ("-", "--"):
        option = words.pop(0)
        if re.fullmatch(r"-\w*c\w*|--command|-Command", option):
            while words and re.match(r"-\w+$|--$", words[0]):
                words.pop(0)
            given = f"set -- {shlex.join(words[2:])}\n" if words[2:] else ""
            return (
                [*found, _text(words[0], f"{name} is given a command that cannot be told", before=given)]
                if words
                else found
            )
        from_input = from_input or re.fullmatch(r"-\w*s\w*", option) is not None
        if option in ("--rcfile", "--init-file") and words and words[0] in files:
            found.append(_text(files[words[0]], "a shell runs a file whose text cannot be told"))
        if option in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
            del words[:1]
    words = [word for word in words if word not in ("-", "--")]
    if words and not from_input and (not _INPUT.fullmatch(words[0]) or words[0] in files):
        text = _written(files, words[0])
        return [*found, _text(text, "a shell runs a file whose text cannot be told")] if text else found
    return [*found, _text(stdin, "a shell runs what it reads from a pipe")] if stdin else found


_INPUT: Final = re.compile(r"/dev/stdin|/(?:dev|proc/self)/fd/\d+")


def _written(files: Mapping[str, str], name: str) -> str:
    """The text of a file that was written before, whichever way its name is spelled."""
    bare = name.removeprefix("./")
    return files.get(name) or files.get(bare) or files.get(f"./{bare}", "")


def _text(text: str, why: str, *, before: str = "") -> Inner:
    if UNKNOWN in text and text.replace(UNKNOWN, "").strip() in ("", "$", "exec", "eval"):
        return Inner(kind="opaque", text=why)
    return Inner(kind="text", text=before + text)


def _language(name: str, words: list[str], stdin: str, files: Mapping[str, str]) -> list[Inner]:
    module = _module(words) if name in PYTHONS else ()
    if module[:1] in (("timeit",), ("cProfile",), ("pdb",)):
        return actions("\n".join(word for word in module[1:] if word[:1] != "-"))
    if module:
        return [Inner(kind="argv", argv=module, text=stdin)]
    code = _inline(name, words)
    operands = [word for word in words if not word.startswith("-")]
    if not code and name in ("awk", "gawk", "mawk", "nawk", "sqlite3"):
        code = "\n".join(operands)
    if not code and stdin and not [word for word in operands if word != "-"]:
        if UNKNOWN in stdin and not stdin.replace(UNKNOWN, "").strip():
            return [Inner(kind="opaque", text=f"{name} runs what it reads from a pipe")]
        code = stdin
    if not code and operands and operands[0] in files:
        code = files[operands[0]]
    if code.strip() == UNKNOWN:
        return [Inner(kind="opaque", text=f"{name} is given code that cannot be told")]
    if name in PYTHONS and code.strip():
        return actions(code)
    return [Inner(kind="code", text=code, language=name)] if code.strip() else []


def _module(words: list[str]) -> tuple[str, ...]:
    """The module that Python is told to run, with its arguments."""
    for at, word in enumerate(words):
        if found := re.fullmatch(r"-[ABEIOPSbdisuvx]*m(\w[\w.]*)?", word):
            return (*([found[1]] if found[1] else []), *words[at + 1 :])
        if re.match(r"-\w*c|[^-]", word):
            break
    return ()


def _inline(name: str, words: list[str]) -> str:
    """The code among the arguments of an interpreter."""
    options = LANGUAGES[name].split()
    code = ""
    for at, word in enumerate(words):
        option = next((o for o in options if word == o or (o.startswith("--") and word.startswith(f"{o}="))), "")
        glued = next((o for o in options if len(o) == SHORT and word.startswith(o) and len(word) > SHORT), "")
        clustered = re.fullmatch(r"-[A-Za-z0-9]*[ceErR]", word) if options and word[1:2] != "-" else None
        if option or (clustered and word[-1] in "".join(options)):
            value = word.partition("=")[2] if "=" in word and option != word else "".join(words[at + 1 : at + 2])
            code += f"{value}\n"
        elif glued and name not in ("gdb", "emacs"):
            code += f"{word[2:]}\n"
    return code


def _wrapped(wrapper: Wrapper, words: list[str], stdin: str) -> list[Inner]:
    values = wrapper.values.split()
    if wrapper.after:
        first = wrapper.after.split()
        words = words[next((at for at, word in enumerate(words) if word in first), len(words)) + 1 :]
    found: list[Inner] = []
    skip, folder = wrapper.skip, ""
    while words:
        word = words[0]
        key, equals, value = word.partition("=")
        text, taken = _given_text(wrapper.text.split(), words, again=bool(found))
        if taken:
            found.append(Inner(kind="text", text=text))
            words = words[taken:]
        elif word == "--":
            skip = 0 if skip >= NO_OPERANDS else skip
            words = words[1:]
            break
        elif word.startswith("-"):
            folder = _folder(key, value or "".join(words[1:2]), values) or folder
            words = words[1 if equals or not _takes_value(key, values) else 2 :]
        elif wrapper.assigns and re.match(r"[A-Za-z_]\w*=", word):
            words = words[1:]
        elif skip:
            skip, words = skip - 1, words[1:]
        else:
            break
    words = words[skip:] if words and skip else words
    if not words and not found and stdin and wrapper.reads:
        return [_text(stdin, "a shell runs what it reads from a pipe")]
    if folder and words:
        return [*found, _text(f"cd {shlex.quote(folder)} && {shlex.join(words)}", "")]
    return found + _rest(wrapper, words, stdin)


def _folder(option: str, value: str, values: list[str]) -> str:
    return value if option in ("-C", "-D", "--chdir") and "--chdir" in values else ""


def _given_text(options: list[str], words: list[str], *, again: bool) -> tuple[str, int]:
    """The shell text that an option at the front gives, and how many words that takes; none when it is no such option."""
    word = words[0]
    key, equals, value = word.partition("=")
    if key in options or any(len(o) == SHORT and re.fullmatch(rf"-\w*{o[1]}", word) for o in options):
        return (value, 1) if equals else ("".join(words[1:2]), 2)
    glued = next((o for o in options if len(o) == SHORT and word.startswith(o) and len(word) > SHORT), "")
    return (word.removeprefix(glued), 1) if glued and not again else ("", 0)


def _takes_value(option: str, values: list[str]) -> bool:
    """Whether the word behind an option, or behind letters written together, belongs to it."""
    if option in values:
        return True
    letters = option[1:] if option[1:2] != "-" else ""
    return next((at for at, letter in enumerate(letters) if f"-{letter}" in values), 0) == len(letters) - 1 > 0


def _rest(wrapper: Wrapper, words: list[str], stdin: str) -> list[Inner]:
    if not words:
        return []
    if wrapper.joined or (len(words) == 1 and re.match(r"(?!\w+\+?=).* ", words[0], re.DOTALL)):
        parts = [word for word in words if " " in word.strip()] if len(words) > 1 else []
        return [_text(text, "the command is not known") for text in (" ".join(words), *parts)]
    return [Inner(kind="argv", argv=tuple(words), text=stdin)]


def _options(name: str, words: list[str]) -> list[Inner]:
    found: list[Inner] = []
    options = OPTION_TEXTS.get(name, ())
    for at, word in enumerate(words):
        key, equals, value = word.partition("=")
        if key in options:
            text = value if equals else "".join(words[at + 1 : at + 2])
            if name != "tar" or key != "--checkpoint-action" or text.startswith("exec="):
                found.append(Inner(kind="text", text=text.removeprefix("exec=")))
    return found


# programs with a shape of their own


def _find(words: list[str], _stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    found: list[Inner] = []
    roots = [word for word in words[: next((i for i, w in enumerate(words) if w[:1] in "-(!" and w), len(words))]]
    place = roots[0] if roots else "."
    at = 0
    while at < len(words):
        if words[at] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((i for i in range(at + 1, len(words)) if words[i] in (";", "+")), len(words))
            tests = any(
                w in ("-name", "-iname", "-path", "-type", "-mtime", "-size", "-regex", "-newer") for w in words[:at]
            )
            tests = tests and not {"!", "-not", "-o", "-or", ","} & set(words[:at])
            target = f"{place.rstrip('/')}/{UNKNOWN}" if tests or "-maxdepth" in words[:at] else place
            found.append(Inner(kind="argv", argv=tuple(w.replace("{}", target) for w in words[at + 1 : end])))
            at = end
        at += 1
    return found


def _fd(words: list[str], _stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    for at, word in enumerate(words):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            return [Inner(kind="argv", argv=(*words[at + 1 :], UNKNOWN))]
    return []


_XARGS_VALUES: Final = names("-a -d -E -L -n -P -s -S -R --arg-file --delimiter --max-args --max-procs --max-lines")


def _xargs(words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    mark, from_file, whole = "", False, False
    while words and words[0].startswith("-"):
        word = words.pop(0)
        from_file = from_file or word.startswith(("-a", "--arg-file"))
        whole = whole or re.match(r"-\w*[0dL]|--(?:null|delim|max-lines)", word) is not None
        if word.startswith(("-I", "-J", "--replace", "-i")):
            mark = word.partition("=")[2] or word[2:] if not word.startswith("--") else word.partition("=")[2] or "{}"
            if word in ("-I", "-J") and words:
                mark = words.pop(0)
            mark = mark or "{}"
        elif word in _XARGS_VALUES and words:
            words.pop(0)
    if not words:
        return []
    lines = (
        [UNKNOWN]
        if from_file or not stdin or UNKNOWN in stdin
        else (stdin.splitlines() if mark or whole else stdin.split())
    )
    if mark and words[0] in SHELLS and mark in words[1:]:
        return [
            Inner(kind="opaque", text="a shell runs each line that it is given"),
            *at_most([_text(line, "") for line in lines]),
        ]
    if mark:
        return at_most([Inner(kind="argv", argv=tuple(w.replace(mark, line) for w in words)) for line in lines])
    told: list[Inner] = []
    if basename(words[0]) in SHELLS and re.fullmatch(r"-\w*c", words[-1]):
        told.append(Inner(kind="opaque", text="a shell runs each line that it is given"))
    return [*told, Inner(kind="argv", argv=(*words, *lines))]


_PARALLEL_VALUES: Final = names("-j -S -a --jobs --results --joblog -I --colsep -d -N -n --sshlogin --timeout --tmpdir")


def _parallel(words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    while words and words[0].startswith("-"):
        if words.pop(0) in _PARALLEL_VALUES and words:
            words.pop(0)
    cut = next((i for i, word in enumerate(words) if word.startswith(":::")), len(words))
    command, inputs = words[:cut], words[cut + 1 :]
    if cut == len(words) or words[cut].startswith("::::"):
        inputs = stdin.splitlines() if stdin and UNKNOWN not in stdin else [UNKNOWN]
    inputs = [word for word in inputs if not word.startswith(":::")]
    found: list[Inner] = []
    for line in inputs[: MOST + 1]:
        marked = any("{" in word for word in command)
        argv = [re.sub(r"\{[.#/%\d]*\}", lambda _, line=line: line, word) for word in command]
        argv = argv if marked else [*argv, line]
        if len(argv) > SHORT and argv[0] in SHELLS and argv[1] == "-c":
            found.append(Inner(kind="argv", argv=(*argv[:2], " ".join(argv[2:]))))
        else:
            found.append(_text(" ".join(argv), "the command is not known"))
    return at_most(found)


def _alias(words: list[str], _stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    return [Inner(kind="text", text=word.partition("=")[2]) for word in words if "=" in word]


def _make(words: list[str], stdin: str, files: Mapping[str, str]) -> list[Inner]:
    text = ""
    for at, word in enumerate(words):
        if word in ("-f", "--file", "--makefile") and at + 1 < len(words):
            text += stdin if words[at + 1] == "-" else _written(files, words[at + 1])
        elif word.startswith("--eval"):
            text += word.partition("=")[2] or "".join(words[at + 1 : at + 2])
    text = text or next((files[name] for name in ("GNUmakefile", "makefile", "Makefile") if name in files), "")
    lines = [line.strip().lstrip("@-+") for line in text.splitlines() if line.startswith("\t")]
    lines += re.findall(r"\$\(shell\s+(.*?)\)", text) + re.findall(r"(?m)^\w+:[^;\n]*;\s*(.+)$", text)
    if text and UNKNOWN in text and not lines:
        return [Inner(kind="opaque", text="make runs recipes that cannot be told")]
    return at_most([Inner(kind="text", text=line) for line in lines])


def _trap(words: list[str], _stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    words = words[1:] if words[:1] == ["--"] else words
    return [Inner(kind="text", text=words[0])] if len(words) > 1 and words[0] not in ("-", "-p", "-l", "") else []


def _scheduled(words: list[str], stdin: str, files: Mapping[str, str]) -> list[Inner]:
    operands = [word for word in words if not word.startswith("-") or word == "-"]
    text = files.get(operands[0], "") if operands and operands[0] != "-" else stdin
    lines = [re.sub(r"^\s*(?:@\w+|(?:\S+\s+){5})", "", line) for line in text.splitlines()]
    return at_most(
        [Inner(kind="text", text=line) for line in lines if line.strip(UNKNOWN) and not line.startswith("#")]
    )


def _at(_words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    return [_text(stdin, "a job runs text that cannot be told")] if stdin else []


def _source(words: list[str], stdin: str, files: Mapping[str, str]) -> list[Inner]:
    if words and (words[0] == "-" or _INPUT.fullmatch(words[0])) and words[0] not in files:
        return [_text(stdin or UNKNOWN, "a shell runs what it reads from a pipe")]
    text = _written(files, words[0]) if words else ""
    return [_text(text, "a shell runs text that cannot be told")] if text else []


def _env(words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    for at, word in enumerate(words):
        if word.startswith(("-S", "--split-string")) or re.fullmatch(r"-\w*S", word):
            value = word.partition("=")[2] if word.startswith("--") else word.partition("S")[2]
            rest = words[at + 1 :] if value else words[at + 2 :]
            return [
                Inner(kind="text", text=" ".join([value or "".join(words[at + 1 : at + 2]), *map(shlex.quote, rest)]))
            ]
        if not word.startswith("-") and "=" not in word:
            break
    return _wrapped(WRAPPERS["env"], words, stdin)


def _ssh(words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    found = [
        Inner(kind="text", text=match[1])
        for word in words
        if (match := re.match(r"(?i)-?o?\s*(?:ProxyCommand|LocalCommand|KnownHostsCommand)[=\s]+(.+)", word))
    ]
    rest = _wrapped(WRAPPERS["ssh"], words, stdin)
    reads = stdin and (not rest or basename(words[-1]) in SHELLS)
    return found + rest + ([_text(stdin, "a shell elsewhere runs what it reads from a pipe")] if reads else [])


def _docker(words: list[str], stdin: str, files: Mapping[str, str]) -> list[Inner]:
    del files
    if words[:1] == ["compose"]:
        words = words[1:]
    first = next((word for word in words if not word.startswith("-")), "")
    if first in ("container",):
        words = words[1:]
        first = next((word for word in words if not word.startswith("-")), "")
    if first not in ("exec", "run"):
        return []
    at = next((at for at, word in enumerate(words) if word.startswith("--entrypoint")), len(words))
    entry = " ".join(words[at : at + 2]).partition("=" if "=" in "".join(words[at : at + 1]) else " ")[2].split()
    started = [Inner(kind="argv", argv=(*entry[:1], *words[at + 1 :]))] if entry else []
    return _wrapped(WRAPPERS["docker"], words, stdin) + started


def _group(words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    """`sg` changes the group, or is a search tool with commands of its own."""
    return (
        []
        if words[:1] and words[0] in ("run", "scan", "new", "test", "lsp")
        else _wrapped(WRAPPERS["sg"], words, stdin)
    )


def _script(words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    operands = [word for word in words if not word.startswith("-")]
    behind = words[words.index(operands[1]) :] if operands[1:] else []
    return _wrapped(WRAPPERS["script"], words, stdin) or ([Inner(kind="argv", argv=tuple(behind))] if behind else [])


def _runuser(words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    return _wrapped(WRAPPERS["runuser" if {"-u", "--user"} & set(words) else "su"], words, stdin)


def _screen(words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    if "stuff" in words:
        return [
            Inner(kind="text", text=re.sub(r"\^M|\\[nr]|\\01[25]", "\n", " ".join(words[words.index("stuff") + 1 :])))
        ]
    return _wrapped(WRAPPERS["screen"], words, stdin)


def _sought(words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    """Programs whose options are many: the command begins at the first word that names a program that matters."""
    known = [at for at, word in enumerate(words) if runs_others(basename(word)) or basename(word) in MATTER]
    at = known[0] if known else len(words)
    texts = [Inner(kind="text", text=word) for word in words[:at] if " " in word.strip()]
    return [*texts, *([Inner(kind="argv", argv=tuple(words[at:]), text=stdin)] if at < len(words) else [])]


def _command(words: list[str], stdin: str, _files: Mapping[str, str]) -> list[Inner]:
    if words and re.fullmatch(r"-\w*[vV]\w*", words[0]):
        return []
    return _wrapped(WRAPPERS["command"], words, stdin)


_SPECIAL: Final[Mapping[str, Callable[[list[str], str, Mapping[str, str]], list[Inner]]]] = {
    "find": _find, "gfind": _find, "fd": _fd, "fdfind": _fd, "xargs": _xargs, "parallel": _parallel, "git": run_by_git,
    "make": _make, "gmake": _make, "sed": run_by_sed, "gsed": run_by_sed, "alias": _alias, "trap": _trap, "crontab": _scheduled,
    "at": _at, "tmux": run_by_tmux,
    "source": _source, ".": _source, "env": _env, "runuser": _runuser, "screen": _screen, "script": _script, "sg": _group,
    "ssh": _ssh, "docker": _docker, "command": _command, **dict.fromkeys(SOUGHT, _sought),
    **dict.fromkeys((*_EDITORS, "less", "more"), run_by_editor),
}  # fmt: skip
