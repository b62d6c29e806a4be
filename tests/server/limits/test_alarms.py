import asyncio

from holdfast.schemas.events import LimitExceeded
from holdfast.server.context import Alarms
from tests.server.durability.bench import in_virtual_time


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[float, str, str, int]] = []
        self.alarms = Alarms(asyncio.get_running_loop(), self.hear)

    def hear(self, event: LimitExceeded) -> None:
        at = asyncio.get_running_loop().time()
        self.heard.append((round(at, 3), event.limit, event.session or event.player or event.address, event.times))


@in_virtual_time
async def test_the_first_is_told_at_once_and_those_that_follow_together() -> None:
    ear = Ear()
    began_at = asyncio.get_running_loop().time()

    for _ in range(25):
        ear.alarms.report("messages_per_s", "warned", session="s")
        await asyncio.sleep(0.1)
    await asyncio.sleep(5.0)

    assert sum(times for _, _, _, times in ear.heard) == 25
    assert [round(at - began_at) for at, _, _, _ in ear.heard] == [0, 1, 2, 3]


@in_virtual_time
async def test_each_limit_and_each_of_those_it_concerns_is_told_of() -> None:
    ear = Ear()

    for who in ("a", "b"):
        for limit in ("one", "two"):
            ear.alarms.report(limit, "refused", address=who)

    assert [(limit, who) for _, limit, who, _ in ear.heard] == [("one", "a"), ("two", "a"), ("one", "b"), ("two", "b")]


@in_virtual_time
async def test_what_is_left_is_told_at_the_end() -> None:
    ear = Ear()
    for _ in range(3):
        ear.alarms.report("one", "refused", player="p")

    ear.alarms.close()
    await asyncio.sleep(5.0)

    assert [times for _, _, _, times in ear.heard] == [1, 2]


@in_virtual_time
async def test_one_that_happens_once_is_told_once() -> None:
    ear = Ear()
    ear.alarms.report("one", "refused")

    await asyncio.sleep(10.0)
    ear.alarms.close()

    assert len(ear.heard) == 1
