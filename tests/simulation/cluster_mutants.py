"""Planted bugs of nodes: who owns what, what moves with a room or a session, what a bus has lost."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from holdfast.cluster.questions import Questions, Replies
from holdfast.cluster.relay.line import Judgement, Line
from holdfast.core.channel import Channel
from holdfast.server.cluster import handovers
from holdfast.server.cluster.edge import Edge
from holdfast.server.cluster.finder import Finder
from holdfast.server.cluster.migration import Migration
from holdfast.server.cluster.takeover import Takeover
from holdfast.server.connection.buffers import HeardMeanwhile
from holdfast.server.connection.connection import LiveConnection
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

    with patched(Takeover, _take_orphans=_take_orphans):
        yield


@cluster_mutant
def the_edge_answers_for_a_session_that_is_elsewhere() -> Iterator[None]:
    def look(_edge: Edge, _connection: Any, _hello: Any, _session_id: str, is_here: Any) -> None:
        is_here()

    with patched(Edge, look=look):
        yield


@cluster_mutant
def silence_is_taken_for_a_no() -> Iterator[None]:
    async def ask_all(questions: Questions, name: str, *rest: Any, **options: Any) -> Any:
        replies = await right(questions, name, *rest, **options)
        return Replies(replies.by_life, [])

    right = Questions.ask_all
    with patched(Questions, ask_all=ask_all):
        yield


@cluster_mutant
def a_session_that_no_node_has_is_not_looked_for_in_the_store() -> Iterator[None]:
    async def session(takeover: Takeover, session_id: str, **_: Any) -> str | None:
        if takeover._has_session(session_id):
            return takeover._node.life
        found = await takeover._finder.find("session", session_id)
        return found.life if found is not None else None

    with patched(Takeover, session=session):
        yield


@cluster_mutant
def a_node_asks_nobody_before_it_takes_a_room() -> Iterator[None]:
    async def find(*_: Any) -> None:
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
    def restore_room(recovery: Recovery, room_id: str, *, is_exact: bool = False) -> None:
        right(recovery, room_id, is_exact=is_exact)
        runner = recovery._directory._runners.get(room_id)
        if is_exact and isinstance(runner, RoomRunner):
            for seat in runner.seats.occupied:
                if not seat.agent:
                    runner.follow(runner.room.on_drop, seat.player)

    right = Recovery.restore_room
    with patched(Recovery, restore_room=restore_room):
        yield


@cluster_mutant
def what_a_client_sends_in_a_move_is_lost() -> Iterator[None]:
    def received(_: HeardMeanwhile, _payload: bytes) -> None: ...

    with patched(HeardMeanwhile, received=received):
        yield


@cluster_mutant
def a_connection_that_follows_begins_where_it_was_acknowledged() -> Iterator[None]:
    def continued(channel: Channel, _: int) -> None:
        channel._count_as_sent(channel.last_seq)

    with patched(Channel, continued=continued):
        yield


@cluster_mutant
def a_session_is_handed_over_without_its_own_messages() -> Iterator[None]:
    def session_record(session: Any, room: str, closing: Any, _: Any, **rest: Any) -> Any:
        return right(session, room, closing, None, **rest)

    right = handovers.session_record  # type: ignore[attr-defined]  # planted there
    with patched(handovers, session_record=session_record):
        yield


@cluster_mutant
def a_session_is_handed_over_without_its_requests() -> Iterator[None]:
    def expect(each: Any, session: Any, source: Any, sent: Any, _: Any = ()) -> Any:
        return right(each, session, source, sent)

    right = handovers.Handovers.expect
    with patched(handovers.Handovers, expect=expect):
        yield


@cluster_mutant
def a_room_that_stays_after_all_stands_still() -> Iterator[None]:
    def _go_on(*_: Any) -> None: ...

    with patched(Migration, _go_on=_go_on):
        yield


@cluster_mutant
def a_connection_forgets_to_go_on_after_a_move() -> Iterator[None]:
    def go_on(*_: Any) -> None: ...

    with patched(LiveConnection, go_on=go_on):
        yield
