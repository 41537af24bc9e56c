"""The errors a person may meet. Layer 0; every one says what happened, what was kept and what to do next.

    MeleteError
    ├── UsageError                 a command was called wrongly                        exit 2
    ├── ConfigError                a setting is unknown, ill-typed or unreadable       exit 2
    │   └── NoModelError           no model is configured                              exit 2
    ├── StoreError                 the log, a projection or the ledger                 exit 1
    │   ├── SessionNotFoundError   no session has that id or title                 exit 2
    │   ├── SessionBusyError       another process runs the session
    │   └── StorageError           disk full, read-only home, no permission
    ├── EnvironmentFailure         the place where commands run failed
    ├── LimitError                 a budget or a step limit was reached                exit 3
    └── ModelError                 see core/model.py: one class for each cause         exit 1

`ToolError` (core/tool.py) is apart: it goes to the model, never to the person.
"""


class MeleteError(Exception):
    """A failure that a person can act on: `what` happened, what was `kept`, what to do `next`."""

    exit_code = 1

    def __init__(self, what: str, *, kept: str = "", next: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.kept = kept
        self.next = next

    def __str__(self) -> str:
        return "; ".join(part for part in (self.what, self.kept, self.next) if part)


class UsageError(MeleteError):
    """A command, option or argument does not make sense."""

    exit_code = 2


class ConfigError(MeleteError):
    """A configuration file or variable is wrong; the message names file, line and the nearest right key."""

    exit_code = 2


class NoModelError(ConfigError):
    """No model is configured; the message lists the ways to get one."""


class StoreError(MeleteError):
    """The store could not do what was asked; what it holds is untouched."""


class SessionNotFoundError(StoreError):
    """No session has this id or title."""

    exit_code = 2


class SessionBusyError(StoreError):
    """Another process owns the session right now."""


class StorageError(StoreError):
    """The disk is full, the home is read-only, or a permission is missing; earlier facts stay readable."""


class EnvironmentFailure(MeleteError):
    """The place where commands run could not be used at all; a command that merely fails is a result."""


class LimitError(MeleteError):
    """A budget or limit was reached before the work was done."""

    exit_code = 3
