"""A process that walls itself in: Landlock's rules for files and signals, a filter for system calls, no privileges.

The second choice, for machines where bubblewrap is missing or refused. Runs inside, in the program that starts commands; what
it starts inherits everything and can loosen nothing. Standard library alone. Numbers: `linux/landlock.h`, `linux/prctl.h`.
"""

import ctypes
import os
import struct
from typing import Any

CREATE, ADD, RESTRICT = 444, 445, 446
ABI_ASKED = 1
NEEDED = 3
"""Below this version a file could be emptied that may not be written."""
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
ALL_BUT_DEVICES = (1 << 15) - 1
IOCTL_DEVICE, IOCTL_SINCE = 1 << 15, 5
MAKE_DEVICES = 1 << 6 | 1 << 11
READING = EXECUTE | READ_FILE | READ_DIR
WRITING = ALL_BUT_DEVICES & ~MAKE_DEVICES
USING = READ_FILE | WRITE_FILE | IOCTL_DEVICE
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | IOCTL_DEVICE
CONNECT_AND_BIND, NET_SINCE = 3, 4
SCOPES, SCOPES_SINCE = 3, 6
NO_NEW_PRIVILEGES, DUMPABLE, SUBREAPER, DROP_BOUNDING, SECCOMP, AMBIENT = 38, 4, 36, 24, 22, 47
CAPSET = {"x86_64": 126, "aarch64": 91}
LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The version of Landlock that the kernel has; 0 without."""
    found = int(_libc.syscall(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(ABI_ASKED)))
    return max(found, 0)


def restrict(grants: "dict[str, list[str]]", filter_: bytes) -> None:
    """Allow this process what `grants` names (`read`, `write`, `use` for devices) and nothing else; raises OSError.

    What its commands leave behind becomes its own, and they cannot look into it.
    """
    version = abi()
    _must(_libc.prctl(SUBREAPER, 1, 0, 0, 0))
    _must(_libc.prctl(DUMPABLE, 0, 0, 0, 0))
    _must(_libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _drop_privileges()
    handled = ALL_BUT_DEVICES | (IOCTL_DEVICE if version >= IOCTL_SINCE else 0)
    fields = [handled]
    if version >= NET_SINCE:
        fields.append(CONNECT_AND_BIND)
    if version >= SCOPES_SINCE:
        fields.append(SCOPES)
    ruleset = _must(
        _libc.syscall(CREATE, struct.pack(f"={len(fields)}Q", *fields), ctypes.c_size_t(8 * len(fields)), 0)
    )
    try:
        for kind, rights in (("read", READING), ("write", WRITING | IOCTL_DEVICE), ("use", USING)):
            for path in grants[kind]:
                _grant(ruleset, path, rights & handled)
        _must(_libc.syscall(RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)
    _filter(filter_)


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # it went away: then there is nothing to allow
    try:
        if not os.path.isdir(path):
            rights &= OF_FILES
        _must(_libc.syscall(ADD, ruleset, PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0))
    finally:
        os.close(descriptor)


def _drop_privileges() -> None:
    """An administrator's process becomes one without privileges."""
    if os.geteuid() == 0:
        for capability in range(LAST_CAPABILITY + 1):
            _libc.prctl(
                DROP_BOUNDING, capability, 0, 0, 0
            )  # numbers that the kernel does not know fail, and matter not
        _must(_libc.prctl(AMBIENT, 4, 0, 0, 0))
        number = CAPSET.get(os.uname().machine)
        if number is not None:
            _must(_libc.syscall(number, struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", *([0] * 6))))


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


def _filter(steps: bytes) -> None:
    room = ctypes.create_string_buffer(steps, len(steps))
    about = _Program(len(steps) // 8, ctypes.cast(room, ctypes.c_void_p))
    _must(_libc.prctl(SECCOMP, 2, ctypes.byref(about), 0, 0))


def _must(result: Any) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)
