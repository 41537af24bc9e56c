"""The program that runs the code of `execute_code`, wherever that is: its text goes to `python3 -c`, nothing is installed there.

It takes its standard input and output for the talk with the agent and gives the code others, so that whatever the code and its
programs print is counted as output. A frame is a letter, the length in four bytes and that much data; `h` greets, `o` is
output, `c` a call, and what comes back is the job first and then one result for each call. Standard library alone, Python 3.8
or later. The code may do to this program what it likes: the agent trusts nothing that comes out of it.
"""

from __future__ import annotations

import sys

if sys.path and not sys.path[0]:
    del sys.path[0]  # a file of the working folder must not pass for a module of the standard library here

import atexit
import itertools
import json
import keyword
import linecache
import os
import struct
import threading
import traceback
import types
from typing import Any, TextIO

HELLO = b"\0melete\0"
OWN = "<melete>"
THEIRS = "<code>"
PIECE = 1 << 16
LONGEST_CALL = 8_000_000
LINGER = 0.3


class ToolError(Exception):
    """A call that failed: the text says why, `result` is what the tool gave back."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(str(result.get("error", "")))
        self.result = result


ToolError.__module__ = "melete_tools"  # where the code imports it from


class Line:
    """The talk with the agent."""

    def __init__(self, hear: int, talk: int) -> None:
        self._hear = hear
        self._talk = talk
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, threading.Event] = {}
        self._results: dict[int, dict[str, Any]] = {}

    def send(self, kind: bytes, data: bytes) -> None:
        """One frame."""
        view = memoryview(kind + struct.pack(">I", len(data)) + data)
        with self._lock:
            while view:
                view = view[os.write(self._talk, view) :]

    def receive(self) -> dict[str, Any]:
        """One message; the program ends when the agent is gone."""
        (length,) = struct.unpack(">I", self._exactly(4))
        return json.loads(self._exactly(length))

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = os.read(self._hear, length - len(data))
            if not piece:
                os._exit(1)
            data += piece
        return data

    def listen(self) -> None:
        """Hand results to those who wait for them."""
        while True:
            message = self.receive()
            number = message["id"]
            self._results[number] = message["result"]
            self._waiting[number].set()

    def pump(self, source: int) -> None:
        """Send on what the code prints."""
        while True:
            data = os.read(source, PIECE)
            if not data:
                return
            self.send(b"o", data)

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and wait for its result; raises ToolError."""
        if os.getpid() != self._pid:
            raise ToolError({"error": "tools can be called from the code's own process only, not from a fork of it"})
        number = next(self._numbers)
        text = json.dumps({"id": number, "name": name, "arguments": arguments}, default=_plain, allow_nan=False)
        if len(text) > LONGEST_CALL:
            raise ToolError({"error": f"the arguments are longer than {LONGEST_CALL} bytes"})
        done = self._waiting[number] = threading.Event()
        self.send(b"c", text.encode())
        done.wait()
        del self._waiting[number]
        result = self._results.pop(number)
        if "error" in result:
            raise ToolError(result)
        return result


def _plain(value: Any) -> Any:
    """What JSON has no form for."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(os.fspath(value))  # pyright: ignore[reportUnknownArgumentType]


def functions(line: Line, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """A function for each tool, with the parameters of its schema by name."""
    names: dict[str, Any] = {"ToolError": ToolError, "call_tool": lambda name, **given: line.call(name, given)}  # pyright: ignore
    for tool in tools:
        name: str = tool["name"]
        schema: dict[str, Any] = tool["parameters"]
        required: list[str] = schema.get("required", [])
        fields: list[str] = [*required, *(f for f in schema.get("properties", {}) if f not in required)]
        if not all(map(_usable, [name, *fields])):
            continue  # call_tool reaches it
        shown = ", ".join(f if f in required else f"{f}=..." for f in fields)
        given = ", ".join(f"{f!r}: {f}" for f in fields)
        text = (
            f"def {name}({shown}):\n return _call({name!r}, {{k: v for k, v in {{{given}}}.items() if v is not ...}})"
        )
        made: dict[str, Any] = {"_call": line.call}
        exec(compile(text, OWN, "exec"), made)  # noqa: S102 - every name in it was looked at
        names[name] = made[name]
        names[name].__doc__ = tool["about"]
        names[name].__module__ = "melete_tools"
    return names


def _usable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def run(code: str, names: dict[str, Any]) -> int:
    """Run the code as the main module; its exit status."""
    main = types.ModuleType("__main__")
    main.__dict__.update(names)
    sys.modules["__main__"] = main
    linecache.cache[THEIRS] = (len(code), None, code.splitlines(True), THEIRS)
    try:
        exec(compile(code, THEIRS, "exec"), main.__dict__)  # noqa: S102 - running code is what it is for
    except SystemExit as error:
        return _status(error.code)
    except BaseException as error:  # noqa: BLE001 - the person's code may raise anything
        show(error)
        return 1
    return 0


def _status(code: Any) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def show(error: BaseException) -> None:
    """Print a traceback without the frames of this program."""
    told = traceback.TracebackException(type(error), error, error.__traceback__)
    seen: list[Any] = [told]
    for one in seen:
        one.stack[:] = [frame for frame in one.stack if frame.filename != OWN]
        more: list[Any] = [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
        seen.extend(other for other in more if other is not None and all(other is not known for known in seen))
    sys.stderr.write("".join(told.format()))


def _text(descriptor: int) -> TextIO:
    """A stream over what a descriptor now is; the one from the start remembers what it was, a file perhaps."""
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def main() -> None:
    """Take the streams, run the job, end."""
    hear, talk = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    source, target = os.pipe()
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    sys.stdout = sys.__stdout__ = _text(1)
    sys.stderr = sys.__stderr__ = _text(2)
    line = Line(hear, talk)
    os.write(talk, HELLO)
    job = line.receive()
    pump = threading.Thread(target=line.pump, args=(source,), daemon=True)
    pump.start()
    threading.Thread(target=line.listen, daemon=True).start()
    names = functions(line, job["tools"])
    module = types.ModuleType("melete_tools", "The agent's tools as functions.")
    module.__dict__.update(names)
    sys.modules["melete_tools"] = module
    sys.argv = [""]
    sys.path.insert(0, "")
    pid = os.getpid()
    status = run(job["code"], names)
    if os.getpid() == pid:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()  # pyright: ignore
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if os.getpid() == pid:
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        pump.join(LINGER)  # a program that the code left running may hold the pipe
    os._exit(status)


if __name__ == "melete_inside":
    main()
