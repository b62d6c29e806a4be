"""A bad network for ENet: a UDP proxy of one client that loses packets, and takes other addresses as a NAT does."""

import asyncio
from random import Random
from typing import Any, Self

from holdfast.cli.demo.proxy import Cut

LOSS = 0.02
"""Of all packets, each way."""


class _Outside(asyncio.DatagramProtocol):
    """The side of the server."""

    def __init__(self, proxy: "UdpProxy") -> None:
        self._proxy = proxy

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._proxy.came_back(self, data)


class UdpProxy(asyncio.DatagramProtocol):
    """Forwards the packets of one client: `await proxy.start()`, then dial its address."""

    def __init__(self, host: str, port: int, *, random: Random, delay_s: float = 0.0) -> None:
        self.cuts = 0
        """How often the client's address was changed."""
        self.target = (host, port)
        """The server's address."""
        self._random = random
        self._delay_s = delay_s
        self._is_plugged = True
        self._client: Any = None
        self._inside: Any = None
        self._outside: Any = None
        self._side: _Outside | None = None

    @property
    def address(self) -> tuple[str, int]:
        assert self._inside is not None, "start the proxy first"
        host, port = self._inside.get_extra_info("sockname")
        return host, port

    async def start(self) -> None:
        """Listen on a free port."""
        loop = asyncio.get_running_loop()
        self._inside, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        await self._change_address()

    async def stop(self) -> None:
        """Forward nothing more."""
        for side in (self._inside, self._outside):
            if side is not None:
                side.close()

    async def cut(self, _: Cut = Cut.RESET) -> None:
        """The server does not know the client any more: its packets come from another address."""
        await self._change_address()
        self.cuts += 1

    def pull(self) -> None:
        """Forward nothing until `plug`."""
        self._is_plugged = False

    def plug(self) -> None:
        self._is_plugged = True

    async def _change_address(self) -> None:
        before = self._outside
        loop = asyncio.get_running_loop()
        self._side = _Outside(self)
        side = self._side
        self._outside, _ = await loop.create_datagram_endpoint(lambda: side, local_addr=("127.0.0.1", 0))
        if before is not None:
            before.close()

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._client = addr
        self._later(self._outside, data, self.target)

    def came_back(self, side: _Outside, data: bytes) -> None:
        """A packet of the server, if it is for the client's present address."""
        if side is self._side:
            self._later(self._inside, data, self._client)

    def _later(self, way: Any, data: bytes, to: object) -> None:
        if self._is_plugged and self._random.random() >= LOSS:
            asyncio.get_running_loop().call_later(self._delay_s, self._send, way, data, to)

    @staticmethod
    def _send(way: Any, data: bytes, to: object) -> None:
        if not way.is_closing():
            way.sendto(data, to)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
