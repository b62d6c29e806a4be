"""The rooms of a node: found by id and by kind, created, and forgotten when they end."""

import asyncio
from collections.abc import Iterable, Iterator
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import Invalid, NotFound, Throttled
from holdfast.core.player import Player
from holdfast.core.room import CHOICES, Room
from holdfast.core.tokens import printable
from holdfast.server.durable.dice import Dice
from holdfast.server.durable.host import DurableHost
from holdfast.server.durable.images import check_savable
from holdfast.server.room_host import RoomHost

if TYPE_CHECKING:
    from holdfast.server.node import Node

_ROOM_ID_BYTES = 9
# Settings that are numbers, and what is the least.
_LEAST = {"max_players": 1, "grace_s": 0, "empty_ttl_s": 0, "tick_hz": 0, "checkpoint_s": 0.05, "save_s": 0}


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
        if host is None and self._node.recovery is not None:
            self._node.recovery.restore_room(room_id)
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
            check_room_type(room_type, has_store=self._node.ledger is not None)
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
        ledger = self._node.ledger
        if room_type.durability != "memory" and ledger is not None and ledger.is_failing:
            raise Throttled("the store does not save at the moment; try again")
        host = self.new_host(room_type, printable(self._node.random.randbytes(_ROOM_ID_BYTES)))
        if max_players is not None:
            host.room.max_players = max_players
        self._creating += 1
        try:
            await host.create(dict(properties or {}))
            if self._is_closed:
                raise Throttled("this node is stopping")
            if host.room.is_closing:
                raise NotFound("the room closed at once")
        except BaseException:
            host.abandon()
            raise
        finally:
            self._creating -= 1
        # Not before: nobody may find a room that its game might still refuse.
        self._hosts[host.room.id] = host
        self._node.counters.rooms_created += 1
        return host

    def new_host(self, room_type: type[Room[Any]], room_id: str, position: int | None = None) -> RoomHost:
        """A host for a room that begins, or for one that goes on with its dice at this position."""
        node = self._node
        seed = node.random.getrandbits(64) if position is None else position
        if room_type.durability == "memory":
            return RoomHost(node, self._loop, room_type, room_id, Random(seed))  # noqa: S311 - for games, and repeatable
        assert node.ledger is not None
        return DurableHost(node, self._loop, room_type, room_id, Dice(seed), node.ledger)

    def add(self, host: RoomHost) -> None:
        """A room that came back from the store."""
        self._hosts[host.room.id] = host

    def sort_by_age(self) -> None:
        """After a recovery, which brings rooms back in no order: the oldest first, as they were made."""
        ages = {
            room_id: host.keeper.created_at for room_id, host in self._hosts.items() if isinstance(host, DurableHost)
        }
        self._hosts = {room_id: self._hosts[room_id] for room_id in sorted(ages, key=ages.__getitem__)}

    def type_of(self, kind: str) -> type[Room[Any]] | None:
        """The class of a kind of rooms."""
        return self._types.get(kind)

    async def close_all(self, within_s: float) -> None:
        """End every room that would not outlive this node; one that is still in the middle of a turn is abandoned."""
        self._is_closed = True
        ending = [host for host in self._hosts.values() if not isinstance(host, DurableHost)]
        for host in ending:
            host.close()
        if any(host.room.id in self._hosts for host in ending):
            self._all_forgotten = self._loop.create_future()
            await asyncio.wait([self._all_forgotten], timeout=within_s)
        for host in ending:
            if host.room.id in self._hosts:
                host.abandon()

    def suspend_all(self) -> None:
        """Let go of the durable rooms: they wait in the store."""
        for host in list(self._hosts.values()):
            if isinstance(host, DurableHost):
                host.suspended()

    def forget(self, host: RoomHost) -> None:
        """A room has ended."""
        if self._hosts.pop(host.room.id, None) is not None:
            self._node.counters.rooms_ended += 1
        if self._all_forgotten is not None and not self._all_forgotten.done() and self._are_all_durable():
            self._all_forgotten.set_result(None)

    def _are_all_durable(self) -> bool:
        return all(isinstance(host, DurableHost) for host in self._hosts.values())


def check_room_type(room_type: type[Room[Any]], *, has_store: bool) -> None:
    """Refuse settings that cannot be meant, with what to write instead."""
    for setting, choices in CHOICES.items():
        value = getattr(room_type, setting)
        if value not in choices:
            raise ValueError(f"{room_type.__name__}.{setting} must be one of {', '.join(choices)}; got {value!r}")
    if room_type.durability != "memory":
        if not has_store:
            raise ValueError(
                f"{room_type.__name__}.durability is {room_type.durability!r}, but the server has no store: give it "
                'one, as in Server(store="sqlite:game.db") or holdfast serve --store sqlite:game.db'
            )
        check_savable(room_type)
    for setting, least in _LEAST.items():
        value = getattr(room_type, setting)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < inf:
            raise ValueError(f"{room_type.__name__}.{setting} must be a number of at least {least}; got {value!r}")
    try:
        room_type.data_type()
    except TypeError as error:
        raise ValueError(f"{room_type.data_type.__name__} needs a default for every field ({error})") from None
