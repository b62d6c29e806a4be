"""The channels of a session, as its client keeps them: opened by seats, continued by resumes, over when all is read.

A session has at most one open channel for each purpose, so of several only the newest has a seat behind it; the others
still have unread messages.
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
    """A channel began: the session has a seat, or what else its purpose says."""

    channel: int
    room: str
    kind: str
    purpose: str = "seat"


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
    applied: int = 0
    """The last of our messages that the server had applied by then, and the last that it had received."""
    accepted: int = 0
    reason: str = ""
    """As in the outcome of the resume."""


@dataclass(frozen=True, slots=True)
class ChannelGone:
    """There will be nothing more on this channel, and its last message did not reach us."""

    channel: int
    reason: str
    is_reset: bool = False
    """Whether it is gone with its session, or was never part of the server's present history."""


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
        # The whole view of what the room shares has come.
        self._sharing: set[int] = set()
        self._newest: dict[str, int] = {}
        """By purpose, the number of the newest channel, which may be over."""
        self._last_number = 0

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
        return number <= self._last_number

    def is_newest(self, number: int) -> bool:
        """Whether this channel was opened, and none with its purpose after it."""
        return number in self._newest.values()

    def seats(self) -> list[SeatEvent]:
        """The open channels as events, for a session that was just loaded."""
        events: list[SeatEvent] = []
        for number, (room, kind) in self._rooms.items():
            channel = self._open[number]
            events.append(ChannelOpened(number, room, kind, channel.purpose))
            if number in self._restarted:
                events.append(Restarted(number, channel.generation))
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
        # The open ones are needed most, and one of them may be the oldest of all.
        for channel in sorted(self, key=lambda channel: (self.is_newest(channel.number), channel.number)):
            accepted = channel.accepted if channel.accepted > channel.applied else 0
            positions.append(Position(channel.number, channel.generation, channel.applied, channel.acked, accepted))
        return sorted(positions[-POSITIONS_MAX:], key=lambda position: position.channel)

    # A channel's life

    def on_seat(self, frame: SeatFrame) -> list[SeatEvent]:
        """A channel was opened, or its stream was restarted."""
        # Channels of one purpose are opened in order; one of another may have waited longer until it was saved.
        if frame.channel not in self._open and frame.channel > self._newest.get(frame.purpose, 0):
            info = ChannelInfo(frame.channel, frame.generation, 0, frame.room, frame.kind, purpose=frame.purpose)
            return self._begin(info)
        channel = self._open.get(frame.channel)
        if channel is None or channel.generation == frame.generation:
            raise ProtocolError(f"channel {frame.channel} was opened twice")
        return [self._restart(channel, Restarted(channel.number, frame.generation, channel.acked, channel.sent))]

    def finish(self, channel: Channel) -> None:
        self._drop([channel.number], "")
        self.finished[channel.number] = Position(channel.number, channel.generation, channel.applied)
        while len(self.finished) > self._limits.closing_channels_max:
            del self.finished[next(iter(self.finished))]

    def _begin(self, info: ChannelInfo) -> list[SeatEvent]:
        self._last_number = max(self._last_number, info.channel)
        # Without a room, the seat was gone before we heard of it: its messages are of no use to anybody.
        is_open = bool(info.room) or info.purpose == "session"
        if is_open:
            self._newest[info.purpose] = max(self._newest.get(info.purpose, 0), info.channel)
        # The server drops old channels that are not read, and so do we.
        ended = [number for number in self._open if not self.is_newest(number)]
        events = self._drop(ended[: max(0, len(ended) - self._limits.closing_channels_max)], Reason.LEFT)
        channel = self._open[info.channel] = Channel(info.channel, self._limits, info.purpose)
        channel.generation = info.generation
        if is_open:
            self._rooms[info.channel] = (info.room, info.kind)
            events.append(ChannelOpened(info.channel, info.room, info.kind, info.purpose))
        return events

    def _drop(self, numbers: Iterable[int], reason: str, *, is_reset: bool = False) -> list[SeatEvent]:
        events: list[SeatEvent] = []
        for number in numbers:
            del self._open[number]
            self._rooms.pop(number, None)
            self._restarted.discard(number)
            self._sharing.discard(number)
            events.append(ChannelGone(number, reason, is_reset))
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
        # Without their last message, which could not be kept: nobody knows why, only that it was not our doing.
        events = self._drop([number for number in self._open if number not in known], reason or Reason.DROPPED)
        # Read to its end after our hello was sent: what the server repeats of it is passed over.
        self.finished = {number: position for number, position in self.finished.items() if number in known}
        for info in infos:
            if info.channel in self.finished:
                continue
            # A session's own stream that began anew before we heard of it: no state says what we missed.
            is_restarted = info.purpose == "session" and info.generation > 1
            if info.channel in self._open:
                is_restarted = info.generation != self._open[info.channel].generation
            else:
                events += self._begin(info)
            channel = self._open[info.channel]
            if is_restarted:
                accepted = max(info.applied, info.accepted)
                restarted = Restarted(info.channel, info.generation, info.applied, accepted, reason)
                events.append(self._restart(channel, restarted))
            self._continue(channel, info)
        return events

    def roll_back(self, infos: list[ChannelInfo], reason: str) -> list[SeatEvent]:
        """The server's state is older than ours: it knows only these channels, and may reuse the others' numbers."""
        known = {info.channel: info for info in infos}
        others = [each.number for each in self if not self._is_same(each, known.get(each.number))]
        events = self._drop(others, reason, is_reset=True)
        self.finished.clear()
        self._last_number = max(self._open, default=0)
        self._newest = {}
        for number in sorted(self._rooms):
            self._newest[self._open[number].purpose] = number
        return events

    def _is_same(self, channel: Channel, info: ChannelInfo | None) -> bool:
        if info is None:
            return False
        if not info.room and info.purpose != "session":
            # The server does not say what a channel was for whose seat is gone.
            return channel.purpose != "session"
        room, _ = self._rooms.get(channel.number, (info.room, ""))
        return (room, channel.purpose) == (info.room, info.purpose)

    def _continue(self, channel: Channel, info: ChannelInfo) -> None:
        if info.applied < channel.acked:
            raise ProtocolError(f"the server has forgotten messages that it had acknowledged: {channel.acked}")
        if channel.resume(channel.generation, info.applied) is None:
            channel.skip_to(info.applied)
        if info.accepted - info.applied > self._limits.window_messages_max:
            raise ProtocolError("the server has taken more messages than its window allows")
        channel.fill_to(info.accepted, *_FORGOTTEN)

    def _restart(self, channel: Channel, restarted: Restarted) -> Restarted:
        channel.restart_inward(restarted.generation)
        self._restarted.add(channel.number)
        return restarted

    def read(self, channel: Channel) -> bool:
        """The reader was told that the stream was restarted; True if it had not heard of it before."""
        is_first = channel.number in self._restarted
        self._restarted.discard(channel.number)
        return is_first

    def shares(self, number: int) -> bool:
        """The whole view of what the room shares has come; True if it is the first."""
        is_first = number in self._open and number not in self._sharing
        if is_first:
            self._sharing.add(number)
        return is_first

    def is_sharing(self, number: int) -> bool:
        """Whether a whole view of what the room shares has come before, in this process or another."""
        return number in self._sharing

    def clear(self, reason: str) -> list[SeatEvent]:
        """The session is a new one: none of these channels is part of it, and numbers start over."""
        self.finished.clear()
        self._newest.clear()
        self._last_number = 0
        return self._drop(list(self._open), reason, is_reset=True)

    # Another process

    def save(self) -> list[SavedChannel]:
        """The open channels, as they would go on elsewhere."""
        return [
            SavedChannel(
                *(channel.number, channel.generation, channel.applied, channel.last_seq),
                *self._rooms.get(channel.number, ("", "")),
                channel.kept_messages(),
                channel.number in self._restarted,
                channel.purpose,
                channel.number in self._sharing,
            )
            for channel in self
        ]

    @property
    def newest(self) -> dict[str, int]:
        """By purpose, the number of the newest channel, as it is saved."""
        return dict(self._newest)

    def load(self, state: SavedState) -> None:
        """Go on from a saved state; messages that were received but not processed will be sent again."""
        for saved in state.channels:
            self._begin(ChannelInfo(saved.number, saved.generation, 0, saved.room, saved.kind, purpose=saved.purpose))
            channel = self._open[saved.number]
            channel.accepted = channel.applied = channel.ack_sent = saved.received
            channel.restore_outward(saved.last_seq, saved.outbox, filled_to=_last_forgotten(saved))
            if saved.is_restarted:
                self._restarted.add(saved.number)
            if saved.is_sharing:
                self._sharing.add(saved.number)
        self.finished = {position.channel: position for position in state.finished}
        self._newest |= state.newest
        self._last_number = max([self._last_number, *self.finished, *self._newest.values()])


def _last_forgotten(saved: SavedChannel) -> int:
    """The number of the last message whose place alone is kept; 0 if there is none."""
    first = saved.last_seq - len(saved.outbox) + 1
    return max((seq for seq, message in enumerate(saved.outbox, first) if message == _FORGOTTEN), default=0)
