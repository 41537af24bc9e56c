"""What `melete env` and the doctor say of environments: which there are, whether they work here, and a real try of one.

Part of the composition root.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal, cast

from msgspec import Struct, structs

from melete.app import config_edit
from melete.app.places import AUTO, choose, names, opener_of, place_of
from melete.app.plugins import registry
from melete.app.settings import Loaded
from melete.core.environment import Environment, Missing, Opener, Place
from melete.core.errors import EnvironmentFailure, MeleteError, UsageError
from melete.core.plugin import Lazy

TRY_SECONDS = 30.0
TOUCH = "(: > .melete-check-$$) 2>/dev/null && rm -f .melete-check-$$ && echo yes"
SAID = "melete says hello, and ünï 日本\n"
_usable: Lazy[Callable[[Loaded], str]] = Lazy("melete.app.usable:why_no_sandbox")


class Known(Struct, frozen=True, kw_only=True):
    """An environment by name: whether it works here, else `why` not and a `fix`; `default` is the one that is used unasked."""

    name: str
    works: bool
    why: str = ""
    fix: str = ""
    default: bool = False


class Step(Struct, frozen=True, kw_only=True):
    """One step of a try: what was looked at, how it went, and what to do when it went wrong."""

    name: str
    status: Literal["ok", "warn", "fail"]
    text: str
    fix: str = ""


def known(loaded: Loaded) -> Iterator[Known]:
    """Each environment, looked at without starting it."""
    default = choose(loaded).name
    listed = names(registry())
    for name in listed if default in listed else [*listed, default]:
        missing = look(loaded, name)
        why, fix = (missing.why, missing.fix) if missing else ("", "")
        yield Known(name=name, works=missing is None, why=why, fix=fix, default=name == default)


def look(loaded: Loaded, name: str, *, cwd: str = "") -> Missing | None:
    """Why an environment would not work here; None where it should. Nothing is started."""
    try:
        if name == "sandbox" and (why := _usable.load()(loaded)):  # tried, which `missing` must not
            return Missing(why=why, fix=no_sandbox(why))
        opener, place = _opener(loaded, name, cwd=cwd)
        judge: Callable[[Place], Missing | None] | None = getattr(opener, "missing", None)
        if judge is not None:
            return judge(place)
        opener(place)
    except MeleteError as error:
        return Missing(why=error.what, fix=error.next)
    except Exception as error:  # noqa: BLE001 - what others wrote may fail in any way; here it is told
        return Missing(why=f"{type(error).__name__}: {error}", fix=f"update or remove the package that brings {name}")
    return None


def no_sandbox(why: str) -> str:
    """What to do where the sandbox does not work."""
    if "not installed" in why:
        return "install bubblewrap with your system's package manager"
    if "Linux" in why:
        return "use docker, or local"
    return (
        "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, and on systems with AppArmor a profile that lets "
        "bwrap have them (kernel.apparmor_restrict_unprivileged_userns); or use docker, or local"
    )


async def attempt(loaded: Loaded, name: str, *, cwd: str = "") -> AsyncIterator[Step]:
    """Open an environment, run commands and move a file, step by step; ends with the first step that fails."""
    missing = look(loaded, name, cwd=cwd)
    if missing is not None:
        yield Step(name="here", status="fail", text=missing.why, fix=missing.fix)
        return
    yield Step(name="here", status="ok", text="it should work here")
    async with AsyncExitStack() as stack:
        try:
            opener, place = _opener(loaded, name, cwd=cwd)
            env = opener(place)
            stack.push_async_callback(env.aclose)
            for doing in (_start, _command, _folder, _file):
                step = await doing(env)
                yield step
                if step.status == "fail":
                    return
            for step in await _about(env):
                yield step
        except (MeleteError, OSError) as error:
            failure = error if isinstance(error, MeleteError) else EnvironmentFailure(str(error))
            fix = "; ".join(part for part in (failure.kept, failure.next) if part)
            yield Step(
                name="try", status="fail", text=failure.what, fix=fix or "`melete env list` shows what works here"
            )


async def use(loaded: Loaded, name: str) -> list[Step]:
    """Make an environment the default, after a try; the steps of it are returned.

    Raises ConfigError for a name that nobody has, and EnvironmentFailure when it does not work, with the settings as they were.
    """
    if name != AUTO:
        steps = [step async for step in attempt(loaded, of_name(name))]
        if failed := next((step for step in steps if step.status == "fail"), None):
            raise EnvironmentFailure(
                f"{name} does not work here: {failed.text}",
                kept="nothing was changed",
                next=f"{failed.fix or 'mend it'}; `melete config set env.default {name}` sets it all the same",
            )
    else:
        steps = []
    config_edit.set_value(loaded.home, "env.default", name)
    return steps


def of_name(name: str) -> str:
    """The name itself; raises ConfigError for one that nobody has, with the nearest."""
    opener_of(registry(), name)
    return name


def _opener(loaded: Loaded, name: str, *, cwd: str = "") -> tuple[Opener, Place]:
    """What makes the environment, and what it is made from: nothing of a try is kept or copied."""
    opener = opener_of(registry(), name)
    place = place_of(loaded, name, cwd=_working_folder(cwd), key=f"check-{token_hex(4)}")
    return opener, structs.replace(place, options=_passing(place.options))


def _working_folder(cwd: str) -> str:
    if cwd and not Path(cwd).is_dir():
        raise UsageError(f"--cwd {cwd} is no folder", next="give one that exists")
    try:
        return cwd or str(Path.cwd())
    except FileNotFoundError as error:
        raise UsageError("the folder in which this was started is gone", next="go to another, or give --cwd") from error


def _passing(options: Any) -> Any:
    if not isinstance(options, Struct):
        return options
    passing = {field: False for field in ("keep", "sync") if hasattr(options, field)}
    return structs.replace(options, **passing)


# ---- the steps -------------------------------------------------------------------------------------------------------


async def _start(env: Environment) -> Step:
    begun = time.monotonic()
    done = await env.exec(["true"], timeout=TRY_SECONDS * 10)
    first = time.monotonic() - begun
    begun = time.monotonic()
    await env.exec(["true"], timeout=TRY_SECONDS)
    again = time.monotonic() - begun
    if done.code != 0:
        said = done.output.decode("utf-8", "replace").strip() or f"status {done.code}"
        return Step(name="start", status="fail", text=f"the first command failed: {said}", fix="see what it says")
    return Step(name="start", status="ok", text=f"the first command took {_ms(first)}, the next {_ms(again)}")


async def _command(env: Environment) -> Step:
    script = "uname -srm; id -un 2>/dev/null || id -u; command -v bash || echo no bash"
    done = await env.exec(["sh", "-c", script], timeout=TRY_SECONDS)
    lines = done.output.decode("utf-8", "replace").split("\n")
    if done.code != 0 or len(lines) < 3:  # noqa: PLR2004 - one for each of the three commands
        return Step(name="shell", status="fail", text="sh does not work there", fix="use an image that has a shell")
    system, user, shell = lines[:3]
    if not shell.startswith("/"):
        return Step(name="shell", status="warn", text=f"{system} as {user}, without bash", fix="install bash there")
    return Step(name="shell", status="ok", text=f"{system} as {user}")


async def _folder(env: Environment) -> Step:
    done = await env.exec(["sh", "-c", TOUCH], timeout=TRY_SECONDS)
    if done.output.strip() == b"yes":
        return Step(name="folder", status="ok", text=f"{env.cwd} can be written")
    fix = "go to a folder that may be written, or check its owner"
    return Step(name="folder", status="warn", text=f"{env.cwd} can only be read", fix=fix)


async def _file(env: Environment) -> Step:
    path = f"{await env.temp()}/melete-check-{token_hex(4)}"
    await env.write(path, SAID.encode())
    seen = (await env.exec(["cat", path], timeout=TRY_SECONDS)).output
    back = await env.read(path)
    await env.remove(path)
    if not seen == back == SAID.encode():
        return Step(name="files", status="fail", text="a file did not come back as it was written", fix="report this")
    return Step(name="files", status="ok", text="a file was written, read by a command and by the agent, and removed")


async def _about(env: Environment) -> Sequence[Step]:
    tell = getattr(env, "about", None)
    if tell is None:
        return ()
    told = cast("Mapping[str, Sequence[str]]", await tell())
    return [Step(name=name, status="ok", text="\n".join(lines)) for name, lines in told.items() if lines]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
