"""Noise_NK_25519_ChaChaPoly_SHA256: keys agreed on with a server whose public key is known. No sockets here.

The names and the order of the steps are those of the Noise specification, revision 34 (noiseprotocol.org/noise.html),
sections 5 and 7. The pattern NK, with the server's static key known to the client beforehand:

    <- s
    ...
    -> e, es
    <- e, ee

Message 1 proves nothing of the client and can be replayed; whoever answers it with a message 2 that can be read has the
server's private key, and what follows is lost to everybody when both have forgotten their ephemeral keys.

cryptography is imported where it is used: that takes longer than a whole part of ours, and most programs have no key.
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

PROTOCOL_NAME: Final = b"Noise_NK_25519_ChaChaPoly_SHA256"
KEY_BYTES: Final = 32
TAG_BYTES: Final = 16
HANDSHAKE_BYTES: Final = KEY_BYTES + TAG_BYTES
"""What each of the two messages has beside its payload."""

# Reserved by the specification for `Rekey`.
_NONCE_MAX = 2**64 - 1

Generate = Callable[[], "X25519PrivateKey"]
"""Makes an ephemeral key; replaced where the bytes must be known."""


def new_private() -> "X25519PrivateKey":
    """A key that nobody has."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415 - see the top

    return X25519PrivateKey.generate()


class Forged(Exception):
    """The bytes were not written by who has the key, or not for this place in the stream."""


class CipherState:
    """One direction of a link: a key, and the number of the next message."""

    __slots__ = ("_cipher", "_key", "nonce")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher = _cipher(key)
        self.nonce = 0

    def encrypt(self, plaintext: bytes, associated: bytes | None = None) -> bytes:
        """The next message, with its tag."""
        nonce = self.nonce
        ciphertext = self._cipher.encrypt(_nonce_bytes(nonce), plaintext, associated)
        self.nonce = nonce + 1
        return ciphertext

    def decrypt(self, ciphertext: bytes, associated: bytes | None = None) -> bytes:
        """What the next message says; `Forged` if it is not that, and then nothing has changed."""
        nonce = self.nonce
        try:
            plaintext = self._cipher.decrypt(_nonce_bytes(nonce), ciphertext, associated)
        except _invalid_tag():
            raise Forged("the message was changed, or is not the next one") from None
        self.nonce = nonce + 1
        return plaintext

    def rekey(self) -> None:
        """Go on with a key that does not lead back to this one; the numbers go on too."""
        zeros = bytes(KEY_BYTES)
        self._key = self._cipher.encrypt(_nonce_of(_NONCE_MAX), zeros, None)[:KEY_BYTES]
        self._cipher = _cipher(self._key)

    def __repr__(self) -> str:
        return f"<CipherState at {self.nonce}>"


def _cipher(key: bytes) -> "ChaCha20Poly1305":
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415 - see the top

    return ChaCha20Poly1305(key)


def _invalid_tag() -> type[Exception]:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see the top

    return InvalidTag


def _nonce_bytes(nonce: int) -> bytes:
    if nonce >= _NONCE_MAX:
        raise Forged("every number has been used: this link must end")
    return _nonce_of(nonce)


def _nonce_of(number: int) -> bytes:
    return b"\0\0\0\0" + number.to_bytes(8, "little")


class SymmetricState:
    """What a handshake has agreed on so far: a chaining key, a hash of everything that was said, and a cipher."""

    def __init__(self, prologue: bytes) -> None:
        # The name has as many bytes as a hash, and so it is the first one.
        self.handshake_hash = PROTOCOL_NAME
        self._chaining_key = PROTOCOL_NAME
        self._cipher: CipherState | None = None
        self.mix_hash(prologue)

    def mix_hash(self, data: bytes) -> None:
        """Both ends have seen this."""
        self.handshake_hash = hashlib.sha256(self.handshake_hash + data).digest()

    def mix_key(self, secret: bytes) -> None:
        """Both ends know this, and nobody else."""
        self._chaining_key, key = _hkdf(self._chaining_key, secret)
        self._cipher = CipherState(key)

    def encrypt_and_hash(self, plaintext: bytes) -> bytes:
        """A part of a message, bound to all that was said before."""
        ciphertext = self._keyed.encrypt(plaintext, self.handshake_hash)
        self.mix_hash(ciphertext)
        return ciphertext

    def decrypt_and_hash(self, ciphertext: bytes) -> bytes:
        """The same, read."""
        plaintext = self._keyed.decrypt(ciphertext, self.handshake_hash)
        self.mix_hash(ciphertext)
        return plaintext

    def split(self) -> tuple[CipherState, CipherState]:
        """The ciphers of what follows: from the client, and from the server."""
        from_client, from_server = _hkdf(self._chaining_key, b"")
        return CipherState(from_client), CipherState(from_server)

    @property
    def _keyed(self) -> CipherState:
        # NK has a key before its first payload: `es` stands in front of it.
        assert self._cipher is not None
        return self._cipher


def _hkdf(chaining_key: bytes, material: bytes) -> tuple[bytes, bytes]:
    secret = hmac.digest(chaining_key, material, "sha256")
    first = hmac.digest(secret, b"\x01", "sha256")
    return first, hmac.digest(secret, first + b"\x02", "sha256")


def _agree(private: "X25519PrivateKey", public: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey  # noqa: PLC0415 - see the top

    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        # One of the few points for which every private key gives the same secret: all zeros.
        raise Forged("the public key is not one that keeps a secret") from None


class Initiator:
    """The client's half of a handshake: `write`, then `read`."""

    def __init__(self, server_public: bytes, prologue: bytes, generate: Generate = new_private) -> None:
        self._symmetric = SymmetricState(prologue)
        self._symmetric.mix_hash(server_public)
        self._server_public = server_public
        self._ephemeral = generate()

    @property
    def handshake_hash(self) -> bytes:
        """The same on both ends when both have said everything, and on no other link."""
        return self._symmetric.handshake_hash

    def write(self, payload: bytes = b"") -> bytes:
        """Message 1: e, es. Its payload is read by whoever gets hold of the server's key, also later."""
        public = self._ephemeral.public_key().public_bytes_raw()
        self._symmetric.mix_hash(public)
        self._symmetric.mix_key(_agree(self._ephemeral, self._server_public))
        return public + self._symmetric.encrypt_and_hash(payload)

    def read(self, message: bytes) -> tuple[bytes, CipherState, CipherState]:
        """Message 2: its payload, and the ciphers for what is sent and for what is received."""
        if len(message) < HANDSHAKE_BYTES:
            raise Forged("the answer is too short")
        public, sealed = message[:KEY_BYTES], message[KEY_BYTES:]
        self._symmetric.mix_hash(public)
        self._symmetric.mix_key(_agree(self._ephemeral, public))
        payload = self._symmetric.decrypt_and_hash(sealed)
        from_client, from_server = self._symmetric.split()
        return payload, from_client, from_server


class Responder:
    """The server's half of a handshake: `read`, then `write`."""

    def __init__(self, static: "X25519PrivateKey", prologue: bytes, generate: Generate = new_private) -> None:
        self._symmetric = SymmetricState(prologue)
        self._symmetric.mix_hash(static.public_key().public_bytes_raw())
        self._static = static
        self._generate = generate
        self._client_ephemeral = b""

    @property
    def handshake_hash(self) -> bytes:
        """The same on both ends when both have said everything, and on no other link."""
        return self._symmetric.handshake_hash

    def read(self, message: bytes) -> bytes:
        """Message 1: its payload; `Forged` if it was made for another key."""
        if len(message) < HANDSHAKE_BYTES:
            raise Forged("the first message is too short")
        self._client_ephemeral, sealed = message[:KEY_BYTES], message[KEY_BYTES:]
        self._symmetric.mix_hash(self._client_ephemeral)
        self._symmetric.mix_key(_agree(self._static, self._client_ephemeral))
        return self._symmetric.decrypt_and_hash(sealed)

    def write(self, payload: bytes = b"") -> tuple[bytes, CipherState, CipherState]:
        """Message 2: e, ee; and the ciphers for what is sent and for what is received."""
        # Not before the first message proved to be for us: a stranger's noise costs no key.
        ephemeral = self._generate()
        public = ephemeral.public_key().public_bytes_raw()
        self._symmetric.mix_hash(public)
        self._symmetric.mix_key(_agree(ephemeral, self._client_ephemeral))
        message = public + self._symmetric.encrypt_and_hash(payload)
        from_client, from_server = self._symmetric.split()
        return message, from_server, from_client
