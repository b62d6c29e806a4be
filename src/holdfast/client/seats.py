"""The seats of a session, as its client keeps them: a room and its unread messages for each channel."""

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.client.events import Arrived, ChannelGone, LatestArrived, Restarted, SeatEvent, SeatTaken
from holdfast.client.exchange import Exchange
from holdfast.client.inbox import Inbox
from holdfast.client.outbox import Outbox
from holdfast.client.room import ClientRoom, Entry
from holdfast.client.vocabulary import Vocabulary
from holdfast.core.errors import NotSeated
from holdfast.core.messages import HostChanged, Message, RoomUpdated, SeatLeft
from holdfast.core.reasons import Reason
from holdfast.schemas.room import RoomInfo


class _Seat(NamedTuple):
    room: ClientRoom
    inbox: Inbox
    entry: Entry


class Seats:
    """By channel, oldest first; a session has one at a time, the others can still be read."""

    def __init__(self, exchange: Exchange, messages: Iterable[type[Message]], *, latest_max: int) -> None:
        self._exchange = exchange
        self._latest_max = latest_max
        self._vocabulary = Vocabulary(exchange.protocol.codec, messages)
        self._seats: dict[int, _Seat] = {}
        for event in exchange.protocol.channels.seats():
            self.happened(event)

    @property
    def room(self) -> ClientRoom | None:
        """The room we have a seat in."""
        return next((seat.room for seat in reversed(self._seats.values()) if seat.inbox.left is None), None)

    def room_of(self, info: RoomInfo) -> ClientRoom:
        """The room that a seat was just taken in."""
        for seat in reversed(self._seats.values()):
            if seat.room.id == info.id:
                if seat.entry.info is None:
                    # Else the room itself has told of a later one.
                    seat.entry.shown(info)
                return seat.room
        raise NotSeated("the seat was gone before we heard of it; join again")

    def acknowledge(self) -> None:
        """What was read has been dealt with."""
        for seat in self._seats.values():
            seat.inbox.acknowledge()

    def happened(self, event: SeatEvent) -> None:
        """Something came on a channel, or became of it."""
        match event:
            case Arrived():
                self._arrived(event)
            case LatestArrived():
                if (seat := self._seats.get(event.channel)) is not None:
                    seat.inbox.put_latest(self._vocabulary.message(event.name, event.body))
            case SeatTaken():
                self._seated(event)
            case Restarted():
                if (seat := self._seats.get(event.channel)) is not None:
                    seat.inbox.restart(self._exchange.protocol.restart_of(event))
            case ChannelGone():
                if (seat := self._seats.pop(event.channel, None)) is not None:
                    seat.inbox.end(SeatLeft(event.reason))

    def _arrived(self, event: Arrived) -> None:
        seat = self._seats.get(event.channel)
        if seat is None:
            # Of a seat that was gone before we heard of it: nobody will ever read this.
            self._exchange.processed(event)
            return
        message = self._vocabulary.message(event.name, event.body)
        if isinstance(message, RoomUpdated):
            seat.entry.shown(message.room)
        elif isinstance(message, HostChanged):
            seat.entry.hosted(message.player)
        seat.inbox.put(event, message)
        if isinstance(message, SeatLeft) and message.reason == Reason.JOIN_FAILED:
            # `join` raises, so nobody gets to see this room.
            seat.inbox.discard(message)

    def _seated(self, event: SeatTaken) -> None:
        open_channels = {channel.number for channel in self._exchange.protocol.channels}
        self._seats = {number: seat for number, seat in self._seats.items() if number in open_channels}
        channel = self._exchange.protocol.channels.seat(event.channel)
        inbox = Inbox(self._exchange.processed, latest_max=self._latest_max, received=channel.applied)
        entry = Entry()
        room = ClientRoom(self._exchange, inbox, entry, event, Outbox(channel, self._vocabulary))
        self._seats[event.channel] = _Seat(room, inbox, entry)
