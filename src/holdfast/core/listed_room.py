"""The rules of a live room: who may take a seat, who is the host, what its listing shows, and how that is changed."""

from collections.abc import Collection, Sequence
from typing import Any

from holdfast.core.errors import Conflict, Duplicate, Invalid, NotAllowed, NotFound, RoomFull, RoomLocked
from holdfast.core.room import Election, Room, context_of
from holdfast.core.room_context import RoomContext
from holdfast.core.room_listing import RoomListing, RoomStatus, RoomStep, check_properties
from holdfast.core.session import Player, PlayerId, seat_of
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Update
from holdfast.schemas.room import ListingRecord, PasswordHash, ReservationRecord, RoomRecord, RoomSchema


def describe_room(room: Room[Any], properties: dict[str, Any]) -> RoomSchema:
    """The room as data, with the properties that can be shown."""
    context = context_of(room)
    listing = context.listing
    return RoomSchema(
        id=room.id,
        kind=room.kind,
        players=context.seats.used,
        max_players=room.max_players,
        phase=context.phase,
        properties=properties,
        name=listing.name,
        # A plain text: only that is left out of answers as the default.
        status=listing.status.value,
        reason=listing.reason,
        open_seats=open_seats(room),
        visibility=listing.visibility,
        join_policy=listing.join_policy,
        is_locked=context.is_locked,
        password=listing.password,
        has_password=listing.password is not None,
        code=listing.code,
        creator=listing.creator,
        creation_key=listing.creation_key,
        host=_host_id(context),
        successor=context.successor,
        created_at=listing.created_at,
        version=listing.version,
        spectators=len(context.spectators or ()),
        max_spectators=room.max_spectators,
        host_name=seat_of(context.host).name if context.host is not None else "",
    )


def _host_id(context: RoomContext) -> str:
    return context.host.id if context.host is not None else ""


def check_open(room: Room[Any], player_id: PlayerId) -> None:
    """Refuse a newcomer whom the room's rules exclude; nothing changes."""
    context = context_of(room)
    if context.is_closing:
        raise NotFound("the room is closing")
    if room.duplicate != "allow" and context.seats.of(player_id) is not None:
        raise Duplicate("this player is in the room already")
    if not context.seats.is_awaited(player_id):
        _check_space(room, context, 1)


def check_space(room: Room[Any], seats: int) -> None:
    """Refuse this many newcomers if the room does not have the seats, or takes nobody."""
    context = context_of(room)
    if context.is_closing:
        raise NotFound("the room is closing")
    _check_space(room, context, seats)


def _check_space(room: Room[Any], context: RoomContext, seats: int) -> None:
    if context.is_locked or context.listing.join_policy == "deny_all":
        raise RoomLocked("the room is locked" if context.is_locked else "the room takes nobody new")
    check_full(room, context, seats)


def check_seat(room: Room[Any], player_id: PlayerId) -> None:
    """Refuse a seat to a player whom the room itself lets in, locked or not."""
    context = context_of(room)
    if room.duplicate != "allow" and context.seats.of(player_id) is not None:
        raise Duplicate(f"player {player_id} is in the room already")
    if not context.seats.is_awaited(player_id):
        check_full(room, context, 1)


def check_full(room: Room[Any], context: RoomContext, seats: int) -> None:
    """Refuse this many newcomers if the room does not have the seats."""
    if context.seats.used + seats > room.max_players:
        raise RoomFull(f"all {room.max_players} seats are taken, held or reserved")


def open_seats(room: Room[Any]) -> int:
    """How many new players could join now."""
    context = context_of(room)
    is_open = context.listing.status is RoomStatus.ACTIVE and context.listing.join_policy != "deny_all"
    return max(0, room.max_players - context.seats.used) if is_open and not context.is_locked else 0


def room_record(room: Room[Any], *, now: float, wall_clock: float, **saved: Any) -> RoomRecord:
    """The saved form of the room and its listing; `saved` are the fields of the record that are given here as they
    are."""
    # With every turn of some rooms: only what is saved is read, not all that `describe_room` knows.
    context = context_of(room)
    reservations = [
        ReservationRecord(player_id, wall_clock + kept.until - now, kept.by, kept.is_placed, kept.options)
        for player_id, kept in context.seats.reservations.items()
    ]
    listing = project(
        context.listing,
        ListingRecord,
        host=_host_id(context),
        successor=context.successor,
        reservations=reservations,
    )
    return RoomRecord(
        kind=room.kind,
        phase=context.phase,
        is_locked=context.is_locked,
        max_players=room.max_players,
        created_at=context.listing.created_at,
        listing=listing,
        saved_at=wall_clock,
        clock=now,
        **saved,
    )


def restored_listing(record: RoomRecord) -> RoomListing:
    """The restored listing."""
    listing = project(record.listing, RoomListing, created_at=record.created_at)
    listing.happened(RoomStep.ACTIVATED)
    return listing


def apply_update(
    room: Room[Any], request: Update, properties_bytes_max: int, password: PasswordHash | None = None
) -> Player[Any] | None:
    """Change the listing as requested; returns the new host, if the request names one.

    `password` is the hash of the requested one: hashing takes a while and was done before. With fewer seats than are in
    use nobody is removed: the room stays full until enough players have left.
    """
    context = context_of(room)
    listing = context.listing
    if request.if_version is not None and request.if_version != listing.version:
        raise Conflict(f"the room is at version {listing.version} now, not {request.if_version}: read it again")
    most = type(room).max_players
    if request.max_players is not None and not 1 <= request.max_players <= most:
        raise Invalid(f"max_players must be from 1 to {most} for the kind {room.kind!r}; got {request.max_players}")
    properties = {**context.properties, **request.set}
    for name in request.remove:
        properties.pop(name, None)
    if request.set or request.remove:
        check_properties(properties, properties_bytes_max)
    new_host = None
    if request.host is not None:
        seat = context.seats.occupied_by(request.host)
        if seat is None:
            raise NotFound(f"player {request.host} has no seat in the room, so they cannot be its host")
        new_host = seat.player
    # From here on nothing is refused.
    if request.name is not None:
        listing.name = request.name
    if request.max_players is not None:
        room.max_players = request.max_players
    if request.join_policy is not None:
        listing.join_policy = request.join_policy
    if request.locked is not None:
        context.is_locked = request.locked
    if request.visibility is not None:
        listing.visibility = request.visibility
    if request.password is not None:
        listing.password = password
    # Also without a change: this raises the version, once. In place: the game may hold a reference.
    context.properties.replace(properties)
    return new_host


def elect(players: Sequence[Player[Any]], election: Election, successor: str) -> Player[Any] | None:
    """The next host: the named successor if they are here, else as the room's rule says. Players come as they joined.

    Connected players come before absent ones; in a tie, the one who joined first. The same players give the same host,
    on every node and after a crash. Agents are not elected.
    """
    named = next((player for player in players if player.id == successor), None)
    if named is not None:
        return named
    people = [player for player in players if not player.is_agent]
    if election == "none" or not people:
        return None
    present = [player for player in people if player.connected] or people
    if election == "latency":
        # One that was not measured yet is no candidate for having the shortest.
        return min(present, key=lambda player: player.latency_ms or float("inf"))
    return present[0]


def check_role(needed: str, roles: Collection[str], what: str) -> None:
    """Refuse a player without the needed role; an empty one is everybody's."""
    if needed and needed not in roles:
        raise NotAllowed(f"{what} requires the role {needed!r}")
