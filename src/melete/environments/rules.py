"""Which paths of this machine a sandbox shows, hides and lets be written: rules from which either kind of walls is made.

The rule for the longest path that leads to a place decides. What has no rule can be read and not written.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from melete.core.environment import Place
from melete.core.places import SandboxOptions
from melete.environments import hiding
from melete.security.denied import DENIED, HOMES, RUN_AT_LOGIN

Access = Literal["hide", "private", "read", "write"]
"""`private` is an empty folder of the sandbox's own that may be written and ends with it."""
TEMP = "/tmp"  # noqa: S108 - a file system of the sandbox's own
PRIVATE = (TEMP, "/var/tmp", "/dev/shm")  # noqa: S108
BIGGEST_SETTINGS = 100_000
FOR_OTHERS = 0o005
READABLE = 0o004


class Rules:
    """The rules for one sandbox. `rows` is path → access, `links` are names that lead to shown folders, `remarks` for a person,
    `secrets` what holds keys and histories, wherever it lies.

    With `thorough` the machine is looked at as well: for what other users may not read, and for sockets of services. What lies
    in the working folder is decided without.
    """

    def __init__(self, place: Place, options: SandboxOptions, *, cwd: str, thorough: bool = True) -> None:
        self.rows: dict[str, Access] = {}
        self.links: dict[str, str] = {}
        self.remarks: list[str] = []
        self.cwd = cwd
        self._given_cwd = place.cwd or cwd
        given = place.variables.get("HOME", "")
        self.home = os.path.realpath(given) if given.startswith("/") and os.path.realpath(given) != "/" else ""
        self._homes = self._all_homes()
        self._closed: set[str] = set()
        self.secrets: set[str] = set()
        self._base()
        if thorough and os.getuid() == 0:
            self._unreadable()
        self._toolchains(place.variables.get("PATH", ""))
        self._chosen(options)
        if thorough:
            self._sockets()
        self._hidden(place.hidden, options.hide)
        for path in place.shown:
            self._put(os.path.realpath(path), "read")
        self._at_login()
        if given != self.home and self.home and self.access(str(Path(given).parent)) in {"hide", "private"}:
            self.links[given] = self.home
        own = os.path.realpath(sys.prefix) if sys.prefix != sys.base_prefix else self.cwd
        self._own = own if own not in self.rows and self.access(own) == "write" else ""
        self.rows = dict(self._needed())

    def access(self, path: str) -> Access:
        """What may be done with a path, given without links."""
        while path != "/":
            if path in self.rows:
                return self.rows[path]
            path = os.path.dirname(path)  # noqa: PTH120 - asked often
        return self.rows.get("/", "read")

    @property
    def kept(self) -> Mapping[str, Access]:
        """The rows for walls that can close a part of a folder in which new files are made.

        Of what may be written they except the virtual environment from which Melete runs: a command could change Melete itself.
        """
        return {**self.rows, self._own: "read"} if self._own else self.rows

    # ---- what they are made of, the later over the earlier ----

    def _all_homes(self) -> list[str]:
        found = [home for home in HOMES if Path(home).is_dir()]
        for home in [*_homes_of_users(), self.home]:
            real = os.path.realpath(home) if home else "/"
            if real != "/" and Path(real).is_dir() and not _is_system(real):
                found.append(real)
        return list(dict.fromkeys(found))

    def _base(self) -> None:
        for folder in (*hiding.SOCKETS, "/sys"):
            self._put(folder, "hide")
        for folder in (*hiding.NEEDED_OF_RUN, *hiding.NEEDED_OF_SYS):
            self._put(folder, "read")
        for path in hiding.KERNEL:
            self._put(path, "hide")
        for home in self._homes:
            self._put(home, "hide")
        for home in {*self._homes, *_folders_in("/home")}:
            first = _names_in(home)
            for name in DENIED:
                if name.partition("/")[0] in first:
                    self._deny(f"{home}/{name}")
        if self.home and not _is_system(self.home):
            self._put(self.home, "private")
        for folder in PRIVATE:
            self._put(folder, "private")

    def _deny(self, path: str) -> None:
        """Hide it, and what it leads to when it is a link, unless that would hide the system or the working folder."""
        real = os.path.realpath(path)
        if real == path or not (_is_system(real) or _within(self.cwd, real) or real.count("/") < 2):  # noqa: PLR2004
            self._put(real, "hide")
            self._closed.add(real)
            self.secrets.add(real)

    def _unreadable(self) -> None:
        for top, depth in hiding.LOOKED_THROUGH:
            for path in _not_for_others(top, depth):
                if path not in self._homes:
                    self._put(path, "hide")
                    self._closed.add(path)

    def _sockets(self) -> None:
        for path in _listening():
            if path not in self.rows and not _within(path, self.cwd) and self._is_shown(path):
                self._put(path, "hide")

    def _toolchains(self, path: str) -> None:
        of_homes = any(_within(home, self.cwd) for home in self._homes)  # else tools in there are the project's own
        wanted = [sys.base_prefix, sys.prefix]
        for entry in dict.fromkeys(path.split(os.pathsep)):
            real = os.path.realpath(entry) if entry.startswith("/") else ""
            if not real or self._is_shown(real) or not Path(real).is_dir():
                continue
            wanted += self._tools_of(real)
            if os.path.normpath(entry) != real and not self._is_shown(os.path.normpath(entry)):
                self.links[os.path.normpath(entry)] = real
        wanted += [f"{self.home}/{name}" for name in hiding.GIT_SETTINGS if _harmless(f"{self.home}/{name}")]
        for folder in wanted:
            real = os.path.realpath(folder)
            if self._is_shown(real) or real in self._homes or self._is_closed(real):
                continue
            if of_homes or not _within(real, self.cwd):
                self._put(real, "read")

    def _tools_of(self, folder: str) -> list[str]:
        """What the programs in a folder of the PATH need to run."""
        for home in self._homes:
            if not folder.startswith(home + "/"):
                continue
            below = folder[len(home) + 1 :]
            for name, needed in hiding.TOOLCHAINS.items():
                if below == name or below.startswith(name + "/"):
                    return [f"{home}/{one}" for one in needed]
        parent = Path(folder).parent
        whole = any((parent / mark).exists() for mark in ("pyvenv.cfg", "lib", "libexec"))
        return [str(parent) if whole and Path(folder).name in hiding.ENTRIES else folder]

    def _chosen(self, options: SandboxOptions) -> None:
        for path in options.show:
            real = self._whole(path)
            if self._is_led_astray(path, real):
                self.remarks.append(f"sandbox.show: {path} is a link to what is hidden, and stays hidden")
            else:
                self._put(real, "read")
        for path in options.write:
            real = self._whole(path)
            if self._is_led_astray(path, real):
                self.remarks.append(f"sandbox.write: {path} is a link to what is hidden, and stays hidden")
            elif not Path(real).is_dir():
                self.remarks.append(f"sandbox.write: there is no folder {path}")
            elif why := not_writable(real):
                self.remarks.append(f"sandbox.write: {path} stays read-only: {why}")
            else:
                self._put(real, "write")
        if self._is_led_astray(self._given_cwd, self.cwd):
            self.remarks.append(f"the working folder {self._given_cwd} is a link to what is hidden; start in another")
        elif why := not_writable(self.cwd):
            self.remarks.append(
                f"the working folder {self.cwd} can be read here but not written: {why}; start in a folder of your own to work"
            )
        else:
            self._put(self.cwd, "write")

    def _hidden(self, melete: Iterable[str], chosen: Iterable[str]) -> None:
        for path in chosen:
            real = self._whole(path)
            self._forget_below(real, {"private"})
            self._put(real, "hide")
        for path in melete:
            real = os.path.realpath(path)
            self._forget_below(real, {"read", "private"})
            if Path(real).is_dir():
                self.rows[real] = "hide"
            if real == self.cwd:
                self.remarks.append(
                    f"the working folder {self.cwd} is Melete's own and hidden from commands; start in another"
                )

    def _forget_below(self, path: str, kinds: set[Access]) -> None:
        for row in [row for row, access in self.rows.items() if row != path and _within(row, path) and access in kinds]:
            del self.rows[row]

    def _at_login(self) -> None:
        for home in self._homes:
            if self.access(home) == "write":
                for name in RUN_AT_LOGIN:
                    path = f"{home}/{name}"
                    if path not in self.rows and os.path.realpath(path) == path:
                        self._put(path, "read")

    def _needed(self) -> Iterator[tuple[str, Access]]:
        """The rows that change something, shorter paths first."""
        kept: dict[str, Access] = {}
        for path, access in sorted(self.rows.items(), key=lambda row: (row[0].count("/"), row[0])):
            above, parent = kept.get("/", "read"), path
            while (parent := os.path.dirname(parent)) != "/":  # noqa: PTH120 - asked often
                if parent in kept:
                    above = kept[parent]
                    break
            if path == self.cwd or (access != above and not (access == "hide" and above == "private")):
                kept[path] = access
                yield path, access

    # ---- small questions ----

    def _put(self, path: str, access: Access) -> None:
        try:
            mode = os.lstat(path).st_mode
        except (OSError, ValueError):  # not there, or no name of a file
            return
        if path != "/" and not stat.S_ISLNK(mode):
            self.rows[path] = access

    def _whole(self, path: str) -> str:
        """A path of the settings, without links."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return os.path.realpath(Path(self.cwd) / path)

    def _is_led_astray(self, given: str, real: str) -> bool:
        """Whether a link, which a command may have made, leads to a secret; who names the secret itself may have it."""
        secret = any(_within(real, one) for one in self.secrets)
        return secret and os.path.basename(os.path.normpath(given)) != os.path.basename(real)  # noqa: PTH119

    def _is_shown(self, path: str) -> bool:
        return self.access(path) in {"read", "write"}

    def _is_closed(self, path: str) -> bool:
        return any(_within(path, closed) for closed in self._closed)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_system(path: str) -> bool:
    if any(_within(path, folder) and path != folder for folder in hiding.WITHIN_SYSTEM):
        return False
    return path == "/" or any(_within(path, folder) for folder in hiding.SYSTEM)


def not_writable(folder: str) -> str:
    """Why a folder is never one that commands may write; empty when it may be."""
    if _is_system(folder):
        return "it belongs to the system"
    if folder in hiding.WHOLE:
        return "it holds what belongs to others"
    return ""


def outside(path: str, cwd: str) -> str:
    """A PATH without what lies in the working folder: a command could put a program there, and it would run without walls."""
    real = os.path.realpath(cwd)
    folders = [one for one in (path or os.defpath).split(os.pathsep) if one.startswith("/")]
    if not not_writable(real):
        folders = [one for one in folders if not _within(os.path.realpath(one), real)]
    return os.pathsep.join(folders)


def trusted(place: Place) -> dict[str, str]:
    """The variables of a place for a program that runs without walls: nothing on its PATH lies in the working folder."""
    path = outside(place.variables.get("PATH", ""), place.cwd or str(Path.cwd()))
    return {**place.variables, "PATH": path}


def _homes_of_users() -> list[str]:
    """The homes that the list of users names, of people and of the administrator."""
    try:
        rows = [line.split(":") for line in Path("/etc/passwd").read_text("utf-8", "replace").splitlines()]
    except OSError:  # no such list here: the homes that are known stay hidden
        return []
    return [row[5] for row in rows if len(row) > 5 and row[2].isdigit() and not 0 < int(row[2]) < 1000]  # noqa: PLR2004


def _folders_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:  # not there, or not ours to look into
        return []


def _names_in(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except OSError:  # not ours to look into, nor the sandbox's
        return set()


def _not_for_others(folder: str, depth: int) -> Iterator[str]:
    """What the file permissions keep from other users, `depth` folders deep."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink() or entry.path in {"/proc", "/sys", "/dev", "/run", "/tmp"}:  # noqa: S108
                    continue
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    if mode & FOR_OTHERS != FOR_OTHERS:
                        yield entry.path
                    elif depth > 1 and entry.name not in hiding.PACKAGES:
                        yield from _not_for_others(entry.path, depth - 1)
                elif not mode & READABLE or not stat.S_ISREG(mode):
                    yield entry.path
    except OSError:  # it went away while we looked
        return


def _listening() -> Iterator[str]:
    """The sockets that services of this machine listen on."""
    try:
        rows = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]
    except OSError:  # the kernel does not tell; the folders of sockets are hidden all the same
        return
    for row in rows:
        path = row.split(maxsplit=7)[7] if row.count("/") else ""
        if path.startswith("/"):
            yield os.path.realpath(path)


def _harmless(path: str) -> bool:
    """Whether a file of settings holds no token."""
    try:
        text = Path(path).read_text("utf-8", "replace")[:BIGGEST_SETTINGS].lower()
    except OSError:  # there is none
        return False
    return not any(
        mark in text for mark in ("extraheader", "token", "password", "@github", ":x-oauth")
    ) and "@" not in "".join(line for line in text.splitlines() if "://" in line)
