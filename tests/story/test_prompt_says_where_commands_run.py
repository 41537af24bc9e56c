"""What the model is told of the place where its commands run: one sentence, frozen with the prompt until the place changes."""

import asyncio
from pathlib import Path
from typing import Any

from melete.app.opening import Options
from melete.app.service import open_conversation
from melete.app.settings import load
from melete.app.wire import open_melete
from melete.core.event import Framed, RunStarted
from melete.core.message import Message, Text
from melete.environments.local import LocalEnvironment
from melete.testing import Say, ScriptedModel
from tests.talking import environ


class House(LocalEnvironment):
    note = "Commands run in the house; the garden can only be looked at."

    @property
    def name(self) -> str:
        return "house"


class Tower(LocalEnvironment):
    note = "Commands run in the tower."

    @property
    def name(self) -> str:
        return "tower"


def say(folder: Path, model: ScriptedModel, env: str, **options: Any) -> tuple[list[Framed], list[RunStarted]]:
    """One prompt in an environment; the frames and beginnings of runs that the session has then."""

    async def main() -> tuple[list[Framed], list[RunStarted]]:
        async with open_melete(load(environ=environ(model))) as app:
            app.registry.add("environments", "house", House)
            app.registry.add("environments", "tower", Tower)
            async with open_conversation(app, Options(cwd=str(folder), env=env, **options)) as conversation:
                await conversation.run(Message(role="user", parts=(Text(text="Go."),)))
                facts = await app.store.facts(conversation.ref)
        return [f for f in facts if isinstance(f, Framed)], [f for f in facts if isinstance(f, RunStarted)]

    return asyncio.run(main())


def prompts(model: ScriptedModel) -> list[str]:
    return [request.json["messages"][0]["content"] for request in model.requests]


def test_the_sentence_stands_behind_the_working_folder_and_is_frozen(tmp_path: Path) -> None:
    with ScriptedModel([Say("One."), Say("Two.")]) as model:
        say(tmp_path, model, "house")
        frames, runs = say(tmp_path, model, "", latest=True)
    first, second = prompts(model)
    assert first == second
    assert f"The working folder is {tmp_path}\n{House.note}" in first
    assert ([frame.place for frame in frames], [run.env for run in runs]) == ([House.note], ["house", "house"])


def test_this_machine_itself_needs_no_words(tmp_path: Path) -> None:
    with ScriptedModel([Say("One.")]) as model:
        frames, runs = say(tmp_path, model, "local")
    assert ([frame.place for frame in frames], [run.env for run in runs]) == ([""], ["local"])


def test_a_session_that_moves_is_told_and_keeps_its_instructions(tmp_path: Path) -> None:
    with ScriptedModel([Say("One."), Say("Two."), Say("Three.")]) as model:
        say(tmp_path, model, "house", extra="Answer in rhymes.")
        say(tmp_path, model, "tower", latest=True)
        frames, runs = say(tmp_path, model, "local", latest=True)
    assert [frame.why for frame in frames] == ["start", "another environment", "another environment"]
    assert [run.env for run in runs] == ["house", "tower", "local"]
    house, tower, local = prompts(model)
    assert House.note in house
    assert Tower.note in tower
    assert House.note not in tower
    assert "Commands run in" not in local
    assert all("Answer in rhymes." in prompt for prompt in (house, tower, local))
