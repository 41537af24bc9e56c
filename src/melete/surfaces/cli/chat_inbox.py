"""What /inbox, /accept and /reject do in a chat."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from melete.core.errors import UsageError
from melete.core.plugin import Lazy
from melete.core.tool import ToolError
from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.talk import Handler, Talk

if TYPE_CHECKING:
    from melete.app.learn_inbox import Inbox

_inbox: "Lazy[Callable[..., Inbox]]" = Lazy("melete.app.learn_inbox:Inbox")
_listing: Lazy[Callable[..., Awaitable[str]]] = Lazy("melete.surfaces.cli.learn_inbox:listing")
_accepted: Lazy[Callable[[Any], str]] = Lazy("melete.surfaces.cli.learn_inbox:accepted")


async def _waiting(talk: Talk, _: str) -> bool:
    box = _box(talk)
    shown = await _listing.load()(box, box.items(), talk.paint)
    talk.say(shown.rstrip("\n") or "Nothing waits for you.")
    return False


async def _accept(talk: Talk, words: str) -> bool:
    name, _, anyway = words.partition(" ")
    box = _box(talk)
    try:
        done = await box.accept(box.find(_named(name)), anyway=anyway.strip().lstrip("-") == "anyway")
    except ToolError as error:
        raise UsageError(str(error), kept="nothing was changed") from error
    talk.say("\n".join((_accepted.load()(done), *done.receipts)))
    return False


async def _reject(talk: Talk, words: str) -> bool:
    name, _, reason = words.partition(" ")
    box = _box(talk)
    item = box.find(_named(name))
    await box.reject(item, reason)
    talk.say(f"{item.number} {one_line(item.proposal.name)} is turned down and will not be proposed again.")
    return False


def _box(talk: Talk) -> "Inbox":
    return _inbox.load()(talk.conversation.app, talk.conversation.ref.owner)


def _named(name: str) -> str:
    if not name:
        raise UsageError("which one is not said", next="/inbox lists what waits, each with its number")
    return name


INBOX: Mapping[str, Handler] = {"inbox": _waiting, "accept": _accept, "reject": _reject}
