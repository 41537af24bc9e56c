"""Find what is out of order in a wiki of raw/ and wiki/: links, sources, index. Remembers the sources' digests."""

import hashlib
import re
import sys
from pathlib import Path
from urllib.parse import unquote

root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
raw, wiki = root / "raw", root / "wiki"
if not (raw.is_dir() and wiki.is_dir()):
    sys.exit(f"{root} has no raw/ and wiki/ in it")
faults, used, listed = [], set(), set()
for page in sorted(wiki.rglob("*.md")):
    name = page.relative_to(wiki).as_posix()
    text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    sources = set()
    for link in re.findall(r"\]\(([^)\s]+)", text):
        if re.match(r"[a-z]+:|#", link):
            continue
        target = (page.parent / unquote(link.split("#")[0])).resolve()
        if not target.is_file():
            faults.append(f"wiki/{name}: dead link {link}")
        elif raw in target.parents:
            sources.add(target)
        elif name == "index.md":
            listed.add(target)
    used |= sources
    if name not in ("index.md", "log.md") and not sources:
        faults.append(f"wiki/{name}: no source")
faults += [
    f"wiki/{page.relative_to(wiki).as_posix()}: not in the index"
    for page in sorted(wiki.rglob("*.md"))
    if page.name not in ("index.md", "log.md") and page not in listed
]

seen = root / ".sources"
before = dict(line.split("  ", 1)[::-1] for line in seen.read_text().splitlines()) if seen.is_file() else {}
kept = {}
for source in sorted(one for one in raw.rglob("*") if one.is_file() and not one.name.startswith(".")):
    name = source.relative_to(root).as_posix()
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    kept[name] = before.get(name, digest)
    if kept[name] != digest:
        faults.append(f"{name} changed since it was taken in (meant so? delete its line in .sources)")
    if source not in used:
        faults.append(f"{name}: no page uses it")
faults += [f"{name} is gone" for name in sorted(set(before) - set(kept))]
seen.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted({**before, **kept}.items())))
print("\n".join(faults) or f"in order: {len(used)} sources, {len(listed)} pages")
sys.exit(bool(faults))
