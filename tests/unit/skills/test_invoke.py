"""A skill's text with the arguments of one use in their places."""

import pytest

from melete.core.skill import Skill, Variable
from melete.skills.invoke import folder_of, invoked, missing_text

HEAD = "Base directory of this skill: /skills/demo\n\n"


@pytest.mark.parametrize(
    ("text", "args", "made"),
    [
        ("Do it.\n", "", "Do it.\n"),
        ("Do $ARGUMENTS.\n", "the web server", "Do the web server.\n"),
        ("Do $ARGUMENTS.\n", "", "Do .\n"),
        ("Do it.\n", " port 80 ", "Do it.\n\nARGUMENTS: port 80\n"),
        ("gh issue view $1 --repo $2\n", "12 'a b'", "gh issue view 12 --repo a b\n"),
        ("gh issue view $1 $3\n", "12", "gh issue view 12 $3\n"),
        ("awk '{print $1}' $1\n", "log", "awk '{print $1}' log\n"),
        ("It doesn't matter: $1\n", "x", "It doesn't matter: x\n"),
        ("costs \\$1 or $10\n", "x", "costs \\$1 or $10\n\nARGUMENTS: x\n"),
        ("an open 'quote $1\n", "it's", "an open 'quote it's\n"),
        (
            "run {base_dir}/a ${SKILL_DIR}/b ${HERMES_SKILL_DIR}/c\n",
            "",
            "run /skills/demo/a /skills/demo/b /skills/demo/c\n",
        ),
    ],
)
def test_places_are_filled_and_other_arguments_follow(text: str, args: str, made: str) -> None:
    assert invoked(text, base="/skills/demo", args=args) == HEAD + made


def test_a_skill_of_the_project_lies_where_the_project_says() -> None:
    skill = Skill(name="demo", description="d", root="project", folder="/project/skills/demo")
    assert folder_of(skill, "/project") == "skills/demo"
    assert folder_of(skill, "/other") == "/project/skills/demo"


def test_missing_variables_are_named_and_no_value_is() -> None:
    skill = Skill(name="demo", description="d")
    assert missing_text(skill, ()) == ""
    told = missing_text(skill, [Variable(name="A_TOKEN", required_for="pushing"), Variable(name="B_KEY")])
    assert told.startswith("Not set: A_TOKEN (pushing), B_KEY.")
    assert told.endswith("melete skills setup demo")


@pytest.mark.parametrize("place", ["$1 ", "$ARGUMENTS "])
def test_long_arguments_for_many_places_are_told_once(place: str) -> None:
    args = "word " * 10_000
    done = invoked(place * 30_000, base="/b", args=args)
    assert done.count("word") == 10_000
    assert done.endswith(f"ARGUMENTS: {args.strip()}\n")
