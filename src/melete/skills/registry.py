"""Lists of skills that somebody publishes: Agent Skills Discovery, version 0.2 (and 0.1), at a well-known place of a site.

An index is JSON, `{"skills": [{"name", "description", "url", "digest": "sha256:…", "version"}]}`; `url` leads to a SKILL.md, an
archive or a git repository, and `source` and `sha256` are taken for `url` and `digest`. In 0.1 an entry has `files` instead, which
lie in a folder of its name beside the index. What is fetched is kept for an hour, and used for longer when the site is away.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec import Struct, structs

from melete.core.ports import Clock, Fetcher
from melete.core.tool import ToolError
from melete.security.paths import wrong_id
from melete.skills.frontmatter import UNSEEN
from melete.skills.rank import words
from melete.skills.versions import put_file

log = logging.getLogger("melete.skills")
PLACES: Final = ("/.well-known/agent-skills/index.json", "/.well-known/skills/index.json")
FRESH: Final = 3_600.0
OK: Final = 200
LARGEST: Final = 10_000_000
MOST: Final = 20_000
LONGEST: Final = 1_024
DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


class Entry(Struct, frozen=True, kw_only=True):
    """A skill in an index; `url` is absolute, `digest` plain hex or empty, `registry` the index that it stands in."""

    name: str
    description: str = ""
    url: str = ""
    digest: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    registry: str = ""

    @property
    def install(self) -> str:
        """What names this skill to whoever installs it."""
        return f"{self.name}@{self.registry}"


class _Kept(Struct, frozen=True, kw_only=True):
    at: datetime
    url: str
    entries: list[Entry]


class Registries:
    """The indexes at `urls`, and any other that is named; kept in the folder `cache`."""

    def __init__(self, fetch: Callable[[], Fetcher], *, urls: Sequence[str], cache: Path, clock: Clock) -> None:
        self._fetch = fetch
        self._urls = urls
        self._cache = cache
        self._clock = clock

    async def entries(self, site: str) -> Sequence[Entry]:
        """What the index of a site holds, or the index at this address; raises ToolError."""
        place = self._cache / f"{hashlib.sha256(site.encode()).hexdigest()[:32]}.json"
        kept = _kept(place)
        now = self._clock.now()
        if kept and 0 <= (now - kept.at).total_seconds() < FRESH:
            return kept.entries
        try:
            found = _Kept(at=now, url=site, entries=await self._fetched(site))
        except ToolError as error:
            if kept is None:
                raise
            log.warning("the index of %s is used as it was at %s: %s", site, kept.at, error)
            return kept.entries
        try:
            put_file(place, msgspec.json.encode(found), durable=False)
        except OSError as error:
            log.warning("the index of %s is not kept: %s", site, error)
        return found.entries

    async def find(self, name: str, site: str = "") -> Entry:
        """The entry of this name, in the first index that has it; raises ToolError."""
        if not (sites := [site] if site else self._urls):
            raise ToolError(f"{name[:80]!r} is no folder, file or address, and skills.registries names no index")
        for one in sites:
            if found := next((entry for entry in await self.entries(one) if entry.name == name), None):
                return found
        raise ToolError(f"no skill {name[:80]!r} is listed by {', '.join(sites)[:300]}")

    async def search(self, query: str, *, limit: int = 10) -> list[Entry]:
        """The entries that match best, in all indexes; one that cannot be reached is logged. Raises ToolError when none can."""
        asked = words(query)
        scored: list[tuple[float, Entry]] = []
        failures: list[ToolError] = []
        for site in self._urls:
            try:
                entries = await self.entries(site)
            except ToolError as error:
                log.warning("the index of %s is left out: %s", site, error)
                failures.append(error)
                continue
            scored += [(score, one) for one in entries if (score := _score(asked, one)) or not asked]
        if failures and len(failures) == len(self._urls):
            raise failures[0]
        scored.sort(key=lambda pair: (-pair[0], pair[1].name))
        return [one for _, one in scored[:limit]]

    async def _fetched(self, site: str) -> list[Entry]:
        parts = urlsplit(site)
        places = [site] if parts.path.endswith(".json") else [site.rstrip("/") + place for place in PLACES]
        for place in places:
            answer = await self._fetch().get(place, limit=LARGEST)
            if answer.status == OK:
                return read_index(answer.body, answer.url)
        raise ToolError(f"{site[:200]} has no index of skills ({', '.join(PLACES)})")


def read_index(data: bytes, url: str) -> list[Entry]:
    """The entries of an index that was fetched from `url`; what is not one is left out. Raises ToolError."""
    try:
        index: Any = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ToolError(f"{url[:200]} is no index of skills: {error}") from error
    listed: Any = cast("dict[str, Any]", index).get("skills") if isinstance(index, dict) else index
    if not isinstance(listed, list):
        raise ToolError(f"{url[:200]} is no index of skills: it lists none")
    rows = cast("list[Any]", listed)[:MOST]
    found = [entry for row in rows if isinstance(row, dict) and (entry := _entry(cast("Mapping[str, Any]", row), url))]
    if len(found) < len(cast("list[Any]", listed)):
        log.warning("%d entries of %s are not understood", len(cast("list[Any]", listed)) - len(found), url)
    return found


def _entry(row: Mapping[str, Any], url: str) -> Entry | None:
    """An entry of which every field can be relied on, or None."""

    def text(*keys: str) -> str:
        value = next((row[key] for key in keys if isinstance(row.get(key), str)), "")
        return UNSEEN.sub("", value[:LONGEST])

    def several(key: str) -> tuple[str, ...]:
        value = row.get(key)
        return (
            tuple(UNSEEN.sub("", str(one)[:LONGEST]) for one in cast("list[Any]", value)[:50])
            if isinstance(value, list)
            else ()
        )

    digest = text("digest", "sha256")
    entry = Entry(
        name=text("name"), description=" ".join(text("description").split()), version=text("version")[:64],
        tags=several("tags"), files=several("files"), registry=url,
    )  # fmt: skip
    try:
        leads = urljoin(url, text("url", "source") or (f"{entry.name}/" if entry.files else ""))
        scheme = urlsplit(leads.removeprefix("git+")).scheme
    except ValueError:
        return None
    secure = scheme == "https" or (scheme == "http" and url.startswith("http:"))
    if wrong_id(entry.name) or not secure or leads == url or (digest and not DIGEST.fullmatch(digest)):
        return None
    return structs.replace(entry, url=leads, digest=digest.removeprefix("sha256:"))


def _score(asked: Mapping[str, int], entry: Entry) -> float:
    name, rest = words(entry.name.replace("-", " ")), words(f"{entry.description} {' '.join(entry.tags)}")
    return sum(3.0 * (word in name) + (word in rest) for word in asked)


def _kept(place: Path) -> _Kept | None:
    try:
        return msgspec.json.decode(place.read_bytes(), type=_Kept)
    except (OSError, msgspec.MsgspecError):
        return None  # it is fetched again
