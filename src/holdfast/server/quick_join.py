"""`join_or_create` without races: who comes while a room is being made for the same wish gets a seat in that one."""

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.errors import Refused
from holdfast.core.session import Session
from holdfast.core.wishes import Create, JoinOrCreate, fingerprint

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.room_host import RoomHost

# A game may lock each room as it is made: then the player hears of that, and not of a new room each time.
_TRIES_MAX = 3


class _Making:
    """A room that is being made, and how many more it has a seat for."""

    def __init__(self, task: "asyncio.Task[RoomHost]", seats: int) -> None:
        self.task = task
        self.seats = seats


class QuickJoin:
    """Finds a room for a player, or has one made."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._making: dict[bytes, _Making] = {}

    async def find(self, session: Session, wish: JoinOrCreate) -> "RoomHost":
        """The room that this player is to join; a seat in it is reserved for them."""
        tries = _TRIES_MAX
        while True:
            for host in self._candidates(session, wish):
                if host.room.seat_of(session.player_id) is not None or self._has_kept(host, session):
                    return host
            making = self._making.get(fingerprint(wish))
            if making is None or making.seats == 0:
                making = self._make(wish, session)
            making.seats -= 1
            host = await asyncio.shield(making.task)
            tries -= 1
            if self._has_kept(host, session) or tries == 0:
                return host
            # Its game has locked it, or given the seat away: look again.

    @staticmethod
    def _has_kept(host: "RoomHost", session: Session) -> bool:
        try:
            host.door.reserve([session.player_id], None)
        except Refused:
            return False
        return True

    def _candidates(self, session: Session, wish: JoinOrCreate) -> "list[RoomHost]":
        mine = [host for host in self._node.rooms.rooms_of(session.player_id) if host.room.kind == wish.kind]
        return [*mine, *self._node.rooms.listings.first_open(wish.kind, wish.where)]

    def _make(self, wish: JoinOrCreate, session: Session) -> _Making:
        directory = self._node.rooms
        kind = directory.type_of(wish.kind)
        seats = wish.max_players or (kind.max_players if kind is not None else 1)
        task = asyncio.get_running_loop().create_task(directory.create(_plain(wish), session.player_id))
        key = fingerprint(wish)
        making = self._making[key] = _Making(task, seats)

        def made(_: object) -> None:
            if self._making.get(key) is making:
                del self._making[key]

        task.add_done_callback(made)
        return making


def _plain(wish: JoinOrCreate) -> Create:
    return Create(
        wish.kind, wish.properties, wish.max_players, wish.name, wish.visibility, wish.password, wish.idempotency_key
    )
