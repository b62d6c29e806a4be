"""The rooms of a node: found by id and by kind, created, and forgotten when they end."""

import asyncio
from collections.abc import Iterable, Iterator
from math import inf
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import Invalid, NotFound, Throttled
from holdfast.core.player import Player
from holdfast.core.room import CHOICES, Room
from holdfast.core.tokens import printable
from holdfast.server.room_host import RoomHost

if TYPE_CHECKING:
    from holdfast.server.node import Node

_ROOM_ID_BYTES = 9


class Directory:
    """Which rooms there are, and which there can be."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._types: dict[str, type[Room[Any]]] = {}
        self._hosts: dict[str, RoomHost] = {}
        self._creating = 0
        self._is_closed = False
        self._all_forgotten: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[Room[Any]]:
        """A copy: rooms may end while you look at them."""
        return iter([host.room for host in self._hosts.values()])

    def get(self, room_id: str) -> Room[Any] | None:
        """The room with this id."""
        host = self._hosts.get(room_id)
        return host.room if host is not None else None

    def host(self, room_id: str) -> RoomHost:
        """The host of a room, or `NotFound`."""
        host = self._hosts.get(room_id)
        if host is None:
            raise NotFound(f"there is no room {room_id!r}; it may have ended")
        return host

    def host_of(self, player: Player[Any]) -> RoomHost:
        """The host of the room a player is in."""
        assert isinstance(player.host, RoomHost)
        return player.host

    def hosts_of_kind(self, kind: str | None) -> Iterator[RoomHost]:
        """The rooms of a kind (None: all), oldest first."""
        return (host for host in list(self._hosts.values()) if kind is None or host.room.kind == kind)

    def offer(self, room_types: Iterable[type[Room[Any]]]) -> None:
        """Make kinds of rooms known; a mistake in their settings is an error now, not at the first player."""
        for room_type in room_types:
            check_room_type(room_type)
            if room_type.kind in self._types:
                raise ValueError(f"two kinds of rooms are called {room_type.kind!r}: set `kind` on one of them")
            self._types[room_type.kind] = room_type

    async def create(
        self, kind: str, properties: dict[str, Any] | None = None, max_players: int | None = None
    ) -> RoomHost:
        """A new room; `Refused` if there is no such kind, no space, or the game says no."""
        room_type = self._types.get(kind)
        if room_type is None:
            raise NotFound(f"no kind of room is called {kind!r}; there is {', '.join(sorted(self._types)) or 'none'}")
        if self._is_closed:
            raise Throttled("this node is stopping")
        if len(self._hosts) + self._creating >= self._node.limits.rooms_max:
            raise Throttled("this node has no space for another room")
        if max_players is not None and not 1 <= max_players <= room_type.max_players:
            raise Invalid(f"max_players must be from 1 to {room_type.max_players} for a {kind}; got {max_players}")
        host = RoomHost(self._node, self._loop, room_type, printable(self._node.random.randbytes(_ROOM_ID_BYTES)))
        if max_players is not None:
            host.room.max_players = max_players
        self._creating += 1
        try:
            await host.create(dict(properties or {}))
            if self._is_closed:
                raise Throttled("this node is stopping")
        except BaseException:
            host.abandon()
            raise
        finally:
            self._creating -= 1
        # Not before: nobody may find a room that its game might still refuse.
        self._hosts[host.room.id] = host
        self._node.counters.rooms_created += 1
        return host

    async def close_all(self, within_s: float) -> None:
        """End every room; one that is still in the middle of a turn when the time is up is abandoned."""
        self._is_closed = True
        for host in list(self._hosts.values()):
            host.close()
        if self._hosts:
            self._all_forgotten = self._loop.create_future()
            await asyncio.wait([self._all_forgotten], timeout=within_s)
        for host in list(self._hosts.values()):
            host.abandon()

    def forget(self, host: RoomHost) -> None:
        """A room has ended."""
        if self._hosts.pop(host.room.id, None) is not None:
            self._node.counters.rooms_ended += 1
        if self._all_forgotten is not None and not self._hosts and not self._all_forgotten.done():
            self._all_forgotten.set_result(None)


def check_room_type(room_type: type[Room[Any]]) -> None:
    """Refuse settings that cannot be meant, with what to write instead."""
    for setting, choices in CHOICES.items():
        value = getattr(room_type, setting)
        if value not in choices:
            raise ValueError(f"{room_type.__name__}.{setting} must be one of {', '.join(choices)}; got {value!r}")
    if room_type.durability != "memory":
        raise ValueError(
            f"{room_type.__name__}.durability is {room_type.durability!r}, but this version keeps rooms in memory only:"
            ' set durability = "memory"'
        )
    for setting, least in (("max_players", 1), ("grace_s", 0), ("empty_ttl_s", 0), ("tick_hz", 0)):
        value = getattr(room_type, setting)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < inf:
            raise ValueError(f"{room_type.__name__}.{setting} must be a number of at least {least}; got {value!r}")
    try:
        room_type.data_type()
    except TypeError as error:
        raise ValueError(f"{room_type.data_type.__name__} needs a default for every field ({error})") from None
