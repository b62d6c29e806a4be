"""picows' protocol for one accepted connection; there is no public API for making one. See picows' api.py."""

import asyncio
from typing import cast
from weakref import ReferenceType

from picows import WSAutoPingStrategy, WSUpgradeRequest, WSUpgradeResponseWithListener
from picows.picows import WSProtocol  # type: ignore[attr-defined]  # not public, see above

from holdfast.transports.deflate import wire_bytes_max
from holdfast.transports.port import TransportLimits
from holdfast.transports.websocket_link import WebSocketTransport

# picows' minimum. It doubles when needed, up to twice the largest payload; an idle client needs no more.
READ_BUFFER_BYTES = 2048


class PicowsAnswers:
    """Answers one upgrade request, and acts as picows' logger for its connection. Nothing is logged: any peer could
    fill a disk."""

    __slots__ = ("_link", "is_compressed")

    def __init__(self, *, is_compressed: bool) -> None:
        self.is_compressed = is_compressed
        # Weak, because the link refers to picows' transport, which refers to its logger.
        self._link: ReferenceType[WebSocketTransport] | None = None

    def answer(self, request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        """The answer to the HTTP request, and the link, if it is accepted."""
        raise NotImplementedError

    def over(self) -> None:
        """The connection has ended."""

    def isEnabledFor(self, _: int) -> bool:  # noqa: N802 - logging's name
        return False

    def error(self, *_: object) -> None:
        """A frame is malformed, and picows is about to close: the last moment to answer a close frame before it."""
        link = self._link() if self._link is not None else None
        if link is not None:
            link.answer_close()

    def info(self, *_: object) -> None:
        """A connection was opened or closed."""

    debug = warning = exception = log = info


class _Protocol(WSProtocol):  # type: ignore[misc]  # see above
    """picows' protocol, which by itself does not report an end before the WebSocket is open."""

    __slots__ = ("answers",)
    answers: PicowsAnswers

    def connection_lost(self, exc: Exception | None) -> None:
        self.answers.over()
        super().connection_lost(exc)


def picows_protocol(answers: PicowsAnswers, limits: TransportLimits) -> asyncio.BufferedProtocol:
    """The object that picows' `ws_create_server` creates for each connection."""
    bytes_max = limits.payload_bytes_max
    protocol = _Protocol(
        None,  # host and port, of a client
        None,  # path, of a client
        False,  # whether it is a client
        answers.answer,
        answers,
        True,  # disconnect on an exception
        limits.handshake_s,
        False,  # automatic pings, and after how long
        limits.handshake_s,
        limits.handshake_s,
        WSAutoPingStrategy.PING_WHEN_IDLE,
        False,  # automatic pongs
        wire_bytes_max(bytes_max) if answers.is_compressed else bytes_max,
        None,  # headers, of a client
        READ_BUFFER_BYTES,
    )
    protocol.answers = answers
    return cast("asyncio.BufferedProtocol", protocol)
