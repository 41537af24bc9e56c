"""Checkpoints: the state of a working folder before each turn that changes it, in a git store of our own beside the sessions.

The person's own git is never touched: every call names our store, our index and our working folder, reads no settings but ours
and runs no hook and no filter. Contents are kept as they are, byte for byte. What `.gitignore` names is not kept.

    refs/before/N   the folder before the first change of a turn
    refs/after/N    the folder after that turn's last change; what differs from it later was somebody else
    refs/without/N  what was there before that change and is not kept: no rollback writes or removes it
"""

import asyncio
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from melete.core.environment import Checkpoint, Restored
from melete.core.errors import EnvironmentFailure
from melete.environments.hiding import WHOLE
from melete.environments.keeping import ATTRIBUTES, EXCLUDED, NOBODY, SETTINGS, SPECIAL, About, Keeping, Kept, covers
from melete.environments.shared import own_home
from melete.environments.walls import outside
from melete.security.paths import within

T = TypeVar("T")
LATE: Final = 5.0
"""Seconds that another process is waited for which works on the same store."""


def store_of(home: Path, folder: str) -> Path:
    """Where the checkpoints of a working folder lie below Melete's state."""
    return home / "checkpoints" / hashlib.blake2b(os.fsencode(os.path.realpath(folder)), digest_size=12).hexdigest()


def program(path: str, *, cwd: str) -> str:
    """Where git is; empty where it is not. One in the working folder does not count."""
    trusted = outside(path, cwd)
    return (shutil.which("git", path=trusted) if trusted else None) or ""


class GitCheckpoints:
    """`Checkpoints` of one working folder of this machine. `git` is the program's path, empty where there is none.

    What lies below `own`, Melete's home, is never kept or changed. Everything happens in a thread, one at a time for each
    store, whichever process asks, and within `keeping.seconds`.
    """

    def __init__(
        self, folder: str, store: Path, *, git: str, own: str = "", keeping: Keeping | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._folder = os.path.realpath(folder)
        self._store = Path(os.path.realpath(store))
        ours = (str(self._store), os.path.realpath(own) if own else "")
        self._own = [one for one in ours if one and within(one, self._folder)]
        self._git = git
        self._keeping = keeping or Keeping()
        self._now = now
        self._deadline = 0.0
        self._turns: dict[str, tuple[int, str]] = {}
        """The last checkpoint of each turn, and the tree that it has left."""
        self._busy = asyncio.Lock()

    async def before(self, turn: str, *, session: str, label: str = "") -> Checkpoint | None:
        """Keep the folder's state before the first change of a turn; None when that turn has one already.

        What somebody else has changed between two changes of a turn stays theirs.
        """
        return await self._do(lambda: self._before(About(turn=turn, session=session, label=label[:200])))

    async def after(self, turn: str) -> None:
        """Note the state that the turn has left."""
        number, _ = self._turns.get(turn, (0, ""))
        if number:
            self._turns[turn] = (number, await self._do(lambda: self._note(number)))

    async def list(self, *, session: str = "") -> Sequence[Checkpoint]:
        """What can be rolled back to, the newest first."""
        if not self._store.is_dir():
            return ()
        return await self._do(lambda: self._list(session))

    async def diff(self, id: str, *, limit: int = 100_000) -> str:
        """What a rollback to this checkpoint would take back, as a unified diff."""
        return await self._do(lambda: self._diff(id, limit))

    async def restore(self, id: str, *, force: bool = False) -> Restored:
        """Put back what turns have changed since; what somebody else changed since stays, unless `force` says otherwise."""
        return await self._do(lambda: self._restore(id, force=force))

    # ---- below: in a thread, with the store's lock ----

    async def _do(self, work: Callable[[], T]) -> T:
        def locked() -> T:
            with self._locked():
                self._deadline = time.monotonic() + self._keeping.seconds
                self._prepare()
                return work()

        async with self._busy:
            try:
                return await asyncio.shield(asyncio.to_thread(locked))
            except OSError as error:
                raise self._failed(str(error)) from error

    @contextmanager
    def _locked(self) -> Generator[None]:
        if self._folder in WHOLE or self._folder == os.path.realpath(own_home() or "/"):
            raise EnvironmentFailure(
                f"{self._folder} is too much for a checkpoint",
                kept="nothing was kept",
                next="work in a folder of the task's own",
            )
        if not self._git:
            raise EnvironmentFailure("checkpoints need git, and it is not installed", next="install git")
        self._store.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._store / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + LATE
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise self._failed("another process is busy with them") from None
                    time.sleep(0.02)
            yield
        finally:
            os.close(descriptor)

    def _failed(self, why: str) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"the checkpoints of {self._folder} cannot be used: {why}", kept="the files are as they are"
        )

    def _prepare(self) -> None:
        """Make the store at its first use."""
        # one of a process that was killed: we hold the real lock
        self._store.joinpath("index.lock").unlink(missing_ok=True)
        if (self._store / "git" / "HEAD").exists():
            return
        self._run("init", "--quiet", "--bare", str(self._store / "git"), init=True)
        info = self._store / "git" / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(ATTRIBUTES)
        own = [SPECIAL.sub(r"\\\g<0>", one[len(self._folder.rstrip("/")) :]) + "/" for one in self._own]
        (info / "exclude").write_bytes(os.fsencode("\n".join([*EXCLUDED, *own]) + "\n"))
        (self._store / "folder").write_bytes(os.fsencode(self._folder))

    def _run(self, *words: str, stdin: bytes = b"", index: str = "index", init: bool = False, limit: int = 0) -> bytes:
        """What a git command prints; raises EnvironmentFailure."""
        place = {} if init else {"GIT_DIR": str(self._store / "git"), "GIT_WORK_TREE": self._folder}
        variables = {
            **place, "GIT_INDEX_FILE": str(self._store / index), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_ATTR_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "HOME": str(self._store),
            "XDG_CONFIG_HOME": str(self._store), "LC_ALL": "C", "PATH": str(Path(self._git).parent) + ":/usr/bin:/bin",
            "GIT_AUTHOR_NAME": "melete", "GIT_AUTHOR_EMAIL": "-", "GIT_COMMITTER_NAME": "melete", "GIT_COMMITTER_EMAIL": "-",
            "GIT_LITERAL_PATHSPECS": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_PAGER": "cat",
        }  # fmt: skip
        settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        left = max(0.1, self._deadline - time.monotonic())
        try:
            done = subprocess.run(  # noqa: S603 - our own program and words
                [self._git, *settings, *words], input=stdin, capture_output=True, env=variables, cwd=self._folder,
                timeout=left, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise self._failed(f"git {words[0]} took longer than {self._keeping.seconds:g} s") from error
        if done.returncode not in (0, 1 if limit else 0):
            raise self._failed(f"git {words[0]}: {done.stderr.decode('utf-8', 'replace').strip()[:400]}")
        return done.stdout

    def _paths(self, *words: str, index: str = "index") -> "list[bytes]":
        return [path for path in self._run(*words, index=index).split(b"\0") if path]

    # ---- taking ----

    def _before(self, about: About) -> Checkpoint | None:
        tree, large, odd = self._tree()
        if self._turns.get(about.turn, (0, ""))[1] == tree:
            return None
        kept = self._kept()
        mine = next((one for one in reversed(kept) if one.about.turn == about.turn), None)
        if mine and not (mine.after and self._changes(mine.after, tree)):
            self._turns[about.turn] = (mine.number, "")
            return None
        commit, about = self._commit(structs.replace(about, left_out=large), tree)
        number = kept[-1].number + 1 if kept else 1
        self._keep(number, commit, self._without(odd))
        self._turns[about.turn] = (number, "")
        made = Kept(number=number, before=commit, about=about)
        self._prune([*kept, made])
        return None if mine else _shown(made, 1)

    def _note(self, number: int) -> str:
        """Note the folder as it is as what a checkpoint's change has left; returns its tree."""
        tree = self._tree()[0]
        self._run("update-ref", f"refs/after/{number:08d}", self._commit(NOBODY, tree)[0])
        return tree

    def _keep(self, number: int, commit: str, without: "set[bytes]") -> None:
        blob = self._run("hash-object", "-w", "--stdin", stdin=b"\0".join(sorted(without))).decode().strip()
        orders = f"update refs/without/{number:08d} {blob}\nupdate refs/before/{number:08d} {commit}\n"
        self._run("update-ref", "--stdin", stdin=orders.encode())

    def _without(self, odd: "Iterable[bytes]") -> "set[bytes]":
        """What is there and not kept: besides what is `odd` all that is ignored, a folder of nothing else as one with a slash."""
        ignored = self._paths("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        ignored = sorted({*ignored, *odd})
        return {one for one, then in pairwise([*ignored, b""]) if not (one[-1:] == b"/" and then.startswith(one))}

    def _tree(self) -> "tuple[str, int, set[bytes]]":
        """The folder as it is, how many files are too big or too many, and all that is left out and not ignored."""
        large, odd = self._take_in()
        return self._run("write-tree").decode().strip(), large, odd

    def _commit(self, about: About, tree: str = "") -> tuple[str, About]:
        """A commit of a tree, or of the folder as it is."""
        about = structs.replace(about, at=self._now())
        words = ("commit-tree", tree or self._tree()[0])
        return self._run(*words, stdin=msgspec.json.encode(about)).decode().strip(), about

    def _take_in(self) -> "tuple[int, set[bytes]]":
        """Bring our index up to date with the folder; returns how many files are too big or too many, and all it leaves out."""
        found = self._paths("ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard")
        wanted: list[bytes] = []
        gone: list[bytes] = []
        large = 0
        odd = set[bytes]()
        room = self._keeping.megabytes << 20
        linked: dict[bytes, bool] = {}
        for path in dict.fromkeys(found):
            size = GONE if self._through_link(path, linked) else self._size(path)
            if any(within(f"{self._folder}/{os.fsdecode(path)}", one) for one in self._own):
                continue
            if size < 0 or size > min(room, self._keeping.file_megabytes << 20):
                gone.append(path.rstrip(b"/"))
                large += size >= 0
                odd |= set() if size == GONE else {path}
            else:
                wanted.append(path)
                room -= size
        if len(wanted) > self._keeping.files:
            raise self._failed(f"there are more than {self._keeping.files:,} files that nothing ignores")
        pack = ("-c", "core.bigFileThreshold=1") if len(wanted) >= PACKED else ()
        for how, paths in (("--force-remove", gone), ("--replace", wanted)):
            if paths:
                words = (*pack, "update-index", "--add", "--remove", how, "-z", "--stdin")
                self._run(*words, stdin=b"\0".join(paths) + b"\0")
        return large, odd

    def _size(self, path: bytes) -> int:
        """The bytes of a file or link, GONE for one that is not there, OTHER for what cannot be kept."""
        whole = self._at(path)
        try:
            found = whole.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return GONE
        except OSError:
            return OTHER
        if stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and os.access(whole, os.R_OK)):
            return found.st_size
        return OTHER

    def _at(self, path: bytes) -> Path:
        return Path(self._folder, os.fsdecode(path))

    # ---- looking ----

    def _kept(self) -> "list[Kept]":
        """All checkpoints, the oldest first."""
        shape = "--format=%(refname) %(objectname)%00%(contents)%00"
        text = self._run("for-each-ref", "--sort=-refname", shape, "refs/before", "refs/after")
        fields = text.split(b"\0")
        found: dict[int, Kept] = {}
        for head, message in zip(fields[::2], fields[1::2], strict=False):
            name, commit = head.decode().split()
            kind, number = name.split("/")[1], int(name.split("/")[2])
            about = msgspec.json.decode(message, type=About)
            if kind == "before":
                found[number] = Kept(number=number, before=commit, about=about)
            elif number in found:
                found[number] = structs.replace(found[number], after=commit, ended=about.at)
        return [found[number] for number in sorted(found)]

    def _list(self, session: str) -> Sequence[Checkpoint]:
        first: dict[str, Kept] = {}
        for one in self._kept():
            if not session or one.about.session == session:
                first.setdefault(one.about.turn or one.before, one)
        mine = reversed(first.values())
        return [_shown(one, number) for number, one in enumerate(mine, 1)]

    def _from(self, id: str) -> "list[Kept]":
        """The checkpoint and those of the same session behind it; raises EnvironmentFailure for an unknown one."""
        kept = self._kept()
        first = next((one for one in kept if one.before.startswith(id)), None) if len(id) >= SHORTEST else None
        if first is None:
            raise EnvironmentFailure(
                f"there is no checkpoint {id!r}", next="see melete sessions rollback SESSION --list"
            )
        return [one for one in kept if one.number >= first.number and one.about.session == first.about.session]

    def _changes(self, old: str, new: str) -> "set[bytes]":
        if old == new:
            return set()
        return set(self._paths("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new))

    def _plan(
        self, turns: "list[Kept]", now: str, without: "set[bytes]"
    ) -> "tuple[set[bytes], set[bytes], set[bytes]]":
        """What the turns have changed and is not as it was, what of it somebody else changed since, and what cannot be told.

        The last is what no checkpoint holds: what was there before the turns, or is there now.
        """
        ours: set[bytes] = set()
        others: set[bytes] = set()
        for one, following in zip(turns, [*(next_.before for next_ in turns[1:]), now], strict=True):
            ours |= self._changes(one.before, one.after or following)
            others |= self._changes(one.after or following, following)
        for other in self._kept():
            if other.about.session != turns[0].about.session and any(one.holds(other) for one in turns):
                others |= self._changes(other.before, other.after)
        ours &= self._changes(turns[0].before, now)
        was = self._was_without(turns[0].number)
        lost = ours - set(self._paths("ls-tree", "-r", "-z", "--name-only", "--full-tree", turns[0].before))
        untold = {path for path in lost if was is None or covers(was, path)}
        untold |= {path for path in ours if covers(without, path) and os.path.lexists(self._at(path))}
        return ours - untold, (ours & others) - untold, untold

    def _was_without(self, number: int) -> "set[bytes] | None":
        """What a checkpoint left out; None for one of an older version, which does not say."""
        ref = f"refs/without/{number:08d}"
        return set(self._paths("cat-file", "blob", ref)) if self._run("for-each-ref", ref) else None

    def _diff(self, id: str, limit: int) -> str:
        turns = self._from(id)
        tree, _, odd = self._tree()
        now, _ = self._commit(NOBODY, tree)
        ours, others, _ = self._plan(turns, now, self._without(odd))
        if not ours - others:
            return ""
        paths = [os.fsdecode(path) for path in sorted(ours - others)]
        shown = self._run(
            "diff-tree", "-p", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", now, turns[0].before, "--",
            *paths[:MOST_SHOWN],
        )  # fmt: skip
        return shown[:limit].decode("utf-8", "replace")

    # ---- putting back ----

    def _restore(self, id: str, *, force: bool) -> Restored:
        turns = self._from(id)
        target = turns[0]
        label = f"rollback to before: {target.about.label}"[:200]
        tree, _, odd = self._tree()
        without = self._without(odd)
        now, _ = self._commit(About(turn="", session=target.about.session, label=label, kind="rollback"), tree)
        ours, others, untold = self._plan(turns, now, without)
        kept = set[bytes]() if force else others
        wanted = ours - kept
        if not wanted:
            return Restored(kept=_names(kept), untold=_names(untold))
        number = self._kept()[-1].number + 1
        self._keep(number, now, without)
        there = set(self._paths("ls-tree", "-r", "-z", "--name-only", "--full-tree", target.before))
        removed = [path for path in sorted(wanted - there) if self._remove(path)]
        written = sorted(wanted & there)
        self._write(target.before, written)
        self._note(number)
        now_is = self._changes(target.before, self._run("rev-parse", f"refs/after/{number:08d}").decode().strip())
        failed = wanted & now_is
        changed = [path for path in written if path not in failed]
        return Restored(
            changed=_names(changed), removed=_names(removed), kept=_names(kept), failed=_names(failed),
            untold=_names(untold), undo=now[:SHOWN],
        )  # fmt: skip

    def _write(self, commit: str, paths: "Sequence[bytes]") -> None:
        """Write files as a commit has them; git itself follows no link on the way, and replaces one that is there."""
        if not paths:
            return
        modes = {path: self._mode(path) for path in paths}
        (self._store / "putting").unlink(missing_ok=True)
        self._run("read-tree", commit, index="putting")
        self._run(
            "checkout-index", "--force", "-z", "--stdin", stdin=b"\0".join(paths) + b"\0", index="putting", limit=1
        )
        (self._store / "putting").unlink(missing_ok=True)
        for path, mode in modes.items():
            after = self._mode(path)
            if mode >= 0 and after >= 0:
                self._at(path).chmod(mode & 0o666 | ((mode & 0o444) >> 2 if after & 0o100 else 0))

    def _mode(self, path: bytes) -> int:
        """The permissions of a regular file that is reached through no link, -1 for anything else."""
        try:
            found = self._at(path).lstat().st_mode
        except OSError:
            return -1
        return stat.S_IMODE(found) if stat.S_ISREG(found) and not self._through_link(path) else -1

    def _through_link(self, path: bytes, known: "dict[bytes, bool] | None" = None) -> bool:
        """Whether a folder on the way is a link now; `known` remembers folders between questions."""
        folder = path.rpartition(b"/")[0]
        if not folder:
            return False
        known = {} if known is None else known
        if folder not in known:
            known[folder] = self._through_link(folder, known) or self._at(folder).is_symlink()
        return known[folder]

    def _remove(self, path: bytes) -> bool:
        """Remove a file that was not there before, and the folders that are empty then."""
        if self._through_link(path):
            return False
        whole = self._at(path)
        try:
            whole.unlink()
        except OSError:  # what is still there is named as failed
            return False
        for parent in whole.parents:
            if str(parent) == self._folder or any(parent.iterdir()):
                break
            parent.rmdir()
        return True

    # ---- keeping it small ----

    def _prune(self, kept: "Sequence[Kept]") -> None:
        last, turns = kept[-1], dict[str, list[Kept]]()
        for one in kept:
            turns.setdefault(one.about.turn or one.before, []).append(one)
        oldest = self._now() - self._keeping.days * 86_400
        others = [turn for turn in turns.values() if last not in turn]  # the one that goes on is kept whole
        gone = [turn for turn in others if turn[-1].about.at < oldest]
        rest = [turn for turn in others if turn not in gone]
        gone += rest[: max(0, len(rest) + 1 - self._keeping.most)]
        if not gone and last.number % EVERY:
            return
        full = last.number % EVERY == 0 and self._bytes() > self._keeping.megabytes << 20
        if full:
            gone += [turn for turn in rest[: (len(rest) + 1) // 2] if turn not in gone]
        orders = "".join(
            f"delete refs/{kind}/{one.number:08d}\n"
            for turn in gone
            for one in turn
            for kind in ("before", "after", "without")
        )
        if orders:
            self._run("update-ref", "--stdin", stdin=orders.encode())
        if full or (gone and last.number % EVERY == 0):
            self._run("gc", "--quiet", "--prune=now")

    def _bytes(self) -> int:
        objects = self._store / "git" / "objects"
        return sum(path.stat().st_size for path in objects.rglob("*") if path.is_file())


GONE, OTHER = -1, -2
EVERY = 10
"""How many checkpoints lie between two looks at the size of the store."""
PACKED = 100
"""How many new files go into a pack together: a file of its own for each takes six times as long."""
SHOWN, SHORTEST = 12, 6
MOST_SHOWN = 500


def _shown(one: Kept, number: int) -> Checkpoint:
    about = one.about
    return Checkpoint(
        id=one.before[:SHOWN],
        turn=about.turn,
        session=about.session,
        label=about.label,
        at=datetime.fromtimestamp(about.at, UTC),
        kind="rollback" if about.kind == "rollback" else "turn",
        number=number,
        left_out=about.left_out,
    )


def _names(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(os.fsdecode(path) for path in sorted(paths))
