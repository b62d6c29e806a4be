"""A player of `PlayerStreams`: the half that your server sees, and the session that outlives connections."""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from holdfast.core.channel import Channel
from holdfast.core.codec import Codec
from holdfast.core.errors import Invalid
from holdfast.core.latency import Latency
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, check_message
from holdfast.core.reasons import Reason
from holdfast.core.tokens import ResumeTokens
from holdfast.schemas.frames import FRAME_HEAD_BYTES, ChannelInfo, Data

CHANNEL = 1
"""A session here has one channel, from its beginning to its end."""

Ends = Callable[["StreamSession", Reason, str], None]
"""Ends a session for good; the text is what its player is told."""


class PlayerStream:
    """A player of `PlayerStreams`. The same object while the session lives; attributes that you add are yours."""

    def __init__(self, session: "StreamSession") -> None:
        """Called by `PlayerStreams`."""
        # The only attribute that is not yours.
        self._holdfast_session = session
        self.id = session.player_id
        """The player's id, as `authenticate` returned it."""
        self.data: Any = None
        """Your own: what the player keeps across a drop."""
        self.roles: frozenset[str] = frozenset()
        """Yours to set, as in `on_join`: a handler marked with `@on(Kick, role="gm")` requires it."""

    @property
    def connected(self) -> bool:
        """Whether the player is connected; while not, messages are kept for them."""
        return self._holdfast_session.connection is not None

    @property
    def latency_ms(self) -> float:
        """The smoothed round-trip time."""
        return self._holdfast_session.latency.smoothed_ms

    def send(self, message: Message) -> None:
        """Send reliably: exactly once, in order, also if the player drops and returns."""
        check_message(message)
        session = self._holdfast_session
        session.push(message.wire_name, session.body(message))

    def send_latest(self, message: Message, key: str = "") -> None:
        """Send unreliably: never repeated; a newer message with the same type and key replaces it."""
        check_message(message)
        session = self._holdfast_session
        if session.connection is not None:
            session.connection.send_latest(message.wire_name, session.body(message), key)

    def kick(self, reason: str = "") -> None:
        """End the player's session for good; `reason` is the sentence they are told."""
        session = self._holdfast_session
        session.ends(session, Reason.KICKED, reason)

    def __repr__(self) -> str:
        return f"<PlayerStream of {self.id} {'connected' if self.connected else 'disconnected'}>"


class Carrier(Protocol):
    """The connection that a session has now."""

    def wake(self) -> None:
        """Something waits to be written."""

    def send_latest(self, name: str, body: bytes, key: str) -> None:
        """Write an unreliable message soon, or never."""

    def close(self, reason: Reason, message: str = "", *, retry_after_s: float = 0.0, problem: str = "") -> None:
        """Say why, and end."""


class StreamSession:
    """What is kept of one player: the token to return with, the channel, and messages that wait for their handler."""

    __slots__ = (
        *("_limits", "channel", "codec", "connection", "ends", "id", "inbox", "is_handling", "is_leaving"),
        *("is_over", "latency", "player_id", "stream", "tokens", "waiting_bytes"),
    )

    def __init__(self, session_id: str, player_id: str, *, codec: Codec, limits: Limits, ends: Ends) -> None:
        self.id = session_id
        self.player_id = player_id
        self.codec = codec
        self.ends = ends
        self.channel = Channel(CHANNEL, limits)
        self.tokens = ResumeTokens(limits.retired_tokens_max)
        self.latency = Latency()
        self.connection: Carrier | None = None
        self.inbox: deque[Data] = deque()
        """Accepted messages that are not handled yet: at most a window."""
        self.waiting_bytes = 0
        self.is_handling = False
        """Whether a handler of one of them awaits something."""
        self.is_leaving = False
        """Whether the player said goodbye: the session ends when the inbox is empty."""
        self.is_over = False
        self._limits = limits
        self.stream = PlayerStream(self)

    def info(self, kind: str) -> ChannelInfo:
        """The channel, as a welcome describes it."""
        channel = self.channel
        accepted = channel.accepted if channel.accepted > channel.applied else 0
        return ChannelInfo(CHANNEL, channel.generation, channel.applied, kind, kind, accepted)

    def body(self, message: Message) -> bytes:
        """A message's body; `Invalid` if no payload can carry it."""
        body = self.codec.encode(message)
        bytes_max = self._limits.payload_bytes_max - FRAME_HEAD_BYTES
        if len(body) > bytes_max:
            name = message.wire_name
            raise Invalid(
                f"{name!r} has {len(body)} bytes, more than the {bytes_max} that fit in a payload: send it in parts"
            )
        return body

    def push(self, name: str, body: bytes) -> None:
        """Keep a message until the client has it, and write it if there is a connection."""
        if self.is_over or self.channel.overflowed:
            return
        if not self.channel.push(name, body) and self.connection is not None:
            self.connection.close(Reason.SLOW, "too many messages are waiting for you; resume for the current state")
        elif self.connection is not None:
            self.connection.wake()

    def accepted(self, frame: Data) -> None:
        """A message has its place in the order."""
        self.inbox.append(frame)
        self.waiting_bytes += len(frame.body)

    def handled(self) -> Data:
        """The oldest message was handled: acknowledge it."""
        frame = self.inbox.popleft()
        self.waiting_bytes -= len(frame.body)
        self.channel.applied = frame.seq
        if self.connection is not None:
            self.connection.wake()
        return frame

    @property
    def is_free(self) -> bool:
        """Whether no handler is at work for the player."""
        return not self.is_handling and not self.is_over

    @property
    def may_handle(self) -> bool:
        """Whether the oldest message may be handled: not while a window or more waits to be read by its sender."""
        return self.is_free and bool(self.inbox) and (self.is_leaving or not self.channel.is_full)
