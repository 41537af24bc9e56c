"""Limits on the tail: no long file, no long function, no long list of parameters."""

import ast
import re

from tests.arch.sources import Source, around, call_name, package, type_of_function

FILE_LINES = 500
FUNCTION_LINES = 60
PARAMETERS = 6
REQUIRED_POSITIONAL = 4
DEFAULTED_POSITIONAL = 2

# The signature of such a function is a schema that a model or a person fills in by name.
SCHEMA_DECORATOR = re.compile(r"(^|\.)(tool|command|option|argument|group)(\(\))?$")


def test_no_file_is_long() -> None:
    sources = (*package(), *around("tests", "examples", "scripts", "benchmarks"))
    long = {source.where: source.text.count("\n") for source in sources if source.text.count("\n") > FILE_LINES}
    assert not long, f"above {FILE_LINES} lines: {long}"


def test_no_function_is_long() -> None:
    long = [
        f"{source.at(node)} {node.name}: {_lines(node)} lines"
        for source in (*package(), *around("examples", "scripts", "benchmarks"))
        for node in source.functions()
        if _lines(node) > FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_no_function_takes_many_parameters() -> None:
    crowded = [
        f"{source.at(node)} {node.name}: {count} parameters"
        for source in package()
        for node in source.functions()
        if (count := len(_positional(node)) + len(node.args.kwonlyargs)) > PARAMETERS and not _is_schema(node)
    ]
    assert not crowded, "\n".join(crowded)


def test_parameters_after_the_second_are_passed_by_name() -> None:
    """Required ones may stand where the loop's own functions have them (agent, session, calls, emit)."""
    loose = [line for source in package() for line in _loose(source)]
    assert not loose, "\n".join(loose)


def _loose(source: Source) -> list[str]:
    found: list[str] = []
    for node in source.functions():
        if _is_schema(node):
            continue
        positional = len(_positional(node))
        defaults = len(node.args.defaults)
        if positional - defaults > REQUIRED_POSITIONAL:
            found.append(f"{source.at(node)} {node.name}: {positional - defaults} required positional parameters")
        elif defaults and positional > DEFAULTED_POSITIONAL:
            found.append(f"{source.at(node)} {node.name}: an optional parameter after the second is not keyword-only")
    return found


def _lines(node: type_of_function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _positional(node: type_of_function) -> list[ast.arg]:
    arguments = [*node.args.posonlyargs, *node.args.args]
    return arguments[1:] if arguments and arguments[0].arg in {"self", "cls"} else arguments


def _is_schema(node: type_of_function) -> bool:
    return any(SCHEMA_DECORATOR.search(call_name(decorator)) for decorator in node.decorator_list)
