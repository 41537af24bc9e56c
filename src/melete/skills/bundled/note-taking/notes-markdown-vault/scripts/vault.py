"""Check a folder of Markdown notes: links that lead nowhere, notes that nothing links to, names that are there twice.

usage: vault.py FOLDER                 the report
       vault.py FOLDER --rename OLD NEW    what a renaming would change; with --yes it is done
"""

import re
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

WIKI = re.compile(r"(!?\[\[)([^\[\]|#^]+)((?:[#^][^\[\]|]*)?(?:\|[^\[\]]*)?\]\])")
PLAIN = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+\.md)(?:#[^)]*)?\)")
FENCE = re.compile(r"(?ms)^(```|~~~).*?^\1|`[^`\n]+`")


def files_of(folder):
    """Notes, and all files by lower-case name, hidden folders left out."""
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    return [path for path in found if path.suffix == ".md"], {
        name
        for path in found
        for name in (path.name.lower(), path.stem.lower() if path.suffix == ".md" else path.name.lower())
    }


def links_of(path):
    """The names that a note links to, code left out."""
    text = FENCE.sub("", path.read_text(encoding="utf-8", errors="replace"))
    wiki = [found[2].strip().rpartition("/")[2] for found in WIKI.finditer(text)]
    plain = [unquote(found[1]).rpartition("/")[2] for found in PLAIN.finditer(text) if "://" not in found[1]]
    return [name.removesuffix(".md").lower() for name in wiki + plain]


def report(folder):
    """Print what is wrong; the status is 1 when a link leads nowhere."""
    notes, names = files_of(folder)
    linked, broken = Counter(), []
    for path in notes:
        for name in links_of(path):
            linked[name] += 1
            if name not in names:
                broken.append(f"  {path.relative_to(folder)} -> {name}")
    double = [name for name, times in Counter(path.stem.lower() for path in notes).items() if times > 1]
    orphans = [str(path.relative_to(folder)) for path in notes if not linked[path.stem.lower()]]
    print(f"{len(notes)} notes, {sum(linked.values())} links")
    for title, rows in (
        ("links that lead nowhere:", broken),
        ("names that are there twice:", double),
        ("nothing links to:", orphans),
    ):
        if rows:
            print(title, *(f"  {row.strip()}" for row in rows), sep="\n")
    return 1 if broken else 0


def rename(folder, old, new, sure):
    """Rename a note and every wiki link to it, or say what would change."""
    notes, names = files_of(folder)
    old, new = old.removesuffix(".md"), new.removesuffix(".md")
    matching = [path for path in notes if path.stem.lower() == old.lower()]
    if len(matching) != 1 or new.lower() in names:
        sys.exit(
            f"nothing was changed: {len(matching)} notes are called {old!r}"
            if len(matching) != 1
            else f"nothing was changed: {new!r} is there already"
        )
    changes = {}
    for path in notes:
        text = path.read_text(encoding="utf-8")
        changed = WIKI.sub(
            lambda found: (
                found[1] + new + found[3] if found[2].strip().rpartition("/")[2].lower() == old.lower() else found[0]
            ),
            text,
        )
        if changed != text:
            changes[path] = changed
            print(
                f"{path.relative_to(folder)}: {sum(a != b for a, b in zip(text.splitlines(), changed.splitlines(), strict=True))} lines"
            )
    if sure:
        for path, text in changes.items():
            path.write_text(text, encoding="utf-8")
        matching[0].rename(matching[0].with_name(f"{new}.md"))
    print(f"{matching[0].relative_to(folder)} {'is now' if sure else 'would become'} {new}.md")
    return 0


if __name__ == "__main__":
    words = [one for one in sys.argv[1:] if one != "--yes"]
    if len(words) == 1:
        sys.exit(report(Path(words[0])))
    if len(words) == 4 and words[1] == "--rename":
        sys.exit(rename(Path(words[0]), words[2], words[3], "--yes" in sys.argv))
    sys.exit(__doc__)
