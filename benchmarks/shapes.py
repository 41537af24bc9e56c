"""Runs of many shapes, recorded by the real program in this process against a scripted model: what `replay` makes again."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from melete import load, user
from melete.app.answers import AnswerSchema
from melete.app.fork import fork
from melete.app.opening import Options
from melete.app.prompts import prompt_message
from melete.app.reaching import Kind, inbox_message
from melete.app.service import Conversation, open_conversation
from melete.app.wire import Melete, open_melete
from melete.core.event import Asked, Event, ToolStarted
from melete.core.message import Message, Usage
from melete.core.session import SessionRef
from melete.testing import Call, Calls, Fault, Reply, Say, ScriptedModel

Beside = Callable[["Talk"], Coroutine[Any, Any, None]]
PATIENCE = 60.0
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc00000030001"
    "a5f645400000000049454e44ae426082"
)
SMALL = Usage(input=100, output=10)
BIG = Usage(input=1_000, output=50)
LONG = [Call("terminal", {"command": f"seq {n}000 {n}900"}, usage=SMALL) for n in range(1, 8)]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How runs go: what the model answers, what is said, set and done beside; `exact` bodies hold what the log holds."""

    name: str
    script: Sequence[Reply | str]
    says: Sequence[str | None] = ("Go.",)
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    beside: Beside | None = None
    before: Callable[["Talk"], Awaitable[Conversation | None]] | None = None
    picture: bool = False
    exact: bool = True


@dataclass(kw_only=True)
class Talk:
    """A conversation that is recorded."""

    app: Melete
    conversation: Conversation
    model: ScriptedModel
    folder: Path
    environ: Mapping[str, str]

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The next event of the run that is wanted."""
        async with asyncio.timeout(PATIENCE):
            with self.conversation.hub.subscribe() as events:
                async for event in events:
                    if wanted(event):
                        return event
        raise RuntimeError("the run ended without it")

    async def send(self, kind: Kind, text: str = "", *, question: str = "") -> None:
        """Put a message into the session's inbox."""
        message = inbox_message(self.app, kind, text=text, question=question)
        await self.app.store.send(self.conversation.ref, message, wait=0.05 if kind in ("steer", "queue") else 5.0)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What was recorded: the session, and the requests that the server got, by the id that it gave each."""

    shape: Shape
    wire: str
    session: SessionRef
    sent: Mapping[str, Any]


async def speak(talk: Talk) -> None:
    """Two notes and a queued message while a command runs."""
    await talk.until(lambda event: isinstance(event, ToolStarted))
    for kind, text in (("steer", "To the left."), ("queue", "And then?"), ("steer", "Slowly.")):
        await talk.send("queue" if kind == "queue" else "steer", text)


async def answer(talk: Talk) -> None:
    """The first answer decides, the second is lost, one to nothing is expired."""
    asked = await talk.until(lambda event: isinstance(event, Asked))
    question = asked.question.id if isinstance(asked, Asked) else ""
    for words, to in (("stray", "nothing"), ("session", question), ("late", question)):
        await talk.send("answer", words, question=to)


async def stop(talk: Talk) -> None:
    """Ctrl-C while a tool is at work."""
    await talk.until(lambda event: isinstance(event, ToolStarted) and event.call.name == "terminal")
    talk.conversation.cancel()


async def stop_from_elsewhere(talk: Talk) -> None:
    """A cancel from another process while the model answers."""
    while not talk.model.requests:  # noqa: ASYNC110 - the server is in another thread
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    await talk.send("cancel")


async def killed(talk: Talk) -> Conversation | None:
    """A process of its own runs the session and dies in the middle of a command."""
    ref = talk.conversation.ref.id
    program = [sys.executable, "-m", "melete", "run", "-s", ref, "--cwd", str(talk.folder), "Count."]
    process = await asyncio.create_subprocess_exec(
        *program, env=dict(talk.environ), stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        async with asyncio.timeout(PATIENCE):
            async for fact in talk.app.store.follow(talk.conversation.ref):
                if isinstance(fact, ToolStarted):
                    break
    finally:
        process.kill()
        await process.wait()
    return None


async def forked(talk: Talk) -> Conversation:
    """The session is left for a fork of it at its first step."""
    await talk.conversation.run(user("First."))
    made = await fork(talk.app, talk.conversation.ref, step=1)
    other = Conversation(
        talk.app,
        Options(cwd=str(talk.folder), session=made.ref.id),
        made.ref,
        env=talk.conversation.env,
        processes=talk.conversation._processes,  # the working folder and its processes are the same
    )
    other.tools, other.model = talk.conversation.tools, talk.conversation.model
    return other


SHAPES = (
    Shape(
        name="reads side by side, writes in turn",
        script=[
            Calls([
                *(Call("read_file", {"path": f"{n}.txt"}) for n in range(3)),
                Call("write_file", {"path": "new.txt", "content": "äöü 漢字\n"}),
                Call("terminal", {"command": "cat new.txt"}),
                Call("search_files", {"pattern": "1"}),
            ], thinking="Let me look."),
            Say("Done.", thinking="That was it."),
        ],
    ),
    Shape(
        name="calls that fail",
        script=[
            Fault("unknown_tool"), Fault("malformed_arguments"), Call("read_file", {"path": "none"}), Fault("duplicate_ids"),
            Call("read_file", {"pth": "none"}), Call("read_file", '{"path": "0.txt", }'), Call("todo", "[1"), Say("Enough."),
        ],
    ),
    Shape(
        name="faults of the server",
        script=[
            Fault("rate_limited", retry_after=0.01), Call("terminal", {"command": "true"}), Fault("reset_midway", after=2),
            Fault("server_error"), Say("Almost."),
        ],
    ),
    Shape(name="an empty answer", script=[Fault("empty"), Fault("empty"), Say("There.")]),
    Shape(name="a wrong key", script=[Call("todo"), Fault("unauthorized")]),
    Shape(name="an answer cut off", script=[Fault("length"), Say("Short.")], says=("Go.", "Again.")),
    Shape(
        name="steered and queued",
        script=[Call("terminal", {"command": "sleep 0.5"}), Say("Left."), Say("Then this."), Say("Over.")],
        beside=speak,
    ),
    Shape(
        name="asked and answered",
        script=[Call("clarify", {"question": "Which?", "choices": ["red", "blue"]}), Call("terminal", {"command": "sleep 0.2"}),
                "Red."],
        options={"attended": True},
        beside=answer,
    ),
    Shape(
        name="allowed by a person",
        script=[Call("terminal", {"command": "rm -rf ./gone"}), Call("terminal", {"command": "rm -rf ./gone"}), "Gone."],
        options={"attended": True},
        beside=answer,
    ),
    Shape(
        name="nobody answers",
        script=[Calls([Call("clarify", {"question": "Which?"}), Call("todo")]), "I decided."],
        settings={"approvals.timeout": 0.2},
        options={"attended": True},
    ),
    Shape(name="refused", script=[Call("terminal", {"command": "rm -rf ./gone"}), "I left it."]),
    Shape(name="a picture", script=["A dot.", "Still a dot."], says=("What is it?", "Sure?"), picture=True),
    Shape(name="too long, then shortened", script=[*LONG, Fault("overflow"), Say("It fitted.")]),
    Shape(
        name="shortened in time",
        script=[*LONG, Call("terminal", {"command": "true"}, usage=Usage(input=6_000, output=10)), Say("Done.")],
        variables={"MELETE_CONTEXT_LENGTH": "10000"},
    ),
    Shape(name="too long for a small window", script=[Fault("overflow")] * 4),
    Shape(
        name="out of steps", script=[Call("todo"), Call("todo"), Call("todo", text="So far.")], options={"max_steps": 2}
    ),
    Shape(name="in circles", script=[*[Call("read_file", {"path": "none"})] * 5, Say("I went round in circles.")]),
    Shape(
        name="out of time",
        script=[Call("terminal", {"command": "sleep 0.4"}), Say("As far as I came.")],
        settings={"budget.run.seconds": 0.3},
    ),
    Shape(
        name="out of money",
        script=[Call("todo", usage=BIG), Call("todo", usage=BIG), Say("never")],
        settings={"budget.run.tokens": "7000"},
    ),
    Shape(
        name="stopped at work",
        script=[
            Calls([Call("read_file", {"path": "0.txt"}), Call("terminal", {"command": "sleep 60"}), Call("todo")]), "Gone on.",
        ],
        says=("Go.", None),
        beside=stop,
    ),
    Shape(
        name="stopped in an answer",
        script=[Fault("stall", after=3, seconds=30, reply=Say("A long answer. " * 20)), Say("Gone on.")],
        says=("Go.", None),
        beside=stop_from_elsewhere,
    ),
    Shape(
        name="killed",
        script=[Call("terminal", {"command": "sleep 3"}), "I looked what became of it."],
        says=(None,),
        before=killed,
    ),
    Shape(
        name="forked",
        script=[Call("terminal", {"command": "echo 1"}), "One.", Call("terminal", {"command": "echo 2"}), "Two."],
        says=("Another way.",),
        before=forked,
    ),
    Shape(
        name="of a form",
        script=[Say("no"), Say('{"n": 1}')],
        options={"answer": AnswerSchema({"type": "object", "required": ["n"]})},
    ),
    Shape(name="with unseen text", script=[Call("todo"), "Aye."], settings={"agent.ephemeral_prompt": "Be terse."}, exact=False),
    Shape(
        name="forty steps",
        script=[*(Call("terminal", {"command": f"echo {n}"}, thinking="On.") for n in range(40)), "All forty."],
    ),
)  # fmt: skip


@asynccontextmanager
async def talking(shape: Shape, folder: Path, *, wire: str, environ: Mapping[str, str]) -> AsyncGenerator[Talk]:
    """A conversation of this shape over a wire, in a folder of its own, with the home that `environ` names."""
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"{number}\n" * 3)
    with ScriptedModel(shape.script) as model:
        variables = {
            **environ,
            "MELETE_BASE_URL": model.base_url,
            "MELETE_MODEL": "scripted",
            "MELETE_WIRE": wire,
            **shape.variables,
        }
        loaded = load(shape.settings, environ=variables)
        async with open_melete(loaded) as app:
            options = Options(cwd=str(folder), **shape.options)
            async with open_conversation(app, options) as conversation:
                yield Talk(app=app, conversation=conversation, model=model, folder=folder, environ=variables)


async def record(shape: Shape, folder: Path, *, wire: str, environ: Mapping[str, str]) -> Recorded:
    """Record runs of a shape."""
    async with talking(shape, folder, wire=wire, environ=environ) as talk:
        conversation = talk.conversation
        if shape.before:
            conversation = await shape.before(talk) or conversation
        beside = talk.app.group.create_task(shape.beside(talk)) if shape.beside else None
        await asyncio.sleep(0)
        for said in shape.says:
            await conversation.run(_message(shape, said, folder))
        if beside:
            await beside
        sent = {f"req_{request.index}": request.json for request in talk.model.requests}
        return Recorded(shape=shape, wire=wire, session=conversation.ref, sent=sent)


def _message(shape: Shape, said: str | None, folder: Path) -> Message | None:
    if said is None:
        return None
    if not shape.picture:
        return user(said)
    picture = folder / "dot.png"
    picture.write_bytes(PICTURE)
    return prompt_message(said, [picture])


def environ_of(home: Path) -> dict[str, str]:
    """Variables that lead to a home of its own, and nothing of the caller's but the search path."""
    return {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
