"""The contract of a transport: whole payloads of bytes in and out, an end that is told exactly once.

A transport knows nothing of codecs, sessions or rooms. `send` never blocks and never raises; a peer that does not
read makes `buffered_bytes` grow, and the receiver decides when that is too much. `received` is called for whole
payloads only, from the event loop's thread, never from inside `send`, `close` or `abort`, and never after one of
`close`, `abort` and `lost`. `congested` alone may come from inside `send` or `close`. A receiver that raises has a bug:
it is logged, and its link is closed with INTERNAL.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.core.address_quota import share_of
from holdfast.core.limits import Limits
from holdfast.core.silence import Traffic

NORMAL = 1000
GOING_AWAY = 1001
BROKEN = 1002
UNSUPPORTED = 1003
NO_STATUS = 1005
VANISHED = 1006
NOT_TEXT = 1007
POLICY = 1008
TOO_BIG = 1009
INTERNAL = 1011


@dataclass(frozen=True, slots=True)
class Dialect:
    """An application protocol that both ends may agree on: its name, and whether payloads are text.

    Without a name it is for clients that ask for none. `None` for text is either: a payload goes out as the last one
    came in.
    """

    name: str
    text: bool | None


def agree(offered: Iterable[str], spoken: Sequence[Dialect]) -> Dialect | None:
    """The first dialect that the dialing side offered and we speak: its order is its preference."""
    by_name = {dialect.name: dialect for dialect in spoken}
    return next((by_name[name] for name in offered if name in by_name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """What a transport enforces by itself."""

    payload_bytes_max: int
    # From a connection to an open link, all steps between them together.
    handshake_s: float
    close_s: float
    # The receiver hears `congested` above this and `drained` well below it.
    write_high_bytes: int
    # Frames that one WebSocket message may come in; `payload_bytes_max` counts for all of them together.
    fragments_max: int
    # What a proxy may say about a connection before the connection begins.
    proxy_header_bytes_max: int
    # Connections that were accepted and are no links yet: of one address, and in all.
    unopened_per_address_max: int
    unopened_max: int

    @classmethod
    def of(cls, limits: Limits) -> "TransportLimits":
        """Their part of the limits of a server or a client."""
        return cls(
            payload_bytes_max=limits.payload_bytes_max,
            handshake_s=limits.handshake_s,
            close_s=limits.close_s,
            write_high_bytes=limits.window_bytes_max,
            fragments_max=limits.fragments_max,
            proxy_header_bytes_max=limits.proxy_header_bytes_max,
            unopened_per_address_max=share_of(limits.unopened_max, limits.address_share),
            unopened_max=limits.unopened_max,
        )


class Transport(Protocol):
    """One live link to a peer."""

    @property
    def kind(self) -> str:
        """The adapter's name: "websocket", "tcp", "memory"."""

    @property
    def peer(self) -> str:
        """The other end's address, for logs and limits: "203.0.113.7:51234", "[::1]:51234"."""

    @property
    def dialect(self) -> Dialect:
        """What both ends agreed to speak."""

    @property
    def is_encrypted(self) -> bool:
        """Whether the link is encrypted."""

    @property
    def is_compressed(self) -> bool:
        """Whether payloads are made smaller on their way."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes accepted by `send` that the operating system has not taken yet."""

    @property
    def is_up(self) -> bool:
        """Whether what is sent now may still arrive: `lost` is told a moment after the link is known to be gone."""

    @property
    def traffic(self) -> Traffic:
        """What the link has carried, as the network counts it: bytes of payloads that are not complete yet too.

        For comparing two looks. Where the system does not tell, it is always nothing.
        """

    def send(self, payload: bytes) -> None:
        """Queue one payload. After `close`, `abort` or the peer's end it is dropped."""

    def close(self, code: int, reason: str) -> None:
        """Deliver what was sent, then end in order; cut after `close_s` if the peer does not answer. Idempotent.

        A reason longer than 123 bytes of UTF-8 is shortened: it is for people, the code is for programs.
        """

    def abort(self) -> None:
        """Cut at once, undelivered bytes and all."""

    def pause_reading(self) -> None:
        """Take no more from the peer for now; payloads already read may still arrive."""

    def resume_reading(self) -> None:
        """Take payloads again."""


class Receiver(Protocol):
    """What a transport talks to: `opened` first, once; `lost` last, exactly once."""

    def opened(self, transport: Transport) -> None:
        """The link is up and the dialect agreed."""

    def received(self, payload: bytes) -> None:
        """One whole payload came in."""

    def kept_busy(self) -> None:
        """A frame came that is no payload: a ping, a pong, a piece of a message. It took as much work as one."""

    def congested(self) -> None:
        """The write buffer is above its high-water mark."""

    def drained(self) -> None:
        """The write buffer fell below its low-water mark."""

    def lost(self, code: int, reason: str) -> None:
        """The link is gone: with the code of the side that closed, or VANISHED (1006) if it went without a word.

        When both ends close at once, each hears its own code. `abort` is going without a word, on both ends.
        """


class Listener(Protocol):
    """A port that listens."""

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """Where it listens, with the port the system chose when 0 was asked for."""

    async def close(self) -> None:
        """Stop accepting, also connections whose handshake is under way. Open links stay open."""


Accept = Callable[[], Receiver]
"""Makes the receiver for a link that has just been opened; its `opened` follows at once."""


class DialError(OSError):
    """Nobody answered, or not with one of our dialects: the message says which, and `retry` whether to try again."""

    def __init__(self, message: str, *, retry: bool = True) -> None:
        super().__init__(message)
        self.retry = retry
