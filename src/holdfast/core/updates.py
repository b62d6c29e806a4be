"""A change of a room's entry in the directory: all of it, or a refusal and nothing."""

from typing import Any

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.core.listing import check_properties
from holdfast.core.player import Player
from holdfast.core.room import Room
from holdfast.schemas.requests import Update
from holdfast.schemas.room import PasswordHash


def apply_update(
    room: Room[Any], request: Update, properties_bytes_max: int, password: PasswordHash | None = None
) -> Player[Any] | None:
    """Change the entry as requested; the player who is to be the host, if the request names one.

    `password` is what is kept of the one in the request: hashing takes a while and was done before.
    Fewer seats than are in use throw nobody out: the room is full until so many have left.
    """
    listing = room.listing
    if request.if_version is not None and request.if_version != listing.version:
        raise Conflict(f"the room is at version {listing.version} by now, not {request.if_version}: look again")
    most = type(room).max_players
    if request.max_players is not None and not 1 <= request.max_players <= most:
        raise Invalid(f"max_players must be from 1 to {most} for the kind {room.kind!r}; got {request.max_players}")
    properties = {**room.properties, **request.set}
    for name in request.remove:
        properties.pop(name, None)
    if request.set or request.remove:
        check_properties(properties, properties_bytes_max)
    new_host = None
    if request.host is not None:
        new_host = room.player(request.host)
        if new_host is None:
            raise NotFound(f"player {request.host} has no seat in the room, and cannot be its host")
    # From here on nothing is refused.
    if request.name is not None:
        listing.name = request.name
    if request.max_players is not None:
        room.max_players = request.max_players
    if request.join_policy is not None:
        listing.join_policy = request.join_policy
    if request.locked is not None:
        room.is_locked = request.locked
    if request.visibility is not None:
        listing.visibility = request.visibility
    if request.password is not None:
        listing.password = password
    # Also if there is nothing to set: this is what raises the version, once. In place: the game may have kept them.
    room.properties = properties
    return new_host
