"""What is measured: Melete and its peer, each in a home of its own, pointed at the same scripted model."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Protocol

STEPS = "1000"
PEER = "hermes-agent==0.19.0"
HOW_TO_INSTALL = f"""The peer is not there. Install it into an environment of its own and name its program:

    python -m venv hermes-venv && hermes-venv/bin/pip install {PEER}
    python -m benchmarks NAME --hermes hermes-venv/bin/hermes

or measure Melete alone with --alone."""


class Subject(Protocol):
    """A program with a one-shot command."""

    @property
    def name(self) -> str: ...

    @property
    def env(self) -> dict[str, str]:
        """The whole environment that it runs in."""
        ...

    @property
    def cwd(self) -> Path:
        """The folder that it works in."""
        ...

    def version(self) -> list[str]:
        """The command that prints its version."""
        ...

    def once(self, prompt: str) -> list[str]:
        """The command for one answer."""
        ...

    def talk(self, prompt: str, *, go_on: bool = False) -> list[str]:
        """The command for an answer of many steps, in a new session or in the latest one."""
        ...


class Base:
    """A home and a working folder below `root`, and an environment that holds nothing of the caller's but PATH."""

    def __init__(self, root: Path, *, program: Path) -> None:
        self.program = program
        self.home = root / "home"
        self.cwd = root / "work"
        self.home.mkdir(parents=True)
        self.cwd.mkdir()
        self.env = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"}


class Melete(Base):
    name = "melete"

    def __init__(self, root: Path, *, program: Path, base_url: str) -> None:
        super().__init__(root, program=program)
        self.env |= {
            "MELETE_HOME": str(self.home / ".melete"),
            "MELETE_LEARNING": "false",  # benchmarks.learn_overhead measures it, and evoworld what it brings
            "MELETE_BASE_URL": base_url,
            "MELETE_MODEL": "scripted-model",
            "MELETE_CONTEXT_LENGTH": "128000",
        }

    def version(self) -> list[str]:
        return [str(self.program), "--version"]

    def once(self, prompt: str) -> list[str]:
        return [str(self.program), "run", prompt]

    def talk(self, prompt: str, *, go_on: bool = False) -> list[str]:
        return [str(self.program), "run", "--max-steps", STEPS, *(["-c"] if go_on else []), prompt]


class Hermes(Base):
    """Its model's context length is given, which spares it most of its guesses at the server's kind."""

    name = "hermes"

    def __init__(self, root: Path, *, program: Path, base_url: str) -> None:
        super().__init__(root, program=program)
        home = self.home / ".hermes"
        home.mkdir()
        (home / "config.yaml").write_text(
            "model:\n  default: scripted-model\n  provider: custom\n  api_key: local\n"
            f"  base_url: {base_url}\n  context_length: 128000\n"
        )
        self.env |= {"HERMES_HOME": str(home)}

    def version(self) -> list[str]:
        return [str(self.program), "--version"]

    def once(self, prompt: str) -> list[str]:
        return [str(self.program), "-z", prompt]

    def talk(self, prompt: str, *, go_on: bool = False) -> list[str]:
        """Its one-shot form neither continues a session nor takes a limit of steps; this one does."""
        chat = [str(self.program), "chat", "-Q", "--yolo", "--max-turns", STEPS]
        return [*chat, *(["--continue"] if go_on else []), "-q", prompt]


def programs(melete: Path | None, hermes: Path | None, *, alone: bool) -> dict[str, Path]:
    """Where the programs are, by name; exits with advice when one is missing."""
    ours = melete or Path(sys.executable).with_name("melete")
    if not ours.is_file():
        sys.exit(f"no program {ours}; name it with --melete PATH")
    if alone:
        return {"melete": ours}
    found = hermes or (Path(known) if (known := shutil.which("hermes")) else None)
    if found is None or not found.is_file():
        sys.exit(HOW_TO_INSTALL)
    return {"melete": ours.absolute(), "hermes": found.absolute()}


def make(name: str, root: Path, *, program: Path, base_url: str) -> Subject:
    """A subject in a fresh home."""
    kind = {"melete": Melete, "hermes": Hermes}[name]
    return kind(root / name, program=program, base_url=base_url)


def version_line(program: Path) -> str:
    """What the program says it is."""
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=120, check=False)
    return (done.stdout.splitlines() or ["?"])[0].strip()
