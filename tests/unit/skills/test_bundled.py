"""The bundled skills keep the rules that we ask of others, are judged safe, and what they say was tried works."""

import hashlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

import melete.skills
from melete.core.skill import Skill
from melete.security.skillscan import scan
from melete.skills.catalogue import PREPARED
from melete.skills.format import read_skill, strict

BUNDLED = Path(melete.skills.__file__).parent / "bundled"
FILES = sorted(BUNDLED.rglob("SKILL.md"))
CATEGORIES = sorted({path.parent.parent for path in FILES})
FIELDS = ["name", "description", "license", "compatibility", "platforms", "metadata", "required_environment_variables"]
LONGEST_DESCRIPTION = 240
LONGEST_BODY = 150
SECONDS = 20
PROMISED = frozenset([
    "apple-notes", "apple-reminders", "arxiv", "blogwatcher", "code-review", "debug-rust", "deploy-k8s", "docker-network-debug",
    "dogfood", "findmy", "imessage", "llm-wiki", "minecraft-modpack-server", "mysql-analysis", "pdf-processing", "pokemon-player",
    "polymarket", "python-fix-error", "research-paper-writing", "tech-blog-writing", "test-case-design",
])  # fmt: skip
"""Skills that people look for by these names."""
PROGRAMS = [
    "cargo", "curl", "docker", "dot", "duckdb", "ffmpeg", "gcc", "gdb", "git", "jq", "kubectl", "mmdc", "mysql", "nginx", "node",
    "npm", "openssl", "pdftotext", "perf", "psql", "qpdf", "rg", "rustc", "soffice", "sqlite3", "ssh", "ssh-keygen", "strace",
    "systemd-analyze", "tmux", "unzip", "valgrind",
]  # fmt: skip
"""Programs that a check may need and a machine may lack."""
LACKED = re.compile(r"ModuleNotFoundError: No module named '(\w+)'")

every = pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    counted = Counter(path.parent.name for path in FILES)
    assert [name for name, times in counted.items() if times > 1] == []
    assert len(counted) >= 58
    assert counted.keys() >= PROMISED


def test_what_they_say_is_prepared_for_the_first_start() -> None:
    prepared = msgspec.json.decode(PREPARED.read_bytes(), type=dict[str, Skill])
    read = {
        hashlib.sha256(path.read_bytes()).hexdigest(): read_skill(path.read_bytes(), folder=path.parent.name)[0]
        for path in FILES
    }
    assert prepared == read, "write it anew: python scripts/prepare_skills.py"


@pytest.mark.parametrize("folder", CATEGORIES, ids=lambda folder: folder.name)
def test_every_category_says_in_a_sentence_what_it_holds(folder: Path) -> None:
    said = (folder / "DESCRIPTION.md").read_text(encoding="utf-8")
    assert re.fullmatch(r"[A-Z][^.\n]{20,200}\.\n", said)


@every
def test_its_head_is_as_strict_as_what_an_agent_may_write(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    front = strict(text, name=path.parent.name)
    assert list(front.fields) == [name for name in FIELDS if name in front.fields]
    skill, _ = read_skill(text, folder=path.parent.name)
    assert skill.category == path.parent.parent.name
    assert skill.license == "MIT"
    assert skill.tags
    assert skill.tried
    assert front.fields["metadata"]["verify"].strip()
    assert len(skill.description) <= LONGEST_DESCRIPTION
    assert "Use " in skill.description
    assert not (unknown := set(skill.related) - {each.parent.name for each in FILES}), unknown


@every
def test_its_text_has_the_same_parts_as_the_others(path: Path) -> None:
    body = read_skill(path.read_text(encoding="utf-8"))[1]
    parts = re.findall(r"^##? (.+)$", re.sub(r"(?ms)^ *(```+).*?^ *\1$", "", body), re.MULTILINE)
    assert [part for part in parts if part in ("Steps", "Pitfalls", "Check")] == ["Steps", "Pitfalls", "Check"]
    assert body.lstrip().startswith("# ")
    assert body.count("\n") <= LONGEST_BODY


@every
def test_every_file_that_it_names_is_there(path: Path) -> None:
    body = read_skill(path.read_text(encoding="utf-8"))[1]
    named = re.findall(r"\{base_dir\}/([\w./-]+\w)|\]\((?![a-z]+:|#)([^)\s]+)\)", body)
    dead = [one for pair in named for one in pair if one and not (path.parent / one).is_file()]
    beside = {one.relative_to(path.parent).as_posix() for one in path.parent.rglob("*") if one.is_file()}
    assert not dead
    assert all(one in body for one in beside - {"SKILL.md"})


@every
def test_the_scan_finds_nothing_in_it(path: Path) -> None:
    files = {
        one.relative_to(path.parent).as_posix(): one.read_bytes() for one in path.parent.rglob("*") if one.is_file()
    }
    report = scan(files | {"../DESCRIPTION.md": (path.parent.parent / "DESCRIPTION.md").read_bytes()})
    assert report.verdict == "safe", report.why


@every
def test_its_check_passes_where_its_programs_are(path: Path, tmp_path: Path) -> None:
    fields = strict(path.read_text(encoding="utf-8")).fields["metadata"]
    command = fields["verify"].replace("{base_dir}", str(path.parent))
    if fields["tried"].startswith("not run here"):
        pytest.skip(fields["tried"])
    if absent := [
        name for name in PROGRAMS if re.search(rf"(?<![\w./-]){name}\b(?!=)", command) and not shutil.which(name)
    ]:
        pytest.skip(f"{', '.join(absent)} is not here")
    code, output = _run(command, tmp_path)
    if code and (lacked := LACKED.search(output)):
        pytest.skip(f"the package {lacked[1]} is not here")
    assert code == 0, output[-2_000:]


def _run(command: str, folder: Path) -> tuple[int, str]:
    """The command's exit status and output, in a folder of its own; all that it started is ended."""
    toolchains = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".rustup"
    env = os.environ | {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(toolchains)),
    }
    work = folder / "work"
    work.mkdir()
    started = subprocess.Popen(
        ["bash", "-c", command], cwd=work, env=env, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    try:
        output = started.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        output = started.communicate()[0] + f"\nstill running after {SECONDS} s"
    return started.returncode, output
