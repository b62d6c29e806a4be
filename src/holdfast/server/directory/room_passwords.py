"""Passwords of rooms: kept as argon2id, checked without making the joins of a busy room slow.

What is stored is expensive to check, on purpose. So once a password was right, a keyed hash of it stays in memory, with
a key that never leaves this process: argon2 works when a password is set, and after a restart until one was right.
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
    """Keeps and checks the passwords of a node's rooms."""

    def __init__(self, limits: Limits, random: Random, hashing: Hashing | None = None) -> None:
        """`hashing` takes the place of argon2id and its threads: for virtual time, which knows none."""
        self._limits = limits
        self._random = random
        self._hashing = hashing
        self._argon2: Argon2Hashing | None = None
        self._key = b""

    def _hasher(self) -> Hashing:
        if self._hashing is not None:
            return self._hashing
        if self._argon2 is None:
            self._argon2 = Argon2Hashing(Argon2Settings(), self._limits)
        return self._argon2

    async def keep(self, text: str) -> PasswordHash | None:
        """What is kept of a password; None for an empty one."""
        if not text:
            return None
        try:
            return PasswordHash(argon2=await self._hasher().hash(_bytes(text)))
        except Busy as error:
            raise Throttled(str(error)) from None

    async def is_right(self, listing: RoomListing, text: str) -> bool:
        """Whether this is the room's password. It may have another by the time that is known: look again."""
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
                is_right = await self._hasher().verify(password.argon2, _bytes(text))
            except Busy as error:
                raise Throttled(str(error)) from None
        if is_right:
            listing.proven = (password, digest)
        return is_right

    def prove(self, listing: RoomListing, text: str) -> None:
        """Whoever has just set the password knows it."""
        if listing.password is not None:
            listing.proven = (listing.password, self._digest(text))

    def _digest(self, text: str) -> bytes:
        self._key = self._key or self._random.randbytes(_KEY_BYTES)
        return hmac.digest(self._key, _bytes(text), "sha256")

    def close(self) -> None:
        """End the threads."""
        if self._argon2 is not None:
            self._argon2.close()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_old_digest_of(password: PasswordHash, text: str) -> bool:
    found = hashlib.sha256(password.salt + _bytes(text)).digest()
    return hmac.compare_digest(found, password.digest)
