"""How often the log says the same."""

import asyncio

from holdfast.observability.log_lines import LineLimit
from tests.server.durability.bench import in_virtual_time


@in_virtual_time
async def test_so_many_lines_of_a_kind_in_a_second_and_then_one_that_counts_the_rest() -> None:
    told: list[tuple[float, str, int]] = []
    loop = asyncio.get_running_loop()
    limit = LineLimit(loop, 3, lambda kind, lines: told.append((loop.time(), kind, lines)))
    start = loop.time()

    first = [limit.allow("flood") for _ in range(10)]
    other = limit.allow("calm")
    await asyncio.sleep(1.5)
    again = limit.allow("flood")
    await asyncio.sleep(5.0)

    assert first == [True] * 3 + [False] * 7
    assert other
    assert again
    assert told == [(start + 1.0, "flood", 7)]


@in_virtual_time
async def test_the_end_tells_what_was_left_out_and_leaves_no_timer() -> None:
    told: list[tuple[str, int]] = []
    limit = LineLimit(asyncio.get_running_loop(), 1, lambda kind, lines: told.append((kind, lines)))
    for _ in range(3):
        limit.allow("flood")

    limit.close()
    await asyncio.sleep(5.0)

    assert told == [("flood", 2)]
