"""Where a skill comes from: a folder, an archive, a git repository, an address, or the entry of an index. All end as files.

Nothing that is fetched is put anywhere but in the quarantine, a hidden folder that nobody reads from, and it leaves with the call.
"""

import asyncio
import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

from msgspec import Struct, structs

from melete.core.ports import Fetched, Fetcher
from melete.core.skill import MAIN
from melete.core.tool import ToolError
from melete.security.paths import parts, same_name, wrong_id
from melete.security.urls import Network, judge
from melete.skills.archive import Bounds, unpack
from melete.skills.catalogue import read_file
from melete.skills.clone import PLAIN, Repository
from melete.skills.folders import SKIPPED, walk
from melete.skills.registry import OK, Entry, Registries
from melete.skills.versions import MOST_BYTES, MOST_FILES, Tree, tree_of

TIMEOUT: Final = 120.0
LEFT: Final = 86_400
"""Seconds after which what a killed process left in the quarantine is thrown away."""
PACKED: Final = (b"PK", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
FORGE = re.compile(
    r"(https://(?:github\.com|gitlab\.com|codeberg\.org)/[\w.-]+/[\w.-]+?)(?:\.git)?/?"
    r"(?:/(?:-/)?(?:tree|src/branch)/([^/#]+)/?([^#]*))?"
)
"""The page of a repository, or of a folder in it, as a browser shows it."""
GIT = re.compile(r"(?:git\+)?((?:https|ssh|file)://[^\s#]+?|[\w.-]+@[\w.-]+:[^\s#]+?)(?:(?<=\.git)@([^\s#]+))?")
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")


class Got(Struct, frozen=True, kw_only=True):
    """The files of a skill, which of its paths are links, where they are fetched again, and what was fetched there.

    `listed` is the entry of an index that led there.
    """

    tree: Tree
    links: Sequence[str] = ()
    source: str
    kind: str
    revision: str = ""
    listed: Entry | None = None


class Sources:
    """Fetches skills: through `fetch` and git, with the variables of `environ`; git reaches what is public or `trusted`."""

    def __init__(
        self, fetch: Callable[[], Fetcher], *, registries: Registries, quarantine: Path, environ: Mapping[str, str],
        trusted: Sequence[Network] = (),
    ) -> None:  # fmt: skip
        self._fetch = fetch
        self._registries = registries
        self._quarantine = quarantine
        self._environ = environ
        self._trusted = trusted

    async def get(self, source: str) -> Got:
        """The skill that is meant; raises ToolError, ArchiveRefusedError, PathRefusedError."""
        try:
            return await self._got(source.strip())
        except (OSError, RuntimeError) as error:
            raise ToolError(f"{source[:200]} cannot be read: {error}") from error

    async def _got(self, text: str) -> Got:
        name, _, site = text.partition("@")
        if site.startswith(("http://", "https://")) and not wrong_id(name):
            return await self._listed(await self._registries.find(name, site))
        address, _, part = text.partition("#")
        if git := _repository(address, part):
            return await self._cloned(text, *git)
        if address.startswith(("http://", "https://")) and not address.endswith(".git"):
            return await self._web(address, part)
        if scheme := SCHEME.match(address):
            raise ToolError(f"{scheme[1]}:// leads to no repository from here: https, ssh and file do")
        return await self._local(text)

    async def _local(self, text: str) -> Got:
        path, part = Path(text).expanduser(), ""
        if not path.exists() and "#" in text:
            path, part = Path(text.rpartition("#")[0]).expanduser(), text.rpartition("#")[2]
        if not path.exists() or ("/" not in text and not path.is_file() and not wrong_id(text)):
            if wrong_id(text):
                raise ToolError(f"there is no file or folder {str(path)[:200]}")
            return await self._listed(await self._registries.find(text))
        source = f"{path.resolve()}#{part}".removesuffix("#")
        if path.is_dir():
            tree, links = await asyncio.to_thread(_folder, path, part)
            return Got(tree=tree, links=links, source=source, kind="folder")
        data = await asyncio.to_thread(_regular, path)
        if path.suffix == ".md":
            return Got(tree={MAIN: data}, source=source, kind="file")
        return await self._packed(data, part, source)

    async def _web(self, url: str, part: str = "", *, digest: str = "", source: str = "") -> Got:
        """A SKILL.md or an archive at an address; a site is asked for its index."""
        if urlsplit(url).path in ("", "/") or url.endswith("/index.json"):
            return await self._only(url)
        answer = await self._fetched(url)
        revision = _digest(answer.body)
        if digest and revision != digest:
            raise ToolError(f"{url[:200]} is not what the index lists: its SHA-256 is {revision}, not {digest}")
        source = source or f"{url}#{part}".removesuffix("#")
        if answer.body.startswith(PACKED) or urlsplit(answer.url).path.endswith(".tar"):
            return await self._packed(answer.body, part, source)
        if not answer.body.removeprefix(b"\xef\xbb\xbf").startswith(b"---"):
            raise ToolError(f"{url[:200]} is neither a SKILL.md nor an archive ({answer.media_type or 'of no kind'})")
        return Got(tree={MAIN: answer.body}, kind="url", source=source, revision=revision)

    async def _packed(self, data: bytes, part: str, source: str) -> Got:
        with self._apart() as folder:
            packed = folder / "packed"
            packed.write_bytes(data)
            tree, links = await asyncio.to_thread(_unpacked, packed, folder / "files", part)
        return Got(tree=tree, links=links, kind="archive", source=source, revision=_digest(data))

    async def _only(self, site: str) -> Got:
        entries = await self._registries.entries(site)
        if len(entries) != 1:
            names = ", ".join(entry.name for entry in entries[:20])
            raise ToolError(f"{site[:200]} lists {len(entries)} skills, say which by NAME@{site[:200]}: {names}")
        return await self._listed(entries[0])

    async def _listed(self, entry: Entry) -> Got:
        """What an entry of an index leads to: only ever something on the web."""
        address, _, part = entry.url.partition("#")
        git = _repository(address, part)
        if entry.digest and (entry.files or git):
            raise ToolError(
                f"{entry.install[:200]} lists a digest, and what it leads to is no single file that has one"
            )
        if entry.files:
            got = await self._files(entry)
        elif git:
            got = await self._cloned(entry.install, *git)
        else:
            got = await self._web(address, part, digest=entry.digest, source=entry.install)
        return structs.replace(got, listed=entry)

    async def _files(self, entry: Entry) -> Got:
        tree: dict[str, bytes] = {}
        for path in ("/".join(parts(path)) for path in entry.files):
            if _skipped(path) or same_name(path) in map(same_name, tree):
                raise ToolError(f"{entry.install[:200]} lists {path[:200]!r}, which is hidden or listed twice")
            tree[path] = (await self._fetched(urljoin(entry.url, path))).body
            if sum(map(len, tree.values())) > MOST_BYTES:
                raise ToolError(f"{entry.install[:200]} has more than {MOST_BYTES:,} bytes: too much for a skill")
        return Got(tree=tree, source=entry.install, kind="index")

    async def _fetched(self, url: str) -> Fetched:
        answer = await self._fetch().get(url, limit=Bounds().archive, timeout=TIMEOUT)
        if answer.status != OK:
            raise ToolError(f"{url[:200]} answered with {answer.status}")
        return answer

    async def _cloned(self, source: str, url: str, ref: str, part: str) -> Got:
        scheme = found[1] if (found := SCHEME.match(url)) else "ssh"
        if scheme == "https" and (verdict := judge(url, trusted=self._trusted)).verdict == "forbid":
            raise ToolError(f"{url[:200]!r} may not be fetched: {verdict.reason}")
        with self._apart() as folder:
            repository = Repository(folder / "repository", scheme=scheme, environ=self._environ)
            revision = await repository.clone(url, ref)
            entries = await repository.entries()
            mains = [one.path for one in entries if same_name(one.path.rpartition("/")[2]) == same_name(MAIN)]
            top = _chosen([path.rpartition("/")[0] for path in mains], part)
            inside = [one for one in entries if one.path.startswith(f"{top}/" if top else "")]
            inside = [one for one in inside if not _skipped(one.path[len(top) :])]
            blobs = [one for one in inside if one.mode in PLAIN]
            if len(blobs) > MOST_FILES or sum(one.size for one in blobs) > MOST_BYTES:
                raise ToolError(f"it has more than {MOST_FILES} files or {MOST_BYTES:,} bytes: too much for a skill")
            names = ["/".join(parts(one.path[len(top) :].lstrip("/"))) for one in blobs]
            data = await repository.contents(blobs)
        named = {
            MAIN if same_name(name) == same_name(MAIN) else name: one for name, one in zip(names, data, strict=True)
        }
        links = [ascii(one.path)[1:-1] for one in inside if one.mode not in PLAIN]
        return Got(tree=named, links=links, source=source, kind="git", revision=revision)

    @contextmanager
    def _apart(self) -> Generator[Path]:
        """A folder in the quarantine, gone afterwards; what has been left in there is thrown away."""
        self._quarantine.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._quarantine.iterdir():
            if left.lstat().st_mtime < time.time() - LEFT:
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=self._quarantine) as folder:
            yield Path(folder)


def _repository(address: str, part: str) -> tuple[str, str, str] | None:
    """The repository that an address names, with its branch or tag and the folder in it; None for anything else."""
    if page := FORGE.fullmatch(address):
        return page[1], page[2] or "", part or (page[3] or "").strip("/")
    web = address.startswith(("http://", "https://")) and not re.search(r"\.git(?:@|$)", address)
    git = None if web else GIT.fullmatch(address)
    return (git[1], git[2] or "", part) if git else None


def _regular(path: Path) -> bytes:
    """What a plain file holds, as far as one from elsewhere may be long; raises OSError, ToolError."""
    data, _ = read_file(str(path.resolve()), most=Bounds().archive + 1)
    if len(data) > Bounds().archive:
        raise ToolError(f"{str(path)[:200]} is longer than {Bounds().archive:,} bytes")
    return data


def _unpacked(archive: Path, target: Path, part: str) -> tuple[Tree, Sequence[str]]:
    unpack(archive, target)
    return _folder(target, part)


def _folder(path: Path, part: str) -> tuple[Tree, Sequence[str]]:
    top = path / _chosen([found.folder for found in walk(str(path)).found], part)
    tree = tree_of(top)  # refuses what is too large before it is listed
    links = [one.relative_to(top).as_posix() for one in sorted(top.rglob("*")) if one.is_symlink()]
    return tree, [link for link in links if not _skipped(link)]


def _chosen(folders: Sequence[str], part: str) -> str:
    """The one folder of a skill that is meant; raises ToolError."""
    part = "/".join(parts(part)) if part else ""
    fit = [one for one in folders if not part or one == part or one.endswith(f"/{part}")]
    fit = [""] if "" in fit else fit
    if len(fit) == 1:
        return fit[0]
    if not fit:
        raise ToolError(f"there is no SKILL.md in {part or 'it'}")
    raise ToolError(f"it holds {len(fit)} skills, say which by SOURCE#FOLDER: {', '.join(sorted(fit)[:30])}")


def _skipped(path: str) -> bool:
    return any(name.startswith(".") or name in SKIPPED for name in path.split("/"))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
