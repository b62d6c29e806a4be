"""A sealed datagram: encrypted, authenticated and numbered with the key of one connection.

    kind (1 byte) · id of the connection (8 bytes) · number (8 bytes, big-endian) · contents, encrypted · tag (16 bytes)

ChaCha20-Poly1305 (RFC 8439). The nonce is three zero bytes, the kind and the number; the 17 bytes of the head are
authenticated with the contents. Each end counts its datagrams from 1 and has kinds of its own, so that no nonce is used
twice, and what an end has sent is worth nothing when it is sent back.
"""

from enum import Enum, IntEnum
from struct import Struct
from typing import Final, NamedTuple

KEY_BYTES: Final = 32
ID_BYTES: Final = 8
COOKIE_BYTES: Final = 8
PING_S_MIN: Final = 0.05
"""No client is asked to ping more often."""

_HEAD = Struct(">B8sQ")
_NONCE = Struct(">3xBQ")
_TAG_BYTES = 16
SEAL_BYTES: Final = _HEAD.size + _TAG_BYTES
"""What a seal adds to the contents."""


class DatagramKind(IntEnum):
    """What a datagram is, and which end may send it."""

    CLIENT_LATEST = 1
    PING = 2
    SERVER_LATEST = 3
    PONG = 4
    CHALLENGE = 5


FROM_CLIENT: Final = frozenset({DatagramKind.CLIENT_LATEST, DatagramKind.PING})
FROM_SERVER: Final = frozenset({DatagramKind.SERVER_LATEST, DatagramKind.PONG, DatagramKind.CHALLENGE})
# The contents of all others have a fixed length: a cookie, or the number of a ping.
_LATEST = frozenset({DatagramKind.CLIENT_LATEST, DatagramKind.SERVER_LATEST})


class Refusal(Enum):
    """Why a datagram was dropped."""

    UNKNOWN = "unknown"
    """No connection has this id: it is over, or there never was one. Also what is no datagram of ours."""
    FORGED = "forged"
    """It was not made with the key, or was changed."""
    LATE = "late"
    """Its number is not above that of another of its kind: overtaken, sent twice, or replayed."""


class Opened(NamedTuple):
    """A datagram that is what it says."""

    kind: DatagramKind
    number: int
    contents: bytes


def id_of(data: bytes) -> bytes:
    """Which connection a datagram says it is of; empty if it is too short."""
    return data[1 : 1 + ID_BYTES] if len(data) >= SEAL_BYTES else b""


class Seal:
    """Seals what one end of a connection sends, and opens what it receives."""

    __slots__ = ("_cipher", "_forged", "_id", "_newest", "sent")

    def __init__(self, key: bytes, connection_id: bytes, accepted: frozenset[DatagramKind]) -> None:
        # Here: who has no use for datagrams does not wait for OpenSSL.
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415

        self._cipher = ChaCha20Poly1305(key)
        self._forged = InvalidTag
        self._id = connection_id
        # The highest number of each kind that was received.
        self._newest = dict.fromkeys(accepted, 0)
        self.sent = 0
        """The number of the last datagram that was sealed."""

    def seal(self, kind: DatagramKind, contents: bytes) -> bytes:
        """The next datagram."""
        self.sent += 1
        head = _HEAD.pack(kind, self._id, self.sent)
        return head + self._cipher.encrypt(_NONCE.pack(kind, self.sent), contents, head)

    def open(self, data: bytes) -> Opened | Refusal:
        """What a datagram contains, or why it is dropped: each has a higher number than those of its kind before."""
        if len(data) < SEAL_BYTES:
            return Refusal.FORGED
        head = data[: _HEAD.size]
        kind, connection_id, number = _HEAD.unpack(head)
        newest = self._newest.get(kind)
        if newest is None or connection_id != self._id:
            return Refusal.FORGED
        if number <= newest:
            return Refusal.LATE
        try:
            contents = self._cipher.decrypt(_NONCE.pack(kind, number), data[_HEAD.size :], head)
        except self._forged:
            return Refusal.FORGED
        if kind not in _LATEST and len(contents) != COOKIE_BYTES:
            return Refusal.FORGED
        self._newest[DatagramKind(kind)] = number
        return Opened(DatagramKind(kind), number, contents)
