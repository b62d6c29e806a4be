"""One connection of the server: bytes to frames to the session and back. The way of every message leads through here.

transport -> received -> codec -> _on_data -> channel.accept -> room's host -> a turn of the room
a turn of the room -> outlet -> channel.push -> Node.wake … end of the loop's turn … -> flush -> transport
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Raw

from holdfast.core.channel import Channel
from holdfast.core.codec import CODECS, MSGPACK, Codec
from holdfast.core.connection import Connection, ConnectionEvent, ConnectionId, ConnectionState
from holdfast.core.errors import ProtocolError
from holdfast.core.frames import Ack, Bye, Close, Data, Frame, Hello, Latest, Ping, Pong, Request, sentence
from holdfast.core.reasons import CLOSE_CODES, Reason
from holdfast.core.session import Session, SessionFlags
from holdfast.transports.port import Transport

if TYPE_CHECKING:
    from holdfast.server.node import Node

FrameHandlers = Mapping[type[Frame], Callable[["LiveConnection", Any], None]]


class LiveConnection(Connection):
    """A connection with its transport. It speaks for `session` until that has a newer one."""

    __slots__ = (
        "_control",
        "_decode",
        "_encode",
        "_holds",
        "_is_confirmed",
        "_is_congested",
        "_latest",
        "_node",
        "_now",
        "_on_frame",
        "_payload_bytes_max",
        "_ping_id",
        "_ping_sent_at",
        "_transport",
        "_writes",
        "codec",
        "session",
    )

    def __init__(self, node: "Node", connection_id: ConnectionId, now: float) -> None:
        super().__init__(connection_id, now)
        self._node = node
        self._now = node.now
        self._writes = node.writes
        self._payload_bytes_max = node.limits.payload_bytes_max
        self._transport: Transport | None = None
        self._control: list[Frame] = []
        self._latest: dict[tuple[str, str], Latest] = {}
        self._is_congested = False
        self._is_confirmed = False
        self._holds = 0
        self._on_frame = self._HANDLERS[self.state]
        self._ping_id = 0
        self._ping_sent_at = 0.0
        self.codec: Codec = MSGPACK
        self._decode = self.codec.from_client
        self._encode = self.codec.encode
        self.session: Session | None = None

    # From the transport

    def opened(self, transport: Transport) -> None:
        """The link is up: a hello must follow."""
        self._transport = transport
        self.transport_kind = transport.kind
        self.peer = transport.peer
        self.codec = CODECS[transport.dialect.name]
        self._decode = self.codec.from_client
        self._encode = self.codec.encode
        self._node.opened(self)

    def received(self, payload: bytes) -> None:
        """One payload from the client."""
        if not self._on_frame:
            return
        self.heard_at = self._now()
        was_dirty = self.is_dirty
        self.is_dirty = True
        try:
            if not self._is_confirmed:
                self._check_first(payload)
            for frame in self._decode(payload):
                handle = self._on_frame.get(type(frame))
                if handle is not None:
                    handle(self, frame)
                elif self.is_open:
                    self._refuse(frame)
        except ProtocolError as error:
            self._node.counters.protocol_errors += 1
            self.close(error.reason, str(error))
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained in this connection
            self._node.internal_error(f"connection {self.id} of {self.peer}", error)
            self.close(Reason.INTERNAL)
        if was_dirty:
            return
        if self._writes.waiting:
            self._writes.add(self)
        else:
            self.flush()

    def congested(self) -> None:
        """The client reads slower than we write."""
        self._is_congested = True

    def drained(self) -> None:
        """The client has caught up."""
        self._is_congested = False
        if self._latest:
            self.wake()

    def lost(self, code: int, reason: str) -> None:
        """The link is gone."""
        if self.end_reason is None:
            self.end_reason = Reason.DROPPED
        self._step(ConnectionEvent.LOST)
        self._node.lost(self)
        self._node.unlinked(self)

    # Frames

    def _check_first(self, payload: bytes) -> None:
        if self.session is not None:
            # A client speaks again only when it has our welcome, and with it the token for its next resume.
            self._is_confirmed = True
            self.session.rewound_s = None
            if self.session.tokens.confirm() and self._node.ledger is not None:
                # The used token is dead in the store before anything that was said with the new one counts.
                self._node.ledger.changed(self.session)
        elif len(payload) > self._node.limits.hello_bytes_max:
            raise ProtocolError("the first payload is larger than a hello can be", Reason.TOO_BIG)

    def _refuse(self, frame: Frame) -> None:
        raise ProtocolError(f"a {frame.name} is not allowed while {self.state.value}")

    def _on_hello(self, frame: Hello) -> None:
        self._node.handshake.hello(self, frame)

    def _on_data(self, frame: Data) -> None:
        session = self.session
        assert session is not None
        channel = session.channel
        player = session.player
        if channel is None or player is None or frame.channel != channel.number:
            # In flight while the seat was freed: the stream's last message says so. What it acknowledges counts all the
            # same, or the window would never open for that last message.
            if not session.was_opened(frame.channel):
                raise ProtocolError(f"channel {frame.channel} was never opened")
            self._node.counters.messages_refused += 1
            self._on_ack(frame)
            return
        if player.outlet.waiting_bytes:
            self._check_window(player.outlet.waiting_bytes, channel, frame)
        if frame.ack > channel.acked:
            channel.acknowledge(frame.ack)
        if channel.accept(frame.seq):
            session.last_active_at = self.heard_at
            player.host.deliver(player, frame)
        else:
            self._node.counters.duplicates_ignored += 1

    def _check_window(self, waiting_bytes: int, channel: Channel, frame: Data) -> None:
        # What a resume sends again waits already: only what is new adds to it.
        if waiting_bytes >= self._node.limits.window_bytes_max and frame.seq > channel.accepted:
            raise ProtocolError("more bytes in flight than the window allows", Reason.SEQUENCE)

    def _on_latest(self, frame: Latest) -> None:
        session = self.session
        assert session is not None
        player = session.player
        if player is not None and session.channel is not None and frame.channel == session.channel.number:
            session.last_active_at = self.heard_at
            player.host.deliver_latest(player, frame)

    def _on_ack(self, frame: Ack | Pong | Data) -> None:
        session = self.session
        assert session is not None
        channel = session.channel_numbered(frame.channel)
        if channel is None or frame.ack <= channel.acked:
            return
        channel.acknowledge(frame.ack)
        if channel.is_over:
            session.closing.remove(channel)

    def _on_pong(self, frame: Pong) -> None:
        self._on_ack(frame)
        if frame.id == self._ping_id and self.session is not None and self._ping_sent_at:
            self.session.latency.add((self.heard_at - self._ping_sent_at) * 1000.0)
            self.session.flags &= ~SessionFlags.AWAITING_RESPONSE
            self._ping_sent_at = 0.0

    def _on_request(self, frame: Request) -> None:
        assert self.session is not None
        self.session.last_active_at = self.heard_at
        self._node.desk.receive(self.session, frame)

    def _on_bye(self, frame: Bye) -> None:
        assert self.session is not None
        self._node.end_session(self.session, Reason.BYE, frame.reason)

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
        session = self.session
        if session is None:
            return
        self._ping_id += 1
        self._ping_sent_at = now
        session.flags |= SessionFlags.AWAITING_RESPONSE
        channel = session.channel
        number, ack = (channel.number, channel.applied) if channel is not None else (0, 0)
        if channel is not None:
            channel.ack_sent = channel.applied
        self.send(Ping(self._ping_id, number, ack, round(session.latency.smoothed_ms, 3)))

    def flush(self, *, with_ack: bool = False) -> None:  # noqa: PLR0912 - the way out, on one screen
        """Write everything that waits for this client, in as few payloads as the size limit allows: usually one."""
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
                if len(payload) <= self._payload_bytes_max:
                    transport.send(payload)
                else:
                    for part in self.codec.payloads(frames, self._payload_bytes_max):
                        transport.send(part)
                if self._is_congested:
                    self._check_backlog(transport)
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained in this connection
            self._node.internal_error(f"writing to connection {self.id} of {self.peer}", error)
            self.cut(Reason.INTERNAL)

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

    # State

    def welcomed(self, session: Session) -> None:
        """The handshake is over: this connection speaks for the session."""
        self.session = session
        self._step(ConnectionEvent.WELCOMED)
        if session.player is not None:
            self._step(ConnectionEvent.SEATED)

    def seated(self) -> None:
        """The session took a seat."""
        self._step(ConnectionEvent.SEATED)

    def unseated(self) -> None:
        """The session's seat was freed."""
        if self.state is ConnectionState.IN_GAME:
            self._step(ConnectionEvent.UNSEATED)

    def close(self, reason: Reason, message: str = "", *, retry_after_s: float = 0.0, problem: str = "") -> None:
        """Tell the client why, end in order, and let go of the session at once."""
        if not self.is_open:
            return
        self.end_reason = reason
        code = CLOSE_CODES[reason]
        if self._holds:
            # Nothing but the end may be heard: not even a message that is saved, for the welcome before it is not.
            self._holds = 0
            self._control.clear()
            self.session = None
        if self._transport is not None:
            self._control.append(Close(code, reason.value, sentence(message), retry_after_s, problem))
            self.flush()
            self._transport.close(code, reason.value)
        self._step(ConnectionEvent.CLOSED)
        self._node.lost(self)

    def cut(self, reason: Reason) -> None:
        """End at once, without a word: the peer would not hear it."""
        self.end_reason = reason
        if self._transport is not None:
            self._transport.abort()

    def _step(self, event: ConnectionEvent) -> None:
        self.happened(event)
        self._on_frame = self._HANDLERS[self.state]

    _SIGNED_IN: ClassVar[FrameHandlers] = {
        Data: _on_data,
        Latest: _on_latest,
        Ack: _on_ack,
        Pong: _on_pong,
        Request: _on_request,
        Bye: _on_bye,
    }
    # What a client may say in each state; anything else breaks the protocol. A closing connection hears nothing.
    _HANDLERS: ClassVar[dict[ConnectionState, FrameHandlers]] = {
        ConnectionState.CONNECTING: {Hello: _on_hello},
        ConnectionState.CONNECTED: _SIGNED_IN,
        ConnectionState.IN_GAME: _SIGNED_IN,
        ConnectionState.DISCONNECTING: {},
        ConnectionState.DISCONNECTED: {},
    }
