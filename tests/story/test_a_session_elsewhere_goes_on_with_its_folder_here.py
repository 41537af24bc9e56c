"""A session whose environment has the working folder under another name goes on, and is forked, with the same folder of here."""

import asyncio
from pathlib import Path

import pytest

from melete import user
from melete.app.fork import fork
from melete.app.opening import Options
from melete.app.service import open_conversation
from melete.app.settings import load
from melete.app.wire import Melete, open_melete
from melete.core.environment import Place
from melete.core.errors import ConfigError
from melete.core.event import Opened
from melete.core.session import SessionRef
from melete.environments.local import LocalEnvironment
from melete.testing import Say, ScriptedModel
from tests.talking import environ

OTHER = "/"
"""What the place calls the working folder: here that is a folder as well, and not the one that is meant."""


class Elsewhere(LocalEnvironment):
    """A place that has the working folder under a name of its own."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.given, self.key = place.cwd, place.key

    @property
    def name(self) -> str:
        return "elsewhere"

    @property
    def cwd(self) -> str:
        return OTHER


async def opened(app: Melete, **options: str | bool) -> tuple[str, str, str]:
    """(session, name of its environment, the folder of here that this was given), after a prompt."""
    async with open_conversation(app, Options(**options)) as conversation:  # type: ignore[arg-type]
        await conversation.run(user("Go."))
        return conversation.ref.id, conversation.env.name, getattr(conversation.env, "given", "")


def test_it_goes_on_with_the_folder_of_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()

    async def main() -> None:
        async with open_melete(load(environ=environ(model))) as app:
            app.registry.add("environments", "elsewhere", Elsewhere)
            monkeypatch.chdir(project)
            session, *_ = await opened(app, env="elsewhere")
            monkeypatch.chdir(home)
            assert await opened(app, session=session) == (session, "elsewhere", str(project))
            forked = await fork(app, SessionRef(id=session))
            keys: set[str] = set()
            for _ in range(2):
                async with open_conversation(app, Options(session=forked.ref.id)) as conversation:
                    assert (conversation.env.name, getattr(conversation.env, "given", "")) == (
                        "elsewhere",
                        str(project),
                    )
                    keys.add(getattr(conversation.env, "key", ""))
            first, *_ = await app.store.facts(SessionRef(id=session))
            assert isinstance(first, Opened)
            assert first.cwd == str(project)  # what a listing finds it by
            assert len(keys) == 1  # a place of its own that is found again
            assert first.about["place"] not in keys

        async with open_melete(load(environ=environ(model))) as app:  # and without that environment
            with pytest.raises(ConfigError, match=r"begun in the environment 'elsewhere'.*--env"):
                await opened(app, session=session)
            assert (await opened(app, session=session, env="local"))[:2] == (session, "local")

    with ScriptedModel([Say("One."), Say("Two."), Say("Three.")]) as model:
        asyncio.run(main())
