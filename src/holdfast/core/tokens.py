"""Resume tokens: 256 bits, used once, rotated at every resume, kept only as hashes.

A client that never received the answer to its resume still holds the token it came with, so two are valid at a time:

    presented          then
    current            a fresh next is minted; an older next that was never confirmed is retired
    next               it becomes current, the old current is retired, a fresh next is minted
    one of the retired somebody else has it: `Verdict.REUSED`, the session must be revoked
    anything else      `Verdict.UNKNOWN`

`confirm` promotes next as soon as the client shows that it received it, so that a used token is dead at once.
"""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from enum import Enum

TOKEN_BYTES = 32


class Verdict(Enum):
    """What presenting a token proved."""

    GOOD = "good"
    REUSED = "reused"
    UNKNOWN = "unknown"


def printable(secret: bytes) -> str:
    """A secret as text: URL-safe letters, no padding."""
    return urlsafe_b64encode(secret).rstrip(b"=").decode()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class ResumeTokens:
    """The tokens of one session. `entropy` is 32 fresh random bytes each time."""

    __slots__ = ("_current", "_next", "_retired", "_retired_max")

    def __init__(self, retired_max: int) -> None:
        self._current = b""
        self._next: bytes | None = None
        self._retired_max = retired_max
        self._retired: tuple[bytes, ...] = ()

    def issue(self, entropy: bytes) -> str:
        """The session's first token."""
        token = printable(entropy)
        self._current = _hash(token)
        return token

    def present(self, token: str) -> Verdict:
        """Judge a token; a valid one must be followed by `rotate`."""
        presented = _hash(token)
        if self._next is not None and hmac.compare_digest(presented, self._next):
            self.confirm()
            return Verdict.GOOD
        if hmac.compare_digest(presented, self._current):
            return Verdict.GOOD
        if any(hmac.compare_digest(presented, retired) for retired in self._retired):
            return Verdict.REUSED
        return Verdict.UNKNOWN

    def rotate(self, entropy: bytes) -> str:
        """Mint the token for the next resume; the current one stays valid until the client confirms."""
        if self._next is not None:
            self._retire(self._next)
        token = printable(entropy)
        self._next = _hash(token)
        return token

    def confirm(self) -> bool:
        """The client has the next token: the current one is used up; False if that was known."""
        if self._next is None:
            return False
        self._retire(self._current)
        self._current, self._next = self._next, None
        return True

    def hashes(self) -> tuple[bytes, bytes, list[bytes]]:
        """What is saved: the current hash, the next one (empty: none), the retired ones."""
        return self._current, self._next or b"", list(self._retired)

    def restore(self, current: bytes, next_: bytes, retired: list[bytes]) -> None:
        """Restore the output of `hashes`."""
        self._current, self._next = current, next_ or None
        self._retired = ()
        for each in retired:
            self._retire(each)

    def _retire(self, used: bytes) -> None:
        retired = (*self._retired, used)
        self._retired = retired[max(0, len(retired) - self._retired_max) :]

    def __repr__(self) -> str:
        return "<ResumeTokens ***>"
