"""A client's seat in a room: messages to it and from it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.client.protocol import Arrived
from holdfast.core.codec import BodyDecoder, Codec
from holdfast.core.errors import HoldfastError, NotSeated, SessionEnded
from holdfast.core.messages import Message, MessageRefused, SeatLeft, Untyped

if TYPE_CHECKING:
    from holdfast.client.session import ClientSession


class Resynced(Message):
    """In a room's stream: messages could not be kept; what follows is the current state."""


class Vocabulary:
    """The messages a client knows, with a decoder for each."""

    def __init__(self, codec: Codec, message_types: Iterable[type[Message]]) -> None:
        known: list[type[Message]] = [MessageRefused, SeatLeft, *message_types]
        self._decoders: dict[str, BodyDecoder] = {kind.wire_name: codec.body_decoder(kind) for kind in known}
        self._any = codec.body_decoder(Any)

    def message(self, name: str, body: msgspec.Raw) -> Message:
        """The typed message; `Untyped` if its type is unknown or its body does not fit the type."""
        decoder = self._decoders.get(name)
        if decoder is not None:
            try:
                message: Message = decoder.decode(body)
            except msgspec.ValidationError:
                pass
            else:
                return message
        return Untyped(name, self._any.decode(body))


class ClientRoom:
    """One seat. Iterate over it for the room's messages; it ends when the seat is gone, and `left` says why.

    A message counts as processed, and is acknowledged, when the next one is asked for.
    """

    def __init__(self, session: "ClientSession", channel: int, room_id: str, kind: str) -> None:
        self.id = room_id
        self.kind = kind
        self.left: SeatLeft | None = None
        self._session = session
        self._channel = channel
        self._queue: deque[tuple[Arrived | None, Message]] = deque()
        self._in_hand: Arrived | None = None
        self._changed = asyncio.Event()
        self._error: HoldfastError | None = None

    async def send(self, message: Message) -> None:
        """Send reliably: exactly once, in order, across drops. Waits while too many are unacknowledged."""
        await self._session.send(self, message)

    def send_latest(self, message: Message) -> None:
        """Send unreliably: now or never."""
        self._session.send_latest(self, message)

    async def flush(self) -> None:
        """Wait until the server has applied everything that was sent."""
        await self._session.until(lambda: self.is_over or not self._session.protocol.unacked(self._channel))

    async def leave(self) -> None:
        """Give the seat back; messages that were not read are dropped."""
        await self._session.request("leave", {})
        self.left = self.left or SeatLeft("left")
        self._finish_in_hand()
        while self._queue:
            self.arrived(*self._queue.popleft())
        self._changed.set()

    async def receive(self) -> Message:
        """The next message; `NotSeated` when the seat is gone, `SessionEnded` when the session is."""
        while True:
            self._finish_in_hand()
            if self._queue:
                arrived, message = self._queue.popleft()
                self._in_hand = arrived
                if isinstance(message, SeatLeft):
                    self._finish_in_hand()
                    self.left = message
                    continue
                return message
            if self.left is not None:
                raise NotSeated(f"the seat is gone: {self.left.message or self.left.reason}")
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()

    async def __aiter__(self) -> AsyncIterator[Message]:
        try:
            while True:
                yield await self.receive()
        except NotSeated:
            return

    @property
    def channel(self) -> int:
        """The number of the seat's channel."""
        return self._channel

    @property
    def is_over(self) -> bool:
        """Whether the seat or the session is gone."""
        return self.left is not None or self._error is not None

    def _finish_in_hand(self) -> None:
        if self._in_hand is not None:
            arrived, self._in_hand = self._in_hand, None
            self._session.processed(arrived)

    # From the session

    def arrived(self, arrived: Arrived | None, message: Message) -> None:
        """A message for this seat."""
        if self.left is None:
            self._queue.append((arrived, message))
            self._changed.set()
        elif arrived is not None:
            self._session.processed(arrived)

    def end(self, left: SeatLeft) -> None:
        """The seat is gone; what came before it can still be read."""
        if self.left is None:
            self.arrived(None, left)

    def fail(self, error: SessionEnded) -> None:
        """The session is over."""
        self._error = error
        self._changed.set()

    def __repr__(self) -> str:
        return f"<ClientRoom {self.id} {self.kind}{' left' if self.left else ''}>"
