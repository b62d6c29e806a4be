import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.testing import Deadlock, Livelock, VirtualLoop, run


def test_a_day_passes_at_once_and_to_the_second() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400.0)
        return asyncio.get_running_loop().time()

    began = time.monotonic()

    assert run(main()) == 86_400.0
    assert time.monotonic() - began < 60.0


def test_timers_fire_in_their_order_and_at_their_time() -> None:
    async def main() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        fired: list[tuple[float, str]] = []

        def fire(name: str) -> None:
            fired.append((loop.time(), name))

        for delay, name in ((3.0, "late"), (1.0, "early"), (2.0, "between")):
            loop.call_later(delay, fire, name)
        await asyncio.sleep(5.0)
        return fired

    assert run(main()) == [(1.0, "early"), (2.0, "between"), (3.0, "late")]


def test_a_timeout_is_virtual_too() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100.0):
                await asyncio.sleep(1_000.0)
        return asyncio.get_running_loop().time()

    assert run(main()) == 100.0


def test_waiting_for_what_can_never_happen_fails_and_names_who_waits() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(never(), name="the one who waits")

    with pytest.raises(Deadlock, match=r"no timer is set at 0 s; .*the one who waits waits at .*test_clock\.py:\d+"):
        run(main())


def test_going_round_without_time_passing_fails() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 - a program that is wrong
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        run(main())


def test_what_the_program_raises_is_raised() -> None:
    async def main() -> None:
        raise LookupError("of the program")

    with pytest.raises(LookupError, match="of the program"):
        run(main())


def test_tasks_that_are_left_are_cancelled() -> None:
    ends: list[str] = []

    async def left() -> None:
        try:
            await asyncio.sleep(1_000.0)
        finally:
            ends.append("cancelled")

    async def main() -> None:
        task = asyncio.create_task(left())
        await asyncio.sleep(1.0)
        assert not task.done()

    run(main())

    assert ends == ["cancelled"]


@pytest.mark.parametrize(
    ("wish", "word"),
    [
        (lambda: asyncio.to_thread(time.monotonic), "threads"),
        (lambda: asyncio.open_connection("127.0.0.1", 9), "sockets"),
        (lambda: asyncio.start_server(lambda *_: None, "127.0.0.1", 0), "sockets"),
    ],
    ids=["a thread", "a connection", "a server"],
)
def test_the_real_world_is_refused_with_a_word_on_what_to_do(
    wish: Callable[[], Coroutine[Any, Any, Any]], word: str
) -> None:
    async def main() -> None:
        await wish()

    with pytest.raises(RuntimeError, match=f"no {word} in virtual time: "):
        run(main())


def test_a_seed_repeats_pythons_own_random_and_leaves_it_as_it_was() -> None:
    async def main() -> float:
        return random.random()

    before = random.getstate()

    assert run(main(), seed=7) == run(main(), seed=7)
    assert run(main(), seed=7) != run(main(), seed=8)
    assert random.getstate() == before


def test_two_loops_have_two_clocks() -> None:
    first, second = VirtualLoop(), VirtualLoop()

    first.run_until_complete(asyncio.sleep(5.0))

    assert (first.time(), second.time()) == (5.0, 0.0)
    first.close()
    second.close()
