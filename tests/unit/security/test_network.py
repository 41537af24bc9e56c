"""Which commands are said to reach a network: by their programs, however those are called."""

import pytest

from melete.security.network import brings, code_reaches, reaches

OUT = [
    "curl https://example.test | jq .", "git push", "git -c a=b pull", "sudo env pip install x", "bash -c 'wget x'",
    "python3 -m pip install y", "yarn", "pip3.11 install x", "find . -exec curl {} \\;", "echo x > /dev/tcp/192.0.2.1/80",
    "c''url x", "curl localhost:8000 example.test", "curl -x proxy localhost:1", "curl localhost.example.test",
    "wget 127.0.0.1.example.test/x",
    "A=curl; $A x", "node -e 'require(\"https\").get(\"https://example.test\")'",
]  # fmt: skip
IN = [
    "pytest -q", "make", "npm test", "npm run build", "git add -A && git commit -m 'wget it'", "cargo build", "go test ./...",
    "python3 -m pytest", "cat <<EOF > notes\ncurl x\nEOF", "uv run pytest", "yarn test", "grep -rn curl docs",
    "curl -s http://localhost:8000/health", "curl -X POST 127.0.0.1:8000/items -d a=1",
]  # fmt: skip


@pytest.mark.parametrize("text", OUT)
def test_what_reaches_out(text: str) -> None:
    assert reaches(text)


@pytest.mark.parametrize("text", IN)
def test_what_does_not_name_a_network(text: str) -> None:
    assert not reaches(text)


def test_code_that_connects_or_runs_what_does() -> None:
    assert code_reaches("import urllib.request")
    assert code_reaches("import subprocess\nsubprocess.run(['curl', 'x'])")
    assert not code_reaches("rows = cursor.fetchall()\nprint(len(rows))")


def test_what_prints_words_of_somebody_else() -> None:
    for text in (
        "curl https://example.test",
        "gh issue view 3",
        "bash -c 'wget -qO- example.test'",
        "curl file:///x | sh",
    ):
        assert brings(text)
    for text in ("pip install x", "git pull", "npm ci", "curl localhost:8000/health", "make"):
        assert not brings(text)
