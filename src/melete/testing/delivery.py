"""Sends a scripted body the way a `Delivery` says, faults included. Part `testing`."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from melete.testing.faults import Delivery
from melete.testing.server import Connection
from melete.testing.wires.base import Body

SLICES = 8
"""Into how many parts a body without pieces of its own is cut, so that something can happen between them."""

BREAKS = {"reset", "cut", "stall"}


class Parcel(Struct, frozen=True, kw_only=True):
    """What is to be sent: `error` stands ready for the fault that needs it, `last` is called as the last byte leaves."""

    body: Body
    streamed: bool
    headers: Mapping[str, str]
    error: bytes
    last: Callable[[], None]


def deliver(connection: Connection, parcel: Parcel, how: Delivery) -> None:
    """Send the parcel, or break off where `how` says; raises OSError when the client has gone."""
    pieces = _pieces(parcel, how)
    if how.act in BREAKS and how.after is None and not _happens(connection, how):
        return
    headers = {"content-type": how.content_type or parcel.body.content_type, **parcel.headers}
    connection.begin(200, headers=headers, length=None if parcel.streamed else sum(map(len, pieces)))
    where = -1 if how.after is None else min(how.after, len(pieces) - 1)
    for number, piece in enumerate(pieces):
        if number == where and not _happens(connection, how):
            return
        if number and how.between:
            connection.wait(how.between)
        if number < len(pieces) - 1:
            connection.send(piece)
    parcel.last()
    connection.finish(pieces[-1])


def _happens(connection: Connection, how: Delivery) -> bool:
    """Do what the delivery does to the connection; whether there is more to send."""
    match how.act:
        case "reset":
            connection.reset()
        case "cut":
            connection.close()
        case "stall":
            connection.wait(how.seconds)
        case _:
            pass
    return connection.open


def _pieces(parcel: Parcel, how: Delivery) -> Sequence[bytes]:
    whole = parcel.body.pieces
    if not parcel.streamed:
        return _slices(whole[0], parcel, how)
    content = len(whole) - parcel.body.closing
    match how.act:
        case "truncate":
            where = content - 1 if how.after is None else min(how.after, len(whole) - 1)
            return [*whole[:where], whole[where][: len(whole[where]) // 2]]
        case "error":
            return [*whole[: how.after], parcel.error]
        case "drop_end":
            return whole[:content]
        case _:
            return whole


def _slices(body: bytes, parcel: Parcel, how: Delivery) -> Sequence[bytes]:
    match how.act:
        case "truncate":
            body = body[: len(body) // 2]
        case "error":
            body = parcel.error
        case _:
            pass
    if not how.act and not how.between:
        return [body]
    size = max(1, -(-len(body) // SLICES))
    return [body[start : start + size] for start in range(0, len(body), size)]
