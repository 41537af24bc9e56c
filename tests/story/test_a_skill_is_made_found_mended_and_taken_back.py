"""The life of a skill: the agent keeps what it learned, finds it in the next session, mends it, and a person takes that back."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from melete.app.reaching import inbox_message, send
from melete.app.skills import library
from melete.app.why import why
from melete.core.errors import UsageError
from melete.core.event import Asked, ToolStarted
from melete.testing import Call, Reply, Say, ScriptedModel
from tests.talking import Talk, sent_prefix, talk
from tests.unit.skills.kept import text

NAME = "container-net-debug"
DESCRIPTION = "Finds out why containers cannot reach each other. Use it for a container network fault."
STEPS = "1. Inspect the network of $ARGUMENTS.\n2. Compare the subnets.\n"
CREATE = Call(
    "skill_manage",
    {"action": "create", "name": NAME, "content": text(NAME, STEPS, description=DESCRIPTION), "category": "devops"},
)
VIEW = Call("skill_view", {"name": NAME, "args": "web and db"})


def patched(old: str, new: str, name: str = NAME) -> Call:
    return Call("skill_manage", {"action": "patch", "name": name, "old_string": old, "new_string": new})


def home() -> Path:
    return Path.home() / ".melete"


def write(place: str, content: str) -> Path:
    path = home() / "skills" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def session(folder: Path, script: Sequence[Reply | str], *said: str, **given: Any) -> tuple[list[Any], list[Any]]:
    """A session of its own in a process's application of its own: what the calls gave, and the bodies that were sent."""

    async def main() -> list[Any]:
        async with talk(model, folder, **given) as here:
            for words in said or ("Go.",):
                ended = await here.say(words)
                assert ended.stop == "done", ended
            return await here.results()

    with ScriptedModel(list(script)) as model:
        results = asyncio.run(main())
    return results, [request.json for request in model.requests]


def system(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])


def test_the_life_of_a_skill(tmp_path: Path) -> None:
    work = tmp_path / "work"
    commands = [Call("terminal", {"command": f"echo {n}"}) for n in range(5)]
    asked = "Why do web and db not see each other?"
    results, bodies = session(work, [*commands, CREATE, Say("Solved, and kept.")], asked)
    assert results[-1]["success"], results[-1]
    assert NAME not in system(bodies[0])

    results, bodies = session(work, [VIEW, patched("subnets.", "subnets.\n3. Look at the firewall."), Say("Mended.")])
    assert f"\n- {NAME}: Finds out why" in system(bodies[0]), "it is listed in the next session"
    viewed, mended = results
    assert "1. Inspect the network of web and db." in viewed["content"]
    assert viewed["content"].startswith(f"Base directory of this skill: {home()}/skills/user/devops/{NAME}\n")
    assert "+3. Look at the firewall." in mended["diff"]
    path = home() / "skills/user/devops" / NAME / "SKILL.md"
    assert "firewall" in path.read_text()

    async def look_back(here: Talk) -> None:
        kept = library(here.app)
        first, second = kept.versions.history(NAME)
        assert [one.author for one in (first, second)] == ["agent", "agent"]
        assert first.session != second.session
        assert second.model == "scripted"
        assert "+3. Look at the firewall." in kept.versions.diff(NAME)
        told = await why(here.app, NAME, version=first.version)
        assert told.asked == asked
        assert [(one.tool, one.failed) for one in told.evidence] == [("terminal", False)] * 5
        assert "+1. Inspect the network" in told.diff
        assert (told.uses, (await why(here.app, NAME)).uses) == (1, 0)
        assert (await kept.revert(NAME)).version == first.version
        uses = here.app.ledger.read(kind="skill.exposure")
        loaded = [row for row in uses if row["how"] == "loaded"]
        assert [name for row in loaded for name, *_ in row["skills"]] == [NAME]
        listed = [name for row in uses if row["how"] == "index" for name, *_ in row["skills"]]
        assert listed.count(NAME) == 1

    async def main() -> None:
        async with talk(model, work) as here:
            await look_back(here)

    with ScriptedModel([]) as model:
        asyncio.run(main())
    assert path.read_text() == text(NAME, STEPS, description=DESCRIPTION)


def test_an_edit_counts_at_once_and_the_prompt_stays_as_it_was(tmp_path: Path) -> None:
    path = write("user/demo/SKILL.md", text("demo", "Use port 80.\n", description="Shows the port."))
    view = Call("skill_view", {"name": "demo"})

    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            await here.say("First.")
            path.write_text(text("demo", "Use port 8080.\n", description="Shows another port."))
            write("user/new/SKILL.md", text("new", "New.\n"))
            await here.say("Again.")
            await here.say("And the new one.")
            first, second, third = (str(result["content"]) for result in await here.results())
            assert "port 80.\n" in first
            assert "port 8080.\n" in second
            assert "New.\n" in third

    script = [view, Say("One."), view, Say("Two."), Call("skill_view", {"name": "new"}), Say("Three.")]
    with ScriptedModel(script) as model:
        asyncio.run(main())
    bodies = [request.body for request in model.requests]
    assert "Shows the port." in system(model.requests[-1].json)
    for before, after in pairwise(bodies):
        assert sent_prefix(after).startswith(sent_prefix(before))


def test_a_persons_edit_survives_the_agents_patch(tmp_path: Path) -> None:
    session(tmp_path / "work", [CREATE, Say("Kept.")])
    path = home() / "skills/user/devops" / NAME / "SKILL.md"
    mine = path.read_text().replace("2. Compare the subnets.", "2. Compare the subnets, I say.")

    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            await here.say("Look.")
            path.write_text(mine)
            await here.say("Mend.")
            assert (await here.results())[-1]["success"]
            authors = [one.author for one in library(here.app).versions.history(NAME)]
            assert authors == ["agent", "user", "agent"]

    edit = Call(
        "skill_manage",
        {
            "action": "edit",
            "name": NAME,
            "content": text(NAME, "0. Look at the logs.\n" + STEPS, description=DESCRIPTION),
        },
    )
    with ScriptedModel([VIEW, Say("Seen."), edit, Say("Mended.")]) as model:
        asyncio.run(main())
    assert path.read_text() == mine.replace("\n1. ", "\n0. Look at the logs.\n1. ")


@pytest.mark.parametrize(("answer", "done"), [("once", True), ("deny", False), ("", False)])
def test_what_a_person_wrote_is_changed_only_if_they_say_so(tmp_path: Path, answer: str, done: bool) -> None:
    path = write("user/mine/SKILL.md", text("mine"))

    async def main() -> None:
        async with talk(model, tmp_path / "work", attended=bool(answer)) as here:

            async def answering() -> None:
                with here.conversation.hub.subscribe() as events:
                    async for event in events:
                        if isinstance(event, Asked):
                            asked.append(event.question.text)
                            message = inbox_message(here.app, "answer", text=answer, question=event.question.id)
                            await send(here.app, here.conversation.ref, message)

            asked: list[str] = []
            listening = asyncio.create_task(answering())
            await asyncio.sleep(0)
            await here.say("Go.")
            listening.cancel()
            assert len(asked) == bool(answer)
            assert (await here.results())[-1]["success"] is done
            decided = [fact.decision for fact in await here.facts(ToolStarted) if fact.decision]
            assert [decision.rule for decision in decided] == (["skills.owned"] if done else [])

    with ScriptedModel(
        [Call("skill_view", {"name": "mine"}), patched("Do it.", "Do that.", "mine"), Say("Over.")]
    ) as model:
        asyncio.run(main())
    assert path.read_text() == text("mine", "Do that.\n" if done else "Do it.\n")


def test_a_person_calls_for_skills(tmp_path: Path) -> None:
    write("user/review/SKILL.md", text("review", "Read the diff of $ARGUMENTS.\n"))
    write("user/tone/SKILL.md", text("tone", "Be kind.\n"))
    says = ["/review /tone the branch", "Use @tone here, not me@tone or /usr/bin", "/nothing is a skill", "Plain."]
    _, bodies = session(tmp_path / "work", [Say("1"), Say("2"), Say("3"), Say("4")], *says, skills=("tone",))
    said = [[m for m in body["messages"] if m["role"] == "user"][-1]["content"] for body in bodies]
    texts = [m if isinstance(m, str) else "\n".join(part["text"] for part in m) for m in said]
    assert texts[0].startswith("/review /tone the branch")
    assert "Read the diff of the branch." in texts[0]
    assert texts[0].count("[The person calls for the skill tone.]") == 1, "--skills and the call are one"
    assert "ARGUMENTS: the branch" in texts[0]
    assert texts[1].count("Be kind.") == 1
    assert texts[2:] == ["/nothing is a skill", "Plain."]
    with pytest.raises(UsageError, match="no skill 'tome'"):
        session(tmp_path / "work", [], "Go.", skills=("tome",))


def test_what_matches_is_named_behind_the_message_once(tmp_path: Path) -> None:
    names = ["kubernetes-rollout", "postgres-backup", "invoice-layout"]
    for name in names:
        write(f"user/{name}/SKILL.md", text(name, description=f"Steps for a {name.replace('-', ' ')}."))
    settings = {"skills.char_budget": 1_000}
    script = [Say("1"), Say("2"), Say("3"), Say("4")]
    for number in range(40):
        write(
            f"user/filler-{number}/SKILL.md",
            text(f"filler-{number}", description="Nothing of interest, at length, " * 8),
        )

    async def main() -> None:
        async with talk(model, tmp_path / "work", settings=settings) as here:
            for words in ("Make a postgres backup.", "Thank you!", "Is that postgres backup good?"):
                await here.say(words)
            ref = here.conversation.ref.id
        async with talk(model, tmp_path / "work", settings=settings, session=ref) as here:
            await here.say("And the kubernetes rollout?")

    with ScriptedModel(script) as model:
        asyncio.run(main())
    bodies = [request.json for request in model.requests]
    assert "more are not listed" in system(bodies[0])
    said = [str([m for m in body["messages"] if m["role"] == "user"][-1]["content"]) for body in bodies]
    assert "postgres-backup: Steps for a postgres backup." in said[0]
    assert "invoice-layout" not in said[0]
    assert said[1] == "Thank you!"
    assert "postgres-backup" not in said[2], "it was named before"
    assert "kubernetes-rollout" in said[3]
    for before, after in pairwise(model.requests):
        assert sent_prefix(after.body).startswith(sent_prefix(before.body))


def test_commands_see_what_a_loaded_skill_names_and_run_its_scripts(tmp_path: Path) -> None:
    more = "required_environment_variables:\n  - name: DEMO_TOKEN\n  - name: OTHER_TOKEN\n"
    write("user/demo/SKILL.md", text("demo", more=more))
    write("user/demo/scripts/say.sh", 'echo "script has ${DEMO_TOKEN:-nothing}"\n')
    script = f"sh {home()}/skills/user/demo/scripts/say.sh"
    run = Call("terminal", {"command": script})
    for env in ("local", "sandbox"):
        calls = [run, Call("skill_view", {"name": "demo"}), run, Say("Done.")]
        variables = {"DEMO_TOKEN": "the-value-of-the-demo"}
        results, bodies = session(tmp_path / "work", calls, env=env, variables=variables)
        before, viewed, after = results
        assert "script has nothing" in before["output"], before
        assert [one["name"] for one in viewed["missing_variables"]] == ["OTHER_TOKEN"]
        assert "script has [redacted" in after["output"], after
        assert "the-value-of-the-demo" not in str(bodies)


def test_the_agent_gives_itself_no_secret(tmp_path: Path) -> None:
    more = "required_environment_variables:\n  - name: DEMO_TOKEN\n"
    create = Call("skill_manage", {"action": "create", "name": "greedy", "content": text("greedy", more=more)})
    calls = [
        create,
        Call("skill_view", {"name": "greedy"}),
        Call("terminal", {"command": "echo ${DEMO_TOKEN:-nothing}"}),
        Say("Done."),
    ]
    results, _ = session(tmp_path / "work", calls, variables={"DEMO_TOKEN": "the-value-of-the-demo"})
    assert results[0]["success"]
    assert "commands do not see DEMO_TOKEN" in results[1]["withheld"]
    assert results[2]["output"].strip() == "nothing"


def test_more_skills_than_may_be_are_not_dropped_in_silence(tmp_path: Path) -> None:
    for number in range(6):
        write(f"user/s{number}/SKILL.md", text(f"s{number}"))
    with pytest.raises(UsageError, match="6 skills are called for, and 5 may be"):
        session(tmp_path / "work", [], " ".join(f"/s{number}" for number in range(6)))


def test_without_skills_nothing_is_said_of_them(tmp_path: Path) -> None:
    write("user/demo/SKILL.md", text("demo"))
    _, bodies = session(tmp_path / "work", [Say("Hi.")], "/demo now", settings={"skills.enabled": False})
    assert "skill_" not in system(bodies[0])
    assert not [tool for tool in bodies[0]["tools"] if "skill" in tool["function"]["name"]]
    assert bodies[0]["messages"][-1]["content"] == "/demo now"


def test_no_model_says_yes_in_the_persons_place(tmp_path: Path) -> None:
    path = write("user/mine/SKILL.md", text("mine"))
    script = [Call("skill_view", {"name": "mine"}), patched("Do it.", "Do that.", "mine"), Say("Left as it is.")]
    smart = {"approvals.mode": "smart", "auxiliary.approve": "judge"}
    results, bodies = session(tmp_path / "work", script, settings=smart)
    assert "nobody is there" in results[-1]["error"]
    assert [body["model"] for body in bodies] == ["scripted"] * 3
    assert path.read_text() == text("mine")
