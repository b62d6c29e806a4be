"""The half of a connection that speaks to its client: what waits for it, in one payload or several small ones."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from holdfast.core.channel import Channel
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.connection import Connection, ConnectionId, ConnectionState
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, SessionFlags
from holdfast.schemas.frames import Ack, Frame, Latest, Ping, Welcome
from holdfast.transports.port import Transport

if TYPE_CHECKING:
    from holdfast.observability.packet_log import Tap
    from holdfast.observability.tracing import MessageTrace
    from holdfast.server.node import Node

FrameHandlers = Mapping[type[Frame], Callable[[Any, Any], None]]


class WritingConnection(Connection):
    """What is written, and when. Whoever hears the client is a `LiveConnection`."""

    __slots__ = (
        "_batch_bytes_max",
        "_control",
        "_counters",
        "_encode",
        "_holds",
        "_is_congested",
        "_latest",
        "_node",
        "_on_frame",
        "_ping_id",
        "_ping_sent_at",
        "_pings",
        "_transport",
        "_whole_bytes_max",
        "_writes",
        "codec",
        "session",
        "tap",
        "traces",
    )

    def __init__(self, node: "Node", connection_id: ConnectionId, now: float) -> None:
        super().__init__(connection_id, now)
        self._node = node
        self._writes = node.writes
        self._counters = node.counters
        self._batch_bytes_max = min(node.limits.batch_bytes_max, node.limits.payload_bytes_max)
        # What is written in one piece: nothing before the welcome, which travels alone.
        self._whole_bytes_max = 0
        self._transport: Transport | None = None
        self._control: list[Frame] = []
        self._latest: dict[tuple[str, str], Latest] = {}
        self._is_congested = False
        self._holds = 0
        self._on_frame: FrameHandlers = {}
        self._ping_id = 0
        self._ping_sent_at = 0.0
        self._pings = 0
        self.codec: Codec = MSGPACK
        self._encode = self.codec.encode
        self.session: Session | None = None
        self.tap: Tap | None = None
        self.traces: list[MessageTrace] | None = None
        """Of messages whose answer is in the next payload."""

    # From the transport

    def congested(self) -> None:
        """The client reads slower than we write."""
        self._is_congested = True

    def drained(self) -> None:
        """The client has caught up."""
        self._is_congested = False
        if self._latest:
            self.wake()

    # To the client

    def wake(self) -> None:
        """Something waits to be written."""
        if not self.is_dirty:
            self.is_dirty = True
            self._writes.add(self)

    def hold(self) -> None:
        """Write nothing before as many calls of `release`: what the client would hear is not saved yet."""
        self._holds += 1
        self.is_dirty = True

    def release(self) -> None:
        """Write what has waited, unless it has to wait for something else too."""
        if self._holds:
            self._holds -= 1
            self.flush()

    def forget_session(self) -> None:
        """Speak for no session any more."""
        self.session = None

    def send(self, frame: Frame) -> None:
        """Write a frame with the next flush, before the messages of channels."""
        self._control.append(frame)
        self.wake()

    def send_latest(self, channel: int, name: str, body: bytes, key: str) -> None:
        """Write an unreliable message with the next flush, or never if a newer one comes first."""
        latest = self._latest
        if (name, key) not in latest and len(latest) >= self._node.limits.latest_kept_max:
            del latest[next(iter(latest))]
        latest[name, key] = Latest(channel, name, Raw(body))
        self.wake()

    def ping(self, now: float) -> None:
        """Ask for a sign of life, and tell the client its latency."""
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
        """How many were sent since the client was last heard."""
        return self._pings if self._ping_sent_at > self.heard_at else 0

    def flush(self, *, with_ack: bool = False) -> None:  # noqa: PLR0912 - the way out, on one screen
        """Write everything that waits for this client, usually in one payload."""
        if self._holds or not self._on_frame:
            return
        self.is_dirty = False
        try:
            frames = self._control
            session = self.session
            if session is not None:
                for closing in session.closing:
                    frames += closing.take()
                channel = session.channel
                if channel is not None:
                    if channel.sent < channel.last_seq:
                        frames += channel.take()
                    if channel.ack_sent < channel.applied:
                        self._acknowledge(frames, channel, at_once=with_ack)
                if self._latest and not self._is_congested:
                    frames += self._latest.values()
                    self._latest.clear()
            if frames:
                self._control = []
                transport = self._transport
                assert transport is not None
                payload = self._encode(frames)
                size = len(payload)
                counters = self._counters
                counters.frames_sent += len(frames)
                counters.bytes_sent += size
                if size <= self._whole_bytes_max:
                    transport.send(payload)
                    if self.tap is not None:
                        self.tap.sent(payload)
                else:
                    self._send_parts(transport, frames)
                if self.traces is not None:
                    self._trace(len(frames), size)
                if self._is_congested:
                    self._check_backlog(transport)
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained in this connection
            self._node.internal_error("writing to a connection", error, connection=self.id, peer=self.peer)
            self.cut(Reason.INTERNAL)

    def _send_parts(self, transport: Transport, frames: list[Frame]) -> None:
        """Much waits, or the welcome: in small payloads, some get through a link that is slow or often cut."""
        rest = frames
        if self._whole_bytes_max == 0 and isinstance(frames[0], Welcome):
            self._whole_bytes_max = self._batch_bytes_max
            self._send(transport, self.codec.payload(frames[0]))
            rest = frames[1:]
        if rest:
            for part in self.codec.payloads(rest, self._batch_bytes_max):
                if not transport.is_up:
                    break  # asyncio would complain about each that follows
                self._announce(transport, len(part))
                self._send(transport, part)

    def _announce(self, transport: Transport, size: int) -> None:
        """A browser sees whole payloads only: its client has to know of one that may take longer than `silence_s`."""
        limits = self._node.limits
        if size > limits.life_bytes_per_s * limits.silence_s and self.session is not None:
            ping = self._next_ping(self.session, self._node.now(), size / limits.life_bytes_per_s)
            self._send(transport, self.codec.payload(ping))

    def _send(self, transport: Transport, payload: bytes) -> None:
        transport.send(payload)
        if self.tap is not None:
            self.tap.sent(payload)

    def _trace(self, frames: int, size: int) -> None:
        traces, self.traces = self.traces or [], None
        for trace in traces:
            trace.sent(frames, size)

    def _check_backlog(self, transport: Transport) -> None:
        if transport.buffered_bytes > self._node.limits.write_buffer_bytes_max:
            self.cut(Reason.SLOW)

    def _acknowledge(self, frames: list[Frame], channel: Channel, *, at_once: bool) -> None:
        """No message carries the acknowledgement: it goes along with what is written anyway, else by count or time."""
        if frames or at_once or channel.applied - channel.ack_sent >= self._node.limits.ack_messages:
            channel.ack_sent = channel.applied
            frames.append(Ack(channel.number, channel.applied))
        else:
            self._writes.owe_ack(self)

    def cut(self, reason: Reason) -> None:
        """End at once, without a word: the peer would not hear it."""
        if self.state is ConnectionState.CONNECTING:
            self._node.turned_away(self, reason)
        self.end_reason = self.end_reason or reason
        if self._transport is not None:
            self._transport.abort()
