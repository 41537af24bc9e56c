"""Search arXiv and print papers with their abstracts. Standard library only; one request, as arXiv asks for three seconds between two.

  arxiv.py search 'ti:"tree search" AND cat:cs.LG' [COUNT] [newest]
  arxiv.py get 1706.03762 [ID …]
  arxiv.py read ANSWER.xml            an answer that was saved
Fields: ti title, au author, abs abstract, cat category, all everything; AND, OR, ANDNOT; submittedDate:[202401010000 TO 202412312359]
"""

import re
import sys
import urllib.request
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import urlencode

ATOM = "{http://www.w3.org/2005/Atom}"
ARXIV = "{http://arxiv.org/schemas/atom}"
SERVER = "https://export.arxiv.org/api/query?"
SECONDS = 30


def fetch(**asked):
    """The answer to one query."""
    with urllib.request.urlopen(SERVER + urlencode(asked), timeout=SECONDS) as answer:
        return answer.read()


def text(entry, name):
    """The text of a field in one line."""
    return " ".join((entry.findtext(name) or "").split())


def show(data):
    """Print every paper of an answer; says so when there is none."""
    root = ET.fromstring(data)
    entries = root.findall(f"{ATOM}entry")
    if entries and "/api/errors" in text(entries[0], f"{ATOM}id"):
        sys.exit(f"arXiv refused: {text(entries[0], f'{ATOM}summary')}")
    total = root.findtext("{http://a9.com/-/spec/opensearch/1.1/}totalResults") or len(entries)
    print(f"{total} found, {len(entries)} shown")
    for entry in entries:
        identifier = text(entry, f"{ATOM}id").rpartition("/abs/")[2]
        authors = [text(author, f"{ATOM}name") for author in entry.findall(f"{ATOM}author")]
        category = entry.find(f"{ARXIV}primary_category")
        first, last = text(entry, f"{ATOM}published")[:10], text(entry, f"{ATOM}updated")[:10]
        print(f"\n{identifier}  {text(entry, f'{ATOM}title')}")
        print(f"  {', '.join(authors[:4])}{' and others' if len(authors) > 4 else ''}")
        print(
            f"  {first}{f', changed {last}' if last != first else ''} · {category.get('term') if category is not None else '?'}"
        )
        for name, label in (
            (f"{ARXIV}journal_ref", "appeared in"),
            (f"{ARXIV}doi", "doi"),
            (f"{ARXIV}comment", "comment"),
        ):
            if found := text(entry, name):
                print(f"  {label}: {found}")
        if re.search(
            r"\bwithdrawn\b", f"{text(entry, f'{ARXIV}comment')} {text(entry, f'{ATOM}summary')[:200]}", re.IGNORECASE
        ):
            print("  WITHDRAWN: do not rely on it")
        print(f"  {text(entry, f'{ATOM}summary')}")


def main(arguments):
    """Do what the command line says."""
    match arguments:
        case ["search", query, *rest]:
            count = next((int(one) for one in rest if one.isdigit()), 10)
            order = "submittedDate" if "newest" in rest else "relevance"
            show(fetch(search_query=query, max_results=min(count, 100), sortBy=order, sortOrder="descending"))
        case ["get", *ids] if ids:
            show(fetch(id_list=",".join(ids), max_results=len(ids)))
        case ["read", path]:
            show(Path(path).read_bytes())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
