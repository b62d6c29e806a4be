"""Rooms that are being made for `join_or_create`: players who ask meanwhile get a seat in one of those."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from msgspec import structs

from holdfast.core.errors import Refused
from holdfast.schemas.requests import JoinOrCreate, fingerprint
from holdfast.schemas.room import RoomInfo
from holdfast.schemas.shared import Newcomer
from holdfast.search import Query
from holdfast.server.context import Clock

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class RoomToBe(Generic[T]):
    """A room that is being made, and the players who will get a seat in it; the first of them is its creator."""

    request: JoinOrCreate
    key: bytes
    row: RoomInfo
    guests: list[Newcomer] = field(default_factory=list)
    refusals: dict[str, Refused] = field(default_factory=dict)
    """Players who did not get a seat after all."""
    task: asyncio.Task[T] = field(init=False)

    def suits(self, query: Query, now: float) -> bool:
        """Whether another player whose search this is may have a seat in it."""
        seats, most = len(self.guests), self.row.max_players
        if seats >= most or self.request.visibility != "public" or self.request.password:
            return False
        return query.matches(structs.replace(self.row, players=seats, open_seats=most - seats), now)


class RoomsToBe(Generic[T]):
    """Those that one node decides about."""

    def __init__(self, clock: Clock, seat: Callable[[T, list[Newcomer]], Awaitable[dict[str, Refused]]]) -> None:
        """`seat` keeps a seat in the made room for each of these players; returns who gets none, and why."""
        self._clock = clock
        self._seat = seat
        # In the order of their creation.
        self._making: dict[RoomToBe[T], None] = {}

    def stop(self) -> None:
        for making in self._making:
            making.task.cancel()

    def suitable(self, wanted: Query) -> RoomToBe[T] | None:
        """A room that is being made, in which a player with this search may have a seat."""
        now = self._clock.wall_clock()
        return next((each for each in self._making if each.suits(wanted, now)), None)

    def begin(self, creator: str, request: JoinOrCreate, seats: int, make: Callable[[], Awaitable[T]]) -> RoomToBe[T]:
        """Make a room with so many seats; its creator is the first to join it."""
        row = RoomInfo(
            id="",
            players=0,
            kind=request.kind,
            name=request.name,
            max_players=seats,
            open_seats=seats,
            created_at=self._clock.wall_clock(),
            phase="lobby",
            properties=request.properties,
            creator=creator,
        )
        making: RoomToBe[T] = RoomToBe(request, _key_of(request), row)
        self._making[making] = None
        making.task = self._clock.loop.create_task(self._made(making, make))
        # If nobody waits for it any more, nobody needs its error.
        making.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return making

    @staticmethod
    async def join(making: RoomToBe[T], guest: Newcomer, request: JoinOrCreate) -> T | None:
        """The room, once it is made, with a seat for this player. None if there was none after all: search again. Each
        new room ends at least one search, so all of them end.
        """
        making.guests.append(guest)
        try:
            # A player who leaves must not cancel the room of the others.
            made = await asyncio.shield(making.task)
        except Refused:
            if making.key == _key_of(request):
                raise
            # The request of another player failed, not this one.
            return None
        refusal = making.refusals.get(guest.player)
        if refusal is None:
            return made
        if making.guests[0] is guest:
            # Its game has locked it, for example: another new room would be no better.
            raise refusal
        return None

    async def _made(self, making: RoomToBe[T], make: Callable[[], Awaitable[T]]) -> T:
        try:
            made = await make()
        finally:
            del self._making[making]
        # At once: players who find the room now must not take the seats of those who waited for it.
        making.refusals |= await self._seat(made, making.guests)
        return made


def _key_of(request: JoinOrCreate) -> bytes:
    """Equal for requests for the same room, whatever their players join it with."""
    return fingerprint(structs.replace(request, options=None))
