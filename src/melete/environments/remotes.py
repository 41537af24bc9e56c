"""The servers of a working folder's git remotes, as they were when this home first worked in that folder.

A command in a sandbox can write the folder's git configuration, and so name a server of its own choice. So the remotes are read
before the first command runs, and remembered; those that come later are a person's to allow. A folder inside one that was worked
in before counts as first seen only if its configuration has not been changed since (by the time that the system keeps of a
file's last change, which no command can set back); else those of its remotes count that were known above.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from melete.environments import files
from melete.environments.allowlist import WEB, Entry, parse, plain
from melete.security.urls import LAST_PORT, judge_host

LARGEST: Final = 1 << 20
PORTS: Final = {"https": WEB, "http": WEB, "ssh": (22,), "git+ssh": (22,), "git": (9418,)}
SECTION: Final = re.compile(r'\s*\[\s*(?P<kind>[\w.-]+)\s*(?:"(?P<name>(?:[^"\\]|\\.)*)")?\s*\](?P<rest>.*)')
SETTING: Final = re.compile(r"\s*(?P<key>[A-Za-z][\w-]*)\s*=\s*(?P<value>.*)")
ADDRESS: Final = re.compile(
    r"(?P<scheme>[a-z+]+)://(?:[^/@]*@)?(?P<host>\[[^\]]+\]|[^/:@]+)(?::(?P<port>\d{1,5}))?(?:/.*)?"
)
SCP: Final = re.compile(r"(?:[^/:@]+@)?(?P<host>\[[^\]]+\]|[^/:@\[\]]{2,}):(?!//).*")
WHY: Final = "git remote of the working folder"


class Seen(Struct, frozen=True, kw_only=True):
    """What is remembered of a folder: the remotes' servers as entries of the list, and when, in nanoseconds since 1970."""

    folder: str
    since: int
    remotes: tuple[str, ...] = ()


class Remotes:
    """The remotes of one working folder; `scratch` is the home's folder where they are remembered."""

    def __init__(self, cwd: str, *, home: str, scratch: str, now: int) -> None:
        self._cwd = os.path.realpath(cwd)
        self._home = home
        self._scratch = scratch
        self._now = now

    def first_seen(self) -> list[Entry]:
        """Those that were there when this home first worked in the folder, remembered from now on; raises OSError.

        Without a place to remember them there are none.
        """
        if not self._scratch:
            return []
        known = self._remembered(self._cwd)
        if known is None:
            known = Seen(folder=self._cwd, since=self._now, remotes=tuple(self._trusted()))
            self._remember(known)
        return [entry for text in known.remotes if (entry := parse(text, why=WHY))]

    def present(self) -> list[Entry]:
        """Those that the folder's configuration names now."""
        config = self._config()
        if config is None:
            return []
        rules = list(_replacements(text_of(Path(self._home, ".gitconfig")))) if self._home else []
        entries: dict[str, Entry] = {}
        for address in _addresses(text_of(config)):
            entry = server_of(_replaced(address, rules))
            if entry is not None:
                entries[str(entry)] = entry
        return list(entries.values())

    def _config(self) -> Path | None:
        """The git configuration that counts in the folder."""
        for folder in (Path(self._cwd), *Path(self._cwd).parents):
            held = folder / ".git"
            if held.is_dir():
                return held / "config"
            if held.is_file():  # of a further working tree, or a submodule
                pointed = text_of(held).strip().removeprefix("gitdir:").strip()
                own = Path(os.path.normpath(folder / pointed))
                shared = text_of(own / "commondir").strip()
                return Path(os.path.normpath(own / shared)) / "config"
        return None

    def _trusted(self) -> list[str]:
        """What is there now and can be no command's doing: all, where this home never worked in a folder above."""
        present = [str(entry) for entry in self.present()]
        config = self._config()
        around = {*Path(self._cwd).parents, *(config.parents if config else ())}
        above = [known for folder in around if (known := self._remembered(str(folder)))]
        if not above or self._older_than(min(known.since for known in above)):
            return present
        return [text for text in present if any(text in known.remotes for known in above)]

    def _older_than(self, since: int) -> bool:
        """Whether the configuration was not touched after a moment, in nanoseconds since 1970."""
        config = self._config()
        try:
            return config is None or max(os.lstat(path).st_ctime_ns for path in (config, config.parent)) < since
        except OSError:
            return False

    def _file(self, folder: str) -> Path:
        return Path(self._scratch, "remotes", sha256(os.fsencode(folder)).hexdigest()[:32] + ".json")

    def _remembered(self, folder: str) -> Seen | None:
        try:
            descriptor, size = files.opened(str(self._file(folder)))
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            try:
                return msgspec.json.decode(file.read(size), type=Seen)
            except msgspec.MsgspecError:
                return Seen(folder=folder, since=0)  # it was seen; what it held is lost, and nothing is trusted

    def _remember(self, seen: Seen) -> None:
        path = self._file(seen.folder)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, beside = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(seen))
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise


def text_of(path: Path) -> str:
    """The text of a regular file of bearable size; empty for any other."""
    try:
        descriptor, size = files.opened(str(path))
    except OSError:
        return ""  # what cannot be read allows nothing
    with os.fdopen(descriptor, "rb") as file:
        return file.read(LARGEST).decode("utf-8", "replace") if size <= LARGEST else ""


def server_of(address: str) -> Entry | None:
    """The entry that allows the server of a remote (https, ssh, git, `user@host:path`); None for a path or a private one."""
    found = ADDRESS.fullmatch(address)
    if found is not None:
        ports = PORTS.get(found["scheme"])
        port = int(found["port"] or 0)
    else:
        found, ports, port = SCP.fullmatch(address), PORTS["ssh"], 0
    if found is None or ports is None or port > LAST_PORT:
        return None
    host = plain(found["host"])
    if host is None or judge_host(f"[{host}]" if ":" in host else host).verdict == "forbid":
        return None
    return Entry(name=host, ports=(port,) if port else ports, why=WHY)


def _settings(text: str) -> Iterator[tuple[str, str, str, str]]:
    """(kind, name, key, value) of each setting of a git configuration."""
    kind = name = ""
    for line in text.splitlines():
        if section := SECTION.fullmatch(line):
            kind, name, line = section["kind"].lower(), section["name"] or "", section["rest"]
        if setting := SETTING.fullmatch(line):
            yield kind, name, setting["key"].lower(), setting["value"].strip().strip('"')


def _addresses(text: str) -> Iterator[str]:
    for kind, _, key, value in _settings(text):
        if kind == "remote" and key in ("url", "pushurl"):
            yield value


def _replacements(text: str) -> Iterator[tuple[str, str]]:
    """(prefix, what stands in its place) of the owner's own `insteadOf`."""
    for kind, name, key, value in _settings(text):
        if kind == "url" and key in ("insteadof", "pushinsteadof"):
            yield value, name


def _replaced(address: str, rules: list[tuple[str, str]]) -> str:
    fitting = [rule for rule in rules if rule[0] and address.startswith(rule[0])]
    prefix, instead = max(fitting, key=lambda rule: len(rule[0]), default=("", ""))
    return instead + address[len(prefix) :]
