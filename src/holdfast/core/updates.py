"""A change of a room's entry in the directory: all of it, or a refusal and nothing."""

from typing import Any

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.core.listing import check_properties
from holdfast.core.player import Player
from holdfast.core.room import Room
from holdfast.schemas.requests import Update
from holdfast.schemas.room import PasswordHash


def apply_update(
    room: Room[Any], wish: Update, properties_bytes_max: int, password: PasswordHash | None = None
) -> Player[Any] | None:
    """Change the entry as it is wished; the player who is to be the host, if the wish names one.

    `password` is what is kept of the one in the wish: to hash it takes a while, so that was done before.
    Fewer seats than are in use throw nobody out: the room is full until so many have left.
    """
    listing = room.listing
    if wish.if_version is not None and wish.if_version != listing.version:
        raise Conflict(f"the room is at version {listing.version} by now, not {wish.if_version}: look again")
    most = type(room).max_players
    if wish.max_players is not None and not 1 <= wish.max_players <= most:
        raise Invalid(f"max_players must be from 1 to {most} for the kind {room.kind!r}; got {wish.max_players}")
    properties = {**room.properties, **wish.set}
    for name in wish.remove:
        properties.pop(name, None)
    if wish.set or wish.remove:
        check_properties(properties, properties_bytes_max)
    new_host = None
    if wish.host is not None:
        new_host = room.player(wish.host)
        if new_host is None:
            raise NotFound(f"player {wish.host} has no seat in the room, and cannot be its host")
    # From here on nothing is refused.
    if wish.name is not None:
        listing.name = wish.name
    if wish.max_players is not None:
        room.max_players = wish.max_players
    if wish.join_policy is not None:
        listing.join_policy = wish.join_policy
    if wish.locked is not None:
        room.is_locked = wish.locked
    if wish.visibility is not None:
        listing.visibility = wish.visibility
    if wish.password is not None:
        listing.password = password
    # Also if there is nothing to set: this is what raises the version, once. In place: the game may have kept them.
    room.properties = properties
    return new_host
