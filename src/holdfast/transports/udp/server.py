"""The server's end: which datagram belongs to which connection, and where its client can be reached.

An address is proven when it repeats a cookie, which was sent there. Until then nothing is sent there but the challenge
with the cookie, which is as long as the ping that asked for it; and the server keeps nothing of it, since the cookie is
a MAC of the address. Whoever copies a client's datagrams and sends them from elsewhere so gets nothing sent there.
"""

import asyncio
from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol

from holdfast.core.tokens import printable
from holdfast.schemas.frames import Datagrams
from holdfast.transports.datagram_sockets import Address
from holdfast.transports.port import TransportLimits
from holdfast.transports.repeat import Repeat
from holdfast.transports.udp.seal import (
    COOKIE_BYTES,
    FROM_CLIENT,
    ID_BYTES,
    KEY_BYTES,
    PING_S_MIN,
    DatagramKind,
    Refusal,
    Seal,
    id_of,
)

# A cookie is good for one to two of these.
_COOKIE_S = 8.0


class ServerUdp(Protocol):
    """What a server's socket does."""

    def write(self, address: Address | None, datagrams: list[bytes]) -> None: ...


class ServerPath:
    """The datagrams of one connection."""

    def __init__(
        self,
        paths: "UdpPaths",
        connection_id: bytes,
        key: bytes,
        deliver: Callable[[bytes], None],
        limits: TransportLimits,
    ) -> None:
        self.offer = Datagrams(
            id=connection_id.hex(),
            secret=printable(key),
            host=paths.host,
            port=paths.port,
            bytes_max=limits.datagram_bytes_max,
            ping_s=max(limits.udp_ping_s, PING_S_MIN),
            # At least one ping may be lost.
            silence_s=max(limits.udp_silence_s, 2.5 * max(limits.udp_ping_s, PING_S_MIN)),
        )
        """What the client is told."""
        self._paths = paths
        self._id = connection_id
        self._seal = Seal(key, connection_id, FROM_CLIENT)
        self._deliver = deliver
        self._limits = limits
        # Where the client is, once that is proven.
        self._socket: ServerUdp | None = None
        self._address: Address = ()
        self._heard_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._repeat = Repeat(limits)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def bytes_max(self) -> int:
        """The largest payload that `send` takes now; 0 while the client is not heard on UDP."""
        if self._socket is None or self._loop.time() - self._heard_at > self.offer.silence_s:
            return 0
        return self._limits.datagram_bytes_max

    def send(self, payload: bytes) -> bool:
        """Send a payload that may be lost; False: use the stream."""
        if len(payload) > self.bytes_max:
            return False
        datagram = self._seal.seal(DatagramKind.SERVER_LATEST, payload)
        self._write(datagram)
        self._repeat.newest(datagram, self._loop.time())
        self._arm()
        return True

    def close(self) -> None:
        """The connection is over: what still comes for it is dropped."""
        self._socket = None
        if self._timer is not None:
            self._timer.cancel()
        self._paths.forget(self._id)

    def received(self, data: bytes, socket: ServerUdp, address: Address) -> Refusal | None:
        """A datagram with the id of this connection has come from there; why it is dropped, if it is."""
        opened = self._seal.open(data)
        if isinstance(opened, Refusal):
            return opened
        is_proven = address == self._address and socket is self._socket
        if opened.kind == DatagramKind.PING:
            if not is_proven and self._paths.is_cookie(opened.contents, self._id, address):
                self._socket, self._address, is_proven = socket, address, True
            if is_proven:
                answer = self._seal.seal(DatagramKind.PONG, opened.number.to_bytes(COOKIE_BYTES, "big"))
            else:
                answer = self._seal.seal(DatagramKind.CHALLENGE, self._paths.cookie(self._id, address))
            assert len(answer) <= len(data), "an address that is not proven gets no more than it sent"
            socket.write(address, [answer])
        if is_proven:
            self._heard_at = self._loop.time()
        if opened.kind == DatagramKind.CLIENT_LATEST:
            self._deliver(opened.contents)
        return None

    def _write(self, datagram: bytes) -> None:
        if self._socket is not None:
            self._socket.write(self._address, [datagram])

    def _arm(self) -> None:
        """One timer; one that is early asks again, and is not moved with every datagram."""
        if self._timer is None and self._repeat.due_at is not None:
            self._timer = self._loop.call_at(self._repeat.due_at, self._send_again)

    def _send_again(self) -> None:
        self._timer = None
        if (datagram := self._repeat.take(self._loop.time())) is not None and self.bytes_max:
            self._write(datagram)
        self._arm()


class UdpPaths:
    """The datagrams of all connections of a server. No more of them than connections, which are limited."""

    def __init__(
        self,
        limits: TransportLimits,
        random_bytes: Callable[[int], bytes],
        refused: Callable[[Refusal], None],
    ) -> None:
        self._limits = limits
        self._random_bytes = random_bytes
        self._refused = refused
        # Made for the first path.
        self._secret = b""
        self._paths: dict[bytes, ServerPath] = {}
        self.host = ""
        """Where clients send their datagrams, if not where their stream goes."""
        self.port = 0
        """0: this server has no port for them."""

    def __len__(self) -> int:
        return len(self._paths)

    def open(self, deliver: Callable[[bytes], None]) -> ServerPath | None:
        """A path for one connection, with a key of its own; None if there is no port."""
        if not self.port:
            return None
        self._secret = self._secret or self._random_bytes(KEY_BYTES)
        connection_id = self._random_bytes(ID_BYTES)
        path = ServerPath(self, connection_id, self._random_bytes(KEY_BYTES), deliver, self._limits)
        self._paths[connection_id] = path
        return path

    def forget(self, connection_id: bytes) -> None:
        self._paths.pop(connection_id, None)

    def received(self, data: bytes, socket: ServerUdp, address: Address) -> None:
        """A datagram has come, from anybody."""
        path = self._paths.get(id_of(data))
        refusal = Refusal.UNKNOWN if path is None else path.received(data, socket, address)
        if refusal is not None:
            self._refused(refusal)

    def cookie(self, connection_id: bytes, address: Address, *, age: int = 0) -> bytes:
        """What only somebody who receives at this address can repeat."""
        period = int(asyncio.get_running_loop().time() / _COOKIE_S) - age
        text = f"{address} {period}".encode()
        return blake2b(connection_id + text, key=self._secret, digest_size=COOKIE_BYTES).digest()

    def is_cookie(self, cookie: bytes, connection_id: bytes, address: Address) -> bool:
        return cookie in {self.cookie(connection_id, address), self.cookie(connection_id, address, age=1)}
