"""`join_or_create` without races: who comes while a room is being made that would do gets a seat in that one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast.core.errors import Refused, RoomFull
from holdfast.core.infos import RoomInfo
from holdfast.core.listing import check_properties
from holdfast.core.query import Query, Row, parse_query
from holdfast.core.session import PlayerId, Session
from holdfast.core.wishes import Create, JoinOrCreate, fingerprint

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.room_host import RoomHost

# A game may close each room as somebody comes: then they hear of that, and not of a new room each time.
_TRIES_MAX = 3

TakeSeat = Callable[[Session, "RoomHost"], Awaitable[RoomInfo]]


class _Making:
    """A room that is being made, and who is to get a seat in it; the first is who has it made."""

    def __init__(self, wish: JoinOrCreate, row: Row) -> None:
        self.wish = wish
        self.row = row
        self.guests: list[PlayerId] = []
        self.refusals: dict[PlayerId, Refused] = {}
        """Who did not get one after all."""
        self.task: asyncio.Task[RoomHost]

    def takes(self, wish: JoinOrCreate, query: Query, now: float) -> bool:
        """Whether the room will do for another wish, and has a seat left."""
        if len(self.guests) >= self.row.max_players or not _is_open(self.wish):
            return False
        return query.matches(self.row, now) or fingerprint(wish) == fingerprint(self.wish)


class QuickJoin:
    """Finds a room for a player, or has one made."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        # In the order they were begun.
        self._making: dict[_Making, None] = {}

    async def join(self, session: Session, wish: JoinOrCreate, take_seat: TakeSeat) -> RoomInfo:
        """Take a seat in a room that is there, or in a new one."""
        tries = _TRIES_MAX
        while True:
            tries -= 1
            host, was_kept = await self._find(session, wish)
            try:
                return await take_seat(session, host)
            except Refused:
                if tries == 0 or not host.room.is_closing:
                    raise
            finally:
                if not was_kept:
                    # Who has not taken the seat does not want it, or is not wanted.
                    host.door.release([session.player_id])

    async def _find(self, session: Session, wish: JoinOrCreate) -> "tuple[RoomHost, bool]":
        """A room with a seat that is this player's or reserved for them; and whether it was before."""
        player_id = session.player_id
        while True:
            for host in self._candidates(player_id, wish):
                was_kept = player_id in host.room.reservations
                if self._has_seat(host, player_id):
                    return host, was_kept
            making = self._under_way(wish) or self._make(wish, player_id)
            making.guests.append(player_id)
            # Who goes away must not keep the others from their room.
            host = await asyncio.shield(making.task)
            refusal = making.refusals.get(player_id)
            if refusal is None:
                return host, False
            has_made = making.guests[0] == player_id
            if has_made and (wish.idempotency_key or not isinstance(refusal, RoomFull)):
                # As its game has it, or it was made long ago: another one would be no better.
                raise refusal
            # Others have its seats: look again. Whoever has a room made is done with it, so this comes to an end.

    def _candidates(self, player_id: PlayerId, wish: JoinOrCreate) -> "list[RoomHost]":
        directory = self._node.rooms
        mine = [
            host for host in directory.rooms_of(player_id) if host.room.kind == wish.kind and _is_back(host, player_id)
        ]
        return [*mine, *directory.listings.first_open(wish.kind, wish.where)]

    @staticmethod
    def _has_seat(host: "RoomHost", player_id: PlayerId) -> bool:
        if _is_back(host, player_id) and player_id not in host.room.reservations:
            return True
        try:
            host.room.check_open(player_id)
            host.door.reserve([player_id], None)
        except Refused:
            return False
        return True

    def _under_way(self, wish: JoinOrCreate) -> _Making | None:
        if not _is_open(wish):
            return None
        query = parse_query(wish.where, (), kind=wish.kind)
        return next((each for each in self._making if each.takes(wish, query, self._node.wall())), None)

    def _make(self, wish: JoinOrCreate, player_id: PlayerId) -> _Making:
        check_properties(wish.properties, self._node.limits.properties_bytes_max)
        kind = self._node.rooms.type_of(wish.kind)
        seats = wish.max_players or (kind.max_players if kind is not None else 1)
        row = Row(
            id="",
            kind=wish.kind,
            name=wish.name,
            max_players=seats,
            open_seats=seats,
            created_at=self._node.wall(),
            phase="lobby",
            properties=wish.properties,
            creator=player_id,
        )
        making = _Making(wish, row)
        making.task = asyncio.get_running_loop().create_task(self._made(making, player_id))
        # If nobody is left who waits for it, nobody wants to know how it failed.
        making.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._making[making] = None
        return making

    async def _made(self, making: _Making, creator: PlayerId) -> "RoomHost":
        try:
            host = await self._node.rooms.create(_plain(making.wish), creator)
        finally:
            del self._making[making]
        # At once: nobody who finds the room now may have the seats of those who have waited for it.
        for player_id in making.guests:
            try:
                host.door.reserve([player_id], None)
            except Refused as refusal:
                making.refusals[player_id] = refusal
        return host


def _is_open(wish: Create) -> bool:
    """Whether others may find the room that is wished for."""
    return wish.visibility == "public" and not wish.password


def _is_back(host: "RoomHost", player_id: PlayerId) -> bool:
    """Whether a player has a seat to come back to, or one that waits for them; a second one is another matter."""
    room = host.room
    return player_id in room.reservations or (room.duplicate != "allow" and room.seat_of(player_id) is not None)


def _plain(wish: JoinOrCreate) -> Create:
    return Create(
        wish.kind, wish.properties, wish.max_players, wish.name, wish.visibility, wish.password, wish.idempotency_key
    )
