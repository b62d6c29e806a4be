"""The key of a server whose TCP links are encrypted, and the public half of it that clients pin.

A key lies in a file as PEM (PKCS #8, unencrypted), the form that `openssl genpkey -algorithm x25519` writes too and
that scanners for leaked secrets know. The public half is 32 bytes in base64url, 43 characters: short enough to paste.

cryptography is imported where it is used, as in `noise.py`.
"""

import base64
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.logs import get_logger
from holdfast.transports.noise import KEY_BYTES, new_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_log = get_logger(__name__)

# A key is 119 bytes; what is far larger is another file.
_FILE_BYTES_MAX = 4096
_OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR

KEYS_MAX: Final = 2
"""Of one server: the one that counts, and the one before while clients move on. Each is tried on every greeting."""


class ServerKey:
    """A server's secret, and `public`: what clients pin to know that server. Its text shows the public half only."""

    def __init__(self, private: "X25519PrivateKey") -> None:
        self.private = private
        self.public = _written(private.public_key().public_bytes_raw())
        """For `holdfast.connect(url, server_key=…)`."""

    @classmethod
    def new(cls) -> "ServerKey":
        """A key that nobody has."""
        return cls(new_private())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "ServerKey":
        """The key in a file; `OSError` if there is none, `ValueError` if it holds something else."""
        with Path(path).open("rb") as file:
            if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & ~_OWNER_ONLY:
                _log.warning("a server's key can be read by others on this machine: chmod 600 it", file=path)
            pem = file.read(_FILE_BYTES_MAX + 1)
        private = _read_pem(pem[:_FILE_BYTES_MAX])
        if private is not None:
            return cls(private)
        raise ValueError(f"{path} holds no key of a server: make one with `holdfast key new FILE`")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Put the key into a file that only its owner can read; `FileExistsError` if there is one already."""
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - see the top
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        pem = self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)

    def __repr__(self) -> str:
        return f"ServerKey(public={self.public!r})"


def _read_pem(pem: bytes) -> "X25519PrivateKey | None":
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - see the top
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        private = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return private if isinstance(private, X25519PrivateKey) else None


KeySource = ServerKey | str | os.PathLike[str]
"""A key, or the file that it is in."""


def read_keys(sources: KeySource | Sequence[KeySource]) -> tuple[ServerKey, ...]:
    """The keys of a server, the one that counts first."""
    each = [sources] if isinstance(sources, ServerKey | str | os.PathLike) else list(sources)
    if not 1 <= len(each) <= KEYS_MAX:
        raise ValueError(f"a server has one key, or {KEYS_MAX} while its clients move from one to the other")
    return tuple(source if isinstance(source, ServerKey) else ServerKey.read(source) for source in each)


def read_public(text: str) -> bytes:
    """The public half of a key, as `holdfast key show` prints it; `ValueError` if it is something else."""
    try:
        key = base64.urlsafe_b64decode(text + "=")
    except ValueError:
        key = b""
    # Python skips over what is not of the alphabet: a key that was pasted badly would become another one.
    if len(key) != KEY_BYTES or _written(key) != text:
        raise ValueError(
            "a server's public key has 43 characters of A-Z, a-z, 0-9, - and _, as `holdfast key show` prints it"
        )
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey  # noqa: PLC0415 - see the top

    try:
        new_private().exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        # One of the few points for which every private key gives the same secret.
        raise ValueError("this public key is no server's: anybody could read what is said to it") from None
    return key


def _written(public: bytes) -> str:
    return base64.urlsafe_b64encode(public).rstrip(b"=").decode()
