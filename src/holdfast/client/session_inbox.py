"""Messages to the session itself, as its client reads them."""

import asyncio
from typing import TypeVar

from holdfast.client.channels import Arrived, ChannelGone, ChannelOpened, Restarted, SeatEvent
from holdfast.client.exchange import Exchange
from holdfast.client.inbox import RoomInbox
from holdfast.client.listeners import MessageListeners
from holdfast.client.room import MessageTypes
from holdfast.core.messages import Message
from holdfast.schemas.frames import Latest

M = TypeVar("M", bound=Message)


class SessionInbox:
    """The unread messages of a session, whichever channel they came on: they wait for a reader, or a listener."""

    def __init__(self, exchange: Exchange, types: MessageTypes) -> None:
        self._exchange = exchange
        self._types = types
        # Nothing unreliable is sent to a session.
        self._unread = RoomInbox(exchange.processed, latest_max=0)
        self._channel = 0
        self.listeners: MessageListeners[Message] = MessageListeners(self._listened)
        for event in exchange.protocol.channels.seats():
            self.happened(event)

    def happened(self, event: SeatEvent) -> bool:
        """Whether an event is of the session's own channel: then it is dealt with."""
        if isinstance(event, ChannelOpened):
            if event.purpose != "session":
                return False
            self._channel = event.channel
            return True
        if not self._channel or event.channel != self._channel:
            return False
        match event:
            case Arrived():
                self._unread.put(event, self._types.message(event.name, event.body))
            case Restarted():
                self._unread.restart(self._exchange.protocol.restart_of(event))
            case Latest():
                pass
            case ChannelGone():
                # The session is another one, or older than what was read: what came before may not be all.
                restart = Restarted(event.channel, 0)
                self._unread.restart(self._exchange.protocol.restart_of(restart))
                self._channel = 0
        self._hand_out()
        return True

    def _listened(self) -> None:
        if self._unread.is_ready(Message):
            # Not before this turn's other listeners are here too.
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        """Give listeners what is here; each message is acknowledged when they have returned."""
        # Looked at before each: a listener may take itself away, and the rest waits for the next one.
        while len(self.listeners) and (message := self._unread.next(Message)) is not None:
            self.listeners.tell(message)
            self._unread.acknowledge()

    def acknowledge(self) -> None:
        """What was read has been dealt with."""
        self._unread.acknowledge()

    async def receive(self, message_type: type[M]) -> M:
        """The next message of a type; the others stay."""
        self._types.check(message_type)
        while (message := self._unread.next(message_type)) is None:
            await self._exchange.until(lambda: self._unread.is_ready(message_type))
        return message

    def next(self) -> Message | None:
        """The next message, if there is one; the one before it has been dealt with."""
        return self._unread.next(Message)
