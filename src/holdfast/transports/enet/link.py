"""An ENet connection as a transport: what the peer receives goes to the receiver, and what is sent leaves in time."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.core.connection import Traffic
from holdfast.core.rates import PAYLOAD_OVERHEAD_BYTES
from holdfast.transports.enet import wire
from holdfast.transports.enet.peer import Peer, PeerState
from holdfast.transports.links import tell
from holdfast.transports.listening import PendingConnection
from holdfast.transports.port import (
    BROKEN,
    GOING_AWAY,
    INTERNAL,
    UNSUPPORTED,
    VANISHED,
    Accept,
    DialError,
    Receiver,
    Subprotocol,
    TransportLimits,
    agree,
)

Write = Callable[[Sequence[bytes]], None]


class EnetLink:
    """One link: delivery, timers and closing. The subclasses do the handshake of subprotocols, as over TCP."""

    kind: Final = "enet"
    is_encrypted: Final = False
    is_compressed: Final = False
    subprotocol: Subprotocol

    def __init__(
        self, peer: Peer, name: str, write: Write, accept: Accept, subprotocols: Sequence[Subprotocol],
        limits: TransportLimits,
    ) -> None:  # fmt: skip
        self.protocol = peer
        self.peer = name
        self._write = write
        self._accept = accept
        self._subprotocols = subprotocols
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._receiver: Receiver | None = None
        self._unread: deque[bytes] = deque()
        self._is_reading = True
        self._is_congested = False
        # Whether we have closed it: nothing is received any more.
        self._is_deaf = False
        self._is_lost = False
        self._is_dirty = False
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def buffered_bytes(self) -> int:
        return self.protocol.waiting_bytes

    @property
    def is_up(self) -> bool:
        return self.protocol.state in {PeerState.CONNECTING, PeerState.CONNECTED}

    @property
    def traffic(self) -> Traffic:
        peer = self.protocol
        return Traffic(peer.received_bytes, peer.taken_bytes, peer.waiting_bytes)

    def send(self, payload: bytes) -> None:
        self.protocol.send(payload)
        self._wake()
        if self.protocol.waiting_bytes > self._limits.write_high_bytes and not self._is_congested:
            self._is_congested = True
            if self._receiver is not None:
                tell(self, self._receiver.congested)

    @property
    def datagram_bytes_max(self) -> int:
        return self.protocol.datagram_bytes_max

    def send_datagram(self, payload: bytes) -> bool:
        is_sent = self.protocol.send_datagram(payload)
        self._wake()
        return is_sent

    def close(self, code: int, reason: str) -> None:
        if not self._is_deaf and self.is_up:
            self._hear_no_more()
            self.protocol.close(code, reason)
            self._cut_later()
            self._wake()

    def abort(self) -> None:
        if not self._is_lost:
            self._hear_no_more()
            self._write(self.protocol.abort())
            self._wake()

    def _cut_later(self) -> None:
        self._deadline = self._loop.call_later(self._limits.close_s, self.abort)

    def _hear_no_more(self) -> None:
        self._is_deaf = True
        self._unread.clear()
        self.protocol.unread_bytes = 0

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._loop.call_soon(self._deliver)

    # Receiving

    def datagram_received(self, datagram: wire.Datagram) -> None:
        """A datagram of this peer."""
        peer = self.protocol
        idle_count = peer.receive(datagram, self._loop.time())
        if peer.payloads:
            if not self._is_deaf:
                self._unread += peer.payloads
                peer.unread_bytes += sum(len(payload) + PAYLOAD_OVERHEAD_BYTES for payload in peer.payloads)
            peer.payloads.clear()
        if peer.datagrams:
            # Those that nobody reads now are old when somebody does.
            if self._receiver is not None and self._is_reading:
                for payload in peer.datagrams:
                    if not self._is_deaf:
                        tell(self, self._receiver.received_datagram, payload)
            peer.datagrams.clear()
        self._deliver()
        if peer.state is PeerState.CLOSING and not self._is_deaf:
            # It broke the rules, and the peer closes.
            self._hear_no_more()
            self._cut_later()
        for _ in range(idle_count):
            if self._receiver is not None and not self._is_deaf and not self._is_lost:
                tell(self, self._receiver.kept_busy)
        if self._is_congested and peer.waiting_bytes <= self._limits.write_high_bytes // 4:
            self._is_congested = False
            if self._receiver is not None and not self._is_lost:
                tell(self, self._receiver.drained)
        self._wake()

    def _deliver(self) -> None:
        while self._unread and self._is_reading and not self._is_deaf:
            payload = self._unread.popleft()
            self.protocol.unread_bytes -= len(payload) + PAYLOAD_OVERHEAD_BYTES
            if self._receiver is None:
                tell(self, self._shake_hands, payload)
            else:
                tell(self, self._receiver.received, payload)
        self._wake()

    def _shake_hands(self, payload: bytes) -> None:
        raise NotImplementedError

    def _open(self, subprotocol: Subprotocol) -> None:
        self.subprotocol = subprotocol
        self._receiver = self._accept()
        self._receiver.opened(self)

    # Sending

    def _wake(self) -> None:
        """Write at the end of this loop iteration: what it produced shares a packet."""
        if not self._is_dirty and not self._is_lost:
            self._is_dirty = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_dirty = False
        if self._is_lost:
            return
        peer = self.protocol
        self._write(peer.write(self._loop.time()))
        if peer.state is PeerState.ENDED and not self._unread:
            self._lose()
        else:
            self._arm()

    def _arm(self) -> None:
        """One timer; one that is early asks again, and is not moved at every packet."""
        at = self.protocol.wake_at
        if at is None or (self._timer is not None and self._timer.when() <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._advance)

    def _advance(self) -> None:
        self._timer = None
        self.protocol.advance(self._loop.time())
        self._wake()

    def _lose(self) -> None:
        self._is_lost = True
        for timer in (self._timer, self._deadline):
            if timer is not None:
                timer.cancel()
        self._forgotten()
        if self._receiver is not None:
            tell(self, self._receiver.lost, *(self.protocol.end or (VANISHED, "")))

    def _forgotten(self) -> None:
        """It is lost: whoever knows it can forget it."""


class AcceptedLink(EnetLink):
    """The server's end: it waits for the preface and chooses a subprotocol."""

    pending: PendingConnection | None = None
    forgotten: Callable[["AcceptedLink"], None]
    address: tuple[object, int]

    def refuse_newcomer(self) -> None:
        """The listener closes: a handshake is not completed."""
        if self._receiver is None:
            self.close(GOING_AWAY, "the server is stopping")

    def datagram_received(self, datagram: wire.Datagram) -> None:
        super().datagram_received(datagram)
        if self._receiver is None and self.protocol.is_ahead:
            # It goes on with a connection that this server has lost: it hears so, and connects again.
            self.abort()

    def _shake_hands(self, payload: bytes) -> None:
        subprotocol = agree(payload.decode("utf-8", "replace").split(","), self._subprotocols)
        if subprotocol is None:
            self.close(UNSUPPORTED, f"unsupported protocol; use one of {_names(self._subprotocols)}")
            return
        self.send(subprotocol.name.encode())
        self._arrived()
        self._open(subprotocol)

    def _arrived(self) -> None:
        if self.pending is not None:
            self.pending.over()
            self.pending = None

    def _forgotten(self) -> None:
        self._arrived()
        self.forgotten(self)


class DialedLink(EnetLink):
    """The client's end: it sends the preface and waits for the choice."""

    forgotten: Callable[[], None]

    def __init__(
        self, peer: Peer, name: str, write: Write, accept: Accept, subprotocols: Sequence[Subprotocol],
        limits: TransportLimits,
    ) -> None:  # fmt: skip
        super().__init__(peer, name, write, accept, subprotocols, limits)
        self._settled = asyncio.Event()
        self._has_asked = False

    def begin(self) -> None:
        """Write the connect."""
        self._wake()

    async def wait_open(self) -> None:
        """Wait until the server has chosen; `DialError` if it did not."""
        try:
            await self._settled.wait()
        except asyncio.CancelledError:
            self.abort()  # nothing else would close the link
            raise
        if self._receiver is None:
            code, reason = self.protocol.end or (VANISHED, "")
            message = f"{self.peer} ended the handshake with {code} {reason}".rstrip()
            raise DialError(message, retry=code in {VANISHED, GOING_AWAY, INTERNAL})

    def datagram_received(self, datagram: wire.Datagram) -> None:
        super().datagram_received(datagram)
        if not self._has_asked and self.protocol.state is PeerState.CONNECTED:
            self._has_asked = True
            self.send(_names(self._subprotocols).encode())

    def unreachable(self) -> None:
        """The system says that nobody listens there."""
        self.protocol.lost()
        self._unread.clear()
        self._wake()

    def _shake_hands(self, payload: bytes) -> None:
        subprotocol = agree([payload.decode("utf-8", "replace")], self._subprotocols)
        if subprotocol is None:
            self.close(BROKEN, "the chosen protocol was not offered")
        else:
            self._settled.set()
            self._open(subprotocol)

    def _forgotten(self) -> None:
        self._settled.set()
        self.forgotten()


def _names(subprotocols: Sequence[Subprotocol]) -> str:
    return ",".join(subprotocol.name for subprotocol in subprotocols)
