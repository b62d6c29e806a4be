"""Planted bugs of commits: the gate, the store's answers, what goes together, fencing, outside effects."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any, cast

from msgspec.structs import replace

from holdfast.core.asks import answer_to
from holdfast.core.block import Entry
from holdfast.core.messages import MessageAnswered
from holdfast.server.admission.handshake import Resumer
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.durability.committer import Committer, PendingBatch
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.rooms.delivery import Delivery
from holdfast.server.rooms.effects import RoomEffects
from holdfast.server.rooms.outbox import Outbox, effect_record
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.turns import Turns
from holdfast.stores import Store, Unavailable
from holdfast.stores.memory import MemoryData
from tests.simulation.planting import durable_mutant, patched


def _as_known(batch: PendingBatch) -> list[int]:
    """The revisions before the batch: as if it had been written without a change."""
    return [write.revision for write in batch.writes]


# The gate


@durable_mutant
def an_acknowledgement_does_not_wait_for_its_commit() -> Iterator[None]:
    def applied(outlet: GatedOutlet, seq: int) -> None:
        right(outlet, seq)
        ChannelOutlet.applied(outlet, seq)

    right = GatedOutlet.applied
    with patched(GatedOutlet, applied=applied):
        yield


@durable_mutant
def a_message_does_not_wait_for_its_commit() -> Iterator[None]:
    def write(outlet: GatedOutlet, entry: Entry) -> None:
        ChannelOutlet.write(outlet, entry)
        outlet.applied(outlet._applied)

    with patched(GatedOutlet, write=write):
        yield


@durable_mutant
def an_answer_does_not_wait_for_its_commit() -> Iterator[None]:
    def _answered(delivery: Delivery, error: Any, result: Any, seat: Any, outlet: Any, *rest: Any) -> None:
        if error is None and isinstance(outlet, GatedOutlet):
            seq, name, _ = rest
            body = outlet.codec.encode(answer_to(seq, name, result))
            ChannelOutlet.write(outlet, (MessageAnswered.wire_name, body))
            delivery._applied(None, None, seat, outlet, *rest)
        else:
            right(delivery, error, result, seat, outlet, *rest)

    right = Delivery._answered
    with patched(Delivery, _answered=_answered):
        yield


@durable_mutant
def the_gate_opens_when_a_commit_begins() -> Iterator[None]:
    def _cut_outlets(writer: RoomWriter) -> None:
        right(writer)
        for outlet in writer._leaving:
            outlet.release()

    right = RoomWriter._cut_outlets
    with patched(RoomWriter, _cut_outlets=_cut_outlets):
        yield


@durable_mutant
def a_welcome_does_not_wait_until_its_token_is_saved() -> Iterator[None]:
    def _resume(resumer: Resumer, connection: Any, *rest: Any) -> None:
        right(resumer, connection, *rest)
        connection.release()

    right = Resumer._resume
    with patched(Resumer, _resume=_resume):
        yield


# The store's answers


class _Lenient:
    """A store that does not say when it refuses a commit."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batches: Any) -> Any:
        try:
            return await self._store.commit(batches)
        except Unavailable:
            return [[write.revision for write in batch] for batch in batches]


@durable_mutant
def a_refused_commit_counts_as_written() -> Iterator[None]:
    async def _write(committer: Committer, batches: list[PendingBatch]) -> None:
        store = committer.store
        committer.store = cast("Store", _Lenient(store))
        try:
            await right(committer, batches)
        finally:
            committer.store = store

    right = Committer._write
    with patched(Committer, _write=_write):
        yield


@durable_mutant
def a_commit_without_an_answer_counts_as_written() -> Iterator[None]:
    async def _read_back(committer: Committer, batch: PendingBatch) -> bool:
        committer._committed(batch, _as_known(batch))
        return True

    with patched(Committer, _read_back=_read_back):
        yield


# Fencing


@durable_mutant
def a_conflict_is_ignored() -> Iterator[None]:
    def _fenced(committer: Committer, batch: PendingBatch, _: Any) -> None:
        committer._committed(batch, _as_known(batch))

    with patched(Committer, _fenced=_fenced):
        yield


@durable_mutant
def the_store_does_not_look_at_revisions() -> Iterator[None]:
    def write(data: MemoryData, batch: Any) -> Any:
        return [data._apply(each) for each in batch]

    with patched(MemoryData, write=write):
        yield


@durable_mutant
def a_fenced_room_lets_out_what_waited() -> Iterator[None]:
    def _fenced(committer: Committer, batch: PendingBatch, fenced: Any) -> None:
        for outlet in [outlet for room in batch.rooms for outlet in room._leaving]:
            outlet.release()
            connection = outlet._session.connection
            if isinstance(connection, LiveConnection):
                connection.flush()
        right(committer, batch, fenced)

    right = Committer._fenced
    with patched(Committer, _fenced=_fenced):
        yield


# What goes together


@durable_mutant
def what_was_applied_is_not_in_the_record() -> Iterator[None]:
    def record(outlet: GatedOutlet) -> Any:
        return replace(right(outlet), applied=outlet.channel.applied)

    right = GatedOutlet.record
    with patched(GatedOutlet, record=record):
        yield


@durable_mutant
def what_was_said_is_not_in_the_record() -> Iterator[None]:
    def record(outlet: GatedOutlet) -> Any:
        return replace(right(outlet), kept=[])

    right = GatedOutlet.record
    with patched(GatedOutlet, record=record):
        yield


@durable_mutant
def a_seat_and_its_session_are_saved_apart() -> Iterator[None]:
    def _cut_batches(committer: Committer) -> list[PendingBatch]:
        batches: list[PendingBatch] = []
        for batch in right(committer):
            count = sum(batch.rooms.values())
            rooms, sessions = PendingBatch(), PendingBatch()
            rooms.writes, rooms.rooms = batch.writes[:count], batch.rooms
            sessions.writes, sessions.sessions = batch.writes[count:], batch.sessions
            batches += [each for each in (sessions, rooms) if each.writes]
        return batches

    right = Committer._cut_batches
    with patched(Committer, _cut_batches=_cut_batches):
        yield


@durable_mutant
def a_room_is_saved_in_the_middle_of_a_turn() -> Iterator[None]:
    with (
        patched(Turns, is_at_rest=property(lambda _: True)),
        patched(RoomWriter, is_at_rest=property(lambda _: True)),
    ):
        yield


# Outside effects


@durable_mutant
def an_effect_does_not_wait_for_its_commit() -> Iterator[None]:
    def want(effects: RoomEffects, name: str, payload: Any) -> None:
        key = f"effect/{payload}"
        effects._outbox.start(key, effect_record(name, payload, effects._context.room_id), None)

    with patched(RoomEffects, want=want):
        yield


@durable_mutant
def an_effect_that_is_done_is_not_struck_off() -> Iterator[None]:
    async def _forget(*_: Any) -> None: ...

    with patched(Outbox, _forget=_forget):
        yield
