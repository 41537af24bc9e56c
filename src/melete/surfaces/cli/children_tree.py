"""`melete sessions show --tree`: what a session handed to children, what they handed on, and how each ended."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from melete.app.child_report import status_of
from melete.app.figures import plural
from melete.app.service import Conversation
from melete.app.wire import Melete
from melete.core.errors import StoreError
from melete.core.event import Delegated, Fact
from melete.core.session import SessionInfo, SessionRef
from melete.core.transcript import Transcript
from melete.surfaces.cli.board import Board, short
from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.render import CHILDREN, FAILED
from melete.surfaces.cli.session_view import SessionView

DEEPEST = 8


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session of the tree; `status` is `unfinished` where no process works at it and it has no end."""

    session: str
    parent: str = ""
    depth: int = 0
    goal: str = ""
    role: str = ""
    status: str = ""
    background: bool = False
    steps: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    model: str = ""


async def show_tree(app: Melete, ref: SessionRef, view: SessionView) -> int:
    """Write the session and all below it."""
    found = await nodes(app, ref)
    rows = [msgspec.json.encode(node).decode() for node in found] if view.as_json else lines(found, view.paint)
    for row in rows:
        view.write(f"{view.redact(row)}\n")
    return 0


async def team(conversation: Conversation, paint: Paint) -> Sequence[str]:
    """What works for a conversation now, and all that has worked for it."""
    board = Board()
    children = conversation.children
    for now in children.at_work.values() if children else ():
        board.put(now)
    found = await nodes(conversation.app, conversation.ref)
    if len(found) == 1:
        return ["This session has handed no work to children."]
    return [*([board.total(), *board.lines(paint), ""] if board.total() else []), *lines(found, paint)]


async def nodes(app: Melete, ref: SessionRef) -> list[Node]:
    """The session and all below it, each before what it delegated."""
    info = await app.store.info(ref)
    top = Node(
        session=ref.id,
        goal=info.title,
        status="running" if info.running else "",
        tokens=info.usage.total,
        cost_usd=info.cost_usd,
        model=info.model,
    )
    return [top, *await _below(app, top, await app.store.facts(ref), owner=ref.owner)]


async def _below(app: Melete, parent: Node, facts: Sequence[Fact], *, owner: str) -> list[Node]:
    told = {fact.child: fact for fact in facts if isinstance(fact, Delegated)}
    found: list[Node] = []
    for child, fact in told.items():
        ref = SessionRef(id=child, owner=owner)
        try:
            info, theirs = await app.store.info(ref), await app.store.facts(ref)
        except StoreError:
            info, theirs = None, ()  # deleted meanwhile: what its parent knows is shown
        node = _node(_settled(fact, info, theirs), info, parent=parent)
        found.append(node)
        if node.depth < DEEPEST:
            found += await _below(app, node, theirs, owner=owner)
    return found


def _settled(fact: Delegated, info: SessionInfo | None, facts: Sequence[Fact]) -> Delegated:
    """What the parent knows, or where it has not heard of an end, what the child's own log says."""
    if fact.status != "running" or (info and info.running):
        return fact
    ended = Transcript(facts).ended
    if ended is None:
        return msgspec.structs.replace(fact, status="unfinished")
    return msgspec.structs.replace(fact, status=status_of(ended), steps=ended.steps, seconds=ended.seconds)


def _node(fact: Delegated, info: SessionInfo | None, *, parent: Node) -> Node:
    return Node(
        session=fact.child,
        parent=parent.session,
        depth=parent.depth + 1,
        goal=fact.goal,
        role=fact.role,
        status=fact.status,
        background=fact.background,
        steps=fact.steps,
        tokens=info.usage.total if info else fact.usage.total,
        cost_usd=info.cost_usd if info else fact.usd,
        seconds=fact.seconds,
        model=fact.model,
    )


def lines(found: Sequence[Node], paint: Paint) -> list[str]:
    """The tree, two lines a session, and the sum of all."""
    shown: list[str] = []
    last = [_last(found, place) for place in range(len(found))]
    bars: list[bool] = []
    for place, node in enumerate(found):
        bars = [*bars[: node.depth - 1], last[place]] if node.depth else []
        above = "".join("   " if done else "│  " for done in bars[:-1])
        branch = f"{above}{'└─ ' if last[place] else '├─ '}" if node.depth else ""
        style, mark = CHILDREN.get(node.status, FAILED) if node.depth else ("bold", "●")
        head = f"{branch}{mark} {one_line(node.goal) or 'untitled'}"
        fitted = paint.fit(head)
        shown.append(fitted[: len(branch)] + paint(style, fitted[len(branch) :]))
        under = branch.replace("├─ ", "│  ").replace("└─ ", "   ")
        shown.append(paint("dim", paint.fit(f"{under}  {' · '.join(_told(node))}")))
    below = len(found) - 1
    known = [node.cost_usd for node in found if node.cost_usd is not None]
    money = f" · ${sum(known):.4f}" if known else ""
    total = f"{below} {plural(below, 'child', many='children')} · {sum(n.tokens for n in found):,} tokens in all{money}"
    return [*shown, paint("dim", total)]


def _last(found: Sequence[Node], place: int) -> bool:
    """Whether no sister of a node comes behind it."""
    depth = found[place].depth
    return next((node.depth < depth for node in found[place + 1 :] if node.depth <= depth), True)


def _told(node: Node) -> list[str]:
    parts: list[Any] = [
        node.session,
        node.status,
        node.role if node.role == "orchestrator" else "",
        "in the background" if node.background else "",
        f"{node.steps} {plural(node.steps, 'step')}" if node.steps else "",
        f"{short(node.tokens)} tokens",
        f"${node.cost_usd:.4f}" if node.cost_usd is not None else "",
        f"{node.seconds:.1f} s" if node.seconds else "",
        one_line(node.model),
    ]
    return [part for part in parts if part]
