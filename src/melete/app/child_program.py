"""A child that is another program: a conversation whose model is a command line. Part of the composition root.

It has a session, a log, a deadline and a report as every child; tools, memory and a system prompt of ours it has not. Its own
tools are not under our eyes, so the call that begins it counts as one that changes things outside (`agent/delegate.py`).
"""

from collections.abc import Awaitable, Callable, Sequence

from melete.agent.brief import brief
from melete.app.child import Child
from melete.app.frame import tools_of
from melete.app.toolsets import Toolbox
from melete.core.claim import Checked
from melete.core.delegation import PROGRAM
from melete.core.event import Framed
from melete.core.session import Session
from melete.models.program import ProgramModel, last_lines


class ProgramChild(Child):
    """A child whose model is a program: all that it is told is its brief and its goal."""

    async def _frame(self, session: Session) -> tuple[Toolbox, Sequence[Framed]]:
        box, stored = tools_of(self.app, (), window=self.model.can.context), session.transcript.frame
        if stored and stored.wire == PROGRAM:
            return box, ()
        copied = self.copy.top if self.copy else ""
        told = brief(self.order.task, self.order.rules, folder=self.env.cwd, copy_of=copied)
        why = "another model" if stored else "start"
        return box, (
            Framed(system=(told,), tools=box.shown, model=self.model.name, wire=PROGRAM, why=why, place=PROGRAM),
        )

    def _verify(self, run: str) -> Callable[[str], Awaitable[Sequence[Checked]]] | None:
        """No call of it is seen that a claim could be bound to; its parent looks at what it names."""
        del run
        return None

    def unsaid(self) -> str:
        """What it printed last before it was stopped."""
        lines = last_lines(self.model.said) if isinstance(self.model, ProgramModel) else ""
        return f"; it had printed:\n{lines}" if lines else ""
