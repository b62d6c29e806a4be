"""A client's seat in a room: messages to it and from it."""

from holdfast.client.exchange import Exchange
from holdfast.client.inbox import Inbox
from holdfast.core.errors import NotSeated, Refused
from holdfast.core.messages import Message, SeatLeft
from holdfast.core.reasons import Reason


class ClientRoom:
    """One seat. Iterate over it for the room's messages; it ends when the seat is gone, and `left` says why.

    A message counts as processed, and is acknowledged, when the next one is asked for. One task should read.
    """

    def __init__(self, exchange: Exchange, inbox: Inbox, *, channel: int, room_id: str, kind: str) -> None:
        self.id = room_id
        self.kind = kind
        self.channel = channel
        self._exchange = exchange
        self._inbox = inbox

    @property
    def left(self) -> SeatLeft | None:
        """Why the seat is gone; None while it is ours. What came before it can still be read."""
        return self._inbox.left

    # To the room

    async def send(self, message: Message) -> None:
        """Send reliably: exactly once, in order, across drops. Waits while too many are unacknowledged.

        If the caller is cancelled, nothing was sent.
        """
        protocol = self._exchange.protocol
        body = protocol.body(message)
        await self._exchange.until(lambda: self.left is not None or not protocol.is_full(self.channel))
        self._check_seat()
        self._exchange.check()
        protocol.push(self.channel, message.wire_name, body)
        self._exchange.wake()

    def send_latest(self, message: Message, key: str = "") -> None:
        """Send unreliably: now or never; a newer one with the same type and key takes its place."""
        body = self._exchange.protocol.body(message)
        self._check_seat()
        self._exchange.check()
        self._exchange.protocol.push_latest(self.channel, message.wire_name, body, key)
        self._exchange.wake()

    async def flush(self) -> None:
        """Wait until the server has applied everything that was sent; `NotSeated` if the seat goes first."""
        protocol = self._exchange.protocol
        await self._exchange.until(lambda: self.left is not None or not protocol.unacked(self.channel))
        self._check_seat()

    async def leave(self) -> None:
        """Give the seat back. What was sent before arrives first; what was not read is dropped."""
        # The wire's request names no room: a seat that was taken later must not be left by mistake.
        if self.left is None and self._exchange.protocol.channels.is_newest(self.channel):
            try:
                await self._exchange.request("leave", {})
            except NotSeated:
                pass
            except Refused:
                if self.left is None:
                    raise
        self._inbox.discard(SeatLeft(Reason.LEFT))
        self._exchange.changed()

    # From the room

    async def receive(self) -> Message:
        """The next message; `NotSeated` when the seat is gone, `SessionEnded` when the session is."""
        while (message := self._inbox.next()) is None:
            self._check_seat()
            await self._exchange.until(lambda: self._inbox.is_ready)
        return message

    def poll(self) -> list[Message]:
        """The messages that are there now, without waiting; raises like `receive` when there can be no more."""
        messages = self._inbox.take()
        if not messages:
            self._check_seat()
            self._exchange.check()
        return messages

    def acknowledge(self) -> None:
        """Count what was read as processed now, not when more is asked for: before `ClientSession.save`."""
        self._inbox.acknowledge()

    def __aiter__(self) -> "ClientRoom":
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except NotSeated:
            raise StopAsyncIteration from None

    def _check_seat(self) -> None:
        if self.left is not None:
            raise NotSeated(f"the seat is gone: {self.left.message or self.left.reason}")

    def __repr__(self) -> str:
        return f"<ClientRoom {self.id} {self.kind}{' left' if self.left else ''}>"
