"""Which variables commands see: the process's own without what is secret. Part of the composition root."""

import re
from collections.abc import Mapping, Set

from melete.app.dotenv import read_env_file
from melete.app.keys import looks_secret
from melete.app.settings import KEYS_OF_COLLECTORS, VARIABLES, Loaded

SERVER_ALONE = frozenset(
    {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}
)
"""Variables that are for the process itself; no setting gives them to commands."""
AGENT = "SSH_AUTH_SOCK"
AGENT_USERS = frozenset({"local", "ssh", "docker"})
"""Environments that start programs of this machine which may sign in with the keys that a person has unlocked."""
UNMISTAKABLE = 16
"""Characters from which on a secret is looked for inside other values: a shorter one may be an ordinary word."""
_MORE = re.compile(
    r"(^|_|ssh)pass$|passphrase$|_pwd$|(^|_)secret(s|_.*)?$|private_key|(_keys|tokens|passwords)$|connection_?string$",
    re.IGNORECASE,
)
"""Names of secrets that are too uncertain for settings and certain enough for what commands do without."""
_PASSWORD = re.compile(r"://[^\s/]*:[^\s/]+@")
"""What stands before the host of an address and has a password in it."""
_OURS = re.compile(r"MELETE_(?:SERVER_KEY|API_KEY(?:_\d+)?)")


def variables_for_commands(loaded: Loaded, name: str) -> Mapping[str, str]:
    """The variables that commands of the environment `name` see.

    Left out is what has the name of a secret, what the home's `.env` holds, what has or contains a known secret's value, and
    the keys of Melete itself; out of addresses in the others, name and password are taken. `env.passthrough`, and `variables`
    of the environment's own section, name what is seen as it is all the same, also out of `.env`.
    """
    section = getattr(loaded.settings, name, None)
    passed = {*loaded.settings.env.passthrough, *getattr(section, "variables", ())} - SERVER_ALONE
    file = read_env_file(loaded.home.env, shown=loaded.home.display(loaded.home.env)).values
    secrets = loaded.secrets
    values = {value.strip() for secret, value in secrets.items() if secret not in passed}
    values |= {value.strip() for known, value in file.items() if known not in passed and known not in VARIABLES}
    hidden = {value for value in values if len(value) >= UNMISTAKABLE and not value.startswith("/")}
    exact = {value.strip() for value in secrets.values()} & values
    seen: dict[str, str] = {}
    for variable, value in loaded.environ.items():
        if variable in SERVER_ALONE or (variable == AGENT and name not in AGENT_USERS):
            continue
        secret = variable in secrets or _is_secret(variable) or file.get(variable) == value
        if variable in passed:
            seen[variable] = value
        elif not (secret or _tells(value, exact, hidden)):
            seen[variable] = _PASSWORD.sub("://", value)
    return seen | {variable: file[variable] for variable in passed if variable in file and variable not in seen}


def _is_secret(name: str) -> bool:
    return (
        looks_secret(name)
        or bool(_MORE.search(name))
        or name in KEYS_OF_COLLECTORS
        or _OURS.fullmatch(name) is not None
    )


def _tells(value: str, exact: Set[str], hidden: Set[str]) -> bool:
    """Whether a value is a known secret, has one as the password of an address, or a long one anywhere in it."""
    return (
        value.strip() in exact
        or any(secret in value for secret in hidden)
        or any(f":{secret}@" in value for secret in exact)
    )
