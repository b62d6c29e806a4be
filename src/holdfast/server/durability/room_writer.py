"""Turns a durable room into a record between two turns, and knows what the store has of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from holdfast.core.block import MESSAGE_OVERHEAD_BYTES
from holdfast.core.errors import Failed, NotFound, Refused, Throttled
from holdfast.core.limits import Limits
from holdfast.core.listed_room import room_record
from holdfast.core.records import digest, encode, encode_listed, room_key, sends_key
from holdfast.core.room import player_data_type
from holdfast.core.saved_types import saved_type, state_reader, unsavable_field
from holdfast.core.session import Seat, SeatState, Session
from holdfast.logs import get_logger
from holdfast.observability.metrics import Metrics
from holdfast.schemas.frames import Purpose
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import EffectRecord, RoomRecord
from holdfast.schemas.session import SendRecord
from holdfast.server.context import Clock
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.record_parts import PartChanges, RecordLists, RecordParts, SpillingList
from holdfast.server.durability.state_writer import StateWriter
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.splitmix64 import SplitMix64
from holdfast.stores.port import ABSENT, Entry, Write

log = get_logger("holdfast.server")

# A room that cannot be saved is logged this often, not with every turn.
_COMPLAINT_S = 10.0
_encode = msgspec.msgpack.Encoder().encode
_NIL = _encode(None)
_NOTHING = Raw(_NIL)
# A larger seat is encoded only when it has changed. Smaller ones are encoded with every commit: remembering what was
# saved of them would take as much memory as they do.
_LARGE_SEAT_BYTES = 1024


_Cut = tuple[bytes, bytes]
"""The data and the options of a player, encoded."""
Messages = list[tuple[str, bytes]]
"""Encoded messages, each with its wire name."""


class SavedSend(NamedTuple):
    """Messages to a session as they are in the store, until the session's own record has them."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What all room writers of a server share."""

    clock: Clock
    limits: Limits
    metrics: Metrics
    incarnation: str
    """Names this start of the server, and no other."""
    start_effect: Callable[[str, EffectRecord, int], None]
    """Carries out an effect that was saved under this key, at this revision."""
    is_saved: Callable[[Session], bool]
    """Whether a session outlives this process."""
    hand_over: Callable[[Session, Messages, SavedSend | None], None]
    """Gives messages of a saved turn to a session; with their place in the store, if the session is saved too."""


class _Sends:
    """Messages to sessions from turns that are not saved yet."""

    __slots__ = ("messages", "saved", "size")

    def __init__(self) -> None:
        self.messages: dict[Session, Messages] = {}
        self.saved: set[Session] = set()
        """Those of the sessions that were in the store then. One may be on another server by now."""
        self.size = 0


class RoomWriter:
    """Writes one room."""

    _sends: _Sends | None = None

    def __init__(self, context: WriterContext, runner: RoomRunner) -> None:  # noqa: PLR0915 - its state
        self._context = context
        self._clock = context.clock
        self.runner = runner
        self.turns = runner.turns
        self._room = room = runner.room
        self.room_id = room.id
        self._key = room_key(room.id)
        self.checkpoint_s = room.checkpoint_s if room.durability == "checkpoint" else None
        """How often the room is saved; None: with every commit."""
        self.epoch, self.index, self.previous, self.revision = 1, 0, b"", ABSENT
        self.is_dirty = False
        """Whether it is to be saved with the next commit."""
        self.is_claimed = True
        """Whether this server has written the store's record: not yet for a room that was just restored."""
        self.is_leaving = False
        """It stands still, and goes to another node with its next record."""
        self.is_sealed = False
        """That record is saved: nothing more is written, unless the room stays."""
        self._is_ended = False
        self.is_gone = False
        """Its record is deleted."""
        # Clients whose request has taken a seat or a spectator's place, freed one or changed the room's entry, and is
        # not answered yet.
        self.arriving: dict[Session, Purpose] = {}
        self.leaving: dict[Session, Seat] = {}
        self.changing: set[Session] = set()
        self.waiters: list[asyncio.Future[None]] = []
        """They wait for the next commit."""
        self._end_waiters: list[asyncio.Future[None]] = []
        self._waiting: list[GatedOutlet] = []
        self._waiting_since = self._leaving_since = 0.0
        self._leaving: list[GatedOutlet] = []
        self._leaving_waiters: list[asyncio.Future[None]] = []
        self._parts = parts = RecordParts(self._key)
        self._state = StateWriter(saved_type(type(room)), parts, inline_bytes_max=context.limits.record_state_bytes_max)
        self._lists = RecordLists(parts, inline_bytes_max=context.limits.record_list_bytes_max)
        self._large_seats: dict[Seat, tuple[Any, ...]] = {}
        """What was last saved of seats that take long to encode: those with many kept messages, or much data."""
        self._pending: _Pending | None = None
        self.claims: list[Write] = []
        """What a new room has claimed in the store: to be written again with its first record."""
        self.effects: list[EffectRecord] = []
        """To be carried out once the current turn is saved."""
        self._read_data = state_reader(player_data_type(type(room)))
        self._read_options = state_reader(type(room).join_options)
        self._is_paused = False
        self._may_complain_at = 0.0
        self._unsavable_since: float | None = None

    def restored(self, record: RoomRecord, entries: list[Entry]) -> None:
        """Continue from what a former server has saved; the next record is this one's."""
        self.is_claimed = False
        self.epoch = record.epoch + 1
        self.index = record.index
        self.previous = digest(entries[0].value)
        self.revision = entries[0].revision
        self._parts.restored(record.parts, entries[1:])
        self._state.restored(self._room.state)
        self._lists.restored(self._key, entries[1:])

    @property
    def is_at_rest(self) -> bool:
        """Whether the room is between two turns, and nobody has come or gone who was not answered yet."""
        if not self.turns.is_at_rest or self.changing:
            return False
        has_come = any(self.has_seat_of(session, purpose) for session, purpose in self.arriving.items())
        return not has_come and all(seat.state is not SeatState.FREED for seat in self.leaving.values())

    def answered(self, session: Session) -> None:
        self.arriving.pop(session, None)
        self.leaving.pop(session, None)
        self.changing.discard(session)

    def has_seat_of(self, session: Session, purpose: Purpose) -> bool:
        """Whether the session's seat, or its place as a spectator, is in this room, and the room has heard of it."""
        seat = session.seat if purpose == "seat" else session.place
        return seat is not None and seat.room.id == self.room_id and not seat.is_joining

    def staged(self, outlet: GatedOutlet) -> None:
        """An outlet has something that waits for the next commit."""
        outlet.is_waiting = True
        if not self._waiting:
            self._waiting_since = self._clock.now()
        self._waiting.append(outlet)

    def send(self, session: Session, name: str, body: bytes) -> None:
        """The turn that is being taken sends a message to a session: it leaves once the turn is saved."""
        sends = self._sends
        if sends is None:
            sends = self._sends = _Sends()
        size = sends.size + len(body) + MESSAGE_OVERHEAD_BYTES
        if size > self._context.limits.sends_waiting_bytes_max:
            raise Throttled(
                f"messages to sessions of {sends.size} bytes wait until this room is saved; "
                "raise Limits.sends_waiting_bytes_max"
            )
        sends.size = size
        sends.messages.setdefault(session, []).append((name, body))
        if self._context.is_saved(session):
            sends.saved.add(session)

    def unsend(self, session: Session) -> None:
        """The turn that sent the last message to a session is undone."""
        assert self._sends is not None
        messages = self._sends.messages[session]
        _, body = messages.pop()
        self._sends.size -= len(body) + MESSAGE_OVERHEAD_BYTES
        if not messages:
            del self._sends.messages[session]

    def pause(self) -> None:
        """Take no further turn before the room was cut."""
        self._is_paused = True
        self.turns.freeze()

    def stop(self) -> None:
        """Take no further turn, and show clients nothing new: they continue from the record that follows."""
        self.turns.freeze()
        if self.runner.sharing is not None:
            self.runner.sharing.stop()

    def unpause(self) -> None:
        if self._is_paused and not self.is_leaving:
            self._is_paused = False
            self.turns.thaw()

    # A commit

    def cut(self, *, is_final: bool) -> list[Write]:
        """A snapshot of the room, which is between two turns. Raises if the game's own data cannot be saved."""
        if self._is_ended:
            self._cut_outlets()
            pending = _Pending(self._parts.deletions())
        else:
            pending = _Pending(self._parts.unchanged())
            # The game's own data comes first: encoding it may fail, and then nothing has happened.
            properties = Raw(_encode(dict(self.runner.context.properties)))
            self._check_settings()
            seats = [seat for seat in self.runner.seats.occupied if not seat.is_joining]
            data = {
                seat: (self._cut_data(seat), _NIL if seat.options is None else self._cut_options(seat))
                for seat in seats
            }
            for place in self.runner.context.spectators or ():
                if not place.is_joining:
                    data[place] = (_NIL, _NIL)
            state = self._state.cut(self._room.snapshot(), pending.parts)
            self._cut_outlets()
            pending.record = encode(self._record(state, pending.parts, properties, data, is_final=is_final))
        # With the incarnation: after a rollback of the store the same record numbers are used again, for other effects.
        number = f"{self._context.incarnation}.{self.epoch}.{self.index + 1}"
        for position, effect in enumerate(self.effects):
            pending.effects[f"effect/{self.room_id}/{number}.{position}"] = effect
        self.effects.clear()
        pending.sends = self._cut_sends(number)
        pending.claims, self.claims = self.claims, []
        self._pending = pending
        return [
            # A room that ends before it was ever saved has no record to delete.
            *([Write(self._key, pending.record, self.revision)] if pending.record or self.revision != ABSENT else []),
            *self._parts.writes(pending.parts),
            *(Write(key, encode(effect), ABSENT) for key, effect in pending.effects.items()),
            *(
                Write(key, encode(SendRecord(session.id, messages)), ABSENT)
                for session, messages, key in pending.sends
                if key
            ),
            *pending.claims,
        ]

    def _cut_sends(self, number: str) -> list[tuple[Session, Messages, str]]:
        """With a key for those that must not be lost in a crash before the session's own record has them."""
        if self._sends is None:
            return []
        sends, self._sends = self._sends, None
        saved = {session for session in sends.messages if session in sends.saved or self._context.is_saved(session)}
        return [
            (session, messages, f"{sends_key(session.id)}/{self.room_id}.{number}" if session in saved else "")
            for session, messages in sends.messages.items()
        ]

    def _cut_outlets(self) -> None:
        self._leaving, self._waiting = self._waiting, []
        self._leaving_since = self._waiting_since
        self._leaving_waiters, self.waiters = self.waiters, []
        for outlet in self._leaving:
            outlet.cut()

    def committed(self, revisions: list[int]) -> None:
        """The store has the snapshot: release its messages and acknowledgements."""
        pending, self._pending = self._pending, None
        assert pending is not None
        ahead = iter(revisions)
        if pending.record or self.revision != ABSENT:
            self.revision = next(ahead)
        self.is_claimed = True
        self.is_gone = pending.record is None
        if self._unsavable_since is not None:
            log.info("the room can be saved again", room=self.room_id, kind=self._room.kind)
            self._unsavable_since = None
        if pending.record:
            self.index += 1
            self.previous = digest(pending.record)
        self._parts.committed(pending.parts, ahead)
        for key, effect in pending.effects.items():
            self._context.start_effect(key, effect, next(ahead))
        leaving, self._leaving = self._leaving, []
        if leaving:
            self._context.metrics.gate_wait.observe(self._clock.now() - self._leaving_since)
        for outlet in leaving:
            outlet.release()
        for session, messages, key in pending.sends:
            self._context.hand_over(session, messages, SavedSend(key, next(ahead)) if key else None)
        # The revisions of claims are read when they are needed.
        waiters, self._leaving_waiters = self._leaving_waiters, []
        for waiter in waiters:
            settle(waiter, None)

    # The end

    def end(self) -> None:
        """The room has ended: the next commit deletes its record, and waits for nobody's answer."""
        self._is_ended = True
        self.arriving.clear()
        self.leaving.clear()
        self.changing.clear()

    async def ended(self) -> None:
        """Wait until the record of the room, which ends, is deleted."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._end_waiters.append(ended)
        await ended

    def removed(self) -> None:
        """No commit of the room follows: tell those who wait for one whether its record was deleted."""
        for waiter in [*self.waiters, *self._leaving_waiters, *self._end_waiters]:
            settle(waiter, None if self.is_gone else NotFound("another server has this room"))
        self.waiters.clear()
        self._end_waiters.clear()

    @property
    def is_unsavable(self) -> bool:
        """Whether the last attempt to save it has failed: the game has put something into it that cannot be encoded."""
        return self._unsavable_since is not None

    def cannot_be_saved(self, error: Exception) -> None:
        """The game has put a value into the room that cannot be encoded: its players wait until it is gone."""
        now = self._clock.now()
        if self._unsavable_since is None:
            self._unsavable_since = now
        self._context.metrics.counters.turns_failed += 1
        for waiter in self.waiters:
            settle(waiter, Failed(f"the room cannot be saved: {error}"))
        self.waiters.clear()
        if now >= self._may_complain_at:
            self._may_complain_at = now + _COMPLAINT_S
            log.error(
                "the room cannot be saved, so nothing it says leaves the server: give the field a value that can be "
                "saved, or write snapshot() and restore(); the room goes on by itself then",
                room=self.room_id,
                kind=self._room.kind,
                field=unsavable_field(self._room),
                for_s=round(now - self._unsavable_since, 1),
                error=error,
            )

    # The record

    def _check_settings(self) -> None:
        max_players, successor = self._room.max_players, self.runner.context.successor
        if not isinstance(max_players, int):
            raise TypeError(f"max_players must be a whole number; it is {max_players!r}")
        if not all(isinstance(name, str) for name in self.runner.context.properties):
            raise TypeError("properties are named by text")
        if not isinstance(successor, str):
            raise TypeError("the successor is named by the player's id")
        successor.encode()

    def _cut_data(self, seat: Seat) -> bytes:
        data = _encode(seat.player.data)
        saved = self._lists.seats.get(seat.number)
        # How a `SeatRecord` with this data begins, after the byte that says how many fields it has.
        start = _encode((seat.player_id, seat.session.id, Raw(data)))[1:]
        if saved is None or not saved.startswith(start, 1):
            # Read it once: better an error now than after the crash.
            self._read_data(data)
        return data

    def _cut_options(self, seat: Seat) -> bytes:
        options = _encode(seat.options)
        # As above; the game may have changed them.
        self._read_options(options)
        return options

    def _record(
        self, state: Raw | None, changes: PartChanges, properties: Raw, data: dict[Seat, _Cut], *, is_final: bool
    ) -> RoomRecord:
        context = self.runner.context
        assert isinstance(context.random, SplitMix64)
        if self._large_seats:
            for seat in self._large_seats.keys() - data.keys():
                del self._large_seats[seat]
        return room_record(
            self._room,
            now=self._clock.now(),
            wall_clock=self._clock.wall_clock(),
            node=self._context.incarnation,
            epoch=self.epoch,
            index=self.index + 1,
            previous=self.previous,
            was_joined=self.runner.was_joined,
            properties=properties,
            random=context.random.position,
            state=_NOTHING if state is None else state,
            has_state_beside=state is None,
            seats=self._cut_seats(self._lists.seats, "seat", data, changes),
            objects=self._lists.cut_objects(context.objects, changes),
            timers=self._lists.cut_timers(self.runner.timers.pending, changes),
            groups=self._lists.cut_groups(context.grouping, changes) if context.grouping is not None else [],
            spectators=self._cut_spectators(data, changes) if context.spectators is not None else [],
            # After the lists, which add to it.
            parts=changes.sum,
            is_final=is_final,
        )

    def _cut_spectators(self, data: dict[Seat, tuple[bytes, bytes]], changes: PartChanges) -> list[Raw]:
        return self._cut_seats(self._lists.spectators, "spectator", data, changes)

    def _cut_seats(
        self, saved: SpillingList, purpose: Purpose, data: dict[Seat, tuple[bytes, bytes]], changes: PartChanges
    ) -> list[Raw]:
        """The entries of seats or of spectators that the record has inline; the others go into `changes`."""
        entries = {seat.number: self._cut_seat(seat, *data[seat], saved) for seat in data if seat.purpose == purpose}
        return saved.cut(entries, changes)

    def _cut_seat(self, seat: Seat, data: bytes, options: bytes, list_: SpillingList) -> bytes:
        session, is_resyncing = seat.session, seat in self.runner.resyncs.waiting
        large = self._large_seats.get(seat)
        if large is not None and large == self._version(seat, data, options):
            saved = list_.get(seat.number)
            assert saved is not None
            return saved
        channel = seat.outlet.record()
        if channel is not None and is_resyncing:
            # Saved before `on_resync` had its turn: if that never comes, the next server restarts the stream again.
            channel = msgspec.structs.replace(channel, is_overflowed=True)
        session_id = session.id if channel is not None else ""
        rewound_s = session.rewound.get(channel.number) if channel is not None else None
        record = SeatRecord(
            seat.player_id,
            session_id,
            Raw(data),
            seat.number,
            channel,
            rewound_s,
            seat.name,
            seat.agent,
            Raw(options),
        )
        encoded = encode_listed(record)
        if len(encoded) > _LARGE_SEAT_BYTES:
            self._large_seats[seat] = self._version(seat, data, options)
        elif large is not None:
            del self._large_seats[seat]
        return encoded

    def _version(self, seat: Seat, data: bytes, options: bytes) -> tuple[Any, ...]:
        """Equal for two cuts of a seat that have the same record."""
        session, is_resyncing = seat.session, seat in self.runner.resyncs.waiting
        return (data, options, seat.name, seat.outlet.record_version(), session.id, session.rewound, is_resyncing)


class _Pending(msgspec.Struct):
    """What the store has once the commit has succeeded."""

    parts: PartChanges
    record: bytes | None = None
    """None: it is deleted."""
    effects: dict[str, EffectRecord] = {}
    sends: list[tuple[Session, Messages, str]] = []
    claims: list[Write] = []


def settle(waiter: asyncio.Future[None], error: Refused | None) -> None:
    """End a wait, unless its owner has given up."""
    if waiter.done():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)
