"""The messages of one seat that wait to be read. Pure: who waits, waits elsewhere.

Reliable messages are bounded by the server's window, which moves only when they are processed. Of the unreliable ones
only the newest are kept. Both are read in the order in which they came.
"""

from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from holdfast.client.events import Arrived
from holdfast.core.messages import Message, SeatLeft


class Resynced(Message):
    """In a room's stream: messages could not be kept; what follows is the current state."""


class _Entry(NamedTuple):
    place: int
    message: Message
    arrived: Arrived | None = None


class Inbox:
    """Read with `next` or `take`; what was read counts as processed when more is asked for, or by `acknowledge`."""

    def __init__(self, processed: Callable[[Arrived], None], *, latest_max: int, received: int = 0) -> None:
        self.left: SeatLeft | None = None
        """Why there is nothing more to come, known before everything has been read."""
        self.received = received
        """The number of the last reliable message that was read."""
        self._processed = processed
        self._reliable: deque[_Entry] = deque()
        self._latest: deque[_Entry] = deque(maxlen=latest_max)
        self._place = 0
        self._in_hand: Arrived | None = None
        self._farewell: Arrived | None = None
        self._is_discarding = False

    # For the reader

    @property
    def is_ready(self) -> bool:
        """Whether a reader has something to learn: a message, or that there will be none."""
        return bool(self._reliable or self._latest or self.left is not None)

    def next(self) -> Message | None:
        """The next message, if there is one."""
        self.acknowledge()
        if self._latest and (not self._reliable or self._latest[0].place < self._reliable[0].place):
            return self._latest.popleft().message
        if not self._reliable:
            return None
        _, message, arrived = self._reliable.popleft()
        self._hold(arrived)
        return message

    def take(self) -> list[Message]:
        """All messages that are there."""
        self.acknowledge()
        entries = sorted([*self._reliable, *self._latest], key=attrgetter("place"))
        if self._reliable:
            self._hold(self._reliable[-1].arrived)
        self._reliable.clear()
        self._latest.clear()
        return [entry.message for entry in entries]

    def _hold(self, arrived: Arrived | None) -> None:
        self._in_hand = arrived
        if arrived is not None:
            self.received = arrived.seq

    def acknowledge(self) -> None:
        """What was read has been dealt with."""
        if self._in_hand is not None:
            arrived, self._in_hand = self._in_hand, None
            self._processed(arrived)
        if self._farewell is not None and not self._reliable:
            arrived, self._farewell = self._farewell, None
            self._processed(arrived)

    def discard(self, left: SeatLeft) -> None:
        """Nobody will read any more: what is here and what still comes counts as processed."""
        self.end(left)
        self._is_discarding = True
        self.take()
        self.acknowledge()

    # For the session

    def put(self, arrived: Arrived, message: Message) -> None:
        """A reliable message came."""
        if isinstance(message, SeatLeft):
            self.end(message)
            self._farewell = arrived
            if self._in_hand is None:
                self.acknowledge()
        elif self._is_discarding:
            self._processed(arrived)
        else:
            self._place += 1
            self._reliable.append(_Entry(self._place, message, arrived))

    def put_latest(self, message: Message) -> None:
        """An unreliable message came; the oldest gives way."""
        if not self._is_discarding:
            self._place += 1
            self._latest.append(_Entry(self._place, message))

    def restart(self, arrived: Arrived) -> None:
        """The stream begins anew: what was not read is out of date, and the reader is told so."""
        self._in_hand = None
        self._reliable.clear()
        self._latest.clear()
        if not self._is_discarding:
            self._place += 1
            self._reliable.append(_Entry(self._place, Resynced(), arrived))

    def end(self, left: SeatLeft) -> None:
        """The seat is gone; what came before can still be read."""
        if self.left is None:
            self.left = left
