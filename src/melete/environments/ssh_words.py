"""What ssh says when it cannot connect, in words that say what to do next."""

from melete.core.errors import EnvironmentFailure
from melete.core.places import SshOptions

CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        "identification has changed",
        "the host key of {host} is not the one that is known: it was set up anew, or somebody is in between",
        "ask who runs it; if the new key is right: {forget}, then {try_it} once",
    ),
    (
        "host key is known for",
        "{host} is not known: its host key was never seen here",
        "run {try_it} once, compare the fingerprint and say yes",
    ),
    ("host key verification failed", "the host key of {host} could not be checked", "run {try_it} once to see why"),
    (
        "unprotected private key",
        "ssh refuses the private key: others can read its file",
        "chmod 600 the key's file",
    ),
    (
        "permission denied",
        "{host} refuses the login",
        "check ssh.user and ssh.key, or add the key to your agent; a password is never asked for ({try_it} shows more)",
    ),
    (
        "too many authentication failures",
        "{host} refuses the login: too many keys were offered",
        "set ssh.key to the right one",
    ),
    ("could not resolve", "no machine named {host} was found", "check ssh.host, and the network"),
    (
        "connection refused",
        "nothing listens for ssh on {host}",
        "check ssh.host and ssh.port, and that sshd runs there",
    ),
    ("timed out", "{host} did not answer", "check the network, or raise ssh.connect_seconds"),
    ("no answer in time", "{host} did not answer in time", "check the network; {try_it} shows more"),
    ("no route to host", "{host} is not to be reached", "check the network"),
    ("network is unreachable", "{host} is not to be reached", "check the network"),
    ("bad configuration option", "ssh does not understand its configuration", "mend the line that it names: {said}"),
    ("no such file or directory", "ssh misses a file: {said}", "check ssh.key, ssh.config and ssh.known_hosts"),
    ("session open refused", "{host} opens no more sessions", "end what runs in the background there"),
    ("no folder for temporary", "{host} has no folder for temporary files that can be written", "free its disk"),
    ("connection closed", "{host} closed the connection at once", "look into the log of its sshd"),
    ("connection reset", "{host} broke the connection", "look into the log of its sshd"),
)
"""(a part of what ssh says, what happened, what to do), the most telling first."""
SAID = 300


def why_not(said: str, given: SshOptions) -> EnvironmentFailure:
    """The failure that `said`, the words of ssh, is about."""
    heard = said.casefold()
    last = said.strip().splitlines()[-1][:SAID] if said.strip() else "it said nothing"
    words = {"host": given.host, "said": last, "try_it": _command(given), "forget": _forget(given)}
    for part, what, fix in CAUSES:
        if part in heard:
            return EnvironmentFailure(what.format(**words), next=fix.format(**words))
    return EnvironmentFailure(f"there is no connection to {given.host}: {last}", next=f"{words['try_it']} shows more")


def address(given: SshOptions) -> str:
    """The machine as a person writes it."""
    return (f"{given.user}@" if given.user else "") + given.host + (f":{given.port}" if given.port else "")


def _command(given: SshOptions) -> str:
    words = ["ssh"]
    words += ["-F", given.config] if given.config else []
    words += ["-o", f"UserKnownHostsFile={given.known_hosts}"] if given.known_hosts else []
    words += ["-i", given.key] if given.key else []
    words += ["-p", str(given.port)] if given.port else []
    words += ["-l", given.user] if given.user else []
    return " ".join([*words, given.host])


def _forget(given: SshOptions) -> str:
    name = f"'[{given.host}]:{given.port}'" if given.port else given.host
    return f"ssh-keygen -R {name}" + (f" -f {given.known_hosts}" if given.known_hosts else "")
