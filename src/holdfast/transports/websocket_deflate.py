"""A link over WebSocket whose messages are deflated, as was agreed on when it opened; `deflate.py` has the rules."""

from collections.abc import Callable

from picows import WSFrame, WSMsgType

from holdfast.transports.deflate import Agreement, Inflater, deflated
from holdfast.transports.forwarded import Address, TrustedProxies
from holdfast.transports.port import TOO_BIG, Accept, TransportLimits
from holdfast.transports.websocket_link import HEADROOM, WebSocketTransport


class DeflatedWebSocketTransport(WebSocketTransport):
    """One link, as the server sees it. A class of its own, so that a link without compression does no more than before.

    A read of the socket can be a thousand messages that become as large as a payload may be, each delivered by itself:
    how much of that is too much is for the receiver to say.
    """

    is_compressed = True
    _take_payload: Callable[[bytes], None]

    def __init__(
        self,
        accept: Accept,
        limits: TransportLimits,
        agreement: Agreement,
        *,
        client: Address | None = None,
        proxies: TrustedProxies | None = None,
    ) -> None:
        super().__init__(accept, limits, client=client, proxies=proxies)
        self._window_bits = agreement.window_bits
        self._has_sent = False

    def _speak(self, opcode: WSMsgType) -> None:
        super()._speak(opcode)
        self._take_payload, self._deliver = self._deliver, self._deliver_not_deflated

    def _deliver_not_deflated(self, payload: bytes) -> None:
        """A frame may be larger than a payload here, because a deflated one may be."""
        if len(payload) > self._limits.payload_bytes_max:
            self.close(TOO_BIG, f"a payload may have {self._limits.payload_bytes_max} bytes")
        else:
            self._take_payload(payload)

    def send(self, payload: bytes) -> None:
        # The first payload has a secret in it, and what a player chose beside it: its size would tell.
        message = deflated(payload, self._window_bits) if self._has_sent and self._end is None else None
        self._has_sent = True
        if message is None:
            super().send(payload)
        else:
            buffer = bytearray(HEADROOM + message)
            self._ws.send_reuse_external_bytearray(self._opcode, buffer, len(HEADROOM), rsv1=True)

    def _on_reserved_bit(self, frame: WSFrame) -> None:
        # Said once for a message, by its first frame; never by one that is no part of a message.
        if frame.rsv2 or frame.rsv3 or frame.msg_type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
            super()._on_reserved_bit(frame)
        else:
            self._on_fragment(frame.msg_type, frame.get_payload_as_bytes(), is_last=frame.fin, inflater=Inflater())
