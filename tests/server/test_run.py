from tests.e2e.serving import end_of, python_process

GAME = """
import gc, os, signal
import holdfast
from holdfast import PlayerData, Room, Server

class Hall(Room[PlayerData]):
    pass

def ready(server):
    print(gc.get_freeze_count() > 10_000)
    os.kill(os.getpid(), signal.SIGINT)

holdfast.run(Server([Hall], port=0, tcp_port=None), ready=ready)
print(gc.get_freeze_count())
"""


async def test_what_was_there_before_the_doors_opened_is_spared_by_the_garbage_collector() -> None:
    async with python_process("-c", GAME) as process:
        result = await end_of(process)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.split() == ["True", "0"]
