"""The channels of a session, as its client keeps them: opened by seats, continued by resumes, over when all is read.

A session has at most one seat, so of several channels only the newest has a seat behind it; the others still have
unread messages.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec import Raw

from holdfast.client.saved import SavedChannel, SavedState
from holdfast.core.channel import Channel
from holdfast.core.errors import NotSeated, ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.messages import RESERVED
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import POSITIONS_MAX, Ack, ChannelInfo, Data, Latest, Position, SeatFrame

# A place in the outbox for a message that an earlier process sent and we do not remember. The server has it, or it
# would not say so; should it have lost it, this is refused. The body is a number in every codec.
_FORGOTTEN = (RESERVED + "forgotten", b"0")


@dataclass(frozen=True, slots=True)
class ChannelOpened:
    """A channel began: the session has a seat."""

    channel: int
    room: str
    kind: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """The next reliable message of a channel; call `processed` when it has been dealt with."""

    session: str
    channel: int
    generation: int
    seq: int
    name: str
    body: Raw


@dataclass(frozen=True, slots=True)
class Restarted:
    """Messages of a channel could not be kept; its stream restarts with the current state."""

    channel: int
    generation: int


@dataclass(frozen=True, slots=True)
class ChannelGone:
    """There will be nothing more on this channel, and its last message did not reach us."""

    channel: int
    reason: str


SeatEvent = ChannelOpened | Arrived | Latest | Restarted | ChannelGone


class Channels:
    """Everything a client remembers of its streams."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[int, Channel] = {}
        self._rooms: dict[int, tuple[str, str]] = {}
        self.finished: dict[int, Position] = {}
        """Processed to the end, but the server may not have heard so: the next hello tells it again."""
        # Restarted, and the reader has not been told: the gap must be declared, in this process or another.
        self._restarted: set[int] = set()
        self.last_number = 0
        """The number of the newest channel."""

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._open.values())

    def get(self, number: int) -> Channel | None:
        """The channel with this number; None if it is over."""
        return self._open.get(number)

    def seat(self, number: int) -> Channel:
        """The channel to send on; `NotSeated` if it is over."""
        channel = self._open.get(number)
        if channel is None:
            raise NotSeated("the seat is gone; join again")
        return channel

    def was_opened(self, number: int) -> bool:
        """Whether there is or was such a channel."""
        return number <= self.last_number

    def seats(self) -> list[SeatEvent]:
        """The open channels as events, for a session that was just loaded."""
        events: list[SeatEvent] = []
        for number, (room, kind) in self._rooms.items():
            events.append(ChannelOpened(number, room, kind))
            if number in self._restarted:
                events.append(Restarted(number, self._open[number].generation))
        return events

    def outgoing(self, *, with_acks: bool) -> Iterator[Data | Ack]:
        """What may be written now: messages within the window, which carry acknowledgements, or those alone."""
        # Where the window is small, it must not close before enough was processed to say so.
        due = min(self._limits.ack_messages, max(1, self._limits.window_messages_max // 2))
        for channel in self:
            yield from channel.take()
            if channel.owes_ack and (with_acks or channel.applied - channel.ack_sent >= due):
                channel.ack_sent = channel.applied
                yield Ack(channel.number, channel.applied)

    @property
    def owe_ack(self) -> bool:
        """Whether something was processed that the server does not know of yet."""
        return any(channel.owes_ack for channel in self)

    def positions(self) -> list[Position]:
        """How far each channel got: what a hello says to come back."""
        positions = list(self.finished.values())
        for channel in self:
            accepted = channel.accepted if channel.accepted > channel.applied else 0
            positions.append(Position(channel.number, channel.generation, channel.applied, channel.acked, accepted))
        return sorted(positions, key=lambda position: position.channel)[-POSITIONS_MAX:]

    # A channel's life

    def on_seat(self, frame: SeatFrame) -> list[SeatEvent]:
        """A seat was taken, or its stream was restarted."""
        if not self.was_opened(frame.channel):
            return self._begin(ChannelInfo(frame.channel, frame.generation, 0, frame.room, frame.kind))
        channel = self._open.get(frame.channel)
        if channel is None or channel.generation == frame.generation:
            raise ProtocolError(f"channel {frame.channel} was opened twice")
        return [self._restart(channel, frame.generation)]

    def finish(self, channel: Channel) -> None:
        self._drop([channel.number], "")
        self.finished[channel.number] = Position(channel.number, channel.generation, channel.applied)
        while len(self.finished) > self._limits.closing_channels_max:
            del self.finished[next(iter(self.finished))]

    def _begin(self, info: ChannelInfo) -> list[SeatEvent]:
        # The server drops old channels that are not read, and so do we.
        surplus = list(self._open)[: max(0, len(self._open) - self._limits.closing_channels_max)]
        events: list[SeatEvent] = self._drop(surplus, Reason.LEFT)
        channel = self._open[info.channel] = Channel(info.channel, self._limits)
        channel.generation = info.generation
        self.last_number = max(self.last_number, info.channel)
        if info.room:
            # Without a room, the seat was gone before we heard of it: its messages are of no use to anybody.
            self._rooms[info.channel] = (info.room, info.kind)
            events.append(ChannelOpened(info.channel, info.room, info.kind))
        return events

    def _drop(self, numbers: Iterable[int], reason: str) -> list[SeatEvent]:
        events: list[SeatEvent] = []
        for number in numbers:
            del self._open[number]
            self._rooms.pop(number, None)
            self._restarted.discard(number)
            events.append(ChannelGone(number, reason))
        return events

    # A session's life

    def agree(self, limits: Limits) -> None:
        if limits != self._limits:
            self._limits = limits
            for channel in self:
                channel.agree(limits)

    def resume(self, infos: list[ChannelInfo], reason: str) -> list[SeatEvent]:
        """A new connection continues the session: bring each channel to where the server has it."""
        known = {info.channel for info in infos}
        events = self._drop([number for number in self._open if number not in known], reason or Reason.LEFT)
        # Read to its end after our hello was sent: what the server repeats of it is passed over.
        self.finished = {number: position for number, position in self.finished.items() if number in known}
        for info in infos:
            if info.channel in self.finished:
                continue
            channel = self._open.get(info.channel)
            if channel is None:
                events += self._begin(info)
            elif info.generation != channel.generation:
                events.append(self._restart(channel, info.generation))
            self._continue(self._open[info.channel], info)
        return events

    def roll_back(self, infos: list[ChannelInfo], reason: str) -> list[SeatEvent]:
        """The server's state is older than ours: it knows only these channels, and may reuse the others' numbers."""
        rooms = {info.channel: info.room for info in infos}
        others = [number for number, (room, _) in self._rooms.items() if rooms.get(number, "") not in {"", room}]
        events = self._drop([number for number in self._open if number not in rooms or number in others], reason)
        self.finished.clear()
        self.last_number = max(self._open, default=0)
        return events

    def _continue(self, channel: Channel, info: ChannelInfo) -> None:
        if info.applied < channel.acked:
            raise ProtocolError(f"the server has forgotten messages that it had acknowledged: {channel.acked}")
        if channel.resume(channel.generation, info.applied) is None:
            channel.skip_to(info.applied)
        if info.accepted - info.applied > self._limits.window_messages_max:
            raise ProtocolError("the server has taken more messages than its window allows")
        channel.fill_to(info.accepted, *_FORGOTTEN)

    def _restart(self, channel: Channel, generation: int) -> Restarted:
        channel.restart_inward(generation)
        self._restarted.add(channel.number)
        return Restarted(channel.number, generation)

    def read(self, channel: Channel) -> bool:
        """Something of the stream's present generation was read; True if that is how its reader heard of it."""
        is_first = channel.number in self._restarted
        self._restarted.discard(channel.number)
        return is_first

    def clear(self, reason: str) -> list[SeatEvent]:
        """The session is a new one: none of these channels is part of it, and numbers start over."""
        self.finished.clear()
        self.last_number = 0
        return self._drop(list(self._open), reason)

    # Another process

    def save(self) -> list[SavedChannel]:
        """The open channels, as they would go on elsewhere."""
        return [
            SavedChannel(
                *(channel.number, channel.generation, channel.applied, channel.last_seq),
                *self._rooms.get(channel.number, ("", "")),
                channel.kept_messages(),
                channel.number in self._restarted,
            )
            for channel in self
        ]

    def load(self, state: SavedState) -> None:
        """Go on from a saved state; messages that were received but not processed will be sent again."""
        for saved in state.channels:
            self._begin(ChannelInfo(saved.number, saved.generation, 0, saved.room, saved.kind))
            channel = self._open[saved.number]
            channel.accepted = channel.applied = channel.ack_sent = saved.received
            channel.restore_outward(saved.last_seq, saved.outbox)
            if saved.is_restarted:
                self._restarted.add(saved.number)
        self.finished = {position.channel: position for position in state.finished}
        self.last_number = max([self.last_number, *self.finished])
