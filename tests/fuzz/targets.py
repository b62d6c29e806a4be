"""What is fuzzed. A target takes any bytes; it raises only if there is a bug."""

import asyncio
import socket
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from struct import Struct
from typing import Any, NoReturn
from zlib import crc32

from msgspec import Raw

import holdfast
from holdfast import Message, Player, PlayerData, Room, Server, on
from holdfast.client.saved import SavedState
from holdfast.core.codec import DECODE_ERRORS, JSON, MSGPACK, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.connection import Traffic
from holdfast.core.errors import Invalid, ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.nesting import bounded_decoders, has_text_keys
from holdfast.core.records import Unreadable, decode_effect, decode_room, decode_send, decode_session
from holdfast.core.room_file import NotARoom, from_text
from holdfast.core.tokens import TOKEN_BYTES, ResumeTokens, Verdict
from holdfast.identity import Guest, NotAuthentic
from holdfast.schemas.frames import Hello
from holdfast.search import parse_query
from holdfast.server.context import Environment
from holdfast.transports import tcp, websocket
from holdfast.transports.enet import wire
from holdfast.transports.enet.endpoint import ServerSocket
from holdfast.transports.enet.peer import Peer, PeerState
from holdfast.transports.http_upgrade import Origins
from holdfast.transports.listening import PendingConnection, PendingConnections, SocketListener
from holdfast.transports.port import Subprotocol, TransportLimits
from holdfast.transports.proxies import TrustedProxies
from holdfast.transports.udp.client import ClientPath
from holdfast.transports.udp.seal import DatagramKind, Refusal, Seal
from holdfast.transports.udp.server import UdpPaths
from tests.fuzz.dead_end import DeadEnd, Listening

PIECES_MAX = 64
"""Of an input that is written byte by byte; the rest follows at once."""

Target = Callable[[bytes], None]


def frames(payload: bytes) -> None:
    """Both ends of the wire, in both subprotocols: what is read can be written."""
    for codec in CODECS.values():
        for read in (codec.from_client, codec.from_server):
            with suppress(ProtocolError):
                codec.payload(*read(payload))


class Anything(Message):
    """A message of which the game takes whatever there is."""

    value: Any = None


_BODIES = bounded_decoders(
    {codec: codec.body_decoder(Anything) for codec in CODECS.values()}, 32, text_keys=has_text_keys(Anything)
)


def bodies(data: bytes) -> None:
    """What a game is given of a client, it can pass on to every other, whatever those speak."""
    for codec, decoder in _BODIES.items():
        with suppress(*DECODE_ERRORS):
            # As with a frame: a body is whole, or its frame is refused.
            body = codec.body_decoder(Raw).decode(data)
            message = decoder.decode(body)
            for other in CODECS.values():
                try:
                    other.encode(message)
                except (TypeError, ValueError) as error:
                    raise AssertionError(f"{message} cannot be passed on: {error}") from error


def tokens(data: bytes) -> None:
    """A token is good only if it was issued."""
    issued = ResumeTokens(8)
    good = issued.issue(bytes(TOKEN_BYTES))
    text = data.decode("utf-8", "surrogatepass" if len(data) % 2 else "replace") if _is_text(data) else repr(data)
    if text != good:
        assert issued.present(text) is Verdict.UNKNOWN
    with suppress(NotAuthentic):
        guest = Guest(bytes(TOKEN_BYTES), Random(0)).prove(text)
        # Only an empty credential makes a guest of a stranger.
        assert not text or guest.credential == text


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def searches(data: bytes) -> None:
    """A search is understood, or refused with a sentence."""
    where, _, order_by = data.decode("utf-8", "replace").partition("\n")
    with suppress(Invalid):
        parse_query(where, order_by.split(",") if order_by else [])


# As core/records.py writes it: a record that is damaged is refused by its checksum, so this one is made right.
_HEAD = Struct(">BI")


def records(data: bytes) -> None:
    """What comes out of a store is read, or named unreadable."""
    for stored in (data, _with_checksum(data)):
        for decode in (decode_room, decode_session, decode_send, decode_effect):
            with suppress(Unreadable):
                decode(stored)
    with suppress(NotARoom):
        from_text(data.decode("utf-8", "replace"))
    with suppress(Invalid):
        SavedState.read(data)


def _with_checksum(data: bytes) -> bytes:
    version = data[0] % 8 if data else 1
    return _HEAD.pack(version, crc32(data[1:], version)) + data[1:]


# The handshake, and everything that can follow it, against a real node


class Say(Message):
    """Something that the room can hear."""

    text: str


class Chat(Room[PlayerData]):
    """A room to be spoken to."""

    @on(Say)
    def said(self, player: Player[PlayerData], message: Say) -> None:
        """Say it back."""
        player.send(message)


class Wire:
    """A transport that leads nowhere."""

    kind = "fuzz"
    datagram_bytes_max = 0
    peer = "203.0.113.7:1"
    buffered_bytes = 0
    is_up = True
    traffic = Traffic()
    is_encrypted = False
    is_compressed = False

    def __init__(self, codec: Codec) -> None:
        self.subprotocol = Subprotocol(codec.name, codec.text)

    def send(self, payload: bytes) -> None:
        """Nobody hears it."""

    def send_datagram(self, payload: bytes) -> bool:
        """Nor this."""
        return False

    def close(self, code: int, reason: str) -> None:
        """Nobody hears that either."""

    def abort(self) -> None:
        """There is nothing to cut."""

    def pause_reading(self) -> None:
        """Nobody writes."""

    def resume_reading(self) -> None:
        """Nobody waited."""


class Handshake:
    """Strangers say anything to a node; what is after a NUL byte is said by somebody who has signed in."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        # Nobody waits, and nobody is turned away for coming too often.
        limits = replace(Limits(), hellos_per_address_burst=10**9, sign_ins_per_s=1e9, resumes_per_s=1e9)
        self._server = Server([Chat], listen=[], limits=limits, _environment=Environment(random=Random(0)))
        self._runner.run(self._server.start())

    def __call__(self, data: bytes) -> None:
        """One stranger."""
        self._runner.run(self._talk(data))

    async def _talk(self, data: bytes) -> None:
        node = self._server.parts
        for codec in (MSGPACK, JSON):
            connection = node.accept()
            connection.opened(Wire(codec))
            stranger, signed_in, more = data.partition(b"\0")
            if signed_in:
                connection.received(codec.payload(Hello(holdfast.Auth())))
            connection.received(more if signed_in else stranger)
            # Requests are answered in a turn of the loop of their own.
            for _ in range(4):
                await asyncio.sleep(0)
            connection.lost(1006, "")
        for session in node.sessions:
            session.end()
        assert node.context.counters.internal_errors == 0
        assert not node.connections

    def close(self) -> None:
        """The end of the node."""
        self._runner.run(self._server.stop())
        self._runner.close()


# The doors, before there is a link


class Doors:
    """Strangers write anything to the sockets of the WebSocket and the TCP door, in one piece and byte by byte.

    Whatever they write, no protocol raises: the event loop would log it, with a traceback for each.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        limits = TransportLimits.of(Limits())
        self._pending_connections = PendingConnections(limits)
        listener = SocketListener(self._pending_connections)
        subprotocols = [Subprotocol(codec.name, codec.text) for codec in CODECS.values()]
        self._websocket = websocket.WebSocketEndpoint(
            listener=listener,
            accept=Listening,
            subprotocols=subprotocols,
            limits=limits,
            origins=Origins(["https://game.example"]),
            proxies=TrustedProxies(["203.0.113.7"]),
            compression=True,
            directions=lambda host: f"not at {host}",
        )
        self._tcp = partial(tcp.AcceptedTransport, listener, Listening, subprotocols, limits)

    def __call__(self, data: bytes) -> None:
        """One stranger at each door, whole and in pieces."""
        self._runner.run(self._talk(data))

    async def _talk(self, data: bytes) -> None:
        pieces = [data[index : index + 1] for index in range(len(data))][:PIECES_MAX]
        for said in ([data], [*pieces, data[len(pieces) :]]):
            for make in (self._websocket.receive, self._tcp_door):
                pending = self._pending_connections.came(socket.socket(), "203.0.113.7")
                assert pending is not None
                pending.hand_over().close()
                DeadEnd(make(pending)).hear(said)
        assert self._pending_connections.count == 0

    def _tcp_door(self, pending: PendingConnection) -> asyncio.Protocol:
        transport = self._tcp()
        transport.pending = pending
        return transport

    def close(self) -> None:
        """Nothing is open."""
        self._runner.close()


class EnetDoor:
    """Strangers, and a client that has proven its address, send any datagrams to the ENet door.

    The first byte of each says how long it is. Nothing is answered with more than was sent before there is a proof, and
    what one connection keeps is bounded.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._limits = replace(TransportLimits.of(Limits()), unread_bytes_max=4096)
        self._pending_connections = PendingConnections(self._limits)

    def __call__(self, data: bytes) -> None:
        """One stranger and one client."""
        self._runner.run(self._talk(data))

    async def _talk(self, data: bytes) -> None:
        subprotocols = [Subprotocol(codec.name, codec.text) for codec in CODECS.values()]
        door = ServerSocket(Listening, subprotocols, self._limits, self._pending_connections, bytes(32))
        sent = _Sent()
        door.connection_made(sent)
        peer = Peer(self._limits, state=PeerState.CONNECTED, peer_id=0, session=0, mtu=1200)
        while data:
            size, datagram, data = data[0], data[1 : 1 + data[0]], data[1 + data[0] :]
            sent.bytes = 0
            door.datagram_received(datagram, ("203.0.113.7", 1))
            assert sent.bytes <= size
            with suppress(wire.Malformed):
                peer.receive(wire.decode(datagram), 1.0)
            peer.payloads.clear()
            peer.write(1.0)
        assert sum(inbound.early_bytes for inbound in peer._inbound) <= 2 * 4096  # noqa: SLF001 - what it keeps
        assert self._pending_connections.count == 0

    def close(self) -> None:
        """Nothing is open."""
        self._runner.close()


class UdpDoor:
    """Strangers send any datagrams to the UDP port, and to a client, which have all of one connection but its key.

    Pieces of the input begin with their length. Then comes what is done with the rest: it is sent as it is (0), behind
    the id of the connection (1), or sealed with its key, as a client or a server of ours would (2 to 6). Nothing gets
    more bytes than it had; nothing raises; only what was sealed is delivered or answered.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._limits = TransportLimits.of(Limits())

    def __call__(self, data: bytes) -> None:
        """One connection."""
        self._runner.run(self._talk(data))

    async def _talk(self, data: bytes) -> None:
        delivered: list[bytes] = []
        refused: list[Refusal] = []
        paths = UdpPaths(self._limits, Random(0).randbytes, refused.append)
        paths.port = 1
        path = paths.open(delivered.append)
        assert path is not None
        connection_id, key = bytes.fromhex(path.offer.id), urlsafe_b64decode(path.offer.secret + "=")
        seal = Seal(key, connection_id, frozenset())
        client = ClientPath(path.offer, "", _no_socket, delivered.append, self._limits)
        while data:
            piece, data = data[1 : 1 + data[0]], data[1 + data[0] :]
            how, rest = (piece[0] % 7, piece[1:]) if piece else (0, piece)
            datagram = rest
            if how == 1:
                datagram = rest[:1] + connection_id + rest[1:]
            elif how > 1:
                datagram = seal.seal(DatagramKind(how - 1), rest)
            count, answers = len(delivered), _Answers()
            paths.received(datagram, answers, ("203.0.113.7", len(piece)))
            client._received(datagram)  # noqa: SLF001 - as its socket does
            assert answers.bytes <= len(datagram)
            assert how > 1 or (len(delivered) == count and not answers.bytes)
        path.close()
        assert len(paths) == 0

    def close(self) -> None:
        """Nothing is open."""
        self._runner.close()


class _Answers:
    """A socket that counts what it is given."""

    bytes = 0

    def write(self, _: Any, datagrams: Sequence[Any]) -> None:
        self.bytes += sum(map(len, datagrams))


async def _no_socket(*_: Any) -> NoReturn:
    raise OSError


class _Sent(asyncio.DatagramTransport):
    """A socket that counts what it is given."""

    bytes = 0

    def sendto(self, data: Any, addr: object = None) -> None:
        self.bytes += len(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False


TARGETS: dict[str, Callable[[], Target]] = {
    "frames": lambda: frames,
    "bodies": lambda: bodies,
    "tokens": lambda: tokens,
    "searches": lambda: searches,
    "records": lambda: records,
    "handshake": Handshake,
    "doors": Doors,
    "enet": EnetDoor,
    "udp": UdpDoor,
}
"""By name; each is made once per run."""
