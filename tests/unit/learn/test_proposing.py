"""What becomes of a change that a reviewer would make: judged, told before it is made, made, waiting, or refused."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.unit.learn.told import Told
from tests.unit.skills.kept import keeper, text

from melete.core.memory import Noted, Noting, Operation
from melete.core.message import Usage
from melete.core.ports import Applied, Change
from melete.core.skill import MAIN
from melete.learn.facts import Proposed, facts_of, fields_of
from melete.learn.gates import A_DAY
from melete.learn.inbox import inbox
from melete.learn.proposing import Desk, ProposingMemory, ProposingSkills, held_back
from melete.memory.notes import Notes, Rules
from melete.skills.manage import Keeper
from melete.store.ledger import FileLedger
from melete.testing.clock import ManualClock

NAME = "w-ship"
RIGHT = "1. Run `w ship --item ITEM --fast`.\n"
BY_HAND = "2. Tell the shop.\n"


def hard(*more: str) -> Told:
    """Shipping wants --fast; `more` are prompts behind it."""
    told = Told().ask("Ship k1.").shell("w ship --item k1", 4, "error 4").shell("w ship --item k1 --fast", 0, "w: done")
    told.answer()
    for words in more:
        told.ask(words).answer()
    return told


class Bench:
    """A desk over a home of its own, with the library and the memory behind it."""

    def __init__(self, home: Path, told: Told, **given: Any) -> None:
        self.clock = ManualClock()
        self.ledger = FileLedger(home / "state", clock=self.clock)
        self.library = keeper(home, judge=lambda *_: "")
        self.notes = Notes(home / "memories", home / "state", ledger=self.ledger, clock=self.clock, rules=Rules())
        fields: dict[str, Any] = {"redact": lambda text: text.replace("hunter22", "[redacted:PASS]"), **given}
        self.desk = Desk(
            ledger=self.ledger, clock=self.clock, review="r1", session="s1", facts=told.facts, model="m", **fields
        )
        self.skills = ProposingSkills(self.library, self.desk, own=lambda _: (BY_HAND.strip(),))
        self.memory = ProposingMemory(self.notes, self.desk)

    async def create(self, name: str = NAME, body: str = RIGHT) -> Applied:
        """Propose a new skill."""
        about = f"How to use {name.replace('-', ' ')}."
        return await self.skills.apply(Change(name=name, files={MAIN: text(name, body, description=about)}))

    async def there(self, body: str, *, author: str = "agent") -> str:
        """A skill that is there already; returns its version."""
        made = await self.library.apply(Change(name=NAME, files={MAIN: text(NAME, body)}, author=author))
        assert made.ok, made
        return made.version

    async def patch(self, base: str, body: str) -> Applied:
        """Propose another text of it."""
        return await self.skills.apply(Change(name=NAME, files={MAIN: text(NAME, body)}, base=base))

    async def note(self, *steps: Operation) -> Noted:
        """Propose a change of memory."""
        return await self.memory.apply(Noting(target="memory", operations=steps))

    @property
    def told(self) -> list[Proposed]:
        """Every fact of a proposal, in order."""
        return [*facts_of(Proposed, self.ledger.read())]

    @property
    def last(self) -> Proposed:
        """The latest of them."""
        return self.told[-1]

    def rules(self) -> list[str]:
        """Why the latest one does not just pass."""
        return [one.rule for one in self.last.verdicts if one.rule]


Story = Callable[[Bench], Coroutine[Any, Any, None]]


def play(home: Path, story: Story, told: Told | None = None, **given: Any) -> None:
    asyncio.run(story(Bench(home, told or hard(), **given)))


def add(words: str) -> Operation:
    return Operation(action="add", content=words)


def test_a_proposal_is_told_before_it_is_made_and_again_when_it_is(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        applied = await bench.create()
        assert applied.ok, applied
        kinds = [row["kind"] for row in bench.ledger.read()]
        assert kinds == ["learn.proposal", "skill.version", "learn.proposal"]
        first, second = bench.told
        assert (first.id, first.status, first.version) == (second.id, "trial", "")
        assert second.version == applied.version
        (version,) = bench.library.versions.history(NAME)
        assert (version.session, version.turns, version.model) == ("s1", second.turns, "m")
        assert version.reason == f"learned: proposal {second.id}"
        assert second.change["turns"] == [*second.turns]

    play(tmp_path, story)


def test_what_a_review_was_stopped_at_is_found_by_what_was_made(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        await bench.create()
        done, _ = bench.told
        for name in (done.id, "never-made"):
            intent = Proposed(id=name, status="trial", target="skill", name=NAME, did="created", review="r1")
            await bench.ledger.append(intent.kind, fields_of(intent))
        settled = {one.id: one for one in await bench.desk.settle(Usage(input=90, output=10), 0.5)}
        assert settled[done.id].version == bench.library.versions.history(NAME)[0].version
        assert settled["never-made"].status == "refused"
        assert {(one.tokens, one.usd) for one in settled.values()} == {(50, 0.25)}

    play(tmp_path, story)


def test_no_more_than_so_many_new_skills_are_made_on_a_day(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        for number in range(A_DAY):
            one = Proposed(
                id=str(number), status="trial", target="skill", name=f"n{number}", did="created", version="v"
            )
            await bench.ledger.append(one.kind, fields_of(one))
        waits = await bench.create()
        assert (waits.ok, waits.version) == (True, "")
        assert (bench.last.status, bench.rules()) == ("inbox", ["too_many"])
        (item,) = (one for one in inbox(bench.ledger.read()) if held_back(one))
        assert item.proposal.name == NAME
        bench.clock.advance(86_400)
        assert (await bench.create()).version
        assert [one for one in inbox(bench.ledger.read()) if held_back(one)] == []

    play(tmp_path, story)


def test_a_line_that_a_person_wrote_and_a_pinned_skill_are_theirs(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        base = await bench.there(f"1. Look.\n{BY_HAND}3. Run `w ship --item ITEM`.\n")
        changed = await bench.patch(base, "1. Look.\n2. Tell all.\n3. Run `w ship --item ITEM --fast`.\n")
        assert (changed.ok, changed.version) == (True, "")
        assert "lines that the person wrote" in changed.reason
        assert (bench.last.status, bench.rules()) == ("inbox", ["own_lines"])
        kept = await bench.patch(base, f"1. Look.\n{BY_HAND}3. Run `w ship --item ITEM --fast`.\n")
        assert bench.last.status == "trial"
        await bench.library.versions.mark(NAME, reason="pinned", pinned=True)
        await bench.patch(kept.version, f"1. Look.\n{BY_HAND}3. Run `w ship --item ITEM --fast` once.\n")
        assert (bench.last.status, bench.rules()) == ("inbox", ["owner"])

    play(tmp_path, story)


def test_an_edit_in_the_same_moment_is_not_overwritten(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        base = await bench.there("1. Run `w ship --item ITEM`.\n2. Look.\n3. Look again.\n")
        path = tmp_path / "skills/user" / NAME / MAIN
        theirs = path.read_text().replace("ITEM`", "ITEM`, I say")
        path.write_text(theirs)
        applied = await bench.patch(base, "1. Run `w ship --item ITEM --fast`.\n2. Look.\n3. Look again.\n")
        assert applied.version == ""
        assert "conflict" in bench.rules()
        assert bench.last.status in ("inbox", "refused")
        assert path.read_text() == theirs

    play(tmp_path, story)


def test_what_cannot_be_made_after_all_is_refused(tmp_path: Path) -> None:
    class Quick(Keeper):
        """A library in which somebody is always quicker."""

        async def apply(self, change: Change) -> Applied:
            return Applied(ok=False, reason=f"{change.name} has changed in this moment", conflict=True)

    async def story(bench: Bench) -> None:
        bench.library.__class__ = Quick
        applied = await bench.create()
        assert (applied.ok, bench.last.status) == (False, "refused")
        assert "in this moment" in applied.reason

    play(tmp_path, story)


def test_text_from_outside_needs_a_person(tmp_path: Path) -> None:
    told = Told().ask("How does w ship?")
    told.call("web_extract", {"url": "https://example.net"}, fields={"text": "Run w ship --item ITEM --fast"})
    told.shell("w ship --item k1 --fast", 0, "w: done").answer()

    async def story(bench: Bench) -> None:
        applied = await bench.create()
        assert applied.ok
        assert (bench.last.status, bench.last.taint, bench.rules()) == ("inbox", "web", ["taint"])
        assert NAME not in bench.library

    facts = told.facts
    for at, fact in enumerate(facts):
        if getattr(getattr(fact, "result", None), "name", "") == "web_extract":
            facts[at] = tainted(fact)
    play(tmp_path, story, told)


def tainted(fact: Any) -> Any:
    """The result as one that came from the web."""
    return structs.replace(fact, result=structs.replace(fact.result, taint="web"))


def test_a_known_secret_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        base = await bench.there("1. Log in with hunter22.\n2. Run `w ship --item ITEM`.\n3. Look.\n")
        applied = await bench.patch(base, "1. Log in with hunter22.\n2. Run `w ship --item ITEM --fast`.\n3. Look.\n")
        assert not applied.ok
        assert bench.rules() == ["secret"]
        rows = [row for row in bench.ledger.read(kind="learn.proposal")]
        assert "hunter22" not in str(rows)

    play(tmp_path, story)


def test_the_same_again_is_a_patch_of_what_is_there(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        await bench.create()
        applied = await bench.create("ship-with-w")
        assert "w-ship says nearly the same" in applied.reason
        assert bench.rules() == ["duplicate"]

    play(tmp_path, story)


def test_a_fact_is_kept_with_the_sentence_that_it_came_from(tmp_path: Path) -> None:
    said = "Remember that the shop wants its parcels before noon."

    async def story(bench: Bench) -> None:
        noted = await bench.note(add("The shop wants its parcels before noon."))
        assert noted.ok, noted
        (entry,) = await bench.notes.entries()
        assert (entry.said, entry.session) == (said, "s1")
        assert bench.last.version == str(noted.number)
        assert bench.last.change["said"] == said

    play(tmp_path, story, hard("Thanks.", said))


def test_what_a_person_told_and_a_removal_wait(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        await bench.notes.apply(Noting(target="memory", operations=(add("Ships with w."),), author="user"))
        await bench.notes.apply(Noting(target="memory", operations=(add("The door is left."),), author="agent"))
        noted = await bench.note(
            Operation(action="replace", old_text="Ships with w.", content="Ships with w ship --fast.")
        )
        assert noted.ok
        assert "waits for the person" in noted.receipts[0]
        assert (bench.last.status, bench.last.did, bench.rules()) == ("inbox", "replaced", ["own_lines"])
        await bench.note(Operation(action="remove", old_text="door"))
        assert (bench.last.status, bench.last.did) == ("inbox", "removed")
        assert {one.text for one in await bench.notes.entries()} == {"Ships with w.", "The door is left."}

    play(tmp_path, story)


def test_what_was_not_said_right_is_no_proposal(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        await bench.notes.apply(Noting(target="memory", operations=(add("The door is left."),), author="agent"))
        noted = await bench.note(Operation(action="replace", old_text="window", content="The door is right."))
        assert not noted.ok
        assert "no entry holds" in noted.reason
        assert bench.told == []

    play(tmp_path, story)


@pytest.mark.parametrize("auto", [True, False])
def test_with_ask_nothing_is_made(tmp_path: Path, auto: bool) -> None:
    async def story(bench: Bench) -> None:
        await bench.create()
        assert (NAME in bench.library) is auto
        assert bench.last.status == ("trial" if auto else "inbox")

    play(tmp_path, story, auto=auto)


def test_what_waits_already_is_not_proposed_again(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        await bench.create()
        (first,) = bench.told
        bench.desk.review = "r2"
        again = await bench.create()
        assert (again.ok, again.version) == (True, "")
        assert "waits for the person already" in again.reason
        assert bench.told == [first]
        assert bench.desk.taken == 2
        other = await bench.create(body=f"{RIGHT}2. It says w: done.\n")
        assert other.ok
        assert len(bench.told) == 2

    play(tmp_path, story, auto=False)
