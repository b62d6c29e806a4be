"""The contract of a transport: whole payloads of bytes in and out, and exactly one call of `lost`.

A transport knows nothing of codecs, sessions or rooms. `send` never blocks and never raises; a peer that does not
read makes `buffered_bytes` grow, and the receiver decides when that is too much. `received` is called for whole
payloads only, from the event loop's thread, never from inside `send`, `close` or `abort`, and never after one of
`close`, `abort` and `lost`. `congested` alone may come from inside `send` or `close`. A receiver that raises has a bug:
it is logged, and its link is closed with INTERNAL.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdfast.core.addresses import share_of
from holdfast.core.connection import Traffic
from holdfast.core.limits import Limits

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
class Subprotocol:
    """An application protocol that both ends may agree on: its name, and whether payloads are text.

    A subprotocol without a name is for clients that request none. With `None` for text, a payload is sent in the form
    in which the last one was received.
    """

    name: str
    text: bool | None


def agree(offered: Iterable[str], spoken: Sequence[Subprotocol]) -> Subprotocol | None:
    """The first subprotocol of the dialing side's list that is supported here: its order is its preference."""
    by_name = {subprotocol.name: subprotocol for subprotocol in spoken}
    return next((by_name[name] for name in offered if name in by_name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """The limits that a transport enforces."""

    payload_bytes_max: int
    # From a connection to an open link, all steps together.
    handshake_s: float
    close_s: float
    # `congested` is called above this and `drained` well below it.
    write_high_bytes: int
    # Frames of one WebSocket message; `payload_bytes_max` applies to all of them together.
    fragments_max: int
    # The PROXY header of a connection.
    proxy_header_bytes_max: int
    # Accepted connections that are not links yet: of one address, and in total.
    unopened_per_address_max: int
    unopened_max: int
    # A payload that is sent as a datagram.
    datagram_bytes_max: int = Limits.datagram_bytes_max
    # Of ENet: one UDP packet; payloads that are not acknowledged; payloads that are not read.
    udp_bytes_max: int = Limits.udp_bytes_max
    unacked_bytes_max: int = Limits.udp_unacked_bytes_max
    unread_bytes_max: int = Limits.udp_unread_bytes_max
    # Silence after which a client pings, and after which a peer with something unacknowledged is gone.
    udp_ping_s: float = Limits.udp_ping_s
    udp_timeout_s: float = Limits.udp_timeout_s
    # Of datagrams beside a stream: silence after which the stream is used instead.
    udp_silence_s: float = Limits.udp_silence_s
    # After which the newest datagram is sent once more, 0: never; and how much of that.
    udp_repeat_s: float = Limits.udp_repeat_s
    udp_repeat_bytes_per_s: int = Limits.udp_repeat_bytes_per_s

    @classmethod
    def of(cls, limits: Limits) -> "TransportLimits":
        """From the limits of a server or a client."""
        return cls(
            payload_bytes_max=limits.payload_bytes_max,
            handshake_s=limits.handshake_s,
            close_s=limits.close_s,
            write_high_bytes=limits.window_bytes_max,
            fragments_max=limits.fragments_max,
            proxy_header_bytes_max=limits.proxy_header_bytes_max,
            unopened_per_address_max=share_of(limits.unopened_max, limits.address_share),
            unopened_max=limits.unopened_max,
            datagram_bytes_max=limits.datagram_bytes_max,
            udp_bytes_max=limits.udp_bytes_max,
            unacked_bytes_max=limits.udp_unacked_bytes_max,
            unread_bytes_max=limits.udp_unread_bytes_max,
            udp_ping_s=limits.udp_ping_s,
            udp_timeout_s=limits.udp_timeout_s,
            udp_silence_s=limits.udp_silence_s,
            udp_repeat_s=limits.udp_repeat_s,
            udp_repeat_bytes_per_s=limits.udp_repeat_bytes_per_s,
        )


class Transport(Protocol):
    """One live link to a peer."""

    @property
    def kind(self) -> str:
        """The adapter's name: "websocket", "tcp", "enet", "memory"."""

    @property
    def peer(self) -> str:
        """The other end's address, for logs and limits: "203.0.113.7:51234", "[::1]:51234"."""

    @property
    def subprotocol(self) -> Subprotocol:
        """The subprotocol that both ends agreed on."""

    @property
    def is_encrypted(self) -> bool:
        """Whether the link is encrypted."""

    @property
    def is_compressed(self) -> bool:
        """Whether payloads are compressed."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes accepted by `send` that the operating system has not taken yet."""

    @property
    def is_up(self) -> bool:
        """Whether a payload sent now may still arrive: `lost` is called a moment after the link is known to be gone."""

    @property
    def datagram_bytes_max(self) -> int:
        """The largest payload that `send_datagram` takes; 0 if it takes none."""

    @property
    def traffic(self) -> Traffic:
        """The bytes that the link has carried, including incomplete payloads.

        For comparing two values. Always zero where the system does not tell.
        """

    def send(self, payload: bytes) -> None:
        """Queue one payload. It is dropped after `close`, `abort` or the peer's close."""

    def send_datagram(self, payload: bytes) -> bool:
        """Send one payload that may be lost, and may overtake those of `send`; False: use `send`.

        One that a later datagram has overtaken is dropped.
        """

    def close(self, code: int, reason: str) -> None:
        """Deliver what was sent, then close cleanly; abort after `close_s` if the peer does not answer. Idempotent.

        A reason longer than 123 bytes of UTF-8 is shortened: it is for people, the code is for programs.
        """

    def abort(self) -> None:
        """Close at once, and lose undelivered bytes."""

    def pause_reading(self) -> None:
        """Stop reading from the peer; payloads already read may still be delivered."""

    def resume_reading(self) -> None:
        """Read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedLink:
    """What another process has to know of a link, besides its socket."""

    subprotocol: Subprotocol
    peer: str
    is_encrypted: bool
    is_text: bool
    """Whether payloads are sent as text."""
    window_bits: int = 0
    """The window of the messages that are sent; 0 if they are not compressed."""


@runtime_checkable
class Passable(Protocol):
    """A transport whose socket another process can take over between two payloads; the peer does not notice."""

    @property
    def may_pass(self) -> bool:
        """Whether nothing of the link is in this process but its socket: no TLS, for example."""

    def stand_between(self, reached: Callable[[], None] | None) -> None:
        """Stop reading after the next payload that nothing follows in this process, and call `reached`; None: do
        not."""

    @property
    def descriptor(self) -> int:
        """Of the socket."""

    @property
    def passed(self) -> PassedLink:
        """What to tell the other process."""

    def go_on(self) -> None:
        """Read again: nobody has taken it over."""

    def let_go(self, code: int) -> None:
        """Another process has it: close it here, and tell the receiver that it is lost, with this code."""


class Receiver(Protocol):
    """What a transport calls: `opened` first, once; `lost` last, exactly once."""

    def opened(self, transport: Transport) -> None:
        """The link is open and the subprotocol agreed."""

    def received(self, payload: bytes) -> None:
        """One whole payload was received."""

    def received_datagram(self, payload: bytes) -> None:
        """One payload of `send_datagram` was received."""

    def kept_busy(self) -> None:
        """A frame without a payload was received: a ping, a pong, a fragment. It took as much work as a payload."""

    def congested(self) -> None:
        """The write buffer is above its high-water mark."""

    def drained(self) -> None:
        """The write buffer fell below its low-water mark."""

    def lost(self, code: int, reason: str) -> None:
        """The link is gone: with the code of the side that closed, or VANISHED (1006) without a close.

        When both ends close at once, each gets its own code. After `abort` both ends get VANISHED.
        """


class Listener(Protocol):
    """A listening port."""

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """The addresses it listens on, with the port that the system chose for 0."""

    async def close(self) -> None:
        """Stop accepting, also connections whose handshake is in progress. Open links stay open."""


@runtime_checkable
class Switchable(Receiver, Protocol):
    """A receiver whose link may go on over another transport."""

    def switched(self, transport: Transport) -> None:
        """The link goes on over this one, in the same place of both streams; the former one calls nothing more."""


Accept = Callable[[], Receiver]
"""Creates the receiver for a newly opened link; its `opened` is called next."""


class DialError(OSError):
    """Nothing answered, or no subprotocol was agreed: the message says which, and `retry` whether to try again."""

    def __init__(self, message: str, *, retry: bool = True) -> None:
        super().__init__(message)
        self.retry = retry
