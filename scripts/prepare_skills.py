"""Writes what the packaged skills say of themselves into one file, so that the first start of a home parses none of them."""

import hashlib

import msgspec

from melete.core.skill import Skill
from melete.skills.catalogue import PREPARED
from melete.skills.format import read_skill
from melete.skills.sync import SOURCE


def main() -> None:
    """Write the file."""
    found: dict[str, Skill] = {}
    for path in sorted(SOURCE.rglob("SKILL.md")):
        data = path.read_bytes()
        found[hashlib.sha256(data).hexdigest()], _ = read_skill(data, folder=path.parent.name)
    PREPARED.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


if __name__ == "__main__":
    main()
