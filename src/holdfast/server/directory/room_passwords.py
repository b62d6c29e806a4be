"""Passwords of rooms: stored as argon2id, and checked without slowing down the joins of a busy room.

Checking the stored hash is expensive, on purpose. After the first right password, a keyed hash of it stays in memory,
with a key that never leaves this process: argon2 runs when a password is set, and after a restart until the first
right password.
"""

import hashlib
import hmac
from random import Random

from holdfast.core.errors import Throttled
from holdfast.core.limits import Limits
from holdfast.core.room_listing import RoomListing
from holdfast.identity.hashing import Argon2Hashing, Argon2Settings, Hashing
from holdfast.identity.port import Busy
from holdfast.schemas.room import PasswordHash

_KEY_BYTES = 32


class RoomPasswords:
    """Hashes and checks the passwords of a node's rooms."""

    def __init__(self, limits: Limits, random: Random, hashing: Hashing | None = None) -> None:
        """`hashing` replaces argon2id and its threads, for virtual time without threads."""
        self._random = random
        self._hashing = hashing or Argon2Hashing(Argon2Settings(), limits)
        self._key = b""

    async def keep(self, text: str) -> PasswordHash | None:
        """The hash of a password; None for an empty one."""
        if not text:
            return None
        try:
            return PasswordHash(argon2=await self._hashing.hash(_bytes(text)))
        except Busy as error:
            raise Throttled(str(error)) from None

    async def is_right(self, listing: RoomListing, text: str) -> bool:
        """Whether this is the room's password. It may have been changed during the check: compare again."""
        password = listing.password
        if password is None:
            return True
        digest = self._digest(text)
        if listing.proven is not None and listing.proven[0] is password:
            return hmac.compare_digest(listing.proven[1], digest)
        if password.is_old:
            is_right = _is_old_digest_of(password, text)
        else:
            try:
                is_right = await self._hashing.verify(password.argon2, _bytes(text))
            except Busy as error:
                raise Throttled(str(error)) from None
        if is_right:
            listing.proven = (password, digest)
        return is_right

    def prove(self, listing: RoomListing, text: str) -> None:
        """Remember a password that was set just now as right."""
        if listing.password is not None:
            listing.proven = (listing.password, self._digest(text))

    def _digest(self, text: str) -> bytes:
        self._key = self._key or self._random.randbytes(_KEY_BYTES)
        return hmac.digest(self._key, _bytes(text), "sha256")

    def close(self) -> None:
        self._hashing.close()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_old_digest_of(password: PasswordHash, text: str) -> bool:
    found = hashlib.sha256(password.salt + _bytes(text)).digest()
    return hmac.compare_digest(found, password.digest)
