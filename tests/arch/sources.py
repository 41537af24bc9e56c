"""The source tree as parsed modules, read once for all tests of the architecture."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "melete"

type_of_function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Source:
    """One Python file: where it is, what it is called, what it says."""

    path: Path
    name: str  # dotted: melete.core.message
    text: str
    tree: ast.Module

    @property
    def where(self) -> str:
        """The path as people write it."""
        return self.path.relative_to(ROOT).as_posix()

    def at(self, node: ast.AST) -> str:
        """The place of a node, as an editor opens it."""
        return f"{self.where}:{getattr(node, 'lineno', 1)}"

    def functions(self) -> Iterator[type_of_function]:
        """Every function and method, nested ones included."""
        for node in ast.walk(self.tree):
            if isinstance(node, type_of_function):
                yield node


def dotted(path: Path) -> str:
    """The import name of a file below src."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def package() -> tuple[Source, ...]:
    """Every module of the package itself; the files of bundled skills are data, which run elsewhere."""
    data = PACKAGE / "skills" / "bundled"
    return tuple(_read(path, dotted(path)) for path in sorted(PACKAGE.rglob("*.py")) if data not in path.parents)


@cache
def around(*folders: str) -> tuple[Source, ...]:
    """Every Python file in these folders beside the package (tests, examples, scripts, benchmarks)."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return tuple(_read(path, path.stem) for path in paths)


def call_name(node: ast.expr) -> str:
    """The dotted name that an expression spells, or what of it can be spelled."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{call_name(value)}.{attr}"
        case ast.Call(func=func):
            return f"{call_name(func)}()"
        case _:
            return "?"


def _read(path: Path, name: str) -> Source:
    text = path.read_text(encoding="utf-8")
    return Source(path=path, name=name, text=text, tree=ast.parse(text, filename=str(path)))
