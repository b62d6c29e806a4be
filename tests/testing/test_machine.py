"""Machines: what is started on one belongs to it, and stops or dies with it."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from holdfast.testing import Crashed, Machine, run


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def plain() -> None:
        run(test())

    return plain


class Diary:
    """Writes down when something happened: in tasks, in timers, in callbacks, and in what those start."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, str]] = []

    def note(self, what: str) -> None:
        self.entries.append((asyncio.get_running_loop().time(), what))

    async def tick(self) -> None:
        asyncio.get_running_loop().call_later(2.5, self.note, "timer")
        asyncio.create_task(self.nested())  # noqa: RUF006 - the machine holds it
        try:
            for _ in range(5):
                await asyncio.sleep(1.0)
                self.note("tick")
        finally:
            self.note("cleaned up")

    async def nested(self) -> None:
        await asyncio.sleep(2.5)
        self.note("nested")

    @property
    def words(self) -> list[str]:
        return [what for _, what in self.entries]


@in_virtual_time
async def test_a_machine_gives_back_what_its_work_returns_or_raises() -> None:
    async def work(answer: int) -> int:
        await asyncio.sleep(1.0)
        return 1 // answer

    machine = Machine()

    assert await machine.do(work(1)) == 1
    with pytest.raises(ZeroDivisionError):
        await machine.do(work(0))


@in_virtual_time
async def test_code_knows_the_machine_that_it_runs_on() -> None:
    async def where() -> Machine | None:
        await asyncio.sleep(1.0)
        return Machine.here()

    machine = Machine()

    assert await machine.do(where()) is machine
    assert await where() is None


@in_virtual_time
async def test_a_function_runs_on_a_machine_and_so_does_what_it_starts() -> None:
    diary, machine = Diary(), Machine()

    def start() -> Machine | None:
        asyncio.get_running_loop().call_later(1.0, diary.note, "timer")
        return Machine.here()

    async def start_from_within() -> Machine | None:
        return machine.result_of(start)

    assert machine.result_of(start) is machine
    assert await machine.do(start_from_within()) is machine
    assert Machine.here() is None
    machine.crash()
    await asyncio.sleep(2.0)
    assert diary.words == []


@in_virtual_time
async def test_a_machine_that_is_paused_or_has_crashed_has_no_result() -> None:
    diary, machine = Diary(), Machine()
    for stop in (machine.pause, machine.crash):
        stop()
        with pytest.raises(RuntimeError, match="paused, or has crashed"):
            machine.result_of(lambda: diary.note("called"))

    assert diary.words == []


@in_virtual_time
async def test_after_a_crash_nothing_more_happens_not_even_cleaning_up() -> None:
    diary, machine = Diary(), Machine()
    work = asyncio.create_task(machine.do(diary.tick()))
    await asyncio.sleep(2.2)

    machine.crash()

    with pytest.raises(Crashed):
        await work
    machine.call(diary.note, "called")
    await asyncio.sleep(60.0)
    assert diary.words == ["tick", "tick"]


@in_virtual_time
async def test_a_paused_machine_does_later_what_it_has_missed_in_its_order() -> None:
    diary, machine = Diary(), Machine()
    work = asyncio.create_task(machine.do(diary.tick()))
    await asyncio.sleep(2.2)

    machine.pause()
    machine.call(diary.note, "called")
    await asyncio.sleep(10.0)
    assert diary.words == ["tick", "tick"]
    machine.wake()
    await work

    assert diary.words == ["tick", "tick", "called", "timer", "nested", "tick", "tick", "tick", "cleaned up"]
    assert [at for at, what in diary.entries if what == "tick"][2] == pytest.approx(12.2)


@in_virtual_time
async def test_what_is_cancelled_before_a_pause_ends_does_not_happen() -> None:
    diary, machine = Diary(), Machine()

    async def work() -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(2.0, diary.note, "too late")
        loop.call_later(1.0, timer.cancel)

    await machine.do(work())
    machine.pause()
    await asyncio.sleep(5.0)
    machine.wake()
    await asyncio.sleep(5.0)

    assert diary.words == []


@in_virtual_time
async def test_other_machines_go_on() -> None:
    diary, machine = Diary(), Machine()
    other = Machine()
    work = asyncio.create_task(other.do(diary.tick()))
    machine.crash()

    await work

    assert diary.words.count("tick") == 5


@in_virtual_time
async def test_work_that_is_given_up_is_cancelled_on_its_machine() -> None:
    diary, machine = Diary(), Machine()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await machine.do(diary.tick())

    assert diary.words == ["tick", "cleaned up"]


async def test_a_machine_cannot_be_stopped_in_real_time() -> None:
    machine = Machine()

    with pytest.raises(RuntimeError, match="virtual time"):
        machine.crash()
    with pytest.raises(RuntimeError, match="virtual time"):
        machine.pause()
