"""50 clients and a server in another process count at each other while the links between them are cut 500 times.

`HOLDFAST_E2E_MESSAGES` is how many messages each client sends and receives (default 200, which makes 10,000 each way):

    HOLDFAST_E2E_MESSAGES=10000 python -m pytest tests/e2e/test_cut_links.py -o faulthandler_timeout=0
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random

import holdfast
from holdfast import ClientRoom, Message
from holdfast.cli.demo.proxy import Cut, Proxy
from tests.e2e import counting
from tests.e2e.counting import PULSES_HZ, Ask, Begin, Down, Report, Up
from tests.e2e.serving import serving

CLIENTS = 50
CUTS_PER_CLIENT = 10
MESSAGES = int(os.environ.get("HOLDFAST_E2E_MESSAGES", "200"))
# Few enough that the longest time away fits into what a room keeps for a player.
PER_PULSE = max(1, MESSAGES // 1000)
# Many times what it takes; a hang ends here.
DEADLINE_S = 100.0 + MESSAGES / 20


@dataclass
class Player:
    """One client: what it received, and what its link went through."""

    numbers: list[int] = field(default_factory=list)
    strange: list[Message] = field(default_factory=list)
    report: Report | None = None
    cuts: int = 0
    cuts_in_traffic: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def play(self, address: tuple[str, int], random: Random) -> None:
        async with Proxy(*address, random=random, silent_s=0.2) as proxy:
            host, port = proxy.address
            async with holdfast.connect(f"ws://{host}:{port}", messages=[Down, Report]) as session:
                room = await session.join_or_create("counting")
                await room.send(Begin(MESSAGES, PER_PULSE))
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.listen(room))
                    tasks.create_task(self.cut(proxy, random))
                    await self.count(room)
                    await self.until(lambda: len(self.numbers) >= MESSAGES)
                    await room.send(Ask())
            self.cuts = proxy.cuts

    async def count(self, room: ClientRoom) -> None:
        for number in range(1, MESSAGES + 1):
            await room.send(Up(number))
            if number % PER_PULSE == 0:
                await asyncio.sleep(1 / PULSES_HZ)

    async def listen(self, room: ClientRoom) -> None:
        async for message in room:
            match message:
                case Down():
                    self.numbers.append(message.number)
                case Report():
                    self.report = message
                    return
                case _:
                    self.strange.append(message)
            self.changed.set()

    async def cut(self, proxy: Proxy, random: Random) -> None:
        """Cut in every manner, evenly over all that there is to receive."""
        manners = cycle(random.sample(list(Cut), len(Cut)))
        for cut, manner in zip(range(CUTS_PER_CLIENT), manners, strict=False):
            begin = (cut + random.random()) / CUTS_PER_CLIENT * MESSAGES
            await self.until(lambda begin=begin: len(self.numbers) >= min(begin, MESSAGES - 1))
            await proxy.cut(manner)
            self.cuts_in_traffic += len(self.numbers) < MESSAGES

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.changed.clear()
            await self.changed.wait()


async def test_links_that_are_cut_lose_double_and_reorder_nothing() -> None:
    players = [Player() for _ in range(CLIENTS)]

    async with asyncio.timeout(DEADLINE_S), serving(Path(counting.__file__)) as address:
        async with asyncio.TaskGroup() as tasks:
            for seed, player in enumerate(players):
                tasks.create_task(player.play(address, Random(seed)))

    expected = list(range(1, MESSAGES + 1))
    for player in players:
        assert player.numbers == expected
        assert player.strange == []
        assert player.report is not None
        assert (player.report.received, player.report.wrong) == (MESSAGES, [])
    assert sum(player.cuts for player in players) == CLIENTS * CUTS_PER_CLIENT
    assert sum(player.cuts_in_traffic for player in players) == CLIENTS * CUTS_PER_CLIENT
    assert sum(player.report.drops for player in players if player.report) == CLIENTS * CUTS_PER_CLIENT
