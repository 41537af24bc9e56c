"""Check a Markdown post: code blocks that do not parse, pictures without a text, bare or local links, headings, long sentences.

usage: post.py POST.md
"""

import ast
import json
import re
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

FENCE = re.compile(r"(?ms)^( *)(```+|~~~+)([^\n]*)\n(.*?)^ *\2 *$")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
LONGEST = 40


def faults(language, code):
    """Why a block of code cannot run; empty when it can or nothing is known."""
    try:
        if language in ("python", "py") and not re.search(r"(?m)^\s*>>> ", code):
            ast.parse(code)
        elif language == "json":
            json.loads(code)
        elif language in ("bash", "sh", "shell"):
            if re.search(r"(?m)^\$ ", code):
                return "has prompts, which cannot be copied"
            done = subprocess.run(["bash", "-n"], input=code, text=True, capture_output=True, check=False)
            return done.stderr.strip().splitlines()[0] if done.returncode else ""
    except (SyntaxError, ValueError) as why:
        return str(why)
    return ""


def main(path):
    """Print what is wrong; the status is 1 when there is anything."""
    post, wrong = Path(path), []
    text = post.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        line = text[: found.start()].count("\n") + 1
        language = found[3].strip().split(" ")[0].lower()
        if not language:
            wrong.append(f"{line}: a code block without a language")
        elif why := faults(language, textwrap.dedent(found[4])):
            wrong.append(f"{line}: {language}: {why}")
    prose = FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        for picture, words, target in LINK.findall(line):
            if picture and len(words) < 5:
                wrong.append(f"{number}: a picture without a description: {target}")
            if words.lower() in ("here", "this", "link", "click here"):
                wrong.append(f"{number}: a link that says nothing: {words!r}")
            if re.match(r"https?://(localhost|127\.|192\.168\.|10\.)", target):
                wrong.append(f"{number}: an address that only you can reach: {target}")
            elif (
                "://" not in target
                and not target.startswith(("#", "mailto:", "/"))
                and not (post.parent / target.split("#")[0]).exists()
            ):
                wrong.append(f"{number}: no such file: {target}")
    levels = [
        (number, len(found[1]))
        for number, line in enumerate(prose.splitlines(), 1)
        if (found := re.match(r"(#+) ", line))
    ]
    wrong += [
        f"{at}: heading jumps from level {before} to {level}"
        for (_, before), (at, level) in pairwise(levels)
        if level > before + 1
    ]
    plain = re.sub(r"(?s)\A---\n.*?\n---\n|`[^`]*`|^[#|>].*$", "", prose)
    long = [one for one in re.split(r"(?<=[.!?])\s+", re.sub(r"\n(?!\n)", " ", plain)) if len(one.split()) > LONGEST]
    wrong += [f"long: {' '.join(one.split()[:9])} … ({len(one.split())} words)" for one in long]
    print(*wrong, f"{len(plain.split())} words, {max(1, round(len(plain.split()) / 220))} minutes", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
