"""Clients we did not write: frames are plain lists, the wire is `websockets` or a bare socket, and no rule is kept.

Only what docs/protocol.md says is used here, nothing of holdfast's own code.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.deadlines import DEADLINE_S

MSGPACK = "holdfast.v1.msgpack"
JSON = "holdfast.v1.json"

Frame = list[Any]


class End(NamedTuple):
    """How the transport ended: its close code, or 1006 if it went without a word."""

    code: int
    reason: str


class Wire(Protocol):
    """Whole payloads, or what pretends to be one."""

    async def send(self, payload: bytes) -> None:
        """Write a payload; nothing happens if the peer is gone."""

    async def receive(self) -> bytes | End:
        """The next payload, or the end."""

    async def hang_up(self) -> None:
        """Go away without a word."""


class WebSocketWire:
    """A wire of the `websockets` library."""

    def __init__(self, connection: ClientConnection, *, text: bool) -> None:
        self.connection = connection
        self._text = text

    async def send(self, payload: bytes) -> None:
        with suppress(ConnectionClosed):
            await self.connection.send(payload, text=self._text)

    async def receive(self) -> bytes | End:
        try:
            return await self.connection.recv(decode=False)
        except ConnectionClosed as error:
            said = error.rcvd
            return End(said.code, said.reason) if said is not None else End(1006, "")

    async def hang_up(self) -> None:
        self.connection.transport.abort()
        await self.connection.wait_closed()


class TcpWire:
    """A wire of a bare socket: a payload behind its length, a close frame behind a length with its top bit set."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, payload: bytes) -> None:
        await self.write(len(payload).to_bytes(4, "big") + payload)

    async def write(self, octets: bytes) -> None:
        """Write bytes with no framing at all."""
        with suppress(ConnectionError):
            self.writer.write(octets)
            await self.writer.drain()

    async def receive(self) -> bytes | End:
        try:
            length = int.from_bytes(await self.reader.readexactly(4), "big")
            body = await self.reader.readexactly(length & 0x7FFF_FFFF)
        except (asyncio.IncompleteReadError, ConnectionError):
            return End(1006, "")
        if length < 1 << 31:
            return body
        await self.write((1 << 31).to_bytes(4, "big"))
        await self.hang_up()
        return End(int.from_bytes(body[:2], "big"), body[2:].decode())

    async def hang_up(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


class Foreigner:
    """One connection that says what it is told to, whatever the rules are."""

    def __init__(self, wire: Wire, codec: str) -> None:
        self.wire = wire
        self.codec = codec
        self.welcome: Frame = []
        self.end: End | None = None
        self._heard: deque[Frame] = deque()

    def encode(self, value: Any) -> bytes:
        """Any value in this connection's codec."""
        return msgspec.msgpack.encode(value) if self.codec == MSGPACK else json.dumps(value).encode()

    def decode(self, payload: bytes) -> Any:
        return msgspec.msgpack.decode(payload) if self.codec == MSGPACK else json.loads(payload)

    async def say(self, *frames: Frame) -> None:
        """One payload of these frames."""
        await self.say_bytes(self.encode(list(frames)))

    async def say_bytes(self, payload: bytes) -> None:
        await self.wire.send(payload)

    async def hear(self, name: str, where: Callable[[Frame], bool] = lambda _: True) -> Frame:
        """The next frame of this name; the others before it are passed over."""
        while True:
            while self._heard:
                frame = self._heard.popleft()
                if frame[0] == name and where(frame):
                    return frame
            if not await self._listen():
                raise AssertionError(f"the connection ended with {self.end} and no {name} came")

    async def hear_next(self, name: str) -> Frame:
        """The next frame of this name; the others stay to be heard."""
        while True:
            for place, frame in enumerate(self._heard):
                if frame[0] == name:
                    del self._heard[place]
                    return frame
            if not await self._listen():
                raise AssertionError(f"the connection ended with {self.end} and no {name} came")

    async def hear_any(self, *names: str) -> Frame:
        """The next frame of one of these names."""
        while True:
            while self._heard:
                frame = self._heard.popleft()
                if frame[0] in names:
                    return frame
            if not await self._listen():
                raise AssertionError(f"the connection ended with {self.end} and none of {names} came")

    async def hear_end(self) -> tuple[Frame | None, End]:
        """The close frame, if there was one, and how the transport ended."""
        while await self._listen():
            pass
        assert self.end is not None
        return next((frame for frame in self._heard if frame[0] == "close"), None), self.end

    async def _listen(self) -> bool:
        if self.end is not None:
            return False
        async with asyncio.timeout(DEADLINE_S):
            heard = await self.wire.receive()
        if isinstance(heard, End):
            self.end = heard
            return False
        self._heard += self.decode(heard)
        return True

    # The few things that a peer who keeps the rules would do

    async def sign_in(self) -> Frame:
        """Become a guest: the welcome."""
        await self.say(["hello", {"scheme": "guest"}])
        self.welcome = await self.hear("welcome")
        return self.welcome

    async def come_back(self, welcome: Frame, *positions: dict[str, int]) -> Frame:
        """Resume the session of an earlier welcome: the new one."""
        resume = {"session": welcome[1], "token": welcome[3], "positions": list(positions)}
        await self.say(["hello", None, resume])
        self.welcome = await self.hear("welcome")
        return self.welcome

    async def ask(self, request_id: int, operation: str, arguments: Any) -> Frame:
        """The reply to a request."""
        await self.say(["request", request_id, operation, arguments])
        return await self.hear("reply", lambda frame: bool(frame[1] == request_id))

    async def sit_down(self, room: str) -> int:
        """Sign in and join: the number of the seat's channel."""
        await self.sign_in()
        await self.say(["request", 1, "join", {"room": room}])
        seat = await self.hear("seat")
        await self.hear("reply")
        assert seat[1] == "joined"
        channel: int = seat[2]
        return channel

    async def hear_ack(self, channel: int, ack: int) -> None:
        """Until everything up to this number has been acknowledged, with whatever frame."""
        places = {"data": (1, 3), "ack": (1, 2), "ping": (2, 3)}
        while True:
            while self._heard:
                frame = self._heard.popleft()
                if frame[0] in places and [frame[place] for place in places[frame[0]]] == [channel, ack]:
                    return
            if not await self._listen():
                raise AssertionError(f"the connection ended with {self.end} and {ack} was not acknowledged")

    async def message(self, kind: str) -> Frame:
        """The next data frame with a message of this type."""
        return await self.hear("data", lambda frame: bool(frame[4] == kind))


class Door(NamedTuple):
    """A way in and what is spoken behind it."""

    transport: str
    codec: str

    @asynccontextmanager
    async def enter(self, addresses: dict[str, tuple[str, int]]) -> AsyncIterator[Foreigner]:
        """A connection whose codec is agreed on and that has not said hello."""
        host, port = addresses[self.transport]
        if self.transport == "websocket":
            async with connect(
                f"ws://{host}:{port}",
                subprotocols=[Subprotocol(self.codec)],
                compression=None,
                ping_interval=None,
                proxy=None,
                close_timeout=DEADLINE_S,
            ) as connection:
                yield Foreigner(WebSocketWire(connection, text=self.codec == JSON), self.codec)
        else:
            wire = await bare_socket(host, port)
            try:
                await wire.send(self.codec.encode())
                assert await wire.receive() == self.codec.encode()
                yield Foreigner(wire, self.codec)
            finally:
                await wire.hang_up()

    def __str__(self) -> str:
        return f"{self.transport}-{self.codec.rpartition('.')[2]}"


async def bare_socket(host: str, port: int) -> TcpWire:
    """A socket on which nothing has been said."""
    return TcpWire(*await asyncio.open_connection(host, port))


DOORS = [Door(transport, codec) for transport in ("websocket", "tcp") for codec in (MSGPACK, JSON)]
