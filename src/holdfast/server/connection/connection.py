"""One connection of the server: bytes to frames to the session and back. Every message passes through here.

up    transport → received → codec → _on_data → Channel.accept → the room's runner → a turn of the room
down  a turn of the room → outlet → Channel.push → wake … end of the loop iteration … → flush → transport
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from holdfast.core.channel import Channel
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.connection import Connection, ConnectionId, ConnectionState, ConnectionStep, Look
from holdfast.core.errors import ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.rates import PAYLOAD_OVERHEAD_BYTES, Bucket, Flood, Rates, Step
from holdfast.core.reasons import CLOSE_CODES, Reason, reason_of
from holdfast.core.session import NOT_REWOUND, Seat, Session, SessionFlags
from holdfast.observability.metrics import Counters
from holdfast.observability.packet_log import Sink
from holdfast.schemas.frames import (
    READS_BLOCKS,
    SENDS_DATAGRAMS,
    Ack,
    Bye,
    Close,
    Data,
    Datagrams,
    Frame,
    FromClient,
    Hello,
    Latest,
    Ping,
    Pong,
    Request,
    Welcome,
    sentence,
)
from holdfast.server.connection.buffers import HeardMeanwhile, InputBacklog, Writes
from holdfast.server.context import Clock, Faults
from holdfast.transports.links import tell
from holdfast.transports.port import Receiver, Transport
from holdfast.transports.udp.server import ServerPath

RELAY = "relay"
"""The kind of transport of a client that another node relays."""
# With these a node closes the connections that it relays: their clients come back by another way.
_OF_NODES = frozenset({CLOSE_CODES[Reason.MOVED], CLOSE_CODES[Reason.STOPPING]})

FrameHandlers = Mapping[type[Frame], Callable[[Any, Any], None]]


@dataclass(slots=True, kw_only=True)
class ConnectionServices:
    """What all connections of a server share: filled where the server is composed."""

    clock: Clock
    limits: Limits
    counters: Counters
    faults: Faults
    writes: Writes
    rates: Rates
    # Lifecycle of a connection
    opened: Callable[["LiveConnection"], None]
    lost: Callable[["LiveConnection"], None]
    """Gone, or closing and no longer read."""
    unlinked: Callable[["LiveConnection"], None]
    """Its transport has ended."""
    refused: Callable[["LiveConnection", Reason], None]
    """Closed before sign-in."""
    welcomed: Callable[["LiveConnection", Session], None]
    tap: Callable[["LiveConnection"], Sink | None]
    open_path: Callable[[Callable[[bytes], None]], ServerPath | None]
    """A way for datagrams over UDP, beside a stream; None if the server has no port for them."""
    # What a client sends
    hello: Callable[["LiveConnection", Hello], None]
    request: Callable[[Session, Request, bool], None]
    """The last argument: whether it exceeds the rate limit."""
    end_session: Callable[[Session, Reason, str], None]
    token_confirmed: Callable[[Session], None]
    round_trip: Callable[[float], None]
    # Clients that exceed their rate (`throttle.py`)
    received_early: Callable[["LiveConnection", bytes], None]
    received_more: Callable[["LiveConnection", bytes], None]
    first_portion: Callable[["LiveConnection", list[FromClient]], list[FromClient]]
    over: Callable[["LiveConnection", str], Step]
    over_message: Callable[["LiveConnection", Seat, Data], bool]
    allows_latest: Callable[["LiveConnection"], bool]
    allows_request: Callable[["LiveConnection"], bool]


class LiveConnection(Connection):
    """A connection with its transport, attached to `session` until a newer connection takes over."""

    __slots__ = (
        *("_batch_bytes_max", "_control", "_counters", "_datagram_bytes_max", "_decode", "_encode", "_forward"),
        *("_holds", "_is_congested", "_latest", "_limits", "_looked", "_messages", "_now", "_on_frame", "_path"),
        *("_ping_id", "_ping_sent_at", "_pings", "_reads_blocks", "_services", "_transport", "_whole_bytes_max"),
        *("_writes", "allowed_bytes", "backlog", "codec", "due_at", "features", "is_confirmed", "portion_max"),
        *("session", "tap", "traces"),
    )

    def __init__(self, connection_id: ConnectionId, services: ConnectionServices) -> None:  # noqa: PLR0915 - its state
        limits = services.limits
        self._now = services.clock.now
        super().__init__(connection_id, self._now())
        self._services = services
        self._limits = limits
        self._writes = services.writes
        self._counters = services.counters
        self._transport: Transport | None = None
        self.codec: Codec = MSGPACK
        self._decode = self.codec.from_client
        self._encode = self.codec.encode
        self.session: Session | None = None
        self.features: tuple[str, ...] = ()
        """What the client's hello said it can do, as far as this server knows it."""
        self._on_frame = _HANDLERS[self.state]
        self.tap: Sink | None = None
        # From the client
        self.allowed_bytes = self._messages = Bucket(services.rates.hello)
        """The allowance: a small one before sign-in, then that of the session."""
        self.portion_max = limits.fair_queue_frames_max
        self.backlog: InputBacklog | None = None
        """What was received and not processed yet, while the client is in the fair queue."""
        self.is_confirmed = False
        """Whether the client has sent something since its welcome: then it has the token that came with it."""
        self._looked: Look | None = None
        self.due_at: float | None = None
        """When it is checked whether the session is idle or too old; None for never."""
        # To the client
        self._batch_bytes_max = min(limits.batch_bytes_max, limits.payload_bytes_max)
        # The largest payload written in one piece: nothing before the welcome, which is sent alone.
        self._whole_bytes_max = 0
        self._control: list[Frame] = []
        self._latest: dict[tuple[int, str, str], Latest] = {}
        self._datagram_bytes_max = 0
        self._path: ServerPath | None = None
        self._is_congested = False
        self._holds = 0
        self._ping_id = 0
        self._ping_sent_at = 0.0
        self._pings = 0
        self._reads_blocks = False
        self._forward: Receiver | None = None
        """What hears the client instead, while its session moves or is on another node."""
        self.traces: list[Any] | None = None
        """Traces of messages whose answer is in the next payload (`observability.tracing`)."""

    # From the transport

    def opened(self, transport: Transport) -> None:
        """The link is open: a hello must follow."""
        self._transport = transport
        self.transport_kind = transport.kind
        self.comes_from(transport.peer)
        self.is_encrypted = transport.is_encrypted
        self.is_compressed = transport.is_compressed
        self._datagram_bytes_max = transport.datagram_bytes_max
        self.codec = CODECS[transport.subprotocol.name]
        self._decode = self.codec.from_client
        self._encode = self.codec.encode
        self.tap = self._services.tap(self)
        self._services.opened(self)

    def switched(self, transport: Transport) -> None:
        """A relayed client's own connection is this node's now."""
        self._transport, self.transport_kind, self._looked = transport, transport.kind, None

    def received(self, payload: bytes) -> None:
        """One payload from the client: processed at once, unless the client exceeds its rate and has to wait."""
        if not self._on_frame:
            if self._forward is not None:
                self.heard_at = self._now()
                self._forward.received(payload)
            return
        if self.backlog is not None:
            self._services.received_more(self, payload)
            return
        self.heard_at = now = self._now()
        allowance = self.allowed_bytes
        if allowance.full_at <= now:
            allowance.full_at = now + (len(payload) + PAYLOAD_OVERHEAD_BYTES) * allowance.step_s
            self.process(payload)
        else:
            self._services.received_early(self, payload)

    def received_datagram(self, payload: bytes) -> None:
        """Unreliable messages that have travelled on their own: they may have overtaken whatever was sent before them.

        Before the welcome they are dropped, and those for a channel that is not open (`_on_latest`). Those of a
        connection that was taken over come with that connection, which processes nothing any more. They prove nothing:
        a client is confirmed, and its session resumed, only by reliable messages.
        """
        if self.session is None or not self._on_frame:
            if self._forward is not None:
                self._forward.received_datagram(payload)
            return
        self.heard_at = self._now()
        if self.backlog is not None:
            return
        if not self.allowed_bytes.take(self.heard_at, len(payload) + PAYLOAD_OVERHEAD_BYTES):
            self._services.over(self, "bytes_per_s")
            return
        self._counters.bytes_received += len(payload)
        self.bytes_received += len(payload)
        if self.tap is not None:
            self.tap("in", payload)
        try:
            frames = self._decode(payload)
            if not all(isinstance(frame, Latest) for frame in frames):
                raise ProtocolError("a datagram may have nothing but latest frames")
        except ProtocolError as error:
            self._counters.protocol_errors += 1
            self.close(error.reason, str(error))
        else:
            self._counters.frames_received += len(frames)
            self.process(payload, frames)

    def received_beside(self, payload: bytes) -> None:
        """The same over UDP beside the stream: it says nothing of the stream, which may be silent."""
        heard_at = self.heard_at
        tell(self.transport, self.received_datagram, payload)
        self.heard_at = heard_at

    def kept_busy(self) -> None:
        """The transport answered a control frame, such as a ping: it costs as much as a small payload."""
        if self._on_frame and not self.allowed_bytes.take(self._now(), PAYLOAD_OVERHEAD_BYTES):
            self._services.over(self, "bytes_per_s")

    def look(self, now: float) -> None:
        """No payload came for a while: the client counts as alive if the link still carries traffic."""
        assert self._transport is not None
        looked, self._looked = self._looked, Look(now, self._transport.traffic)
        if self._looked.is_alive(looked, self.heard_at, self._limits.liveness_bytes_per_s):
            self.heard_at = now

    def process(self, payload: bytes, rest: list[FromClient] | None = None) -> None:  # noqa: PLR0912 - on one screen
        """Process a payload, or the rest of one that had to wait."""
        was_dirty = self.is_dirty
        self.is_dirty = True
        try:
            if rest is not None:
                frames = rest
            else:
                counters = self._counters
                size = len(payload)
                counters.bytes_received += size
                self.bytes_received += size
                if self.tap is not None:
                    self.tap("in", payload)
                if not self.is_confirmed:
                    self._check_first(payload)
                frames = self._decode(payload)
                counters.frames_received += len(frames)
            if len(frames) > self.portion_max:
                frames = self._services.first_portion(self, frames)
            for frame in frames:
                handle = self._on_frame.get(type(frame))
                if handle is not None:
                    handle(self, frame)
                elif self.is_open:
                    self._refuse(frame)
        except ProtocolError as error:
            self._counters.protocol_errors += 1
            self.close(error.reason, str(error))
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained in this connection
            self._services.faults.report("a connection", error, connection=self.id, peer=self.peer)
            self.close(Reason.INTERNAL)
        if was_dirty:
            return
        if self._writes.waiting:
            self._writes.add(self)
        else:
            self.flush()

    def lost(self, code: int, reason: str) -> None:
        """The link is gone; what was received before is processed first."""
        if self.backlog and self.end_reason is None:
            self.backlog.end = (code, reason)
            return
        if self._forward is not None:
            forward, self._forward = self._forward, None
            # What only a node may say of itself is not the client's to say.
            forward.lost(CLOSE_CODES[Reason.DROPPED] if code in _OF_NODES else code, reason)
        if self.end_reason is None:
            is_moving = self.transport_kind == RELAY and code in _OF_NODES
            self.end_reason = Reason.MOVED if is_moving else reason_of(code)
            self.end_code = code
        self._step(ConnectionStep.LOST)
        self._services.lost(self)
        self._services.unlinked(self)

    def congested(self) -> None:
        """The client reads slower than the server writes."""
        self._is_congested = True
        if self._forward is not None:
            self._forward.congested()

    def drained(self) -> None:
        self._is_congested = False
        if self._forward is not None:
            self._forward.drained()
        if self._latest:
            self.wake()

    # Frames

    def _check_first(self, payload: bytes) -> None:
        if self.session is not None:
            # A client sends again only once it has the welcome, and with it the token for its next resume.
            self.is_confirmed = True
            self.session.rewound, self.session.drop_reason = NOT_REWOUND, None
            self.session.lineage.confirmed()
            if self.session.tokens.confirm():
                # The used token must be invalid in the store before anything sent under the new one takes effect.
                self._services.token_confirmed(self.session)
        elif len(payload) > self._limits.hello_bytes_max:
            raise ProtocolError("the first payload is larger than a hello can be", Reason.TOO_BIG)

    def _refuse(self, frame: Frame) -> None:
        raise ProtocolError(f"a {frame.name} is not allowed while {self.state.value}")

    def _on_hello(self, frame: Hello) -> None:
        self._services.hello(self, frame)

    def _on_data(self, frame: Data) -> None:
        session = self.session
        assert session is not None
        channel = session.channel
        seat = session.seat
        if channel is None or seat is None or frame.channel != channel.number:
            seat = session.place
            channel = session.channel_for("spectator")
        if channel is None or seat is None or frame.channel != channel.number:
            self._check_direction(session, frame)
            # Sent before the client knew that its seat was freed: the last message of the stream tells it. The
            # acknowledgement still counts, or the window would never open for that last message.
            if not session.was_opened(frame.channel):
                raise ProtocolError(f"channel {frame.channel} was never opened")
            self._counters.messages_refused += 1
            self._on_ack(frame)
            return
        outlet = seat.outlet
        if outlet.waiting_bytes:
            self._check_window(outlet.waiting_bytes, channel, frame)
        if frame.ack > channel.acked:
            channel.acknowledge(frame.ack)
            if outlet.backlog is not None or outlet.is_following:
                seat.room.has_read(seat)
        if channel.accept(frame.seq):
            session.last_active_at = now = self.heard_at
            allowance = self._messages
            if allowance.full_at <= now:
                allowance.full_at = now + allowance.step_s
            elif not allowance.take(now) and self._services.over_message(self, seat, frame):
                return
            seat.room.delivery.deliver(seat, frame)
        else:
            self._counters.duplicates_ignored += 1

    def _check_direction(self, session: Session, frame: Data | Latest) -> None:
        own = session.own_channel
        if own is not None and frame.channel == own.number:
            raise ProtocolError("a session's own channel is from the server to the client: join a room to send")

    def _check_window(self, waiting_bytes: int, channel: Channel, frame: Data) -> None:
        # A resume repeats messages that already wait: only new ones add to them.
        if waiting_bytes >= self._limits.window_bytes_max and frame.seq > channel.accepted:
            raise ProtocolError("more bytes in flight than the window allows", Reason.SEQUENCE)

    def _on_latest(self, frame: Latest) -> None:
        session = self.session
        assert session is not None
        channel = session.channel_numbered(frame.channel)
        seat = session.seat_on(channel) if channel is not None else None
        if seat is not None:
            session.last_active_at = self.heard_at
            if self._services.allows_latest(self):
                seat.room.delivery.deliver_latest(seat, frame)
        else:
            self._check_direction(session, frame)

    def _on_ack(self, frame: Ack | Pong | Data) -> None:
        session = self.session
        assert session is not None
        channel = session.channel_numbered(frame.channel)
        if channel is None or frame.ack <= channel.acked:
            return
        # Reading is activity.
        session.last_active_at = self.heard_at
        channel.acknowledge(frame.ack)
        if channel.is_over:
            session.channel_over(channel)
        elif (seat := session.seat_on(channel)) is not None and (
            seat.outlet.backlog is not None or seat.outlet.is_following
        ):
            seat.room.has_read(seat)

    def _on_pong(self, frame: Pong) -> None:
        self._on_ack(frame)
        if frame.id == self._ping_id and self.session is not None and self._ping_sent_at:
            round_trip_s = self.heard_at - self._ping_sent_at
            self.session.latency.add(round_trip_s * 1000.0)
            self._services.round_trip(round_trip_s)
            self.session.flags &= ~SessionFlags.AWAITING_RESPONSE
            self._ping_sent_at = 0.0

    def _on_request(self, frame: Request) -> None:
        assert self.session is not None
        self.session.last_active_at = self.heard_at
        may_ask = self._services.allows_request(self)
        if self.is_open:
            self._services.request(self.session, frame, not may_ask)

    def _on_bye(self, frame: Bye) -> None:
        assert self.session is not None
        self._services.end_session(self.session, Reason.BYE, frame.reason)

    # To the client

    def wake(self) -> None:
        """Something waits to be written."""
        if not self.is_dirty:
            self.is_dirty = True
            waiting = self._writes.waiting
            if waiting:
                waiting.append(self)
            else:
                self._writes.add(self)

    def hold(self) -> None:
        """Write nothing until `release` was called as often: the data is not saved yet."""
        self._holds += 1
        self.is_dirty = True

    def release(self) -> None:
        """Write what has waited, unless another hold remains."""
        if self._holds:
            self._holds -= 1
            self.flush()

    def forget_session(self) -> None:
        """Detach from the session."""
        self.session = None

    def send(self, frame: Frame) -> None:
        """Write a frame with the next flush, before the messages of channels."""
        self._control.append(frame)
        self.wake()

    def send_latest(self, channel: int, name: str, body: bytes, key: str) -> None:
        """Write an unreliable message with the next flush, or never if a newer one comes first."""
        latest = self._latest
        if (channel, name, key) not in latest and len(latest) >= self._limits.latest_kept_max:
            del latest[next(iter(latest))]
        latest[channel, name, key] = Latest(channel, name, Raw(body))
        self.wake()

    def ping(self, now: float) -> None:
        """Send a ping, which reports the latency to the client."""
        if self.session is not None:
            self.send(self._next_ping(self.session, now))

    def _next_ping(self, session: Session, now: float, quiet_s: float = 0.0) -> Ping:
        self._ping_id += 1
        self._pings = self.pings_unanswered + 1
        self._ping_sent_at = now
        session.flags |= SessionFlags.AWAITING_RESPONSE
        channel = session.channel
        number, ack = (channel.number, channel.applied) if channel is not None else (0, 0)
        if channel is not None:
            channel.ack_sent = channel.applied
        return Ping(self._ping_id, number, ack, round(session.latency.smoothed_ms, 3), round(quiet_s, 3))

    @property
    def pings_unanswered(self) -> int:
        """Pings sent since the client last sent something."""
        return self._pings if self._ping_sent_at > self.heard_at else 0

    def flush(self, *, with_ack: bool = False) -> None:  # noqa: PLR0912, PLR0915 - the way out, on one screen
        """Write everything that waits for this client, usually as one payload."""
        if self._holds or not self._on_frame:
            return
        self.is_dirty = False
        try:
            frames = self._control
            session = self.session
            datagrams: list[Frame] | None = None
            datagram_bytes_max = 0
            if session is not None:
                if session.closing or session.beside:
                    self._take_others(session, frames, with_ack=with_ack)
                channel = session.channel
                if channel is not None:
                    if channel.sent < channel.last_seq:
                        frames = [*frames, *(channel.take_blocks() if self._reads_blocks else channel.take())]
                    if channel.ack_sent < channel.applied:
                        self._acknowledge(frames, channel, at_once=with_ack)
                if self._latest:
                    path = self._path
                    datagram_bytes_max = self._datagram_bytes_max if path is None else path.bytes_max
                    if datagram_bytes_max:
                        datagrams = self._take_datagrams(datagram_bytes_max)
                    if not self._is_congested:
                        frames += self._latest.values()
                        self._latest.clear()
            if frames:
                if self._control:
                    self._control = []
                transport = self._transport
                assert transport is not None
                payload = self._encode(frames)
                size = len(payload)
                counters = self._counters
                counters.frames_sent += len(frames)
                counters.bytes_sent += size
                self.bytes_sent += size
                if size <= self._whole_bytes_max:
                    transport.send(payload)
                    if self.tap is not None:
                        self.tap("out", payload)
                else:
                    self._send_parts(transport, frames)
                if self.traces is not None:
                    self._trace(len(frames), size)
                if self._is_congested and transport.buffered_bytes > self._limits.write_buffer_bytes_max:
                    self.cut(Reason.SLOW)
            if datagrams:
                self._send_datagrams(datagrams, datagram_bytes_max)
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained in this connection
            self._services.faults.report("writing to a connection", error, connection=self.id, peer=self.peer)
            self.cut(Reason.INTERNAL)

    def _take_datagrams(self, bytes_max: int) -> list[Frame]:
        """The unreliable messages that fit into a datagram: these do not wait for a client that reads slowly."""
        small = {name: latest for name, latest in self._latest.items() if latest.size_max <= bytes_max}
        for name in small:
            del self._latest[name]
        return list(small.values())

    def _send_datagrams(self, frames: list[Frame], bytes_max: int) -> None:
        """After the reliable messages of this flush: the first of a seat must not overtake the frame that opens it."""
        transport = self.transport
        send = transport.send_datagram if self._path is None else self._path.send
        self._counters.frames_sent += len(frames)
        for payload in self.codec.payloads(frames, bytes_max):
            self._counters.bytes_sent += len(payload)
            self.bytes_sent += len(payload)
            if not send(payload):
                transport.send(payload)
            if self.tap is not None:
                self.tap("out", payload)

    def _take_others(self, session: Session, frames: list[Frame], *, with_ack: bool) -> None:
        """The same for channels that are not the seat's: few sessions have one."""
        for closing in session.closing:
            frames += closing.take()
        for channel in session.beside:
            frames += channel.take_blocks() if self._reads_blocks else channel.take()
            if channel.ack_sent < channel.applied:
                self._acknowledge(frames, channel, at_once=with_ack)

    def _send_parts(self, transport: Transport, frames: list[Frame]) -> None:
        """Large backlogs and the welcome are sent as small payloads: some of them get through a slow or unstable
        link."""
        rest = frames
        if self._whole_bytes_max == 0 and isinstance(frames[0], Welcome):
            self._whole_bytes_max = self._batch_bytes_max
            self._send(transport, self.codec.payload(frames[0]))
            rest = frames[1:]
        if rest:
            for part in self.codec.payloads(rest, self._batch_bytes_max):
                if not transport.is_up:
                    break  # asyncio would warn about each further write
                self._announce(transport, len(part))
                self._send(transport, part)

    def _announce(self, transport: Transport, size: int) -> None:
        """Browsers report whole payloads only: the client has to know of one that may take longer than `silence_s`."""
        limits = self._limits
        if size > limits.liveness_bytes_per_s * limits.silence_s and self.session is not None:
            ping = self._next_ping(self.session, self._now(), size / limits.liveness_bytes_per_s)
            self._send(transport, self.codec.payload(ping))

    def _send(self, transport: Transport, payload: bytes) -> None:
        transport.send(payload)
        if self.tap is not None:
            self.tap("out", payload)

    def _trace(self, frames: int, size: int) -> None:
        traces, self.traces = self.traces or [], None
        for trace in traces:
            trace.sent(frames, size)

    def _acknowledge(self, frames: list[Frame], channel: Channel, *, at_once: bool) -> None:
        """No message carries the acknowledgement: send it with whatever is written anyway, otherwise by count or
        time."""
        if frames or at_once or channel.applied - channel.ack_sent >= self._limits.ack_messages:
            channel.ack_sent = channel.applied
            frames.append(Ack(channel.number, channel.applied))
        else:
            self._writes.owe_ack(self)

    def cut(self, reason: Reason) -> None:
        """End at once, without a close frame: the peer would not receive it."""
        if self.state is ConnectionState.CONNECTING:
            self._services.refused(self, reason)
        self.end_reason = self.end_reason or reason
        if self._transport is not None:
            self._transport.abort()

    # State

    def welcomed(self, session: Session) -> None:
        """The handshake is complete: this connection belongs to the session."""
        self.session = session
        self._reads_blocks = READS_BLOCKS in self.features
        flood = session.flood
        if flood is None:
            flood = session.flood = Flood(session.rates or self._services.rates)
            if session.resumes:
                # A resume counts as a request.
                flood.requests.take(self.heard_at)
        self.allowed_bytes, self._messages = flood.bytes, flood.messages
        self._services.welcomed(self, session)
        self.tap = self._services.tap(self)
        self._step(ConnectionStep.WELCOMED)
        if session.seat is not None:
            self._step(ConnectionStep.SEATED)

    def offer_datagrams(self) -> Datagrams | None:
        """A key for datagrams beside this stream, for the client's welcome; None if there can be none."""
        transport = self.transport
        # A relayed client's own link is on another node.
        if SENDS_DATAGRAMS not in self.features or transport.datagram_bytes_max or transport.kind == "relay":
            return None
        self._path = self._services.open_path(self.received_beside)
        return self._path.offer if self._path is not None else None

    def continued(self, session: Session) -> None:
        """The connection comes from another node, in the middle of its session: there is no welcome."""
        self.features = session.features
        self._whole_bytes_max = self._batch_bytes_max
        self.welcomed(session)

    # While its session moves to another node, and once it is there

    @property
    def transport(self) -> Transport:
        """Its link. Nothing is written to it but by this connection, or by what it is forwarded to."""
        assert self._transport is not None
        return self._transport

    @property
    def is_standing(self) -> bool:
        """Whether it stands still, or carries bytes for another node."""
        return self._forward is not None

    def stand_still(self) -> HeardMeanwhile:
        """Write what waits, then process nothing and write nothing; what waits to be processed, or still arrives, is
        returned later."""
        self.flush(with_ack=True)
        heard = HeardMeanwhile()
        if self.backlog is not None:
            heard.payloads += self.backlog.take_all(self.codec)
        self.pause_reading()
        self._forward = heard
        self._on_frame = {}
        return heard

    def write_rest(self) -> None:
        """Write what was still said here, while it stands still."""
        if self._forward is not None and self.session is not None:
            self._on_frame = _HANDLERS[self.state]
            self.flush(with_ack=True)
            self._on_frame = {}

    def go_on(self, heard: HeardMeanwhile) -> None:
        """The session stays here: process what arrived meanwhile."""
        if self._forward is not heard or not self.is_open:
            return
        self._forward = None
        self._on_frame = _HANDLERS[self.state]
        self.resume_reading()
        for payload in heard.payloads:
            self.received(payload)
        self.flush()

    def forward(self, receiver: Receiver) -> None:
        """The session is on another node: this connection only carries bytes from now on."""
        self.session = None
        self._step(ConnectionStep.RELAYED)
        self._forward = receiver
        self.tap = None
        if self._is_congested:
            receiver.congested()
        self.resume_reading()

    def seated(self) -> None:
        self._step(ConnectionStep.SEATED)

    def unseated(self) -> None:
        if self.state is ConnectionState.IN_GAME:
            self._step(ConnectionStep.UNSEATED)

    def close(self, reason: Reason, message: str = "", *, retry_after_s: float = 0.0, problem: str = "") -> None:
        """Send the reason, close cleanly, and detach from the session at once."""
        if not self.is_open:
            return
        if self.state is ConnectionState.CONNECTING:
            self._services.refused(self, reason)
        # Unless it was aborted a moment ago: then that is the reason, and this one will not arrive.
        self.end_reason = self.end_reason or reason
        code = CLOSE_CODES[reason]
        if self._holds:
            # Send nothing but the close: not even saved messages, because the welcome before them is not saved.
            self._holds = 0
            self._control.clear()
            self.session = None
        if self._transport is not None:
            close = Close(code, reason.value, sentence(message), retry_after_s, problem)
            if self._forward is not None:
                self._send(self._transport, self._encode([close]))
                forward, self._forward = self._forward, None
                forward.lost(code, reason.value)
            else:
                self._control.append(close)
                self.flush()
            self._transport.close(code, reason.value)
        self._step(ConnectionStep.CLOSED)
        self._services.lost(self)

    def pause_reading(self) -> None:
        """Stop reading: what the client sends stays in its own buffers."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        # Not while it stands still: its turn in the fair queue may end meanwhile.
        if self._transport is not None and not isinstance(self._forward, HeardMeanwhile):
            self._transport.resume_reading()

    def _step(self, event: ConnectionStep) -> None:
        self.happened(event)
        self._on_frame = _HANDLERS[self.state]
        if self._path is not None and event in {ConnectionStep.CLOSED, ConnectionStep.LOST}:
            self._path.close()
            self._path = None

    @classmethod
    def frame_handlers(cls) -> dict[ConnectionState, FrameHandlers]:
        """The frames a client may send in each state; others break the protocol. A closing connection processes
        none."""
        signed_in: FrameHandlers = {
            Data: cls._on_data,
            Latest: cls._on_latest,
            Ack: cls._on_ack,
            Pong: cls._on_pong,
            Request: cls._on_request,
            Bye: cls._on_bye,
        }
        none: FrameHandlers = {}
        return {
            ConnectionState.CONNECTING: {Hello: cls._on_hello},
            ConnectionState.CONNECTED: signed_in,
            ConnectionState.IN_GAME: signed_in,
            ConnectionState.RELAYED: none,
            ConnectionState.DISCONNECTING: none,
            ConnectionState.DISCONNECTED: none,
        }


_HANDLERS = LiveConnection.frame_handlers()
