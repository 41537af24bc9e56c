"""A small HTTP/1.1 server on loopback that can also misbehave: reset, stall, cut. Part `testing`.

One thread for each connection and blocking sockets: nothing here takes long enough to be seen in a measurement, and a handler
may wait or break its connection without regard for others.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from msgspec import Struct

HOST = "127.0.0.1"
HEAD_LIMIT = 1_000_000
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests", 500: "Error"}


class Received(Struct, frozen=True, kw_only=True):
    """A request byte for byte: `at` is the monotonic time when its last byte was there, header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


class GoneError(ConnectionError):
    """The other side went away, or the server is closing."""


class Connection:
    """One client's connection, as a handler sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._rest = b""
        self._chunked = False
        self._interrupted = threading.Event()
        self.open = True

    def receive(self) -> Received | None:
        """The next request, or None when the client is done; raises GoneError in the middle of one."""
        while b"\r\n\r\n" not in self._rest:
            if len(self._rest) > HEAD_LIMIT or not self._more():
                return None
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = (*first.split(" "), "", "")[:3]
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            known = headers.get(name.strip().lower())
            headers[name.strip().lower()] = value.strip() if known is None else f"{known}, {value.strip()}"
        body = self._body(headers)
        return Received(method=method, target=target, headers=headers, body=body, at=time.monotonic())

    def begin(self, status: int, *, headers: Mapping[str, str], length: int | None) -> None:
        """Send the head; with `length` None the body follows in chunks until `finish`."""
        self._chunked = length is None
        framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}", framing]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._send("\r\n".join((*lines, "", "")).encode("latin-1"))

    def send(self, piece: bytes) -> None:
        """Send a piece of the body."""
        self._send(self._framed(piece))

    def finish(self, piece: bytes) -> None:
        """Send the last piece and the end of the body in one write."""
        self._send(self._framed(piece) + (b"0\r\n\r\n" if self._chunked else b""))

    def wait(self, seconds: float) -> None:
        """Let time pass; raises GoneError as soon as the client hangs up."""
        until = time.monotonic() + seconds
        self._sock.settimeout(max(seconds, 0.000_001))
        try:
            if not self._sock.recv(1, socket.MSG_PEEK):
                raise GoneError("the client hung up while it waited")
        except TimeoutError:
            return
        finally:
            self._sock.settimeout(None)
        if self._interrupted.wait(max(0.0, until - time.monotonic())):  # a client that sends ahead
            raise GoneError("the server is closing")

    def reset(self) -> None:
        """Break the connection so that the client sees a reset."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self.open = False
        self._sock.close()

    def interrupt(self) -> None:
        """Wake whoever waits on this connection, from another thread."""
        self._interrupted.set()
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # it is closed or was never connected: nobody waits
            return

    def _framed(self, piece: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked and piece else piece

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self._exactly(int(headers.get("content-length") or 0))
        found: list[bytes] = []
        while size := int(self._line().split(b";")[0], 16):
            found.append(self._exactly(size))
            self._line()
        self._line()
        return b"".join(found)

    def _exactly(self, size: int) -> bytes:
        parts, missing = [self._rest], size - len(self._rest)
        while missing > 0:
            part = self._sock.recv(1 << 16)
            if not part:
                raise GoneError("the client hung up inside a request")
            parts.append(part)
            missing -= len(part)
        everything = b"".join(parts)
        self._rest = everything[size:]
        return everything[:size]

    def _line(self) -> bytes:
        while b"\r\n" not in self._rest:
            if not self._more():
                raise GoneError("the client hung up inside a request")
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def _more(self) -> bool:
        part = self._sock.recv(1 << 16)
        self._rest += part
        return bool(part)

    def _send(self, data: bytes) -> None:
        if data:
            self._sock.sendall(data)


Handler = Callable[[Connection, Received], None]


class LoopbackServer:
    """Listens on 127.0.0.1 from construction on and hands each request to `handler`, in the thread of its connection.

    Raises OSError when the port is taken. Leaving the block, or `close`, ends every connection and thread.
    """

    def __init__(self, handler: Handler, *, port: int = 0) -> None:
        self._handler = handler
        self._listener = socket.create_server((HOST, port), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._closing = False
        self._connections: set[Connection] = set()
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, name=f"loopback-{self.port}", daemon=True)
        self._acceptor.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, end every connection, and wait for their threads; a second call does nothing."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        socket.create_connection((HOST, self.port)).close()  # wakes accept on every system
        self._acceptor.join()
        self._listener.close()
        with self._lock:
            for connection in self._connections:
                connection.interrupt()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            with self._lock:
                if self._closing:
                    sock.close()
                    return
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = Connection(sock)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._connections.add(connection)
                self._threads = [*(known for known in self._threads if known.is_alive()), thread]
                thread.start()

    def _serve(self, connection: Connection) -> None:
        try:
            while connection.open and (received := connection.receive()) is not None:
                self._handler(connection, received)
                if received.headers.get("connection", "").lower() == "close":
                    break
        except OSError:  # the client went away, which is its right
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()
