"""One new thing is one new file: a tool, an environment and a wire by an entry point, a vendor by five lines of data.

Each is added to an untouched package in a process of its own, and answers a real request there.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.arch.sources import PACKAGE
from tests.talking import environ

RUN = """
import asyncio, sys
from melete import Options, load, open_conversation, open_melete, user
{before}

async def main():
    async with open_melete(load()) as app:
        options = Options(cwd=sys.argv[1], {options})
        async with open_conversation(app, options) as conversation:
            ended = await conversation.run(user("Go."))
            print(ended.stop, ended.error, "|", conversation.model.provider, conversation.model.wire, conversation.env.name)

asyncio.run(main())
"""

TOOL = '''
"""A toolset."""

from contextlib import nullcontext

from melete import ToolContext, tool


@tool()
async def greet(ctx: ToolContext, *, whom: str) -> dict[str, str]:
    """Say hello."""
    return {"greeting": f"Hello, {whom}!"}


class Greetings:
    """One tool."""

    name = "greetings"

    def available(self) -> bool:
        return True

    def open(self):
        return nullcontext([greet])
'''

ENVIRONMENT = '''
"""A place where every command answers the same."""

from melete.core.ports import Completed, FileStat


class Echo:
    """Commands are echoed."""

    name = "echo"

    def __init__(self, place):
        self.cwd = place.cwd or "/"

    async def temp(self):
        return "/tmp"

    async def exec(self, argv, *, stdin=b"", cwd="", timeout=180.0, limit=1_000_000):
        return Completed(code=0, output=b"echoed: " + argv[-1].encode(), seconds=0.0)

    async def stat(self, path):
        return None

    async def aclose(self):
        pass
'''

WIRE = '''
"""A wire that answers without a network."""

from melete.core.event import Reply
from melete.core.message import Message, Text
from melete.core.model import Capabilities


class Parrot:
    """Repeats what was said."""

    can = Capabilities()
    wire = "parrot"

    def __init__(self, spec):
        self.name, self.provider = spec.model, spec.vendor

    async def stream(self, request):
        text = request.messages[-1].text + " " + request.messages[-1].text
        yield Reply(message=Message(role="assistant", parts=(Text(text=text),)))

    async def aclose(self):
        pass
'''

VENDOR = """
[acme]
wire = "openai-chat"
base_url = "{base_url}"
key = "ACME_API_KEY"
quirks = {{ effort = "none" }}
"""


def install(folder: Path, module: str, text: str, *, group: str, name: str, target: str) -> Path:
    """Put one module and the metadata of its entry point into a folder, as pip does."""
    packages = folder / "site"
    info = packages / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (packages / f"{module}.py").write_text(text)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[melete.{group}]\n{name} = {module}:{target}\n")
    return packages


def run(folder: Path, packages: Path, model: ScriptedModel, *, options: str = "", before: str = "", **more: str) -> str:
    work = folder / "work"
    work.mkdir()
    variables = {**environ(model, **more), "PYTHONPATH": str(packages)}
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(options=options, before=before), str(work)],
        env=variables, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_tool_is_one_file(tmp_path: Path) -> None:
    packages = install(tmp_path, "acme_greet", TOOL, group="tools", name="greetings", target="Greetings")
    with ScriptedModel([Call("greet", {"whom": "world"}), Say("Done.")]) as model:
        said = run(tmp_path, packages, model, options="toolsets=('file', 'greetings')")
    assert said.startswith("done None")
    assert [tool["function"]["name"] for tool in model.requests[0].json["tools"]][-1] == "greet"
    assert model.requests[1].json["messages"][-1]["content"] == '{"greeting":"Hello, world!"}'


def test_an_environment_is_one_file(tmp_path: Path) -> None:
    packages = install(tmp_path, "acme_echo", ENVIRONMENT, group="environments", name="echo", target="Echo")
    with ScriptedModel([Call("terminal", {"command": "make it so"}), Say("Done.")]) as model:
        said = run(tmp_path, packages, model, options="env='echo'")
    assert said == "done None | 127.0.0.1 openai-chat echo"
    assert "echoed: make it so" in model.requests[1].json["messages"][-1]["content"]


def test_a_wire_is_one_file(tmp_path: Path) -> None:
    packages = install(tmp_path, "acme_parrot", WIRE, group="models", name="parrot", target="Parrot")
    with ScriptedModel() as model:
        said = run(tmp_path, packages, model, MELETE_WIRE="parrot")
    assert said == "done None | 127.0.0.1 parrot local"
    assert not model.requests


def test_a_vendor_is_five_lines_of_data(tmp_path: Path) -> None:
    packages = tmp_path / "site"
    shutil.copytree(PACKAGE, packages / "melete", ignore=shutil.ignore_patterns("__pycache__"))
    catalogue = packages / "melete" / "models" / "catalog.toml"
    with ScriptedModel([Say("Hello.")]) as model:
        lines = VENDOR.format(base_url=model.base_url)
        assert len(lines.strip().splitlines()) == 5
        catalogue.write_text(catalogue.read_text() + lines)
        more = {"MELETE_BASE_URL": "", "MELETE_MODEL": "acme/rocket-1", "ACME_API_KEY": "acme-key-123"}
        before = "import melete; assert melete.__file__.startswith(sys.path[1]), melete.__file__"
        said = run(tmp_path, packages, model, before=before, **more)
    assert said == "done None | acme openai-chat local"
    assert model.requests[0].json["model"] == "rocket-1"
    assert model.requests[0].headers["authorization"] == "Bearer acme-key-123"


@pytest.mark.parametrize("kind", ["toolsets=('nothing',)", "env='nothing'"])
def test_a_name_that_nobody_has_is_an_error_that_lists_those_there_are(tmp_path: Path, kind: str) -> None:
    with ScriptedModel() as model, pytest.raises(AssertionError, match=r"ConfigError.*known: "):
        run(tmp_path, tmp_path, model, options=kind)
