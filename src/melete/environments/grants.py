"""The rules of a sandbox as Landlock takes them. It only ever allows, and a folder with all that is in it: so a folder that
holds something hidden is not allowed itself, but everything else in it, one by one.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from melete.environments import hiding
from melete.environments.rules import Access, Rules

SEEN = ("/proc", *hiding.NEEDED_OF_SYS)
"""Allowed as a whole: what is secret there is kept by the kernel from whoever has no privileges."""
APART = frozenset({"/proc", "/sys", "/dev"})


def granted(rules: Rules, temp: str) -> dict[str, list[str]]:
    """Paths to `read`, to `write` and to `use` as devices; `temp` takes the place of every private folder."""
    found: dict[str, list[str]] = {"read": [path for path in SEEN if Path(path).exists()], "write": [temp], "use": []}
    found["use"] += [path for path in hiding.DEVICES if Path(path).exists()]
    for path, access in _shown("/", rules):
        found[access].append(path)
    return found


def _shown(path: str, rules: Rules) -> Iterator[tuple[str, Access]]:
    access = rules.access(path)
    below = [row for row in rules.rows if row != path and row.startswith(path.rstrip("/") + "/")]
    if path in APART:
        return
    if not below:
        if access in {"read", "write"}:
            yield path, access
        return
    if access in {"hide", "private"}:
        for row in below:
            if not any(row.startswith(other + "/") for other in below):
                yield from _shown(row, rules)
        return
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if not entry.is_symlink():
                    yield from _shown(entry.path, rules)
    except OSError:  # not ours to look into: then neither the commands'
        return
