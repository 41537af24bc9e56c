"""The servers of this machine's package managers, found in their own configuration and, for defaults, in their own installed code.

Only what belongs to the machine and its owner is read, never a file of the working folder: commands can write there. No program
is run for it. What cannot be read allows nothing.
"""

import mmap
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from melete.environments.allowlist import WEB, Entry, plain
from melete.environments.remotes import LARGEST, text_of
from melete.security.urls import judge_host

LINE: Final = re.compile(r"\s*(?P<key>[\w@.:/-]*?)\s*(?:[:=]\s*|\s+)(?P<value>.*)")
ADDRESS: Final = re.compile(r"https?://[^\s\"'<>,|\]\[{}]+")
COMMENT: Final = re.compile(r"^[ \t]*[#;][^\n]*$|<!--(?s:.*?)-->", re.MULTILINE)
XML_VALUE: Final = re.compile(r"<url>\s*(https?://[^<\s]+)\s*</url>|\bvalue=\"(https?://[^\"]+)\"")

Found = Iterator[tuple[str, str]]
"""Pairs of a key of a configuration (empty where there is none) and an address."""


class Machine:
    """Where to look: a home folder, the variables that count there, and the programs on its PATH outside the working folder."""

    def __init__(self, variables: Mapping[str, str], *, cwd: str, root: str = "/", written: Sequence[str] = ()) -> None:
        self.variables = variables
        self.home = variables.get("HOME", "")
        self.root = root
        self._written = (cwd, *(self.home + path[1:] if path.startswith("~") else path for path in written))
        folders = [
            folder
            for folder in variables.get("PATH", "").split(os.pathsep)
            if folder.startswith("/") and self.believed(Path(folder))
        ]
        self._path = os.pathsep.join(folders)

    def paths(self, pattern: str) -> Iterator[Path]:
        """What a pattern of a path stands for outside the working folder: `~`, a leading `$NAME` and `*` are understood."""
        return (path for path in self._meant(pattern) if self.believed(path))

    def believed(self, path: Path) -> bool:
        """Whether a path, links followed, is none that commands can write: they can name servers of their own there."""
        return not any(_inside(str(path), folder) for folder in self._written)

    def _meant(self, pattern: str) -> Iterator[Path]:
        if pattern.startswith("$"):
            name, _, rest = pattern[1:].partition("/")
            given = self.variables.get(name, "")
            if given.startswith("/"):
                yield from _globbed(f"{given}/{rest}" if rest else given)
        elif pattern.startswith("~"):
            if self.home:
                yield from _globbed(self.home + pattern[1:])
        else:
            yield from _globbed(f"{self.root.rstrip('/')}{pattern}")

    def program(self, name: str) -> Path | None:
        """Where a program really is, links followed."""
        found = shutil.which(name, path=self._path) if self._path else None
        real = Path(found).resolve() if found else None
        return real if real and self.believed(real) else None


class Manager(Struct, frozen=True, kw_only=True):
    """A package manager: the variables and files that name its servers, the keys that replace its default, and that default."""

    name: str
    programs: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    replacing: tuple[str, ...] = ()
    default: Callable[[Machine], Iterator[str]] | None = None

    def servers(self, machine: Machine) -> Iterator[str]:
        """The addresses that it uses on this machine."""
        replaced = False
        for key, address in self._configured(machine):
            replaced |= key.lower() in self.replacing
            yield address
        if not replaced and self.default and any(machine.program(name) for name in self.programs):
            yield from self.default(machine)

    def _configured(self, machine: Machine) -> Found:
        for name in self.variables:
            for address in ADDRESS.findall(machine.variables.get(name, "")):
                yield name, address
        for pattern in self.files:
            for path in machine.paths(pattern):
                yield from configured(text_of(path))


def of_this_machine(variables: Mapping[str, str], *, cwd: str, written: Sequence[str] = ()) -> list[Entry]:
    """`derived` for the machine that this runs on; in `cwd`, and in what else may be `written`, nothing is believed."""
    return derived(Machine(variables, cwd=cwd, written=written))


def derived(machine: Machine) -> list[Entry]:
    """An entry for each server that some package manager of the machine uses and that is not a private one; `why` names it."""
    entries: dict[str, Entry] = {}
    for manager in MANAGERS:
        for address in manager.servers(machine):
            entry = entry_of(address, why=f"server of {manager.name}")
            if entry is not None:
                entries.setdefault(str(entry), entry)
    return list(entries.values())


def entry_of(address: str, *, why: str) -> Entry | None:
    """The entry that allows the server of an address; None for one that is private or cannot be read."""
    try:
        parts = urlsplit(address)
        host, port = plain(parts.hostname or ""), parts.port
    except ValueError:
        return None
    if host is None or judge_host(f"[{host}]" if ":" in host else host).verdict == "forbid":
        return None
    return Entry(name=host, ports=(port,) if port else WEB, why=why)


def configured(text: str) -> Found:
    """Keys and addresses of a configuration file of any common shape; comments and proxies are left out."""
    text = COMMENT.sub("", text)
    if text.lstrip("\ufeff \r\n\t").startswith("<"):
        yield from (("", first or second) for first, second in XML_VALUE.findall(text))
        return
    key = ""
    for line in text.splitlines():
        addresses = ADDRESS.findall(line)
        named = LINE.match(line)
        if named and named["key"] and not (line[:1].isspace() and ADDRESS.match(line.strip())):
            key = named["key"]
        if "proxy" in key.lower() and key != "GOPROXY":
            continue
        yield from ((key, address) for address in addresses)


# ---- defaults, from installed code -----------------------------------------------------------------------------------


def _of_pip(machine: Machine) -> Iterator[str]:
    for text in _pip_code(machine):
        for address, storage in re.findall(
            r"^PyPI = PackageIndex\(\s*[\"'](https://[^\"']+)[\"'],\s*file_storage_domain=[\"']([\w.-]+)[\"']",
            text,
            re.M,
        ):
            yield address
            yield f"https://{storage}/"
            return


def _pip_code(machine: Machine) -> Iterator[str]:
    """The module of pip that knows its index, in each place where pip may be."""
    module = "pip/_internal/models/index.py"
    if (found := find_spec("pip")) and found.origin and machine.believed(Path(found.origin)):
        yield text_of(Path(found.origin).parent.parent / module)
    for name in ("pip", "pip3", "python3", "python"):
        if program := machine.program(name):
            for packages in ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages"):
                yield from (text_of(path) for path in _globbed(str(program.parent.parent / packages / module)))
    for wheel in _globbed(str(Path(os.__file__).parent / "ensurepip/_bundled/pip-*.whl")):
        if machine.believed(wheel):
            yield _in_archive(wheel, module)


def _of_npm(machine: Machine) -> Iterator[str]:
    places = ("node_modules/@npmcli/config/lib/definitions/definitions.js", "lib/utils/config/definitions.js")
    if program := machine.program("npm"):
        for place in places:
            text = text_of(program.parent.parent / place)
            yield from re.findall(r"\(\s*'registry',\s*\{\s*default:\s*'(https://[^']+)'", text)


def _of_cargo(machine: Machine) -> Iterator[str]:
    programs = [
        *machine.paths("$RUSTUP_HOME/toolchains/*/bin/cargo"),
        *machine.paths("~/.rustup/toolchains/*/bin/cargo"),
    ]
    if program := machine.program("cargo"):
        programs.append(program)
    for path in programs:
        if addresses := _in_program(path, rb"sparse\+(https://[a-z0-9-]+(?:\.[a-z0-9-]+)+)/"):
            yield from addresses
            break
    for pattern in ("$CARGO_HOME/registry/index/*/config.json", "~/.cargo/registry/index/*/config.json"):
        for path in machine.paths(pattern):
            yield from ADDRESS.findall(text_of(path))


def _of_go(machine: Machine) -> Iterator[str]:
    program = machine.program("go")
    text = text_of(program.parent.parent / "go.env") if program else ""
    yield from _go_settings(text)


def _go_settings(text: str) -> Iterator[str]:
    for name, value in re.findall(r"^(GOPROXY|GOSUMDB)=(.*)$", text, re.MULTILINE):
        yield from ADDRESS.findall(value)
        if name == "GOSUMDB" and re.fullmatch(r"[\w-]+(\.[\w-]+)+(\+\S+)?", value.strip()):
            yield "https://" + value.strip().partition("+")[0]


def _of_gem(machine: Machine) -> Iterator[str]:
    if program := machine.program("gem"):
        for path in _globbed(str(program.parent.parent / "lib/ruby/**/rubygems/defaults.rb")):
            yield from re.findall(r"%w\[(https://[^\]\s]+)\]", text_of(path))


def _of_maven(machine: Machine) -> Iterator[str]:
    if program := machine.program("mvn"):
        for archive in _globbed(str(program.parent.parent / "lib/maven-model-builder-*.jar")):
            text = _in_archive(archive, "org/apache/maven/model/pom-4.0.0.xml")
            yield from (address for _, address in configured(text))


MANAGERS: Final[Sequence[Manager]] = (
    Manager(
        name="pip",
        programs=("pip", "pip3", "python3", "uv"),
        variables=("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"),
        files=(
            "$PIP_CONFIG_FILE",
            "/etc/pip.conf",
            "/etc/xdg/pip/pip.conf",
            "~/.pip/pip.conf",
            "~/.config/pip/pip.conf",
        ),
        replacing=("index-url", "index_url", "pip_index_url"),
        default=_of_pip,
    ),
    Manager(
        name="uv",
        programs=("uv",),
        variables=("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
        files=("$UV_CONFIG_FILE", "/etc/uv/uv.toml", "~/.config/uv/uv.toml"),
        replacing=("uv_default_index", "uv_index_url", "index-url"),
        default=_of_pip,
    ),
    Manager(
        name="npm",
        programs=("npm",),
        variables=("npm_config_registry", "NPM_CONFIG_REGISTRY"),
        files=(
            "$NPM_CONFIG_USERCONFIG",
            "$NPM_CONFIG_GLOBALCONFIG",
            "~/.npmrc",
            "/etc/npmrc",
            "/usr/etc/npmrc",
            "/usr/local/etc/npmrc",
        ),
        replacing=("registry", "npm_config_registry"),
        default=_of_npm,
    ),
    Manager(
        name="yarn",
        variables=("YARN_REGISTRY", "YARN_NPM_REGISTRY_SERVER"),
        files=("~/.yarnrc", "~/.yarnrc.yml", "~/.config/pnpm/rc", "~/.bunfig.toml"),
    ),
    Manager(
        name="cargo",
        programs=("cargo",),
        files=("$CARGO_HOME/config.toml", "~/.cargo/config.toml", "~/.cargo/config"),
        replacing=("replace-with",),
        default=_of_cargo,
    ),
    Manager(
        name="Go",
        programs=("go",),
        variables=("GOPROXY", "GOSUMDB"),
        files=("$GOENV", "~/.config/go/env"),
        replacing=("goproxy",),
        default=_of_go,
    ),
    Manager(
        name="gem",
        programs=("gem",),
        files=("$GEMRC", "~/.gemrc", "~/.config/gem/gemrc", "/etc/gemrc", "~/.bundle/config"),
        default=_of_gem,
    ),
    Manager(
        name="Maven",
        programs=("mvn",),
        files=("~/.m2/settings.xml", "/etc/maven/settings.xml"),
        default=_of_maven,
    ),
    Manager(name="apt", files=("/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources")),
    Manager(name="conda", files=("~/.condarc", "/etc/conda/.condarc")),
    Manager(name="Composer", files=("~/.config/composer/config.json", "~/.composer/config.json")),
    Manager(name="NuGet", files=("~/.nuget/NuGet/NuGet.Config", "~/.config/NuGet/NuGet.Config")),
)  # fmt: skip
"""The package managers that are looked for."""


def _globbed(pattern: str) -> Iterator[Path]:
    if "*" not in pattern:
        yield Path(pattern)
        return
    anchor = pattern[: pattern.index("*")].rpartition("/")[0] or "/"
    yield from sorted(Path(anchor).glob(pattern[len(anchor) :].lstrip("/")))


def _inside(folder: str, of: str) -> bool:
    folder, of = os.path.realpath(folder), os.path.realpath(of)
    return folder == of or folder.startswith(of.rstrip("/") + "/")


def _in_archive(path: Path, name: str) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(name).decode("utf-8", "replace") if archive.getinfo(name).file_size <= LARGEST else ""
    except (OSError, KeyError, zipfile.BadZipFile):
        return ""  # what cannot be read allows nothing


def _in_program(path: Path, pattern: bytes) -> list[str]:
    """What a pattern finds in the text that a program holds."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            return [found.decode("ascii") for found in dict.fromkeys(re.findall(pattern, held))]
    except (OSError, ValueError):
        return []  # what cannot be read allows nothing
