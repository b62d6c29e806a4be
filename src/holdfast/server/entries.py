"""By what rooms are known beside their id: join codes, and the keys they were made with. And those that have ended."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from holdfast.core.errors import Conflict, Expired, NameTaken, NotFound
from holdfast.core.infos import RoomInfo
from holdfast.core.limits import Limits
from holdfast.core.listing import CODE_LENGTH, Listing, Once, join_code, spelled
from holdfast.core.wishes import Create, fingerprint


@dataclass(slots=True)
class _Made:
    """What came, or will come, of a wish with a key."""

    wish: bytes
    room_id: str = ""
    making: "asyncio.Task[str] | None" = None


class Entries:
    """The other names of a node's rooms."""

    def __init__(self, limits: Limits, random: Random, now: Callable[[], float]) -> None:
        self._limits = limits
        self._random = random
        self._now = now
        self._codes: dict[str, str] = {}
        # Of kinds in which a name stands for one room.
        self._names: dict[tuple[str, str], str] = {}
        self._name_of: dict[str, tuple[str, str]] = {}
        self._made: dict[tuple[str, str], _Made] = {}
        # In the order they ended.
        self._ended: dict[str, tuple[float, RoomInfo, Once | None]] = {}

    # Codes

    def new_code(self) -> str:
        """One that no room has."""
        while True:
            code = join_code(self._random.randbytes(CODE_LENGTH))
            if code not in self._codes:
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
        if name:
            self._names[kind, name] = room_id
            self._name_of[room_id] = (kind, name)

    def unname(self, room_id: str) -> None:
        """The room's name is free again."""
        key = self._name_of.pop(room_id, None)
        if key is not None:
            del self._names[key]

    # Keys

    async def once(self, wish: Create, creator: str, make: Callable[[Once], "asyncio.Task[str]"]) -> str:
        """The id of the room for a wish with a key: made now, or when the same was asked for before."""
        once = Once(creator, wish.idempotency_key, fingerprint(wish))
        made = self._made.get((creator, once.key))
        if made is not None and made.wish != once.wish:
            raise Conflict(f"the key {once.key!r} was used before, for another wish: use a new one")
        if made is None:
            made = self._made[creator, once.key] = _Made(once.wish, making=make(once))
        if made.making is not None:
            try:
                # Who asks again must not be left without a room because the first who asked has gone.
                made.room_id = await asyncio.shield(made.making)
                made.making = None
            except BaseException:
                if made.making is not None and made.making.done():
                    self._made.pop((creator, once.key), None)
                raise
        if made.room_id in self._ended:
            raise Expired(f"the room that was made with the key {once.key!r} has ended: use a new one")
        return made.room_id

    # Rooms come and go

    def add(self, room_id: str, listing: Listing) -> None:
        """A room can be found from now on."""
        if listing.code:
            self._codes[listing.code] = room_id
        if listing.once is not None:
            self._made.setdefault((listing.once.creator, listing.once.key), _Made(listing.once.wish, room_id))

    def remove(self, listing: Listing, info: RoomInfo) -> None:
        """A room has ended: remembered for a while."""
        self._codes.pop(listing.code, None)
        self._ended[info.id] = (self._now(), info, listing.once)
        self._prune()

    def forget(self, listing: Listing) -> None:
        """A room is another node's now, or waits in the store."""
        self._codes.pop(listing.code, None)
        if listing.once is not None:
            self._made.pop((listing.once.creator, listing.once.key), None)

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
