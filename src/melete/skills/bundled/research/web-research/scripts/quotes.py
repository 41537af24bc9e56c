"""Check that every quotation stands in its saved source, and that every reference of a report has one.

usage: quotes.py REPORT.md EVIDENCE.md SOURCES_FOLDER
EVIDENCE.md holds lines such as:  [3] "words as they stand in the source"
SOURCES_FOLDER holds 3.txt or 3.md; numbers in the report stand in brackets, [3] or [3, 7].
"""

import re
import sys
from pathlib import Path

LINE = re.compile(r'^\s*[-*]?\s*\[(\d+)\]\s+["“](.+)["”]\s*$')
CITED = re.compile(r"\[(\d+(?:\s*,\s*\d+)*)\](?!\()")
QUOTES = str.maketrans("\u201c\u201d\u201e\u2018\u2019\u2013\u2014\u00a0", '"""\'\'-- ')


def flat(text):
    """Text in which blanks, quotation marks and dashes make no difference."""
    return " ".join(text.translate(QUOTES).split()).lower()


def main(report, evidence, folder):
    """Print what is wrong, and how much was checked."""
    wrong, backed = [], set()
    for number, line in enumerate(Path(evidence).read_text(encoding="utf-8").splitlines(), 1):
        if not (found := LINE.match(line)):
            continue
        source = next((path for kind in ("txt", "md") if (path := Path(folder) / f"{found[1]}.{kind}").exists()), None)
        if source is None:
            wrong.append(f"{evidence}:{number}: there is no saved source {found[1]}")
        elif flat(found[2]) not in flat(source.read_text(encoding="utf-8", errors="replace")):
            wrong.append(f"{evidence}:{number}: not in source {found[1]}: {found[2][:80]}")
        else:
            backed.add(int(found[1]))
    text = Path(report).read_text(encoding="utf-8")
    cited = {int(one) for found in CITED.finditer(text) for one in found[1].split(",")}
    wrong += [f"{report}: [{one}] has no quotation that was found" for one in sorted(cited - backed)]
    wrong += [] if cited else [f"{report}: there is not one reference such as [1] in it"]
    print(*wrong, f"{len(cited)} sources cited, {len(cited & backed)} with a quotation that stands in them", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
