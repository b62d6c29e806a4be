"""The client's half of the protocol, without sockets: payloads in, events and payloads out.

It mirrors the server: the same frames, the same `Channel`. Everything that must outlive a connection is in here, so a
lost connection changes nothing but `is_welcome`, and `save` is enough to go on in another process.
"""

from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import Raw

from holdfast.core.channel import Channel
from holdfast.core.codec import Codec
from holdfast.core.errors import NotSeated, ProtocolError
from holdfast.core.frames import (
    Ack,
    Auth,
    Bye,
    ChannelInfo,
    Close,
    Data,
    FromServer,
    Hello,
    Latest,
    Outcome,
    Ping,
    Pong,
    Position,
    Problem,
    Reply,
    Request,
    Resume,
    Seat,
    Terms,
    Welcome,
)
from holdfast.core.limits import Limits
from holdfast.core.messages import SeatLeft


@dataclass(frozen=True, slots=True)
class Welcomed:
    """The session is attached to this connection."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Replied:
    """A request was answered."""

    id: int
    result: Any
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class SeatTaken:
    """A channel began: the session has a seat."""

    channel: int
    room: str
    kind: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """The next reliable message of a channel; call `processed` when it has been dealt with."""

    channel: int
    generation: int
    seq: int
    name: str
    body: Raw


@dataclass(frozen=True, slots=True)
class LatestArrived:
    """An unreliable message."""

    channel: int
    name: str
    body: Raw


@dataclass(frozen=True, slots=True)
class Restarted:
    """Messages of a channel could not be kept; its stream begins anew with the current state."""

    channel: int


@dataclass(frozen=True, slots=True)
class ChannelGone:
    """The server has this channel no more, and its last message did not reach us."""

    channel: int
    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The server said why it closes this connection."""

    code: int
    reason: str
    message: str
    retry_after_s: float


Event = Welcomed | Replied | SeatTaken | Arrived | LatestArrived | Restarted | ChannelGone | Closed


class SavedChannel(msgspec.Struct, frozen=True):
    """What a channel needs to go on elsewhere."""

    number: int
    generation: int
    received: int
    last_seq: int
    room: str
    kind: str
    outbox: list[tuple[str, bytes]]


class SavedState(msgspec.Struct, frozen=True):
    """What a session needs to go on in another process. It holds secrets: keep it like a password."""

    dialect: str
    session: str
    token: str
    player: str
    credential: str
    channels: list[SavedChannel]


class ClientProtocol:
    """One session, as its client sees it."""

    def __init__(self, codec: Codec, auth: Auth | None, limits: Limits) -> None:
        self.codec = codec
        self.auth = auth
        self.session_id = ""
        self.player_id = ""
        self.credential = ""
        self.terms: Terms | None = None
        self.latency_ms = 0.0
        self.is_welcome = False
        self._token = ""
        self._limits = limits
        self._channels: dict[int, Channel] = {}
        self._rooms: dict[int, tuple[str, str]] = {}
        self._last_request = 0
        self._requests: dict[int, Request] = {}
        self._unsent: list[bytes] = []

    # To the server

    def hello(self) -> bytes:
        """The first payload of a new connection."""
        resume = None
        if self.session_id:
            positions = [Position(c.number, c.generation, c.applied) for c in self._channels.values()]
            resume = Resume(self.session_id, self._token, positions)
        return self.codec.payload(Hello(self.auth, resume, "holdfast-python"))

    def lost(self) -> None:
        """The connection is gone; what was not written to it is written to the next one."""
        self.is_welcome = False
        self._unsent.clear()

    def request(self, operation: str, arguments: Any) -> int:
        """Ask for something; the answer comes as `Replied` with this id, also after a resume."""
        self._last_request += 1
        request = Request(self._last_request, operation, Raw(self.codec.encode(arguments)))
        self._requests[request.id] = request
        if self.is_welcome:
            self._unsent.append(self.codec.encode(request))
        return request.id

    def push(self, channel: int, name: str, body: bytes) -> None:
        """Send a reliable message: kept until the server has applied it."""
        self._channel(channel).push(name, body)

    def push_latest(self, channel: int, name: str, body: bytes) -> None:
        """Send an unreliable message, if there is a connection."""
        if self.is_welcome:
            self._unsent.append(self.codec.encode(Latest(channel, name, Raw(body))))

    def is_full(self, channel: int) -> bool:
        """Whether the sender should wait for acknowledgements."""
        return self._channel(channel).is_full

    def unacked(self, channel: int) -> int:
        """Messages that the server has not acknowledged."""
        known = self._channels.get(channel)
        return known.kept if known is not None else 0

    def bye(self) -> bytes:
        """The payload that ends the session on purpose."""
        return self.codec.payload(Bye())

    def outgoing(self, *, with_acks: bool = False) -> list[bytes]:
        """The payloads to write now; nothing while there is no welcome."""
        if not self.is_welcome or self.terms is None:
            return []
        parts, self._unsent = self._unsent, []
        for channel in self._channels.values():
            taken = channel.take()
            for seq, name, body in taken:
                parts.append(self.codec.encode(Data(channel.number, seq, channel.applied, name, Raw(body))))
            if not taken and channel.owes_ack and (with_acks or self._is_ack_due(channel)):
                parts.append(self.codec.encode(Ack(channel.number, channel.applied)))
                taken.append((0, "", b""))
            if taken:
                channel.ack_sent = channel.applied
        return self.codec.payloads(parts, self.terms.payload_bytes_max) if parts else []

    @property
    def owes_ack(self) -> bool:
        """Whether something was processed that the server does not know of yet."""
        return any(channel.owes_ack for channel in self._channels.values())

    def _is_ack_due(self, channel: Channel) -> bool:
        return channel.applied - channel.ack_sent >= self._limits.ack_messages

    def processed(self, arrived: Arrived) -> None:
        """The application has dealt with a message: it may be acknowledged."""
        channel = self._channels.get(arrived.channel)
        if channel is not None and channel.generation == arrived.generation:
            channel.applied = arrived.seq
            if arrived.name == SeatLeft.wire_name and self.is_welcome:
                # The last of its stream: acknowledge it now, the channel is over.
                self._unsent.append(self.codec.encode(Ack(channel.number, channel.applied)))
                self._forget(channel.number)

    # From the server

    def receive(self, payload: bytes) -> list[Event]:
        """What a payload means; `ProtocolError` if it means nothing."""
        events: list[Event] = []
        for frame in self.codec.from_server(payload):
            if not self.is_welcome and not isinstance(frame, Welcome | Close):
                raise ProtocolError(f"a {frame.name} came before the welcome")
            events += self._on(frame)
        return events

    def _on(self, frame: FromServer) -> list[Event]:
        match frame:
            case Data():
                return self._on_data(frame)
            case Latest():
                return [LatestArrived(frame.channel, frame.type, frame.body)]
            case Ack():
                self._acknowledged(frame.channel, frame.ack)
                return []
            case Ping():
                return self._on_ping(frame)
            case Reply():
                return self._on_reply(frame)
            case Seat():
                self._open(ChannelInfo(frame.channel, frame.generation, 0, frame.room, frame.kind))
                return [SeatTaken(frame.channel, frame.room, frame.kind)]
            case Welcome():
                return self._on_welcome(frame)
            case Close():
                return [Closed(frame.code, frame.reason, frame.message, frame.retry_after_s)]

    def _on_data(self, frame: Data) -> list[Event]:
        channel = self._channels.get(frame.channel)
        if channel is None:
            raise ProtocolError(f"a message came for channel {frame.channel}, which was never opened")
        self._acknowledged(frame.channel, frame.ack)
        if not channel.accept(frame.seq):
            return []
        return [Arrived(channel.number, channel.generation, frame.seq, frame.type, frame.body)]

    def _on_ping(self, frame: Ping) -> list[Event]:
        self.latency_ms = frame.latency_ms
        self._acknowledged(frame.channel, frame.ack)
        channel = self._channels.get(frame.channel)
        ack = channel.applied if channel is not None else 0
        if channel is not None:
            channel.ack_sent = ack
        self._unsent.append(self.codec.encode(Pong(frame.id, frame.channel, ack)))
        return []

    def _on_reply(self, frame: Reply) -> list[Event]:
        if self._requests.pop(frame.id, None) is None:
            return []
        return [Replied(frame.id, frame.result, frame.problem)]

    def _acknowledged(self, number: int, ack: int) -> None:
        channel = self._channels.get(number)
        if channel is not None and ack > channel.acked:
            channel.acknowledge(ack)

    def _on_welcome(self, frame: Welcome) -> list[Event]:
        if self.is_welcome:
            raise ProtocolError("a second welcome came")
        is_same = frame.session == self.session_id
        self.is_welcome = True
        self.session_id, self.player_id, self._token = frame.session, frame.player, frame.token
        self.credential = frame.credential or self.credential
        if frame.credential and self.auth is not None:
            self.auth = Auth(self.auth.scheme, frame.credential)
        self.terms = frame.terms
        self._limits = replace(
            self._limits,
            window_messages_max=min(self._limits.window_messages_max, frame.terms.window_messages_max),
            window_bytes_max=min(self._limits.window_bytes_max, frame.terms.window_bytes_max),
        )
        events: list[Event] = [Welcomed(frame.outcome)]
        events += self._continue_channels(frame.channels if is_same else [], frame.outcome)
        events += self._continue_requests(frame.requests, is_same=is_same)
        return events

    def _continue_channels(self, infos: list[ChannelInfo], outcome: Outcome) -> list[Event]:
        events: list[Event] = []
        known = {info.channel for info in infos}
        for number in [number for number in self._channels if number not in known]:
            self._forget(number)
            events.append(ChannelGone(number, outcome.reason or "left"))
        for info in infos:
            channel = self._channels.get(info.channel)
            if channel is None:
                channel = self._open(info)
                events.append(SeatTaken(info.channel, info.room, info.kind))
            elif info.generation != channel.generation:
                channel.restart_inward(info.generation)
                events.append(Restarted(info.channel))
            if channel.resume(channel.generation, info.applied) is None:
                channel.skip_to(info.applied)
        return events

    def _continue_requests(self, answered: int, *, is_same: bool) -> list[Event]:
        if is_same:
            self._last_request = max(self._last_request, answered)
            self._unsent += [self.codec.encode(request) for request in self._requests.values()]
            return []
        lost, self._requests, self._last_request = self._requests, {}, 0
        problem = Problem("reset", "the session began anew before this was answered; ask again")
        return [Replied(request_id, None, problem) for request_id in lost]

    # Channels

    def _open(self, info: ChannelInfo) -> Channel:
        channel = Channel(info.channel, self._limits)
        channel.generation = info.generation
        self._channels[info.channel] = channel
        self._rooms[info.channel] = (info.room, info.kind)
        return channel

    def _forget(self, number: int) -> None:
        del self._channels[number], self._rooms[number]

    def _channel(self, number: int) -> Channel:
        channel = self._channels.get(number)
        if channel is None:
            raise NotSeated("the seat is gone; join again")
        return channel

    def seats(self) -> list[SeatTaken]:
        """The channels that are open, as they were announced."""
        return [SeatTaken(number, room, kind) for number, (room, kind) in self._rooms.items()]

    # Another process

    def save(self) -> bytes:
        """Everything that is needed to go on elsewhere, secrets included."""
        channels = [
            SavedChannel(c.number, c.generation, c.applied, c.last_seq, *self._rooms[c.number], c.kept_messages())
            for c in self._channels.values()
        ]
        state = SavedState(self.codec.name, self.session_id, self._token, self.player_id, self.credential, channels)
        return msgspec.msgpack.encode(state)

    def load(self, state: SavedState) -> None:
        """Go on from a saved state; messages that were received but not processed will be sent again."""
        self.session_id, self.player_id = state.session, state.player
        self._token, self.credential = state.token, state.credential
        if self.auth is not None and state.credential:
            self.auth = Auth(self.auth.scheme, state.credential)
        for saved in state.channels:
            channel = self._open(ChannelInfo(saved.number, saved.generation, 0, saved.room, saved.kind))
            channel.accepted = channel.applied = channel.ack_sent = saved.received
            channel.restore_outward(saved.last_seq, saved.outbox)
