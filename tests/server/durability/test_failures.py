"""A store that is full, silent, broken or somebody else's (R4)."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from holdfast import Auth, Limits, Reason
from holdfast.schemas.frames import Ack, Data, Hello, Position, Resume, Welcome
from holdfast.stores import Batch, Entry, MemoryData, Outcome, Unknown
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.faults import NO_FAULT, Fault, FaultyStore
from tests.server.durability.rooms import Do, Say, Table, table


class Clock(Table):
    tick_hz = 10.0

    def on_tick(self, dt_s: float) -> Any:
        self.story.append("tick")

    def arm(self, player: object, seconds: float) -> None:
        self.after(seconds, self.ring)

    def ring(self) -> None:
        self.story.append("ring")


def always(fault: Fault) -> Callable[[int], Fault | None]:
    return lambda _: fault


@in_virtual_time
async def test_a_short_refusal_delays_everything_and_doubles_nothing() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()

        bench.store.fault = always(Fault.UNAVAILABLE)
        await ada.send(Say("1"), Say("2"))
        await a_moment(1.0)
        await ada.send(Say("3"))
        unacked, early = ada.session.protocol.unacked(ada.room.channel), list(ada.texts)
        bench.store.fault = NO_FAULT
        await ada.room.flush()
        await ada.has_heard("ada:3")

        assert (unacked, early) == (3, [])
        assert ada.texts == ["ada:1", "ada:2", "ada:3"]
        assert ada.outcomes == []


@in_virtual_time
async def test_a_long_refusal_stops_the_rooms_and_sends_the_clients_away_until_it_is_over() -> None:
    kind = table(Clock)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("arm", [4.0]))
        await ada.room.flush()
        bench.store.fault = always(Fault.UNAVAILABLE)
        await ada.send(Say("1"))

        await until(lambda: not ada.session.connected)
        await a_moment(1.0)
        kind.story.clear()
        await a_moment(20.0)
        story = list(kind.story)
        dials = len(bench.dialer(ada).links)
        bench.store.fault = NO_FAULT
        await ada.back()
        await ada.has_heard("ada:1")
        await a_moment(1.0)

        assert story == []
        assert dials > 1
        assert "tick" in kind.story
        assert kind.story.count("ring") == 1
        assert ada.texts == ["ada:1"]
        assert ada.kinds == ["resumed"]


@in_virtual_time
async def test_a_client_that_is_sent_away_hears_why_and_when_to_come_back() -> None:
    async with Bench(table()) as bench:
        ada = await bench.raw()
        ada.say(Hello(Auth("name", "ada")))
        welcome = await ada.hear(Welcome)
        await ada.join("table")
        bench.store.fault = always(Fault.UNAVAILABLE)

        ada.send(1, Say("1"))
        close = await ada.closed()
        again = await bench.raw()
        again.say(Hello(None, Resume(welcome.session, welcome.token, [Position(1, 1, 0)])))
        answer = await again.closed()

        for told in (close, answer):
            assert (told.code, told.reason) == (4003, "busy")
            assert told.retry_after_s == bench.limits.store_patience_s
        assert ada.all_heard(Data) == []
        assert [ack.ack for ack in ada.all_heard(Ack)] == []


@in_virtual_time
async def test_a_room_that_comes_back_while_the_store_refuses_stands_still_too() -> None:
    kind = table(Clock)
    async with Bench(kind, table(name="Other"), recovery="lazy") as bench:
        rooms = [await bench.server.create_room("table") for _ in range(400)]
        ada = await bench.sit("ada", "other")
        await a_moment()
        bench.crash()
        await bench.start()
        bench.store.fault = always(Fault.UNAVAILABLE)
        await a_moment(3.0)
        assert bench.server.parts.committer is not None
        assert bench.server.parts.committer.is_failing
        assert len(bench.server.rooms) < 400
        late = next(room.id for room in rooms if bench.server.rooms.get(room.id) is None)

        bench.server.parts.rooms.runner(late)
        kind.story.clear()
        await a_moment(2.0)

        assert [line for line in kind.story if line == "tick"] == []
        assert ada.texts == []


@in_virtual_time
async def test_graces_do_not_run_out_while_nobody_can_come_back() -> None:
    kind = table(grace_s=20.0)
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        bench.store.fault = always(Fault.UNAVAILABLE)
        await ada.send(Say("1"))

        await a_moment(60.0)
        bench.store.fault = NO_FAULT
        await ada.back()
        await bob.back()
        await bob.has_heard("ada:1")

        assert ada.kinds == bob.kinds == ["resumed"]
        assert not [line for line in kind.story if line.startswith("leave")]


@pytest.mark.parametrize("outage_s", [19.0, 20.0, 20.5, 21.0, 21.5, 22.0])
@in_virtual_time
async def test_who_was_sent_away_has_time_to_come_back_when_the_store_works_again(outage_s: float) -> None:
    kind = table(grace_s=20.0)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        bench.store.fault = always(Fault.UNAVAILABLE)
        await ada.send(Say("1"))

        await a_moment(outage_s)
        bench.store.fault = NO_FAULT
        outcome = await ada.back()

        assert outcome.kind == "resumed"


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_WRITTEN, Fault.UNKNOWN_LOST])
@in_virtual_time
async def test_a_commit_without_an_answer_is_looked_for_and_not_doubled(fault: Fault) -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        number = bench.store.commits + 1

        bench.store.fault = lambda commit: fault if commit == number else None
        await ada.send(Say("1"), Say("2"))
        await ada.has_heard("ada:2")
        await bench.restart()
        await ada.send(Say("3"))
        await ada.has_heard("ada:3")

        assert ada.texts == ["ada:1", "ada:2", "ada:3"] == bench.room(ada).state.said


@in_virtual_time
async def test_a_commit_that_hangs_is_looked_for() -> None:
    limits = Limits(commit_timeout_s=3.0)
    async with Bench(table(), limits=limits) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()
        await ada.send(Say("1"))
        await a_moment(3.5)

        bench.store.release()
        await ada.has_heard("ada:1")

        assert ada.texts == ["ada:1"]


@in_virtual_time
async def test_rooms_go_on_when_the_answer_that_was_missing_turns_out_to_be_yes() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.fault = always(Fault.UNAVAILABLE)
        await ada.send(Say("1"))
        await a_moment(5.0)

        number = bench.store.commits + 1
        bench.store.fault = lambda commit: Fault.UNKNOWN_WRITTEN if commit <= number else None
        await a_moment(1.0)
        await until(lambda: "ada:1" in ada.texts, within_s=60.0)

        assert not bench.server.parts.committer.is_failing  # type: ignore[union-attr]  # there is a store


@in_virtual_time
async def test_a_missing_answer_is_forgotten_once_the_commit_was_found() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        number = bench.store.commits + 1
        bench.store.fault = lambda commit: Fault.UNKNOWN_WRITTEN if commit == number else None
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")
        await a_moment(60.0)

        number = bench.store.commits + 1
        bench.store.fault = lambda commit: Fault.UNAVAILABLE if commit == number else None
        await ada.send(Say("2"))
        await ada.has_heard("ada:2")

        assert ada.outcomes == []


@in_virtual_time
async def test_a_store_that_never_answers_is_not_asked_without_pause() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        commits = bench.store.commits
        bench.store.fault = lambda commit: Fault.UNKNOWN_LOST if commit <= commits + 50 else None

        await ada.send(Say("1"))
        await a_moment(1.0)
        asked = bench.store.commits - commits
        await ada.has_heard("ada:1")

        assert asked < 20


@pytest.mark.parametrize("deaf", [False, True])
@in_virtual_time
async def test_a_store_that_hangs_sends_the_clients_away_in_the_end(*, deaf: bool) -> None:
    async with Bench(table(), limits=Limits(commit_timeout_s=3.0)) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()
        bench.store.is_deaf = deaf
        await ada.send(Say("1"))

        await until(lambda: not ada.session.connected, within_s=30.0)
        bench.store.is_deaf = False
        bench.store.release()
        await ada.has_heard("ada:1")

        assert ada.texts == ["ada:1"]
        assert ada.kinds == ["resumed"]


@in_virtual_time
async def test_after_a_broken_store_nothing_leaves_and_the_process_is_told_once() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        number = bench.store.commits + 1
        bench.store.fault = lambda commit: Fault.BROKEN if commit == number else None

        await ada.send(Say("1"))
        await a_moment(1.0)
        await ada.send(Say("2"))
        await a_moment(5.0)

        assert len(bench.fatal) == 1
        assert ada.texts == []
        assert ada.session.protocol.unacked(ada.room.channel) == 2
        assert bench.store.commits == number


async def _scenario(bench: Bench) -> tuple[Any, ...]:
    """A join, three messages, a drop, a resume, a leave; what is left of it."""
    await bench.server.create_room("table")
    ada = await bench.sit("ada")
    for text in "abc":
        await ada.send(Say(text))
    await ada.has_heard("ada:c")
    await a_moment(0.1)
    bench.link(ada).cut()
    await ada.back()
    await ada.send(Say("d"))
    await ada.has_heard("ada:d")
    room = bench.room(ada)
    await ada.room.leave()
    await a_moment(5.0)
    assert ada.room.left is not None
    return (
        ada.texts,
        ada.kinds[0],
        room.state.said,
        room.state.left,
        ada.room.left.reason,
        [line for line in room.story if line in {"join ada", f"leave ada {Reason.LEFT}"}],
        [key.split("/")[0] for key in bench.store.keys],
    )


async def _played(fault: Fault | None, number: int) -> tuple[tuple[Any, ...], int]:
    async with Bench(table()) as bench:
        bench.store.fault = lambda commit: fault if commit == number else None
        return await _scenario(bench), bench.store.commits


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.UNKNOWN_WRITTEN, Fault.UNKNOWN_LOST])
@in_virtual_time
async def test_whichever_commit_fails_the_story_ends_the_same(fault: Fault) -> None:
    expected, commits = await _played(None, 0)

    for number in range(1, commits + 1):
        ended, _ = await _played(fault, number)

        assert ended == expected, number


def test_the_story_is_worth_telling() -> None:
    @in_virtual_time
    async def main() -> None:
        expected, commits = await _played(None, 0)
        assert commits >= 6
        assert expected[0] == ["ada:a", "ada:b", "ada:c", "ada:d"]

    main()


class LateStore(FaultyStore):
    """A commit without an answer is carried out while its outcome is read back, after the first key."""

    is_late = False
    late: Sequence[Batch] = ()

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        if self.is_late and any(len(batch) > 1 for batch in batches):
            self.is_late, self.late = False, batches
            raise Unknown("no answer")
        return await super().commit(batches)

    async def get(self, key: str) -> Entry | None:
        entry = await super().get(key)
        late, self.late = self.late, ()
        if late:
            await super().commit(late)
        return entry


@in_virtual_time
async def test_a_commit_that_is_carried_out_while_it_is_read_back_is_nobody_elses() -> None:
    store = LateStore(MemoryData())
    async with Bench(table()) as bench:
        bench.crash()
        await bench.start(store)
        ada = await bench.sit("ada")
        await a_moment()

        store.is_late = True
        bob = await bench.sit("bob")  # a room and a session in one batch
        await bob.send(Say("1"))
        await ada.has_heard("bob:1")

        assert not store.is_late
        assert bench.server.counters.rooms_fenced == 0
        assert bob.kinds == []


class CutOffStore(FaultyStore):
    """A commit is refused, and what is read back is older than what this server has written."""

    old_reads = 0

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        if self.old_reads and any(write.revision > 1 for batch in batches for write in batch):
            raise Unknown("no answer")
        return await super().commit(batches)

    async def get(self, key: str) -> Entry | None:
        entry = await super().get(key)
        if entry is None or not self.old_reads:
            return entry
        self.old_reads -= 1
        return Entry(key, b"of a server that is cut off", 1)


@in_virtual_time
async def test_an_answer_that_is_older_than_what_was_saved_does_not_mean_that_another_server_has_the_room() -> None:
    store = CutOffStore(MemoryData())
    async with Bench(table()) as bench:
        bench.crash()
        await bench.start(store)
        ada = await bench.sit("ada")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")

        store.old_reads = 5
        await ada.send(Say("2"))
        await ada.has_heard("ada:2")

        assert store.old_reads == 0
        assert bench.server.counters.rooms_fenced == 0
        assert ada.texts == ["ada:1", "ada:2"]
