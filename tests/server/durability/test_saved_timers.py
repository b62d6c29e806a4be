"""Repeated and named timers survive with their room: on schedule, once each, and under their names."""

import asyncio
from typing import Any

import pytest

from holdfast import Player
from holdfast.server.durability.recovery import Pace
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.faults import Moment
from tests.server.durability.rooms import Do, Hero, Table, table

PERIOD_S = 10.0


class Clockwork(Table):
    """Writes down when it was called. The state is saved, and the story is what really happened."""

    grace_s = 600.0

    def wind(self, player: Player[Hero], name: str = "") -> None:
        self.state.anything = asyncio.get_running_loop().time()
        self.every(PERIOD_S, self.tock, "tock", name=name)

    def arm(self, player: Player[Hero], seconds: float, what: str, name: str = "") -> None:
        self.after(seconds, self.tock, what, name=name)

    def disarm(self, player: Player[Hero], name: str) -> None:
        self.cancel(name)

    def tock(self, what: str) -> None:
        now = round(asyncio.get_running_loop().time() - (self.state.anything or 0.0), 3)
        self.state.said.append(f"{what} {now}")
        self.story.append(f"{what} {now}")


def times(bench: Bench, sitting: Sitting) -> list[float]:
    """When the room was called, in seconds since it was wound."""
    return [float(line.split()[1]) for line in bench.room(sitting).state.said]


async def wound(bench: Bench, *arguments: Any) -> Sitting:
    ada = await bench.sit("ada", "table")
    await ada.send(Do("wind", list(arguments)))
    await ada.room.flush()
    return ada


async def at(bench: Bench, sitting: Sitting, seconds: float) -> None:
    """Wait until this long after the room was wound."""
    await asyncio.sleep(bench.room(sitting).state.anything + seconds - asyncio.get_running_loop().time())


@pytest.mark.parametrize("pace", ["eager", "lazy"])
@in_virtual_time
async def test_a_repeated_call_goes_on_with_its_schedule_and_is_made_once_for_all_that_were_missed(pace: Pace) -> None:
    async with Bench(table(Clockwork), recovery=pace) as bench:
        ada = await wound(bench)
        await at(bench, ada, 34.0)

        bench.crash()
        await asyncio.sleep(22.0)
        await bench.start()
        await ada.back()
        await at(bench, ada, 75.0)

        on_time, (late, *after) = times(bench, ada)[:3], times(bench, ada)[3:]
        assert on_time == [10.0, 20.0, 30.0]
        assert late == pytest.approx(56.0, abs=0.1)
        assert after == pytest.approx([60.0, 70.0], abs=0.001)


@in_virtual_time
async def test_a_repeated_call_that_was_not_missed_is_on_time_after_a_crash() -> None:
    async with Bench(table(Clockwork)) as bench:
        ada = await wound(bench)
        await at(bench, ada, 12.0)

        for _ in range(3):
            await bench.restart()
            await a_moment(1.0)
        await ada.back(3)
        await at(bench, ada, 35.0)

        assert times(bench, ada) == pytest.approx([10.0, 20.0, 30.0], abs=0.001)


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("commit", [1, 2, 3])
@in_virtual_time
async def test_a_call_is_saved_once_wherever_the_server_crashes(moment: Moment, commit: int) -> None:
    async with Bench(table(Clockwork)) as bench:
        ada = await wound(bench)
        await at(bench, ada, 5.0)
        bench.crash_at(bench.store.commits + commit, moment)

        await asyncio.sleep(50.0)
        await until(lambda: bench.server.rooms.get(ada.room.id) is not None)

        # Half a second late, if the server crashed before the call was saved.
        assert times(bench, ada) == pytest.approx([10.0, 20.0, 30.0, 40.0, 50.0], abs=0.7)


@in_virtual_time
async def test_a_checkpoint_room_goes_on_with_the_schedule_of_its_checkpoint() -> None:
    kind = table(Clockwork, durability="checkpoint", checkpoint_s=25.0)
    async with Bench(kind) as bench:
        ada = await wound(bench)
        await at(bench, ada, 62.0)
        saved = b"tock 20" in bench.store.value(f"room/{ada.room.id}")

        bench.crash()
        await asyncio.sleep(15.0)
        await bench.start()
        await ada.back()
        await at(bench, ada, 95.0)

        assert saved
        kept = [each for each in times(bench, ada) if each < 62.0]
        late, *after = times(bench, ada)[len(kept) :]
        assert late == pytest.approx(77.0, abs=0.1)
        assert after == pytest.approx([80.0, 90.0], abs=0.001)


@in_virtual_time
async def test_a_named_timer_has_its_name_and_what_remains_of_it_after_a_crash() -> None:
    async with Bench(table(Clockwork)) as bench:
        ada = await wound(bench, "wave")
        await ada.send(Do("arm", [30.0, "boom", "turn"]), Do("arm", [40.0, "nameless"]))
        await ada.room.flush()
        await at(bench, ada, 14.0)

        await bench.restart()
        room = bench.room(ada)

        left = [room.remaining("turn"), room.remaining("wave"), room.remaining("")]
        assert left == [pytest.approx(16.0, abs=0.2), pytest.approx(6.0, abs=0.2), None]
        assert bench.server.operate.rooms.state(room.id).timers[1].name == "turn"


@in_virtual_time
async def test_a_named_timer_is_replaced_and_cancelled_after_a_crash() -> None:
    kind = table(Clockwork)
    async with Bench(kind) as bench:
        ada = await wound(bench, "wave")
        await ada.send(Do("arm", [5.0, "first", "turn"]), Do("arm", [6.0, "gone", "fuse"]))
        await ada.send(Do("arm", [7.0, "second", "turn"]), Do("disarm", ["fuse"]))
        await ada.room.flush()

        await bench.restart()
        await ada.send(Do("arm", [8.0, "third", "turn"]), Do("disarm", ["wave"]))
        await ada.room.flush()
        await bench.restart()
        await a_moment(60.0)

        assert [line.split()[0] for line in kind.story if not line.endswith("ada")] == ["recover", "recover", "third"]
        assert bench.room(ada).remaining("turn") is None


@in_virtual_time
async def test_a_timer_with_an_argument_that_cannot_be_saved_replaces_nothing() -> None:
    async with Bench(table(Clockwork)) as bench:
        ada = await wound(bench, "wave")
        room = bench.room(ada)

        for call in (room.after, room.every):
            with pytest.raises(TypeError, match="the timer of tock: timers of a durable room are saved, and object"):
                call(5.0, room.tock, object(), name="wave")

        assert room.remaining("wave") == pytest.approx(PERIOD_S, abs=0.1)


@in_virtual_time
async def test_a_repeated_call_of_a_method_that_is_gone_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with Bench(table(Clockwork)) as bench:
        ada = await wound(bench, "wave")
        bench.crash()
        bench.rooms = [table(Table, grace_s=600.0)]

        await bench.start()

        (dropped,) = [record.message for record in caplog.records if "a timer is dropped" in record.message]
        assert "method=tock" in dropped
        assert bench.room(ada).remaining("wave") is None


@in_virtual_time
async def test_a_room_with_more_or_longer_timers_than_a_lowered_limit_allows_keeps_them() -> None:
    kind = table(Clockwork)
    async with Bench(kind) as bench:
        ada = await wound(bench, "a wave that comes again and again")
        await ada.send(Do("arm", [30.0, "boom", "turn"]))
        await ada.room.flush()
        bench.crash()
        limits = bench.limits
        bench.limits = type(limits)(timers_max=1, timer_name_bytes_max=4)

        await bench.start()

        assert len(bench.server.rooms.runner(ada.room.id).timers.pending) == 2
