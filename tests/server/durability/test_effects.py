"""What a room wants done outside: after the commit and not before, until it is done, under one key (R10)."""

import asyncio
from itertools import pairwise

import pytest

from holdfast import Limits, Player
from holdfast.core.messages import MessageRefused
from holdfast.server.rooms.outbox import Effect
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.faults import Fault, Moment
from tests.server.durability.rooms import Do, Hero, Say, Table, table


class Bank:
    """Carries out payments; fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.calls: list[Effect] = []
        self.times: list[float] = []
        self.failures = failures
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def pay(self, effect: Effect) -> None:
        self.calls.append(effect)
        self.times.append(asyncio.get_running_loop().time())
        await self.is_open.wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the bank is closed")

    @property
    def keys(self) -> list[str]:
        return [call.key for call in self.calls]


@in_virtual_time
async def test_an_effect_is_saved_with_the_turn_and_carried_out_after_the_commit() -> None:
    bank = Bank()
    async with Bench(table(), effects={"pay": bank.pay}) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()
        await ada.send(Do("pay", [5]))
        await a_moment(1.0)
        early = list(bank.calls)
        start = len(bench.store.written)

        bank.is_open.clear()
        bench.store.release()
        await until(lambda: bank.calls)
        batch = bench.store.written[start][0]
        bank.is_open.set()
        await until(lambda: not bench.store.keys_of("effect/"))

        assert early == []
        assert {write.key.split("/")[0] for write in batch} == {"room", "effect"}
        assert [(call.name, call.payload, call.room_id, call.attempt) for call in bank.calls] == [
            ("pay", {"amount": 5}, ada.room.id, 1)
        ]
        assert bank.keys == [next(write.key for write in batch if write.key.startswith("effect/"))]


@in_virtual_time
async def test_an_effect_is_tried_again_with_growing_pauses_under_the_same_key() -> None:
    bank = Bank(failures=6)
    async with Bench(table(), effects={"pay": bank.pay}) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("pay", [1]), Do("pay", [2]))
        await until(lambda: bank.failures == 0)
        await until(lambda: not bench.store.keys_of("effect/"))

        assert len(set(bank.keys)) == 2
        first = [index for index, call in enumerate(bank.calls) if call.key == bank.keys[0]]
        pauses = [bank.times[b] - bank.times[a] for a, b in pairwise(first)]
        assert [bank.calls[index].attempt for index in first] == list(range(1, len(first) + 1))
        assert pauses == sorted(pauses)
        assert bench.server.counters.effects_done == 2
        assert bench.server.counters.effects_failed == 6


@in_virtual_time
async def test_an_effect_that_was_not_done_before_a_crash_is_done_after_it_under_the_same_key() -> None:
    bank = Bank(failures=1)
    async with Bench(table(), effects={"pay": bank.pay}) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("pay", [1]))
        await until(lambda: bank.calls)

        await bench.restart()
        await until(lambda: not bench.store.keys_of("effect/"))

        assert len(bank.calls) == 2
        assert len(set(bank.keys)) == 1


@pytest.mark.parametrize(("moment", "calls"), [(Moment.BEFORE, 2), (Moment.WRITTEN, 1)])
@in_virtual_time
async def test_an_effect_is_repeated_only_if_its_end_was_not_saved(moment: Moment, calls: int) -> None:
    bank = Bank()
    async with Bench(table(), effects={"pay": bank.pay}) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.crash_at(bench.store.commits + 2, moment)

        await ada.send(Do("pay", [1]))
        await ada.back()
        await a_moment(5.0)

        assert len(bank.calls) == calls
        assert len(set(bank.keys)) == 1
        assert bench.store.keys_of("effect/") == []


@in_virtual_time
async def test_an_effect_of_a_turn_that_was_lost_is_wanted_again_and_done_once() -> None:
    bank = Bank()
    async with Bench(table(), effects={"pay": bank.pay}) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.crash_at(bench.store.commits + 1, Moment.BEFORE)

        await ada.send(Do("pay", [1]))
        await ada.back()
        await a_moment(5.0)

        assert len(bank.calls) == 1


class Careless(Table):
    def odd(self, player: Player[Hero]) -> None:
        self.effect("nothing of the kind")

    def unsavable(self, player: Player[Hero]) -> None:
        self.effect("pay", object())

    def pay_many(self, player: Player[Hero], count: int) -> None:
        for _ in range(count):
            self.effect("pay", None)

    def pay_and_close(self, player: Player[Hero]) -> None:
        self.effect("pay", "last")
        self.close()


@pytest.mark.parametrize("durability", ["memory", "commit"])
@in_virtual_time
async def test_an_unknown_effect_or_one_that_cannot_be_saved_is_an_error_in_the_turn(durability: str) -> None:
    bank = Bank()
    async with Bench(table(Careless, durability=durability), effects={"pay": bank.pay}) as bench:
        ada = await bench.sit("ada")

        await ada.send(Do("odd"), Do("unsavable"), Say("on"))
        await ada.has_heard("ada:on")

        assert [message.code for message in ada.heard if isinstance(message, MessageRefused)] == ["failed", "failed"]
        assert bank.calls == []


@in_virtual_time
async def test_a_memory_room_has_its_effects_carried_out_too() -> None:
    bank = Bank(failures=1)
    async with Bench(table(durability="memory"), effects={"pay": bank.pay}) as bench:
        ada = await bench.sit("ada")

        await ada.send(Do("pay", [3]))
        await until(lambda: len(bank.calls) == 2)
        await a_moment(5.0)

        assert len(set(bank.keys)) == 1
        assert bench.store.written_keys() == []


@pytest.mark.parametrize("durability", ["memory", "commit"])
@in_virtual_time
async def test_more_effects_than_may_wait_are_refused(durability: str) -> None:
    bank = Bank()
    bank.is_open.clear()
    limits = Limits(effects_max=3)
    kind = table(Careless, durability=durability)
    async with Bench(kind, effects={"pay": bank.pay}, limits=limits) as bench:
        ada = await bench.sit("ada")

        for _ in range(5):
            await ada.send(Do("pay", [1]))
            await a_moment()
        refused = [message.code for message in ada.heard if isinstance(message, MessageRefused)]
        bank.is_open.set()
        await a_moment()
        await ada.send(Do("pay", [1]))
        await a_moment()

        assert refused == ["throttled", "throttled"]
        assert len(bank.calls) == 4


@in_virtual_time
async def test_one_turn_cannot_want_more_than_may_wait() -> None:
    bank = Bank()
    async with Bench(table(Careless), effects={"pay": bank.pay}, limits=Limits(effects_max=3)) as bench:
        ada = await bench.sit("ada")

        await ada.send(Do("pay_many", [10]))
        await a_moment(5.0)

        assert [message.code for message in ada.heard if isinstance(message, MessageRefused)] == ["throttled"]
        assert len(bank.calls) <= 3


@in_virtual_time
async def test_the_last_effect_of_a_room_is_carried_out() -> None:
    bank = Bank()
    async with Bench(table(Careless), effects={"pay": bank.pay}) as bench:
        ada = await bench.sit("ada")

        await ada.send(Do("pay_and_close"))
        await until(lambda: bank.calls)
        await a_moment()

        assert bank.calls[0].payload == "last"
        assert bench.store.keys_of("room/") == bench.store.keys_of("effect/") == []


@in_virtual_time
async def test_an_effect_that_is_saved_during_a_stop_is_left_to_the_next_start() -> None:
    bank = Bank()
    async with Bench(table(), effects={"pay": bank.pay}) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.latency_s = 0.2
        bank.is_open.clear()
        await ada.send(Do("pay", [1]))
        await a_moment(0.05)

        await bench.stop()
        left = bench.tasks
        bank.is_open.set()
        await a_moment()
        await bench.start()
        await until(lambda: not bench.store.keys_of("effect/"))

        assert left == []
        assert len(set(bank.keys)) == 1


@in_virtual_time
async def test_striking_off_an_effect_is_tried_until_the_store_takes_it() -> None:
    bank = Bank()
    async with Bench(table(), effects={"pay": bank.pay}) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        number = bench.store.commits
        bench.store.fault = lambda commit: Fault.UNAVAILABLE if number + 2 <= commit <= number + 4 else None

        await ada.send(Do("pay", [1]))
        await until(lambda: bank.calls and not bench.store.keys_of("effect/"))

        assert len(bank.calls) == 1
