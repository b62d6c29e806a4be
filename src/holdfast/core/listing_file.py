"""A room's entry in the directory as a part of its file.

Two things are left out. The password, for a file is passed on and its hash could be guessed: a room that is put back
has none until one is set. And the idempotency key it was made with: who asks with that key again gets a room of theirs,
not a copy that somebody made.
"""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.core.listing import CODE_LENGTH, spelled
from holdfast.core.records import ListingRecord, ReservationRecord
from holdfast.core.tagged import seconds_of, seconds_text
from holdfast.schemas.requests import JoinPolicy, PlayerName, RoomName, Visibility


class ReservationEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A seat that is kept for a player, until when, and who had it reserved (empty: an operator)."""

    player: PlayerName
    until: str
    by: str = ""
    is_placed: bool = False
    """Whether a placement had it reserved, in the name of `by`."""


class ListingEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """What the directory knew of the room. Files from before there was one have none of it."""

    name: RoomName = ""
    visibility: Visibility = "public"
    creator: str = ""
    code: str = ""
    """Empty: the next server makes one up, as it does when another room has this one."""
    join_policy: JoinPolicy = "accept_all"
    version: Annotated[int, Meta(ge=1)] = 1
    host: str = ""
    successor: str = ""
    reservations: list[ReservationEntry] = []


def listing_entry(record: ListingRecord) -> ListingEntry:
    """The entry as the file shows it."""
    return ListingEntry(
        name=record.name,
        visibility=record.visibility,
        creator=record.creator,
        code=record.code,
        join_policy=record.join_policy,
        version=record.version,
        host=record.host,
        successor=record.successor,
        reservations=[
            ReservationEntry(each.player, seconds_text(each.until), each.by, each.is_placed)
            for each in record.reservations
        ],
    )


def stored_listing(entry: ListingEntry) -> ListingRecord:
    """The entry as it is stored; `ValueError` for one that no room can have."""
    if entry.code and (len(entry.code) != CODE_LENGTH or spelled(entry.code) != entry.code):
        raise ValueError(f"listing.code: {entry.code!r} is no code; leave it empty, and the next server makes one up")
    return ListingRecord(
        name=entry.name,
        visibility=entry.visibility,
        creator=entry.creator,
        code=entry.code,
        join_policy=entry.join_policy,
        version=entry.version,
        host=entry.host,
        successor=entry.successor,
        reservations=[
            ReservationRecord(each.player, seconds_of(each.until), each.by, each.is_placed)
            for each in entry.reservations
        ],
    )
