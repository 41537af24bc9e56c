"""Running a command's asynchronous part: signals, the log file, and the exit status that follows from them."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from melete.app.logs import logging_to
from melete.app.settings import Loaded
from melete.app.wire import Melete, open_melete
from melete.core.errors import MeleteError, UsageError
from melete.surfaces.cli.output import ReaderLeft, err, visible

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BY_SIGNAL = 128
log = logging.getLogger("melete.cli")


def leave(status: int) -> NoReturn:
    """End this process now, and what it started; nothing is waited for. Facts that were stored stay stored."""
    for listing in Path("/proc/self/task").glob("*/children"):  # elsewhere than on Linux there is no such list
        for child in listing.read_text().split():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                group = os.getpgid(int(child))
                if group == os.getpgrp():
                    os.kill(int(child), signal.SIGKILL)
                else:
                    os.killpg(group, signal.SIGKILL)
    os._exit(status)


class Interrupts:
    """What a signal does: the first one calls `stop`, the second ends the process at once."""

    def __init__(self) -> None:
        self.signal = 0
        self.stop: Callable[[], object] = lambda: None

    @property
    def status(self) -> int:
        """The exit status that the signal asks for; 0 when there was none."""
        return BY_SIGNAL + self.signal if self.signal else 0

    def take(self, number: int) -> None:
        """A signal has arrived."""
        if self.signal:
            leave(BY_SIGNAL + number)
        self.signal = number
        self.stop()

    def install(self) -> None:
        """Take the signals that are not ignored, until the event loop closes."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self.take, number)


def run_async(work: Callable[[Interrupts], Awaitable[int]]) -> int:
    """Run `work` to its end and return its status; a signal cancels it, unless it sets `stop` to something gentler."""
    interrupts = Interrupts()
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, SIGNALS
    )  # one that comes while the loop is being built waits for it

    async def body() -> int:
        task = asyncio.current_task()
        if task is not None:
            interrupts.stop = task.cancel
        interrupts.install()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return await work(interrupts)

    try:
        status = asyncio.run(body())
    except asyncio.CancelledError:
        if not interrupts.signal:
            raise
        return interrupts.status
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return interrupts.status or status


def run_with_app(loaded: Loaded, work: Callable[[Melete], Awaitable[int]]) -> int:
    """Run `work` with the wired application to its end and return its status."""

    async def body() -> int:
        async with opened(loaded) as app:
            return await work(app)

    return run_async(lambda _: body())


@asynccontextmanager
async def opened(loaded: Loaded, *, ephemeral: bool = False, as_of: datetime | None = None) -> AsyncGenerator[Melete]:
    """The wired application; what goes wrong inside is kept in the log file with its traceback."""
    unlogged: list[str] = []
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(open_melete(loaded, ephemeral=ephemeral, as_of=as_of))
        if not ephemeral:
            stack.enter_context(logging_to(loaded.home, redact=app.redact, on_failure=unlogged.append))
        try:
            yield app
        except ReaderLeft:
            raise
        except MeleteError as error:
            level = logging.INFO if error.exit_code == UsageError.exit_code else logging.ERROR
            log.log(level, "%s", error, exc_info=level == logging.ERROR)
            raise
        except Exception:
            log.exception("a command failed")
            raise
    for reason in unlogged:  # only where nothing worse was raised: then the reason is the same
        err(f"melete: warning: {visible(reason)}\n")
