"""The page about the twenty classes names the tests that there are, and says how many."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "concepts" / "vulnerabilities.md"


def test_the_page_names_every_test_of_a_class_and_no_other() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+)\. .* \| (?:`(test_\w+)`|not yet) \|$", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 21))
    named = {name: int(number) for number, name in rows if name}
    there = [
        node.name
        for path in HERE.glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and re.match(r"test_\d\d_", node.name)
    ]
    assert sorted(there) == sorted(named)
    assert all(name.startswith(f"test_{number:02d}_") for name, number in named.items())
    assert f"**{len(named)} of 20**" in text
    missing = {int(number) for number, name in rows if not name}
    told = text.partition("## What is not covered")[2]
    assert missing <= {int(number) for number in re.findall(r"\d+", " ".join(re.findall(r"\*\*(.+?)\*\*", told)))}
