"""Check a LaTeX or Markdown manuscript: references without an entry, labels, figures, words that ask for a source, notes left inside.

usage: manuscript.py MAIN.tex|PAPER.md [REFERENCES.bib]
"""

import re
import sys
from collections import Counter
from pathlib import Path

VAGUE = re.compile(
    r"\b(?:it is well known|many (?:studies|researchers)|recent(?:ly)? (?:work|studies) (?:has|have)?|state[- ]of[- ]the[- ]art"
    r"|significant(?:ly)?|clearly|obviously|novel|to the best of our knowledge)\b",
    re.IGNORECASE,
)
LEFT = re.compile(r"\b(?:TO[D]O|FIX[M]E|X{3}|TBD)\b|\?\?|\[cite\]|\bLorem ipsum\b")
INPUT = re.compile(r"\\(?:input|include)\{([^}]+)\}")


def whole(path):
    """The text with its parts put in where they are named, comments out."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix != ".tex":
        return text
    text = re.sub(r"(?m)(?<!\\)%.*$", "", text)

    def part(found):
        name = path.parent / found[1]
        name = name if name.suffix else name.with_suffix(".tex")
        return whole(name) if name.exists() else found[0]

    return INPUT.sub(part, text)


def keys(pattern, text):
    """Every key that a command names, several between commas."""
    return [key.strip() for found in re.finditer(pattern, text) for key in found[1].split(",") if key.strip()]


def main(path, bib=None):
    """Print what is wrong; the status is 1 for what a reader would see."""
    text = whole(Path(path))
    cited = Counter(
        keys(r"\\[Cc]ite\w*\*?(?:\[[^\]]*\])*\{([^}]+)\}", text)
        + re.findall(r"(?<![\w.])@([A-Za-z][\w:-]*\w)", text if path.endswith(".md") else "")
    )
    have = (
        re.findall(r"(?m)^\s*@\w+\s*\{\s*([^,\s]+)\s*,", Path(bib).read_text(encoding="utf-8", errors="replace"))
        if bib
        else []
    )
    labels, refs = (
        Counter(keys(r"\\label\{([^}]+)\}", text)),
        set(keys(r"\\(?:[Cc]|[Aa]uto|eq|page|[Nn]ame)?ref\{([^}]+)\}", text)),
    )
    bad = {
        "cited, but not in the .bib": sorted(set(cited) - set(have)) if bib else [],
        "twice in the .bib": sorted(key for key, times in Counter(have).items() if times > 1),
        "referred to, but no such label": sorted(refs - set(labels)),
        "label given twice": sorted(key for key, times in labels.items() if times > 1),
        "left in the text": sorted({found[0] for found in LEFT.finditer(text)}),
    }
    hints = {
        "in the .bib, never cited": sorted(set(have) - set(cited)),
        "figures and tables nobody refers to": sorted(
            key for key in set(labels) - refs if key.startswith(("fig", "tab"))
        ),
        "words that ask for a source or a number": [
            f"{word} ({times})"
            for word, times in Counter(found[0].lower() for found in VAGUE.finditer(text)).most_common(12)
        ],
    }
    for title, rows in (*bad.items(), *hints.items()):
        if rows:
            print(f"{title}: {', '.join(rows)}")
    print(f"{len(text.split())} words, {len(cited)} sources cited, {len(labels)} labels")
    return 1 if any(bad.values()) else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
