"""`melete doctor`: looks at everything that a run needs and says what is wrong and how to mend it. Composition root.

Changes nothing. Goes to the network only when asked to, or when the model is a server on this machine.
"""

import os
import platform
import shutil
import socket
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from melete.app import modelbook
from melete.app.catalog import model_spec
from melete.app.clock import clock_from
from melete.app.env_check import Known, known, no_sandbox
from melete.app.fetch import FetchError
from melete.app.home import Home
from melete.app.key_file import KeyFile
from melete.app.key_strength import own_keys
from melete.app.log_reader import Wanted, read_logs
from melete.app.memory_provider import look
from melete.app.online import Online, listing
from melete.app.places import choose
from melete.app.plugins import add_installed, registry
from melete.app.schedule import system_zone, zone_named
from melete.app.server_keys import Keys
from melete.app.settings import Loaded, find_home, load
from melete.app.sizes import size_of, size_text
from melete.app.vendors import is_loopback
from melete.core.errors import ConfigError, MeleteError, NoModelError
from melete.core.plugin import Lazy
from melete.models import prices
from melete.models.spec import ModelSpec, shown
from melete.store.retention import holdings

_read_memory: Lazy[Callable[[Path], bytes]] = Lazy("melete.memory.files:read")
_texts_of: Lazy[Callable[[bytes], tuple[list[str], bool]]] = Lazy("melete.memory.files:texts_of")
_joined: Lazy[Callable[[Sequence[str]], str]] = Lazy("melete.memory.files:joined")
_unusable: Lazy[Any] = Lazy("melete.memory.files:UnusableError")
Status = Literal["ok", "warn", "fail"]
OLDEST_PYTHON = (3, 11)
PROBE_SECONDS = 3.0
LITTLE_SPACE = 1 << 30
NO_SPACE = 100 << 20
SKEW = timedelta(minutes=5)
OK = 200
UNAUTHORISED = (401, 403)
FIRST_SANE_YEAR = 2025


class Check(Struct, frozen=True, kw_only=True):
    """One thing that was looked at; `fix` is what to do about it, empty when nothing is wrong."""

    name: str
    status: Status
    text: str
    fix: str = ""


def checks(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    profile: str = "",
    online: bool = False,
) -> Iterator[Check]:
    """Yield each check as it is done; takes what `load` takes. A failure of one never stops the others."""
    yield _python()
    yield _sockets()
    try:
        home = find_home(environ=environ, profile=profile)
    except MeleteError as error:
        yield _failed("home", error)
        return
    yield _home(home)
    yield _space(home)
    yield _env_file(home)
    try:
        loaded = load(flags, environ=environ, profile=profile)
    except MeleteError as error:
        yield _failed("settings", error)
    else:
        yield from _with_settings(loaded, online=online)
    yield _models(home)
    yield _search()
    yield _terminal()
    yield _logs(home)


def _with_settings(loaded: Loaded, *, online: bool) -> Iterator[Check]:
    yield _settings(loaded)
    yield _sessions(loaded)
    yield _memory(loaded)
    if loaded.settings.memory.provider:
        yield _memory_provider(loaded)
    yield from _model(loaded, online=online)
    yield _server(loaded)
    yield from _environments(loaded)
    yield _clock(loaded)
    path = loaded.environ.get("PATH")
    yield _program("bash", path, "warn", "install bash: the terminal tool falls back to sh without it")
    yield _program("rg", path, "warn", "install ripgrep: searching large folders is much slower without it")
    yield _program("git", path, "warn", "install git, which most work on code needs")


def _failed(name: str, error: MeleteError, *, status: Status = "fail") -> Check:
    return Check(name=name, status=status, text=error.what, fix="; ".join(p for p in (error.kept, error.next) if p))


def _python() -> Check:
    text = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return Check(name="python", status="fail", text=text, fix="install Python 3.11 or newer")
    return Check(name="python", status="ok", text=text)


def _sockets() -> Check:
    try:
        for end in socket.socketpair():
            end.close()
    except OSError as error:
        return Check(
            name="sockets",
            status="fail",
            text=f"socket pairs are forbidden here ({error.strerror}), and nothing asynchronous works without them",
            fix="allow the socketpair call in the container's seccomp or AppArmor profile",
        )
    return Check(name="sockets", status="ok", text="socket pairs work")


def _home(home: Home) -> Check:
    name, where = "home", home.display(home.root)
    here = home.root
    try:
        while not here.exists():
            here = here.parent
        with tempfile.TemporaryFile(dir=here):
            pass
    except OSError as error:
        return _failed(name, home.unusable(here, error))
    if here != home.root:
        return Check(name=name, status="ok", text=f"{where} is made when it is first needed")
    mode = stat.S_IMODE(here.stat().st_mode)
    if mode & 0o077:
        return Check(name=name, status="warn", text=f"others may look into {where}", fix=f"chmod 700 {where}")
    return Check(name=name, status="ok", text=f"{where} can be written")


def _space(home: Home) -> Check:
    here = home.root
    try:
        while not here.exists():
            here = here.parent
        free = shutil.disk_usage(here).free
    except OSError as error:
        return _failed("space", home.unusable(here, error))
    text = f"{free / (1 << 30):.1f} GiB are free where {home.display(home.root)} is"
    if free < LITTLE_SPACE:
        return Check(name="space", status="fail" if free < NO_SPACE else "warn", text=text, fix="free some space")
    return Check(name="space", status="ok", text=text)


def _env_file(home: Home) -> Check:
    where = home.display(home.env)
    try:
        mode = stat.S_IMODE(home.env.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return Check(name="keys", status="ok", text=f"there is no {where}; keys come from the environment")
    except OSError as error:
        text = f"{where} cannot be read: {error.strerror}"
        return Check(name="keys", status="fail", text=text, fix="check its permissions")
    if mode & 0o077:
        return Check(name="keys", status="warn", text=f"others may read {where}", fix=f"chmod 600 {where}")
    return Check(name="keys", status="ok", text=f"{where} is yours alone")


def _settings(loaded: Loaded) -> Check:
    if loaded.warnings:
        return Check(name="settings", status="warn", text="; ".join(loaded.warnings), fix="see the lines named")
    count = sum(origin.kind != "default" for origin in loaded.origins.values())
    shown_file = loaded.home.display(loaded.home.config)
    if not loaded.home.config.exists():
        shown_file = f"no {shown_file}"
    return Check(name="settings", status="ok", text=f"{shown_file}; {count} settings differ from the defaults")


def _memory(loaded: Loaded) -> Check:
    """How full the person's own files of memory are, and whether they can be read."""
    given, home = loaded.settings.memory, loaded.home
    if not given.enabled:
        return Check(name="memory", status="ok", text="off (memory.enabled)")
    found: list[str] = []
    full = False
    for path, limit in ((home.memory_notes, given.memory_char_limit), (home.user_notes, given.user_char_limit)):
        try:
            used = len(_joined.load()(_texts_of.load()(_read_memory.load()(path))[0]))
        except _unusable.load() as error:
            return Check(name="memory", status="warn", text=f"{home.display(path)}: {error.what}", fix=error.next)
        full = full or used > limit
        found.append(f"{path.name} {used:,} of {limit:,} characters")
    fix = "shorten it with `melete memory edit`; until then nothing more is kept" if full else ""
    return Check(name="memory", status="warn" if full else "ok", text=", ".join(found), fix=fix)


def _memory_provider(loaded: Loaded) -> Check:
    """Whether the memory beside the files can be loaded."""
    name, why = loaded.settings.memory.provider, look(loaded)
    fix = "choose another with `melete config set memory.provider NAME`, or none with ''" if why else ""
    text = f"by the memory {name}" + (f": {why}" if why else "")
    return Check(name="recall", status="warn" if why else "ok", text=text, fix=fix)


def _sessions(loaded: Loaded) -> Check:
    """What the sessions take, and whether a limit of the settings is passed; the age of a log is that of its file."""
    limits = loaded.settings.sessions
    try:
        held = holdings(loaded.home.state)
        most = None if limits.max_bytes is None else size_of(limits.max_bytes, where="sessions.max_bytes")
    except MeleteError as error:
        return _failed("sessions", error, status="warn")
    total = sum(one.total for one in held.sessions.values())
    text = f"{len(held.sessions):,} sessions take {size_text(total)}"
    passed = [f"more than sessions.max_bytes ({size_text(most)})"] if most is not None and total > most else []
    if limits.keep_days is not None:
        oldest = datetime.now(UTC) - timedelta(days=limits.keep_days)
        if old := sum(one.changed < oldest.timestamp() for one in held.sessions.values()):
            passed.append(f"{old:,} did not change for sessions.keep_days ({limits.keep_days}) days")
    if passed:
        text, fix = "; ".join((text, *passed)), "`melete sessions prune -n` shows what would go"
        return Check(name="sessions", status="warn", text=text, fix=fix)
    return Check(name="sessions", status="ok", text=text)


def _model(loaded: Loaded, *, online: bool) -> Iterator[Check]:
    try:
        spec = model_spec(loaded)
        wires = registry()
        add_installed(wires, "models", [spec.wire])
        wires.get("models", spec.wire)
    except NoModelError as error:
        yield _failed("model", error, status="warn")
        return
    except ConfigError as error:
        yield _failed("model", error)
        return
    key = "with a key" if spec.api_key else "without a key"
    parts = urlsplit(spec.base_url)
    local = is_loopback(parts.hostname or "")
    window = f"{spec.can.context:,} tokens{'' if spec.can.known else ' assumed'}"
    text = f"{spec.model} of {spec.vendor} at {shown(spec.base_url) or 'no address'}, {spec.wire}, {window}, {key}"
    if parts.scheme == "http" and spec.api_key and not local:
        yield Check(name="model", status="warn", text=f"{text}, sent unencrypted", fix="use an https address")
    else:
        yield Check(name="model", status="ok", text=text)
    if spec.base_url and (online or local):
        yield from _reach(spec)


def _reach(spec: ModelSpec) -> Iterator[Check]:
    name = "reach"
    try:
        online = listing(spec, seconds=PROBE_SECONDS)
    except FetchError as error:
        if error.status == 0 or error.status in UNAUTHORISED:
            yield _failed(name, error)
        elif error.status == OK:
            yield _failed(name, error, status="warn")
        else:
            yield Check(
                name=name, status="warn", text=f"{error.what}; it may still serve the model", fix=_base_url(spec)
            )
        return
    yield _listed(spec, online)
    if (skew := _skew(online.date)) is not None and abs(skew) > SKEW:
        minutes = round(abs(skew).total_seconds() / 60)
        yield Check(
            name="clock", status="warn", text=f"this clock and the server's differ by {minutes} min", fix="set it"
        )


def _base_url(spec: ModelSpec) -> str:
    """What may be wrong with a base URL under which there is no list of models."""
    path = urlsplit(spec.base_url).path.rstrip("/")
    if spec.wire.startswith("openai-") and not any(part[:1] == "v" and part[1:2].isdigit() for part in path.split("/")):
        return f"check the base URL: most servers want {shown(spec.base_url).rstrip('/')}/v1"
    return "check the base URL"


def _listed(spec: ModelSpec, online: Online) -> Check:
    names = [row.name for row in online.models]
    asked = spec.model.removeprefix("models/")
    if names and asked not in names and f"{asked}:latest" not in names:
        some = ", ".join(sorted(names)[:5]) + (" …" if len(names) > 5 else "")  # noqa: PLR2004 - enough to see the style
        return Check(
            name="reach",
            status="warn",
            text=f"{shown(online.url)} does not list {spec.model}",
            fix=f"it lists {some}",
        )
    return Check(name="reach", status="ok", text=f"{shown(online.url)} answers")


def _models(home: Home) -> Check:
    own = modelbook.path(home)
    try:
        data = own.read_bytes()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        text = f"{home.display(own)} cannot be read: {error.strerror}"
        return Check(name="models", status="warn", text=text, fix="check its permissions")
    if data and not prices.day(data):
        text = f"{home.display(own)} is no list of models, so the one of the package is used"
        return Check(name="models", status="warn", text=text, fix="delete it, or run `melete model refresh`")
    known = sum(modelbook.counts(home).values())
    return Check(name="models", status="ok", text=f"{known:,} models, as of {modelbook.day(home)}")


def _environments(loaded: Loaded) -> Iterator[Check]:
    """Where commands run when nothing is said, and which environments work here besides."""
    wanted = loaded.settings.env.default
    rows = list(known(loaded))
    used = next(row for row in rows if row.default)
    remark = choose(loaded).remark
    how = f"commands run in {used.name} (env.default: {wanted})"
    if not used.works:
        fix = f"{used.fix}; or `melete env use NAME` chooses another".removeprefix("; or ")
        yield Check(name="env", status="fail", text=f"{how}, which does not work here: {used.why}", fix=fix)
    elif remark:
        yield Check(name="env", status="warn", text=remark, fix=no_sandbox(remark))
    else:
        yield Check(name="env", status="ok", text=how)
    others = [row for row in rows if not row.default]
    text = "\n".join(f"{row.name}: {_state(row)}" for row in others)
    if any(row.works for row in others):
        yield Check(name="other envs", status="ok", text=text)
    else:
        yield Check(name="other envs", status="warn", text=text, fix="set one up if you want a choice")


def _state(row: Known) -> str:
    if row.works:
        return "works"
    return f"no, {row.why}" + (f" ({row.fix})" if row.fix else "")


def _server(loaded: Loaded) -> Check:
    """Whether `melete serve` would start; what listens at its address already may be a server of this home."""
    name, own, server = "server", own_keys(loaded.settings.server.api_key), loaded.settings.server
    file = KeyFile(loaded.home)
    try:
        zone = loaded.settings.cron.timezone
        zone_named(zone) if zone else system_zone(loaded.variables)
        clock = clock_from(loaded.variables.get("MELETE_CLOCK", ""))
        Keys(loaded.home, own=server.api_key, hosts=[server.host], clock=clock).check()
        named = len(file.read())
    except MeleteError as error:
        return Check(name=name, status="fail", text=error.what, fix=error.next)
    keys = [*(["your own key"] if own else []), *([f"{named} named"] if named else [])]
    text = f"{server.host}, port {server.port}, {' and '.join(keys) or 'no key is asked for'}"
    if server.port and _listens(server.host, server.port):
        text += "; something listens there now"
    if named and not own:
        fix = f"named keys shut you out of your own server: put MELETE_SERVER_KEY into {loaded.home.display(loaded.home.env)}"
        return Check(name=name, status="warn", text=text, fix=fix)
    return Check(name=name, status="ok", text=text)


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def _skew(date: str) -> timedelta | None:
    try:
        return datetime.now(UTC) - parsedate_to_datetime(date)
    except (ValueError, TypeError):
        return None


def _clock(loaded: Loaded) -> Check:
    if text := loaded.variables.get("MELETE_CLOCK", ""):
        return Check(name="clock", status="warn", text=f"MELETE_CLOCK is set to {text}", fix="unset it outside tests")
    now = datetime.now(UTC)
    if now.year < FIRST_SANE_YEAR:
        return Check(name="clock", status="fail", text=f"the clock says {now:%Y-%m-%d}", fix="set the clock")
    return Check(name="clock", status="ok", text=f"{now:%Y-%m-%d %H:%M} UTC")


def _program(name: str, path: str | None, missing: Status, fix: str) -> Check:
    found = shutil.which(name, path=path or os.defpath)
    if found is None:
        return Check(name=name, status=missing, text="not found on the PATH", fix=fix)
    return Check(name=name, status="ok", text=found)


def _search() -> Check:
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    except sqlite3.Error as error:
        return Check(
            name="sqlite",
            status="fail",
            text=f"SQLite {sqlite3.sqlite_version} has no full-text search ({error})",
            fix="use a Python whose SQLite has FTS5",
        )
    return Check(name="sqlite", status="ok", text=f"SQLite {sqlite3.sqlite_version} with full-text search")


def _terminal() -> Check:
    encoding = (sys.stdout.encoding or "none").lower()
    if encoding.replace("-", "") != "utf8":
        fix = "set LANG to a UTF-8 locale or PYTHONUTF8=1"
        return Check(name="terminal", status="warn", text=f"output is written as {encoding}", fix=fix)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Check(name="terminal", status="ok", text="none: calls that need approval are denied")
    return Check(name="terminal", status="ok", text=f"{shutil.get_terminal_size().columns} columns, UTF-8")


def _logs(home: Home) -> Check:
    since = datetime.now(UTC) - timedelta(days=1)
    try:
        errors = read_logs(home, Wanted(level="ERROR", since=since), limit=1000)
    except MeleteError as error:
        return _failed("logs", error, status="warn")
    if errors:
        text = f"{len(errors)} errors in the last day, the last: {errors[-1].text.splitlines()[0][:120]}"
        return Check(name="logs", status="warn", text=text, fix="`melete logs --level error` shows them")
    return Check(name="logs", status="ok", text="no errors in the last day")


def worst(found: Iterable[Check]) -> Status:
    """The worst status among checks that were done."""
    states = {check.status for check in found}
    return "fail" if "fail" in states else "warn" if "warn" in states else "ok"
