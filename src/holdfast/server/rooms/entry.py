"""A room's entry in the directory: how it is shown and changed. Everybody in the room is told of changes."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.core.errors import Invalid, NotFound
from holdfast.core.listed_room import apply_update, describe_room, elect, open_seats
from holdfast.core.messages import HostChanged, RoomUpdated
from holdfast.core.room import Room
from holdfast.core.room_context import RoomContext
from holdfast.core.room_listing import RoomStatus, check_properties
from holdfast.core.session import Player, SeatState, seat_of
from holdfast.logs import get_logger
from holdfast.schemas import events
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Update
from holdfast.schemas.room import PasswordHash, RoomInfo
from holdfast.server.rooms.services import RoomServices

log = get_logger("holdfast.server")


class RoomEntry:
    """One room's entry. Every change of it is a turn of the room, or part of one."""

    def __init__(
        self,
        room: Room[Any],
        context: RoomContext,
        services: RoomServices,
        *,
        check_name: Callable[[Room[Any], str | None], None],
        updated: Callable[[Room[Any], Update], None],
        take_turn: Callable[[Callable[[], Any]], None],
    ) -> None:
        """`check_name` refuses a name that is taken; `updated` is called with each update; `take_turn` runs a hook as a
        turn.
        """
        self._room = room
        self._context = context
        self._limits = services.context.limits
        self._loop = services.context.clock.loop
        self._publish = services.context.publish
        self._check_name = check_name
        self._updated = updated
        self._take_turn = take_turn
        # The version that the players in the room know.
        self._told_version = 0
        self._telling: asyncio.TimerHandle | None = None
        # The properties as they are shown, and the version for which they were checked.
        self._properties: dict[str, Any] = {}
        self._checked_version = 0

    def stop(self) -> None:
        if self._telling is not None:
            self._telling.cancel()

    # What is shown

    def info(self, *, sees_code: bool) -> RoomInfo:
        info = project(describe_room(self._room, self._shown_properties()), RoomInfo)
        return info if sees_code else replace(info, code="")

    def row(self) -> RoomInfo:
        """What searches see of the room."""
        self.check_numbers()
        return self.info(sees_code=False)

    def check_numbers(self) -> None:
        """Raise `TypeError` if the room cannot be shown."""
        for name in ("max_players", "max_spectators"):
            if type(getattr(self._room, name)) is not int:
                # Games may take it from a client's message.
                raise TypeError(f"{name} must be a whole number; got {getattr(self._room, name)!r}")

    def public_info(self) -> RoomInfo | None:
        """The room as events show it; None if its game has put something into `max_players` that cannot be shown."""
        try:
            return self.info(sees_code=False)
        except TypeError:
            return None

    @property
    def open_seats(self) -> int:
        return open_seats(self._room)

    def _shown_properties(self) -> dict[str, Any]:
        """Empty if the game has set some that cannot be shown; the log has the reason."""
        room, context = self._room, self._context
        if self._checked_version != context.listing.version:
            self._checked_version = context.listing.version
            try:
                check_properties(context.properties, self._limits.properties_bytes_max)
                self._properties = _fixed(context.properties)
            except Invalid as error:
                log.error(  # noqa: TRY400 - the sentence says it all
                    "the room's properties cannot be shown", room=room.id, kind=room.kind, error=error
                )
                self._properties = {}
        return self._properties

    def undone(self) -> None:
        """The room has the properties and the version of before a turn."""
        self._checked_version = 0
        self._told_version = min(self._told_version, self._context.listing.version)

    # How it is changed

    def apply(self, request: Update, password: PasswordHash | None = None) -> None:
        """Change the entry; `password` is what is kept of the requested one."""
        room = self._room
        self._check_name(room, request.name)
        new_host = apply_update(room, request, self._limits.properties_bytes_max, password)
        old_host = self._context.host
        if new_host is not None:
            self._context.host = new_host
        self._updated(room, request)
        self._tell()
        self._context.commands.follow(room.on_update)
        if self._context.host is not old_host:
            self._tell_host(old_host)

    def changed(self) -> None:
        """The game may have changed the entry: players are told soon, not at once, as it may change with every tick."""
        context = self._context
        if context.listing.version == self._told_version or self._telling is not None:
            return
        if context.seats.occupied or context.spectators:
            self._telling = self._loop.call_later(self._limits.watch_s, self._tell_soon)
        else:
            # Players who join later are shown the entry as it is then.
            self._told_version = context.listing.version

    def _tell_soon(self) -> None:
        self._telling = None
        if self._context.listing.version != self._told_version:
            self._take_turn(self._tell)

    def _tell(self) -> None:
        listing, room_id = self._context.listing, self._context.room_id
        self._told_version = listing.version
        info = self.info(sees_code=True)
        self._room.broadcast(RoomUpdated(info), spectators=False)
        public = replace(info, code="")
        if self._context.spectators:
            self._context.broadcasts.say(self._context.spectators.occupied, RoomUpdated(public))
        if listing.status is not RoomStatus.CREATING:
            # Before that, nobody has heard of the room.
            self._publish(events.ListingUpdated(room=room_id, version=listing.version, info=public))

    def name_host(self, player: Player[Any] | None) -> None:
        context = self._context
        if player is not None and not self._is_here(player):
            raise NotFound(f"player {player.id} has no seat in the room, and cannot be its host")
        old = context.host
        context.set("host", player)
        if player is not old:
            context.entry_changed()
            self._tell_host(old)

    def _is_here(self, player: Player[Any]) -> bool:
        seat = seat_of(player)
        return seat in self._context.seats and seat.state is not SeatState.RESERVED

    def _tell_host(self, old: Player[Any] | None) -> None:
        context = self._context
        player_id, player_name = (context.host.id, seat_of(context.host).name) if context.host is not None else ("", "")
        if player_id == context.successor:
            context.set("successor", "")
        self._room.broadcast(HostChanged(player_id))
        event = events.RoomHostChanged(room=context.room_id, player=player_id, player_name=player_name)
        context.later(self._publish, event)
        context.later(context.commands.follow, self._room.on_host_changed, old, context.host)

    def check_host(self) -> None:
        """Elect a host if the room has none, or its host has left for good. A room that ends has none."""
        context = self._context
        if context.host is not None and self._is_here(context.host):
            return
        if context.is_closing:
            context.host = None
            return
        if context.host is not None or self._room.election != "none":
            # The room has not heard of the players whose `on_join` waits.
            players = [seat.player for seat in context.seats.occupied if not seat.is_joining]
            self.name_host(elect(players, self._room.election, context.successor))


def _fixed(properties: dict[str, Any]) -> dict[str, Any]:
    """A copy that stays as it was checked: a game may change a list in place."""
    return {key: list(value) if isinstance(value, list) else value for key, value in properties.items()}
