"""After the answer, a review reads what was done and proposes what is worth keeping; what passes its gates can be used at once."""

from datetime import timedelta
from pathlib import Path

from melete.app.memory import remembered
from melete.app.reviewing import release
from melete.app.skills import library
from melete.core.ports import Change
from melete.learn.facts import Debt, Decision, Proposed, Review, facts_of, fields_of
from melete.learn.gates import A_DAY
from melete.testing import Call, ManualClock, Say
from tests.reviewing import (
    HARD,
    NAME,
    RIGHT,
    answers,
    create,
    keep,
    names,
    patch,
    proposals,
    reviewed,
    session,
    view,
)
from tests.talking import Talk
from tests.unit.skills.kept import text

ASK = {"learning.autonomy": "ask"}


def test_a_lesson_stands_as_a_trial(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        ended = await reviewed(here, why="debt 6")
        assert (ended.status, ended.steps, ended.said, ended.model) == ("ended", 2, "Kept one.", "scripted")
        (made,) = proposals(here)
        assert [one for one in made.verdicts if not one.ok] == []
        assert (made.status, made.target, made.name, made.did, made.class_) == (
            "trial",
            "skill",
            NAME,
            "created",
            "skill",
        )
        assert made.tokens == ended.usage.total > 0
        skill = library(here.app).get(NAME)
        assert (skill.owner, skill.state, skill.trust) == ("agent", "trial", 2)
        (version,) = library(here.app).versions.history(NAME)
        assert (version.version, version.session) == (made.version, here.conversation.ref.id)
        assert version.turns == made.turns
        kept = [*facts_of(Review, here.app.ledger.read(kind=Review.kind))]
        assert [one.status for one in kept] == ["ended"]
        spent = [one.role for one in (await here.app.store.statistics()).roles]
        assert "review" in spent

    session([*HARD, create(), Say("Kept one.")], tmp_path / "work", check)


def owed(*turns: int) -> tuple[Debt, ...]:
    """A signal in each of these turns."""
    return tuple(Debt(session="s", turn=turn, signal="fixed", weight=3, what=f"turn {turn}") for turn in turns)


def test_it_ends_with_the_reply_whose_proposals_were_taken(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        ended = await reviewed(here, signals=owed(2))
        assert (ended.status, ended.steps) == ("ended", 1)
        assert names(here) == {NAME}
        ended = await reviewed(here, id="r2", signals=owed(2, 9))
        assert ended.steps == 2, "a lesson for two turns: there may be one more"
        ended = await reviewed(here, id="r3", signals=owed(2))
        assert ended.steps == 2, "what is refused can be mended"

    one, wrong = keep("In this folder ./w ship wants --fast."), keep("In this folder ./w ship wants --quick.")
    script = [*HARD, create(), one, Say("Kept."), wrong, Say("Left.")]
    model = session(script, tmp_path / "work", check)
    assert "Kept from this session already" in model.requests[4].json["messages"][-1]["content"]
    assert f"- {NAME}: " in model.requests[4].json["messages"][-1]["content"]


def test_a_skill_that_was_loaded_in_the_session_has_been_read(tmp_path: Path) -> None:
    old = "1. Look at the item.\n2. Run `./w ship --item ITEM`.\n3. Look again.\n"

    async def check(here: Talk) -> None:
        await here.say("Ship k2.")
        ended = await reviewed(here)
        assert [one[0] for one in await answers(here, ended)] == ["ok"]
        assert "ITEM --fast`" in (await library(here.app).read(NAME)).text

    async def before(here: Talk) -> None:
        await written(here, old, author="agent")
        await check(here)

    script = [*HARD, view(), *HARD, patch("ITEM`", "ITEM --fast`"), Say("Mended.")]
    session(script, tmp_path / "work", before)


def test_nothing_to_keep_is_an_answer(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        ended = await reviewed(here)
        assert (ended.status, ended.steps, ended.said) == ("ended", 1, "Nothing to keep.")
        assert proposals(here) == []

    session([*HARD, Say("Nothing to keep.")], tmp_path / "work", check)


def test_what_is_refused_is_told_so_that_it_can_be_mended(tmp_path: Path) -> None:
    wrong = RIGHT.replace("--fast", "--quick")

    async def check(here: Talk) -> None:
        ended = await reviewed(here)
        (first, refused), (second, _) = await answers(here, ended)
        assert (first, second) == ("error", "ok")
        assert "grounding: " in refused["error"]
        assert "--quick" in refused["error"]
        assert [one.status for one in proposals(here)] == ["refused", "trial"]
        assert {one.tokens for one in proposals(here)} == {ended.usage.total // 2}

    session([*HARD, create(body=wrong), create(), Say("Kept.")], tmp_path / "work", check)


def test_a_fact_of_the_work_stands_in_memory(tmp_path: Path) -> None:
    said = "Ship k1. Remember: in this shop we always ship with --fast."

    async def check(here: Talk) -> None:
        ended = await reviewed(here, brief="memory")
        (outcome, told), (skilled, _) = await answers(here, ended)
        assert outcome == "ok", told
        assert skilled == "ok", "what the review is not about is open as well"
        (entry,) = await remembered(here.app).entries()
        made, _ = proposals(here)
        assert (entry.author, entry.session, entry.said) == ("agent", here.conversation.ref.id, said)
        assert (made.status, made.target, made.name, made.did, made.class_) == (
            "trial",
            "memory",
            "MEMORY.md",
            "added",
            "fact",
        )
        (change,) = here.app.ledger.read(kind="memory.change")
        assert made.version == str(change["number"])

    script = [*HARD, keep("This shop ships with --fast."), create(), Say("Kept.")]
    session(script, tmp_path / "work", check, said)


def test_where_a_person_wants_to_be_asked_everything_waits(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        ended = await reviewed(here)
        (_, skill), (_, entry), (_, again) = await answers(here, ended)
        assert "waits for the person" in skill["note"]
        assert "waits for the person" in entry["receipts"][0]
        assert "waits for the person" in again["note"]
        assert names(here) == set()
        assert not await remembered(here.app).entries()
        assert [(one.status, one.target) for one in proposals(here)] == [
            ("inbox", "skill"),
            ("inbox", "memory"),
            ("inbox", "skill"),
        ]
        first, _, last = proposals(here)
        (over,) = facts_of(Decision, here.app.ledger.read(kind=Decision.kind))
        assert (over.proposal, over.did, over.by_proposal) == (first.id, "replaced", last.id), "a later one counts"

    more = create(body=f"{RIGHT}- It says error 4 on standard error.\n")
    script = [*HARD, create(), keep("In this folder ./w ship wants --fast."), more, Say("Proposed.")]
    session(script, tmp_path / "work", check, settings=ASK)


async def written(here: Talk, body: str, *, author: str) -> None:
    """A skill is there already."""
    made = await library(here.app).apply(Change(name=NAME, files={"SKILL.md": text(NAME, body)}, author=author))
    assert made.ok, made


def test_a_skill_that_was_wrong_is_patched(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        await written(here, "1. Look at the item.\n2. Run `./w ship --item ITEM`.\n3. Look again.\n", author="agent")
        ended = await reviewed(here)
        assert [one[0] for one in await answers(here, ended)] == ["ok", "ok"]
        (made,) = proposals(here)
        assert (made.status, made.did) == ("trial", "patched")
        first, second = library(here.app).versions.history(NAME)
        assert (second.parent, second.version, second.state) == (first.version, made.version, "trial")
        assert "ITEM --fast`" in (await library(here.app).read(NAME)).text

    model = session([*HARD, view(), patch("ITEM`", "ITEM --fast`"), Say("Mended.")], tmp_path / "work", check)
    asked = model.requests[3].json["messages"][-1]["content"]
    assert f"Skills that come near:\n- {NAME}: " in asked, "it need not be looked for"


def test_what_a_person_wrote_is_theirs_to_decide_about(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        await written(here, "1. Look at it.\n2. Run `./w ship --item ITEM`.\n3. Look again.\n", author="user")
        before = (await library(here.app).read(NAME)).text
        await reviewed(here)
        (made,) = proposals(here)
        assert (made.status, [one.rule for one in made.verdicts if one.needs_person]) == ("inbox", ["own_lines"])
        assert (await library(here.app).read(NAME)).text == before

    session([*HARD, view(), patch("ITEM`", "ITEM --fast`"), Say("Proposed.")], tmp_path / "work", check)


def test_a_rewrite_and_an_archiving_wait_and_what_was_not_read_is_refused(tmp_path: Path) -> None:
    whole = Call("skill_manage", {"action": "edit", "name": NAME, "content": text(NAME, RIGHT)})
    gone = Call("skill_manage", {"action": "delete", "name": NAME})

    async def check(here: Talk) -> None:
        old = "".join(f"{number}. Look at the item, time {number}.\n" for number in range(9))
        await written(here, old, author="agent")
        ended = await reviewed(here)
        (outcome, unread), *_ = await answers(here, ended)
        assert outcome == "error"
        assert "was not read" in unread["error"]
        found = [(one.status, one.did, [v.rule for v in one.verdicts if v.needs_person]) for one in proposals(here)]
        assert found[0][:2] == ("inbox", "patched")
        assert "rewrite" in found[0][2]
        assert found[1] == ("inbox", "archived", ["archive"])
        assert names(here) == {NAME}

    session([*HARD, whole, view(), whole, view(), gone, Say("Proposed.")], tmp_path / "work", check)


def test_what_a_person_turned_down_is_not_proposed_again(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        await reviewed(here)
        (first,) = proposals(here)
        no = Decision(proposal=first.id, did="rejected", reason="we ship by hand")
        await here.app.ledger.append(no.kind, fields_of(no))
        ended = await reviewed(here, id="r2")
        ((outcome, told),) = await answers(here, ended)
        assert outcome == "error"
        assert "we ship by hand" in told["error"]
        assert proposals(here)[-1].status == "refused"
        assert names(here) == set()

    script = [*HARD, create(), Say("Proposed."), create("other-name"), Say("Left.")]
    session(script, tmp_path / "work", check, settings=ASK)


def test_what_waited_for_another_day_is_taken_up_on_it(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        cap = [Proposed(id=str(n), status="trial", target="skill", name=f"n{n}", did="created") for n in range(A_DAY)]
        for one in cap:
            await here.app.ledger.append(one.kind, fields_of(one))
        await reviewed(here)
        assert names(here) == set()
        assert not await release(here.app)
        here.app.clock = ManualClock(here.app.clock.now() + timedelta(days=1))
        (made,) = await release(here.app)
        assert (made.status, made.review) == ("trial", "r1")
        assert names(here) == {NAME}
        assert not await release(here.app)

    session([*HARD, create(), Say("Proposed.")], tmp_path / "work", check)
