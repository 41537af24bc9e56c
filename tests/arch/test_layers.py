"""The layers and the habits that no linter checks as we mean them.

surfaces → app → testing → parts → security → core. import-linter checks the graph too; this reads the files themselves, so that
lazy targets written as strings, imports for types only and imports inside functions are seen as well.
"""

import ast
import re
import sys
from collections.abc import Iterator

import pytest

import melete
from tests.arch.sources import PACKAGE, Source, around, call_name, package

RANKS = {"core": 0, "security": 1, "testing": 3, "app": 4, "surfaces": 5, "__main__": 6}
PART = 2

LAZY_TARGET = re.compile(r"^(melete(?:\.\w+)+):[A-Za-z_]\w*$")
MAY_NAME_ANY_TARGET = {"melete", "melete.__main__"}  # and the composition root, which knows every part

ENVIRONMENT_READER = "melete.app.settings"
IMPORTERS = {"melete", "melete.core.plugin"}

THIRD_PARTY = {  # which rooms a dependency may be used in; None is everywhere
    "msgspec": None,
    "click": {"surfaces"},
    "rich": {"surfaces"},
    "fastjsonschema": {"app"},
    "h11": {"environments", "models", "net", "surfaces"},
    "markdown_it": {"app"},  # in the readable forms of an export
    "daytona": {"environments"},  # in one file each, which is loaded when a sandbox is made
    "modal": {"environments"},
    "matplotlib": {"app"},  # in the picture of insights alone
    "pydantic_ai": {"models"},  # in the bridge alone, which nothing else imports
    "yaml": {"app", "skills"},
    "starlette": {"surfaces"},
    "uvicorn": {"surfaces"},
    "cronsim": {"app"},
    "prometheus_client": {"app"},
    "opentelemetry": {"app"},  # in the spans of traces alone
    "numpy": {"memory"},  # in the memory of vectors alone
    "safetensors": {"memory"},
    "tokenizers": {"memory"},
}
EXTRAS = {  # the files of an extra, which nothing else imports, and what it brings
    "melete.models.bridge": {"pydantic_ai", "xllamacpp"},
    "melete.app.insights_png": {"matplotlib"},
    "melete.environments.daytona_service": {"daytona"},
    "melete.environments.modal_service": {"modal"},
    "melete.app.spans": {"opentelemetry"},
    "melete.memory.vectors": {"numpy", "safetensors", "tokenizers"},
}
INPUT_OUTPUT = {
    "asyncio.subprocess", "http", "multiprocessing", "shutil", "socket", "socketserver", "sqlite3", "ssl", "subprocess",
    "tempfile", "urllib.request",
}  # fmt: skip


def room(name: str) -> str:
    """The folder below melete that a module stands in; empty for the package itself."""
    return name.split(".")[1] if name.startswith("melete.") else ""


def rank(name: str) -> int:
    """The layer of a module: 0 is the lowest."""
    return RANKS.get(room(name), PART)


def imports(source: Source) -> Iterator[tuple[ast.stmt, str]]:
    """Every module that a file imports, absolute."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{source.at(node)}: a relative import"
            if node.module == "melete":  # a name of the package stands for the module that it comes from
                yield from ((node, origin(alias.name)) for alias in node.names)
            else:
                yield node, node.module or ""


def origin(name: str) -> str:
    """The module that `from melete import name` really imports; the package itself for its version."""
    return melete._HOME_OF.get(name, "melete" if name == "__version__" else f"melete.{name}")


def lazy_targets(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Every module of ours that a file names in a lazy target."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (found := LAZY_TARGET.match(node.value)):
            yield node, found[1]


def why_not(importer: str, target: str) -> str:
    """Why a module may not use another; empty when it may."""
    if target == "melete":
        return ""
    if room(target) in {"", room(importer)}:
        same_surface = importer.split(".")[:3] == target.split(".")[:3]
        shared = target == "melete.surfaces"
        return "" if room(importer) != "surfaces" or same_surface or shared else "surfaces are independent"
    if rank(target) == rank(importer) == PART:
        return "parts are independent: take a core protocol through the constructor"
    if rank(target) > rank(importer):
        return "imports go down only"
    if room(importer) == "surfaces" and room(target) not in {"app", "core"}:
        return "surfaces import app and core only"
    return ""


@pytest.mark.parametrize(
    ("importer", "target", "allowed"),
    [
        ("melete.agent.loop", "melete.core.message", True),
        ("melete.agent.loop", "melete.agent.hub", True),
        ("melete.agent.loop", "melete.security.paths", True),
        ("melete.agent.loop", "melete.store.log", False),
        ("melete.core.message", "melete.agent.loop", False),
        ("melete.security.paths", "melete.tools.files", False),
        ("melete.app.wire", "melete.store.log", True),
        ("melete.app.wire", "melete.surfaces.cli.main", False),
        ("melete.surfaces.cli.main", "melete.surfaces.cli.show", True),
        ("melete.surfaces.cli.main", "melete.surfaces.web.page", False),
        ("melete.surfaces.cli.main", "melete.store.log", False),
        ("melete.surfaces.cli.main", "melete.app.service", True),
        ("melete.surfaces.cli.main", "melete", True),
    ],
)
def test_the_rule_itself_tells_right_from_wrong(importer: str, target: str, allowed: bool) -> None:
    assert (why_not(importer, target) == "") is allowed


def test_a_name_taken_from_the_package_counts_as_its_home() -> None:
    tree = ast.parse("from melete import __version__, load")
    source = Source(path=PACKAGE / "agent" / "made_up.py", name="melete.agent.made_up", text="", tree=tree)
    assert [target for _, target in imports(source)] == ["melete", "melete.app.settings"]
    assert why_not(source.name, "melete.app.settings") == "imports go down only"


def test_imports_go_down_only_and_siblings_stay_apart() -> None:
    wrong = [
        f"{source.at(node)} imports {target}: {reason}"
        for source in package()
        if source.name != "melete"
        for node, target in imports(source)
        if target.split(".")[0] == "melete" and (reason := why_not(source.name, target))
    ]
    assert not wrong, "\n".join(wrong)


def test_lazy_targets_keep_to_the_layers() -> None:
    """A string must not be the way round the rule; only the composition root may name what lies above it."""
    wrong = [
        f"{source.at(node)} names {target}: {reason}"
        for source in package()
        if source.name not in MAY_NAME_ANY_TARGET and room(source.name) != "app"
        for node, target in lazy_targets(source)
        if (reason := why_not(source.name, target))
    ]
    assert not wrong, "\n".join(wrong)


def test_dependencies_stay_in_their_rooms() -> None:
    wrong: list[str] = []
    for source in package():
        for node, target in imports(source):
            top = target.split(".")[0]
            if top in sys.stdlib_module_names or top == "melete":
                continue
            rooms = THIRD_PARTY.get(top, set())
            if rooms is not None and room(source.name) not in rooms:
                wrong.append(f"{source.at(node)} imports {top}, which belongs to {sorted(rooms) or 'no room'}")
    assert not wrong, "\n".join(wrong)


def test_an_extra_is_imported_by_nothing_but_its_own_files() -> None:
    wrong = [
        f"{source.at(node)} imports {target}"
        for own, packages in EXTRAS.items()
        for source in package()
        if not source.name.startswith(own)
        for node, target in imports(source)
        if target.split(".")[0] in packages or target.startswith(own)
    ]
    assert not wrong, "\n".join(wrong)


def test_core_and_security_do_no_input_or_output() -> None:
    wrong = [
        f"{source.at(node)} imports {target}"
        for source in package()
        if room(source.name) in {"core", "security"}
        for node, target in imports(source)
        if target in INPUT_OUTPUT or target.split(".")[0] in INPUT_OUTPUT
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_imported_inside_a_function() -> None:
    inside = [
        source.at(node)
        for source in package()
        for function in source.functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not inside, inside


def test_only_lazy_imports_by_name() -> None:
    wrong = [
        source.at(node)
        for source in package()
        if source.name not in IMPORTERS
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and call_name(node.func).split(".")[-1] in {"import_module", "__import__"}
    ]
    assert not wrong, wrong


def test_only_the_settings_read_the_environment() -> None:
    readers = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    wrong: list[str] = []
    for source in package():
        if source.name == ENVIRONMENT_READER:
            continue
        for node in ast.walk(source.tree):
            attribute = isinstance(node, ast.Attribute) and node.attr in readers and call_name(node.value) == "os"
            name = isinstance(node, ast.ImportFrom) and node.module == "os" and readers & {a.name for a in node.names}
            if attribute or name:
                wrong.append(source.at(node))
    assert not wrong, wrong


def test_no_global_statement() -> None:
    wrong = [source.at(node) for source in package() for node in ast.walk(source.tree) if isinstance(node, ast.Global)]
    assert not wrong, wrong


def test_every_task_belongs_to_a_group() -> None:
    wrong: list[str] = []
    for source in package():
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call):
                continue
            owner, _, called = call_name(node.func).rpartition(".")
            loose = called == "create_task" and (owner in {"", "asyncio"} or "loop" in owner)
            if loose or called == "ensure_future":
                wrong.append(source.at(node))
    assert not wrong, wrong


def test_nothing_is_printed_outside_the_surfaces() -> None:
    wrong = [
        source.at(node)
        for source in package()
        if room(source.name) != "surfaces"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and call_name(node.func) == "print"
    ]
    assert not wrong, wrong


def test_no_mocks_anywhere() -> None:
    wrong = [
        f"{source.at(node)} imports {target}"
        for source in (*package(), *around("tests", "examples", "benchmarks"))
        for node, target in imports(source)
        if target.split(".")[0] == "mock" or target.startswith("unittest")
    ]
    assert not wrong, wrong


def test_no_failure_is_swallowed() -> None:
    wrong = [
        source.at(node)
        for source in package()
        for node in ast.walk(source.tree)
        if (isinstance(node, ast.ExceptHandler) and _swallows(node))
        or (isinstance(node, ast.Call) and call_name(node.func).endswith("suppress") and _broad(node.args))
    ]
    assert not wrong, wrong


@pytest.mark.parametrize(
    ("handler", "swallows"),
    [
        ("except: raise", True),
        ("except Exception: pass", True),
        ("except (OSError, Exception): x = 1", True),
        ("except BaseException: return None", True),
        ("except Exception as error: x = 1", True),
        ("except Exception as error: keep(error)", False),
        ("except Exception: log.exception('what was kept')", False),
        ("except BaseException: raise", False),
        ("except OSError: pass", False),
    ],
)
def test_the_rule_on_failures_tells_right_from_wrong(handler: str, swallows: bool) -> None:
    tree = ast.parse(f"def f():\n    try: g()\n    {handler}")
    (found,) = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    assert _swallows(found) is swallows


def _swallows(handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes everything and says nothing: neither raises, nor keeps the error, nor logs it."""
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    if not _broad(caught):
        return False
    for statement in handler.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Raise) or (isinstance(node, ast.Name) and node.id == handler.name):
                return False
            if isinstance(node, ast.Call) and re.search(r"\blog(ger)?\.", call_name(node.func)):
                return False
    return True


def _broad(caught: list[ast.expr]) -> bool:
    return any(call_name(kind) in {"Exception", "BaseException"} for kind in caught)
