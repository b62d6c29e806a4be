"""Links over TCP that are encrypted without TLS: how Noise NK rides on TCP's frames.

The client's first frame is the name below and message 1 of the handshake, the server's first frame is message 2; their
payloads are the preface and the choice that travel in the clear on a plain link. From then on the body of every frame
is the next message of its direction: one byte for what it is, then a payload or the body of a close frame. A message
that was changed, repeated, left out or moved cannot be read, and the link ends there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.transports.keys import KeySource, ServerKey, read_keys
from holdfast.transports.noise import (
    TAG_BYTES,
    CipherState,
    Forged,
    Generate,
    Initiator,
    Responder,
    new_private,
)

NAME: Final = b"holdfast.noise1"
"""What an encrypted link begins with, and the prologue of its handshake: another version is another link."""

OVERHEAD_BYTES: Final = 1 + TAG_BYTES
"""What a frame's body has beside the payload."""

# Both ends count alike, each direction for itself. ChaCha20-Poly1305 is safe far beyond: this is for what a key that
# leaks from memory can still open, and cheap enough not to be noticed.
REKEY_FRAMES: Final = 2**16
REKEY_BYTES: Final = 2**30

_PAYLOAD: Final = 0
_CLOSE: Final = 1
_PAYLOAD_BYTE = bytes([_PAYLOAD])
_CLOSE_BYTE = bytes([_CLOSE])


@dataclass(frozen=True, slots=True)
class Lock:
    """Whom a door lets in: who knows one of its keys, and who comes without."""

    keys: tuple[ServerKey, ...] = ()
    is_plain_welcome: bool = True

    @classmethod
    def of(cls, keys: "KeySource | Sequence[KeySource] | None", *, is_plain_welcome: bool) -> "Lock":
        """A lock for these keys, or for the files they are in. Without any, everybody comes without."""
        if keys is None and is_plain_welcome:
            raise ValueError("tcp_plain is for a server with a tcp_key: without one, every TCP link is plain")
        return OPEN if keys is None else cls(read_keys(keys), is_plain_welcome)


OPEN: Final = Lock()
"""No key: nobody is encrypted."""


class Stream:
    """One direction: its cipher, and how much may follow before it changes its key."""

    __slots__ = ("_bytes_left", "_frames_left", "cipher")

    def __init__(self, cipher: CipherState) -> None:
        self.cipher = cipher
        self._frames_left = REKEY_FRAMES
        self._bytes_left = REKEY_BYTES

    def passed(self, frame_bytes: int) -> None:
        """A frame with a body of this size went this way."""
        self._frames_left -= 1
        self._bytes_left -= frame_bytes
        if self._frames_left <= 0 or self._bytes_left <= 0:
            self.cipher.rekey()
            self._frames_left = REKEY_FRAMES
            self._bytes_left = REKEY_BYTES


class Tunnel:
    """The two directions of one encrypted link, as one of its ends sees them."""

    __slots__ = ("_received", "_sent")

    def __init__(self, sending: CipherState, receiving: CipherState) -> None:
        self._sent = Stream(sending)
        self._received = Stream(receiving)

    def seal(self, payload: bytes) -> bytes:
        """The body of the next frame."""
        return self._sealed(_PAYLOAD_BYTE + payload)

    def seal_close(self, body: bytes) -> bytes:
        """The body of the last frame."""
        return self._sealed(_CLOSE_BYTE + body)

    def _sealed(self, message: bytes) -> bytes:
        frame = self._sent.cipher.encrypt(message)
        self._sent.passed(len(frame))
        return frame

    def open(self, frame: bytes) -> tuple[bool, bytes]:
        """Whether it is a payload or the body of a close frame, and that; `Forged` if it is neither."""
        message = self._received.cipher.decrypt(frame)
        self._received.passed(len(frame))
        if not message or message[0] > _CLOSE:
            raise Forged("a frame says something that is not known here")
        return message[0] == _PAYLOAD, message[1:]


class Greeting:
    """The client's half of the handshake."""

    def __init__(self, server_key: bytes, preface: bytes, generate: Generate = new_private) -> None:
        self._initiator = Initiator(server_key, NAME, generate)
        self.frame = NAME + self._initiator.write(preface)
        """The first frame's body."""

    def answered(self, frame: bytes) -> tuple[bytes, Tunnel]:
        """The server's choice, and the tunnel; `Forged` if it does not have the key that was pinned."""
        choice, sending, receiving = self._initiator.read(frame)
        return choice, Tunnel(sending, receiving)


def greeted(keys: Sequence[ServerKey], frame: bytes, generate: Generate = new_private) -> tuple[bytes, Responder]:
    """The preface in a client's greeting, and who answers it; `Forged` if it was made for another key."""
    message = frame.removeprefix(NAME)
    for key in keys:
        responder = Responder(key.private, NAME, generate)
        try:
            return responder.read(message), responder
        except Forged:
            continue
    raise Forged("the greeting was made for another key")


def answer(responder: Responder, choice: bytes) -> tuple[bytes, Tunnel]:
    """The server's first frame, and the tunnel; an empty choice announces that a close frame follows."""
    frame, sending, receiving = responder.write(choice)
    return frame, Tunnel(sending, receiving)
