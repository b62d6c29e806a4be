"""The keeper of one durable room: turns it into a record between two turns, and remembers what the store has of it."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from holdfast.core.errors import Failed, NotFound
from holdfast.core.parts import Parts, parts_of
from holdfast.core.player import Player
from holdfast.core.records import (
    PARTS_NONE,
    ChannelRecord,
    EffectRecord,
    RoomRecord,
    SeatRecord,
    TimerRecord,
    digest,
    encode,
    encode_seat,
    part_digest,
    parts_changed,
)
from holdfast.core.saving import channel_record
from holdfast.core.session import Session
from holdfast.core.tokens import printable
from holdfast.server.dice import Dice
from holdfast.server.gate import GatedOutlet
from holdfast.server.images import parts_fields, saved_type, state_reader
from holdfast.stores.port import ABSENT, VALUE_BYTES_MAX, Entry, Write

if TYPE_CHECKING:
    from holdfast.server.durable_host import DurableHost
    from holdfast.server.node import Node

log = logging.getLogger("holdfast")

# A room that cannot be saved says so this often, not with every turn.
_COMPLAINT_S = 10.0
_encode = msgspec.msgpack.Encoder().encode


def room_key(room_id: str) -> str:
    """Where a room's record is; what lies beside it begins with this and a slash."""
    return f"room/{room_id}"


def _part_name(field: str, name: str) -> str:
    encoded = name.encode()
    if len(encoded) > _PART_NAME_BYTES_MAX:
        encoded = digest(encoded)
    return f"{field}/{printable(encoded)}"


_NOTHING = Raw(_encode(None))
# How many saves of a large state are read again to see whether they can be.
_LARGE_READ_MAX = 8
# Longer names of parts are found by their hash: a key of the store is short.
_PART_NAME_BYTES_MAX = 60
# What the store has of a part that it does not have: no digest, no revision.
_NO_PART = (0, ABSENT)


class RoomKeeper:
    """What the store has of one room, and how to write what it has not."""

    def __init__(self, node: "Node", host: "DurableHost") -> None:
        self._node = node
        self._host = host
        self._room = host.room
        self._key = room_key(host.room.id)
        self.checkpoint_s = host.room.checkpoint_s if host.room.durability == "checkpoint" else None
        """How often it is saved; None: with every commit."""
        self.epoch = 1
        self.index = 0
        self.previous = b""
        self.revision = ABSENT
        self.created_at = node.wall()
        self.is_dirty = False
        """Whether the ledger has it in its list."""
        self.is_claimed = True
        """Whether the store's record is one of ours: not yet for a room that has just come back."""
        self.is_ended = False
        self.is_gone = False
        """The store has been told of its end."""
        self.waiters: list[asyncio.Future[None]] = []
        """Who waits for the next commit."""
        self._waiting: list[GatedOutlet] = []
        self._leaving: list[GatedOutlet] = []
        self._leaving_waiters: list[asyncio.Future[None]] = []
        self._parts: dict[str, tuple[int, int]] = {}
        self._fields: dict[str, Parts[Any]] = {}
        self._part_readers: dict[str, Callable[[bytes], Any]] = {}
        self._sum = PARTS_NONE
        self._seats: dict[Player[Any], tuple[tuple[Any, ...], Raw]] = {}
        self._state = b""
        self._pending = _Pending(sum=PARTS_NONE)
        self._effects: list[EffectRecord] = []
        kind = saved_type(type(host.room))
        self._is_untyped = kind is Any
        self._encode_state = msgspec.msgpack.Encoder(enc_hook=self._without_parts).encode
        self._read_state = state_reader(kind)
        self._read_data = state_reader(host.room.data_type)
        self._cutting: dict[str, Parts[Any]] = {}
        self._is_paused = False
        self._may_complain_at = 0.0

    def restored(self, record: RoomRecord, entries: list[Entry]) -> None:
        """Go on from what a former node has left; the next record is ours."""
        self.is_claimed = False
        self.epoch = record.epoch + 1
        self.index = record.index
        self.previous = digest(entries[0].value)
        self.revision = entries[0].revision
        self.created_at = record.created_at
        self._sum = record.parts
        self._parts = {each.key: (part_digest(each.key, each.value), each.revision) for each in entries[1:]}
        self._fields = parts_of(self._room.state)

    @property
    def is_at_rest(self) -> bool:
        """Whether the room is between two turns."""
        return self._host.is_at_rest

    @property
    def room_id(self) -> str:
        """The room."""
        return self._room.id

    def has_seat_of(self, session: Session) -> bool:
        """Whether the session's seat is in this room, and the room has heard of it."""
        player = session.player
        return player is not None and player.host is self._host and self._host.has_joined(player)

    def staged(self, outlet: GatedOutlet) -> None:
        """Something waits for the next commit."""
        outlet.is_waiting = True
        self._waiting.append(outlet)
        self._host.staged()

    def freeze(self) -> None:
        """Take no further turn: the store does not save them."""
        self._host.freeze()

    def thaw(self) -> None:
        """Go on."""
        self._host.thaw()

    def pause(self) -> None:
        """Take no further turn before the room was cut."""
        self._is_paused = True
        self._host.freeze()

    def unpause(self) -> None:
        """It was."""
        if self._is_paused:
            self._is_paused = False
            self._host.thaw()

    # A commit

    def cut(self, *, is_final: bool) -> list[Write]:
        """What the store must be told; the room is at rest. Raises if the game's own data cannot be saved."""
        pending = _Pending(sum=self._sum)
        if self.is_ended:
            self._cut_outlets()
            pending.parts = dict.fromkeys(self._parts, (None, 0))
            pending.record = None
        else:
            # What is the game's own comes first: it may fail, and then nothing has happened.
            properties = Raw(_encode(self._room.properties))
            self._check_settings()
            data = {player: self._cut_data(player) for player in self._room.players if self._host.has_joined(player)}
            dice = self._room.random
            if not isinstance(dice, Dice):
                raise TypeError("`random` of a durable room is saved with it: do not put another in its place")
            state = self._cut_state(pending)
            self._cut_outlets()
            record = self._record(
                state,
                properties=properties,
                data=data,
                position=dice.position,
                parts=pending.sum,
                is_final=is_final,
            )
            pending.record = encode(record)
        self._cut_effects(pending)
        self._pending = pending
        return [
            # A room that ends before it was ever saved has no record to delete.
            *([Write(self._key, pending.record, self.revision)] if pending.record or self.revision != ABSENT else []),
            *(Write(key, value, self._parts.get(key, _NO_PART)[1]) for key, (value, _) in pending.parts.items()),
            *(Write(key, encode(effect), ABSENT) for key, effect in pending.effects.items()),
        ]

    def _cut_outlets(self) -> None:
        self._leaving, self._waiting = self._waiting, []
        self._leaving_waiters, self.waiters = self.waiters, []
        for outlet in self._leaving:
            outlet.cut()

    def _cut_effects(self, pending: "_Pending") -> None:
        for number, effect in enumerate(self._effects):
            pending.effects[f"effect/{self._room.id}/{self.epoch}.{self.index + 1}.{number}"] = effect
        self._effects.clear()

    def committed(self, revisions: list[int]) -> None:
        """The store has it: open the gate."""
        pending = self._pending
        ahead = iter(revisions)
        if pending.record or self.revision != ABSENT:
            self.revision = next(ahead)
        self.is_claimed = True
        self.is_gone = pending.record is None
        if pending.record:
            self.index += 1
            self.previous = digest(pending.record)
        self._sum = pending.sum
        for key, (value, number) in pending.parts.items():
            revision = next(ahead)
            if value is None:
                del self._parts[key]
            else:
                self._parts[key] = (number, revision)
        for key, effect in pending.effects.items():
            self._node.outbox.start(key, effect, next(ahead))
        leaving, self._leaving = self._leaving, []
        for outlet in leaving:
            outlet.release()
        waiters, self._leaving_waiters = self._leaving_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    @property
    def effects_wanted(self) -> int:
        """How many wait for the next commit."""
        return len(self._effects)

    def wants(self, effect: EffectRecord) -> None:
        """Have something done outside once the present turn is saved."""
        self._effects.append(effect)

    def fenced(self) -> None:
        """Somebody else has written the room: nothing of what waits may leave."""
        log.error("room %s (%s) was taken over by another server", self._room.id, self._room.kind)
        for waiter in [*self.waiters, *self._leaving_waiters]:
            if not waiter.done():
                waiter.set_exception(NotFound("another server has this room"))
        self._host.fenced()

    def cannot_be_saved(self, error: Exception) -> None:
        """The game has put something into the room that has no place in a record: its players wait until it is out."""
        now = self._node.now()
        self._node.counters.turns_failed += 1
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(Failed(f"the room cannot be saved: {error}"))
        self.waiters.clear()
        if now >= self._may_complain_at:
            self._may_complain_at = now + _COMPLAINT_S
            log.error(
                "room %s (%s) cannot be saved, so nothing it says leaves the server: %s",
                self._room.id,
                self._room.kind,
                error,
            )

    # The record

    def _record(  # noqa: PLR0913 - one call site, all but the state by keyword
        self,
        state: Raw | None,
        *,
        properties: Raw,
        data: dict[Player[Any], bytes],
        position: int,
        parts: bytes,
        is_final: bool,
    ) -> RoomRecord:
        room = self._room
        return RoomRecord(
            kind=room.kind,
            node=self._node.name,
            epoch=self.epoch,
            index=self.index + 1,
            previous=self.previous,
            saved_at=self._node.wall(),
            phase=room.phase,
            is_locked=room.is_locked,
            max_players=room.max_players,
            was_joined=self._host.was_joined,
            properties=properties,
            random=position,
            state=_NOTHING if state is None else state,
            has_state_beside=state is None,
            seats=self._cut_seats(data),
            objects=[object_id for object_id in room.objects if room.objects.owner_of(object_id) is None],
            timers=self._timers(),
            parts=parts,
            created_at=self.created_at,
            is_final=is_final,
        )

    def _cut_seats(self, data: dict[Player[Any], bytes]) -> list[Raw]:
        self._seats = {player: self._cut_seat(player, each) for player, each in data.items()}
        return [encoded for _, encoded in self._seats.values()]

    def _check_settings(self) -> None:
        room = self._room
        if not isinstance(room.max_players, int):
            raise TypeError(f"max_players must be a whole number; it is {room.max_players!r}")
        if not all(isinstance(name, str) for name in room.properties):
            raise TypeError("properties are named by text")

    def _cut_data(self, player: Player[Any]) -> bytes:
        data = _encode(player.data)
        known = self._seats.get(player)
        if known is None or known[0][0] != data:
            self._read_data(data)
        return data

    def _cut_seat(self, player: Player[Any], data: bytes) -> tuple[tuple[Any, ...], Raw]:
        owned = sorted(player.owned)
        channel = self.channel_record(player)
        if channel is not None and self._host.owes_state_to(player):
            # Saved before `on_resync` had its turn: if that never comes, the next server begins the stream anew again.
            channel = msgspec.structs.replace(channel, is_overflowed=True)
        session = player.session
        facts = (data, owned, channel, session, session.rewound_s)
        known = self._seats.get(player)
        if known is not None and known[0] == facts:
            return known
        session_id = session.id if channel is not None else ""
        return facts, encode_seat(SeatRecord(player.id, session_id, Raw(data), owned, channel, session.rewound_s))

    @staticmethod
    def channel_record(player: Player[Any]) -> ChannelRecord | None:
        """The streams of a seat; None for an agent's."""
        if isinstance(player.outlet, GatedOutlet):
            return player.outlet.record()
        channel = player.session.channel
        return channel_record(channel) if channel is not None else None

    def _timers(self) -> list[TimerRecord]:
        now, wall = self._node.now(), self._node.wall()
        return [TimerRecord(wall + timer.due_at - now, timer.method, timer.arguments) for timer in self._host.timers]

    # State, and what lies beside the record

    def _cut_state(self, pending: "_Pending") -> Raw | None:
        state = self._room.snapshot()
        if self._is_untyped and isinstance(state, msgspec.Struct):
            kind = type(self._room).__name__
            raise TypeError(f"say of which type {kind}.state is, as in `state: {type(state).__name__}`")
        fields = parts_of(state)
        if fields and not self._part_readers:
            kinds = parts_fields(type(state))
            self._part_readers = {field: state_reader(kind) for field, kind in kinds.items()}
        for field in fields:
            if field not in self._part_readers:
                raise TypeError(f"say of which type {field} is, as in `{field}: Parts[Chunk]`")
        for field in {**self._fields, **fields}:
            self._cut_parts(pending, field, fields.get(field))
        self._cutting = fields
        encoded = self._encode_state(state)
        is_large = len(encoded) > self._node.limits.record_state_bytes_max
        is_new = encoded != self._state
        if is_new:
            # What cannot be read again is found now, not after the crash. Of a large state that costs more than to
            # write it, so only its first saves are read.
            if not is_large or self.index < _LARGE_READ_MAX:
                self._read_state(encoded)
            self._put_beside(pending, "state", encoded if is_large else None)
        # Nothing can fail from here on.
        self._state = encoded
        self._fields = fields
        for parts in fields.values():
            parts.taken()
        return None if is_large else Raw(encoded)

    def _without_parts(self, value: Any) -> None:
        """Parts are saved beside the record that the state is in: in its place is nothing."""
        if not any(value is parts for parts in self._cutting.values()):
            where = "as a field of the state's own" if isinstance(value, Parts) else "with snapshot() and restore()"
            raise NotImplementedError(f"a {type(value).__name__} can only be saved {where}")

    def _cut_parts(self, pending: "_Pending", field: str, parts: Parts[Any] | None) -> None:
        if parts is not None and parts is self._fields.get(field):
            changed = parts.touched()
        else:
            # Another mapping in the place of the one that was saved, or none: whatever it does not have is gone.
            changed = {name: parts.peek(name) for name in parts} if parts is not None else {}
            kept = {f"{self._key}/{_part_name(field, name)}" for name in changed}
            for key in self._parts:
                if key.startswith(f"{self._key}/{field}/") and key not in kept:
                    self._put_beside(pending, key.removeprefix(f"{self._key}/"), None)
        for name, value in changed.items():
            self._put_beside(pending, _part_name(field, name), self._part(field, name, value))

    def _part(self, field: str, name: str, value: Any) -> bytes | None:
        if value is None:
            return None
        encoded = _encode(value)
        self._part_readers[field](encoded)
        return _encode((name, Raw(encoded)))

    def _put_beside(self, pending: "_Pending", name: str, value: bytes | None) -> None:
        key = f"{self._key}/{name}"
        former, _ = self._parts.get(key, _NO_PART)
        if value is not None and len(value) > VALUE_BYTES_MAX:
            raise ValueError(f"{name} has {len(value)} bytes, and {VALUE_BYTES_MAX} are the most that can be saved")
        number = part_digest(key, value) if value is not None else 0
        if number != former:
            pending.parts[key] = (value, number)
            pending.sum = parts_changed(pending.sum, added=number, removed=former)


class _Pending(msgspec.Struct):
    """What will be so once the commit has succeeded."""

    sum: bytes
    record: bytes | None = None
    parts: dict[str, tuple[bytes | None, int]] = {}
    effects: dict[str, EffectRecord] = {}
