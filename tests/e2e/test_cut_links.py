"""50 clients and a server in another process count at each other, 10,000 numbers each way, and 500 links are cut.

`HOLDFAST_E2E_MESSAGES` is how many numbers each client sends and receives; by default 200. For the long run:

    HOLDFAST_E2E_MESSAGES=10000 python -m pytest tests/e2e/test_cut_links.py -o faulthandler_timeout=0
"""

import asyncio
import os
from itertools import cycle, islice
from pathlib import Path
from random import Random

import holdfast
from holdfast import ClientSession
from holdfast.cli.demo.proxy import Cut, Proxy
from tests.deadlines import TEST_S
from tests.e2e import counting
from tests.e2e.counter import Counter
from tests.e2e.counting import Down, Report
from tests.e2e.serving import serving

CLIENTS = 50
CUTS_PER_CLIENT = 10
MESSAGES = int(os.environ.get("HOLDFAST_E2E_MESSAGES", "200"))
# So few that the longest time away fits into what a room keeps for a player.
PER_PULSE = max(1, MESSAGES // 1000)


async def play(counter: Counter, address: tuple[str, int], random: Random) -> int:
    """Count through a proxy; how many links it cut."""
    async with Proxy(*address, random=random, silent_s=0.2) as proxy:
        host, port = proxy.address
        async with holdfast.connect(f"ws://{host}:{port}", messages=[Down, Report]) as session:
            room = await session.join_or_create("counting")
            await counter.play(room, cut_links(counter, session, proxy, random))
    return proxy.cuts


async def cut_links(counter: Counter, session: ClientSession, proxy: Proxy, random: Random) -> None:
    """Cut in every manner, spread over all that there is to hear, each time a connection that was welcomed."""
    resumed = asyncio.Event()
    session.on_resume(lambda _: resumed.set())
    for cut, manner in enumerate(islice(cycle(random.sample(list(Cut), len(Cut))), CUTS_PER_CLIENT)):
        await counter.has_heard((cut + random.random()) / CUTS_PER_CLIENT * counter.trouble_ends)
        resumed.clear()
        await proxy.cut(manner)
        await resumed.wait()


async def test_links_that_are_cut_lose_double_and_reorder_nothing() -> None:
    counters = [Counter(MESSAGES, PER_PULSE) for _ in range(CLIENTS)]

    async with (
        asyncio.timeout(TEST_S + MESSAGES / 20),
        serving(Path(counting.__file__)) as address,
        asyncio.TaskGroup() as tasks,
    ):
        playing = [tasks.create_task(play(counter, address, Random(seed))) for seed, counter in enumerate(counters)]

    for counter in counters:
        counter.check()
        assert counter.report is not None
        assert (counter.report.drops, counter.report.rejoins) == (CUTS_PER_CLIENT, CUTS_PER_CLIENT)
    assert sum(task.result() for task in playing) == CLIENTS * CUTS_PER_CLIENT
