"""One WebSocket link on picows: one payload is one message, text or binary as the subprotocol says.

picows only handles frames; the rest of RFC 6455 is here: fragments, pongs, the closing handshake and its deadline, and
the refusal of unsupported messages. One problem shapes `send`: without aiofastnet, picows' `send` on a server passes
uvloop a view of a buffer that it reuses, for messages above 8 KiB, where `send_reuse_external_bytearray` passes a
copy.
"""

import asyncio
import codecs
import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from picows import WSError, WSFrame, WSListener, WSMsgType, WSTransport
from picows.picows import WSCloseHandshake

from holdfast.core.connection import Traffic
from holdfast.transports.deflate import WINDOW_BITS, Inflater, NotDeflated, deflated, wire_bytes_max
from holdfast.transports.links import (
    abort,
    failed,
    ignored,
    pack_close,
    peer_name,
    shorten,
    tell,
    traffic,
    unpack_close,
)
from holdfast.transports.port import (
    BROKEN,
    NO_STATUS,
    NORMAL,
    NOT_TEXT,
    TOO_BIG,
    UNSUPPORTED,
    VANISHED,
    Accept,
    PassedLink,
    Receiver,
    Subprotocol,
    Transport,
    TransportLimits,
)
from holdfast.transports.proxies import Address, ConflictingHeaders, TrustedProxies

_Utf8Decoder = codecs.getincrementaldecoder("utf-8")


class Fragments:
    """The fragments of one message. Text is refused at the first invalid byte."""

    def __init__(self, limits: TransportLimits, *, is_text: bool, inflater: Inflater | None = None) -> None:
        """With an inflater, the message is compressed."""
        self._limits = limits
        self._wire_bytes_max = (
            limits.payload_bytes_max if inflater is None else wire_bytes_max(limits.payload_bytes_max)
        )
        self._decoder = _Utf8Decoder() if is_text else None
        self._inflater = inflater
        self.payload = bytearray()
        """The complete message, after its last fragment."""
        self._count = 0
        self._wire_bytes = 0

    def add(self, piece: bytes, *, is_last: bool) -> tuple[int, str] | None:
        """Add the next fragment; the code and the reason to close with if the message cannot become valid."""
        bytes_max = self._limits.payload_bytes_max
        self._count += 1
        # Empty fragments are legal and cost time: without this bound they could go on forever.
        if self._count > self._limits.fragments_max:
            return TOO_BIG, f"a message may have at most {self._limits.fragments_max} fragments"
        # Both sizes count, before and after it is inflated: a compressed message can be long and have no content.
        self._wire_bytes += len(piece)
        is_too_big = self._wire_bytes > self._wire_bytes_max
        if self._inflater is not None and not is_too_big:
            try:
                piece = self._inflater.read(piece, bytes_max - len(self.payload), is_last=is_last)
            except NotDeflated as error:
                return BROKEN, str(error)
        if is_too_big or len(self.payload) + len(piece) > bytes_max:
            return TOO_BIG, f"a payload may have at most {bytes_max} bytes"
        if self._decoder is not None:
            try:
                self._decoder.decode(piece, is_last)
            except UnicodeDecodeError:
                return NOT_TEXT, "the text is not UTF-8"
        self.payload += piece
        return None


# Above this size, picows' `send` on a server does not copy (see above).
_COPIED_BYTES_MAX = 8192
HEADROOM: Final = bytes(14)
"""The bytes that picows writes its header into."""

_RESERVED_BIT = (BROKEN, "a reserved bit is set without an extension")


class WebSocketTransport(WSListener):
    """One link: the port's transport and picows' listener in one object, to save calls."""

    kind: Final = "websocket"
    is_compressed = False
    datagram_bytes_max: Final = 0
    peer: str
    subprotocol: Subprotocol
    _ws: WSTransport
    _deliver: Callable[[bytes], None]

    def __init__(
        self,
        accept: Accept,
        limits: TransportLimits,
        *,
        client: Address | None = None,
        proxies: TrustedProxies | None = None,
    ) -> None:
        """The client that the PROXY protocol named; None means the peer of the socket."""
        self._accept = accept
        self._limits = limits
        self._client = client
        self._proxies = proxies
        self._receiver: Receiver | None = None
        self._tcp: asyncio.Transport | None = None
        self.is_encrypted = False
        # The message type for sending, and the one of complete received messages: None while fragments are received.
        self._opcode = WSMsgType.BINARY
        self._expected: WSMsgType | None = WSMsgType.BINARY
        self._fragments: Fragments | None = None
        self._is_congested = False
        self._deadline: asyncio.TimerHandle | None = None
        self._hearing: asyncio.Task[None] | None = None
        # Set as soon as the end is certain: from then on nothing is sent or received.
        self._end: tuple[int, str] | None = None
        self._passed: tuple[PassedLink, Callable[[Transport], None]] | None = None
        self._reached: Callable[[], None] | None = None
        self._is_paused = self._stands = False

    @property
    def buffered_bytes(self) -> int:
        return 0 if self._ws.is_disconnected else self._ws.underlying_transport.get_write_buffer_size()

    @property
    def is_up(self) -> bool:
        return self._end is None and not self._ws.underlying_transport.is_closing()

    @property
    def traffic(self) -> Traffic:
        return Traffic() if self._ws.is_disconnected else traffic(self._ws.underlying_transport)

    def send(self, payload: bytes) -> None:
        if self._end is not None:
            return
        if len(payload) <= _COPIED_BYTES_MAX:
            self._ws.send(self._opcode, payload)
        else:
            self._ws.send_reuse_external_bytearray(self._opcode, bytearray(HEADROOM + payload), len(HEADROOM))

    def send_datagram(self, payload: bytes) -> bool:
        return False

    def close(self, code: int, reason: str) -> None:
        if self._end is None:
            self._end = (code, reason)
            self._say_close(code, reason)
            # The peer's answer has not arrived yet.
            self._ws.underlying_transport.resume_reading()

    def abort(self) -> None:
        self._end = self._end or (VANISHED, "")
        if self._tcp is not None:
            abort(self._tcp)

    def pause_reading(self) -> None:
        if self._end is None:
            self._is_paused = True
            self._ws.underlying_transport.pause_reading()

    def resume_reading(self) -> None:
        if self._end is None:
            self._is_paused = False
            if not self._stands:
                self._ws.underlying_transport.resume_reading()

    # Passing it to another process

    def continues(self, passed: PassedLink, switch: Callable[[Transport], None]) -> None:
        """The link was open in another process: call `switch` instead of `opened`."""
        self._passed = (passed, switch)

    @property
    def may_pass(self) -> bool:
        return self.is_up and not self._ws.is_secure and not self._ws.is_client_side

    def stand_between(self, reached: Callable[[], None] | None) -> None:
        self._reached = reached
        if self._fragments is None:
            # What is expected does not come by the short way, which has no time to look for the place.
            self._expected = self._opcode if reached is None else None

    @property
    def descriptor(self) -> int:
        sock: socket.socket = self._ws.underlying_transport.get_extra_info("socket")
        return sock.fileno()

    @property
    def passed(self) -> PassedLink:
        return PassedLink(
            subprotocol=self.subprotocol,
            peer=self.peer,
            is_encrypted=self.is_encrypted,
            is_text=self._opcode is WSMsgType.TEXT,
        )

    def go_on(self) -> None:
        self._stands = False
        if self._end is None:
            self._ws.underlying_transport.set_write_buffer_limits(high=self._limits.write_high_bytes)
            self.read_as_wished()

    def read_as_wished(self) -> None:
        """Read, unless the receiver has paused it."""
        tcp = self._ws.underlying_transport
        if self._end is None and not tcp.is_closing():
            if self._is_paused:
                tcp.pause_reading()
            else:
                tcp.resume_reading()

    def let_go(self, code: int) -> None:
        self._end = (code, "")
        self.abort()

    def _look_between(self, frame: WSFrame) -> None:
        """Whether what is in picows' buffer ends with this frame: then all that follows is still in the socket."""
        if self._end is not None or self._fragments is not None:
            return
        if frame.tail_size or not frame.last_in_buffer:
            self._expected = None
            return
        reached, self._reached, self._expected = self._reached, None, self._opcode
        self._stands = True
        tcp = self._ws.underlying_transport
        tcp.pause_reading()
        # From now on `congested` says that the socket did not take everything, and `drained` that it has.
        tcp.set_write_buffer_limits(high=0)
        if reached is not None:
            reached()

    # Opening

    def on_ws_connected(self, transport: WSTransport) -> None:
        """The handshake is complete: open the link, unless its dialer has given up."""
        self._ws = transport
        self._tcp = transport.underlying_transport
        self.is_encrypted = self._tcp.get_extra_info("ssl_object") is not None
        self._tcp.set_write_buffer_limits(high=self._limits.write_high_bytes)
        address = self._client or self._tcp.get_extra_info("peername")
        self.peer = peer_name(address)
        if self._end is not None:
            self._tcp.abort()
            return
        if self._proxies is not None and address is not None:
            try:
                lines = transport.request.headers.getall
                client = self._proxies.client(
                    address[:2], x_forwarded_for=lines("X-Forwarded-For", ()), forwarded=lines("Forwarded", ())
                )
                self.peer = peer_name(client)
            except ConflictingHeaders as error:
                self.close(BROKEN, str(error))
                return
        # picows keeps both for as long as the link is open.
        transport.request.headers.clear()
        transport.response.headers.clear()
        tell(self, self._open)

    def _open(self) -> None:
        self._receiver = self._accept()
        if self._passed is None:
            self._speak(WSMsgType.TEXT if self.subprotocol.text else WSMsgType.BINARY)
            self._receiver.opened(self)
        else:
            (passed, switch), self._passed = self._passed, None
            self.peer, self.is_encrypted = passed.peer, passed.is_encrypted
            self._speak(WSMsgType.TEXT if passed.is_text else WSMsgType.BINARY)
            switch(self)

    def _speak(self, opcode: WSMsgType) -> None:
        assert self._receiver is not None
        self._opcode = self._expected = opcode
        self._deliver = self._deliver_text if opcode is WSMsgType.TEXT else self._receiver.received

    # Receiving

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if (
            frame.msg_type is self._expected
            and self._end is None
            # picows closes by itself after a malformed frame, and then still delivers that frame.
            and not transport.is_close_frame_sent
            and frame.fin
            and not (frame.rsv1 or frame.rsv2 or frame.rsv3)
        ):
            try:
                self._deliver(frame.get_payload_as_bytes())
            except Exception:  # noqa: BLE001 - as `tell` does, without the cost of its call
                failed(self)
        else:
            self._on_other_frame(transport, frame)

    def _deliver_text(self, payload: bytes) -> None:
        assert self._receiver is not None
        try:
            payload.decode()
        except UnicodeDecodeError:
            self.close(NOT_TEXT, "the text is not UTF-8")
        else:
            self._receiver.received(payload)

    def _on_other_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind is WSMsgType.CLOSE:
            self._on_close(transport, frame)
        elif self._end is not None or transport.is_close_frame_sent:
            pass
        elif frame.rsv1 or frame.rsv2 or frame.rsv3:
            self._on_reserved_bit(frame)
        elif kind is WSMsgType.PING or kind is WSMsgType.PONG:
            self._on_control(transport, frame)
        else:
            self._on_fragment(kind, frame.get_payload_as_bytes(), is_last=frame.fin)
        if self._reached is not None:
            self._look_between(frame)

    def _on_control(self, transport: WSTransport, frame: WSFrame) -> None:
        self._keep_busy()
        # A peer that pings and does not read gets no pongs: they would accumulate here.
        if frame.msg_type is WSMsgType.PING and self._end is None and not self._is_congested:
            transport.send_pong(frame.get_payload_as_bytes())

    def _keep_busy(self) -> None:
        if self._receiver is not None:
            tell(self, self._receiver.kept_busy)

    def _on_reserved_bit(self, frame: WSFrame) -> None:
        self.close(*_RESERVED_BIT)

    def _on_fragment(self, kind: WSMsgType, piece: bytes, *, is_last: bool, inflater: Inflater | None = None) -> None:
        """A fragment, or a complete message that is compressed or of the other type than the last."""
        is_first = kind is not WSMsgType.CONTINUATION
        if is_first and self._fragments is not None:
            self.close(BROKEN, "a message began before the previous one ended")
        elif is_first and kind is not self._opcode and self.subprotocol.text is not None:
            self.close(UNSUPPORTED, f"{self.subprotocol.name} is {'text' if self.subprotocol.text else 'binary'}")
        elif not is_first and self._fragments is None:
            self.close(BROKEN, "a continuation without a message")
        else:
            if self._fragments is None:
                self._fragments = Fragments(self._limits, is_text=kind is WSMsgType.TEXT, inflater=inflater)
                self._speak(kind)
                self._expected = None
            refusal = self._fragments.add(piece, is_last=is_last)
            if refusal is not None:
                self.close(*refusal)
            elif not is_last:
                self._keep_busy()
            else:
                payload, self._fragments, self._expected = bytes(self._fragments.payload), None, self._opcode
                assert self._receiver is not None
                tell(self, self._receiver.received, payload)

    # Closing

    def _on_close(self, transport: WSTransport, frame: WSFrame) -> None:
        if self._end is None and not transport.is_close_frame_sent:
            if frame.rsv1 or frame.rsv2 or frame.rsv3:
                self._end = _RESERVED_BIT
            else:
                self._end = unpack_close(frame.get_payload_as_bytes())
            self._say_close(*self._end)
        # Not from inside a read: with TLS, closing continues to read, back into picows' parser.
        asyncio.get_running_loop().call_soon(transport.disconnect)

    def answer_close(self) -> None:
        """Answer the peer's close frame, if one was received and not delivered yet."""
        # Before the first close frame of either side this is None, whatever picows' types say.
        handshake: WSCloseHandshake | None = self._ws.close_handshake
        said = handshake.recv if handshake is not None else None
        if self._end is None and said is not None:
            self._end = unpack_close(pack_close(int(said.code.value), said.reason or ""))
            self._say_close(*self._end)

    def _say_close(self, code: int, reason: str) -> None:
        code = NORMAL if code == NO_STATUS else code
        # The enumeration only names codes: picows accepts any.
        self._ws.send_close(code, shorten(reason))  # type: ignore[arg-type]
        self._deadline = asyncio.get_running_loop().call_later(self._limits.close_s, self.abort)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._end = self._end or self._end_by_picows(transport)
        # Nothing more is heard. The receiver knows this link: a cycle would keep both until garbage is collected.
        receiver, self._receiver, self._deliver = self._receiver, None, ignored
        if receiver is not None:
            tell(self, receiver.lost, *self._end)

    def _end_by_picows(self, transport: WSTransport) -> tuple[int, str]:
        # It closes by itself only after a malformed frame.
        if not transport.is_close_frame_sent or (said := transport.close_handshake.sent) is None:
            return VANISHED, ""
        if transport.is_client_side:
            # It stores the error for a waiter; if nothing retrieves it, asyncio would report it.
            self._hearing = asyncio.create_task(_hear_out(transport))
        return int(said.code.value), said.reason

    def pause_writing(self) -> None:
        self._is_congested = True
        if self._receiver is not None:
            tell(self, self._receiver.congested)

    def resume_writing(self) -> None:
        self._is_congested = False
        if self._receiver is not None:
            tell(self, self._receiver.drained)


async def _hear_out(transport: WSTransport) -> None:
    with contextlib.suppress(WSError):
        await transport.wait_disconnected()


class DeflatedWebSocketTransport(WebSocketTransport):
    """A compressed link of the server. A separate class, so that uncompressed links do no extra work.

    One read of the socket can contain a thousand messages that each expand to the largest payload: the receiver decides
    how much is too much.
    """

    is_compressed = True
    _take_payload: Callable[[bytes], None]

    window_bits = WINDOW_BITS
    """The window of the messages that are sent."""
    _has_sent = False

    def _speak(self, opcode: WSMsgType) -> None:
        super()._speak(opcode)
        self._take_payload, self._deliver = self._deliver, self._deliver_not_deflated

    def _deliver_not_deflated(self, payload: bytes) -> None:
        """Frames may be larger than a payload here, because compressed ones may be."""
        if len(payload) > self._limits.payload_bytes_max:
            self.close(TOO_BIG, f"a payload may have at most {self._limits.payload_bytes_max} bytes")
        else:
            self._take_payload(payload)

    @property
    def passed(self) -> PassedLink:
        return replace(super().passed, window_bits=self.window_bits)

    def continues(self, passed: PassedLink, switch: Callable[[Transport], None]) -> None:
        super().continues(passed, switch)
        self.window_bits = passed.window_bits
        self._has_sent = True

    def send(self, payload: bytes) -> None:
        # The first payload contains a secret besides data chosen by the player: its compressed size would reveal it.
        message = deflated(payload, self.window_bits) if self._has_sent and self._end is None else None
        self._has_sent = True
        if message is None:
            super().send(payload)
        else:
            buffer = bytearray(HEADROOM + message)
            self._ws.send_reuse_external_bytearray(self._opcode, buffer, len(HEADROOM), rsv1=True)

    def _on_reserved_bit(self, frame: WSFrame) -> None:
        # Set once for a message, on its first frame; never on a control frame or a continuation.
        if frame.rsv2 or frame.rsv3 or frame.msg_type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
            super()._on_reserved_bit(frame)
        else:
            self._on_fragment(frame.msg_type, frame.get_payload_as_bytes(), is_last=frame.fin, inflater=Inflater())
