"""A client's seat in a room, for programs without an event loop."""

from typing import Unpack

from holdfast.client import room as asynchronous
from holdfast.client.background import Background
from holdfast.client.room import Changes
from holdfast.core.errors import NotSeated
from holdfast.core.infos import RoomInfo
from holdfast.core.messages import Message, SeatLeft


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
        """The room's entry in the directory when it was last told; None after `resume=`, until it changes."""
        return self._room.info

    @property
    def host(self) -> str:
        """The id of the player who is the host; empty if there is none, or nobody has told us yet."""
        return self._room.host

    def send(self, message: Message) -> None:
        """Send reliably: exactly once, in order, across drops. Waits while too many are unacknowledged."""
        self._background.run(lambda: self._room.send(message))

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
        """Count what was read as processed now, not when more is asked for: before `ClientSession.save`."""
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
