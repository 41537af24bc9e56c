"""What every environment with a real system behind it must do with programs, beyond what the twin in memory can. Part `testing`.

See `suites.MACHINE`. The environment is Linux, or near enough to have `/proc`, and has bash and the usual small programs.
"""

import asyncio
from collections.abc import Sequence

from melete.core.environment import Completed, Environment, RunningProcess
from melete.core.errors import EnvironmentFailure
from melete.testing.checking import raises, same, until

VARIABLES = {"SUITE_WORD": "two words, ü = '\"$HOME`\\"}
"""Variables that an environment under test is given in `Place.variables`."""

LIVES = 'kill -0 "$1" 2>/dev/null && ! grep -qs "^State:[[:space:]]*[ZX]" "/proc/$1/status"'
TREE = """
trap '' TERM
sleep 3211 & echo $!
setsid bash -c 'trap "" TERM; echo $$; sleep 3212; sleep 3212' &
(trap - TERM; sleep 3213) & echo $!
{ echo started > started; } 2>/dev/null
sleep 3214; sleep 3214
"""
"""Prints three process ids, makes the file `started` and goes on: two of the three ignore SIGTERM, one has left its session."""
TREE_SIZE = 3
KILLED = (-9, 137)
ABOUT = 11_000


def bash(command: str, *arguments: str) -> list[str]:
    """The argv of a shell command."""
    return ["bash", "-c", command, "bash", *arguments]


async def lives(place: Environment, pid: str) -> bool:
    """Whether a process of the environment still runs."""
    return (await place.exec(["sh", "-c", LIVES, "sh", pid])).code == 0


async def all_end(place: Environment, pids: Sequence[bytes]) -> None:
    """Raise AssertionError unless all of these processes end soon."""
    same(len(pids), TREE_SIZE, "the number of processes that were started")
    for pid in pids:

        async def ended(pid: str = pid.decode()) -> bool:
            return not await lives(place, pid)

        await until(ended, f"the end of process {pid!r}")


async def read_until(process: RunningProcess, wanted: bytes) -> bytes:
    """What the process says until `wanted` is in it; raise AssertionError when it ends before."""
    said = b""
    while wanted not in said:
        piece = await process.read()
        if not piece:
            raise AssertionError(f"the program ended before it said {wanted!r}: {said!r}")
        said += piece
    return said


# ---- what is given and what comes back -------------------------------------------------------------------------------


async def both_streams_in_order(place: Environment) -> None:
    """Standard output and errors come in the order in which they were written."""
    done = await place.exec(bash("for n in 1 2 3; do echo out $n; echo err $n >&2; done; exit 42"))
    wanted = b"".join(b"out %d\nerr %d\n" % (n, n) for n in (1, 2, 3))
    same((done.output, done.code, done.timed_out, done.dropped), (wanted, 42, False, 0), "both streams")


async def death_by_signal(place: Environment) -> None:
    """A program that was killed by a signal has an exit status that says so."""
    same((await place.exec(bash("kill -9 $$"))).code in KILLED, True, "the status is -9 or 137")


async def arguments_arrive_as_given(place: Environment) -> None:
    """No shell reads the arguments: quotes, spaces, line breaks, stars and empty ones arrive."""
    given = [
        "",
        " ",
        "a  b",
        "'",
        '"',
        "$HOME",
        "`id`",
        "\\",
        "\\n",
        "*",
        "?",
        "~",
        "-n",
        "--",
        "ü日本",
        "a\nb\n",
        "!x",
        "#",
        ";&|",
    ]
    done = await place.exec(["printf", "[%s]", *given])
    same(done.output.decode(), "".join(f"[{one}]" for one in given), "the arguments")


async def variables_arrive_as_given(place: Environment) -> None:
    """Commands see the variables that the environment was given, and a usable PATH."""
    for name, value in VARIABLES.items():
        same((await place.exec(["printenv", name])).output.decode(), f"{value}\n", f"the variable {name}")
        same((await place.exec(bash(f'printf %s "${name}"'))).output.decode(), value, f"{name} in a shell")


async def large_binary_input(place: Environment) -> None:
    """Megabytes of any bytes go in and come out; a program that does not read them is no failure."""
    data = bytes(range(256)) * 12_000
    done = await place.exec(["cat"], stdin=data, limit=4_000_000)
    same((done.code, len(done.output), done.output == data), (0, len(data), True), "what cat gave back")
    same((await place.exec(["true"], stdin=data)).code, 0, "a program that reads nothing")


async def a_large_script(place: Environment) -> None:
    """A script of a megabyte runs when it is sent as input."""
    script = b": " + b"x" * 1_000_000 + b"\necho end\n"
    same((await place.exec(["bash"], stdin=script)).output, b"end\n", "a script of a megabyte")


async def long_arguments(place: Environment) -> None:
    """Arguments of a megabyte work or fail with an EnvironmentFailure, and the environment goes on."""
    for argv in (
        ["printf", "%s", "x" * 100_000],
        ["printf", "%s", "x" * 1_000_000],
        ["printf", "%s", *["word"] * 250_000],
    ):
        try:
            done = await place.exec(argv, limit=2_000_000)
        except EnvironmentFailure:
            continue
        same(done.output.decode(), "".join(argv[2:]), f"{len(argv[2:])} arguments of {len(argv[2])} letters")
    same((await place.exec(["echo", "on"])).output, b"on\n", "the next command")


async def impossible_arguments(place: Environment) -> None:
    """What no system can run is a ValueError or an EnvironmentFailure, and the environment goes on."""
    refused = (ValueError, EnvironmentFailure)
    await raises(refused, place.exec(["echo", "a\0b"]), "a NUL byte in an argument")
    await raises(refused, place.start(["echo", "a\0b"]), "a NUL byte in an argument, started")
    await raises(refused, place.exec(["true"], cwd="a\0b"), "a NUL byte in the folder")
    await raises(refused, place.exec([]), "no program")
    await raises(refused, place.exec([""]), "a program without a name")
    await raises(refused, place.exec(["/dev"]), "a folder as a program")
    same((await place.exec(["echo", "on"])).output, b"on\n", "the next command")


async def folders_with_strange_names(place: Environment) -> None:
    """Commands run in folders whose names hold spaces, quotes and letters of any script."""
    folder = "ein Ordner/'日本' \"$x\""
    await place.write(f"{folder}/file", b"inside")
    done = await place.exec(["cat", "file"], cwd=folder)
    same((done.code, done.output), (0, b"inside"), "a command in a folder with a strange name")
    same(
        (await place.exec(["pwd"], cwd=f"{place.cwd}/{folder}")).output.decode(), f"{place.cwd}/{folder}\n", "its name"
    )


async def many_at_once(place: Environment) -> None:
    """Commands that run side by side get each their own input and output."""

    async def one(number: int) -> Completed:
        return await place.exec(bash("read line; echo $1 $line", str(number)), stdin=b"line %d\n" % number)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(8)]
    for number, task in enumerate(tasks):
        same(task.result().output, b"%d line %d\n" % (number, number), f"command {number}")


# ---- everything ends -------------------------------------------------------------------------------------------------


async def the_deadline_ends_the_whole_tree(place: Environment) -> None:
    """What a command started ends with its deadline: children, those that ignore SIGTERM, those in another session."""
    done = await place.exec(bash(TREE), timeout=2)
    same((done.code, done.timed_out), (None, True), "a command past its deadline")
    await all_end(place, done.output.split())


async def an_interrupt_ends_the_whole_tree(place: Environment) -> None:
    """Cancelling `exec` ends all that the command started."""

    async def started() -> bool:
        return await place.stat("started") is not None

    async with asyncio.TaskGroup() as group:
        running = group.create_task(place.exec(bash(f"exec > pids; {TREE}")))
        await until(started, "the start of the command")
        running.cancel()
    same(running.cancelled(), True, "the cancelled command is cancelled")
    await all_end(place, (await place.read("pids")).split())


async def killing_ends_the_whole_tree(place: Environment) -> None:
    """`kill` ends all that a started program started."""
    process = await place.start(bash(f"{TREE}"))
    said = b""
    for _ in range(TREE_SIZE):  # however the lines come
        said += b"" if said.count(b"\n") == TREE_SIZE else await read_until(process, b"\n")
    await process.kill()
    same(await process.wait() != 0, True, "the status of what was killed is not 0")
    await all_end(place, said.split())


async def a_daemon_is_not_waited_for(place: Environment) -> None:
    """A command that leaves a daemon holding its output is over when it ends itself."""
    done = await place.exec(bash("sleep 3215 & echo on"), timeout=60)
    same((done.code, done.output, done.timed_out), (0, b"on\n", False), "a command that left a daemon")


async def closed_output_is_not_the_end(place: Environment) -> None:
    """A command that closes its output is waited for."""
    same((await place.exec(bash("exec >&- 2>&-; sleep 0.3; exit 4"), timeout=60)).code, 4, "its status")


async def output_without_end(place: Environment) -> None:
    """A command that prints for ever ends with its deadline, and its output is bounded."""
    done = await place.exec(["yes"], timeout=0.5, limit=10_000)
    same((done.timed_out, done.dropped > 0, len(done.output) < ABOUT), (True, True, True), "bounded output")


async def closing_ends_commands(place: Environment) -> None:
    """Closing the environment ends a command that somebody waits for: with a result or an EnvironmentFailure, never a hang."""

    async def command() -> str:
        try:
            done = await place.exec(["sleep", "3216"])
        except EnvironmentFailure:
            return "ended"
        return "ended" if done.code != 0 else "a status of 0"

    await place.exec(["true"])
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(command())
        await asyncio.sleep(0.3)
        await place.aclose()
    same(running.result(), "ended", "a command that ran when the environment was closed")


# ---- programs with open streams --------------------------------------------------------------------------------------


async def a_dialogue(place: Environment) -> None:
    """Output of a started program comes while it runs, and it can be answered."""
    process = await place.start(bash('echo ready; while read line; do echo "got $line"; done; echo over; exit 5'))
    same(await read_until(process, b"ready\n"), b"ready\n", "its first line")
    for line in (b"one", "zwei ü".encode()):
        await process.write(line + b"\n")
        same(await read_until(process, b"\n"), b"got %b\n" % line, "its answer")
    await process.close_stdin()
    same(await read_until(process, b"over\n"), b"over\n", "its last line")
    same((await process.read(), await process.wait()), (b"", 5), "its end")


async def a_started_program_has_variables_and_a_folder(place: Environment) -> None:
    """`start` gives the same folder and variables as `exec`; a folder that is missing is a failure."""
    await place.write("inner/file", b"")
    process = await place.start(bash('pwd; printf %s "$SUITE_WORD"'), cwd="inner")
    said = b""
    while piece := await process.read():
        said += piece
    same(said.decode(), f"{place.cwd}/inner\n{VARIABLES['SUITE_WORD']}", "folder and variable")
    same(await process.wait(), 0, "its status")
    await raises(EnvironmentFailure, place.start(["true"], cwd="missing"), "a missing folder")


async def a_lot_through_a_started_program(place: Environment) -> None:
    """Megabytes go through a started program in both directions at once."""
    data = bytes(range(256)) * 12_000
    process = await place.start(["cat"])
    got = bytearray()

    async def feed() -> None:
        await process.write(data)
        await process.close_stdin()

    async with asyncio.TaskGroup() as group:
        group.create_task(feed())
        while piece := await process.read():
            got += piece
    same((len(got), bytes(got) == data, await process.wait()), (len(data), True, 0), "what went through cat")


async def a_terminal(place: Environment) -> None:
    """With `pty` the program has a terminal: it can be answered, its input can be ended, and it can be killed."""
    process = await place.start(
        bash('test -t 0 && test -t 1 && echo terminal; read x; echo "got $x"; cat; exit 6'), pty=True
    )
    await read_until(process, b"terminal")
    await process.write(b"hello\n")
    await read_until(process, b"got hello")
    await process.close_stdin()
    while await process.read():
        pass
    same(await process.wait(), 6, "its status")
    killed = await place.start(["sleep", "3217"], pty=True)
    await killed.kill()
    same(await killed.wait() != 0, True, "the status of a killed one is not 0")


async def a_terminal_takes_control_characters(place: Environment) -> None:
    """Ctrl-C in a terminal interrupts the program that runs there."""
    process = await place.start(
        bash("trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.1; done"), pty=True
    )
    await read_until(process, b"ready")
    await process.write(b"\x03")
    await read_until(process, b"interrupted")
    while await process.read():
        pass
    same(await process.wait(), 7, "its status")


PROGRAMS = (
    both_streams_in_order, death_by_signal, arguments_arrive_as_given, variables_arrive_as_given, large_binary_input,
    a_large_script, long_arguments, impossible_arguments, folders_with_strange_names, many_at_once,
    the_deadline_ends_the_whole_tree, an_interrupt_ends_the_whole_tree, killing_ends_the_whole_tree,
    a_daemon_is_not_waited_for, closed_output_is_not_the_end, output_without_end, closing_ends_commands, a_dialogue,
    a_started_program_has_variables_and_a_folder, a_lot_through_a_started_program, a_terminal,
    a_terminal_takes_control_characters,
)  # fmt: skip
