"""The key of a server whose TCP links are encrypted, and the public half of it that clients pin.

A key lies in a file as PEM (PKCS #8, unencrypted), the form that `openssl genpkey -algorithm x25519` writes too and
that scanners for leaked secrets know. The public half is 32 bytes in base64url, 43 characters: short enough to paste.
"""

import base64
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from holdfast.logs import get_logger
from holdfast.transports.noise import KEY_BYTES

_log = get_logger(__name__)

# A key is 119 bytes; what is far larger is another file.
_FILE_BYTES_MAX = 4096
_OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR

KEYS_MAX: Final = 2
"""Of one server: the one that counts, and the one before while clients move on. Each is tried on every greeting."""


class ServerKey:
    """A server's secret, and `public`: what clients pin to know that server. Its text shows the public half only."""

    def __init__(self, private: X25519PrivateKey) -> None:
        self.private = private
        self.public = _written(private.public_key().public_bytes_raw())
        """For `holdfast.connect(url, server_key=…)`."""

    @classmethod
    def new(cls) -> "ServerKey":
        """A key that nobody has."""
        return cls(X25519PrivateKey.generate())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "ServerKey":
        """The key in a file; `OSError` if there is none, `ValueError` if it holds something else."""
        with Path(path).open("rb") as file:
            if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & ~_OWNER_ONLY:
                _log.warning("a server's key can be read by others on this machine: chmod 600 it", file=path)
            pem = file.read(_FILE_BYTES_MAX + 1)
        try:
            private = load_pem_private_key(pem[:_FILE_BYTES_MAX], password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            private = None
        if isinstance(private, X25519PrivateKey):
            return cls(private)
        raise ValueError(f"{path} holds no key of a server: make one with `holdfast key new FILE`")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Put the key into a file that only its owner can read; `FileExistsError` if there is one already."""
        pem = self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)

    def __repr__(self) -> str:
        return f"ServerKey(public={self.public!r})"


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
    return key


def _written(public: bytes) -> str:
    return base64.urlsafe_b64encode(public).rstrip(b"=").decode()
