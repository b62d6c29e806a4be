"""A room's entry in the directory: what is shown of it, and how it is changed, which everybody in the room is told."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.core.election import elect
from holdfast.core.errors import Invalid, NotFound
from holdfast.core.listed_room import apply_update, describe_room, open_seats
from holdfast.core.messages import HostChanged, RoomUpdated
from holdfast.core.player import Player
from holdfast.core.room import Room
from holdfast.core.room_listing import RoomStatus, check_properties
from holdfast.logs import get_logger
from holdfast.schemas import events
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Update
from holdfast.schemas.room import PasswordHash, RoomInfo
from holdfast.server.rooms.services import RoomServices

log = get_logger("holdfast.server")


class Entry:
    """One room's entry. Every change of it is a turn of the room, or part of one."""

    def __init__(
        self,
        room: Room[Any],
        services: RoomServices,
        *,
        check_name: Callable[[Room[Any], str | None], None],
        updated: Callable[[Room[Any], Update], None],
        has_joined: Callable[[Player[Any]], bool],
        listed: Callable[[], None],
        follow: Callable[..., None],
        take_turn: Callable[[Callable[[], Any]], None],
    ) -> None:
        """`check_name` refuses a name that is taken; `updated` is called with every update, `listed` when what is shown
        changes by another way; `follow` and `take_turn` run a hook as a turn.
        """
        self._room = room
        self._limits = services.context.limits
        self._loop = services.context.clock.loop
        self._publish = services.context.publish
        self._check_name = check_name
        self._updated = updated
        self._has_joined = has_joined
        self._listed = listed
        self._follow = follow
        self._take_turn = take_turn
        # The version that everybody in the room knows, or will have heard of when the timer has rung.
        self._told_version = 0
        self._telling: asyncio.TimerHandle | None = None
        # The properties as they are shown, and the version for which they were checked.
        self._properties: dict[str, Any] = {}
        self._checked_version = 0

    def stop(self) -> None:
        """There is nobody to be told any more."""
        if self._telling is not None:
            self._telling.cancel()

    # What is shown

    def info(self, *, sees_code: bool) -> RoomInfo:
        """What is shown of the room."""
        info = project(describe_room(self._room, self._shown_properties()), RoomInfo)
        return info if sees_code else replace(info, code="")

    def row(self) -> RoomInfo:
        """What searches see of the room."""
        if type(self._room.max_players) is not int:
            # Many a game takes it from what a client has sent.
            raise TypeError(f"max_players must be a whole number; got {self._room.max_players!r}")
        return self.info(sees_code=False)

    @property
    def open_seats(self) -> int:
        """How many newcomers could join now."""
        return open_seats(self._room)

    def _shown_properties(self) -> dict[str, Any]:
        """Those that a game has spoiled are left out, and said so in the log."""
        room = self._room
        if self._checked_version != room.listing.version:
            self._checked_version = room.listing.version
            try:
                check_properties(room.properties, self._limits.properties_bytes_max)
                self._properties = _fixed(room.properties)
            except Invalid as error:
                log.error(  # noqa: TRY400 - the sentence says it all
                    "the room's properties cannot be shown", room=room.id, kind=room.kind, error=error
                )
                self._properties = {}
        return self._properties

    # How it is changed

    def apply(self, request: Update, password: PasswordHash | None = None) -> None:
        """Change the entry; `password` is what is kept of the requested one."""
        room = self._room
        self._check_name(room, request.name)
        new_host = apply_update(room, request, self._limits.properties_bytes_max, password)
        old_host = room.host
        if new_host is not None:
            room.host = new_host
        self._updated(room, request)
        self._tell()
        self._follow(room.on_update)
        if room.host is not old_host:
            self._tell_host(old_host)

    def changed(self) -> None:
        """Something about the entry may have changed, by the game's own hand: everybody in the room is told soon.

        Not at once: a game may change its properties with every tick.
        """
        room = self._room
        if room.listing.version == self._told_version or self._telling is not None:
            return
        if room.players:
            self._telling = self._loop.call_later(self._limits.watch_s, self._tell_soon)
        else:
            # Who joins is shown the entry as it is then.
            self._told_version = room.listing.version

    def _tell_soon(self) -> None:
        self._telling = None
        if self._room.listing.version != self._told_version:
            self._take_turn(self._tell)

    def _tell(self) -> None:
        room = self._room
        self._told_version = room.listing.version
        room.broadcast(RoomUpdated(self.info(sees_code=True)))
        if room.listing.status is not RoomStatus.CREATING:
            # Before that, nobody has heard of the room.
            self._publish(events.RoomUpdated(room=room.id, version=room.listing.version))

    def name_host(self, player: Player[Any] | None) -> None:
        """Another player is the host."""
        room = self._room
        if player is not None and player not in room.players:
            raise NotFound(f"player {player.id} has no seat in the room, and cannot be its host")
        old, room.host = room.host, player
        if player is not old:
            room.listing.version += 1
            self._listed()
            self._tell_host(old)

    def _tell_host(self, old: Player[Any] | None) -> None:
        room = self._room
        player_id = room.host.id if room.host is not None else ""
        if player_id == room.successor:
            room.successor = ""
        room.broadcast(HostChanged(player_id))
        self._publish(events.HostChanged(room=room.id, player=player_id))
        self._follow(room.on_host_changed, old, room.host)

    def check_host(self) -> None:
        """Elect a host if the room has none, or its host has left for good. A room that ends has none."""
        room = self._room
        if room.host is not None and room.host in room.players:
            return
        if room.is_closing:
            room.host = None
            return
        if room.host is not None or room.election != "none":
            # Of who waits for their `on_join`, the room has not heard yet.
            players = [player for player in room.players if self._has_joined(player)]
            self.name_host(elect(players, room.election, room.successor))


def _fixed(properties: dict[str, Any]) -> dict[str, Any]:
    """A copy that stays as it was checked: a game may change a list in place."""
    return {key: list(value) if isinstance(value, list) else value for key, value in properties.items()}
