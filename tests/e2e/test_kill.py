"""Clients that are killed, and networks that go away for a while."""

import asyncio
from asyncio.subprocess import Process
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.cli.demo.proxy import Proxy
from tests.deadlines import TEST_S
from tests.e2e import counting
from tests.e2e.counter import Counter
from tests.e2e.counting import Down, Report
from tests.e2e.diarist import Diary
from tests.e2e.serving import end_of, read_until, serving
from tests.forking import forked

MESSAGES = 100
KILLS_IN_PLAY = 6
# Also while a process starts, connects or resumes.
KILLS_ANYTIME = 4


def life(address: tuple[str, int], folder: Path, flavour: str) -> AbstractAsyncContextManager[Process]:
    """A player's process, from its start to its SIGKILL at the end of the block."""
    url = f"ws://{address[0]}:{address[1]}"
    return forked("-m", "tests.e2e.diarist", url, str(folder), str(MESSAGES), flavour)


@pytest.mark.parametrize("flavour", ["async", "blocking"])
async def test_a_killed_process_is_continued_by_another_with_nothing_lost_or_doubled(
    flavour: str, tmp_path: Path
) -> None:
    random = Random(1)

    async with asyncio.timeout(TEST_S), serving(Path(counting.__file__)) as address:
        for _ in range(KILLS_IN_PLAY):
            async with life(address, tmp_path, flavour) as process:
                await read_until(process, "playing")
                await asyncio.sleep(random.uniform(0.0, 0.3))
        for _ in range(KILLS_ANYTIME):
            async with life(address, tmp_path, flavour):
                await asyncio.sleep(random.uniform(0.0, 0.4))
        async with life(address, tmp_path, flavour) as process:
            last_life = await end_of(process)

    diary = Diary.read(tmp_path / "diary")
    assert (last_life.exit_code, last_life.stderr) == (0, "")
    assert diary.numbers == list(range(1, MESSAGES + 1))
    assert diary.strange == []
    assert diary.report is not None
    assert (diary.report.received, diary.report.wrong) == (MESSAGES, [])
    assert KILLS_IN_PLAY <= diary.report.drops <= KILLS_IN_PLAY + KILLS_ANYTIME


async def test_a_network_that_goes_away_and_returns_loses_nothing() -> None:
    counter = Counter(messages=60)

    async def pull_the_plug(proxy: Proxy) -> None:
        await counter.has_heard(15)
        proxy.pull()
        await proxy.has_refused(3)
        proxy.plug()
        await counter.has_heard(counter.numbers[-1] + 1)

    async with (
        asyncio.timeout(TEST_S),
        serving(Path(counting.__file__)) as address,
        Proxy(*address, random=Random(1)) as proxy,
    ):
        host, port = proxy.address
        async with holdfast.connect(f"ws://{host}:{port}", messages=[Down, Report]) as session:
            room = await session.join_or_create("counting")
            await counter.play(room, pull_the_plug(proxy))

    counter.check()
    assert counter.report is not None
    assert (counter.report.drops, counter.report.rejoins) == (1, 1)
