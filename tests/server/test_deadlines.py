import asyncio

from holdfast.server.context import Clock, Deadlines
from tests.server.durability.bench import in_virtual_time


class Alarm:
    """Deadlines that are valid while `due` has them; each that is reached is recorded with its time."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.began_at = loop.time()
        self.due: dict[str, float] = {}
        self.reached: list[tuple[str, float]] = []
        self.deadlines = Deadlines(Clock(loop, loop.time, loop.time), self.is_valid, self.ring)

    def is_valid(self, at: float, key: str) -> bool:
        return self.due.get(key) == at

    def ring(self, key: str) -> None:
        del self.due[key]
        self.reached.append((key, round(self.now() - self.began_at, 3)))
        if key == "bad":
            raise RuntimeError("a bug")

    def set(self, key: str, after_s: float) -> None:
        at = self.due[key] = self.now() + after_s
        self.deadlines.add(at, key)


@in_virtual_time
async def test_each_deadline_is_reached_at_its_time_whatever_their_order() -> None:
    alarm = Alarm()
    for key, after_s in {"c": 3.0, "a": 1.0, "b": 2.0}.items():
        alarm.set(key, after_s)

    await asyncio.sleep(5.0)

    assert alarm.reached == [("a", 1.0), ("b", 2.0), ("c", 3.0)]


@in_virtual_time
async def test_a_deadline_that_moved_is_reached_once_at_its_last_time() -> None:
    alarm = Alarm()
    alarm.set("a", 1.0)
    alarm.set("b", 2.0)
    alarm.set("a", 3.0)
    del alarm.due["b"]

    await asyncio.sleep(5.0)

    assert alarm.reached == [("a", 3.0)]


@in_virtual_time
async def test_outdated_deadlines_do_not_accumulate() -> None:
    alarm = Alarm()
    for number in range(50_000):
        alarm.set(f"player {number % 100}", 3600.0 + number)

    assert len(alarm.deadlines) < 3_000


@in_virtual_time
async def test_a_bug_in_one_does_not_stop_the_others() -> None:
    alarm = Alarm()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    alarm.set("bad", 1.0)
    alarm.set("good", 1.0)
    alarm.set("late", 2.0)

    await asyncio.sleep(5.0)

    assert alarm.reached == [("bad", 1.0), ("good", 1.0), ("late", 2.0)]


@in_virtual_time
async def test_stopped_deadlines_are_not_reached() -> None:
    alarm = Alarm()
    alarm.set("a", 1.0)

    alarm.deadlines.stop()
    await asyncio.sleep(5.0)

    assert alarm.reached == []
