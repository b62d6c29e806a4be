"""A bus on which relayed clients go from node to node over Unix sockets, if both nodes are on this machine.

All else, and what goes to other machines, goes by the bus beneath. The sockets are in a folder of one user:
who can open it is a node of the same game. As on a bus, messages may be lost with a link, but none is doubled or
overtaken: a node keeps to one way for each life that it speaks to.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from holdfast.cluster.port import Answer, Bus, Heard, NoReply
from holdfast.core.limits import MIB

_RELAY = "relay."
_HEAD = struct.Struct("!I")
# A message is far smaller, see `relay_message_bytes_max`.
_MESSAGE_BYTES_MAX = 4 * MIB
_BACKLOG = 128


class DirectBus:
    """The bus of the node with this life; `folder` is the descriptor of the folder. For Linux."""

    def __init__(self, bus: Bus, life: str, folder: int) -> None:
        self._bus = bus
        self._topic = f"{_RELAY}{life}"
        # As short as an address of such a socket has to be, wherever the folder is.
        self._folder = Path(f"/proc/self/fd/{folder}")
        self._own = self._folder / life
        self._heard: Heard = lambda _topic, _payload: None
        self._server: asyncio.Server | None = None
        self._links: dict[str, DirectLink] = {}
        self._incoming: set[DirectLink] = set()

    async def open(self) -> None:
        await self._bus.open()
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self._own))
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        self._server = await asyncio.get_running_loop().create_unix_server(self._accept, sock=listening)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                os.unlink(self._own)  # noqa: PTH108 - asynchronous code has no other way that is quicker
        for link in (*self._links.values(), *self._incoming):
            link.abort()
        await self._bus.close()

    def on_reconnect(self, heard: Callable[[], None]) -> None:
        self._bus.on_reconnect(heard)

    async def reaches_most(self) -> bool:
        return await self._bus.reaches_most()

    async def tell(self, topic: str, payload: bytes) -> None:
        life = topic.removeprefix(_RELAY)
        if life == topic:
            await self._bus.tell(topic, payload)
            return
        link = self._links.get(life)
        if link is None:
            try:
                link = await self._dial(life)
            except FileNotFoundError:
                # It is on another machine.
                await self._bus.tell(topic, payload)
                return
            except OSError as error:
                raise NoReply(f"the node {life} takes no link: {error.strerror}") from error
        if link.is_lost:
            self._links.pop(life, None)
            raise NoReply(f"the link to the node {life} is lost")
        link.send(payload)

    async def listen(self, topic: str, heard: Heard) -> None:
        if topic == self._topic:
            self._heard = heard
        await self._bus.listen(topic, heard)

    async def answer(self, topic: str, answer: Answer) -> None:
        await self._bus.answer(topic, answer)

    async def ask(self, topic: str, payload: bytes, within_s: float) -> bytes:
        return await self._bus.ask(topic, payload, within_s)

    async def _dial(self, life: str) -> "DirectLink":
        loop = asyncio.get_running_loop()
        link = DirectLink(lambda _: None, lambda _: self._links.pop(life, None))
        await loop.create_unix_connection(lambda: link, str(self._folder / life))
        self._links[life] = link
        return link

    def _accept(self) -> "DirectLink":
        link = DirectLink(lambda payload: self._heard(self._topic, payload), self._incoming.discard)
        self._incoming.add(link)
        return link


class DirectLink(asyncio.Protocol):
    """One socket: messages go one way, each with its length before it."""

    def __init__(self, heard: Callable[[bytes], None], lost: Callable[["DirectLink"], object]) -> None:
        self.is_lost = False
        self._heard = heard
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none by their type.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._lost(self)

    def send(self, payload: bytes) -> None:
        """Send one message. What waits here is bounded by `relay_line_bytes_max`."""
        assert self._transport is not None
        self._transport.write(_HEAD.pack(len(payload)) + payload)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        buffer = self._data
        buffer += data
        start = 0
        while len(buffer) - start >= _HEAD.size:
            [size] = _HEAD.unpack_from(buffer, start)
            if size > _MESSAGE_BYTES_MAX:
                self.abort()
                return
            end = start + _HEAD.size + size
            if end > len(buffer):
                break
            self._heard(bytes(buffer[start + _HEAD.size : end]))
            start = end
        del buffer[:start]
