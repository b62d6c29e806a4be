"""What a turn says to clients waits for its end: a turn that is undone has said nothing.

Rooms that share their state or are transactional have a buffer. A message is encoded at once, and waits; when the turn
is over, its client's copy of the state is brought up to date first, and then the messages are numbered and leave. In
other rooms an outlet has no buffer, and messages leave as they are said.
"""

from collections.abc import Iterator
from typing import Protocol

from holdfast.core.block import Entry, weight
from holdfast.core.messages import Message
from holdfast.core.room_context import RoomContext
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.turns import Turns


class Follower(Protocol):
    """A client's copy of what its room shares."""

    def catch_up(self) -> None:
        """A message is written between two turns: write what has changed before it."""

    def restart(self) -> None:
        """The stream begins anew, with the whole view."""

    def part(self) -> None:
        """The stream ends: write nothing more."""


class ClientBuffer:
    """What the present turn says to one client."""

    __slots__ = (
        *(
            "_farewell",
            "_has_overflowed",
            "_is_writing",
            "_latest",
            "_entries",
            "_messages",
            "_others",
            "_room",
            "_size",
            "follower",
            "outlet",
        ),
    )

    def __init__(self, room: "TurnBuffer", outlet: ChannelOutlet) -> None:
        self._room = room
        self.outlet = outlet
        self.follower: Follower | None = None
        """None in a room that shares no state."""
        self._entries: list[Entry] = []
        self._messages = self._size = 0
        # Those of them that are not the turn's own: what runs beside it has said them.
        self._others: list[Entry] = []
        self._latest: dict[tuple[str, str], bytes] = {}
        self._has_overflowed = False
        self._is_writing = False
        self._farewell: Message | None = None

    @property
    def is_ending(self) -> bool:
        """Whether the stream ends with the turn."""
        return self._farewell is not None

    def hold(self, entry: Entry) -> bool:
        """Keep this until the end of the turn; False if there is no turn, and it is to be written now."""
        if self._is_writing:
            return False
        if not self._room.turns.in_turn:
            if self.follower is not None:
                self.follower.catch_up()
            return False
        channel = self.outlet.channel
        if channel.overflowed:
            return False
        if self._has_overflowed or self._farewell is not None:
            return True
        self._room.speaks_to(self)
        self._entries.append(entry)
        if self._room.is_undoable and not self._room.is_own:
            self._others.append(entry)
        messages, size = weight(entry)
        self._messages += messages
        self._size += size
        if channel.would_overflow(self._messages, self._size):
            # More than the client may have to read: it will be resynced, and reads none of this.
            self._forget()
            self._has_overflowed = True
        return True

    def hold_latest(self, name: str, body: bytes, key: str) -> bool:
        """Keep an unreliable message until the end of a turn that may be undone; False if it is to be written now."""
        if self._is_writing or not self._room.is_own:
            return False
        self._room.speaks_to(self)
        latest = self._latest
        if (name, key) not in latest and len(latest) >= self._room.latest_max:
            del latest[next(iter(latest))]
        latest[name, key] = body
        return True

    def undo(self) -> None:
        """Forget what the turn has said."""
        others = self._others
        self._forget()
        if self._farewell is not None:
            self._room.speaks_to(self)
        for entry in others:
            self.hold(entry)

    def finish(self, farewell: Message) -> bool:
        """End the stream when the turn ends; False if there is no turn, and it is to end now."""
        if self._is_writing or not self._room.turns.in_turn:
            return False
        self._farewell = farewell
        self._room.speaks_to(self)
        return True

    def end(self) -> None:
        """The stream ends, if it was to end with the turn: that is over, or cut off."""
        farewell, self._farewell = self._farewell, None
        if farewell is not None:
            self._is_writing = True
            self.outlet.finish(farewell)

    def write(self) -> None:
        """The turn is over: number what it has said."""
        entries, latest, has_overflowed = self._entries, self._latest, self._has_overflowed
        self._forget()
        if has_overflowed:
            self.outlet.overflow()
            self.end()
            return
        self._is_writing = True
        try:
            for entry in entries:
                self.outlet.write(entry)
            for (name, key), body in latest.items():
                self.outlet.push_latest(name, body, key)
        finally:
            self._is_writing = False
        self.end()

    def restart(self) -> None:
        """The stream begins anew: what was said before is not kept."""
        self._forget()
        if self.follower is not None:
            self.follower.restart()

    def part(self, *, is_lost: bool = False) -> None:
        """The stream ends: write what waits, unless the room `is_lost`."""
        if self.follower is not None:
            self.follower.part()
        if is_lost:
            self._forget()
            self._farewell = None
        elif self._room.is_undoable:
            # It may still fail; and the stream does not wait.
            self.undo()
        self._room.part(self)
        self.write()

    def _forget(self) -> None:
        self._entries, self._messages, self._size, self._has_overflowed = [], 0, 0, False
        if self._others or self._latest:
            self._others, self._latest = [], {}


class TurnBuffer:
    """What the present turn of one room says to its clients."""

    def __init__(self, turns: Turns, context: RoomContext) -> None:
        self.turns = turns
        turns.stopped = self._stopped
        self._context = context
        self.latest_max = context.limits.latest_kept_max
        # Those that the turn has spoken to.
        self._spoken_to: dict[ClientBuffer, None] = {}

    def add(self, outlet: ChannelOutlet) -> ClientBuffer:
        """A seat or a place has this outlet from now on."""
        outlet.buffer = buffer = ClientBuffer(self, outlet)
        return buffer

    @property
    def is_undoable(self) -> bool:
        """Whether the present turn may fail and be undone."""
        return self._context.turn is not None

    @property
    def is_own(self) -> bool:
        """Whether the code that runs now is part of such a turn."""
        return self._context.transaction is not None

    def speaks_to(self, client: ClientBuffer) -> None:
        self._spoken_to[client] = None

    def part(self, client: ClientBuffer) -> None:
        self._spoken_to.pop(client, None)

    def __contains__(self, client: object) -> bool:
        """Whether the turn has spoken to this client."""
        return client in self._spoken_to

    def __iter__(self) -> Iterator[ClientBuffer]:
        return iter(self._spoken_to)

    def __bool__(self) -> bool:
        return bool(self._spoken_to)

    def undo(self) -> None:
        """The turn has failed: it has said nothing."""
        self._context.broadcasts.drop()
        spoken_to, self._spoken_to = self._spoken_to, {}
        for client in spoken_to:
            client.undo()
        if self.turns.recorder is not None:
            self.turns.recorder.undo()

    def _stopped(self) -> None:
        """The room ends. A turn that was cut off has no end: what waits for that is not written, but streams end."""
        if self.turns.in_turn:
            # It has not been cut off.
            return
        spoken_to, self._spoken_to = self._spoken_to, {}
        for client in spoken_to:
            client.restart()
            client.end()

    def write(self) -> None:
        """The turn is over: write what it has said to everybody."""
        spoken_to, self._spoken_to = self._spoken_to, {}
        for client in spoken_to:
            client.write()
