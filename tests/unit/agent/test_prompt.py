"""The seven layers of the system prompt."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from melete.agent.prompt import CONTEXT_LIMIT, IDENTITY, SMALL_IDENTITY, ContextFile, Layers, build, names, shorten

NOW = datetime(2026, 1, 31, 9, 5, tzinfo=UTC)
FULL = Layers(
    identity="who",
    extra="more",
    memory="remembered",
    skills="known",
    context=(ContextFile(name="AGENTS.md", text="rules"),),
    now=NOW,
    cwd="/w",
)
texts = st.text(max_size=20)


def test_the_layers_stand_in_their_order() -> None:
    assert build(FULL) == (
        "who",
        "more",
        "remembered",
        "known",
        '<context file="AGENTS.md">\nrules\n</context>',
        "This session began on Saturday, 2026-01-31, 09:05 UTC. The working folder is /w",
        "Your answer is shown in a terminal: plain text or light Markdown, lines that stand on their own.",
    )


def test_an_empty_layer_is_left_out_and_the_identity_never() -> None:
    assert len(build(Layers(now=NOW, cwd="/w"))) == 3
    assert build(Layers(now=NOW, cwd="/w"))[0] == IDENTITY


def test_an_unknown_surface_is_a_program() -> None:
    assert "program" in build(Layers(now=NOW, cwd="/w", surface="something"))[-1]


@given(
    st.builds(
        Layers,
        identity=texts,
        extra=texts,
        memory=texts,
        skills=texts,
        context=st.lists(st.builds(ContextFile, name=st.just("A.md"), text=texts), max_size=3).map(tuple),
        now=st.just(NOW),
        cwd=st.just("/w"),
        small=st.booleans(),
        room=st.one_of(st.none(), st.integers(0, 40)),
    )
)
def test_every_block_has_its_name_and_the_same_layers_give_the_same_bytes(layers: Layers) -> None:
    assert len(names(layers)) == len(build(layers))
    assert build(layers) == build(layers)
    assert all(block.strip() for block in build(layers))


@given(st.integers(0, 3 * CONTEXT_LIMIT))
def test_a_shortened_text_stays_within_the_limit(length: int) -> None:
    text = "".join(chr(97 + n % 26) for n in range(length))
    short = shorten(text)
    assert len(short) <= CONTEXT_LIMIT
    assert short[:1_000] == text[:1_000]
    assert short[-1_000:] == text[-1_000:]
    assert (short == text) == (length <= CONTEXT_LIMIT)


def test_a_small_window_gets_a_short_prompt() -> None:
    who, when = build(Layers(now=NOW, cwd="/w", small=True))
    assert who == SMALL_IDENTITY
    assert len(who.encode()) <= 600
    assert "2026-01-31" in when
    assert build(structs.replace(FULL, small=True))[0] == "who"


def test_context_files_share_the_room() -> None:
    files = tuple(ContextFile(name=f"{n}.md", text=text) for n, text in enumerate(("short", "a" * 5_000, "b" * 5_000)))
    (shown,) = [
        block for block in build(Layers(now=NOW, cwd="/w", context=files, room=2_005)) if block.startswith("<c")
    ]
    assert len(shown) <= 2_005 + 3 * 40
    assert "short" in shown
    assert abs(shown.count("a" * 10) - shown.count("b" * 10)) <= 10
    assert shown.count("characters left out") == 2
