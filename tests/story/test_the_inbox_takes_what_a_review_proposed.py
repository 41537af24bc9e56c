"""What a real review proposed is decided by a person: accepted, turned down for good, merged with what they wrote themselves."""

from pathlib import Path

from melete.app.learn_inbox import Inbox, Look
from melete.app.memory import remembered
from melete.app.skills import library
from melete.core.memory import Noting, Operation
from melete.core.ports import Change
from melete.learn.facts import Decision, fields_of
from melete.testing import Say
from tests.reviewing import HARD, NAME, RIGHT, answers, create, keep, names, patch, proposals, reviewed, session, view
from tests.talking import Talk
from tests.unit.learn.proposals import entry
from tests.unit.skills.kept import text

ASK = {"learning.autonomy": "ask"}
FACT = "This shop ships with --fast."
REMEMBER = "Ship k1. Remember: in this shop we always ship with --fast."


async def looks(box: Inbox) -> list[Look]:
    return [await box.look(item) for item in box.items()]


def test_what_is_accepted_stands_with_its_origin(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        await reviewed(here, why="debt 6")
        box = Inbox(here.app)
        skill, fact = await looks(box)
        assert (skill.due, skill.hindrance, skill.moved) == ("debt 6", "", False)
        assert skill.evidence.said == (REMEMBER,)
        assert [one.status for one in skill.evidence.calls] == ["failed", "ok"]
        assert "error 4" in skill.evidence.calls[0].said
        assert skill.item.proposal.tokens > 0
        for look in (skill, fact):
            await box.accept(look.item)
        (version,) = library(here.app).versions.history(NAME)
        assert (version.state, version.author, version.turns) == ("trial", "agent", skill.item.proposal.turns)
        (kept,) = await remembered(here.app).entries()
        assert (kept.text, kept.said, kept.session) == (FACT, REMEMBER, here.conversation.ref.id)
        assert box.items() == []
        assert [one.state for one in box.items(everything=True)] == ["accepted", "accepted"]
        assert box.find(str(skill.item.number)).version == version.version

    session([*HARD, create(), keep(FACT), Say("Proposed.")], tmp_path / "work", check, REMEMBER, settings=ASK)


def test_what_was_turned_down_is_not_proposed_again(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        await reviewed(here)
        box = Inbox(here.app)
        (item,) = box.items()
        await box.reject(item, "we ship by hand from now on")
        ended = await reviewed(here, id="r2")
        (outcome, told), *_ = await answers(here, ended)
        assert outcome == "error"
        assert "we ship by hand from now on" in told["error"]
        assert box.items() == []
        again = box.items(everything=True)[-1]
        assert (again.state, again.by_a_person) == ("refused", True)
        await box.accept(again, anyway=True)
        assert names(here) == {"deliver-things"}, "a person may have it all the same"

    other = create("deliver-things", about="How things are delivered with ./w ship. Use it to deliver things.")
    script = [*HARD, create(), Say("Proposed."), other, Say("Refused.")]
    session(script, tmp_path / "work", check, settings=ASK)


def test_a_persons_own_skill_is_changed_by_their_word_and_stays_theirs(tmp_path: Path) -> None:
    before = text(NAME, "1. Look at it.\n2. Run `./w ship --item ITEM`.\n3. Look again.\n\n## Notes\n\nAsk Kim.\n")

    async def check(here: Talk) -> None:
        made = await library(here.app).apply(Change(name=NAME, files={"SKILL.md": before}, author="user"))
        assert made.ok
        await reviewed(here)
        path = Path(library(here.app).get(NAME).folder, "SKILL.md")
        path.write_text(before.replace("Ask Kim.", "Ask Lee."))
        box = Inbox(here.app)
        (look,) = await looks(box)
        assert look.moved
        assert "own" in look.item.proposal.verdicts[3].rule
        await box.accept(look.item)
        assert path.read_text() == before.replace("ITEM`", "ITEM --fast`").replace("Kim", "Lee")
        skill = library(here.app).get(NAME)
        assert (skill.owner, skill.trust) == ("user", 4)

    session([*HARD, view(), patch("ITEM`", "ITEM --fast`"), Say("Proposed.")], tmp_path / "work", check)


def test_what_is_about_another_person_is_theirs_to_see(tmp_path: Path) -> None:
    async def check(here: Talk) -> None:
        theirs = Noting(target="user", operations=(Operation(action="add", content="Likes tea."),), who="key:kim")
        await remembered(here.app).propose(theirs)
        fact = entry("The printer is on floor three.")
        await here.app.ledger.append(fact.kind, fields_of(fact))
        (mine,) = Inbox(here.app).items()
        other, shared = Inbox(here.app, "key:kim").items()
        assert (mine.proposal.name, shared.proposal.id, other.proposal.name) == (
            "MEMORY.md",
            mine.proposal.id,
            "USER.md",
        )
        await Inbox(here.app, "key:kim").accept(other)
        (kept,) = await remembered(here.app).entries("key:kim", "user")
        assert (kept.text, await remembered(here.app).entries("", "user")) == ("Likes tea.", [])
        assert [row["did"] for row in here.app.ledger.read(kind=Decision.kind)] == ["accepted"]

    session([Say("Yes.")], tmp_path / "work", check)


def test_what_was_not_safe_is_shown_without_its_text_and_stays_out(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3

    async def check(here: Talk) -> None:
        await reviewed(here)
        box = Inbox(here.app)
        (item,) = box.items(everything=True)
        look = await box.look(item)
        assert (item.state, item.by_a_person, token in repr(look)) == ("refused", False, False)
        for act in (box.accept(item, anyway=True), box.accept(item)):
            try:
                await act
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be made
                assert "was refused" in str(error)
        assert names(here) == set()
        assert proposals(here)[0].status == "refused"

    session([*HARD, create(body=f"{RIGHT}\nThe token is {token}.\n"), Say("Kept.")], tmp_path / "work", check)
