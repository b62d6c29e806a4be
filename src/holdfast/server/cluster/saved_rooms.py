"""Rooms in the store with what belongs to them: their sessions, and the rooms in which these play and which they watch.

A session is on one node, and so are its rooms: whoever takes one of them takes all.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.core.records import PARTS_NONE, Unreadable, decode_room, decode_session, room_key, session_key
from holdfast.server.durability.saved_room import read_sessions
from holdfast.stores.port import Entry, Store

# Rooms are read from the store in so many questions at once.
_READS_MAX = 64


@dataclass(slots=True)
class SavedRooms:
    """Rooms, each with its parts, and sessions, as the store had them."""

    rooms: dict[str, list[Entry]] = field(default_factory=dict)
    sessions: dict[str, Entry] = field(default_factory=dict)

    def first_of_each(self) -> dict[str, str]:
        """Of each room the first of those that one node has to take together."""
        first = {room_id: room_id for room_id in self.rooms}

        def first_of(room_id: str) -> str:
            while first[room_id] != room_id:
                room_id = first[room_id]
            return room_id

        for entry in self.sessions.values():
            linked = [first_of(room_id) for room_id in rooms_of(entry) if room_id in first]
            first |= dict.fromkeys(linked, min(linked, default=""))
        return {room_id: first_of(room_id) for room_id in first}


class SavedRoomReader:
    """Reads some rooms, and not the whole store."""

    def __init__(self, store: Store, has_room: Callable[[str], bool]) -> None:
        self._store = store
        self._has_room = has_room
        self._reads = asyncio.Semaphore(_READS_MAX)

    async def read(
        self,
        room_ids: Iterable[str],
        session_ids: Iterable[str] = (),
        *,
        revisions: Mapping[str, int] | None = None,
        alone: bool = False,
    ) -> SavedRooms:
        """Rooms, their sessions, and the other rooms of these that are not here, unless `alone`. With `revisions` only
        those rooms that the store has with these.
        """
        found = SavedRooms()
        rooms, sessions = list(room_ids), list(session_ids)
        while rooms or sessions:
            read = zip(rooms, await asyncio.gather(*map(self._read_room, rooms)), strict=True)
            found.rooms |= {
                room_id: entries
                for room_id, entries in read
                if entries and (revisions is None or entries[0].revision == revisions.get(room_id))
            }
            members = (
                each for room_id in rooms if room_id in found.rooms for each in read_sessions(found.rooms[room_id])
            )
            new = [each for each in dict.fromkeys((*sessions, *members)) if each not in found.sessions]
            entries = zip(new, await asyncio.gather(*map(self._read_session, new)), strict=True)
            added = {each: entry for each, entry in entries if entry is not None}
            found.sessions |= added
            others = [] if alone else [room for entry in added.values() for room in rooms_of(entry)]
            rooms = [each for each in dict.fromkeys(others) if each not in found.rooms and not self._has_room(each)]
            sessions = []
        return found

    async def list_all(self, paths: Iterable[str]) -> list[Entry]:
        """Everything at these paths."""
        found = await asyncio.gather(*map(self._list, paths))
        return [entry for entries in found for entry in entries]

    async def _list(self, path: str) -> list[Entry]:
        async with self._reads:
            return await self._store.list(path)

    async def _read_room(self, room_id: str) -> list[Entry]:
        async with self._reads:
            entry = await self._store.get(room_key(room_id))
            if entry is None:
                return []
            with suppress(Unreadable):
                record = decode_room(entry.value)
                if record.parts == PARTS_NONE and not record.has_state_beside:
                    # Asking for all below a key takes ten times as long.
                    return [entry]
            return await self._store.list(room_key(room_id))

    async def _read_session(self, session_id: str) -> Entry | None:
        async with self._reads:
            return await self._store.get(session_key(session_id))


def rooms_of(session: Entry) -> list[str]:
    """The rooms in which a session has its seat, and which it watches."""
    try:
        record = decode_session(session.value)
    except Unreadable:
        return []
    return [room_id for room_id in (record.room, record.spectating) if room_id]


def kind_of(entries: Sequence[Entry]) -> str | None:
    """The kind of a room; None if its record cannot be read."""
    try:
        return decode_room(entries[0].value).kind
    except Unreadable:
        return None


def writer_of(entries: Sequence[Entry]) -> str:
    """The life of the node that saved a room last."""
    try:
        return decode_room(entries[0].value).node
    except Unreadable:
        return ""


def is_roomless(session: Entry) -> bool:
    """Whether a session has no seat and watches nothing."""
    try:
        record = decode_session(session.value)
    except Unreadable:
        return False
    return not (record.room or record.spectating)
