"""What the code in a skill does, as signs: Python and JavaScript as trees, the commands that they run as shell. Pure; nothing is run."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import accumulate
from typing import Any, Final

from melete.core.plugin import Lazy
from melete.security.plan import plan, plan_code
from melete.security.rules import PLACES
from melete.security.skillscan_shell import SLICE, URL, Sign, collects, host_of, moved, planned, shell, slices
from melete.security.words import names

_Language: Lazy[Any] = Lazy("tree_sitter:Language")
_Parser: Lazy[Any] = Lazy("tree_sitter:Parser")
_Query: Lazy[Any] = Lazy("tree_sitter:Query")
_Cursor: Lazy[Any] = Lazy("tree_sitter:QueryCursor")
_javascript: Lazy[Any] = Lazy("tree_sitter_javascript:language")

DEEPEST: Final = 150
"""How deep brackets may be nested: the parser takes too long beyond."""
LONGEST_TEXT: Final = 1_500
_STORES: Final = re.compile(
    r"(?i)(?:Chrome|Chromium|Brave|Edge|Firefox|Mozilla)\b.{0,80}(?:Login Data|Cookies|logins\.json|key4\.db|Local State)|wallet\.dat"
)


def read(code: str, language: str) -> list[Sign]:
    """What code in a language (`shell`, `python`, `javascript`) does; empty for other languages. Never raises."""
    reader = _READERS.get(language)
    signs = list(reader(code)) if reader else []
    inner = [moved(each, sign.line) for sign in signs if sign.rule == "inline" for each in read(sign.text, sign.host)]
    return [*(sign for sign in signs if sign.rule != "inline"), *(sign for sign in inner if sign.rule != "unjudged")]


# ---- python --------------------------------------------------------------------------------------

_SENDS: Final = names(
    "post put patch sendall sendto sendmail send_message storbinary storlines urlopen request Request"
)
_FETCHES: Final = names("get urlopen read text content recv")
_DECODES: Final = names("b64decode b32decode b85decode a85decode fromhex unhexlify decompress loads decode")
_NETWORK: Final = re.compile(
    r"\b(?:requests|httpx|aiohttp|urllib|socket|http\.client|smtplib|ftplib|paramiko|websockets?)\b"
)
_ENDS: Final = re.compile(
    r"sleep|wait|accept|recv|get|read|input|poll|select|run|join|next|listen|serve|exit|stop|fetch|exec|tick|update"
)


def _python(code: str) -> Iterator[Sign]:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield Sign(rule="unjudged", text="its Python cannot be read")
        return
    reader = _Tree(_NETWORK.search(code) is not None)
    try:
        reader.visit(tree)
    except RecursionError:
        yield Sign(rule="unjudged", text="its Python is nested too deeply")
    yield from reader.found
    lines = code.splitlines(keepends=True)
    imports = "".join(ast.unparse(node) + "\n" for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))[
        :4000
    ]
    for start, piece in _chunks(tree, lines):
        for sign in planned(plan_code(imports + piece if start else piece, "python"), piece):
            yield moved(sign, start)


def _chunks(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, str]]:
    """The code in pieces of whole statements; methods of a long class on their own."""
    ends = [0, *accumulate(map(len, lines))]
    start = 0
    for node in tree.body:
        long = isinstance(node, ast.ClassDef) and ends[node.end_lineno or 0] - ends[node.lineno - 1] > SLICE
        for part in node.body if isinstance(node, ast.ClassDef) and long else (node,):
            if ends[part.lineno - 1] - ends[start] > SLICE // 2:
                yield start, _dedented(lines[start : part.lineno - 1])
                start = part.lineno - 1
    yield start, _dedented(lines[start:])


def _dedented(lines: list[str]) -> str:
    first = next((line for line in lines if line.strip()), "")
    indent = len(first) - len(first.lstrip())
    return "".join(line[indent:] if not line[:indent].strip() else line for line in lines)


class _Tree(ast.NodeVisitor):
    """Walks a module once."""

    def __init__(self, networked: bool) -> None:
        self.networked = networked
        self.found: list[Sign] = []
        self.values: dict[str, set[str]] = {}
        self.calls: set[str] = set()
        self.names: dict[str, str] = {}

    def dotted(self, node: Any) -> str:
        """The full name of what is used, through imports."""
        first, dot, rest = _dotted(node).partition(".")
        return f"{self.names.get(first, first)}{dot}{rest}"

    def visit_Import(self, node: ast.Import) -> None:
        """`import a as b`."""
        self.names.update({alias.asname: alias.name for alias in node.names if alias.asname})

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """`from a import b as c`."""
        self.names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})

    def add(self, rule: str, node: ast.AST, *, text: str) -> None:
        """Note something found."""
        self.found.append(Sign(rule=rule, line=getattr(node, "lineno", 1) - 1, text=text))

    def visit_Assign(self, node: ast.Assign) -> None:
        """A name that stands for something decoded or downloaded."""
        kinds = self.kinds(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name) and kinds:
                self.values[target.id] = kinds
        self.generic_visit(node)

    def kinds(self, value: ast.AST) -> set[str]:
        """Whether a value was decoded or downloaded."""
        found: set[str] = set()
        for node in ast.walk(value):
            if isinstance(node, ast.Call):
                name = self.dotted(node.func)
                last = name.rpartition(".")[2]
                found |= (
                    {"decoded"} if last in _DECODES and not name.startswith("json.") and last != "decode" else set()
                )
                found |= {"fetched"} if _NETWORK.match(name) and last in _FETCHES else set()
            elif isinstance(node, ast.Name):
                found |= self.values.get(node.id, set())
        return found

    def visit_Call(self, node: ast.Call) -> None:
        """A call."""
        name = self.dotted(node.func)
        last = name.rpartition(".")[2]
        self.calls.add(name)
        if (
            name in ("exec", "eval", "builtins.exec", "builtins.eval", "marshal.loads", "types.FunctionType")
            and node.args
        ):
            self.runs(node)
        elif name == "getattr" and len(node.args) > 1 and not isinstance(node.args[1], ast.Constant):
            if self.dotted(node.args[0]) in ("os", "subprocess", "builtins", "__builtins__", "__import__"):
                self.add("made-code", node, text="getattr")
        elif (
            self.networked and last in _SENDS and (last not in ("urlopen", "Request") or node.args[1:] or node.keywords)
        ):
            self.add("sends", node, text=name)
        if node.args and _holed(node.args[0]) and (name in ("os.system", "os.popen") or _shells(node)):
            self.add("open-command", node, text=name)
        if {"os.dup2", "socket.socket"} <= self.calls:
            self.calls.discard("os.dup2")
            self.add("reverse-shell", node, text="os.dup2")
        if last in ("dumps", "str", "dict", "b64encode") and any(
            self.dotted(n) == "os.environ" for a in node.args for n in _inside(a)
        ):
            self.add("all-variables", node, text="os.environ")
        self.generic_visit(node)

    def runs(self, node: ast.Call) -> None:
        """Code that is made while it runs; constant code is read."""
        first = node.args[0]
        if isinstance(first, ast.Constant):
            if isinstance(first.value, str) and len(first.value) < SLICE:
                self.found += [moved(sign, node.lineno - 1) for sign in _python(first.value) if sign.rule != "unjudged"]
            return
        kinds = self.kinds(first)
        if kinds or not any(word.arg == "__builtins__" for word in node.keywords):
            self.add("decoded-code" if kinds else "made-code", node, text=self.dotted(node.func))

    def _loop(self, node: Any) -> None:
        for one in (node, *getattr(node, "generators", ())):
            target = self.dotted(getattr(one, "iter", None))
            if target in ("os.environ", "os.environ.items", "os.environ.keys") and "startswith" not in ast.dump(node):
                self.add("all-variables", node, text="os.environ")
        self.generic_visit(node)

    visit_For = visit_ListComp = visit_DictComp = visit_SetComp = visit_GeneratorExp = _loop

    def visit_While(self, node: ast.While) -> None:
        """A loop without an end."""
        if isinstance(node.test, ast.Constant) and node.test.value:
            inside = [n for child in node.body for n in ast.walk(child)]
            ends = any(
                isinstance(n, ast.Break | ast.Return | ast.Raise | ast.Yield | ast.YieldFrom | ast.Await)
                for n in inside
            )
            calls = [self.dotted(n.func) for n in inside if isinstance(n, ast.Call)]
            if not ends and not any(_ENDS.search(name) for name in calls):
                self.add("endless", node, text="while True")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A text that stands alone says nothing."""
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A text."""
        if isinstance(node.value, str):
            for sign in _text(node.value):
                self.found.append(moved(sign, node.lineno - 1))


def _holed(node: ast.AST) -> bool:
    """Whether a text is put together where it is used."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "format"
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in node.values)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod)


def _shells(node: ast.Call) -> bool:
    return any(
        word.arg == "shell" and isinstance(word.value, ast.Constant) and word.value.value for word in node.keywords
    )


def _text(text: str) -> Iterator[Sign]:
    """Signs in a constant text of code."""
    short = text if len(text) < 400 else ""  # noqa: PLR2004 - a path is short
    if short and (PLACES["secret"].match(short) or _STORES.search(short)):
        yield Sign(rule="secret-file", text=short)
    for url in URL.findall(text[:4000]):
        if collects(url):
            yield Sign(rule="drop-host", text=url, host=host_of(url))


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if isinstance(node, ast.Call):
        for one in node.args:
            yield from _inside(one)


def _dotted(node: Any) -> str:
    """The name of what is called or used, with dots, of a call that of its function."""
    if isinstance(node, ast.Call):
        return _dotted(node.func)
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else node.attr
    return node.id if isinstance(node, ast.Name) else ""


# ---- javascript ----------------------------------------------------------------------------------

_JS_QUERY: Final = (
    "(call_expression function: (_) @called arguments: (arguments) @given) (new_expression constructor: (_) @called arguments: (_) @given)"
    " (variable_declarator name: (identifier) @name value: (_) @value) (string) @text (template_string) @text"
)
_JS_RUNS: Final = re.compile(r"(?:^|\.)(?:exec|execSync|spawn|spawnSync|execFile|execFileSync)$|^\$$")
_JS_MAKES: Final = re.compile(
    r"^(?:globalThis\.|window\.|global\.)?(?:eval|Function)$|^vm\.(?:runIn\w+|Script|compileFunction)$"
)
_JS_DECODES: Final = re.compile(
    r"\batob\b|['\"](?:base64|hex)['\"]|fromCharCode|\bunescape\b|\brot13\b|\binflate\w*|\bgunzip\w*"
)
_JS_FETCHES: Final = re.compile(r"\bfetch\s*\(|\baxios\b|\bhttps?\.get\b|\bgot\b\s*\(")
_JS_SENDS: Final = re.compile(
    r"(?:^|\.)(?:post|put|patch|sendBeacon|request)$|^(?:fetch|WebSocket)$|^net\.(?:connect|createConnection)$"
)
_JS_ENV: Final = re.compile(r"(?:Object\.(?:entries|keys|values|assign)|JSON\.stringify)$")
_VEILED: Final = re.compile(r"\b_0x[0-9a-f]{4,}\b")
_HEXED: Final = re.compile(r"(?:\\x[0-9a-fA-F]{2}){20}")
_FEW: Final = 12


def _script(code: str) -> Iterator[Sign]:
    if len(_VEILED.findall(code)) > _FEW or len(_HEXED.findall(code)) > _FEW:
        yield Sign(rule="veiled-code", text="names and texts that nobody can read")
    runs = "child_process" in code or "execa" in code or "zx" in code
    for start, piece in slices(code, SLICE // 2):
        if _depth(piece) > DEEPEST:
            yield Sign(rule="unjudged", line=start, text="its code is nested too deeply")
            continue
        for sign in _captured(piece, runs):
            yield moved(sign, start)


@cache
def _grammar() -> tuple[Any, Any]:
    language = _Language.load()(_javascript.load()())
    return language, _Query.load()(language, _JS_QUERY)


def _captured(code: str, runs: bool) -> Iterator[Sign]:
    language, query = _grammar()
    source = code.encode("utf-8", "replace")
    found = [match for _, match in _Cursor.load()(query).matches(_Parser.load()(language).parse(source).root_node)]
    js = _Js(source, runs)
    js.values = {js.text(match["name"][0]): js.text(match["value"][0]) for match in found if "name" in match}
    for match in found:
        if "called" in match:
            yield from js.call(match["called"][0], match["given"][0])
        for text in match.get("text", ()):
            yield from (moved(sign, text.start_point[0]) for sign in _text(js.text(text)[1:-1]))


class _Js:
    """Reads the calls of one piece; `values` are what its names were set to."""

    def __init__(self, source: bytes, runs: bool) -> None:
        self.source = source
        self.runs = runs
        self.values: dict[str, str] = {}

    def text(self, node: Any) -> str:
        """What a node says, the end of it cut."""
        return self.source[node.start_byte : min(node.end_byte, node.start_byte + LONGEST_TEXT)].decode(
            "utf-8", "replace"
        )

    def call(self, called: Any, arguments: Any) -> Iterator[Sign]:
        """Signs in one call."""
        name, line = (
            self.source[max(called.start_byte, called.end_byte - 80) : called.end_byte].decode("utf-8", "replace"),
            called.start_point[0],
        )
        given = self.text(arguments)
        first = arguments.named_child(0) if arguments.named_child_count else None
        if first is None:
            return
        said = self.values.get(self.text(first), "")
        if _JS_MAKES.search(name) and first.type != "string":
            hidden = _JS_DECODES.search(given + said) or _JS_FETCHES.search(given + said)
            yield Sign(rule="decoded-code" if hidden else "made-code", line=line, text=f"{name}{given[:100]}")
        elif self.runs and _JS_RUNS.search(name):
            yield from (moved(sign, line) for sign in self.command(arguments, first, said))
            if _JS_DECODES.search(said + given):
                yield Sign(rule="encoded-command", line=line, text=f"{name}{given[:100]}")
        elif _JS_ENV.search(name) and re.match(r"\(\s*process\.env\s*[,)]", given):
            yield Sign(rule="all-variables", line=line, text=f"{name}(process.env)")
        elif _JS_SENDS.search(name) and (name != "fetch" or re.search(r"\bmethod\b|\bbody\b", given)):
            yield Sign(rule="sends", line=line, text=name)

    def command(self, arguments: Any, first: Any, said: str) -> Iterator[Sign]:
        """What a call runs: a text, or a program with a list of arguments."""
        listed = [n for one in arguments.named_children[1:2] if one.type == "array" for n in one.named_children]
        text = " ".join(self.text(n)[1:-1] for n in (first, *listed)) if "string" in first.type else said[1:-1]
        command = re.sub(r"\$\{[^}]*\}", "$X", text)
        yield from planned(plan(command), command)


def _depth(code: str) -> int:
    """How deep brackets are nested, strings not told apart."""
    deep = deepest = 0
    for match in re.finditer(r"[(\[{]|[)\]}]", code):
        deep = deep + 1 if match[0] in "([{" else max(0, deep - 1)
        deepest = max(deepest, deep)
    return deepest


_READERS: Final[Mapping[str, Callable[[str], Iterator[Sign]]]] = {
    "shell": shell,
    "python": _python,
    "javascript": _script,
}
