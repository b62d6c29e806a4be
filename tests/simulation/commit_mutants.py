"""Planted bugs of commits: the gate, the store's answers, what goes together, fencing, outside effects."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.server.admission.resume import Resumer
from holdfast.server.durability.bundles import Bundle
from holdfast.server.durability.commits import Commits, Fates
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.persistence import StorePersistence
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.rooms.effects import Outbox, effect_record
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.turns import Turns
from holdfast.stores import Unavailable
from holdfast.stores.memory import MemoryData
from tests.simulation.planting import durable_mutant, patched


def _believe(committer: Fates, bundles: list[Bundle]) -> None:
    """Go on as if they were written."""
    for bundle in bundles:
        committer.committed(bundle, [write.revision for write in bundle.writes])


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
    def _push(outlet: GatedOutlet, name: str, body: bytes) -> None:
        ChannelOutlet._push(outlet, name, body)
        outlet.applied(outlet._applied)

    with patched(GatedOutlet, _push=_push):
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


@durable_mutant
def a_refused_commit_counts_as_written() -> Iterator[None]:
    async def _try(commits: Commits, bundles: list[Bundle]) -> list[Bundle]:
        commit = commits._store.commit

        async def refused(batches: Any) -> Any:
            try:
                return await commit(batches)
            except Unavailable:
                return [[write.revision for write in batch] for batch in batches]

        commits._store.commit = refused  # type: ignore[method-assign]  # for this one call
        try:
            return await right(commits, bundles)
        finally:
            commits._store.commit = commit  # type: ignore[method-assign]  # as it was

    right = Commits._try
    with patched(Commits, _try=_try):
        yield


@durable_mutant
def a_commit_without_an_answer_counts_as_written() -> Iterator[None]:
    async def _read_back(commits: Commits, bundles: list[Bundle]) -> list[Bundle]:
        _believe(commits._fates, bundles)
        return []

    with patched(Commits, _read_back=_read_back):
        yield


# Fencing


@durable_mutant
def a_conflict_is_ignored() -> Iterator[None]:
    def fenced(committer: Committer, bundle: Bundle, *_: Any, **__: Any) -> None:
        _believe(committer, [bundle])

    with patched(Committer, fenced=fenced):
        yield


@durable_mutant
def the_store_does_not_look_at_revisions() -> Iterator[None]:
    def write(data: MemoryData, batch: Any) -> Any:
        return [data._apply(each) for each in batch]

    with patched(MemoryData, write=write):
        yield


@durable_mutant
def a_fenced_room_lets_out_what_waited() -> Iterator[None]:
    def fenced(committer: Committer, bundle: Bundle, *rest: Any, **options: Any) -> None:
        for outlet in bundle.writer._leaving if bundle.writer is not None else ():
            outlet.release()
            connection = committer._node.connection_of(outlet._session)
            if connection is not None:
                connection.flush()
        right(committer, bundle, *rest, **options)

    right = Committer.fenced
    with patched(Committer, fenced=fenced):
        yield


# What goes together


@durable_mutant
def what_was_applied_is_not_in_the_record() -> Iterator[None]:
    def record(outlet: GatedOutlet) -> Any:
        return replace(right(outlet), applied=outlet._channel.applied)

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
    def _bundles(committer: Committer) -> list[Bundle]:
        bundles: list[Bundle] = []
        for bundle in right(committer):
            room = Bundle(bundle.writer, bundle.writes[: bundle._room_writes])
            session = Bundle(None, [])
            session.writes, session.sessions = bundle.writes[bundle._room_writes :], bundle.sessions
            bundles += [each for each in (session, room) if each.writes]
        return bundles

    right = Committer._bundles
    with patched(Committer, _bundles=_bundles):
        yield


@durable_mutant
def a_room_is_saved_in_the_middle_of_a_turn() -> Iterator[None]:
    with (
        patched(Turns, is_at_rest=property(lambda _: True)),
        patched(StorePersistence, is_at_rest=property(lambda _: True)),
    ):
        yield


# Outside effects


@durable_mutant
def an_effect_does_not_wait_for_its_commit() -> Iterator[None]:
    def effect(runner: RoomRunner, name: str, payload: Any) -> None:
        key = f"effect/{payload}"
        runner._services.outbox.start(key, effect_record(name, payload, runner.room.id), None)

    with patched(RoomRunner, effect=effect):
        yield


@durable_mutant
def an_effect_that_is_done_is_not_struck_off() -> Iterator[None]:
    async def _forget(*_: Any) -> None: ...

    with patched(Outbox, _forget=_forget):
        yield
