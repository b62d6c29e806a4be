"""Planted bugs of coming back: what a record leaves out, and what is made of it."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.client.channels import Channels
from holdfast.core.channel import Channel
from holdfast.core.room_context import Timer
from holdfast.core.session import NOT_REWOUND, Session
from holdfast.core.tokens import Lineage, ResumeTokens
from holdfast.server.admission.handshake import Resumer
from holdfast.server.durability.record_parts import RecordLists, SpillingList
from holdfast.server.durability.recovery import Recovery
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.rooms import timers
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.timers import RoomTimers
from tests.simulation.planting import durable_mutant, patched, robbery_mutant, rollback_mutant


@durable_mutant
def timers_are_not_saved() -> Iterator[None]:
    def cut_timers(*_: Any) -> list[Any]:
        return []

    with patched(RecordLists, cut_timers=cut_timers):
        yield


@durable_mutant
def a_timer_that_has_rung_is_still_saved() -> Iterator[None]:
    def restore(owner: RoomTimers, *arguments: Any, **options: Any) -> Any:
        timer = right(owner, *arguments, **options)
        every.setdefault(owner, []).append(timer)
        return timer

    every: dict[RoomTimers, list[Any]] = {}
    right = RoomTimers.restore
    with patched(RoomTimers, restore=restore, pending=property(lambda owner: every.get(owner, []))):
        yield


@durable_mutant
def missed_calls_are_made_up_for() -> Iterator[None]:
    with patched(timers, next_due=lambda due_at, every_s, _: due_at + every_s):
        yield


@durable_mutant
def a_repeated_call_is_saved_as_it_was_first_due() -> Iterator[None]:
    def _timer(lists: RecordLists, timer: Timer) -> Any:
        return lists._encoded_timers.get(timer) or right(lists, timer)

    right = RecordLists._timer
    with patched(RecordLists, _timer=_timer):
        yield


@durable_mutant
def the_names_of_timers_are_lost_in_a_crash() -> Iterator[None]:
    def _set_timer(recovery: Recovery, runner: RoomRunner, timer: Any, wait_s: float) -> None:
        right(recovery, runner, replace(timer, name=""), wait_s)

    right = Recovery._set_timer
    with patched(Recovery, _set_timer=_set_timer):
        yield


@durable_mutant
def groups_are_not_saved() -> Iterator[None]:
    def cut_groups(*_: Any) -> list[Any]:
        return []

    with patched(RecordLists, cut_groups=cut_groups):
        yield


@durable_mutant
def a_group_that_changed_is_saved_as_it_was() -> Iterator[None]:
    def _group(lists: RecordLists, name: str, members: Any) -> Any:
        return lists._encoded_groups.get(members) or right(lists, name, members)

    right = RecordLists._group
    with patched(RecordLists, _group=_group):
        yield


@durable_mutant
def chance_begins_anew_with_every_server() -> Iterator[None]:
    def _record(writer: RoomWriter, *arguments: Any, **options: Any) -> Any:
        record = right(writer, *arguments, **options)
        return replace(record, random=first.setdefault(writer._room.id, record.random))

    first: dict[str, int] = {}
    right = RoomWriter._record
    with patched(RoomWriter, _record=_record):
        yield


@durable_mutant
def what_players_own_is_not_saved() -> Iterator[None]:
    def cut_objects(*_: Any) -> list[Any]:
        return []

    with patched(RecordLists, cut_objects=cut_objects):
        yield


@durable_mutant
def an_entry_that_changed_again_is_read_as_it_lies_beside_the_record() -> Iterator[None]:
    def cut(entries: SpillingList, *arguments: Any) -> list[bytes]:
        inline = right(entries, *arguments)
        return [
            encoded for number, encoded in zip(entries._inline, inline, strict=True) if number not in entries._with_part
        ]

    right = SpillingList.cut
    with patched(SpillingList, cut=cut):
        yield


@durable_mutant
def a_seat_that_was_freed_still_lies_beside_the_record() -> Iterator[None]:
    def _forget_all_but(entries: SpillingList, kept: Any, change: Any) -> None:
        beside, entries._with_part = entries._with_part, set()
        right(entries, kept, change)
        entries._with_part = beside & kept.keys()

    right = SpillingList._forget_all_but
    with patched(SpillingList, _forget_all_but=_forget_all_but):
        yield


@durable_mutant
def an_effect_gets_another_key_with_another_server() -> Iterator[None]:
    def _resume_effect(recovery: Recovery, entry: Any) -> None:
        right(recovery, entry._replace(key=f"{entry.key}.again"))

    right = Recovery._resume_effect
    with patched(Recovery, _resume_effect=_resume_effect):
        yield


@durable_mutant
def effects_are_not_taken_up_again() -> Iterator[None]:
    def _resume_effect(*_: Any) -> None: ...

    with patched(Recovery, _resume_effect=_resume_effect):
        yield


@durable_mutant
def a_room_keeps_its_epoch() -> Iterator[None]:
    def restored(writer: RoomWriter, record: Any, *rest: Any) -> None:
        right(writer, record, *rest)
        writer.epoch = record.epoch

    right = RoomWriter.restored
    with patched(RoomWriter, restored=restored):
        yield


@durable_mutant
def a_restart_leaves_no_time_to_come_back() -> Iterator[None]:
    def restore_seat(runner: RoomRunner, session: Session, *rest: Any) -> None:
        right(runner, session, *rest)
        session.expires_at = runner._services.context.clock.now() + 0.5
        runner._services.lifecycle.graces.begin(session)

    right = RoomRunner.restore_seat
    with patched(RoomRunner, restore_seat=restore_seat):
        yield


@durable_mutant
def a_rewound_room_is_resumed_as_if_nothing_was_lost() -> Iterator[None]:
    def _resume(resumer: Resumer, connection: Any, session: Session, positions: Any) -> None:
        session.rewound = NOT_REWOUND
        right(resumer, connection, session, positions)

    right = Resumer._resume
    with patched(Resumer, _resume=_resume):
        yield


@robbery_mutant
def a_used_token_is_good_again_after_a_crash() -> Iterator[None]:
    def confirm(tokens: ResumeTokens) -> bool:
        right(tokens)
        return False

    right = ResumeTokens.confirm
    with patched(ResumeTokens, confirm=confirm):
        yield


# A store that went back in time


@rollback_mutant
def a_lineage_is_not_looked_at() -> Iterator[None]:
    def includes(*_: Any, **__: Any) -> bool:
        return True

    with patched(Lineage, includes=includes):
        yield


@rollback_mutant
def forks_are_not_saved() -> Iterator[None]:
    def restore(lineage: Lineage, name: str, _: Any) -> None:
        right(lineage, name, [])

    right = Lineage.restore
    with patched(Lineage, restore=restore):
        yield


@rollback_mutant
def acknowledged_messages_are_asked_for_again() -> Iterator[None]:
    def forget_to(_: Channel, *__: int) -> None: ...

    with patched(Channel, forget_to=forget_to):
        yield


@rollback_mutant
def a_client_keeps_the_channels_of_the_other_history() -> Iterator[None]:
    def roll_back(*_: Any) -> list[Any]:
        return []

    with patched(Channels, roll_back=roll_back):
        yield
