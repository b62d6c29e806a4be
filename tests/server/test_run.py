import asyncio
import gc
from pathlib import Path

import holdfast
from holdfast import PlayerData, Room, Server, WebSocket
from tests.e2e.serving import end_of, python_process


class Hall(Room[PlayerData]):
    pass


GAME = """
import gc, os, signal
import holdfast
from holdfast import PlayerData, Room, Server, WebSocket

class Hall(Room[PlayerData]):
    pass

def ready(server):
    print(gc.get_freeze_count() > 10_000)
    os.kill(os.getpid(), signal.SIGINT)

holdfast.run(Server([Hall], listen=[WebSocket(port=0)]), ready=ready)
print(gc.get_freeze_count())
"""


async def test_what_was_there_before_the_listeners_opened_is_spared_by_the_garbage_collector() -> None:
    async with python_process("-c", GAME) as process:
        result = await end_of(process)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.split() == ["True", "0"]


def test_a_server_of_its_own_leaves_the_garbage_collector_alone() -> None:
    before = (gc.get_threshold(), gc.get_freeze_count())

    async def play() -> tuple[tuple[int, int, int], int]:
        async with Server([Hall], listen=[WebSocket(port=0)]):
            return gc.get_threshold(), gc.get_freeze_count()

    assert asyncio.run(play()) == before


async def test_one_call_tunes_the_garbage_collector_and_what_it_returns_puts_it_back() -> None:
    before = gc.get_threshold()

    put_back = holdfast.tune_gc()
    tuned = (gc.get_threshold(), gc.get_freeze_count() > 1000)
    put_back()

    assert tuned == ((1_000, 5, 2), True)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


RELOADED = """
import asyncio, os, signal
import holdfast
from holdfast import PlayerData, Room, Server, WebSocket

class Hall(Room[PlayerData]):
    pass

def ready(server):
    os.kill(os.getpid(), signal.SIGHUP)
    asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGINT)

holdfast.run(Server([Hall], listen=[WebSocket(port=0)]), ready=ready)
print("stopped by SIGINT")
"""


async def test_sighup_does_not_end_a_server_without_a_certificate() -> None:
    async with python_process("-c", RELOADED) as process:
        result = await end_of(process)

    assert (result.exit_code, result.stdout.strip()) == (0, "stopped by SIGINT")


async def test_a_server_that_is_starting_is_not_started_a_second_time(tmp_path: Path) -> None:
    server = Server([Hall], listen=[WebSocket(port=0)], store=f"sqlite:{tmp_path / 'game.db'}")

    first, second = await asyncio.gather(server.start(), server.start(), return_exceptions=True)

    assert first is None
    assert isinstance(second, RuntimeError)
    assert "already running" in str(second)
    await server.create_room("hall")
    await server.stop()
    await server.start()
    await server.stop()
