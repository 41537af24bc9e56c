"""What Python code does beyond itself: the programs that it runs, the files that it deletes, moves, changes or opens. Pure.

The code is read as a tree and never run. Names are followed through imports and plain assignments, constant texts are put together;
what stays unknown is an unknown part of a command (NUL), and code that is made while it runs cannot be decided.
"""

import ast
import base64
import codecs
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from melete.security.inner import TOO_LONG, Inner
from melete.security.python_calls import ACTIONS, METHODS, Call, Ref, as_text, as_words, is_list
from melete.security.words import UNKNOWN, names

PYTHONS: Final = frozenset(("python", "pypy", "ipython"))
LONGEST = 30_000
MOST_NODES = 5_000
DEEPEST = 3
LONGEST_VALUE = 20_000
MOST_ITEMS = 1_000
MADE = "it runs code that it makes while it runs"
HANDED = "it hands on a function that runs programs or deletes files"
_HOLE: Final = "unknown_part_of_the_code"
"""Stands in the code where the shell put in what is not known."""
_BUILTINS: Final = names(
    "exec eval compile open __import__ getattr setattr globals locals vars chr str bytes bytearray map __builtins__ breakpoint"
)
_MODULES: Final = names("os subprocess shutil builtins posix pty")
_CONSTANTS: Final[Mapping[str, Any]] = {
    "sys.executable": "python3",
    "os.sep": "/",
    "os.devnull": "/dev/null",
    "os.curdir": ".",
}
_IMPORTS: Final = ("builtins.__import__", "importlib.__import__", "importlib.import_module")
_RUNS_CODE: Final = names(
    "builtins.exec builtins.eval builtins.compile builtins.__import__ importlib.__import__"
    " builtins.getattr builtins.setattr builtins.globals"
    " builtins.locals builtins.vars builtins.__builtins__ importlib.import_module timeit.timeit timeit.repeat cProfile.run"
    " profile.run runpy.run_path"
    " code.interact code.InteractiveInterpreter marshal.loads types.FunctionType"
    " types.CodeType pdb.run runpy.run_module _posixsubprocess.fork_exec builtins.breakpoint"
)
_SENDS: Final = names(
    "request post put patch send sendall sendto sendmail send_message urlopen urlretrieve storbinary upload_file upload_fileobj"
    " put_object"
)
"""What a function that sends is called, in whichever library."""
_TOLD: Final = names("socket ctypes urllib http requests httpx aiohttp")


def actions(code: str, depth: int = 0) -> list[Inner]:
    """What the code does: first itself, as the calls that it makes (`kind` "code"), then each program, file or unknown."""
    if _CODING.search(code):
        return [_itself(code), Inner(kind="opaque", text="its Python is written in a coding of its own")]
    if len(code) > LONGEST:
        return [_itself(code), Inner(kind="opaque", text=TOO_LONG)]
    try:
        tree = ast.parse(code.replace(UNKNOWN, _HOLE).strip("\n"))
        nodes = list(islice(ast.walk(tree), MOST_NODES))
        reader = _Reader(nodes, depth)
        if len(nodes) == MOST_NODES:
            reader.opaque(TOO_LONG)
        else:
            reader.visit(tree)
        if reader.sends and reader.read:
            reader.found.append(Inner(kind="argv", argv=("curl", "--upload-file", reader.read[0])))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [_itself(code), Inner(kind="opaque", text="its Python cannot be read")]
    return [_itself("\n".join(reader.calls) or "pass"), *reader.found]


def _itself(code: str) -> Inner:
    return Inner(kind="code", text=code, language="python")


_WIDE: Final = re.compile(r"%[^%a-zA-Z]*(?:\d{3}|\*)|\{[^{}]*:|\{[^{}]*\{")
"""A format that makes its result wider than its values."""
_CODING: Final = re.compile(r"\A(?:.*\n)?[ \t\f]*#.*?coding[:=][ \t]*(?!utf-?8|ascii|us-ascii|latin-?1|iso-8859-1)\S")


class _Reader(ast.NodeVisitor):
    """Walks the tree once, in order; what it meets is collected in `found`, other calls as text in `calls`."""

    def __init__(self, nodes: Sequence[ast.AST], depth: int) -> None:
        self.found: list[Inner] = []
        self.calls: list[str] = []
        self.depth = depth
        self.read: list[str] = []
        self.sends = False
        self.in_class = False
        self.rounds = 0
        self.names: dict[str, Any] = {}
        self.often: set[str] = set()
        seen: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self.often.update({node.id} & seen)
                seen.add(node.id)
            elif isinstance(node, ast.arg):
                self.often.add(node.arg)

    def opaque(self, why: str) -> None:
        """Something here cannot be told."""
        self.found.append(Inner(kind="opaque", text=why))

    # names

    def visit_Import(self, node: ast.Import) -> None:
        """`import a.b as c`."""
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            self.names[alias.asname or name] = Ref(name=name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """`from a import b as c`, and all that matters of `from a import *`."""
        for alias in node.names:
            if alias.name == "*":
                inside = [name for name in ACTIONS if name.rpartition(".")[0] == node.module]
                self.names.update({name.rpartition(".")[2]: Ref(name=name) for name in inside})
            else:
                self.names[alias.asname or alias.name] = Ref(name=f"{node.module}.{alias.name}")

    def visit_Assign(self, node: ast.Assign) -> None:
        """A name is given a value; a name that has several counts as unknown, what is kept elsewhere as handed on."""
        value = self.value(node.value)
        plain = not self.in_class and all(
            isinstance(one, ast.Name) and one.id not in self.often for one in node.targets
        )
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.names[target.id] = value if plain else None
            else:
                self._changed(target)
                self.visit(target)
        if not (plain and isinstance(value, Ref)):
            self.visit(node.value)

    def _changed(self, target: ast.expr) -> None:
        """An item of a list is replaced."""
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            self.names[target.value.id] = None

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Names in a class are reached through it."""
        before, self.in_class = self.in_class, True
        self.generic_visit(node)
        self.in_class = before

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """A name's value grows."""
        if isinstance(node.target, ast.Name):
            self.names[node.target.id] = None
        self.visit(node.value)

    def _often(self, node: ast.AST) -> None:
        """What may happen many times."""
        self.rounds += 1
        self.generic_visit(node)
        self.rounds -= 1

    visit_For = visit_AsyncFor = visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _often
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _often

    def visit_While(self, node: ast.While) -> None:
        """A loop that forks."""
        if any(isinstance(n, ast.Call) and self.value(n.func) == Ref(name="os.fork") for n in ast.walk(node)):
            self.calls.append("while True: os.fork()")
        self._often(node)

    def visit_Name(self, node: ast.Name) -> None:
        """A function that matters is used other than by a call."""
        self._handed_on(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """The same, and the ways behind what names say."""
        if node.attr in (
            "__dict__",
            "__globals__",
            "__builtins__",
            "__subclasses__",
            "__code__",
            "__getattribute__",
            "f_globals",
        ):
            self.opaque(MADE)
        self._handed_on(node)
        if self.value(node) == Ref(name="os.environ"):
            self.read.append("environ")
        if not isinstance(node.value, ast.Name) or node.value.id == "__builtins__":
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """One variable of the environment is not all of it."""
        if self.value(node.value) != Ref(name="os.environ"):
            self.visit(node.value)
        self.visit(node.slice)

    def _handed_on(self, node: ast.expr) -> None:
        value = self.value(node)
        if isinstance(value, Ref) and (value.name in ACTIONS or value.name in _RUNS_CODE or value.name in _MODULES):
            self.opaque(HANDED)

    def visit_Call(self, node: ast.Call) -> None:
        """A call: of what matters, of what runs code, or of something else."""
        called = self.value(node.func)
        name = called.name if isinstance(called, Ref) else getattr(node.func, "attr", "")
        self.sends = self.sends or name.rpartition(".")[2] in _SENDS
        shows = isinstance(node.func, ast.Name) and node.func.id in (
            "help",
            "dir",
            "print",
            "hasattr",
            "repr",
            "getattr",
        )
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if not (shows and isinstance(argument, ast.Name)):
                self.visit(argument)
        if not isinstance(called, Ref):
            if isinstance(node.func, ast.Attribute):
                self._method(node.func, node)
            self.visit(node.func)
            return
        if called.name in _RUNS_CODE:
            self._runs_code(called.name, node)
        elif called.name in ACTIONS:
            self._do(ACTIONS[called.name](self._call(node)))
        else:
            if called.name in ("os.environ.copy", "os.environ.items", "os.environ.values"):
                self.read.append("environ")
            texts = [value for one in node.args if isinstance(value := self.value(one), str)]
            shown = ", ".join(map(repr, texts)) if called.name.partition(".")[0] in _TOLD else ""
            self.calls.append(f"{called.name}({shown})")

    def _do(self, done: list[Inner]) -> None:
        """Take note of what is done; whoever deletes files that are not known, one after the other, is given a list of them."""
        for item in done:
            self.read += item.argv[1:] if item.argv[:1] == ("cat",) else ()
            many = self.rounds and item.argv[:1] in (("rm",), ("rmdir",)) and UNKNOWN in item.argv[-1]
            self.found.append(Inner(kind="argv", argv=("xargs", *item.argv[:-1])) if many else item)

    def _method(self, func: ast.Attribute, node: ast.Call) -> None:
        """A method of a path, or of what is not known."""
        value = self.value(func.value)
        if is_list(value):
            items = [self.value(argument) for argument in node.args]
            more = items[0] if func.attr == "extend" and items and is_list(items[0]) else items[-1:]
            value += more if func.attr in ("append", "extend", "insert") else [None]
            return
        if func.attr in METHODS and (value is None or isinstance(value, str)):
            self._do(METHODS[func.attr](self._call(node, as_text(value))))

    def _call(self, node: ast.Call, on: str = "") -> Call:
        named = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        return Call([self.value(argument) for argument in node.args], named, on=on)

    def _runs_code(self, name: str, node: ast.Call) -> None:
        value = self.value(node.args[0]) if node.args else None
        if name in ("builtins.getattr", "builtins.setattr"):
            called = self.value(node.args[1]) if len(node.args) > 1 else None
            if (isinstance(value, Ref) and not isinstance(self.value(node), Ref)) or called in METHODS:
                self.opaque(MADE)
        elif name in _IMPORTS:
            if not isinstance(self.value(node), Ref):
                self.opaque(MADE)
        elif isinstance(value, str | bytes) and UNKNOWN not in as_text(value) and self.depth < DEEPEST:
            self.found += [item for item in actions(as_text(value), self.depth + 1) if item.kind != "code"]
        else:
            self.opaque(MADE)

    # values

    def value(self, node: ast.expr | None) -> Any:
        """The constant, path, list or name that an expression stands for; None for all else."""
        known = _VALUES.get(type(node))
        found = known(self, node) if known else None
        if isinstance(found, str | bytes) and len(found) > LONGEST_VALUE:
            return UNKNOWN
        return None if is_list(found) and len(found) > MOST_ITEMS else found

    def named(self, node: ast.Name) -> Any:
        """What a name stands for."""
        if node.id in self.names:
            return self.names[node.id]
        if node.id in _MODULES:  # not imported here, perhaps before
            return Ref(name=node.id)
        return Ref(name=f"builtins.{node.id}") if node.id in _BUILTINS else None

    def attribute(self, node: ast.Attribute) -> Any:
        """What stands in a module."""
        base = self.value(node.value)
        if isinstance(base, Ref):
            name = f"{base.name}.{node.attr}".replace("builtins.__builtins__.", "builtins.")
            return _CONSTANTS.get(name, Ref(name=name))
        return posixpath.dirname(base) or "." if isinstance(base, str) and node.attr == "parent" else None

    def joined(self, node: ast.JoinedStr) -> str:
        """An f-string."""
        return "".join(
            as_text(self.value(part.value if isinstance(part, ast.FormattedValue) else part)) for part in node.values
        )

    def binary(self, node: ast.BinOp) -> Any:
        """Texts and lists put together, paths, formats."""
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Add):
            if is_list(left) and is_list(right):
                return [*left, *right]
            return as_text(left) + as_text(right) if isinstance(left, str) or isinstance(right, str) else None
        if isinstance(node.op, ast.Div) and isinstance(left, str):
            return posixpath.join(left, as_text(right))
        if isinstance(node.op, ast.Mod) and isinstance(left, str) and not _WIDE.search(left):
            values = right if is_list(right) else [right]
            try:
                return left % tuple(as_text(value) for value in values)
            except (TypeError, ValueError):
                return UNKNOWN
        return None

    def subscript(self, node: ast.Subscript) -> Any:
        """An item, a reversed text, a module by its name."""
        base = self.value(node.value)
        if base == Ref(name="sys.modules"):
            key = self.value(node.slice)
            return Ref(name=key) if isinstance(key, str) else None
        if base == Ref(name="os.environ") and self.value(node.slice) == "HOME":
            return "~"
        if not (isinstance(base, str) or is_list(base)):
            return None
        if isinstance(node.slice, ast.Slice):
            parts = [self.value(part) for part in (node.slice.lower, node.slice.upper, node.slice.step)]
            return base[slice(*(part if isinstance(part, int) else None for part in parts))] if parts[2] != 0 else None
        at = self.value(node.slice)
        return base[at] if isinstance(at, int) and -len(base) <= at < len(base) else None

    def result(self, node: ast.Call) -> Any:
        """What a call gives, when it is a plain function of constants."""
        called = self.value(node.func)
        values = [self.value(argument) for argument in node.args]
        try:
            if isinstance(called, Ref):
                return _FUNCTIONS[called.name](*values) if called.name in _FUNCTIONS else None
            if isinstance(node.func, ast.Attribute):
                return _of_method(self.value(node.func.value), node.func.attr, values)
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError):
            return None
        return None


def _of_method(base: Any, name: str, values: list[Any]) -> Any:
    if isinstance(base, bytes):
        return base.decode("utf-8", "replace") if name == "decode" else None
    known = _METHODS.get(name) if isinstance(base, str) else None
    size = max((len(value) for value in values if isinstance(value, str)), default=1)
    return known(base, *values) if known and len(base) * size <= LONGEST_VALUE else None


def _own(name: str) -> Callable[..., Any]:
    def called(text: str, *values: Any) -> Any:
        return getattr(text, name)(*values) if None not in values else None

    return called


def _home(name: Any, *_: Any) -> Any:
    return "~" if name == "HOME" else None


def _packed(value: Any) -> Any:
    return bytes(value) if is_list(value) or isinstance(value, bytes) else None


def _decoded(text: Any, how: str = "utf-8") -> Any:
    found: Any = codecs.decode(text, how) if how in ("rot13", "rot_13", "utf-8", "utf8", "ascii", "hex") else None
    return found


def _bytes(convert: Callable[[str], bytes]) -> Callable[..., bytes]:
    def called(text: Any, *_: Any) -> bytes:
        return convert(as_text(text))

    return called


def _join(text: str, items: Any) -> str:
    return text.join(as_words(items))


def _format(text: str, *values: Any) -> str:
    return UNKNOWN if _WIDE.search(text) else text.format(*map(as_text, values))


def _attribute_of(base: Any, name: Any, *_: Any) -> Any:
    return Ref(name=f"{base.name}.{name}") if isinstance(base, Ref) and isinstance(name, str) else None


def _module(name: Any, *_: Any) -> Any:
    return Ref(name=name) if isinstance(name, str) and UNKNOWN not in name else None


def _mapped(function: Any, values: Any) -> Any:
    return [chr(value) for value in values] if function == Ref(name="builtins.chr") else None


def _path(*parts: Any) -> str:
    return posixpath.join(*map(as_text, parts)) if parts else "."


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "builtins.chr": chr, "builtins.str": as_text, "builtins.getattr": _attribute_of, "builtins.map": _mapped,
    **dict.fromkeys(_IMPORTS, _module), "builtins.bytes": _packed, "builtins.bytearray": _packed,
    "builtins.bytes.fromhex": _bytes(bytes.fromhex), "binascii.unhexlify": _bytes(bytes.fromhex),
    "base64.b64decode": _bytes(base64.b64decode), "base64.b32decode": _bytes(base64.b32decode),
    "base64.b16decode": _bytes(base64.b16decode), "base64.b85decode": _bytes(base64.b85decode),
    "base64.urlsafe_b64decode": _bytes(base64.urlsafe_b64decode), "codecs.decode": _decoded, "shlex.split": shlex.split,
    "shlex.quote": shlex.quote, "pathlib.Path": _path, "pathlib.PosixPath": _path, "pathlib.PurePath": _path,
    "os.path.join": _path, "os.path.expanduser": as_text, "os.path.abspath": as_text, "os.path.realpath": as_text,
    "os.fspath": as_text, "pathlib.Path.home": lambda: "~", "os.getenv": _home, "os.environ.get": _home,
}  # fmt: skip
_METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        name: _own(name)
        for name in names(
            "replace lower upper split swapcase title removeprefix removesuffix strip lstrip rstrip encode"
        )
    },
    **dict.fromkeys(names("resolve absolute expanduser as_posix __str__ __fspath__"), as_text),
    "join": _join,
    "joinpath": _path,
    "format": _format,
}
_VALUES: Final[Mapping[type, Callable[[_Reader, Any], Any]]] = {
    ast.Constant: lambda _, node: node.value.replace(_HOLE, UNKNOWN) if isinstance(node.value, str) else node.value,
    ast.Name: _Reader.named, ast.Attribute: _Reader.attribute, ast.JoinedStr: _Reader.joined, ast.BinOp: _Reader.binary,
    ast.List: lambda reader, node: [reader.value(one) for one in node.elts],
    ast.Tuple: lambda reader, node: [reader.value(one) for one in node.elts],
    ast.UnaryOp: lambda reader, node: -value if isinstance(value := reader.value(node.operand), int)
    and isinstance(node.op, ast.USub) else None,
    ast.Subscript: _Reader.subscript, ast.Call: _Reader.result, ast.NamedExpr: lambda reader, node: reader.value(node.value),
}  # fmt: skip
