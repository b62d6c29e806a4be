"""By what rooms are known beside their id: join codes, the keys they were made with, who made them. And ended ones."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from msgspec import structs

from holdfast.core.errors import Conflict, Expired, NameTaken, NotFound, Throttled
from holdfast.core.limits import Limits
from holdfast.core.room_listing import CODE_LENGTH, RoomListing, join_code, spelled
from holdfast.schemas.requests import Create, fingerprint
from holdfast.schemas.room import CreationKey, RoomInfo


@dataclass(slots=True)
class _Made:
    """The room of a request with a key: made, or being made."""

    request: bytes
    room_id: str = ""
    making: "asyncio.Task[str] | None" = None


class RoomNames:
    """What else a node's rooms are found by, and what they hold of that."""

    def __init__(self, limits: Limits, random: Random, now: Callable[[], float]) -> None:
        self._limits = limits
        self._random = random
        self._now = now
        self._codes: dict[str, str] = {}
        # Of kinds in which a name stands for one room.
        self._names: dict[tuple[str, str], str] = {}
        self._name_of: dict[str, tuple[str, str]] = {}
        self._made: dict[tuple[str, str], _Made] = {}
        self._by_creator: dict[str, set[str]] = {}
        # In the order they ended.
        self._ended: dict[str, tuple[float, RoomInfo, CreationKey | None]] = {}

    # Codes

    def new_code(self, room_id: str) -> str:
        """One that no other room has: this room's from now on."""
        while True:
            code = join_code(self._random.randbytes(CODE_LENGTH))
            if code not in self._codes:
                self._codes[code] = room_id
                return code

    def room_of_code(self, code: str) -> str:
        """The id of the room with this code, however it was typed."""
        room_id = self._codes.get(spelled(code))
        if room_id is None:
            raise NotFound(f"no room has the code {code!r}; it may have ended")
        return room_id

    # Names

    def check_name(self, kind: str, name: str, room_id: str) -> None:
        """Refuse a name that another room of a kind has."""
        if name and self._names.get((kind, name), room_id) != room_id:
            raise NameTaken(f"another {kind} is called {name!r}")

    def name(self, kind: str, name: str, room_id: str) -> None:
        """The name is this room's from now on, and no other."""
        self.unname(room_id)
        # Rooms from the store may have the same: of before names were unique, or put there as a file.
        if name and (kind, name) not in self._names:
            self._names[kind, name] = room_id
            self._name_of[room_id] = (kind, name)

    def unname(self, room_id: str) -> None:
        """The room's name is free again."""
        key = self._name_of.pop(room_id, None)
        if key is not None:
            del self._names[key]

    # Keys

    async def once(self, request: Create, creator: str, make: Callable[[CreationKey], "asyncio.Task[str]"]) -> str:
        """The id of the room for a request with a key: made now, or by the same request before."""
        self._prune()
        # A client that was built again in the meantime asks for the same room.
        once = CreationKey(creator, request.idempotency_key, fingerprint(structs.replace(request, message_version="")))
        key = (creator, once.key)
        made = self._made.get(key)
        if made is not None and made.request != once.request:
            raise Conflict(f"the key {once.key!r} was used before, for a different request: use a new one")
        if made is None:
            making = make(once)
            made = self._made[key] = _Made(once.request, making=making)
            making.add_done_callback(partial(self._has_made, key, made))
        if made.making is not None:
            # Not the task itself: whoever stops asking must not keep the others from their room.
            making = made.making
            await asyncio.wait([making])
            made.room_id = making.result()
        if made.room_id in self._ended:
            raise Expired(f"the room created with the key {once.key!r} has ended: use a new key")
        return made.room_id

    def _has_made(self, key: tuple[str, str], made: _Made, making: "asyncio.Task[str]") -> None:
        made.making = None
        if not making.cancelled() and making.exception() is None:
            made.room_id = making.result()
        elif self._made.get(key) is made:
            # Nothing came of it, so whoever asks next tries anew; also if nobody is left who has asked.
            del self._made[key]

    # Creators

    def check_creator(self, creator: str) -> None:
        """Refuse another room to a player who has made too many that have not ended."""
        rooms = len(self._by_creator.get(creator, ()))
        if creator and rooms >= self._limits.rooms_per_player_max:
            raise Throttled(f"you have made {rooms} rooms that have not ended: end one of them first")

    def claim(self, room_id: str, creator: str) -> None:
        """A room is this player's, also while it is being made."""
        if creator:
            self._by_creator.setdefault(creator, set()).add(room_id)

    def _disclaim(self, room_id: str, creator: str) -> None:
        rooms = self._by_creator.get(creator)
        if rooms is not None:
            rooms.discard(room_id)
            if not rooms:
                del self._by_creator[creator]

    # Rooms come and go

    def add(self, room_id: str, listing: RoomListing) -> None:
        """A room can be found from now on; one that has no code, or another's, gets a new one."""
        self.expect(room_id, listing)
        if self._codes.get(listing.code) != room_id:
            listing.code = self.new_code(room_id)

    def expect(self, room_id: str, listing: RoomListing) -> None:
        """A room waits in the store for somebody who asks for it: nobody else may have what it is known by."""
        self.claim(room_id, listing.creator)
        if listing.code:
            self._codes.setdefault(listing.code, room_id)
        if listing.creation_key is not None:
            self._made.setdefault(
                (listing.creation_key.creator, listing.creation_key.key), _Made(listing.creation_key.request, room_id)
            )

    def remove(self, listing: RoomListing, info: RoomInfo) -> None:
        """A room has ended: remembered for a while."""
        self._codes.pop(listing.code, None)
        self._disclaim(info.id, listing.creator)
        self.unname(info.id)
        self._ended[info.id] = (self._now(), info, listing.creation_key)
        self._prune()

    def forget(self, room_id: str, listing: RoomListing) -> None:
        """A room is another node's now, waits in the store, or was not made after all."""
        self._disclaim(room_id, listing.creator)
        self.unname(room_id)
        if self._codes.get(listing.code) == room_id:
            del self._codes[listing.code]
        once = listing.creation_key
        if once is not None:
            made = self._made.get((once.creator, once.key))
            if made is not None and made.room_id == room_id:
                del self._made[once.creator, once.key]

    def ended(self, room_id: str) -> RoomInfo | None:
        """A room that ended a short while ago."""
        self._prune()
        known = self._ended.get(room_id)
        return known[1] if known is not None else None

    def _prune(self) -> None:
        too_old = self._now() - self._limits.ended_kept_s
        while self._ended:
            room_id, (at, _, once) = next(iter(self._ended.items()))
            if at > too_old and len(self._ended) <= self._limits.ended_kept_max:
                return
            del self._ended[room_id]
            if once is not None:
                self._made.pop((once.creator, once.key), None)
