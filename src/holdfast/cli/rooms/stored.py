"""Rooms in a store, as data: read them, and write or delete one atomically."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click

from holdfast.cli.options import store_failed
from holdfast.core.records import Unreadable, decode_room, decode_session, digest, room_key, seats_of
from holdfast.core.room_file import Past, room_entries, room_file
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import RoomFile, RoomRecord
from holdfast.stores import open_store
from holdfast.stores.port import (
    ABSENT,
    Claim,
    Entry,
    Held,
    RevisionConflict,
    Store,
    StoreError,
    Unknown,
    Write,
    commit_one,
)

_HOW_TO_CHANGE = (
    "stop it first, or use `holdfast rooms end ROOM_ID` to end a room through it. `holdfast rooms list` and `export`"
    " work while it runs."
)


@dataclass(frozen=True)
class StoredRoom:
    """A snapshot of a room's entries in a store."""

    id: str
    entries: list[Entry]

    @property
    def key(self) -> str:
        """The key of its record."""
        return room_key(self.id)

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return sum(len(entry.value) for entry in self.entries)

    @cached_property
    def record(self) -> RoomRecord:
        """Its record, or `Unreadable`."""
        return decode_room(self._stored)

    @property
    def _beside(self) -> dict[str, bytes]:
        return {entry.key: entry.value for entry in self.entries if entry.key != self.key}

    @cached_property
    def seats(self) -> list[SeatRecord]:
        """Its seats, or `Unreadable`."""
        return seats_of(self.record, self.key, self._beside)

    @property
    def _stored(self) -> bytes:
        if self.entries[0].key != self.key:
            raise Unreadable("its record is missing")
        return self.entries[0].value

    def file(self) -> RoomFile:
        """The whole room, or `Unreadable`."""
        return room_file(self.id, self._stored, self._beside, self.key)

    @property
    def past(self) -> Past | None:
        """The revision that a replacing record continues from; None if this one cannot be read."""
        try:
            return Past(self.record.epoch, self.record.index, digest(self._stored))
        except Unreadable:
            return None


@asynccontextmanager
async def opened(url: str, claim: Claim = "shared", *, must_exist: bool = True) -> AsyncIterator[Store]:
    """Open the store at a URL; its errors become `ClickException`s."""
    scheme, _, path = url.partition(":")
    if scheme == "memory":
        raise click.ClickException("memory: is inside a running server and cannot be read from here.")
    if must_exist and scheme == "sqlite" and path and not Path(path).exists():  # noqa: ASYNC240 - once, before anything
        raise click.ClickException(f"There is no store {path}.")
    try:
        store = open_store(url)
        await store.open(claim)
    except ValueError as error:
        raise click.ClickException(f"{error}.") from None
    except Held as error:
        raise click.ClickException(f"{error.holder} runs a server with {path}: {_HOW_TO_CHANGE}") from None
    except StoreError as error:
        raise store_failed(url, error) from None
    try:
        yield store
    except RevisionConflict:
        raise click.ClickException(
            "The room was changed at the same time, so nothing was written. If a server is using this store, stop it"
            " first."
        ) from None
    except Unknown as error:
        raise click.ClickException(
            f"{error}. The change may or may not be saved: check with `holdfast rooms list`."
        ) from None
    except StoreError as error:
        raise store_failed(url, error) from None
    finally:
        await store.close()


async def all_rooms(store: Store) -> list[StoredRoom]:
    """Every room, ordered by id."""
    rooms: dict[str, list[Entry]] = {}
    for entry in await store.list(room_key("")):
        rooms.setdefault(entry.key.split("/")[1], []).append(entry)
    return [StoredRoom(room_id, entries) for room_id, entries in rooms.items()]


async def find_room(store: Store, room_id: str) -> StoredRoom | None:
    """One room."""
    key = room_key(room_id)
    entries = [entry for entry in await store.list(key) if entry.key == key or entry.key.startswith(f"{key}/")]
    return StoredRoom(room_id, entries) if entries else None


async def effects_of(store: Store, room_id: str) -> int:
    """The number of the room's pending effects."""
    return len(await store.list(f"effect/{room_id}/"))


async def put_room(store: Store, file: RoomFile, room_id: str, former: StoredRoom | None) -> None:
    """Write a new room or replace the former one; raises `RevisionConflict`."""
    entries = room_entries(file, room_key(room_id), former.past if former is not None else None)
    known = await _revisions(store, former) if former is not None else {}
    gone = [Write(key, None, revision) for key, revision in known.items() if key not in entries]
    written = [Write(key, value, known.get(key, ABSENT)) for key, value in entries.items()]
    await commit_one(store, [*written, *gone])


async def delete_room(store: Store, room: StoredRoom) -> None:
    """Delete a room and its sessions; raises `RevisionConflict`."""
    known = await _revisions(store, room)
    await commit_one(store, [Write(key, None, revision) for key, revision in known.items()])


async def _revisions(store: Store, room: StoredRoom) -> dict[str, int]:
    """The keys and revisions of a room and of the sessions with a seat in it, which cannot outlive it."""
    known = {entry.key: entry.revision for entry in room.entries}
    for entry in await store.list("session/"):
        try:
            if decode_session(entry.value).room == room.id:
                known[entry.key] = entry.revision
        except Unreadable:
            continue
    return known
