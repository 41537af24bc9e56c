"""The program that runs behind the walls of a sandbox: starts commands there, opens files there, hands descriptors out.

Started by `enclosure.py`, which calls `main` with its end of a SOCK_SEQPACKET pair. A request is a mapping with a number
`n`, in the interpreter's own format; the answer is a JSON object with the same number, and `error` [errno, text] where something
failed. The end of a command is an object with `ended` and `code`. A message above `SHORT` bytes travels in a file whose
descriptor comes first.

Standard library alone, and of it what is written in C: `json`, `socket`, `signal` and `typing` would take twice the time of all
the rest, and this must be up in milliseconds. Whoever takes this program over has gained nothing
that a command behind the same walls does not have.
"""

from __future__ import annotations

import _socket
import fcntl
import marshal
import os
import resource
import select
import sys
import termios
import time
from _json import encode_basestring_ascii

from melete.environments import files, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any
else:
    import _signal

SHORT = 60_000
MOST_DESCRIPTORS = 4
EVERY = 0.25
PASSES = 50
HIGHEST = 256
KILLED_EARLY = "300"
"""When memory runs out, the kernel ends commands before other programs of the same size."""

INT = 4
"""Bytes of a descriptor's number on the wire."""
CHILD, DEFAULT = 17, (13, 17, 25)
"""SIGCHLD; SIGPIPE, SIGCHLD and SIGXFSZ, which commands get back as they are."""


class Inner:
    """One connection to the world outside."""

    def __init__(self, connection: _socket.socket, restrict: Any = None) -> None:
        self.connection = connection
        self.restrict = restrict
        self.most = self.watched = self.strangers = 0
        self.pids: dict[int, int] = {}
        self.others: dict[int, dict[int, str]] = {}
        self.writings: dict[int, files.Writing] = {}
        self.variables: dict[bytes, bytes] = {}

    def serve(self) -> None:
        """Answer until the other side is gone."""
        wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        _signal.signal(CHILD, _nothing)
        _signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        poll.register(wake, select.POLLIN)
        self.send({"ready": os.getpid()})
        while True:
            for descriptor, _ in poll.poll(EVERY * 1000 if self.watched else None):
                if descriptor == wake:
                    os.read(wake, 512)
                    self.collect()
                elif not self.answer():
                    return
            if self.watched and len(tree.pids()) > self.watched:
                self.end_all(set())

    def collect(self) -> None:
        """Tell of every command that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for number, known in list(self.pids.items()):
                if known == pid:
                    del self.pids[number]
                    self.send({"ended": number, "code": os.waitstatus_to_exitcode(status)})

    def answer(self) -> bool:
        """Do what one message asks; False when there will be no more."""
        message, descriptors = self.receive()
        if message is None:
            return False
        reply: dict[str, Any] = {}
        out: list[int] = []
        try:
            reply = getattr(self, "do_" + message["do"])(message, descriptors, out) or {}
        except OSError as error:
            reply = {"error": [error.errno or 0, error.strerror or str(error)]}
        except Exception as error:
            reply = {"error": [0, repr(error)]}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self.send({"n": message["n"], **reply}, out)
        for descriptor in out:
            if descriptor not in [w.descriptor for w in self.writings.values()]:
                os.close(descriptor)
        return True

    def receive(self) -> tuple[Any, list[int]]:
        """One message and the descriptors that came with it."""
        data, extra, _, _ = self.connection.recvmsg(1 << 17, _socket.CMSG_SPACE(MOST_DESCRIPTORS * INT))
        descriptors: list[int] = []
        for level, kind, block in extra:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                descriptors += [
                    int.from_bytes(block[at : at + INT], sys.byteorder) for at in range(0, len(block) - INT + 1, INT)
                ]
        if not data:
            return None, []
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        message = marshal.loads(data)  # noqa: S302 - from the agent
        if "long" in message:
            with open(descriptors.pop(0), "rb") as file:
                file.seek(0)
                message = marshal.loads(file.read())  # noqa: S302 - from the agent
        return message, descriptors

    def send(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        """One message; the other side reads them as they come."""
        data = _json(message).encode("ascii")
        sent = descriptors or []
        spare = -1
        if len(data) > SHORT:
            spare = os.memfd_create("message", os.MFD_CLOEXEC)
            view = memoryview(data)
            while view:
                view = view[os.write(spare, view) :]
            data, sent = b'{"long":1}', [spare, *sent]
        try:
            self.connection.sendmsg(
                [data],
                [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, b"".join(one.to_bytes(INT, sys.byteorder) for one in sent))]
                if sent
                else [],
            )
        finally:
            if spare >= 0:
                os.close(spare)

    def leave(self) -> None:
        """Kill all that runs here and wait a moment for its end."""
        self.end_all(set())
        until = time.monotonic() + 1
        while time.monotonic() < until:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.002)
            except ChildProcessError:
                return

    def end_all(self, spared: set[int]) -> None:
        """Kill what runs here but for the sessions `spared`: stop all first, so that nothing new begins meanwhile."""
        seen: set[int] = set()
        for _ in range(PASSES):
            found = {pid for pid in tree.descendants(os.getpid()) if pid not in spared}
            found = {pid for pid in found if int((tree.fields(pid) or [0] * 4)[3]) not in spared}
            for pid in found:
                _strike(pid, tree.STOP)
            if found <= seen:
                break
            seen |= found
        for pid in seen:
            _strike(pid, tree.KILL)

    # ---- commands ----

    def do_begin(self, message: Any, *_: Any) -> Any:
        """What commands see, bytes as Latin-1, and what bounds them."""
        self.variables = {name.encode("latin-1"): value.encode("latin-1") for name, value in message["given"].items()}
        limits = message["limits"]
        _limit(resource.RLIMIT_CORE, 0)
        if limits["file"]:
            _limit(resource.RLIMIT_FSIZE, limits["file"])
        if limits["processes"]:
            _limit(resource.RLIMIT_NPROC, limits["processes"] + 1)
        self.strangers = len(tree.pids()) if self.restrict is not None else 0
        self.most, self.watched = limits["most"], limits["watched"]
        try:
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write(KILLED_EARLY)
        except OSError:
            pass  # it was higher already

    def do_give(self, message: Any, *_: Any) -> Any:
        """More that commands see, bytes as Latin-1."""
        self.variables |= {name.encode("latin-1"): value.encode("latin-1") for name, value in message["given"].items()}

    def do_restrict(self, message: Any, *_: Any) -> Any:
        """Wall this program in, where nothing else has."""
        self.restrict(message["grants"], bytes.fromhex(message["filter"]))

    def do_sweep(self, message: Any, *_: Any) -> Any:
        """Kill what commands left behind, or with `all` the commands as well."""
        self.end_all(set() if message["all"] else set(self.pids.values()))

    def crowded(self) -> bool:
        """Whether so much runs here that a command could hardly start another; what earlier ones left is then killed."""
        many = self.most * 3 // 4
        if len(tree.pids()) - self.strangers < many or (self.strangers and len(tree.descendants(os.getpid())) < many):
            return False
        self.end_all(set(self.pids.values()))
        return True

    def do_start(self, message: Any, descriptors: list[int], out: list[int]) -> Any:
        swept = self.crowded()
        os.chdir(message["cwd"])
        if message["pty"] and descriptors:
            return self.start_on(descriptors[0], message)
        if message["pty"]:
            mine, its = os.openpty()
            actions = [(os.POSIX_SPAWN_OPEN, 0, os.ttyname(its), os.O_RDWR, 0)]  # a session's first terminal is its own
            actions += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
        else:
            source, target = (descriptors[0], descriptors[1]) if len(descriptors) > 1 else (-1, descriptors[0])
            nothing = (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)
            actions = [(os.POSIX_SPAWN_DUP2, source, 0) if source >= 0 else nothing]
            actions += [(os.POSIX_SPAWN_DUP2, target, 1), (os.POSIX_SPAWN_DUP2, target, 2)]
            mine = its = -1
        try:
            pid = os.posix_spawnp(
                message["argv"][0], message["argv"], self.variables, file_actions=actions, setsid=True,
                setsigmask=(), setsigdef=DEFAULT,
            )  # fmt: skip
        except BaseException:
            if mine >= 0:
                os.close(mine)
            raise
        finally:
            if its >= 0:
                os.close(its)
            os.chdir("/")
        self.pids[message["n"]] = pid
        if mine >= 0:
            out.append(mine)
        return {"pid": pid, "swept": swept}

    def start_on(self, terminal: int, message: Any) -> Any:
        """Start a command on a terminal that was made outside and has no name here."""
        report, told = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
                for number in (0, 1, 2):
                    os.dup2(terminal, number)
                for one in DEFAULT:
                    _signal.signal(one, _signal.SIG_DFL)
                os.execvpe(message["argv"][0], message["argv"], self.variables)  # noqa: S606 - what it is for
            except BaseException as error:
                os.write(told, str(getattr(error, "errno", 0) or 0).encode())
            finally:
                os._exit(127)
        os.close(told)
        os.chdir("/")
        failed = os.read(report, 16)
        os.close(report)
        if failed:
            os.waitpid(pid, 0)
            raise OSError(int(failed), os.strerror(int(failed)))
        self.pids[message["n"]] = pid
        return {"pid": pid}

    def do_end(self, message: Any, *_: Any) -> Any:
        """Ask a command's whole tree to end, or with `force` make it; `alive` says whether something is left."""
        pid: int = message["pid"]
        others = {**self.others.get(message["of"], {}), **tree.descendants(pid)}
        self.others[message["of"]] = others
        if message["force"]:
            for _turn in range(PASSES):  # what is stopped starts nothing more
                tree.send(pid, others, tree.STOP)
                more = tree.descendants(pid)
                if more.keys() <= others.keys():
                    break
                others.update(more)
            tree.send(pid, others, tree.KILL)
        else:
            tree.ask_to_end(pid, others)

    def do_alive(self, message: Any, *_: Any) -> Any:
        number, pid = message["of"], message["pid"]
        others = self.others.get(number, {})
        alive = tree.group_breathes(pid) or any(tree.born(one) == birth for one, birth in others.items())
        if not alive:
            self.others.pop(number, None)
        return {"alive": alive}

    # ---- files ----

    def do_open(self, message: Any, _: list[int], out: list[int]) -> Any:
        descriptor, size = files.opened(message["path"])
        out.append(descriptor)
        return {"size": size}

    def do_describe(self, message: Any, *_: Any) -> Any:
        return {"found": files.described(message["path"])}

    def do_list(self, message: Any, *_: Any) -> Any:
        return {"rows": files.listed(message["path"])}

    def do_write(self, message: Any, _: list[int], out: list[int]) -> Any:
        writing = files.Writing(message["path"])
        self.writings[message["n"]] = writing
        out.append(writing.descriptor)

    def do_commit(self, message: Any, *_: Any) -> Any:
        self.writings.pop(message["of"]).commit()

    def do_discard(self, message: Any, *_: Any) -> Any:
        self.writings.pop(message["of"]).discard()

    def do_remove(self, message: Any, *_: Any) -> Any:
        os.unlink(message["path"])

    def do_move(self, message: Any, *_: Any) -> Any:
        files.moved(message["path"], message["to"])

    def do_folder(self, message: Any, *_: Any) -> Any:
        os.makedirs(message["path"], mode=0o700, exist_ok=True)

    # ---- the network behind the walls ----

    def do_listen(self, message: Any, _: list[int], out: list[int]) -> Any:
        """A listening socket on a port of the loopback here; whoever holds it answers."""
        server = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        server.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", message["port"]))
            server.listen(64)
            port = server.getsockname()[1]
        except BaseException:
            server.close()
            raise
        out.append(server.detach())
        return {"port": port}

    def do_connect(self, message: Any, _: list[int], out: list[int]) -> Any:
        """A connection to what listens on a port of the loopback here."""
        client = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        client.settimeout(1)
        try:
            client.connect(("127.0.0.1", message["port"]))
        except BaseException:
            client.close()
            raise
        client.settimeout(None)
        out.append(client.detach())


def _json(value: object) -> str:
    """A value as JSON, in ASCII."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, dict):
        rows: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return "{" + ",".join(f'"{name}":{_json(one)}' for name, one in rows.items()) + "}"
    if isinstance(value, (list, tuple)):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return "[" + ",".join(map(_json, items)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def _nothing(*_: object) -> None:
    """Have the signal, so that it wakes the loop."""


def _strike(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # it is gone


def _limit(which: int, most: int) -> None:
    """Lower a limit for good, unless it is lower already."""
    hard = resource.getrlimit(which)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))


def main(descriptor: int, restrict: Any = None) -> None:
    """Serve the connection; `restrict` walls this program in when asked to."""
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, HIGHEST)
    os.set_inheritable(descriptor, False)
    inner = Inner(_socket.socket(fileno=descriptor), restrict)
    try:
        inner.serve()
    except OSError:
        pass  # the agent went away in the middle of a word
    finally:
        inner.leave()
