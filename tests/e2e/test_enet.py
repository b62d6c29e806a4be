"""A session over ENet, a real file, a real SIGKILL and a Ctrl-C: what was acknowledged is there, once."""

import asyncio
import re
import signal
from asyncio.subprocess import Process
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import holdfast
from holdfast import Message, SessionEnded
from tests.e2e.serving import ANY_PORTS, end_of, holdfast_process, read_until

GAME = """
from holdfast import Message, PlayerData, Room, on

class Count(Message):
    number: int

class Counted(Message):
    numbers: list[int]

class Hero(PlayerData):
    numbers: list[int] = []

class Hall(Room[Hero]):
    durability = "commit"
    grace_s = 600.0

    @on(Count)
    def counted(self, player, count):
        player.data.numbers.append(count.number)
        player.send(Counted(player.data.numbers))
"""


class Count(Message):
    number: int


class Counted(Message):
    numbers: list[int]


def a_node(folder: Path, port: str) -> AbstractAsyncContextManager[Process]:
    (folder / "game.py").write_text(GAME)
    options = ("--store", "sqlite:game.db", "--enet-port", port)
    return holdfast_process("serve", "game.py", *ANY_PORTS, *options, cwd=folder)


async def test_a_killed_server_is_continued_over_enet_and_a_stopped_one_says_so(tmp_path: Path) -> None:
    async with a_node(tmp_path, "0") as process:
        found = re.search(r"enet://[\d.]+:(\d+)", await read_until(process, "Press Ctrl-C to stop"))
        assert found is not None
        session = await holdfast.connect(found[0], messages=[Counted])
        room = await session.join_or_create("hall")
        for number in range(50):
            await room.send(Count(number))
        first = await room.receive(Counted)
        assert first.numbers == [0]
        await end_of(process, by=signal.SIGKILL)
        for number in range(50, 100):
            await room.send(Count(number))

    async with a_node(tmp_path, found[1]) as process:
        await read_until(process, "Press Ctrl-C to stop")
        heard = [await room.receive(Counted) for _ in range(99)]
        assert heard[-1].numbers == list(range(100))
        assert [len(each.numbers) for each in heard] == list(range(2, 101))
        assert session.transport == "enet"

        stopping: asyncio.Queue[float] = asyncio.Queue()
        session.on_stopping(stopping.put_nowait)
        result = await end_of(process, by=signal.SIGINT)
        assert result.exit_code == 0
        assert not re.search("ERROR|Traceback", result.stderr), result.stderr
    assert not session.connected
    with suppress(SessionEnded):
        await session.close()
