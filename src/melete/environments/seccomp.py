"""Which system calls commands behind walls may make: a filter for the kernel, as the bytes that it takes.

What is refused is what a command has no business with and attackers have much: namespaces and mounts of one's own, keys of the
kernel, its debuggers and loaders, input forged for a terminal, kinds of sockets that no wall of the network keeps in, and
files that would run as their owner outside.
Numbers: `asm/unistd_64.h` of x86, `asm-generic/unistd.h` for ARM.
"""

import errno
import os
import platform
import socket
import struct

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
FOREIGN = 0x40000000
"""From here on the numbers on x86 are those of another convention for the same calls."""
REFUSED: dict[str, tuple[int, int]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "userfaultfd": (323, 282),
}
UNKNOWN = {"clone3": (435, 435), "io_uring_setup": (425, 425), "openat2": (437, 437)}
"""These are answered as by an older kernel, so that programs take the older way: the filter cannot see into their arguments."""
SOCKET, CLONE, UNSHARE, IOCTL, PRLIMIT = (41, 198), (56, 220), (272, 97), (16, 29), (302, 261)
SIGNALS = ((62, 129), (200, 130), (234, 131), (129, 138), (297, 240), (434, 434))
"""kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_open: whom they are for is their first argument."""
EVERYBODY = -1
NONE = -1
MODES: dict[str, tuple[int, int, int, int]] = {
    "chmod": (90, NONE, 1, NONE),
    "creat": (85, NONE, 1, NONE),
    "fchmod": (91, 52, 1, NONE),
    "fchmodat": (268, 53, 2, NONE),
    "fchmodat2": (452, 452, 2, NONE),
    "mknod": (133, NONE, 1, NONE),
    "mknodat": (259, 33, 2, NONE),
    "open": (2, NONE, 2, 1),
    "openat": (257, 56, 3, 2),
}
"""Calls that give files their mode: which argument that is, and which the flags are without which there is none."""
MAKES_FILE = 0o100 | 0o20000000
AS_OWNER, AS_GROUP = 0o4000, 0o2000
NEW_NAMESPACES = 0x7E020000 | 0x80
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: typing for somebody else."""
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16)
"""16 is the kernel's own messages, through which programs list the network's interfaces."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24
Step = tuple[int, int, int, int]


def program(*, alone: int = 0) -> bytes:
    """The filter, empty on a machine whose numbers are not known.

    With `alone`, for walls that leave services and processes in sight: no sockets can be made, no other process's limits be set,
    and neither the process of that number nor everybody at once be signalled.
    """
    known = MACHINES.get(platform.machine())
    if known is None:
        return b""
    machine, column = known
    steps: list[Step] = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, machine),
        _refuse(errno.ENOSYS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if column == 0:
        steps += [(_AT_LEAST, 0, 1, FOREIGN), _refuse(errno.ENOSYS)]
    for numbers in REFUSED.values():
        steps += [(_EQUAL, 0, 1, numbers[column]), _refuse(errno.EPERM)]
    for numbers in UNKNOWN.values():
        steps += [(_EQUAL, 0, 1, numbers[column]), _refuse(errno.ENOSYS)]
    allowed = () if alone else FAMILIES
    steps += _when(
        SOCKET[column], _FIRST, [(_EQUAL, one) for one in allowed], found=_allow(), else_=_refuse(errno.EAFNOSUPPORT)
    )
    for number in (CLONE[column], UNSHARE[column]):
        steps += _when(number, _FIRST, [(_ANY_BIT, _bits(number, column))], found=_refuse(errno.EPERM), else_=_allow())
    steps += _when(
        IOCTL[column], _SECOND, [(_EQUAL, one) for one in TERMINAL_INPUT], found=_refuse(errno.EPERM), else_=_allow()
    )
    steps += _modes(column)
    if alone:
        for numbers in SIGNALS:
            spared = [(_EQUAL, one & 0xFFFFFFFF) for one in (alone, -alone, EVERYBODY)]
            steps += _when(numbers[column], _FIRST, spared, found=_refuse(errno.EPERM), else_=_allow())
        steps += _when(PRLIMIT[column], _FIRST, [(_EQUAL, 0)], found=_allow(), else_=_refuse(errno.EPERM))
    steps.append(_allow())
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _modes(column: int) -> list[Step]:
    """No file is made one that runs as its owner, who out here may be the administrator.

    Nor as its group, for an administrator; other people's programs set that bit on folders again that they copy.
    """
    forbidden = AS_OWNER | (0 if os.getuid() else AS_GROUP)
    steps: list[Step] = []
    for *numbers, mode, flags in MODES.values():
        judged = [(_LOAD, 0, 0, _FIRST + 8 * mode), (_ANY_BIT, 0, 1, forbidden), _refuse(errno.EPERM), _allow()]
        if flags != NONE:
            judged = [(_LOAD, 0, 0, _FIRST + 8 * flags), (_ANY_BIT, 1, 0, MAKES_FILE), _allow(), *judged]
        if numbers[column] != NONE:
            steps += [(_EQUAL, 0, len(judged), numbers[column]), *judged]
    return steps


def _bits(number: int, column: int) -> int:
    """The flags that make a namespace; the lowest one means something else to clone."""
    return NEW_NAMESPACES if number == UNSHARE[column] else NEW_NAMESPACES & ~0xFF


def _when(number: int, argument: int, tests: list[tuple[int, int]], *, found: Step, else_: Step) -> list[Step]:
    """For one system call: `found` when the argument passes one of the tests, else `else_`."""
    inner: list[Step] = [(_LOAD, 0, 0, argument)]
    for kind, value in tests:
        inner += [(kind, 0, 1, value), found]
    inner.append(else_)
    return [(_EQUAL, 0, len(inner), number), *inner]


def _refuse(code: int) -> Step:
    return (_RETURN, 0, 0, _REFUSE | code)


def _allow() -> Step:
    return (_RETURN, 0, 0, _ALLOW)
