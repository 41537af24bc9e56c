"""What a call does, in a word or two."""

import pytest

from melete.learn.verbs import taught, tokens, verbs, ways


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("w frob --item k1", ("w frob",)),
        ("cd r && FOO=1 timeout 5 git -C /r push --force origin main | tee log", ("git push",)),
        ("sudo apt-get install -y jq", ("apt-get install",)),
        ("bash -lc 'cd a; w frob --mode b'", ("w frob",)),
        ("python -m pytest -q tests", ("pytest",)),
        ("python tools/build.py --fast", ("python build.py",)),
        ("kubectl -n prod get pods", ("kubectl get",)),
        ("docker compose -f a.yml up -d", ("docker compose up",)),
        ("docker run ubuntu true", ("docker run",)),
        ("make test && ./deploy.sh stage", ("make test", "deploy.sh stage")),
        ("V=w; $V frob", ("w frob",)),
        ("for i in 1 2 3; do w frob --n $i; done", ("w frob",)),
        ("cat notes", ("cat",)),
        ("ls -la", ("ls",)),
        ("", ()),
    ],
)
def test_wrappers_variables_and_what_prepares_do_not_hide_the_verb(command: str, expected: tuple[str, ...]) -> None:
    assert verbs(command) == expected


def test_options_are_told_with_their_verb_and_without_their_values() -> None:
    assert tokens("w frob --mode=b --item k1 -x") == {"w frob", "w frob --mode", "w frob --item", "w frob -x"}


def test_a_text_teaches_the_commands_that_it_shows() -> None:
    text = "Use `w frob --mode b`, never `total`.\n\n```sh\n$ git push \\\n  --tags\n# a remark\n```\n"
    assert taught(text) == {"w frob", "w frob --mode", "git push", "git push --tags"}
    assert taught("Be kind, and short.") == frozenset()


def test_ways_are_the_options_of_a_verb_with_plain_values_and_a_line_for_each() -> None:
    text = """Run `pack box --seal --mode=calm -v ./FILE k1`, or `cd x && sudo pack box --item ITEM | tee log`.

```sh
pack box --step arm && pack box --step bind
grep -r box
```

```python
pack box --wrong
```
"""
    assert ways(text) == {
        "pack box": {
            "--mode calm --seal -v": "pack box --seal --mode=calm -v ./FILE k1",
            "--item": "cd x && sudo pack box --item ITEM | tee log",
            "--step arm": "pack box --step arm && pack box --step bind",
            "--step bind": "pack box --step arm && pack box --step bind",
            "--step arm; --step bind": "pack box --step arm && pack box --step bind",
        }
    }
