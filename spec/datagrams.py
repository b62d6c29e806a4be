"""Sealed datagrams, as clients and servers send them beside a stream."""

from collections.abc import Iterable

from holdfast.core.codec import MSGPACK
from holdfast.transports.udp.seal import DatagramKind

DATAGRAM_KEY = bytes(range(32))
DATAGRAM_ID = bytes(range(1, 9))

_AIM = ["latest", 3, "aim", {"angle": 90}]

DATAGRAMS = [
    (
        "an unreliable message of a client",
        DatagramKind.CLIENT_LATEST,
        7,
        MSGPACK.encode([_AIM]),
    ),
    ("a payload without a byte, with a large number", DatagramKind.CLIENT_LATEST, 2**40, b""),
    ("the first ping", DatagramKind.PING, 1, bytes(8)),
    ("a ping that repeats a cookie", DatagramKind.PING, 2, bytes.fromhex("c0ffee00c0ffee00")),
    (
        "unreliable messages of a server",
        DatagramKind.SERVER_LATEST,
        1,
        MSGPACK.encode([_AIM, ["latest", 3, "wind", {"x": 1.5}]]),
    ),
    ("the answer to the second ping", DatagramKind.PONG, 2, (2).to_bytes(8, "big")),
    ("a challenge", DatagramKind.CHALLENGE, 3, bytes.fromhex("c0ffee00c0ffee00")),
]
"""(name, kind, number, contents)."""


def refused_datagrams(good: bytes) -> Iterable[tuple[str, bytes]]:
    """What an end drops, made from a good one."""
    yield "empty", b""
    yield "only a head", good[:17]
    yield "one byte is missing", good[:-1]
    yield "one byte too many", good + b"\0"
    for name, place in (
        ("another kind", 0),
        ("another id", 8),
        ("another number", 16),
        ("other contents", 20),
        ("another tag", -1),
    ):
        changed = bytearray(good)
        changed[place] ^= 1
        yield name, bytes(changed)
    yield "the kind of the other end", bytes([DatagramKind.SERVER_LATEST]) + good[1:]
    yield "a kind that there is not", bytes([9]) + good[1:]
