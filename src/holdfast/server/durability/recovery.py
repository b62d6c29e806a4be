"""Recovery: rooms and sessions continue as the store has them, seats held, timers set, players awaited.

    `recover` reads the store → `_restore_room` decodes a room and makes its runner → `_fill` restores its sessions,
    seats, objects, groups and reservations → `_fill_spectators` its spectators → `_begin_room` sets its timers; the
    first turn is `on_recover`, and the first commit claims the room

A session comes back whole: with the room of its seat, the one that it watches is restored too.

A record that cannot be read is set aside: it stays in the store as it is, its players sign in anew, and the log has
the reason.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Literal, NamedTuple, TypeVar

from holdfast.core.grouping import Grouping
from holdfast.core.listed_room import restored_listing
from holdfast.core.reasons import Reason
from holdfast.core.records import (
    SERVER,
    Unmatched,
    Unreadable,
    decode_effect,
    decode_send,
    decode_session,
    restored_channel,
    restored_session,
    room_key,
    sends_key,
    session_key,
)
from holdfast.core.room import Room
from holdfast.core.room_context import RoomContext
from holdfast.core.session import PlayerId, Session
from holdfast.logs import get_logger
from holdfast.schemas.events import Restored, RoomFailed, RoomRecovered
from holdfast.schemas.frames import Purpose
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import GroupRecord, RoomRecord, TimerRecord
from holdfast.schemas.session import SessionRecord
from holdfast.server.context import Context
from holdfast.server.directory.directory import Directory
from holdfast.server.durability.committer import Committer, FencedRoom
from holdfast.server.durability.persistence import StorePersistence
from holdfast.server.durability.room_writer import Messages, SavedSend
from holdfast.server.durability.saved_room import (
    PendingRecords,
    SavedRoom,
    read_room,
    read_seats,
    read_session,
    read_sessions,
    room_id_of,
    room_of,
)
from holdfast.server.rooms.outbox import Outbox
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.timer_arguments import restored_arguments
from holdfast.server.sessions import SessionLifecycle
from holdfast.stores.port import Broken, Entry, StoreError, Unavailable, Unknown

log = get_logger("holdfast.server")

Pace = Literal["eager", "lazy"]
"""eager: all is restored before the server listens; lazy: a room when it is first asked for, the rest over time."""

T = TypeVar("T")

MakeRoom = Callable[[type[Room[Any]], str, int], StorePersistence]

# Between two rooms that nobody has asked for yet.
_LAZY_PAUSE_S = 0.01
# Rooms that are restored before others have a turn: while hundreds ask at once, each turn of theirs may take long.
_BETWEEN_TURNS = 16


class _Restored(NamedTuple):
    """A session that is being restored with its rooms."""

    session: Session
    record: SessionRecord
    ages_s: list[float]
    """How long ago each of them was saved."""


class Recovery:
    """Restores what a former server has left in the store."""

    def __init__(
        self,
        context: Context,
        committer: Committer,
        *,
        grace_s: float,
        directory: Directory,
        make_room: MakeRoom,
        lifecycle: SessionLifecycle,
        outbox: Outbox,
        last_sign_out: Callable[[], int],
        hand_over: Callable[[Session, Messages, SavedSend], None],
    ) -> None:
        """`make_room` takes the position from which a room's random numbers continue; `last_sign_out` is the number of
        the latest sign-out; `hand_over` gives a session messages that are not in its record yet.
        """
        self._clock = context.clock
        self._limits = context.limits
        self._publish = context.publish
        self._counters = context.counters
        self._committer = committer
        self._grace_s = grace_s
        self._directory = directory
        self._make_room = make_room
        self._lifecycle = lifecycle
        self._outbox = outbox
        self._last_sign_out = last_sign_out
        self._hand_over = hand_over
        self._pending = PendingRecords()
        self._effects: list[Entry] = []
        self._background: asyncio.Task[None] | None = None
        self._reading: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        self._elsewhere: dict[str, None] = {}
        """Ids of rooms and sessions that another server has taken over, oldest first."""
        self._taking_back: asyncio.Task[None] | None = None
        self._restored: dict[str, _Restored] = {}
        """By id; empty when a room is restored with all that belongs to it."""
        self.set_aside: dict[str, str] = {}
        """The keys of records that could not be read, and why."""
        self._unmatched_since: dict[str, tuple[float, float]] = {}
        """The keys of records that did not fit others and are read again: since when, and when last."""
        self.read_again: Callable[[list[str], list[str]], Coroutine[Any, Any, None]] | None = None
        """Instead of reading again what another server has written, where that one may have it now."""
        self.node_before: Callable[[str], tuple[str, bool]] = lambda _: ("", False)
        """The name of the node of a cluster with this life, if that is another one, and whether it has died."""
        self.on_session: list[Callable[[Session], None]] = []
        """A session was restored, with its room; a listener may end it."""
        self.clock_ahead_s: Callable[[str], float] = lambda _: 0.0
        """In a cluster: how far the wall clock of the node that saved a room is ahead of this one's."""

    # From the store

    async def recover(self, pace: Pace) -> None:
        """Restore what the store has: now, or as it is needed."""
        pending = self._pending
        pending.rooms, pending.sessions, self._effects, sends = await self._read_all()
        pending.add_sends(sends)
        if pace == "eager":
            while pending:
                self._restore_next()
            self._discard_sends()
            self._directory.sort_by_age()
        else:
            self._restore_when_asked(pending.rooms, pending.sessions)

    async def _read_all(self) -> tuple[dict[str, list[Entry]], dict[str, Entry], list[Entry], list[Entry]]:
        store = self._committer.store
        sessions = {entry.key.partition("/")[2]: entry for entry in await store.list("session")}
        rooms: dict[str, list[Entry]] = {}
        for entry in await store.list("room"):
            rooms.setdefault(room_id_of(entry), []).append(entry)
        return rooms, sessions, await store.list("effect"), await store.list("send")

    def _restore_when_asked(self, rooms: dict[str, list[Entry]], sessions: dict[str, Entry]) -> None:
        """Restore these when they are asked for, the others over time."""
        for room_id, entries in rooms.items():
            record, seats = read_seats(entries)
            if record is not None:
                self._directory.expect(room_id, record.kind, restored_listing(record))
                self._pending.index_room(room_id, record, seats)
        for session_id, entry in sessions.items():
            self._pending.index_session(session_id, entry)
        if self._background is None or self._background.done():
            self._background = self._clock.loop.create_task(self._restore_over_time())

    async def _restore_over_time(self) -> None:
        while self._pending:
            self._restore_next()
            await asyncio.sleep(_LAZY_PAUSE_S)
        self._pending.clear_index()
        self._discard_sends()

    def _restore_next(self) -> None:
        if self._pending.rooms:
            self.restore_room(next(iter(self._pending.rooms)))
        else:
            self.restore_session(next(iter(self._pending.sessions)))

    def resume_effects(self) -> None:
        """Carry out the effects that a former server did not."""
        self.carry_out(self._effects)
        self._effects.clear()

    def carry_out(self, effects: list[Entry]) -> None:
        """Carry out effects of the store, as far as they can be read."""
        for entry in effects:
            self._guarded(entry.key, self._resume_effect, entry)

    def _resume_effect(self, entry: Entry) -> None:
        self._outbox.start(entry.key, decode_effect(entry.value), entry.revision)

    def stop(self) -> None:
        self._is_stopped = True
        for task in (*self._reading, self._background, self._taking_back):
            if task is not None:
                task.cancel()

    # To another server, and back

    def rooms_lost(self, rooms: list[FencedRoom]) -> None:
        """Another server has written one of these rooms, or one of their sessions."""
        for room in rooms:
            if room.is_elsewhere:
                self._add_elsewhere(room.id)
        again = [room for room in rooms if not room.is_elsewhere]
        # While the last turns are saved, the store closes soon: the next server reads these rooms.
        if again and not self._is_stopped:
            # Together: somebody may play in one of them and watch another.
            self._begin_reading([room.id for room in again], [each for room in again for each in room.sessions])

    def _begin_reading(self, room_ids: list[str], session_ids: list[str]) -> None:
        read_again = self.read_again or self._read_again
        task = self._clock.loop.create_task(read_again(room_ids, session_ids))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    def session_lost(self, session: Session) -> None:
        """Another server has written the session, or its room: it continues there."""
        self._add_elsewhere(session.id)
        seats = (session.seat, session.place)
        self._lifecycle.release(session, Reason.MOVED)
        for seat in seats:
            # Unless the room is lost as well. One that is still here was joined a moment ago, or is only watched.
            if seat is not None and (not seat.room.is_saved or seat.room.id in self._committer.room_ids):
                seat.room.free(seat, Reason.MOVED, "")

    def _add_elsewhere(self, moved: str) -> None:
        if self.read_again is not None:
            # Of the nodes of a cluster each one that has something says so when it is asked.
            return
        self._elsewhere[moved] = None
        while len(self._elsewhere) > self._limits.sessions_max:
            del self._elsewhere[next(iter(self._elsewhere))]

    async def _read_again(self, room_ids: list[str], session_ids: list[str]) -> None:
        store = self._committer.store
        while True:
            await asyncio.sleep(self._limits.store_retry_s)
            try:
                rooms = await self._read_rooms(room_ids)
                members = {each: read_sessions(entries) if entries else [] for each, entries in rooms.items()}
                # Also those who took a seat since it was read first.
                wanted = dict.fromkeys([*session_ids, *(each for found in members.values() for each in found)])
                sessions = [(each, await store.get(session_key(each))) for each in wanted]
                sends = [send for each in wanted for send in await store.list(sends_key(each))]
                # If the other server has written one meanwhile, these sessions may have seats that it has not.
                if await self._read_rooms(room_ids) == rooms:
                    break
            except (Unavailable, Unknown):
                continue
            except Broken as error:
                self._committer.broken(error)
                return
        self._pending.rooms |= {each: entries for each, entries in rooms.items() if entries}
        for session_id, entry in sessions:
            if entry is None or self._lifecycle.registry.get(session_id) is not None:
                continue
            found_in = room_of(entry)
            if session_id in members[found_in] if found_in in members else self._is_known(found_in):
                self._pending.sessions[session_id] = entry
                self._elsewhere.pop(session_id, None)
            else:
                # It has gone to a room that was not there when this server read the store: another one has both.
                self._add_elsewhere(session_id)
        self._pending.add_sends([each for each in sends if each.key.split("/")[1] in self._pending.sessions])
        for room_id in room_ids:
            self.restore_room(room_id)
        for session_id in wanted:
            self.restore_session(session_id)

    async def _read_rooms(self, room_ids: list[str]) -> dict[str, list[Entry]]:
        # Each at one moment: its parts belong to its record.
        return {room_id: await self._committer.store.list(room_key(room_id)) for room_id in room_ids}

    def _is_known(self, room_id: str) -> bool:
        return not room_id or room_id in self._pending.rooms or room_key(room_id) in self.set_aside

    def is_elsewhere(self, wanted: str) -> bool:
        """Whether another server has this room or session, as far as is known; it is checked for the next time."""
        if wanted not in self._elsewhere:
            return False
        if self._taking_back is None or self._taking_back.done():
            self._taking_back = self._clock.loop.create_task(self._take_back())
        return True

    async def _take_back(self) -> None:
        """If no other server uses the store any more, restore all that it left there."""
        try:
            if not await self._committer.store.reclaim():
                return
            rooms, sessions, effects, sends = await self._read_all()
        except Broken as error:
            self._committer.broken(error)
            return
        except StoreError:
            # The next request tries again.
            return
        rooms, sessions = self._expect(rooms, sessions, effects, sends)
        self._restore_when_asked(rooms, sessions)
        self._elsewhere.clear()
        log.warning("this server takes back what another had", rooms=len(rooms), sessions=len(sessions))

    def _expect(
        self, rooms: dict[str, list[Entry]], sessions: dict[str, Entry], effects: list[Entry], sends: list[Entry]
    ) -> tuple[dict[str, list[Entry]], dict[str, Entry]]:
        """What was read of the store is to be restored; returns what of it is not here yet."""
        here = self._committer.room_ids
        rooms = {each: entries for each, entries in rooms.items() if each not in here}
        sessions = {each: entry for each, entry in sessions.items() if self._lifecycle.registry.get(each) is None}
        self._pending.rooms |= rooms
        self._pending.sessions |= sessions
        self._pending.add_sends([each for each in sends if each.key.split("/")[1] in sessions])
        # The effects of our own rooms are being carried out already.
        self._effects = [entry for entry in effects if room_id_of(entry) in rooms]
        self.resume_effects()
        return rooms, sessions

    async def take(
        self,
        rooms: dict[str, list[Entry]],
        sessions: dict[str, Entry],
        effects: list[Entry],
        sends: list[Entry],
        *,
        following: Collection[str] | None = None,
    ) -> None:
        """Restore what no other server has any more, as it was read of the store; others have turns in between.

        `following` if the rooms have moved here, and nothing has happened since: the sessions whose connections follow.
        """
        rooms, sessions = self._expect(rooms, sessions, effects, sends)
        for wanted in (*rooms, *sessions):
            self._elsewhere.pop(wanted, None)
        for number, room_id in enumerate(rooms, 1):
            self.restore_room(room_id, following)
            if number % _BETWEEN_TURNS == 0:
                await asyncio.sleep(0)
        for session_id in sessions:
            self.restore_session(session_id)

    # When somebody asks

    def restore_room(self, room_id: str, following: Collection[str] | None = None) -> None:
        """Restore a room with its sessions and their other rooms, if the store has it and it is not restored yet."""
        rooms: list[tuple[StorePersistence, SavedRoom]] = []
        wanted = [room_id]
        # One after the other, not each from within the one before: there may be many.
        for each in wanted:
            entries = self._pending.rooms.pop(each, None)
            if entries is None:
                continue
            if (restored := self._guarded(entries[0].key, self._restore_room, each, entries)) is None:
                self._not_restored(each, entries)
                continue
            rooms.append(restored)
            wanted += self._other_rooms(restored[1])
        for made, saved in rooms:
            self._fill_spectators(made, saved)
        sessions, self._restored = self._restored, {}
        for session, _, ages_s in sessions.values():
            # Saved with the first commit: sequence numbers from then on may mean something else to its client.
            if following is None:
                session.forked(max(ages_s, default=None))
        # Before the games have a turn: also those whom `on_recover` sends away.
        members = dict.fromkeys(session for made, _ in rooms for session in _members_of(made.runner.context))
        for session in members:
            if following and session.id in following:
                self._directory.session_switches(session, "expected")
        for made, saved in rooms:
            self._begin_room(made, saved)
        for session in members:
            self._session_restored(session)
        for made, _ in rooms:
            if self._directory.get(made.runner.room.id) is None:
                # It ended at once.
                self._directory.names.forget(made.runner.room.id, made.runner.context.listing)

    def _not_restored(self, room_id: str, entries: list[Entry]) -> None:
        if entries[0].key not in self.set_aside:
            # It is read again.
            return
        record, _ = read_seats(entries)
        kind = record.kind if record is not None else ""
        self._publish(RoomFailed(room=room_id, kind=kind, why="set_aside"))
        if record is not None:
            # It was expected, and is not there.
            self._directory.names.forget(room_id, restored_listing(record))

    def _other_rooms(self, saved: SavedRoom) -> list[str]:
        """The rooms that the players of a restored room watch, and those in which its spectators have their seat."""
        players = [self._restored[seat.session].record for seat in saved.seats if seat.session in self._restored]
        spectators = [read_session(self._pending.sessions.get(place.session)) for place in saved.spectators]
        return [
            *(record.spectating for record in players),
            *(record.room for record in spectators if record is not None),
        ]

    def restore_session(self, session_id: str) -> None:
        """Restore a session with its room, if the store has it and it is not restored yet."""
        entry = self._pending.sessions.get(session_id)
        if entry is not None:
            self._guarded(entry.key, self._restore_with_room, session_id, entry)
            self._pending.sessions.pop(session_id, None)

    def restore_rooms_of(self, player_id: str) -> None:
        for room_id in self._pending.take_rooms_of(player_id):
            self.restore_room(room_id)

    def restore_sessions_of(self, player_id: str) -> None:
        """Restore all sessions of a player, and all rooms in which they have a seat."""
        self.restore_rooms_of(player_id)
        for session_id in self._pending.take_sessions_of(player_id):
            self.restore_session(session_id)

    def _guarded(self, key: str, restore: Callable[..., T], *args: Any) -> T | None:
        """What was restored from a record; None if it could not be, and is set aside."""
        try:
            restored = restore(*args)
        except Unmatched as error:
            if not self._must_read_again(key, error):
                self._set_aside(key, error)
        except Unreadable as error:
            self._set_aside(key, error)
        except Exception as error:
            log.exception("a record could not be restored", key=key)
            self._set_aside(key, Unreadable(repr(error)))
        else:
            self.set_aside.pop(key, None)
            self._unmatched_since.pop(key, None)
            return restored
        return None

    def _must_read_again(self, key: str, error: Unmatched) -> bool:
        """In a cluster other nodes write while this one reads: what does not fit together is read again for a while."""
        if self.read_again is None or self._is_stopped:
            return False
        now = self._clock.now()
        known = self._unmatched_since
        while len(known) > self._limits.sessions_max:
            del known[next(iter(known))]
        patience_s = self._limits.commit_timeout_s
        since, last = known.pop(key, (now, now))
        if now - last > patience_s:
            since = now
        if now - since > patience_s:
            return False
        known[key] = since, now
        log.info("a record does not fit what was read with it: it is read again", key=key, why=error)
        kind, _, wanted = key.partition("/")
        self._begin_reading([wanted] if kind == "room" else [], [wanted] if kind == "session" else [])
        return True

    def _set_aside(self, key: str, why: Unreadable) -> None:
        self.set_aside[key] = str(why)
        log.error("a record is set aside, and stays in the store as it is", key=key, why=why)

    # Rooms

    def _restore_room(self, room_id: str, entries: list[Entry]) -> tuple[StorePersistence, SavedRoom]:
        saved = read_room(entries, self._directory.types.get)
        made = self._make_room(saved.room_type, room_id, saved.record.random)
        runner = made.runner
        try:
            runner.room.restore(saved.state)
            made.writer.restored(saved.record, entries)
            self._fill(made, saved)
        except Exception:
            for seat in runner.seats:
                self._restored.pop(seat.session.id, None)
                self._committer.sessions.forget(seat.session)
                self._lifecycle.release(seat.session, Reason.EXPIRED)
            self._committer.remove(made.writer)
            runner.let_go()
            raise
        return made, saved

    def _begin_room(self, made: StorePersistence, saved: SavedRoom) -> None:
        runner, room_id = made.runner, made.runner.room.id
        self._directory.add(runner)
        self._counters.rooms_recovered += 1
        for timer in saved.timers:
            # Not before all are here to whom its arguments refer.
            self._set_timer(runner, timer, timer.due_at - saved.record.clock - self._passed_s(saved.record))
        age_s = self._age_s(runner.room, saved.record) or 0.0
        info = runner.entry.public_info()
        node, has_died = self.node_before(saved.record.node)
        self._publish(
            RoomRecovered(
                room=room_id,
                kind=runner.room.kind,
                age_s=round(age_s, 3),
                info=info,
                node=node,
                has_died=has_died,
            )
        )
        runner.recovered()
        # The first commit takes the room over from the server that had it.
        made.changed()

    def _fill(self, made: StorePersistence, saved: SavedRoom) -> None:
        runner, record = made.runner, saved.record
        room, context = runner.room, runner.context
        context.phase = "playing" if record.phase == "playing" else "lobby"
        context.is_locked = record.is_locked
        room.max_players = record.max_players
        context.listing = restored_listing(record)
        context.set_properties(saved.properties)
        runner.was_joined = record.was_joined
        for seat, data, options in zip(saved.seats, saved.data, saved.options, strict=True):
            session = self._session_of(seat, room.id)
            if seat.channel is not None and session in self._committer.sessions:
                self._restore_channel(session, "seat", seat, runner.room, record)
            made.restoring(session, "seat")
            runner.restore_seat(session, data, options, seat)
            self._tell(session, record)
        self._give_objects(context, saved.owners)
        self._fill_groups(context, saved.groups)
        host = runner.seats.occupied_by(record.listing.host)
        context.host = host.player if host is not None else None
        context.successor = record.listing.successor
        for kept in record.listing.reservations:
            left_s = max(0.0, kept.until - self._clock.wall_clock() - self.clock_ahead_s(record.node))
            runner.reservations.restored(PlayerId(kept.player), left_s, kept)

    def _fill_spectators(self, made: StorePersistence, saved: SavedRoom) -> None:
        runner = made.runner
        for place in saved.spectators:
            session = self._spectator_of(place, runner.room.id)
            is_new = session.seat is None
            if place.channel is not None and session in self._committer.sessions:
                self._restore_channel(session, "spectator", place, runner.room, saved.record)
            made.restoring(session, "spectator")
            runner.spectators.restore(session, place)
            session.expires_at = self._clock.now() + session.grace_s
            self._lifecycle.graces.begin(session)
            if is_new:
                self._tell(session, saved.record)

    def _spectator_of(self, place: SeatRecord, room_id: str) -> Session:
        """The session that watches from a place; if it is lost, the place is held until its grace has passed."""
        known, entry = self._restored.get(place.session), self._pending.sessions.get(place.session)
        if known is not None and known.record.spectating == room_id and known.session.place is None:
            return known.session
        record = read_session(entry)
        # With a room: that of its seat could not be restored.
        if entry is not None and record is not None and record.spectating == room_id and not record.room:
            del self._pending.sessions[place.session]
            return self._restore_session(place.session, record, entry)
        return self._stand_in(place)

    def _restore_channel(
        self, session: Session, purpose: Purpose, seat: SeatRecord, room: Room[Any], record: RoomRecord
    ) -> None:
        assert seat.channel is not None
        session.restore_channel(restored_channel(seat.channel, self._limits, purpose))
        age_s = self._age_s(room, record)
        # A second, orderly restart does not make the state newer for those who were away all the time.
        rewound_s = age_s if age_s is not None else seat.rewound_s
        if rewound_s is not None:
            session.rewound = {**session.rewound, seat.channel.number: rewound_s}
        self._restored[session.id].ages_s.append(self._passed_s(record))

    def _give_objects(self, context: RoomContext, owners: dict[str, int]) -> None:
        players = {seat.number: seat.player for seat in context.seats.occupied}
        for object_id, number in owners.items():
            # An owner who was just joining when the room was saved has no seat in it.
            if number == SERVER or number in players:
                context.objects.give(players.get(number), object_id)

    def _fill_groups(self, context: RoomContext, groups: list[GroupRecord]) -> None:
        seats = {seat.number: seat for seat in context.seats.occupied}
        if groups:
            context.grouping = grouping = Grouping(self._limits)
            for group in groups:
                for number in group.seats:
                    # As above: a member who was just joining has no seat.
                    if number in seats:
                        grouping.restore(group.name, seats[number])

    def _set_timer(self, runner: RoomRunner, timer: TimerRecord, wait_s: float) -> None:
        method = getattr(runner.room, timer.method, None)
        try:
            if not callable(method):
                raise TypeError(f"{type(runner.room).__name__} has no method {timer.method!r} any more")
            arguments = restored_arguments(runner.room, method, timer.arguments)
        except (TypeError, ValueError, LookupError) as error:
            log.error("a timer is dropped", room=runner.room.id, method=timer.method, error=error)  # noqa: TRY400
            return
        # A repeated call that is overdue keeps its schedule.
        runner.timers.restore(wait_s, method, arguments, timer.name, timer.every_s)

    def _age_s(self, room: Room[Any], record: RoomRecord) -> float | None:
        """The age of the state that a room continues from; None if nothing happened since."""
        is_exact = room.durability == "commit" or record.is_final
        return None if is_exact else self._passed_s(record)

    def _passed_s(self, record: RoomRecord) -> float:
        """How long ago the room was saved; 0 if the wall clock was set back meanwhile."""
        return max(0.0, self._clock.wall_clock() + self.clock_ahead_s(record.node) - record.saved_at)

    # Sessions

    def _restore_with_room(self, session_id: str, entry: Entry) -> None:
        record = decode_session(entry.value)
        for room_id in (record.room, record.spectating):
            self.restore_room(room_id)
        if session_id not in self._pending.sessions:
            return
        # Not with a seat: it has none, or the room could not be restored.
        if record.room:
            raise Unmatched(f"room {record.room} could not be restored, or has no seat for it")
        # Written again at once, as a room is: a server that still has it may not end it any more.
        session = self._restore_session(session_id, record, entry)
        self._restored.clear()
        session.forked(None)
        self._committer.sessions.changed(session)
        self._tell(session)
        self._session_restored(session)

    def _session_of(self, seat: SeatRecord, room_id: str) -> Session:
        sessions = self._pending.sessions
        entry = sessions.get(seat.session)
        if entry is not None:
            try:
                record = decode_session(entry.value)
                # If not, it left for another room, and this one was not saved after that.
                if record.room == room_id:
                    session = self._restore_session(seat.session, record, entry)
                    del sessions[seat.session]
                    return session
            except Unreadable as error:
                del sessions[seat.session]
                self._set_aside(entry.key, error)
        # An agent's seat, or one whose session is lost: held all the same, for its player to take it over.
        return self._stand_in(seat)

    def _stand_in(self, seat: SeatRecord) -> Session:
        return self._lifecycle.stand_in(
            seat.player,
            seat.name,
            grace_s=self._grace_s,
            by_player=not seat.agent,
            sign_outs=self._last_sign_out(),
        )

    def _restore_session(self, session_id: str, record: SessionRecord, entry: Entry) -> Session:
        now = self._clock.now()
        session = restored_session(session_id, record, limits=self._limits, now=now, grace_s=self._grace_s)
        self._committer.sessions.adopt(session, None, entry.revision)
        self._lifecycle.restore(session)
        self._restored[session.id] = _Restored(session, record, [])
        return session

    def _resume_send(self, session: Session, entry: Entry) -> None:
        self._hand_over(session, decode_send(entry.value).messages, SavedSend(entry.key, entry.revision))

    def _discard_sends(self) -> None:
        """All sessions are restored: nobody waits for the other messages."""
        sends, self._pending.sends = self._pending.sends, {}
        for session_id, entries in sends.items():
            if session_key(session_id) not in self.set_aside:
                for entry in entries:
                    self._committer.discard(SavedSend(entry.key, entry.revision))

    def _tell(self, session: Session, room: RoomRecord | None = None) -> None:
        node, has_died = self.node_before(room.node) if room is not None else ("", False)
        self._publish(
            Restored(
                session=session.id,
                player=session.player_id,
                player_name=session.name,
                grace_s=session.grace_s,
                room=session.room_id,
                spectating=session.spectating,
                node=node,
                has_died=has_died,
            )
        )

    def _session_restored(self, session: Session) -> None:
        for send in self._pending.sends.pop(session.id, ()):
            self._guarded(send.key, self._resume_send, session, send)
        for heard in self.on_session:
            heard(session)


def _members_of(context: RoomContext) -> list[Session]:
    """The sessions with a seat in a room, and those that watch it."""
    return [seat.session for seat in (*context.seats, *(context.spectators or ()))]
