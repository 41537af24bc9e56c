"""How the end of a program reads: its exit code as a shell shows it, and what some codes mean."""

import signal

HINTS = {
    126: "the command was found but may not be run",
    127: "a command was not found",
    128 + signal.SIGKILL: "killed by SIGKILL, perhaps for want of memory",
    128 + signal.SIGSEGV: "crashed (segmentation fault)",
    128 + signal.SIGABRT: "aborted",
}
"""What an exit code alone does not say."""


def exit_code(code: int | None) -> int:
    """An exit status (negative for a signal, None for one that nobody saw) as a shell shows it."""
    if code is None:
        return 128 + signal.SIGKILL
    return code if code >= 0 else 128 - code
