"""The program that runs behind the walls of a sandbox: starts commands there, opens files there, hands descriptors out.

Started by `sandbox.py` as `python inner.py N`, N being its end of a SOCK_SEQPACKET pair. A request is a JSON object with a
number `n`; the answer carries the same number, and `error` [errno, text] where something failed. The end of a command is an
object with `ended` and `code`. A message above `SHORT` bytes travels in a file whose descriptor comes first.

Standard library alone, and little of it: this must be up in milliseconds. Whoever takes this program over has gained nothing
that a command behind the same walls does not have.
"""

import array
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from melete.environments import files, tree

SHORT = 60_000
MOST_DESCRIPTORS = 4


class Inner:
    """One connection to the world outside."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.pids: dict[int, int] = {}
        self.others: dict[int, dict[int, str]] = {}
        self.writings: dict[int, files.Writing] = {}
        self.variables: dict[bytes, bytes] = {}

    def serve(self) -> None:
        """Answer until the other side is gone."""
        wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        poll.register(wake, select.POLLIN)
        self.send({"ready": os.getpid()})
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == wake:
                    os.read(wake, 512)
                    self.collect()
                elif not self.answer():
                    return

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
        room = array.array("i")
        data, extra, _, _ = self.connection.recvmsg(1 << 17, socket.CMSG_SPACE(MOST_DESCRIPTORS * room.itemsize))
        for level, kind, block in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                room.frombytes(block[: len(block) - len(block) % room.itemsize])
        if not data:
            return None, []
        descriptors = list(room)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        message = json.loads(data)
        if "long" in message:
            with open(descriptors.pop(0), "rb") as file:
                file.seek(0)
                message = json.loads(file.read())
        return message, descriptors

    def send(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        """One message; the other side reads them as they come."""
        data = json.dumps(message, ensure_ascii=True).encode()
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
                [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", sent))] if sent else []
            )
        finally:
            if spare >= 0:
                os.close(spare)

    # ---- commands ----

    def do_variables(self, message: Any, *_: Any) -> Any:
        """What commands see; bytes travel as Latin-1."""
        self.variables = {name.encode("latin-1"): value.encode("latin-1") for name, value in message["given"].items()}

    def do_start(self, message: Any, descriptors: list[int], out: list[int]) -> Any:
        os.chdir(message["cwd"])
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
                setsigmask=(), setsigdef=(signal.SIGPIPE, signal.SIGCHLD),
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
        return {"pid": pid}

    def do_end(self, message: Any, *_: Any) -> Any:
        """Ask a command's whole tree to end, or with `force` make it; `alive` says whether something is left."""
        number, pid = message["of"], message["pid"]
        others = {**self.others.get(number, {}), **tree.descendants(pid)}
        self.others[number] = others
        if message["force"]:
            tree.send(pid, others, signal.SIGKILL)
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
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
        client = socket.create_connection(("127.0.0.1", message["port"]), timeout=1)
        client.settimeout(None)
        out.append(client.detach())


def _nothing(*_: object) -> None:
    """Have the signal, so that it wakes the loop."""


if __name__ == "__main__":
    Inner(socket.socket(fileno=int(sys.argv[1]))).serve()
