"""A room's entry in the directory, as it is changed: everybody in the room is told, and so is whoever watches it."""

from typing import TYPE_CHECKING, Any

from holdfast.core.election import elect
from holdfast.core.messages import HostChanged, RoomUpdated
from holdfast.core.player import Player
from holdfast.core.updates import apply_update
from holdfast.core.wishes import Update

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.room_host import RoomHost


class Entry:
    """The changes of one room's entry. Each is a turn of the room, or part of one."""

    def __init__(self, host: "RoomHost", node: "Node") -> None:
        self._host = host
        self._room = host.room
        self._node = node

    def apply(self, wish: Update) -> None:
        """Change the entry."""
        room, node = self._room, self._node
        node.rooms.check_name(room, wish.name)
        new_host = apply_update(room, wish, node.limits.properties_bytes_max, node.random.randbytes)
        node.rooms.renamed(room)
        room.broadcast(RoomUpdated(node.rooms.info_of(self._host, sees_code=True)))
        node.events.publish("room.updated", room=room.id, version=room.listing.version)
        self._host.follow(room.on_update)
        if new_host is not None:
            self.name_host(new_host)
        self._host.door.seat_freed()

    def name_host(self, player: Player[Any] | None) -> None:
        """Another player is the host."""
        room = self._room
        old, room.host = room.host, player
        if player is old:
            return
        player_id = player.id if player is not None else ""
        if player_id == room.successor:
            room.successor = ""
        self._host.listed()
        room.broadcast(HostChanged(player_id))
        self._node.events.publish("host.changed", room=room.id, player=player_id)
        self._host.follow(room.on_host_changed, old, player)

    def check_host(self) -> None:
        """Elect a host if the room has none, or its host has left for good."""
        room = self._room
        if room.is_closing or (room.host is not None and room.host in room.players):
            return
        if room.host is not None or room.election != "none":
            self.name_host(elect(room.players, room.election, room.successor))
