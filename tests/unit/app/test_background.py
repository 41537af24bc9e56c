"""What background processes have to say reaches the session, and never more often than is good."""

import asyncio
from pathlib import Path

from tests.talking import Talk, talk

from melete.app.background import BY, IN_A_ROW, sweep
from melete.core.event import Notice, Said
from melete.core.session import SessionRef
from melete.environments.records import Records
from melete.testing import Call, Say, ScriptedModel


async def waiting(here: Talk) -> list[str]:
    """What waits in the session's inbox."""
    async with here.app.store.claim(here.conversation.ref) as session:
        return [message.text for message in session.pending()]


def test_a_message_waits_in_the_inbox_and_asks_once_for_a_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            waking = here.conversation.waking
            asked: list[int] = []
            waking.idle = lambda: asked.append(1)
            await waking.tell("later", now=False)
            assert not await waking.due()
            await waking.tell("one")
            assert (len(asked), waking.pending, here.conversation.works_in_background) == (1, True, True)
            assert await waking.due()
            assert not await waking.due()
            assert await waiting(here) == ["later", "one"]
            assert (await here.go_on()).text == "Heard."
            said = [fact.message for fact in await here.facts(Said)]
            assert [(message.text, message.by) for message in said] == [("later", BY), ("one", BY)]
            assert len(model.requests) == 1  # one answer to both
            assert not await waking.due()
            assert len(asked) == 1

    with ScriptedModel(["Heard."]) as model:
        asyncio.run(main())


def test_a_message_that_comes_in_the_last_moment_of_a_run_asks_for_another(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            waking = here.conversation.waking
            asked: list[bool] = []
            waking.idle = lambda: asked.append(here.conversation.running)
            waking.begin(prompted=True)
            await waking.tell("one")
            assert asked == []
            waking.end()
            assert asked == [False]
            assert await waking.due()

    with ScriptedModel([]) as model:
        asyncio.run(main())


def test_runs_in_a_row_have_an_end_and_a_word_begins_anew(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            waking = here.conversation.waking
            for _ in range(IN_A_ROW):
                await waking.tell("again")
                assert await waking.due()
                await here.go_on()
            await waking.tell("once too often")
            assert not await waking.due()
            assert not waking.pending
            await here.say("What was that?")
            texts = [fact.text for fact in await here.facts(Notice) if fact.about == "background"]
            assert len(texts) == 1
            assert texts[0].startswith(f"{IN_A_ROW} runs in a row")
            assert await waiting(here) == []
            await waking.tell("again")
            assert await waking.due()

    with ScriptedModel(["Yes."] * (IN_A_ROW + 3)) as model:
        asyncio.run(main())


def test_nothing_is_on_record_of_what_is_not_stored(tmp_path: Path, own_home: Path) -> None:
    start = Call("terminal", {"command": "echo x", "background": True})

    async def main() -> None:
        async with talk(model, tmp_path / "one", surface="unstored") as here:
            await here.say("Go.")
        assert not (own_home / ".melete" / "state" / "processes").exists()
        async with talk(model, tmp_path / "two") as here:
            await here.say("Go.")
        assert (own_home / ".melete" / "state" / "processes" / here.conversation.ref.id / "book.json").exists()

    with ScriptedModel([start, Say(text="Done."), start, Say(text="Done.")]) as model:
        asyncio.run(main())


def test_records_of_sessions_that_are_gone_go_as_well(tmp_path: Path, own_home: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            root = own_home / ".melete" / "state" / "processes"
            for name in (here.conversation.ref.id, "gone"):
                Records(root / name).change(lambda book: book.without(bool))
                (root / name / "book.json").write_text("{}")
            await sweep(here.app)
            assert [path.name for path in root.iterdir()] == [here.conversation.ref.id]
            await here.app.store.delete(SessionRef(id=here.conversation.ref.id))
            assert list(root.iterdir()) == []
            await here.conversation.waking.tell("too late")
            await sweep(here.app)
            assert list(root.iterdir()) == []

    with ScriptedModel([]) as model:
        asyncio.run(main())
