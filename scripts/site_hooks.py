"""Hooks of the documentation site: decision records find their own way into the navigation and into their index."""

from pathlib import Path
from typing import Any

LIST_HERE = "<!-- the records -->"


def on_config(config: Any) -> Any:
    """Add every decision record to the navigation, in the order of its number."""
    for section in config.nav:
        if "Decisions" in section:
            section["Decisions"] += [f"adr/{path.name}" for path in _records(Path(config.docs_dir))]
    return config


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 - the hook's signature
    """List the records on their index page."""
    if page.file.src_uri != "adr/index.md":
        return markdown
    lines = [f"- [{_title(path)}]({path.name})" for path in _records(Path(config.docs_dir))]
    return markdown.replace(LIST_HERE, "\n".join(lines))


def _records(docs: Path) -> list[Path]:
    return sorted(path for path in (docs / "adr").glob("*.md") if path.name != "index.md")


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("#").strip()
