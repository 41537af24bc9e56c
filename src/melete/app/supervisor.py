"""What a service manager such as systemd says to a process that it starts, and wants to hear. Part of the composition root.

The protocols are those of sd_notify(3) and sd_listen_fds(3): datagrams to the socket that NOTIFY_SOCKET names, and listening
sockets from file descriptor 3 on.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence

log = logging.getLogger("melete.supervisor")
FIRST = 3
"""The first file descriptor that is handed over."""


class Supervisor:
    """Whoever started this process, as the environment `environ` names it; without one nothing is sent."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        wanted = environ.get("WATCHDOG_USEC", "")
        self._every = int(wanted) / 2_000_000 if mine and wanted.isdecimal() else 0.0

    def tell(self, state: str) -> None:
        """Send a line such as `READY=1`; one that cannot be sent is logged."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.sendto(state.encode(), address)
        except OSError as error:
            log.warning("the service manager could not be told %s: %s", state, error)

    async def stay_alive(self) -> None:
        """Say that the event loop turns, as often as the service manager wants to hear it, until cancelled."""
        while self._every:
            self.tell("WATCHDOG=1")
            await asyncio.sleep(self._every)


def handed_over(environ: Mapping[str, str]) -> Sequence[socket.socket]:
    """The listening sockets that this process was started with; none where it was not started for one."""
    if environ.get("LISTEN_PID", "") != str(os.getpid()) or not environ.get("LISTEN_FDS", "").isdecimal():
        return ()
    found: list[socket.socket] = []
    for number in range(FIRST, FIRST + int(environ["LISTEN_FDS"])):
        os.set_inheritable(number, False)
        given = socket.socket(fileno=number)
        given.setblocking(False)
        found.append(given)
    return found
