"""Sessions told in facts, for the tests of learning."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from melete.core.event import Fact, Reply, RunEnded, RunStarted, Said, Steered, Stop, ToolEnded, ToolStarted
from melete.core.message import Message, Origin, Text, ToolCall, ToolResult, user

PERSON = Origin(kind="person", surface="cli")


class Told:
    """Facts in their order, numbered as a log does."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._runs = 0

    def add(self, fact: Fact) -> int:
        self.facts.append(structs.replace(fact, seq=len(self.facts) + 1))
        return len(self.facts)

    def ask(self, text: str, *parts: Text, by: Origin | None = PERSON) -> "Told":
        """A run begins with these words."""
        self._runs += 1
        self.add(RunStarted(run=f"run{self._runs}"))
        message = Message(role="user", parts=(Text(text=text), *parts), by=by)
        self.add(Said(message=message, run=f"run{self._runs}"))
        return self

    def steer(self, text: str) -> "Told":
        self.add(Steered(message=user(text, by=PERSON)))
        return self

    def call(self, name: str, arguments: dict[str, Any], *, effect: str = "outside", **ended: Any) -> "Told":
        """A reply that calls a tool, and how that ended."""
        call = ToolCall(id=f"call{len(self.facts)}", name=name, arguments=json.dumps(arguments))
        self.add(Reply(message=Message(role="assistant", parts=(call,)), stop="tool_calls"))
        self.add(ToolStarted(call=call, effect=effect))  # type: ignore[arg-type]
        content = json.dumps(ended.pop("fields", {"success": True}))
        self.add(ToolEnded(result=ToolResult(call=call.id, name=name, content=content), **ended))
        return self

    def shell(self, command: str, code: int | None = 0, output: str = "", **fields: Any) -> "Told":
        given = {"output": output, "exit_code": code, **fields}
        return self.call("terminal", {"command": command}, fields=given, outcome="ok" if code == 0 else "error")

    def answer(self, text: str = "Done.", *, stop: str = Stop.DONE, cause: str = "") -> "Told":
        self.add(Reply(message=Message(role="assistant", parts=(Text(text=text),))))
        self.add(RunEnded(stop=stop, text=text, cause=cause))
        return self

    def view(self, name: str, content: str) -> "Told":
        fields = {"success": True, "name": name, "content": content, "version": "v1"}
        return self.call("skill_view", {"name": name}, effect="read", fields=fields)


def kinds(found: Sequence[Any]) -> list[str]:
    return [signal.kind for signal in found]
