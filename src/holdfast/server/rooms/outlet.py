"""Outlets: messages to a client's seat are encoded at once, numbered, kept, and written when the loop's turn ends."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.core.block import Block, Entry
from holdfast.core.broadcasts import Broadcasts
from holdfast.core.channel import Channel
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.errors import Invalid
from holdfast.core.messages import Message
from holdfast.core.outlet import Backlog, Outlet
from holdfast.core.records import channel_record
from holdfast.core.room import Room
from holdfast.core.session import Session
from holdfast.schemas.frames import Purpose, SeatFrame
from holdfast.schemas.session import ChannelRecord


@dataclass(frozen=True, slots=True)
class OutletOptions:
    """Shared by all outlets: a held seat should take little memory."""

    body_bytes_max: int
    overflowed: Callable[[Session], None]
    """Called when more piles up for a client than may be kept."""


def too_large(name: str, body: bytes, bytes_max: int) -> Invalid:
    """The refusal of a message that no payload can carry."""
    return Invalid(
        f"{name!r} has {len(body)} bytes, more than the {bytes_max} that fit in a payload: "
        "send it in parts, or raise Limits.payload_bytes_max on both ends"
    )


def open_channel(session: Session, purpose: Purpose, room: Room[Any]) -> Channel:
    """A session has a seat or place in a room from now on: open its channel, and tell its client."""
    channel = session.open_channel(purpose)
    if session.connection is not None:
        session.connection.send(
            SeatFrame("joined", channel.number, channel.generation, room.id, room.kind, channel.purpose)
        )
    return channel


class HeldMessages(Protocol):
    """What a turn says to one client, until it ends."""

    def hold(self, entry: Entry) -> bool:
        """Keep this until the end of the turn; False if there is no turn, and it is to be written now."""

    def hold_latest(self, name: str, body: bytes, key: str) -> bool:
        """The same for an unreliable message, if the turn may be undone."""

    def finish(self, farewell: Message) -> bool:
        """End the stream with this message when the turn ends; False if there is no turn, and it is to end now."""

    def restart(self) -> None:
        """The stream begins anew."""

    def part(self, *, is_lost: bool = False) -> None:
        """The stream ends: write what is kept, unless the room `is_lost`."""


class ChannelOutlet:
    """The outlet of a client's seat: its session's codec and its channel."""

    __slots__ = (
        "_options",
        "_session",
        "backlog",
        "broadcasts",
        "buffer",
        "channel",
        "codec",
        "is_following",
        "latest_waiting_bytes",
        "recorder",
        "waiting_bytes",
    )

    def __init__(self, session: Session, channel: Channel, options: OutletOptions) -> None:
        self._session = session
        self.channel = channel
        self._options = options
        self.codec: Codec = session.codec or MSGPACK
        self.waiting_bytes = self.latest_waiting_bytes = 0
        self.backlog: Backlog | None = None
        self.broadcasts: Broadcasts | None = None
        """What the room says to many, and to this client among them: its block ends before a message to it alone."""
        self.buffer: HeldMessages | None = None
        """What waits for the end of the turn; None in a room whose messages leave as they are said."""
        self.is_following = False
        """Whether the client has a copy of what the room shares, and the buffer keeps it up to date."""
        self.recorder: Callable[[str, bytes, bool], None] | None = None
        """Called with each message, and whether it is unreliable: None in a room that is not recorded."""

    @property
    def is_full(self) -> bool:
        """Whether a window or more is kept for the client."""
        # As `Channel.is_full`, without its call: asked with every message of the client.
        channel = self.channel
        return (
            channel.last_seq - channel.acked >= channel.window_messages_max
            or channel.kept_bytes >= channel.window_bytes_max
            or channel.acked < channel.filled_to
        )

    def overflow(self) -> None:
        """Keep nothing more for the client: it resumes and is resynced."""
        self.channel.give_up()
        self._options.overflowed(self._session)

    def mute(self) -> None:
        self.channel.overflowed = True
        if self.buffer is not None:
            self.buffer.restart()

    def unmute(self) -> None:
        self.channel.overflowed = False

    def send(self, message: Message) -> None:
        body = self.codec.encode(message)
        if self.buffer is not None or self.recorder is not None or len(body) > self._options.body_bytes_max:
            self.push(message.wire_name, body)
            return
        # The same without a call, as nearly always.
        if self.broadcasts is not None and self.broadcasts.is_open:
            self.broadcasts.close()
        self.write((message.wire_name, body))

    def prepare(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        body = bodies[self.codec] = self.codec.encode(message)
        if len(body) > self._options.body_bytes_max:
            raise self._too_large(message.wire_name, body)

    def send_latest(self, message: Message, key: str) -> None:
        body = self.codec.encode(message)
        if len(body) > self._options.body_bytes_max:
            raise self._too_large(message.wire_name, body)
        self.push_latest(message.wire_name, body, key)

    def send_latest_shared(self, message: Message, key: str, bodies: dict[Codec, bytes]) -> None:
        self.push_latest(message.wire_name, bodies[self.codec], key)

    def push_latest(self, name: str, body: bytes, key: str) -> None:
        """Send an encoded unreliable message, if the client is connected."""
        if self.recorder is not None:
            self.recorder(name, body, True)
        if self.buffer is not None and self.buffer.hold_latest(name, body, key):
            return
        connection = self._session.connection
        if connection is not None and not self.channel.overflowed:
            connection.send_latest(self.channel.number, name, body, key)

    def finish(self, farewell: Message) -> None:
        """Keep the last message until the client has it: it comes after what the present turn says."""
        if self.broadcasts is not None:
            self.broadcasts.close()
        if self.buffer is not None and self.buffer.finish(farewell):
            return
        self.part()
        self.send(farewell)
        self._finished()

    def _finished(self) -> None:
        self.channel.is_finished = True

    def part(self, *, is_lost: bool = False) -> None:
        """Nothing more waits for the end of a turn, and nothing more of the room's state is written."""
        if self.broadcasts is not None:
            self.broadcasts.close()
        buffer, self.buffer = self.buffer, None
        self.is_following = False
        if buffer is not None:
            # What waits was recorded when it was said.
            recorder, self.recorder = self.recorder, None
            buffer.part(is_lost=is_lost)
            self.recorder = recorder

    def break_off(self, farewell: Message) -> None:
        """End the stream now, without what waits for a commit: the room is not ours any more."""
        self.part(is_lost=True)
        self.channel.push(farewell.wire_name, self.codec.encode(farewell))
        self.channel.is_finished = True
        if self._session.connection is not None:
            self._session.connection.wake()

    def applied(self, seq: int) -> None:
        """Acknowledge: with what is written anyway, else soon."""
        self.channel.applied = seq
        connection = self._session.connection
        if connection is not None and not connection.is_dirty:
            connection.wake()

    def record(self) -> ChannelRecord:
        return channel_record(self.channel)

    def record_version(self) -> tuple[int, ...]:
        channel = self.channel
        # Messages are kept and forgotten in order: within a generation, two numbers say which ones are kept.
        kept = (channel.number, channel.generation, channel.last_seq, channel.kept)
        return (*kept, channel.applied, channel.is_finished, channel.overflowed)

    def push(self, name: str, body: bytes) -> None:
        """Number an encoded message, and keep it until the client has it."""
        if len(body) > self._options.body_bytes_max:
            raise self._too_large(name, body)
        if self.recorder is not None:
            self.recorder(name, body, False)
        if self.broadcasts is not None and self.broadcasts.is_open:
            self.broadcasts.close()
        if self.buffer is None or not self.buffer.hold((name, body)):
            self.write((name, body))

    def push_block(self, block: Block) -> None:
        if self.recorder is not None:
            for name, body in block.messages:
                self.recorder(name, body, False)
        if self.buffer is None or not self.buffer.hold(block):
            self.write(block)

    def write(self, entry: Entry) -> None:
        """Number this now, whatever waits for the end of the turn."""
        channel = self.channel
        if channel.overflowed or channel.is_finished:
            # Nothing more is kept: until the resync, or for good after the farewell.
            return
        if not channel.keep(entry):
            self._options.overflowed(self._session)
            return
        connection = self._session.connection
        if connection is not None and not connection.is_dirty:
            connection.wake()

    def _too_large(self, name: str, body: bytes) -> Invalid:
        return too_large(name, body, self._options.body_bytes_max)


class SilentOutlet:
    """The outlet of a seat whose agent ended with its server: nobody listens until another session takes it over."""

    codec: Codec | None = None
    waiting_bytes = 0
    latest_waiting_bytes = 0
    backlog: Backlog | None = None
    is_full = False
    is_following = False

    def overflow(self) -> None: ...

    def mute(self) -> None: ...

    def unmute(self) -> None: ...

    def send(self, message: Message) -> None: ...

    def prepare(self, message: Message, bodies: dict[Codec, bytes]) -> None: ...

    def push_block(self, block: Block) -> None: ...

    def send_latest(self, message: Message, key: str) -> None: ...

    def send_latest_shared(self, message: Message, key: str, bodies: dict[Codec, bytes]) -> None: ...

    def finish(self, farewell: Message) -> None: ...

    def applied(self, seq: int) -> None: ...

    def record(self) -> None: ...

    def record_version(self) -> tuple[int, ...]:
        return ()


class PendingOutlet(SilentOutlet):
    """The outlet of a seat that the present turn gives: what it sends waits until the client has the seat."""

    def __init__(self, session: Session) -> None:
        self._codec = session.codec or MSGPACK
        self._messages: list[tuple[str, bytes]] = []
        self._latest: dict[tuple[str, str], bytes] = {}

    def send(self, message: Message) -> None:
        self._messages.append((message.wire_name, self._codec.encode(message)))

    def send_latest(self, message: Message, key: str) -> None:
        self._latest[message.wire_name, key] = self._codec.encode(message)

    def hand_over(self, outlet: Outlet) -> None:
        """The client has the seat, with this outlet."""
        if isinstance(outlet, ChannelOutlet):
            for name, body in self._messages:
                outlet.push(name, body)
            for (name, key), body in self._latest.items():
                outlet.push_latest(name, body, key)
