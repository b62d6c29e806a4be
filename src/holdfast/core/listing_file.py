"""A room's entry in the directory as a part of its file.

Two things are left out. The password, for a file is passed on and its hash could be guessed: a room that is put back
has none until one is set. And the idempotency key it was made with: who asks with that key again gets a room of theirs,
not a copy that somebody made.
"""

from holdfast.core.listing import CODE_LENGTH, spelled
from holdfast.core.tagged import seconds_of, seconds_text
from holdfast.schemas.room import (
    ListingFile,
    ListingRecord,
    ReservationFile,
    ReservationRecord,
)


def listing_entry(record: ListingRecord) -> ListingFile:
    """The entry as the file shows it."""
    return ListingFile(
        name=record.name,
        visibility=record.visibility,
        creator=record.creator,
        code=record.code,
        join_policy=record.join_policy,
        version=record.version,
        host=record.host,
        successor=record.successor,
        reservations=[
            ReservationFile(each.player, seconds_text(each.until), each.by, each.is_placed)
            for each in record.reservations
        ],
    )


def stored_listing(entry: ListingFile) -> ListingRecord:
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
