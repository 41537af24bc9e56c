"""Where everything of a person lives: every path under the home directory, and its profiles. Part of the composition root.

A profile is a home of its own under `profiles/NAME`, with its own settings, keys, memories, skills and sessions. Nothing is
created before it is written to; folders are made for their owner alone.
"""

import errno
import re
from pathlib import Path

from msgspec import Struct

from melete.core.errors import ConfigError, StorageError

DEFAULT_PROFILE = "default"
OWNER_ONLY = 0o700
_PROFILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Home(Struct, frozen=True, kw_only=True):
    """The paths of one profile's home; `root` is absolute, `user` is the person's own home folder, for display."""

    root: Path
    user: Path | None = None
    profile: str = DEFAULT_PROFILE

    @property
    def config(self) -> Path:
        """The settings."""
        return self.root / "config.yaml"

    @property
    def grants(self) -> Path:
        """What was approved for good."""
        return self.root / "grants.json"

    @property
    def env(self) -> Path:
        """The keys, one KEY=VALUE a line."""
        return self.root / ".env"

    @property
    def soul(self) -> Path:
        """Who the agent is, in the person's words."""
        return self.root / "SOUL.md"

    @property
    def memories(self) -> Path:
        """The folder of MEMORY.md and USER.md."""
        return self.root / "memories"

    @property
    def memory_notes(self) -> Path:
        """What the agent keeps about its work."""
        return self.memories / "MEMORY.md"

    @property
    def user_notes(self) -> Path:
        """What the agent keeps about the person."""
        return self.memories / "USER.md"

    @property
    def skills(self) -> Path:
        """The folder of skills, one folder in it for each origin."""
        return self.root / "skills"

    @property
    def state(self) -> Path:
        """Session logs, projections and blobs: what the store owns."""
        return self.root / "state"

    @property
    def logs(self) -> Path:
        """The program's own log files."""
        return self.root / "logs"

    @property
    def cron(self) -> Path:
        """Scheduled jobs and their output."""
        return self.root / "cron"

    @property
    def plugins(self) -> Path:
        """The person's own plugins."""
        return self.root / "plugins"

    @property
    def hooks(self) -> Path:
        """The person's own readers of the event stream."""
        return self.root / "hooks"

    @property
    def skins(self) -> Path:
        """Colours and words of the terminal."""
        return self.root / "skins"

    @property
    def plans(self) -> Path:
        """Plans that the agent wrote for a person to read."""
        return self.root / "plans"

    @property
    def workspace(self) -> Path:
        """The working folder where no other is given."""
        return self.root / "workspace"

    @property
    def child_home(self) -> Path:
        """HOME of child processes where a container needs one."""
        return self.root / "home"

    @property
    def profiles(self) -> Path:
        """The folder of the other profiles; they lie side by side under the first home."""
        return (self.root if self.profile == DEFAULT_PROFILE else self.root.parent.parent) / "profiles"

    def display(self, path: Path) -> str:
        """The path as people write it, with ~ for the person's home folder."""
        if self.user is not None and path.is_relative_to(self.user):
            rest = path.relative_to(self.user).as_posix()
            return "~" if rest == "." else f"~/{rest}"
        return str(path)

    def folder(self, path: Path) -> Path:
        """Make `path`, a folder under the root, for its owner alone and return it; raises StorageError with the fix."""
        missing: list[Path] = []
        here = path
        try:
            while not here.exists():
                missing.append(here)
                here = here.parent
            for folder in reversed(missing):
                folder.mkdir(mode=OWNER_ONLY, exist_ok=True)
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "there is a file in its place", str(path))
        except OSError as error:
            raise self.unusable(path, error) from error
        return path

    def unusable(self, path: Path, error: OSError) -> StorageError:
        """The error to raise when `path` cannot be written, with a fix for its cause."""
        shown = self.display(path)
        match error.errno:
            case errno.EROFS:
                fix = "the disk is read-only: set MELETE_HOME to a folder that you can write to"
            case errno.ENOSPC | errno.EDQUOT:
                fix = "free some space, then try again"
            case errno.ENOTDIR | errno.EEXIST:
                fix = "move that file away, or set MELETE_HOME to another folder"
            case errno.EACCES | errno.EPERM:
                fix = f"make {self.display(self.root)} yours (chown, chmod u+rwx), or set MELETE_HOME to another folder"
            case _:
                fix = "set MELETE_HOME to a folder that you can write to"
        what = error.strerror or str(error)
        return StorageError(f"cannot write {shown}: {what[:1].lower()}{what[1:]}", kept="nothing was changed", next=fix)


def valid_profile(name: str) -> str:
    """Return `name` if a profile may be called so; raises ConfigError that says what a name is."""
    if not _PROFILE.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not the name of a profile",
            next="use small letters, digits, - and _, at most 64 of them, beginning with a letter or digit",
        )
    return name


def locate(*, home: str, user: str, profile: str = "") -> Home:
    """The home for these values of MELETE_HOME, HOME and MELETE_PROFILE; touches no disk. Empty means not set."""
    person = Path(user) if user else None
    if home:
        root = Path(home)
        if home == "~" or home.startswith("~/"):
            root = (person or Path.home()) / home[2:]
    else:
        root = (person or Path.home()) / ".melete"
    root = root.absolute()
    if profile and valid_profile(profile) != DEFAULT_PROFILE:
        return Home(root=root / "profiles" / profile, user=person, profile=profile)
    return Home(root=root, user=person)
