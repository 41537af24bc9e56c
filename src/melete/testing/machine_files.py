"""What every environment with a real system behind it must do with files, beyond what the twin in memory can. Part `testing`.

See `suites.MACHINE`.
"""

import asyncio
from collections.abc import Awaitable, Callable

from melete.core.environment import Environment
from melete.core.errors import EnvironmentFailure
from melete.testing.checking import raises, same
from melete.testing.machine_programs import bash

Check = Callable[[Environment], Awaitable[None]]

STRANGE = (
    "ünï 日本.txt", " spaces  in it ", "'single' \"double\"", "$HOME", "`id`", "back\\slash", "*", "-rf", "--help", "line\nbreak",
    "tab\there", "#hash", "~", "%s%d", ";exit 9", "emoji 🦊", "e\u0301 not é",
)  # fmt: skip


async def names_of_all_kinds(place: Environment) -> None:
    """Files with any name can be written, listed, read, described, moved and removed; programs see the same names."""
    for name in STRANGE:
        await place.write(f"names/{name}", name.encode())
    same([entry.name for entry in await place.list("names")], sorted(STRANGE), "the names in the list")
    shell = await place.exec(bash('for f in names/*; do printf "%s\\0" "${f#names/}"; done'))
    same(sorted(shell.output.decode().split("\0")[:-1]), sorted(STRANGE), "the names that a shell sees")
    for name in STRANGE:
        same(await place.read(f"names/{name}"), name.encode(), f"what is in {name!r}")
        found = await place.stat(f"names/{name}")
        same(found and found.size, len(name.encode()), f"the size of {name!r}")
        await place.rename(f"names/{name}", f"moved/{name}")
        await place.remove(f"moved/{name}")
    same(len([*await place.list("names"), *await place.list("moved")]), 0, "what is left")


async def names_that_are_not_utf8(place: Environment) -> None:
    """A file whose name is no UTF-8 does not hide the others, and its own name leads to it."""
    await place.write("odd/fine", b"")
    same((await place.exec(bash("printf inside > $'odd/\\xff'"))).code, 0, "making the file")
    entries = await place.list("odd")
    same(len(entries), 2, "the number of names")
    odd = next(entry.name for entry in entries if entry.name != "fine")
    same(await place.read(f"odd/{odd}"), b"inside", "what is in it")


async def files_and_programs_agree(place: Environment) -> None:
    """Programs see at once what was written, and what programs write can be read at once."""
    await place.write("note", b"from the agent\n")
    same((await place.exec(["cat", "note"])).output, b"from the agent\n", "what a program reads")
    await place.exec(bash("echo from a program > note"))
    same(await place.read("note"), b"from a program\n", "what a program wrote")


async def modes_are_kept(place: Environment) -> None:
    """Writing keeps the mode of the file that was there."""
    await place.write("tool.sh", b"#!/bin/sh\necho one\n")
    same((await place.exec(["chmod", "751", "tool.sh"])).code, 0, "chmod")
    await place.write("tool.sh", b"#!/bin/sh\necho two\n")
    found = await place.stat("tool.sh")
    same(found and found.mode, 0o751, "the mode after writing")
    same((await place.exec(["./tool.sh"])).output, b"two\n", "it still runs")


async def links_are_followed(place: Environment) -> None:
    """Reading, writing and describing follow links, which stay links; removing takes the link."""
    await place.write("real/file", b"one")
    await place.exec(["ln", "-s", "real/file", "link"])
    await place.exec(["ln", "-s", "nowhere", "dangling"])
    await place.write("link", b"other")
    same(
        (await place.read("real/file"), await place.read("link")),
        (b"other", b"other"),
        "what was written through a link",
    )
    kinds = {entry.name: entry.kind for entry in await place.list(".")}
    same(kinds, {"dangling": "link", "link": "link", "real": "folder"}, "the kinds in the list")
    found = await place.stat("link")
    same(found and (found.kind, found.size), ("file", 5), "where the link leads")
    same(await place.stat("dangling"), None, "where a dangling link leads")
    await place.remove("link")
    same(await place.read("real/file"), b"other", "the file after its link was removed")


async def what_is_no_file_is_not_read(place: Environment) -> None:
    """Devices, pipes and folders are refused with an OSError at once."""
    same((await place.exec(["mkfifo", "pipe"])).code, 0, "mkfifo")
    async with asyncio.timeout(60):
        await raises(OSError, place.read("pipe"), "reading a pipe")
        await raises(OSError, place.read("/dev/zero"), "reading a device")
        await raises(OSError, place.write("pipe", b"x"), "writing to a pipe")
        await raises(OSError, place.write("/proc/no-such-thing/file", b"x"), "writing where nothing can be")
        await raises(OSError, place.remove("missing/file"), "removing below what is missing")
        found = await place.stat("pipe")
        same(found and found.kind, "other", "what a pipe is")
        await place.write("folder/file", b"")
        await raises(OSError, place.remove("folder"), "removing a folder")
        await place.write("file", b"")
        await raises(OSError, place.rename("file", "folder"), "moving a file over a folder")
        await raises((ValueError, OSError, EnvironmentFailure), place.read("a\0b"), "a NUL byte in a name")
        await raises((ValueError, OSError, EnvironmentFailure), place.write("a\0b", b""), "a NUL byte in a new name")


async def a_failed_write_leaves_the_file(place: Environment) -> None:
    """Where a file cannot be replaced the old one stays whole, and nothing lies beside it."""
    await place.write("sub/file", b"old")
    await raises(OSError, place.write("sub/file/below", b"new"), "writing below a file")
    same(await place.read("sub/file"), b"old", "the old file")
    same([entry.name for entry in await place.list("sub")], ["file"], "what lies beside it")


async def a_private_temp_folder(place: Environment) -> None:
    """`temp` is one absolute folder, which programs and file calls share; it is not in the working folder."""
    folder = await place.temp()
    same((folder.startswith("/"), await place.temp()), (True, folder), "the folder")
    same([*await place.list(".")], [], "what it left in the working folder")
    await place.write(f"{folder}/note", b"private\n")
    same((await place.exec(["cat", f"{folder}/note"])).output, b"private\n", "what a program reads there")
    same((await place.exec(["touch", f"{folder}/made"])).code, 0, "what a program makes there")
    names = [entry.name for entry in await place.list(folder)]
    same([name for name in ("made", "note") if name not in names], [], "what is missing in its list")


async def a_working_folder_that_is_gone(place: Environment) -> None:
    """When the working folder is deleted, calls give a result, an OSError or an EnvironmentFailure, and none of them hangs."""
    await place.write("file", b"")
    await place.exec(bash('rm -rf "$PWD"'))
    async with asyncio.timeout(60):
        for call in (
            place.exec(["true"]),
            place.exec(["pwd"]),
            place.read("file"),
            place.stat("file"),
            place.list("."),
        ):
            try:
                await call
            except (OSError, EnvironmentFailure):
                continue


def big_file(megabytes: int) -> Check:
    """The check that a file of this size is written and read whole and in parts."""

    async def a_big_file(place: Environment) -> None:
        data = bytes(range(251)) * (megabytes * 1_000_000 // 251 + 1)
        await place.write("big", data)
        found = await place.stat("big")
        same(found and found.size, len(data), "its size")
        same(
            (await place.exec(["wc", "-c", "big"])).output.split()[0], b"%d" % len(data), "the size that a program sees"
        )
        same(await place.read("big", offset=len(data) - 10), data[-10:], "its end")
        middle = len(data) // 2
        same(await place.read("big", offset=middle, limit=1000), data[middle : middle + 1000], "a part of it")
        same(await place.read("big") == data, True, "all of it is the same")

    return a_big_file


def big_output(megabytes: int) -> Check:
    """The check that a command which prints this much ends, and that head, tail and the number of bytes left out are right."""

    async def a_big_output(place: Environment) -> None:
        size = megabytes * 1_000_000
        done = await place.exec(
            bash(f"echo first; head -c {size} /dev/zero; echo; echo last"), timeout=600, limit=100_000
        )
        same((done.code, done.timed_out), (0, False), "its end")
        same((done.output[:6], done.output[-6:]), (b"first\n", b"\nlast\n"), "head and tail")
        same(len(done.output) <= 100_200, True, "what is kept is bounded")  # noqa: PLR2004 - a sentence above the limit
        same(done.dropped >= size - 100_000, True, "what was left out is counted")

    return a_big_output


FILES: tuple[Check, ...] = (
    names_of_all_kinds, names_that_are_not_utf8, files_and_programs_agree, modes_are_kept, links_are_followed,
    what_is_no_file_is_not_read, a_failed_write_leaves_the_file, a_private_temp_folder, a_working_folder_that_is_gone,
)  # fmt: skip
