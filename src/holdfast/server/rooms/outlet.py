"""Where messages to a player far away go: encoded at once, numbered, kept, and written when the loop's turn ends."""

from collections.abc import Callable

from holdfast.core.channel import Channel
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.errors import Invalid
from holdfast.core.messages import Message
from holdfast.core.outlet import Backlog
from holdfast.core.session import Session


class ChannelOutlet:
    """The outlet of one seat: its session's codec and its channel."""

    __slots__ = (
        "_body_bytes_max",
        "_channel",
        "_codec",
        "_encode",
        "_overflowed",
        "_session",
        "backlog",
        "latest_waiting_bytes",
        "waiting_bytes",
    )

    def __init__(
        self,
        session: Session,
        channel: Channel,
        *,
        body_bytes_max: int,
        overflowed: Callable[[Session], None],
    ) -> None:
        """`overflowed` is called when more piles up for the client than may be kept."""
        self._overflowed = overflowed
        self._session = session
        self.waiting_bytes = self.latest_waiting_bytes = 0
        self.backlog: Backlog | None = None
        self._channel = channel
        self._codec = session.codec or MSGPACK
        self._encode = self._codec.encode
        self._body_bytes_max = body_bytes_max

    @property
    def is_full(self) -> bool:
        """Whether a window or more is kept for the client."""
        return self._channel.is_full

    def overflow(self) -> None:
        """Keep nothing more for the client: it resumes and is resynced."""
        self._channel.give_up()
        self._overflowed(self._session)

    def send(self, message: Message) -> None:
        """Keep the message and write it soon."""
        self._push(message.wire_name, self._encode(message))

    def prepare(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        """Encode a message to many in this codec."""
        body = bodies[self._codec] = self._encode(message)
        if len(body) > self._body_bytes_max:
            raise self._too_large(message.wire_name, body)

    def send_shared(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        """Keep a message to many and write it soon."""
        self._push(message.wire_name, bodies[self._codec])

    def send_latest(self, message: Message, key: str) -> None:
        """Hand the message to the connection, if there is one."""
        body = self._codec.encode(message)
        if len(body) > self._body_bytes_max:
            raise self._too_large(message.wire_name, body)
        connection = self._session.connection
        if connection is not None and not self._channel.overflowed:
            connection.send_latest(self._channel.number, message.wire_name, body, key)

    def finish(self, farewell: Message) -> None:
        """Keep the last message until the client has it."""
        self._push(farewell.wire_name, self._codec.encode(farewell))
        self._channel.is_finished = True

    def applied(self, seq: int) -> None:
        """Acknowledge: with what is written anyway, else soon."""
        self._channel.applied = seq
        connection = self._session.connection
        if connection is not None and not connection.is_dirty:
            connection.wake()

    def _push(self, name: str, body: bytes) -> None:
        if len(body) > self._body_bytes_max:
            raise self._too_large(name, body)
        channel = self._channel
        if channel.overflowed or channel.is_finished:
            # Nothing more is kept: until the resync, or for good after the farewell.
            return
        if not channel.push(name, body):
            self._overflowed(self._session)
            return
        connection = self._session.connection
        if connection is not None and not connection.is_dirty:
            connection.wake()

    def _too_large(self, name: str, body: bytes) -> Invalid:
        return Invalid(
            f"a {name!r} of {len(body)} bytes is more than the {self._body_bytes_max} that fit in a payload: "
            "send it in parts, or raise Limits.payload_bytes_max on both ends"
        )


class SilentOutlet:
    """The outlet of a seat whose agent went with its server: nobody listens until another one takes the seat over."""

    waiting_bytes = 0
    latest_waiting_bytes = 0
    backlog: Backlog | None = None
    is_full = False

    def overflow(self) -> None:
        """Nothing is kept."""

    def send(self, message: Message) -> None:
        """Nobody hears it."""

    def prepare(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        """Nothing to prepare."""

    def send_shared(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        """Nobody hears it."""

    def send_latest(self, message: Message, key: str) -> None:
        """Nobody hears it."""

    def finish(self, farewell: Message) -> None:
        """Nobody hears it."""

    def applied(self, seq: int) -> None:
        """Nobody said anything."""
