"""From a SKILL.md to a Skill: what real ones say is understood, and what is written is written well."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.skill import Variable
from melete.skills.format import read_skill, spelled, strict
from melete.skills.frontmatter import MARK, FrontMatterError, _loaded, _simple

FULL = """---
name: pdf-forms
description: Fill forms in PDF files. Use it for any form.
version: 1.2.0
author: somebody
license: MIT
compatibility: needs qpdf
trigger: a form is to be filled
platforms: [macos, linux]
allowed-tools: Bash(qpdf:*) Read
metadata:
  tried: "linux: the check, 2026-11-22"
  hermes:
    category: documents
    tags: [pdf, forms]
    related_skills: [pdf-text]
    requires_toolsets: [terminal]
    requires_tools: [read_file]
    fallback_for_toolsets: [browser]
    fallback_for_tools: [pdf_fill]
    config:
      - key: pdf.font
        description: The font
        default: 11
        prompt: Which font?
required_environment_variables:
  - name: PDF_KEY
    prompt: The key
    help: https://example.org
    required_for: signing
  - PLAIN_KEY
prerequisites:
  env_vars: [OLD_KEY]
  commands: [qpdf]
setup:
  help: Make an account.
  collect_secrets:
    - env_var: PDF_SECRET
      prompt: The secret
      provider_url: https://example.org/keys
required_credential_files:
  - path: token.json
    description: from the account's page
---
Text.
"""


def test_every_field_has_its_place() -> None:
    skill, body = read_skill(FULL)
    assert (skill.name, skill.category, skill.tags, skill.related) == (
        "pdf-forms",
        "documents",
        ("pdf", "forms"),
        ("pdf-text",),
    )
    assert skill.conditions.platforms == ("macos", "linux")
    assert skill.conditions.requires_toolsets == ("terminal",)
    assert skill.conditions.requires_tools == ("read_file",)
    assert skill.conditions.fallback_for_toolsets == ("browser",)
    assert skill.conditions.fallback_for_tools == ("pdf_fill",)
    assert (skill.version, skill.license, skill.compatibility) == ("1.2.0", "MIT", "needs qpdf")
    assert skill.allowed_tools == ("Bash(qpdf:*)", "Read")
    assert skill.variables[0] == Variable(
        name="PDF_KEY", prompt="The key", help="https://example.org", required_for="signing"
    )
    assert [one.name for one in skill.variables] == ["PDF_KEY", "PLAIN_KEY", "PDF_SECRET", "OLD_KEY"]
    assert [(one.key, one.default) for one in skill.options] == [("pdf.font", 11)]
    assert (skill.commands, skill.setup, skill.credential_files) == (("qpdf",), "Make an account.", ("token.json",))
    assert skill.tried.startswith("linux")
    assert body == "Text.\n"


@pytest.mark.parametrize(
    ("head", "name", "description"),
    [
        ("name: ok\ndescription: Use it: it's good\ntags: [a]", "ok", "Use it: it's good"),
        ("name: ok\ndescription: two: lines\n  of text\nlicense: MIT", "ok", "two: lines of text"),
        ("name: ok\ndescription: [Beta] a thing\nmetadata: {}", "ok", "[Beta] a thing"),
        ('name: ok\ndescription: "never closed\nmetadata: {}', "ok", "never closed"),
        ("name: Two Words_and v1.2\ndescription: fine", "two-words-and-v1-2", "fine"),
        ("name: a/b\ndescription: fine", "its-folder", "fine"),
    ],
)
def test_what_people_write_wrongly_is_mended_and_told(head: str, name: str, description: str) -> None:
    skill, _ = read_skill(f"---\n{head}\n---\nText.\n", folder="its-folder")
    assert (skill.name, skill.description) == (name, description)
    assert skill.warnings


@pytest.mark.parametrize("name", ["../up", "/etc", "~root", "a\\nb", "-rf", "$(x)", ".git", "a\\u0000", ""])
def test_a_name_that_leads_elsewhere_is_not_mended(name: str) -> None:
    with pytest.raises(FrontMatterError):
        read_skill(f'---\nname: "{name}"\ndescription: fine\n---\nText.\n', folder="its-folder")


def test_fields_of_the_wrong_shape_count_as_missing() -> None:
    skill, _ = read_skill(
        "---\nname: ok\ndescription: fine\nplatforms: 3\nmetadata: {hermes: [a], tags: one}\nsetup: x\nprerequisites: [1]\n"
        "required_environment_variables: {a: b}\nrequired_credential_files: 1\n---\nText.\n"
    )
    assert (skill.conditions.platforms, skill.tags, skill.variables, skill.commands) == ((), ("one",), (), ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\nname: other\ndescription: d\n---\nText.\n", "folder"),
        ("---\nname: ok\ndescription: a: b\n---\nText.\n", "quotes"),
        ("---\nname: Ok\ndescription: d\n---\nText.\n", "small letters"),
        ("---\nname: ok\ndescription: d\ncolour: red\n---\nText.\n", "colour"),
        ("---\nname: ok\ndescription: d\nmetadata: {a: 1}\n---\nText.\n", "metadata.a"),
        ("---\nname: ok\ndescription: d\nallowed-tools: [a]\n---\nText.\n", "allowed-tools"),
        ("---\nname: ok\ndescription: d\n---\n \n", "no text"),
        (f"---\nname: ok\ndescription: d\n---\n{'x' * 90_001}", "references"),
        ("# No head\n", "---"),
    ],
)
def test_what_is_written_keeps_the_rules(text: str, why: str) -> None:
    with pytest.raises(FrontMatterError, match=why):
        strict(text, name="ok")


def test_our_own_fields_may_be_written() -> None:
    assert strict(FULL, name="pdf-forms").name == "pdf-forms"


def test_one_spelling_for_a_name() -> None:
    assert [spelled(name) for name in ("my_skill", "My Skill", "ok", "../x")] == ["my-skill", "my-skill", "ok", "../x"]


LINES = st.lists(
    st.sampled_from(
        [
            "name: ok", "a: b", "b: yes", "c: 'it'", 'd: "x # y"', "e: x # y", "f: x: y", 'g: {"a": [1, "b"]}', "h: 12", "i: ~",
            "j: ünder", "k: a b ", "l: No", "m: a:", "n: -", "o: [a]", "p: x\ty", "", "  q: r", "r: &a b", 's: "a\\tb"',
        ]
    )
    | st.text(alphabet="ab: #'\"{}[]-\\,é", max_size=12).map(lambda text: f"t: {text}"),
    max_size=5,
)  # fmt: skip


@given(LINES)
def test_the_fast_way_reads_what_yaml_reads(lines: list[str]) -> None:
    block = "\n".join(lines)
    if MARK.match(f"---\n{block}\n---\n") and (simple := _simple(block)) is not None:
        assert simple == _loaded(block)
