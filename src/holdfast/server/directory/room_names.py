"""What identifies rooms besides their id: join codes, creation keys, names, creators. Also rooms that ended
recently."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from msgspec import structs

from holdfast.core.errors import Conflict, Expired, NameTaken, NotFound, Throttled
from holdfast.core.limits import Limits
from holdfast.core.room_listing import CODE_LENGTH, RoomListing, join_code, spelled
from holdfast.schemas.requests import Create, fingerprint
from holdfast.schemas.room import CreationKey, RoomInfo


@dataclass(slots=True)
class _Made:
    """The room of a creation key: created, or being created."""

    request: bytes
    room_id: str = ""
    making: "asyncio.Task[str] | None" = None


class RoomNames:
    """The codes, names, keys and creators of a node's rooms."""

    def __init__(self, limits: Limits, random: Random, now: Callable[[], float]) -> None:
        self._limits = limits
        self._random = random
        self._now = now
        self._codes: dict[str, str] = {}
        self.is_code_elsewhere: Callable[[str], bool] = lambda _: False
        """Whether a room of another node has this code, as far as is known."""
        # Of kinds whose names are unique.
        self._names: dict[tuple[str, str], str] = {}
        self._name_of: dict[str, tuple[str, str]] = {}
        self._made: dict[tuple[str, str], _Made] = {}
        self._by_creator: dict[str, set[str]] = {}
        # In the order they ended.
        self._ended: dict[str, tuple[float, RoomInfo, CreationKey | None]] = {}

    # Codes

    def new_code(self, room_id: str) -> str:
        """Assign a new unique code to a room."""
        while True:
            code = join_code(self._random.randbytes(CODE_LENGTH))
            if code not in self._codes and not self.is_code_elsewhere(code):
                self._codes[code] = room_id
                return code

    def recode(self, room_id: str, listing: RoomListing) -> None:
        """Give a room another code."""
        self._codes.pop(listing.code, None)
        listing.code = self.new_code(room_id)

    def coded(self, code: str) -> str | None:
        """The id of the room with this code, if it is here."""
        return self._codes.get(spelled(code))

    def room_of_code(self, code: str) -> str:
        """The id of the room with this code; case and separators do not matter."""
        room_id = self.coded(code)
        if room_id is None:
            raise NotFound(f"no room has the code {code!r}; check the code, or the room has ended", room_code=code)
        return room_id

    # Names

    def check_name(self, kind: str, name: str, room_id: str) -> None:
        """Refuse a name that another room of the kind has."""
        if name and self._names.get((kind, name), room_id) != room_id:
            raise NameTaken(f"another {kind} has the name {name!r}; choose a different one")

    def name(self, kind: str, name: str, room_id: str) -> None:
        """Give the room this name, instead of its previous one."""
        self.unname(room_id)
        # Rooms in the store may share a name: saved before names were unique, or imported from a file.
        if name and (kind, name) not in self._names:
            self._names[kind, name] = room_id
            self._name_of[room_id] = (kind, name)

    def unname(self, room_id: str) -> None:
        key = self._name_of.pop(room_id, None)
        if key is not None:
            del self._names[key]

    # Keys

    async def once(self, request: Create, creator: str, make: Callable[[CreationKey], Coroutine[Any, Any, str]]) -> str:
        """The id of the room for a request with a key: created now, or before by the same request."""
        self._prune()
        # A rebuilt client asks for the same room.
        once = CreationKey(creator, request.idempotency_key, fingerprint(structs.replace(request, message_version="")))
        key = (creator, once.key)
        made = self._made.get(key)
        if made is not None and made.request != once.request:
            raise Conflict(f"the key {once.key!r} was used for a different request: use a new key")
        if made is None:
            making = asyncio.create_task(make(once))
            made = self._made[key] = _Made(once.request, making=making)
            making.add_done_callback(partial(self._has_made, key, made))
        if made.making is not None:
            # Shielded: a client that stops waiting must not cancel the room of the others.
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
            # It failed, so the next request tries again, even if nobody waits for this one any more.
            del self._made[key]

    async def made_with(self, creator: str, key: str) -> str:
        """Wait for the room that is being made with a key: its id; "" if there is none, or why it could not be made."""
        made = self._made.get((creator, key))
        if made is None:
            return ""
        if made.making is not None:
            making = made.making
            await asyncio.wait([making])
            return making.result()
        return made.room_id

    def is_elsewhere(self, creator: str, key: str) -> None:
        """Another node has the room of this key."""
        self._made.pop((creator, key), None)

    # Creators

    def check_creator(self, creator: str, most: int, elsewhere: int = 0) -> None:
        """Refuse a player who has created this many rooms that have not ended, so many of them on other nodes."""
        rooms = len(self._by_creator.get(creator, ())) + elsewhere
        if creator and rooms >= most:
            limit = f"you have created {rooms} rooms that have not ended: end one of them first"
            raise Throttled(limit if rooms else "you may not create rooms")

    def claim(self, room_id: str, creator: str) -> None:
        """Count a room for its creator, also while it is being created."""
        if creator:
            self._by_creator.setdefault(creator, set()).add(room_id)

    def _disclaim(self, room_id: str, creator: str) -> None:
        rooms = self._by_creator.get(creator)
        if rooms is not None:
            rooms.discard(room_id)
            if not rooms:
                del self._by_creator[creator]

    # Adding and removing rooms

    def add(self, room_id: str, listing: RoomListing) -> None:
        """Add a room; it gets a new code if it has none, or one that another room uses."""
        self.expect(room_id, listing)
        if self._codes.get(listing.code) != room_id:
            listing.code = self.new_code(room_id)

    def expect(self, room_id: str, listing: RoomListing) -> None:
        """Keep the code, name and key of a room that is still in the store."""
        self.claim(room_id, listing.creator)
        if listing.code:
            self._codes.setdefault(listing.code, room_id)
        if listing.creation_key is not None:
            self._made.setdefault(
                (listing.creation_key.creator, listing.creation_key.key), _Made(listing.creation_key.request, room_id)
            )

    def remove(self, listing: RoomListing, info: RoomInfo) -> None:
        """Remove an ended room, and remember it for a while."""
        self._codes.pop(listing.code, None)
        self._disclaim(info.id, listing.creator)
        self.unname(info.id)
        self._ended[info.id] = (self._now(), info, listing.creation_key)
        self._prune()

    def forget(self, room_id: str, listing: RoomListing) -> None:
        """Remove a room that belongs to another node, is only in the store, or could not be created."""
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
        """A room that ended recently."""
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
