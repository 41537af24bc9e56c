"""What no file of the tree may hold, and that every page of the documentation can be found."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.arch.sources import ROOT

FOLDERS = ("src", "tests", "docs", "examples", "benchmarks", "scripts", ".ci")
TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".sql", ".sh", ".txt", ".json", ".jsonl", ".lock", ".css", ".tcss", ""}
THIS = Path(__file__).resolve()

FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.$}~-])/(work|root|workspace)/\w|/tmp/(dev|brief|house)\b"),
    "the host of a package registry": re.compile(r"\b(pypi|npmjs|pythonhosted|debian)\.(org|com|net)\b"),
    "work left for later": re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"),
    "the number of an issue": re.compile(r"\bissues? #?\d|\(#\d+\)|/issues/\d"),
}


def files() -> Iterator[Path]:
    """Every text file of ours, this one apart."""
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    paths += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in sorted(paths):
        foreign = {"__pycache__", "node_modules"} & set(path.parts)
        if path != THIS and path.suffix in TEXT and not foreign and path.name != ".git":
            yield path


def test_no_file_holds_what_does_not_belong() -> None:
    wrong: list[str] = []
    for path in files():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            wrong += [
                f"{path.relative_to(ROOT)}:{number} holds {what}: {line.strip()[:120]}"
                for what, pattern in FORBIDDEN.items()
                if pattern.search(line)
            ]
    assert not wrong, "\n".join(wrong)


def test_the_pins_hold_hashes_and_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    pins = [line for line in lock.splitlines() if line and line[0].isalnum()]
    assert pins
    assert lock.count("--hash=sha256:") >= len(pins)
    assert all("==" in pin and pin.endswith("\\") for pin in pins)


def test_every_page_of_the_documentation_is_in_the_navigation() -> None:
    """Decision records need no entry: the site lists the folder itself."""
    site = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    records = {page for page in pages if re.fullmatch(r"adr/\d{4}-[a-z0-9-]+\.md", page)}
    assert set(_pages(site["nav"])) == pages - records


def test_every_link_of_the_pages_outside_the_site_leads_somewhere() -> None:
    """The site's own links are checked when it is built."""
    link = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)")
    pages = [*ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    dead = [
        f"{page.relative_to(ROOT)} links to {target}"
        for page in pages
        for target in link.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert any(link.search(page.read_text(encoding="utf-8")) for page in pages)
    assert not dead, dead


def test_decision_records_are_numbered_without_gaps_and_titled() -> None:
    records = sorted(path for path in (ROOT / "docs" / "adr").glob("*.md") if path.name != "index.md")
    assert [path.name[:4] for path in records] == [f"{number:04}" for number in range(1, len(records) + 1)]
    for path in records:
        assert path.read_text(encoding="utf-8").startswith("# "), path.name


def _pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for inner in entry.values():
            yield from _pages(inner)
    else:
        for inner in entry:
            yield from _pages(inner)
