"""The client program of a container engine, Docker's or Podman's: one call each, and what its errors mean.

The engine is reached through its own client, so that contexts, certificates, `ssh://` addresses and registry logins work as the
person set them up.
"""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from melete.core.environment import Completed, Missing, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import DockerOptions
from melete.environments.local import LocalEnvironment
from melete.environments.rules import trusted

CALL = 60.0
PULL = 3600.0
LOOK = 5.0
INSTALL = "install Docker or Podman (docker.command: podman), or use another environment: --env sandbox"
PREFIX = re.compile(r"^(docker: )?(Error response from daemon: |Error: |error during connect: )+", re.IGNORECASE)
ABSENT = re.compile(
    r"no such image|image not known|image .*not found|unable to find image|not find .*locally", re.IGNORECASE
)

_MEANINGS = (
    (
        re.compile(r"permission denied.*(docker|podman)|(docker|podman).*permission denied", re.IGNORECASE),
        "you may not use the container engine",
        "join the group `docker` (which is as much as being root) and log in again, or use Podman: docker.command: podman",
    ),
    (
        re.compile(
            r"cannot connect|is the docker daemon running|connection refused|error during connect|dial unix", re.IGNORECASE
        ),
        "the container engine does not answer",
        "start it (sudo systemctl start docker), set docker.host, or use another environment: --env sandbox",
    ),
    (re.compile(r"no space left", re.IGNORECASE), "the engine's disk is full", "make room there: `system prune` of the client"),
    (
        re.compile(r"sh.*(executable file not found|no such file)|(executable file not found|no such file).*\bsh\b", re.IGNORECASE),
        "the image has no shell (sh)",
        "choose another: docker.image",
    ),
    (
        re.compile(r"resource temporarily unavailable|pids limit|cannot fork", re.IGNORECASE),
        "the container runs as many processes as it may",
        "end some of them, or raise docker.processes",
    ),
)  # fmt: skip


class Engine:
    """The client's calls. Each ends by its deadline and raises EnvironmentFailure when it fails."""

    def __init__(self, place: Place, options: DockerOptions) -> None:
        self.variables = variables_of(place, options)
        self.command = options.command
        self._found = False
        self._runner = LocalEnvironment(Place(cwd="/", variables=self.variables))

    async def __call__(self, *words: str, stdin: bytes = b"", timeout: float = CALL) -> str:
        """Run one call and return what it said."""
        done = await self.attempt(*words, stdin=stdin, timeout=timeout)
        said = done.output.decode("utf-8", "replace").strip()
        if done.timed_out:
            raise EnvironmentFailure(
                f"the container engine did not answer `{words[0]}` within {timeout:.0f} seconds",
                next=f"see whether `{self.command} {words[0]}` works by hand",
            )
        if done.code:
            raise meant(said, f"`{self.command} {words[0]}` failed")
        return said

    async def attempt(self, *words: str, stdin: bytes = b"", timeout: float = CALL) -> Completed:
        """Run one call, whatever its status."""
        if not self._found:
            if shutil.which(self.command, path=self.variables["PATH"]) is None:
                raise EnvironmentFailure(f"{self.command} is not installed", next=INSTALL)
            self._found = True
        return await self._runner.exec(self.argv(*words), stdin=stdin, timeout=timeout, limit=4_000_000)

    def argv(self, *words: str) -> list[str]:
        """The command line of a call."""
        return [self.command, *words]

    def now(self, words: Sequence[str], *, timeout: float) -> None:
        """Run a call at once and forget what it says; for when there is no time left."""
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(  # noqa: S603 - the client
                self.argv(*words), env=dict(self.variables), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
                check=False,
            )  # fmt: skip

    async def aclose(self) -> None:
        """End calls that still run."""
        await self._runner.aclose()


def variables_of(place: Place, options: DockerOptions) -> dict[str, str]:
    """What the client sees: the place's variables, and the engine's address where the settings name one.

    Its PATH, by which it is found itself, leads to nothing in the working folder.
    """
    return trusted(place) | ({"DOCKER_HOST": options.host, "CONTAINER_HOST": options.host} if options.host else {})


def meant(said: str, what: str) -> EnvironmentFailure:
    """The failure that a message of the client stands for."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith(("See '", "Run '", "time="))]
    line = PREFIX.sub("", lines[-1] if lines else said).strip()
    flat = " ".join(said.split())
    for pattern, sentence, fix in _MEANINGS:
        if pattern.search(flat):
            return EnvironmentFailure(f"{sentence}: {line}" if line else sentence, next=fix)
    return EnvironmentFailure(f"{what}: {line or 'no reason was given'}", next="melete env check docker shows more")


async def fetch(engine: Engine, image: str) -> None:
    """Get an image from its registry; raises EnvironmentFailure."""
    done = await engine.attempt("pull", image, timeout=PULL)
    if done.code or done.timed_out:
        lines = done.output.decode("utf-8", "replace").split("\n")
        reason = PREFIX.sub("", next((line for line in reversed(lines) if line.strip()), "no reason was given")).strip()
        raise EnvironmentFailure(
            f"the image {image} is not here and could not be fetched: {reason}",
            next=f"check docker.image and the network; `{engine.command} pull {image}` by hand says more",
        )


def missing_engine(place: Place) -> Missing | None:
    """Why no engine can be used here, None when one answers."""
    options = place.options or DockerOptions()
    if shutil.which(options.command, path=variables_of(place, options)["PATH"]) is None:
        return Missing(why=f"{options.command} is not installed", fix=INSTALL)
    try:
        done = subprocess.run(  # noqa: S603 - the client
            [options.command, "version", "--format", "{{.Server.Version}}"], env=variables_of(place, options), timeout=LOOK,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return Missing(
            why=f"{options.command} does not answer: {error}", fix=f"see whether `{options.command} info` works"
        )
    if done.returncode == 0:
        return None
    failure = meant(done.stdout.decode("utf-8", "replace"), f"{options.command} does not work")
    return Missing(why=failure.what, fix=failure.next)


def mapping_words(variables: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """The words of a call that pass variables on by name; the client takes the values from its own, where nobody sees them."""
    return [word for name in names if name in variables for word in ("--env", name)]
