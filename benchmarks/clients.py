"""Players of the benchmarks' game, in the words of each server. Raw picows: the load must cost little."""

import asyncio
import json
import time
from collections import deque
from typing import Any, ClassVar

import msgspec
import picows
from msgspec import Raw

from benchmarks.game import TEXT
from benchmarks.serving import SAMPLE, Say
from holdfast.client.protocol import ClientProtocol
from holdfast.core.codec import MSGPACK
from holdfast.core.limits import Limits
from holdfast.schemas.frames import (
    Ack,
    Auth,
    Close,
    Data,
    FromServer,
    Ping,
    Pong,
    Reply,
    Request,
    SeatFrame,
    Welcome,
)

# The SDKs acknowledge at the latest when this many messages have been applied, or after this time.
ACK_MESSAGES = Limits.ack_messages
ACK_S = Limits.client_ack_s


class Client(picows.WSListener):
    """A client of a bare server: connected is all that it can be."""

    headers: ClassVar[list[tuple[str, str]]] = []

    def __init__(self) -> None:
        self.transport: picows.WSTransport | None = None
        self.ready = asyncio.Event()
        self.done = asyncio.Event()
        self.lost = asyncio.Event()
        self.received = 0
        self.bytes = 0
        """Of the payloads with messages."""
        self.wanted = 0
        self.waits: list[float] | None = None
        """Where the time of each message goes, from when it was due until it came back."""
        self._due: deque[float] = deque()
        self._is_paced = True

    @classmethod
    async def path(cls, port: int) -> str:
        """What to connect to, after the port."""
        return ""

    @classmethod
    async def open(cls, port: int, **options: Any) -> "Client":
        """Connect, and be in the game."""
        url = f"ws://127.0.0.1:{port}/{await cls.path(port)}"
        _, client = await picows.ws_connect(
            lambda: cls(**options), url, extra_headers=cls.headers, use_aiofastnet=False, enable_auto_ping=False
        )
        assert isinstance(client, cls)
        async with asyncio.timeout(60):
            await client.ready.wait()
        return client

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        """Connected."""
        self.transport = transport
        self.begin()

    def on_ws_disconnected(self, transport: picows.WSTransport) -> None:
        """The connection is gone."""
        self.lost.set()

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """Whatever the server said."""
        if frame.msg_type is picows.WSMsgType.CLOSE:
            transport.disconnect()
        else:
            self.hear(frame.get_payload_as_bytes())

    def begin(self) -> None:
        """Nothing to agree on."""
        self.ready.set()

    def hear(self, payload: bytes) -> None:
        """One message, nearly always."""
        self.bytes += len(payload)
        self.came_back()

    def write(self, payload: bytes) -> None:
        """Send a payload, if there still is a connection."""
        if self.transport is not None and not self.lost.is_set():
            self.transport.send(picows.WSMsgType.BINARY, payload)

    def cut(self) -> None:
        """Lose the connection, without a word."""
        if self.transport is not None:
            self.transport.disconnect(False)

    # What it says

    def expect(self, messages: int, *, is_paced: bool) -> None:
        """Say so many; the next one when the last came back, unless it is paced."""
        self.wanted = self.received + messages
        self._is_paced = is_paced
        self.done.clear()
        if not messages:
            self.done.set()

    def prepare(self, messages: int) -> None:
        """Encode what will be said: a slow client would let the server fall asleep, and measure its waking up."""

    def say(self) -> None:
        """The next message."""
        self.write(SAMPLE)

    def say_due(self, due: float) -> None:
        """The next message, which should leave at this time."""
        self._due.append(due)
        self.say()

    def acknowledge(self) -> None:
        """Say what was received, as the SDKs do when nothing else is to be said for a moment."""

    @property
    def in_flight(self) -> int:
        """Said with `say_due`, and not back yet."""
        return len(self._due)

    def came_back(self) -> None:
        """A message: an echo, or what its room says to everybody."""
        self.received += 1
        if self._due and self.waits is not None:
            self.waits.append(time.perf_counter() - self._due.popleft())
        if self.received >= self.wanted:
            self.done.set()
        elif not self._is_paced:
            self.say()


# As the SDK says it, with all that the SDK can do.
_HELLO = ClientProtocol(MSGPACK, Auth(), Limits()).hello()
_BODY = Raw(MSGPACK.encode(Say(TEXT)))
_ONE_DATA = b"\x91\x96\xa4data"


class HoldfastClient(Client):
    """Speaks the protocol: numbered messages, acknowledgements."""

    headers: ClassVar[list[tuple[str, str]]] = [("Sec-WebSocket-Protocol", "holdfast.v1.msgpack")]

    def __init__(self, watched: str = "", kind: str = "arena") -> None:
        super().__init__()
        self.room = watched
        self.sent = 0
        self._acked = 0
        self._ack_timer: asyncio.TimerHandle | None = None
        name, arguments = ("spectate", {"room": watched}) if watched else ("join_or_create", {"kind": kind})
        self._request = Request(1, name, Raw(MSGPACK.encode(arguments)))
        self._ahead: deque[bytes] = deque()
        self._encoded = 0

    def begin(self) -> None:
        """Sign in."""
        self.write(_HELLO)

    def tell(self, frame: Any) -> None:
        """Send a frame."""
        self.write(MSGPACK.payload(frame))

    def prepare(self, messages: int) -> None:
        """With one message in flight each acknowledges the echo of the one before, which is known beforehand."""
        for _ in range(messages - len(self._ahead)):
            self._encoded += 1
            self._ahead.append(MSGPACK.payload(Data(1, self._encoded, self._encoded - 1, "say", _BODY)))

    def say(self) -> None:
        """The next numbered message."""
        self.sent += 1
        if self._ahead:
            self._acked = self.sent - 1
            self.write(self._ahead.popleft())
        else:
            self._encoded = self.sent
            self._acked = self.received
            self.tell(Data(1, self.sent, self.received, "say", _BODY))

    def hear(self, payload: bytes) -> None:
        """One message, nearly always; whatever else the server said is decoded."""
        if payload.startswith(_ONE_DATA):
            self.bytes += len(payload)
            self.came_back()
        else:
            for each in MSGPACK.from_server(payload):
                self.on_frame(each, len(payload))
        if self.received - self._acked >= ACK_MESSAGES:
            self.acknowledge()
        elif self._ack_timer is None and self._is_paced:
            self._ack_timer = asyncio.get_running_loop().call_later(ACK_S, self._ack_due)

    def _ack_due(self) -> None:
        self._ack_timer = None
        if self.received > self._acked:
            self.acknowledge()

    def acknowledge(self) -> None:
        """Without a message that carries it."""
        self._acked = self.received
        self.tell(Ack(1, self.received))

    def on_frame(self, frame: FromServer, size: int) -> None:
        """One frame of a payload of this size."""
        match frame:
            case Data():
                self.bytes += size
                self.came_back()
            case Ping():
                self.tell(Pong(frame.id, frame.channel, self.received))
            case Welcome():
                self.tell(self._request)
            case SeatFrame():
                self.room = frame.room
            case Reply():
                assert frame.problem is None, frame.problem
                self.ready.set()
            case Close():
                raise AssertionError(f"the server ended a client of the load: {frame}")
            case _:
                # Several messages in one frame, if the server sends them so.
                messages = getattr(frame, "messages", ())
                self.bytes += size if messages else 0
                for _ in messages:
                    self.came_back()


class ColyseusClient(Client):
    """Reserves a seat by HTTP, then takes it."""

    JOIN_ROOM, ROOM_DATA, PATCH = 10, 13, 15
    _SAY = bytes([ROOM_DATA, 0xA0 + len("say")]) + b"say" + msgspec.msgpack.encode({"text": TEXT})

    @classmethod
    async def path(cls, port: int) -> str:
        """A seat of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST /matchmake/joinOrCreate/arena HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 2\r\nConnection: close\r\n\r\n{}"
        )
        answer = await reader.read()
        writer.close()
        seat = json.loads(answer[answer.index(b"{") : answer.rindex(b"}") + 1])
        return f"{seat['processId']}/{seat['roomId']}?sessionId={seat['sessionId']}"

    def begin(self) -> None:
        """The server speaks first."""

    def hear(self, payload: bytes) -> None:
        """A message or a patch, nearly always."""
        match payload[0]:
            case self.ROOM_DATA | self.PATCH:
                self.bytes += len(payload)
                self.came_back()
            case self.JOIN_ROOM:
                self.write(bytes([self.JOIN_ROOM]))
                self.ready.set()
            case _:
                pass

    def say(self) -> None:
        """The next message."""
        self.write(self._SAY)


class SocketIoClient(Client):
    """Engine.IO over WebSocket from the start, then a namespace and a room."""

    _SAY = ("42" + json.dumps(["say", {"text": TEXT}], separators=(",", ":"))).encode()

    @classmethod
    async def path(cls, port: int) -> str:
        """The handshake of Engine.IO."""
        return "socket.io/?EIO=4&transport=websocket"

    def begin(self) -> None:
        """The server speaks first."""

    def write(self, payload: bytes) -> None:
        """As text."""
        if self.transport is not None and not self.lost.is_set():
            self.transport.send(picows.WSMsgType.TEXT, payload)

    def hear(self, payload: bytes) -> None:
        """A message, nearly always; with recovery, each one ends with its offset."""
        if payload.startswith(b"42"):
            self.bytes += len(payload)
            self.came_back()
        elif payload == b"2":
            self.write(b"3")
        elif payload.startswith(b"0"):
            self.write(b"40")
        elif payload.startswith(b"40"):
            self.write(b'420["join"]')
        elif payload.startswith(b"43"):
            self.ready.set()

    def say(self) -> None:
        """The next message."""
        self.write(self._SAY)
