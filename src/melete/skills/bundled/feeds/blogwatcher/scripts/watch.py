"""Print what is new in a list of RSS and Atom feeds since the last time.

usage: watch.py FEEDS.txt SEEN.json [--dry-run]
FEEDS.txt holds an address or a file per line; lines that begin with # are notes. SEEN.json is written only after everything was printed.
"""

import calendar
import html
import json
import re
import sys
import time
from pathlib import Path

import feedparser

MOST = 20
DAYS = 30


def text_of(entry):
    """The summary as plain text, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", entry.get("summary", ""))).split())[:300]


def new_of(address, kept):
    """The feed's title, its entries that are not in `kept` (newest last), and what is to be kept."""
    feed = feedparser.parse(address, etag=kept.get("etag"), modified=kept.get("modified"), agent="feed reader")
    if feed.get("status") == 304:
        return kept.get("title", address), [], kept
    if feed.get("status", 200) >= 400 or not feed.get("version"):
        raise ValueError(f"status {feed.get('status', 'none')}, {feed.get('bozo_exception', 'no feed there')}")
    seen, found = set(kept.get("seen", ())), []
    names = []
    for entry in feed.entries:
        name = entry.get("id") or entry.get("link") or entry.get("title", "")
        names.append(name)
        when = entry.get("published_parsed") or entry.get("updated_parsed")
        at = calendar.timegm(when) if when else 0
        if name not in seen and (not at or at > time.time() - DAYS * 86400):
            found.append((at, entry))
    found.sort(key=lambda one: one[0])
    known = [name for name in kept.get("seen", ()) if name not in names]
    state = {"title": feed.feed.get("title", address), "seen": (known + names)[-1000:]}
    state |= {key: feed[key] for key in ("etag", "modified") if feed.get(key)}
    return state["title"], found, state


def main(feeds, remembered, *rest):
    """Print the new entries, then the feeds that failed."""
    path = Path(remembered)
    states = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    failed = []
    for line in Path(feeds).read_text(encoding="utf-8").splitlines():
        address = line.strip()
        if not address or address.startswith("#"):
            continue
        try:
            title, found, states[address] = new_of(address, states.get(address, {}))
        except (OSError, ValueError) as why:
            failed.append(f"{address}: {why}")
            continue
        for at, entry in found[-MOST:]:
            day = time.strftime("%Y-%m-%d", time.gmtime(at)) if at else "no date   "
            print(
                f"{day}  {title}: {entry.get('title', '(no title)')}\n            {entry.get('link', '')}\n            {text_of(entry)}"
            )
        if len(found) > MOST:
            print(f"            … and {len(found) - MOST} older ones of {title}")
    if "--dry-run" not in rest:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(states, indent=1), encoding="utf-8")
        part.replace(path)
    if failed:
        sys.exit("\n".join(["these could not be read:", *failed]))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
