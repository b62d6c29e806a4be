"""The auditor: reads every record the moment that it is in the store for good, and knows what has been saved.

I5       a room's record is only ever followed by one that continues it: index, hash, epoch, owner, log
I2       what was said is in the record: it is never said differently, and it is there until it was read
DICE     the numbers in a log are those of dice that were never interrupted
TIMER    no timer rings twice in one log, and no bell chimes twice in one of its periods
I4       a seat and its session are saved in one breath
"""

import asyncio
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.records import decode_room, decode_session, digest, seats_of, spectators_of
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import RoomRecord
from holdfast.schemas.session import ChannelRecord, SessionRecord
from holdfast.server.rooms.splitmix64 import SplitMix64
from holdfast.stores import Batch, Write
from holdfast.testing import Disk, FaultyStore
from tests.simulation.checker import Checker
from tests.simulation.game import Entry, Game, Ledger, Life

Stream = tuple[str, int, int]
"""A session, the number of its channel, the generation."""


class SavedBoard(Struct):
    """As much of a board as the auditor reads."""

    dice: int
    log: list[Entry]


@dataclass(slots=True)
class Book:
    """What the store has of one room."""

    kind: str
    dice: SplitMix64
    value: bytes = b""
    record: RoomRecord | None = None
    log: list[Entry] = field(default_factory=list)
    rung: set[str] = field(default_factory=set)
    nodes: dict[int, str] = field(default_factory=dict)
    is_ended: bool = False


class Auditor:
    """Told of every batch that is written. What it knows to be saved is asked for by the tap and the cashier."""

    def __init__(self, disk: Disk, checker: Checker, game: Game, gated: Callable[[str], bool]) -> None:
        self._disk = disk
        self._checker = checker
        self._game = game
        self._is_gated = gated
        self.lives: dict[FaultyStore, Life] = {}
        """Who writes through which store."""
        self.books: dict[str, Book] = {}
        self.wanted: set[tuple[str, str, int]] = set()
        """The effects that were wanted, by room and operation."""
        self.said: dict[Stream, dict[int, tuple[str, bytes]]] = {}
        """What was saved of streams to clients, by number."""
        self.applied: dict[tuple[str, int], int] = {}
        """How far the messages of a client were applied, by session and channel."""
        self.gated: set[tuple[str, int]] = set()
        """The channels of seats in rooms that are saved with every commit, by session and number."""
        self.tokens: dict[str, set[bytes]] = {}
        """The hashes of all tokens that were saved, by session; of those that are in the store."""
        self.opened: dict[str, int] = {}
        """How many channels each session has had."""
        self.ended: set[str] = set()
        """The sessions that the store has forgotten."""
        self.rooms_of: dict[str, set[str]] = {}
        """The rooms that each session was ever saved in, or watched, also in what was rolled back."""
        self.waiting: list[asyncio.Future[None]] = []
        """Who wants to know when something is written."""
        disk.on_written = self._written
        game.age_of = self._age_of

    _SAVED = ("books", "wanted", "said", "applied", "gated", "tokens", "opened", "ended")

    def backup(self) -> dict[str, Any]:
        """What is known to be saved now."""
        return deepcopy({name: getattr(self, name) for name in self._SAVED})

    def restore(self, backup: dict[str, Any]) -> None:
        """The store is as it was then: what was saved since never was."""
        for name, saved in deepcopy(backup).items():
            setattr(self, name, saved)

    def _written(self, batch: Batch, store: FaultyStore) -> None:
        self._checker.note("saved", *(write.key for write in batch))
        self._checker.count("batches saved")
        for write in batch:
            match write.key.split("/"):
                case ["room", room_id]:
                    self._room_written(room_id, write, batch, self.lives[store])
                case ["session", session_id]:
                    self._session_written(session_id, write.value)
                case _:
                    pass
        for write in batch:
            self._check_seats(write)
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    # Rooms

    def _age_of(self, room_id: str) -> float | None:
        record = self.books[room_id].record
        assert record is not None
        age_s = asyncio.get_running_loop().time() - record.saved_at
        self._checker.ages.setdefault(room_id, []).append(age_s)
        return None if record.is_final else age_s

    def _room_written(self, room_id: str, write: Write, batch: Batch, life: Life) -> None:
        book = self.books.get(room_id)
        if write.value is None:
            if book is not None:
                book.is_ended = True
                self._extend(room_id, book, self._game.endings.get((room_id, life.number), book.log))
            return
        record = decode_room(write.value)
        board = self._board(room_id, record, batch)
        if book is None:
            book = self.books[room_id] = Book(record.kind, SplitMix64(board.dice))
        self._check_chain(room_id, book, record)
        book.value, book.record = write.value, record
        self._extend(room_id, book, board.log)
        seats = self._seats(room_id)
        self._checker.expect("P4", len(seats) <= Ledger.max_players, f"{room_id} is saved with {seats}")
        for seat in (*seats, *self._places(room_id)):
            if seat.channel is not None and self._is_gated(record.kind):
                self.gated.add((seat.session, seat.channel.number))
                self._check_channel(seat.session, seat.channel)

    def _board(self, room_id: str, record: RoomRecord, batch: Batch) -> SavedBoard:
        stored: bytes | None = bytes(record.state)
        if record.has_state_beside:
            key = f"room/{room_id}/state"
            stored = next((write.value for write in batch if write.key == key), None)
            stored = self._disk.entries[key].value if stored is None else stored
        assert stored is not None
        return msgspec.msgpack.decode(stored, type=SavedBoard)

    def _check_chain(self, room_id: str, book: Book, record: RoomRecord) -> None:
        expect = self._checker.expect
        expect("I5", not book.is_ended, f"{room_id} has ended, and is written again")
        former = book.record
        if former is None:
            expect("I5", record.index == 1, f"{room_id} begins with record {record.index}")
        else:
            expect("I5", record.index == former.index + 1, f"{room_id}: record {record.index} after {former.index}")
            expect("I5", record.previous == digest(book.value), f"{room_id}: {record.index} follows from another")
            expect("I5", record.epoch >= former.epoch, f"{room_id}: epoch {record.epoch} after {former.epoch}")
        owner = book.nodes.setdefault(record.epoch, record.node)
        expect("I5", owner == record.node, f"{room_id}: {owner} and {record.node} both have epoch {record.epoch}")

    def _extend(self, room_id: str, book: Book, log: list[Entry]) -> None:
        """What is new in the log counts from now on."""
        checker = self._checker
        known = len(book.log)
        checker.expect("I2", log[:known] == book.log, f"{room_id} has saved another past than before")
        for entry in log[known:]:
            draw = book.dice.getrandbits(32)
            checker.expect("DICE", entry.draw == draw, f"{room_id} threw {entry.draw}, not {draw}")
            if entry.what == "effect":
                self.wanted.add((room_id, entry.process, entry.n))
            if entry.what.startswith(("ring", "chime")):
                checker.count("timers rung" if entry.what.startswith("ring") else "bells chimed")
                checker.expect("TIMER", entry.what not in book.rung, f"{room_id} saved twice: {entry.what}")
                book.rung.add(entry.what)
            if self._is_gated(book.kind):
                checker.wrote(room_id, entry.player, entry.op)
        book.log = list(log)

    # Sessions and streams

    def _session_written(self, session_id: str, value: bytes | None) -> None:
        if value is None:
            self.tokens.pop(session_id, None)
            self.ended.add(session_id)
            return
        self.ended.discard(session_id)
        record = decode_session(value)
        self.tokens.setdefault(session_id, set()).update({record.token, record.next_token})
        self.rooms_of.setdefault(session_id, set()).update({record.room, record.spectating} - {""})
        self.opened[session_id] = max(self.opened.get(session_id, 0), record.channels_opened)
        for channel in (*record.closing, *([record.inbox] if record.inbox is not None else [])):
            self._check_channel(session_id, channel)

    def _check_channel(self, session_id: str, channel: ChannelRecord) -> None:
        said = self.said.setdefault((session_id, channel.number, channel.generation), {})
        first = channel.last_seq - len(channel.kept) + 1
        for number, message in enumerate(channel.kept, start=first):
            known = said.setdefault(number, message)
            self._checker.expect("I2", known == message, f"message {number} to {session_id} was {known}, is {message}")
        key = (session_id, channel.number)
        self.applied[key] = max(self.applied.get(key, 0), channel.applied)

    def _check_seats(self, write: Write) -> None:
        """Of what was just written: who has a seat has a session that knows it, and the other way round."""
        match write.key.split("/"):
            case ["room", room_id] if write.value is not None:
                for seat in self._seats(room_id):
                    # Who ended the session while the room stood still leaves when it goes on.
                    is_known = seat.session in {"", *self.ended} or self._room_of(seat.session) == room_id
                    self._checker.expect("I4", is_known, f"{room_id} has a seat that {seat.session} knows nothing of")
                for place in self._places(room_id):
                    watched = self._session(place.session)
                    # One whose session is lost is held for its grace.
                    is_known = place.session in {"", *self.ended}
                    is_known = is_known or (watched is None and place.session in self._game.light)
                    is_known = is_known or (watched is not None and watched.spectating == room_id)
                    self._checker.expect("I4", is_known, f"{room_id} has a place that {place.session} knows nothing of")
            case ["session", session_id] if write.value is not None:
                record = decode_session(write.value)
                room_id = record.room
                is_seated = not room_id or session_id in self._sessions_in(room_id)
                self._checker.expect("I4", is_seated, f"{session_id} was saved in {room_id}, and has no seat there")
                places = [place.session for place in self._places(record.spectating)]
                is_watching = not record.spectating or session_id in places
                self._checker.expect("I4", is_watching, f"{session_id} watches {record.spectating}, and has no place")
            case _:
                pass

    def _room_of(self, session_id: str) -> str | None:
        record = self._session(session_id)
        return record.room if record is not None else None

    def _session(self, session_id: str) -> SessionRecord | None:
        entry = self._disk.entries.get(f"session/{session_id}")
        return decode_session(entry.value) if entry is not None else None

    def _sessions_in(self, room_id: str) -> Iterable[str]:
        return [seat.session for seat in self._seats(room_id)]

    def _seats(self, room_id: str) -> list[SeatRecord]:
        """As the store has them now: in the room's record, and beside it."""
        return self._listed(room_id, seats_of)

    def _places(self, room_id: str) -> list[SeatRecord]:
        """The same for spectators."""
        return self._listed(room_id, spectators_of)

    def _listed(self, room_id: str, read: Callable[..., list[SeatRecord]]) -> list[SeatRecord]:
        key = f"room/{room_id}"
        entry = self._disk.entries.get(key)
        if entry is None:
            return []
        beside = {each: found.value for each, found in self._disk.entries.items() if each.startswith(f"{key}/")}
        return read(decode_room(entry.value), key, beside)
