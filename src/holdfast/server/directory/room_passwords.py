"""Passwords of rooms, and rate limits on guessing passwords and join codes.

Passwords are stored as argon2id, which is expensive to check, on purpose. After the first right password, a keyed hash
of it stays in memory, with a key that never leaves this process: argon2 runs when a password is set, and after a
restart until the first right password.
"""

import hashlib
import hmac
from random import Random

from holdfast.core.addresses import address_group
from holdfast.core.errors import Throttled
from holdfast.core.limits import Limits
from holdfast.core.rates import Bucket, Rate
from holdfast.core.room_listing import RoomListing
from holdfast.core.session import Session
from holdfast.identity.hashing import Argon2Hashing, Argon2Settings, Hashing
from holdfast.identity.port import Busy
from holdfast.schemas.room import PasswordHash

CODES = ""
"""The key of code guesses, which concern no room."""

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
            salted = hashlib.sha256(password.salt + _bytes(text)).digest()
            is_right = hmac.compare_digest(salted, password.digest)
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


class Guesses:
    """Recent wrong guesses, for each room by address and in total.

    When an allowance is used up, the next guess is checked only after a wait. Right passwords cost nothing: a player
    who knows the password waits at most `guess_wait_max_s`. During an attack from the same address, or from several,
    they may be asked to try again, as a refused guess keeps no place in the queue. A session that has guessed wrong
    cannot enter that queue, so an attacker needs a new session for every further guess. No guess is checked before its
    time: a late answer would reveal "wrong".
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._at_address = Rate(limits.guesses_per_address_burst, limits.guesses_per_address_per_s)
        self._at_room = Rate(limits.guesses_per_room_burst, limits.guesses_per_room_per_s)
        # Least recently used first; "" stands for all addresses.
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, session: Session, room_id: str, now: float) -> float | None:
        """How long this session's next guess has to wait; None if it is refused.

        The guess counts as wrong until `right` is called, so that simultaneous guesses do not share one wait.
        """
        if session.wrong_guesses >= self._limits.wrong_guesses_max:
            return None
        buckets = self._of(session, room_id)
        wait_s = max(bucket.wait_s(now) for bucket in buckets)
        if wait_s > (0.0 if session.wrong_guesses else self._limits.guess_wait_max_s):
            return None
        session.wrong_guesses += 1
        for bucket in buckets:
            bucket.charge(now)
        return wait_s

    def right(self, session: Session, room_id: str) -> None:
        """The guess was right, or was not checked: it costs nothing."""
        session.wrong_guesses -= 1
        for bucket in self._of(session, room_id):
            bucket.give_back()

    def heard_wrong_code(self, address: str, now: float) -> None:
        """A code was guessed wrong at this address, on another node."""
        self._bucket((CODES, address_group(address)), self._at_address).charge(now)

    def _of(self, session: Session, room_id: str) -> list[Bucket]:
        group = address_group(session.address)
        found = [self._bucket((room_id, group), self._at_address)]
        if room_id != CODES:
            found.append(self._bucket((room_id, ""), self._at_room))
        return found

    def _bucket(self, place: tuple[str, str], rate: Rate) -> Bucket:
        bucket = self._buckets.pop(place, None) or Bucket(rate)
        self._buckets[place] = bucket
        if len(self._buckets) > self._limits.guess_counters_max:
            del self._buckets[next(iter(self._buckets))]
        return bucket
