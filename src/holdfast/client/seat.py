"""The messages of one seat that wait to be read, and the types that they are read as.

Pure: waiting happens elsewhere. Reliable messages are bounded by the server's window, which moves only when they are
processed. Of the unreliable ones only the newest are kept. Both are read in the order in which they came.
"""

from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from holdfast.client.channels import Arrived
from holdfast.core.codec import DECODE_ERRORS, BodyDecoder, Codec
from holdfast.core.errors import Invalid, ProtocolError
from holdfast.core.messages import RESERVED, HostChanged, Message, MessageRefused, RoomUpdated, SeatLeft, Untyped


class Resynced(Message):
    """In a room's stream: messages could not be kept; what follows is the current state."""


class _Unread(NamedTuple):
    place: int
    message: Message
    arrived: Arrived | None = None


class RoomInbox:
    """Read with `next` or `take`; what was read counts as processed when more is asked for, or by `acknowledge`."""

    def __init__(self, processed: Callable[[Arrived], None], *, latest_max: int, received: int = 0) -> None:
        self.left: SeatLeft | None = None
        """Why there is nothing more to come, known before everything has been read."""
        self.received = received
        """The number of the last reliable message that was read."""
        self._processed = processed
        self._reliable: deque[_Unread] = deque()
        self._latest: deque[_Unread] = deque(maxlen=latest_max)
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
        self.acknowledge()
        if self._latest and (not self._reliable or self._latest[0].place < self._reliable[0].place):
            return self._latest.popleft().message
        if not self._reliable:
            return None
        _, message, arrived = self._reliable.popleft()
        self._hold(arrived)
        return message

    def take(self) -> list[Message]:
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
        """Stop reading: everything unread, and everything still to come, counts as processed."""
        self.end(left)
        self._is_discarding = True
        self.take()
        self.acknowledge()

    # For the session

    def put(self, arrived: Arrived, message: Message) -> None:
        if isinstance(message, SeatLeft):
            self.end(message)
            self._farewell = arrived
            if self._in_hand is None:
                self.acknowledge()
        elif self._is_discarding:
            self._processed(arrived)
        else:
            self._place += 1
            self._reliable.append(_Unread(self._place, message, arrived))

    def put_latest(self, message: Message) -> None:
        """An unreliable message came; the oldest gives way."""
        if not self._is_discarding:
            self._place += 1
            self._latest.append(_Unread(self._place, message))

    def restart(self, arrived: Arrived) -> None:
        """The stream was restarted: unread messages are out of date, and the reader is told."""
        self._in_hand = None
        self._reliable.clear()
        self._latest.clear()
        if not self._is_discarding:
            self._place += 1
            self._reliable.append(_Unread(self._place, Resynced(), arrived))

    def end(self, left: SeatLeft) -> None:
        """The seat is gone; what came before can still be read."""
        if self.left is None:
            self.left = left


class MessageTypes:
    """The types of messages that a client was told about: a decoder for each, by its wire name."""

    def __init__(self, codec: Codec, message_types: Iterable[type[Message]]) -> None:
        self._decoders: dict[str, BodyDecoder] = {}
        known: list[type[Message]] = [MessageRefused, SeatLeft, RoomUpdated, HostChanged, *message_types]
        for kind in dict.fromkeys(known):
            if kind.wire_name in self._decoders:
                raise Invalid(f"two types of messages are called {kind.wire_name!r}: set `wire_name` on one of them")
            self._decoders[kind.wire_name] = codec.body_decoder(kind)
        self._any = codec.body_decoder(Any)

    def message(self, name: str, body: msgspec.Raw) -> Message:
        """The typed message; `Untyped` if its type is unknown or its body does not fit the type."""
        decoder = self._decoders.get(name)
        try:
            if decoder is not None:
                try:
                    message: Message = decoder.decode(body)
                except msgspec.ValidationError:
                    if name.startswith(RESERVED):
                        raise
                else:
                    return message
            return Untyped(name, self._any.decode(body))
        except DECODE_ERRORS as error:
            raise ProtocolError(f"the body of a {name!r} cannot be read: {error}") from None


class Unconfirmed(NamedTuple):
    """A message that the server has not acknowledged yet."""

    number: int
    message: Message
    """`Untyped`, unless its type is among the `messages` of `connect`."""
