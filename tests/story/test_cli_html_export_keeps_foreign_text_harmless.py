"""`melete sessions export --format html`: a page without network and foreign markup, whatever was said and done."""

import re
from pathlib import Path

import pytest

from melete.testing import Call, ScriptedModel
from tests.story.cli import melete

ATTACK = '</script></main><img src=x onerror="document.title=\'taken\'"><a href="javascript:alert(1)">x</a>'
MARKDOWN = "[here](javascript:alert(1)) ![p](https://tracker.example/p.png) <iframe src=//evil.example></iframe>"


@pytest.fixture
def page(tmp_path: Path) -> str:
    """The page of a session in which everybody attacks it."""
    call = Call("terminal", {"command": f"printf '%s' \"$0\" # {ATTACK}"})
    with ScriptedModel([call, f"{ATTACK}\n\n{MARKDOWN}"]) as model:
        assert melete("run", ATTACK, model=model, cwd=tmp_path).returncode == 0
    path = tmp_path / "page.html"
    done = melete("sessions", "export", "--all", "--format", "html", "-o", str(path))
    assert done.returncode == 0, done.stderr
    return path.read_text()


def tags(page: str) -> list[str]:
    return re.findall(r"<[a-z][^<>]*>", page)


def test_nothing_that_was_said_is_an_element_of_the_page(page: str) -> None:
    assert page.count("<script>") == page.count("</script>") == 1
    assert page.count("</main>") == 1
    assert not re.search(r"<(img|iframe|svg|object|embed|link|base|form)\b", page)
    for tag in tags(page):
        assert not re.search(r"\s(on\w+|style)\s*=", tag)
        assert not re.search(r"""\s(href|src)\s*=(?!"(https?:|mailto:|#|data:image/))""", tag)
    assert "&lt;img src=x onerror=" in page


def test_the_page_asks_no_server_for_anything(page: str) -> None:
    assert "default-src 'none'" in page
    assert not [tag for tag in tags(page) if re.search(r"\s(src|srcset|poster|background)\s*=", tag)]
    assert not re.search(r"@import|url\(", page)


def test_steps_have_places_that_can_be_linked(page: str) -> None:
    assert re.findall(r'<article class="turn" id="(step-\d+)">', page) == ["step-1", "step-2"]
    assert 'href="#step-2"' in page
