"""The client's end: it pings until the server answers, and says whether datagrams get through."""

import asyncio
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from holdfast.logs import get_logger
from holdfast.schemas.frames import Datagrams
from holdfast.transports.port import TransportLimits
from holdfast.transports.repeat import Repeat
from holdfast.transports.udp.seal import (
    COOKIE_BYTES,
    FROM_SERVER,
    ID_BYTES,
    KEY_BYTES,
    PING_S_MIN,
    DatagramKind,
    Refusal,
    Seal,
)

_log = get_logger("holdfast.client")

# Pings until the first answer: soon at first, for the first may be lost; then seldom, for UDP may be blocked.
_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 30.0
# What a server may ask for: a client is not to be made to flood anybody.
_SILENCE_S_MAX, _PORT_MAX = 3600.0, 0xFFFF
# Pings whose answer may still come.
_PINGS_MAX = 8


class ClientUdp(Protocol):
    """A UDP socket that is connected to the server."""

    def send(self, datagram: bytes) -> None: ...

    def close(self) -> None: ...


OpenUdp = Callable[[str, int, Callable[[bytes], None]], Awaitable[ClientUdp]]
"""Opens a socket to a host and port; each datagram that comes back is passed to the callable. Raises `OSError`."""


class ClientPath:
    """The datagrams of one connection, from its welcome to its end."""

    def __init__(
        self, offer: Datagrams, host: str, open_udp: OpenUdp, deliver: Callable[[bytes], None], limits: TransportLimits
    ) -> None:
        """`ValueError` for an offer that cannot be used."""
        try:
            connection_id, key = bytes.fromhex(offer.id), urlsafe_b64decode(offer.secret + "=")
        except (ValueError, NotBase64):
            raise ValueError("the key for datagrams is not one") from None
        if len(connection_id) != ID_BYTES or len(key) != KEY_BYTES:
            raise ValueError("the key for datagrams is not one")
        # Not `<`: a NaN is refused, too.
        if not (PING_S_MIN <= offer.ping_s < offer.silence_s <= _SILENCE_S_MAX and 0 < offer.port <= _PORT_MAX):
            raise ValueError("datagrams cannot be sent on these terms")
        self._offer = offer
        self._host = offer.host or host
        self._open_udp = open_udp
        self._deliver = deliver
        self._seal = Seal(key, connection_id, FROM_SERVER)
        self._loop = asyncio.get_running_loop()
        self._socket: ClientUdp | None = None
        self._cookie = bytes(COOKIE_BYTES)
        # The pings whose answer may come: number and time.
        self._pings: deque[tuple[int, float]] = deque(maxlen=_PINGS_MAX)
        # When the last ping was sent that was answered.
        self._proven_at: float | None = None
        self._answered = asyncio.Event()
        self._repeat = Repeat(limits)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether datagrams get through, both ways."""
        return self._proven_at is not None and self._loop.time() - self._proven_at <= self._offer.silence_s

    @property
    def bytes_max(self) -> int:
        """The largest payload that `send` takes now; 0: use the stream."""
        return self._offer.bytes_max if self.is_open else 0

    def send(self, payload: bytes) -> bool:
        """Send a payload that may be lost; False: use the stream."""
        if self._socket is None or len(payload) > self.bytes_max:
            return False
        datagram = self._seal.seal(DatagramKind.CLIENT_LATEST, payload)
        self._socket.send(datagram)
        self._repeat.newest(datagram, self._loop.time())
        self._arm()
        return True

    async def run(self) -> None:
        """Keep the path open, until this is cancelled."""
        while True:
            try:
                self._socket = await self._open_udp(self._host, self._offer.port, self._received)
                await self._find_a_way()
                _log.info("unreliable messages go over UDP", host=self._host, port=self._offer.port)
                await self._keep_open()
                # Another socket may get through.
                _log.info("UDP does not get through; unreliable messages go over the stream", host=self._host)
            except OSError as error:
                _log.info("UDP cannot be used", error=error)
                await asyncio.sleep(_LONGEST_WAIT_S)
            finally:
                self._close()

    async def _find_a_way(self) -> None:
        wait_s = _FIRST_WAIT_S
        self._answered.clear()
        while not self.is_open:
            self._ping()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._answered.wait()
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    async def _keep_open(self) -> None:
        while self.is_open:
            await asyncio.sleep(self._offer.ping_s)
            self._ping()

    def _ping(self) -> None:
        if self._socket is not None:
            datagram = self._seal.seal(DatagramKind.PING, self._cookie)
            self._pings.append((self._seal.sent, self._loop.time()))
            self._socket.send(datagram)

    def _received(self, data: bytes) -> None:
        opened = self._seal.open(data)
        if isinstance(opened, Refusal):
            return
        match opened.kind:
            case DatagramKind.SERVER_LATEST:
                self._deliver(opened.contents)
            case DatagramKind.PONG:
                number = int.from_bytes(opened.contents, "big")
                self._proven_at = next((at for each, at in self._pings if each == number), self._proven_at)
                self._answered.set()
            case DatagramKind.CHALLENGE if opened.contents != self._cookie:
                # This address is new to the server.
                self._cookie = opened.contents
                self._ping()

    def _arm(self) -> None:
        if self._timer is None and self._repeat.due_at is not None:
            self._timer = self._loop.call_at(self._repeat.due_at, self._send_again)

    def _send_again(self) -> None:
        self._timer = None
        if (datagram := self._repeat.take(self._loop.time())) is not None and self._socket is not None:
            self._socket.send(datagram)
        self._arm()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
