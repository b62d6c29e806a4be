"""Planted bugs of nodes: who owns what, what moves with a room or a session, what a bus has lost."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Collection, Iterator
from typing import Any

from holdfast.cluster.relay.line import Judgement, Line
from holdfast.core.channel import Channel
from holdfast.server.cluster.edge import Edge
from holdfast.server.cluster.finder import Finder
from holdfast.server.cluster.takeover import Takeover
from holdfast.server.durability.committer import Committer, PendingBatch
from holdfast.server.durability.recovery import Recovery
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.durability.session_writers import SessionWriters
from holdfast.server.rooms.runner import RoomRunner
from holdfast.stores.memory import MemoryData
from tests.simulation.planting import cluster_mutant, patched

# Owners


@cluster_mutant
def a_takeover_does_not_raise_the_epoch() -> Iterator[None]:
    def restored(writer: RoomWriter, record: Any, entries: Any) -> None:
        right(writer, record, entries)
        writer.epoch = record.epoch

    right = RoomWriter.restored
    with patched(RoomWriter, restored=restored):
        yield


@cluster_mutant
def the_store_of_nodes_does_not_look_at_revisions() -> Iterator[None]:
    def write(data: MemoryData, batch: Any) -> Any:
        return [data._apply(each) for each in batch]

    with patched(MemoryData, write=write):
        yield


@cluster_mutant
def a_node_that_is_fenced_takes_no_notice() -> Iterator[None]:
    def _fenced(committer: Committer, batch: PendingBatch, _: Any) -> None:
        committer._committed(batch, [write.revision for write in batch.writes])

    with patched(Committer, _fenced=_fenced):
        yield


@cluster_mutant
def a_commit_of_a_node_without_an_answer_counts_as_written() -> Iterator[None]:
    async def _read_back(committer: Committer, batch: PendingBatch) -> bool:
        committer._committed(batch, [write.revision for write in batch.writes])
        return True

    with patched(Committer, _read_back=_read_back):
        yield


@cluster_mutant
def a_client_is_answered_before_its_session_is_claimed() -> Iterator[None]:
    def hold(writers: SessionWriters, session: Any) -> None:
        if session in writers._unclaimed:
            writers.changed(session)
        else:
            right(writers, session)

    right = SessionWriters.hold
    with patched(SessionWriters, hold=hold):
        yield


@cluster_mutant
def nobody_looks_for_the_rooms_of_a_dead_node() -> Iterator[None]:
    async def _take_orphans(_: Takeover) -> None: ...
    async def _take_from(_: Takeover, _life: str) -> None: ...

    with patched(Takeover, _take_orphans=_take_orphans, _take_from=_take_from):
        yield


@cluster_mutant
def the_edge_answers_for_a_session_that_is_elsewhere() -> Iterator[None]:
    def look(_edge: Edge, _connection: Any, _hello: Any, _session_id: str, is_here: Any) -> None:
        is_here()

    with patched(Edge, look=look):
        yield


@cluster_mutant
def a_session_is_saved_in_a_batch_of_its_own() -> Iterator[None]:
    def _cut_sessions(committer: Committer, batches: list[PendingBatch], _: Any) -> None:
        for session in list(committer.sessions.dirty):
            if session not in committer.sessions.sealed:
                del committer.sessions.dirty[session]
                batches.append(PendingBatch())
                batches[-1].add(session)

    with patched(Committer, _cut_sessions=_cut_sessions):
        yield


@cluster_mutant
def nobody_is_asked_who_has_a_room_before_it_is_taken() -> Iterator[None]:
    async def find(_finder: Finder, _what: str, _wanted: str) -> None:
        return None

    with patched(Finder, find=find):
        yield


# The lines between nodes


@cluster_mutant
def a_hole_in_a_line_is_ignored() -> Iterator[None]:
    def _follow(line: Line, number: int, heard: int) -> Judgement:
        line.theirs, line.heard = number, heard
        return Judgement(is_taken=True)

    with patched(Line, _follow=_follow):
        yield


# Moves


@cluster_mutant
def players_drop_in_a_move() -> Iterator[None]:
    def restore_room(recovery: Recovery, room_id: str, following: Collection[str] | None = None) -> None:
        right(recovery, room_id, following)
        runner = recovery._directory._runners.get(room_id)
        if following is not None and isinstance(runner, RoomRunner):
            for seat in runner.seats.occupied:
                if not seat.agent:
                    runner.follow(runner.room.on_drop, seat.player)

    right = Recovery.restore_room
    with patched(Recovery, restore_room=restore_room):
        yield


@cluster_mutant
def a_connection_that_follows_begins_where_it_was_acknowledged() -> Iterator[None]:
    def continued(channel: Channel, _: int) -> None:
        channel._count_as_sent(channel.last_seq)

    with patched(Channel, continued=continued):
        yield
