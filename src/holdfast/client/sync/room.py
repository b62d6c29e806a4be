"""A client's seat in a room, for programs without an event loop."""

from typing import Unpack

from holdfast.client import room as asynchronous
from holdfast.client.background import Background
from holdfast.client.outbox import Unconfirmed
from holdfast.client.room import Changes
from holdfast.core.errors import NotSeated
from holdfast.core.messages import Message, SeatLeft
from holdfast.schemas.room import RoomInfo


class ClientRoom:
    """One seat. Iterate over it for the room's messages, or `poll` it once per frame of your game.

    A message counts as processed, and is acknowledged, when the next one is asked for. One thread should read.
    """

    def __init__(self, background: Background, room: asynchronous.ClientRoom) -> None:
        self.id = room.id
        self.kind = room.kind
        self._background = background
        self._room = room

    @property
    def left(self) -> SeatLeft | None:
        """Why the seat is gone; None while it is ours. What came before it can still be read."""
        return self._room.left

    @property
    def info(self) -> RoomInfo | None:
        """The room's entry in the directory when it was last told; None after `saved=`, until it changes."""
        return self._room.info

    @property
    def host(self) -> str:
        """The id of the player who is the host; empty if there is none, or nobody has told us yet."""
        return self._room.host

    @property
    def sent(self) -> int:
        """The number of the last message that was sent; the first of a seat is 1."""
        return self._room.sent

    @property
    def accepted(self) -> int:
        """The number of the last message that the server has applied, as far as it told us: with all before it."""
        return self._room.accepted

    @property
    def unconfirmed(self) -> list[Unconfirmed]:
        """The messages that were sent and not accepted yet, with their numbers. They are on their way by themselves."""
        return self._background.call(lambda: self._room.unconfirmed)

    @property
    def received(self) -> int:
        """The number of the last reliable message that was read; begins anew with a `Resynced`."""
        return self._room.received

    def send(self, message: Message) -> int:
        """Send reliably: exactly once, in order, across drops. Waits while too many are unacknowledged.

        The result is the message's number. With `saved=` both are stored by then, and before the first byte leaves; if
        that fails (`OSError`), nothing was sent.
        """
        return self._background.run(lambda: self._room.send(message))

    def send_latest(self, message: Message, key: str = "") -> None:
        """Send unreliably: now or never; a newer one with the same type and key takes its place."""
        self._background.call(lambda: self._room.send_latest(message, key))

    def flush(self) -> None:
        """Wait until the server has applied everything that was sent; `NotSeated` if the seat goes first."""
        self._background.run(self._room.flush)

    def leave(self) -> None:
        """Give the seat back. What was sent before arrives first; what was not read is dropped."""
        self._background.run(self._room.leave)

    def update(self, **changes: Unpack[Changes]) -> RoomInfo:
        """Change the room's entry in the directory: its host may, and its creator."""
        return self._background.run(lambda: self._room.update(**changes))

    def receive(self, timeout: float | None = None) -> Message:
        """The next message; `TimeoutError` after so many seconds without one."""
        return self._background.run_for(timeout, self._room.receive, "no message")

    def poll(self) -> list[Message]:
        """The messages that are there now, without waiting; raises like `receive` when there can be no more."""
        return self._background.call(self._room.poll)

    def acknowledge(self) -> None:
        """Count what was read as processed now, not when more is asked for: it will not come again after a restart."""
        self._background.call(self._room.acknowledge)

    def __iter__(self) -> "ClientRoom":
        return self

    def __next__(self) -> Message:
        try:
            return self.receive()
        except NotSeated:
            raise StopIteration from None

    def __repr__(self) -> str:
        return repr(self._room)
