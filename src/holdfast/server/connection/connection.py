"""One connection of the server: bytes to frames to the session and back. The way of every message leads through here.

transport -> received -> codec -> _on_data -> channel.accept -> room's host -> a turn of the room
a turn of the room -> outlet -> channel.push -> Node.wake … end of the loop's turn … -> flush -> transport
"""

from typing import TYPE_CHECKING, ClassVar

from holdfast.core.buckets import Bucket
from holdfast.core.channel import Channel
from holdfast.core.codec import CODECS
from holdfast.core.connection import ConnectionEvent, ConnectionId, ConnectionState
from holdfast.core.errors import ProtocolError
from holdfast.core.flood import PAYLOAD_OVERHEAD_BYTES, Flood
from holdfast.core.reasons import CLOSE_CODES, Reason, reason_of
from holdfast.core.session import Session, SessionFlags
from holdfast.core.silence import Look
from holdfast.schemas.frames import Ack, Bye, Close, Data, Frame, FromClient, Hello, Latest, Pong, Request, sentence
from holdfast.server.connection.fair_queue import Unheard
from holdfast.server.connection.writing import FrameHandlers, WritingConnection
from holdfast.transports.port import Transport

if TYPE_CHECKING:
    from holdfast.server.node import Node


class LiveConnection(WritingConnection):
    """A connection with its transport. It speaks for `session` until that has a newer one."""

    __slots__ = (
        "_decode",
        "_looked",
        "_messages",
        "_now",
        "allowed_bytes",
        "is_confirmed",
        "portion_max",
        "unheard",
    )

    def __init__(self, node: "Node", connection_id: ConnectionId, now: float) -> None:
        super().__init__(node, connection_id, now)
        self._now = node.now
        self._looked: Look | None = None
        self.is_confirmed = False
        """Whether the client has been heard since its welcome: then it has the token that came with it."""
        self._on_frame = self._HANDLERS[self.state]
        self._decode = self.codec.from_client
        # What may be said: by a stranger, and when it is known who they are by their session.
        self.allowed_bytes = self._messages = Bucket(node.throttle.rates.hello)
        self.portion_max = node.limits.lane_frames_max
        self.unheard: Unheard | None = None
        """What it said and has to wait, if it is in the slow lane."""

    # From the transport

    def opened(self, transport: Transport) -> None:
        """The link is up: a hello must follow."""
        self._transport = transport
        self.transport_kind = transport.kind
        self.peer = transport.peer
        self.is_encrypted = transport.is_encrypted
        self.is_compressed = transport.is_compressed
        self.codec = CODECS[transport.dialect.name]
        self._decode = self.codec.from_client
        self._encode = self.codec.encode
        self.tap = self._node.tap(self)
        self._node.opened(self)

    def received(self, payload: bytes) -> None:
        """One payload from the client: heard at once, unless it says much and has to wait its turn."""
        if not self._on_frame:
            return
        if self.unheard is not None:
            self._node.lane.received_more(self, payload)
            return
        self.heard_at = now = self._now()
        allowance = self.allowed_bytes
        if allowance.full_at <= now:
            allowance.full_at = now + (len(payload) + PAYLOAD_OVERHEAD_BYTES) * allowance.step_s
            self.hear(payload)
        else:
            self._node.lane.received(self, payload)

    def kept_busy(self) -> None:
        """A ping of the transport's own, or the like, which it dealt with: it costs what a small payload does."""
        if self._on_frame and not self.allowed_bytes.take(self._now(), PAYLOAD_OVERHEAD_BYTES):
            self._node.throttle.over(self, "bytes_per_s")

    def look(self, now: float) -> None:
        """No payload came for a while: the client counts as heard if the link still carries something."""
        assert self._transport is not None
        looked, self._looked = self._looked, Look(now, self._transport.traffic)
        if self._looked.is_alive(looked, self.heard_at, self._node.limits.life_bytes_per_s):
            self.heard_at = now

    def hear(self, payload: bytes, rest: list[FromClient] | None = None) -> None:  # noqa: PLR0912 - on one screen
        """What the client said, or the rest of it that had to wait."""
        was_dirty = self.is_dirty
        self.is_dirty = True
        try:
            if rest is not None:
                frames = rest
            else:
                counters = self._counters
                counters.bytes_received += len(payload)
                if self.tap is not None:
                    self.tap.received(payload)
                if not self.is_confirmed:
                    self._check_first(payload)
                frames = self._decode(payload)
                counters.frames_received += len(frames)
            if len(frames) > self.portion_max:
                frames = self._node.lane.first_portion(self, frames)
            for frame in frames:
                handle = self._on_frame.get(type(frame))
                if handle is not None:
                    handle(self, frame)
                elif self.is_open:
                    self._refuse(frame)
        except ProtocolError as error:
            self._node.counters.protocol_errors += 1
            self.close(error.reason, str(error))
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained in this connection
            self._node.internal_error("a connection", error, connection=self.id, peer=self.peer)
            self.close(Reason.INTERNAL)
        if was_dirty:
            return
        if self._writes.waiting:
            self._writes.add(self)
        else:
            self.flush()

    def lost(self, code: int, reason: str) -> None:
        """The link is gone; what was said before comes first."""
        if self.unheard and self.end_reason is None:
            self.unheard.end = (code, reason)
            return
        if self.end_reason is None:
            self.end_reason = reason_of(code)
            self.end_code = code
        self._step(ConnectionEvent.LOST)
        self._node.lost(self)
        self._node.unlinked(self)

    # Frames

    def _check_first(self, payload: bytes) -> None:
        if self.session is not None:
            # A client speaks again only when it has our welcome, and with it the token for its next resume.
            self.is_confirmed = True
            self.session.rewound_s = self.session.drop_reason = None
            self.session.lineage.confirmed()
            if self.session.tokens.confirm() and self._node.committer is not None:
                # The used token is dead in the store before anything that was said with the new one counts.
                self._node.committer.changed(self.session)
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
            if player.outlet.backlog is not None:
                player.host.has_read(player)
        if channel.accept(frame.seq):
            session.last_active_at = now = self.heard_at
            allowance = self._messages
            if allowance.full_at <= now:
                allowance.full_at = now + allowance.step_s
            elif not allowance.take(now) and self._node.throttle.over_message(self, player, frame):
                return
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
            if self._node.throttle.allows_latest(self):
                player.host.deliver_latest(player, frame)

    def _on_ack(self, frame: Ack | Pong | Data) -> None:
        session = self.session
        assert session is not None
        channel = session.channel_numbered(frame.channel)
        if channel is None or frame.ack <= channel.acked:
            return
        # To read is to be there.
        session.last_active_at = self.heard_at
        channel.acknowledge(frame.ack)
        if channel.is_over:
            session.closing.remove(channel)
        elif session.player is not None and session.player.outlet.backlog is not None:
            session.player.host.has_read(session.player)

    def _on_pong(self, frame: Pong) -> None:
        self._on_ack(frame)
        if frame.id == self._ping_id and self.session is not None and self._ping_sent_at:
            round_trip_s = self.heard_at - self._ping_sent_at
            self.session.latency.add(round_trip_s * 1000.0)
            self._node.metrics.round_trip.observe(round_trip_s)
            self.session.flags &= ~SessionFlags.AWAITING_RESPONSE
            self._ping_sent_at = 0.0

    def _on_request(self, frame: Request) -> None:
        assert self.session is not None
        self.session.last_active_at = self.heard_at
        may_ask = self._node.throttle.allows_request(self)
        if self.is_open:
            self._node.desk.receive(self.session, frame, is_throttled=not may_ask)

    def _on_bye(self, frame: Bye) -> None:
        assert self.session is not None
        self._node.end_session(self.session, Reason.BYE, frame.reason)

    # State

    def welcomed(self, session: Session) -> None:
        """The handshake is over: this connection speaks for the session."""
        self.session = session
        flood = session.flood = session.flood or Flood(self._node.throttle.rates)
        self.allowed_bytes, self._messages = flood.bytes, flood.messages
        self._node.lifetimes.begin(self, session)
        self.tap = self._node.tap(self)
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
        if self.state is ConnectionState.CONNECTING:
            self._node.turned_away(self, reason)
        # Not if it was cut a moment ago: then that is why, and this will not be heard.
        self.end_reason = self.end_reason or reason
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

    def pause_reading(self) -> None:
        """Hear nothing for now: what the client says waits in its own buffers."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Hear the client again."""
        if self._transport is not None:
            self._transport.resume_reading()

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
