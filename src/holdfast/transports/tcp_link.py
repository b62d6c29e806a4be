"""One link over TCP: each payload behind its length in 4 big-endian bytes. How it opens is told in `tcp.py`.

The top bit of the length marks the close frame: a 16-bit code, then a reason in UTF-8. Whoever gets a close frame
answers with one and hangs up, so that nothing sent before it is lost. On an encrypted link the body of every frame,
that of the close frame too, is what a tunnel made of it; see `secure.py`.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Final, cast

from holdfast.core.silence import Traffic
from holdfast.transports.closing import CLOSE_BYTES_MAX, failed, pack_close, tell, unpack_close
from holdfast.transports.forwarded import Address
from holdfast.transports.noise import Forged
from holdfast.transports.port import TOO_BIG, VANISHED, Accept, Dialect, Receiver, TransportLimits
from holdfast.transports.secure import OVERHEAD_BYTES, Tunnel
from holdfast.transports.sockets import abort, peer_name, traffic

_HEAD = struct.Struct(">I")
_CLOSE_BIT = 1 << 31
# A dialect's name is some twenty bytes, a greeting has 63 more; nothing larger is read from a stranger.
_PREFACE_BYTES_MAX = 256


class TcpTransport(asyncio.Protocol):
    """One link: framing and closing. How it opens is the subclasses' part."""

    kind: Final = "tcp"
    is_compressed: Final = False
    peer: str
    # Who a proxy named in front of it (PROXY protocol); without a name it is the socket's other end.
    client: Address | None = None
    dialect: Dialect
    _tcp: asyncio.Transport

    def __init__(self, accept: Accept, dialects: Sequence[Dialect], limits: TransportLimits) -> None:
        self._accept = accept
        self._dialects = dialects
        self._limits = limits
        self._receiver: Receiver | None = None
        self._deadline: asyncio.TimerHandle | None = None
        # Who takes the next payload: the handshake, then the receiver.
        self._deliver: Callable[[bytes], None] = self._shake_hands
        self._payload_bytes_max = self._frame_bytes_max = _PREFACE_BYTES_MAX
        # What every frame goes through on an encrypted link, from the end of its handshake on.
        self._tunnel: Tunnel | None = None
        self.is_encrypted = False
        # The start of a frame whose rest is still to come, and how long it must be to go on with it.
        self._partial = bytearray()
        self._partial_bytes_wanted = 0
        # Where the next frame starts is not known any more.
        self._is_deaf = False
        # Known as soon as the end is certain: from then on nothing is sent or received.
        self._end: tuple[int, str] | None = None
        self._is_lost = False

    @property
    def buffered_bytes(self) -> int:
        """See the port."""
        return 0 if self._is_lost else self._tcp.get_write_buffer_size()

    @property
    def is_up(self) -> bool:
        """See the port."""
        return self._end is None and not self._tcp.is_closing()

    @property
    def traffic(self) -> Traffic:
        """See the port."""
        return Traffic() if self._is_lost else traffic(self._tcp)

    def send(self, payload: bytes) -> None:
        """See the port."""
        if self._end is None:
            if self._tunnel is not None:
                payload = self._tunnel.seal(payload)
            self._tcp.write(_HEAD.pack(len(payload)) + payload)

    def close(self, code: int, reason: str) -> None:
        """See the port."""
        if self._end is None:
            self._end = (code, reason)
            self._say_close(code, reason)
            # The peer's answer is still to come.
            self._tcp.resume_reading()

    def abort(self) -> None:
        """See the port."""
        self._end = self._end or (VANISHED, "")
        abort(self._tcp)

    def pause_reading(self) -> None:
        """See the port."""
        if self._end is None:
            self._tcp.pause_reading()

    def resume_reading(self) -> None:
        """See the port."""
        if self._end is None:
            self._tcp.resume_reading()

    # The beginning

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected. Who waits for the handshake has a deadline: the dialer, or the listener."""
        self._tcp = cast("asyncio.Transport", transport)
        self.peer = peer_name(self.client or self._tcp.get_extra_info("peername"))
        self.is_encrypted = self._tcp.get_extra_info("ssl_object") is not None
        self._tcp.set_write_buffer_limits(high=self._limits.write_high_bytes)

    def _shake_hands(self, payload: bytes) -> None:
        raise NotImplementedError

    def _dig(self, tunnel: Tunnel) -> None:
        """From now on every frame goes through the tunnel, those behind the one that is being read too."""
        self._tunnel = tunnel
        self.is_encrypted = True
        self._frame_bytes_max = _PREFACE_BYTES_MAX + OVERHEAD_BYTES

    def _open(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._payload_bytes_max = self._frame_bytes_max = self._limits.payload_bytes_max
        if self._tunnel is not None:
            # A close frame is not told from a payload before it has been read.
            self._frame_bytes_max = max(self._payload_bytes_max, CLOSE_BYTES_MAX) + OVERHEAD_BYTES
        self._receiver = self._accept()
        self._deliver = self._receiver.received
        self._receiver.opened(self)

    # What comes in

    def data_received(self, data: bytes) -> None:
        """Deliver every payload that is whole, and keep the start of the next."""
        if self._partial:
            self._partial += data
            if len(self._partial) < self._partial_bytes_wanted:
                return
            data = bytes(self._partial)
            self._partial = bytearray()
        start, end, wanted = 0, len(data), _HEAD.size
        while end - start >= _HEAD.size and not self._is_deaf:
            (length,) = _HEAD.unpack_from(data, start)
            is_payload = length <= self._frame_bytes_max
            if not is_payload:
                length -= _CLOSE_BIT
                if self._tunnel is not None or not 0 <= length <= CLOSE_BYTES_MAX:
                    self._refuse_head(data[start : start + _HEAD.size])
                    break
            wanted = _HEAD.size + length
            if end - start < wanted:
                break
            body = data[start + _HEAD.size : start + wanted]
            start, wanted = start + wanted, _HEAD.size
            if self._tunnel is not None:
                opened = self._opened(self._tunnel, body)
                if opened is None:
                    break
                is_payload, body = opened
            if not is_payload:
                self._on_close(body)
            elif self._end is None:
                try:
                    self._deliver(body)
                except Exception:  # noqa: BLE001 - as `tell` does, without the cost of its call
                    failed(self)
        if not self._is_deaf:
            self._partial += data[start:]
            self._partial_bytes_wanted = wanted

    def _opened(self, tunnel: Tunnel, frame: bytes) -> tuple[bool, bytes] | None:
        try:
            is_payload, body = tunnel.open(frame)
        except Forged:
            # Somebody else has a hand in this stream: no word in it, not even an end, can be believed any more.
            self._is_deaf = True
            self.abort()
            return None
        if is_payload and len(body) > self._payload_bytes_max:
            self._refuse_size()
            return None
        return is_payload, body

    def _refuse_head(self, _: bytes) -> None:
        """A frame begins that is too large, or this is no frame."""
        self._refuse_size()

    def _refuse_size(self) -> None:
        self._is_deaf = True
        self.close(TOO_BIG, f"a payload may have {self._payload_bytes_max} bytes")

    # The end

    def _on_close(self, body: bytes) -> None:
        if self._end is None:
            self._end = unpack_close(body)
            self._say_close(*self._end)
        # Not from inside a read: TLS trips over it, in asyncio and in uvloop, if the peer has hung up already.
        asyncio.get_running_loop().call_soon(self._tcp.close)

    def _say_close(self, code: int, reason: str) -> None:
        body = pack_close(code, reason)
        if self._tunnel is None:
            self._tcp.write(_HEAD.pack(_CLOSE_BIT | len(body)) + body)
        else:
            body = self._tunnel.seal_close(body)
            self._tcp.write(_HEAD.pack(len(body)) + body)
        self._deadline = asyncio.get_running_loop().call_later(self._limits.close_s, self.abort)

    def eof_received(self) -> None:
        """The peer hung up; whatever it was still to get, it will not read."""
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._is_lost = True
        if self._deadline is not None:
            self._deadline.cancel()
        self._end = self._end or (VANISHED, "")
        if self._receiver is not None:
            tell(self, self._receiver.lost, *self._end)

    def pause_writing(self) -> None:
        """The write buffer is above its high-water mark."""
        if self._receiver is not None:
            tell(self, self._receiver.congested)

    def resume_writing(self) -> None:
        """The write buffer fell below its low-water mark."""
        if self._receiver is not None:
            tell(self, self._receiver.drained)
