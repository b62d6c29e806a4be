"""Payloads that are none, by what is wrong with them."""

from collections.abc import Callable
from functools import partial

from tests.server.foreign import MSGPACK, Foreigner, Frame


def said(frame: Frame, peer: Foreigner) -> bytes:
    return peer.encode([frame])


NOT_FRAMES: dict[str, Callable[[Foreigner], bytes]] = {
    "no bytes": lambda _: b"",
    "a number": lambda peer: peer.encode(7),
    "an object": lambda peer: peer.encode({"frame": "bye"}),
    "a frame that is not in an array": lambda peer: peer.encode(["bye", ""]),
    "an empty frame": lambda peer: peer.encode([[]]),
    "a frame with no name": lambda peer: peer.encode([[1, 2]]),
    "an unknown frame": lambda peer: peer.encode([["teleport", 1]]),
    "a frame in capitals": lambda peer: peer.encode([["Bye", ""]]),
    "a good frame and an unknown one": lambda peer: peer.encode([["ack", 0, 0], ["teleport", 1]]),
    "too few fields": lambda peer: peer.encode([["ack", 1]]),
    "a word for a number": lambda peer: peer.encode([["ack", "1", 0]]),
    "a truth for a number": lambda peer: peer.encode([["ack", True, 0]]),
    "a fraction for a number": lambda peer: peer.encode([["ack", 1.5, 0]]),
    "nothing for a number": lambda peer: peer.encode([["ack", None, 0]]),
    "a number for a word": lambda peer: peer.encode([["request", 1, 2, {}]]),
    "a negative number": lambda peer: peer.encode([["ack", 1, -1]]),
    "a number that not every language can hold": lambda peer: peer.encode([["ack", 1, 2**53]]),
    "message zero": lambda peer: peer.encode([["data", 1, 0, 0, "say", {"n": 1}]]),
    "request zero": lambda peer: peer.encode([["request", 0, "search", {}]]),
    "no name": lambda peer: peer.encode([["latest", 1, "", None]]),
    "a long name": lambda peer: peer.encode([["latest", 1, "x" * 65, None]]),
    "a long farewell": lambda peer: peer.encode([["bye", "x" * 1025]]),
    "half a payload": lambda peer: peer.encode([["ack", 1, 0]])[:-1],
    "a payload and a half": lambda peer: peer.encode([["ack", 1, 0]]) + peer.encode([["ack", 1, 0]])[:3],
    "arrays in arrays": lambda peer: b"\x91" * 60_000 if peer.codec == MSGPACK else b"[" * 60_000,
    "a body nested beyond reason": lambda peer: nested(peer, 30_000)[:-1],
    "an array that promises 4 billion frames": lambda peer: b"\xdd\xff\xff\xff\xff",
    "a string that promises 4 GB": lambda peer: b"\x91\x92\xa3bye\xdb\xff\xff\xff\xff",
    "text that is not Unicode": lambda peer: b"\x91\x92\xa3bye\xa1\xff",
    "noise": lambda peer: bytes(range(1, 128)),
    **{
        f"a server's {frame[0]}": partial(said, frame)
        for frame in (
            ["welcome", "s", "p", "t", {"kind": "new"}, {}],
            ["reply", 1, None, None],
            ["ping", 1, 0, 0, 0.0],
            ["seat", "joined", 1, 1, "r", "hall"],
            ["close", 4000, "dropped", "", 0.0],
        )
    },
}


def nested(peer: Foreigner, depth: int) -> bytes:
    """A data frame whose body is an array in an array in an array …"""
    frame = peer.encode([["data", 1, 1, 0, "say", None]])
    if peer.codec == MSGPACK:
        return frame[:-1] + b"\x91" * depth + b"\x01"
    return frame.replace(b"null", b"[" * depth + b"]" * depth)
