"""Coming back: rooms and sessions as the store has them, seats held, timers set, players expected.

What cannot be read is set aside: it stays in the store as it is, its players sign in anew, and the log says why.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.ids import new_id
from holdfast.core.reasons import Reason
from holdfast.core.records import (
    SERVER,
    Unreadable,
    decode_effect,
    decode_room,
    decode_session,
    room_key,
    seats_of,
    session_key,
)
from holdfast.core.room import Room
from holdfast.core.saving import restored_channel, restored_listing, restored_session
from holdfast.core.session import SESSION_ID_BYTES, PlayerId, Session, SessionId
from holdfast.logs import get_logger
from holdfast.schemas.events import Restored, RoomFailed, RoomRecovered
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import RoomRecord, TimerRecord
from holdfast.schemas.session import SessionRecord
from holdfast.server.durability.persistence import StorePersistence
from holdfast.server.durability.saved_room import SavedRoom, read_room
from holdfast.server.durability.timer_arguments import timer_arguments
from holdfast.server.rooms.runner import RoomRunner
from holdfast.stores.port import Broken, Entry, Unavailable, Unknown

if TYPE_CHECKING:
    from holdfast.server.durability.committer import Committer
    from holdfast.server.node import Node

log = get_logger("holdfast.server")

Pace = Literal["eager", "lazy"]
"""eager: everything is back before the doors open. lazy: a room when it is first asked for, the others by and by."""

MakeRoom = Callable[[type[Room[Any]], str, int], StorePersistence]

# Between two rooms that nobody has asked for yet.
_LAZY_PAUSE_S = 0.01


class Recovery:
    """Brings back what a former node has left in the store."""

    def __init__(
        self, node: "Node", loop: asyncio.AbstractEventLoop, committer: "Committer", *, make_room: MakeRoom
    ) -> None:
        """`make_room` makes a room that goes on with its random numbers at this position."""
        self._node = node
        self._loop = loop
        self._committer = committer
        self._make_room = make_room
        self._rooms: dict[str, list[Entry]] = {}
        self._sessions: dict[str, Entry] = {}
        # Where players have a seat, or one that is reserved, of rooms that nobody has asked for yet.
        self._rooms_of: dict[str, list[str]] = {}
        # And which sessions they have, with a seat or without.
        self._sessions_of: dict[str, list[str]] = {}
        self._effects: list[Entry] = []
        self._background: asyncio.Task[None] | None = None
        self._reading: set[asyncio.Task[None]] = set()
        self.set_aside: dict[str, str] = {}
        """The keys of records that could not be read, and why."""

    async def recover(self, pace: Pace) -> None:
        """Bring back what the store has: now, or as it is needed."""
        self._rooms, self._sessions, self._effects = await self._read_all()
        if pace == "eager":
            while self._rooms or self._sessions:
                self._restore_next()
            self._node.rooms.sort_by_age()
        else:
            self._expect(self._rooms, self._sessions)

    def _expect(self, rooms: dict[str, list[Entry]], sessions: dict[str, Entry]) -> None:
        """Bring these back when somebody asks for them, the others by and by."""
        for room_id, entries in rooms.items():
            if (record := _record(entries)) is not None:
                self._node.rooms.expect(room_id, record.kind, restored_listing(record))
                for player_id in _players(record, entries):
                    self._rooms_of.setdefault(player_id, []).append(room_id)
        for session_id, entry in sessions.items():
            if player_id := _player_of(entry):
                self._sessions_of.setdefault(player_id, []).append(session_id)
        if self._background is None or self._background.done():
            self._background = self._loop.create_task(self._restore_by_and_by())

    async def _read_all(self) -> tuple[dict[str, list[Entry]], dict[str, Entry], list[Entry]]:
        store = self._committer.store
        sessions = {entry.key.partition("/")[2]: entry for entry in await store.list("session/")}
        rooms: dict[str, list[Entry]] = {}
        for entry in await store.list("room/"):
            rooms.setdefault(_room_of(entry), []).append(entry)
        return rooms, sessions, await store.list("effect/")

    async def take_back(self) -> bool:
        """If no other server is on the store any more, expect everything that it left there; whether that is so."""
        if not await self._committer.store.reclaim():
            return False
        rooms, sessions, effects = await self._read_all()
        here = self._committer.room_ids
        rooms = {each: entries for each, entries in rooms.items() if each not in here}
        sessions = {each: entry for each, entry in sessions.items() if self._node.sessions.get(each) is None}
        self._rooms |= rooms
        self._sessions |= sessions
        # Those of our own rooms are on their way already.
        self._effects = [entry for entry in effects if _room_of(entry) in rooms]
        self.resume_effects()
        self._expect(rooms, sessions)
        log.warning("this server takes back what another had", rooms=len(rooms), sessions=len(sessions))
        return True

    def resume_effects(self) -> None:
        """Go on with what a former node did not get done outside."""
        for entry in self._effects:
            self._guarded(entry.key, self._resume_effect, entry)
        self._effects.clear()

    async def _restore_by_and_by(self) -> None:
        while self._rooms or self._sessions:
            self._restore_next()
            await asyncio.sleep(_LAZY_PAUSE_S)
        self._rooms_of.clear()
        self._sessions_of.clear()

    def _restore_next(self) -> None:
        if self._rooms:
            self.restore_room(next(iter(self._rooms)))
        else:
            self.restore_session(next(iter(self._sessions)))

    def stop(self) -> None:
        """Leave the rest where it is."""
        for task in (*self._reading, *([self._background] if self._background is not None else [])):
            task.cancel()

    def restore_session(self, session_id: str) -> None:
        """Bring a session back with its room, if the store has it and it is not back yet."""
        entry = self._sessions.get(session_id)
        if entry is not None:
            self._guarded(entry.key, self._restore_with_room, session_id, entry)
            self._sessions.pop(session_id, None)

    def restore_room(self, room_id: str) -> None:
        """Bring a room back with its sessions, if the store has it and it is not back yet."""
        entries = self._rooms.pop(room_id, None)
        if entries is not None:
            is_back = self._guarded(entries[0].key, self._restore_room, room_id, entries)
            record = _record(entries)
            if not is_back:
                kind = record.kind if record is not None else ""
                self._node.publish(RoomFailed(room=room_id, kind=kind, why="set_aside"))
            if self._node.rooms.get(room_id) is None and record is not None:
                # It was expected, and did not come.
                self._node.rooms.entries.forget(room_id, restored_listing(record))

    def restore_rooms_of(self, player_id: str) -> None:
        """Bring the rooms back in which a player has a seat."""
        for room_id in self._rooms_of.pop(player_id, ()):
            self.restore_room(room_id)

    def restore_sessions_of(self, player_id: str) -> None:
        """Bring all sessions of a player back, and all rooms in which they have a seat."""
        self.restore_rooms_of(player_id)
        for session_id in self._sessions_of.pop(player_id, ()):
            self.restore_session(session_id)

    def read_again(self, room_id: str, session_ids: list[str]) -> None:
        """A room was written by another after we had read it: bring it back as it is now."""
        task = self._loop.create_task(self._read_again(room_id, session_ids))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read_again(self, room_id: str, session_ids: list[str]) -> None:
        store = self._committer.store
        while True:
            await asyncio.sleep(self._node.limits.store_retry_s)
            try:
                # At one moment: what lies beside a record belongs to that one.
                entries = [each for each in await store.list(room_key(room_id)) if _room_of(each) == room_id]
                wanted = dict.fromkeys([*session_ids, *_seated(entries)])
                sessions = [(each, await store.get(session_key(each))) for each in wanted]
            except (Unavailable, Unknown):
                continue
            except Broken as error:
                self._committer.broken(error)
                return
            if entries:
                self._rooms[room_id] = entries
            for session_id, entry in sessions:
                if entry is not None and self._node.sessions.get(session_id) is None:
                    self._sessions[session_id] = entry
                    self._node.is_here_again(session_id)
            self.restore_room(room_id)
            for session_id in wanted:
                self.restore_session(session_id)
            return

    def _guarded(self, key: str, restore: Callable[..., Any], *args: Any) -> bool:
        """Whether that went well; what does not is set aside."""
        try:
            restore(*args)
            return True
        except Unreadable as error:
            self._put_aside(key, error)
        except Exception as error:
            log.exception("a record could not be brought back", key=key)
            self._put_aside(key, Unreadable(repr(error)))
        return False

    def _put_aside(self, key: str, why: Unreadable) -> None:
        self.set_aside[key] = str(why)
        log.error("a record is set aside, and stays in the store as it is", key=key, why=why)

    def _resume_effect(self, entry: Entry) -> None:
        self._node.outbox.start(entry.key, decode_effect(entry.value), entry.revision)

    # Sessions

    def _restore_with_room(self, session_id: str, entry: Entry) -> None:
        record = decode_session(entry.value)
        self.restore_room(record.room)
        if session_id not in self._sessions:
            return
        # Not with a seat: it has none, or that did not come back.
        if record.room:
            raise Unreadable(f"room {record.room} is not to be had, or its seat is gone")
        # Written again at once, as a room is: a server that still has it may not end it any more.
        session = self._restore_session(session_id, record, entry)
        session.forked(None)
        self._committer.changed(session)
        self._tell(session, "")
        self._node.access.came_back(session)

    def _restore_session(self, session_id: str, record: SessionRecord, entry: Entry) -> Session:
        node = self._node
        session = restored_session(session_id, record, limits=node.limits, now=node.now(), grace_s=node.grace_s)
        self._committer.adopt(session, None, entry.revision)
        node.lifecycle.restore(session)
        return session

    def _tell(self, session: Session, room_id: str) -> None:
        restored = Restored(session=session.id, player=session.player_id, grace_s=session.grace_s, room=room_id)
        self._node.publish(restored)

    def _session_of(self, seat: SeatRecord, room_id: str) -> Session:
        entry = self._sessions.get(seat.session)
        if entry is not None:
            try:
                record = decode_session(entry.value)
                # If not, it left for another room, and this one was saved last before it heard of that.
                if record.room == room_id:
                    session = self._restore_session(seat.session, record, entry)
                    del self._sessions[seat.session]
                    return session
            except Unreadable as error:
                del self._sessions[seat.session]
                self._put_aside(entry.key, error)
        # An agent's seat, or one whose session is lost: held all the same, for the player to take it over again.
        node = self._node
        stand_in = Session(
            SessionId(new_id(node.random.randbytes(SESSION_ID_BYTES))),
            PlayerId(seat.player),
            limits=node.limits,
            now=node.now(),
            grace_s=node.grace_s,
        )
        stand_in.sign_outs = node.access.sign_outs
        node.lifecycle.restore(stand_in)
        return stand_in

    # Rooms

    def _restore_room(self, room_id: str, entries: list[Entry]) -> None:
        image = read_room(entries, self._node.rooms.type_of)
        made = self._make_room(image.room_type, room_id, image.record.random)
        runner = made.runner
        try:
            runner.room.restore(image.state)
            made.writer.restored(image.record, entries)
            self._fill(made, image)
        except Exception:
            self._let_go(made)
            raise
        self._node.rooms.add(runner)
        self._node.counters.rooms_recovered += 1
        age_s = self._age_s(runner.room, image.record) or 0.0
        self._node.publish(RoomRecovered(room=room_id, kind=runner.room.kind, age_s=round(age_s, 3)))
        runner.recovered()
        # The first commit takes the room over from the server that had it.
        made.changed()
        for seat in runner.room.seats:
            self._node.access.came_back(seat.session)

    def _let_go(self, made: StorePersistence) -> None:
        for seat in made.runner.room.seats:
            self._committer.forget(seat.session)
            self._node.release_session(seat.session, Reason.EXPIRED)
        self._committer.remove(made.writer)
        made.runner.let_go()

    def _age_s(self, room: Room[Any], record: RoomRecord) -> float | None:
        """How old the state is that a room comes back with; None if nothing happened since."""
        is_exact = room.durability == "commit" or record.is_final
        return None if is_exact else self._passed_s(record)

    def _fill(self, made: StorePersistence, image: SavedRoom) -> None:
        runner, record = made.runner, image.record
        room = runner.room
        room.phase = "playing" if record.phase == "playing" else "lobby"
        room.is_locked = record.is_locked
        room.max_players = record.max_players
        room.listing = restored_listing(record)
        room.set_properties(image.properties)
        runner.was_joined = record.was_joined
        age_s, passed_s = self._age_s(room, record), self._passed_s(record)
        for seat, data in zip(image.seats, image.data, strict=True):
            session = self._session_of(seat, room.id)
            # An orderly stop after a crash makes up for nothing to those who were away all the while.
            session.rewound_s = age_s if age_s is not None else seat.rewound_s
            if seat.channel is not None and session in self._committer:
                session.channel = restored_channel(seat.channel, self._node.limits)
                # Saved with the first commit: numbers that are given out from then on may be others to its client.
                session.forked(passed_s)
            made.restoring(session)
            runner.restore_seat(session, data, seat.number)
            self._tell(session, room.id)
        self._give_objects(room, image.owners)
        for timer in image.timers:
            self._set_timer(runner, timer, timer.due_at - record.clock - passed_s)
        room.host = room.player(record.listing.host)
        room.successor = record.listing.successor
        for kept in record.listing.reservations:
            left_s = max(0.0, kept.until - self._node.wall_clock())
            runner.reservations.restored(PlayerId(kept.player), left_s, kept.by, is_placed=kept.is_placed)

    def _give_objects(self, room: Room[Any], owners: dict[str, int]) -> None:
        players = {player.number: player for player in room.players}
        for object_id, number in owners.items():
            # The owner was at the door when the room was saved, and has no seat in it.
            if number == SERVER or number in players:
                room.objects.give(players.get(number), object_id)

    def _passed_s(self, record: RoomRecord) -> float:
        """How long ago the room was saved. By a clock that went back meanwhile, no time has passed."""
        return max(0.0, self._node.wall_clock() - record.saved_at)

    def _set_timer(self, runner: RoomRunner, timer: TimerRecord, wait_s: float) -> None:
        method = getattr(runner.room, timer.method, None)
        try:
            if not callable(method):
                raise TypeError(f"{type(runner.room).__name__} has no method {timer.method!r} any more")
            arguments = timer_arguments(runner.room, method, timer.arguments)
        except (TypeError, ValueError, LookupError) as error:
            log.error("a timer is dropped", room=runner.room.id, method=timer.method, error=error)  # noqa: TRY400
            return
        runner.after(max(0.0, wait_s), method, arguments)


def _room_of(entry: Entry) -> str:
    """Whose record this is, or beside whose it lies."""
    return entry.key.split("/")[1]


def _seated(entries: list[Entry]) -> list[str]:
    """Whose seats are in a room: also theirs who came since it was read first."""
    try:
        seats = _seats(decode_room(entries[0].value), entries) if entries else []
    except Unreadable:
        return []
    return [seat.session for seat in seats if seat.session]


def _seats(record: RoomRecord, entries: list[Entry]) -> list[SeatRecord]:
    return seats_of(record, entries[0].key, {entry.key: entry.value for entry in entries[1:]})


def _players(record: RoomRecord, entries: list[Entry]) -> set[str]:
    """Who has a seat in a room, or one that is reserved."""
    try:
        seated = {seat.player for seat in _seats(record, entries)}
    except Unreadable:
        return set()
    return seated | {kept.player for kept in record.listing.reservations}


def _player_of(entry: Entry) -> str:
    """Whose session this is; empty if the record cannot be read."""
    try:
        return decode_session(entry.value).player
    except Unreadable:
        return ""


def _record(entries: list[Entry]) -> RoomRecord | None:
    try:
        return decode_room(entries[0].value)
    except Unreadable:
        return None
