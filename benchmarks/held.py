"""What a held session costs: a player has lost the connection, and the seat waits for them.

    python benchmarks/held.py --sessions 1000

The server runs here, its clients in another process. Each joins a hall, sends a message, reads the answer and goes
away. After a first half, which allocates what is allocated once, the growth of the server's memory over the second half
is divided by its sessions. Counted is what Python's allocator hands out, not what the operating system sees. Logs of a
fixed size (`events_kept_max`) are kept short, because they do not grow with the sessions.
"""

import argparse
import asyncio
import gc
import tracemalloc
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import holdfast
from holdfast import Limits, Message, Player, PlayerData, Room, on

SEATS = 50
AT_ONCE = 50
HELLO_S = 3.0


class Count(Message):
    """A number, and its answer."""

    number: int


class Tally(PlayerData):
    """What the room has of one player."""

    last: int = 0


class Hall(Room[Tally]):
    """Answers each number."""

    max_players = SEATS
    grace_s = 3600.0

    @on(Count)
    def counted(self, player: Player[Tally], message: Count) -> None:
        """Answer."""
        player.data.last = message.number
        player.send(message)


class SavedHall(Hall):
    """The same, saved with every turn."""

    durability = "commit"


def run_clients(pipe: Connection, url: str, kind: str) -> None:
    """Join and go away, as many times as the pipe says, until it says 0."""

    async def visit() -> None:
        async with asyncio.timeout(120):
            session = await holdfast.connect(url, messages=[Count])
            room = await session.join_or_create(kind)
            await room.send(Count(1))
            await room.receive()
            # Let the acknowledgement of the answer leave.
            await asyncio.sleep(1.5)
            await session.suspend()

    async def visit_all(count: int) -> None:
        for begin in range(0, count, AT_ONCE):
            await asyncio.gather(*(visit() for _ in range(min(AT_ONCE, count - begin))))

    while count := pipe.recv():
        asyncio.run(visit_all(count))
        pipe.send(count)


async def measured(kind: type[Hall], sessions: int, *, store: Path | None = None, lines: int = 0) -> float:
    """The bytes per held session; the lines of code that allocate most are printed."""
    server = holdfast.Server(
        [kind],
        listen=[holdfast.Tcp(port=0)],
        limits=replace(Limits(), hello_s=HELLO_S, events_kept_max=1, full_share=("127.0.0.1",)),
        store=f"sqlite:{store}" if store is not None else None,
    )
    await server.start()
    host, port = server.addresses["tcp"]
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=run_clients, args=(there, f"tcp://{host}:{port}", kind.kind))
    process.start()
    loop = asyncio.get_running_loop()
    halves: list[tracemalloc.Snapshot] = []
    held = [0]
    for _ in range(2):
        here.send(sessions)
        await loop.run_in_executor(None, here.recv)
        # The timers of their connections are over.
        await asyncio.sleep(HELLO_S + 3)
        gc.collect()
        held.append(len(server.sessions))
        halves.append(tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)]))
    here.send(0)
    process.join()
    await server.stop()
    sessions = held[2] - held[1]
    differences = halves[1].compare_to(halves[0], "lineno")
    for line in differences[:lines]:
        print(f"{line.size_diff / sessions:8.1f} bytes in {line.count_diff / sessions:5.2f} blocks  {line.traceback}")
    return sum(line.size_diff for line in differences) / sessions


def main() -> None:
    """Measure both kinds of rooms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000, help="in each half")
    parser.add_argument("--lines", type=int, default=0, help="show so many lines of code that allocate")
    options = parser.parse_args()
    tracemalloc.start()
    size = asyncio.run(measured(Hall, options.sessions, lines=options.lines))
    print(f"memory {size / 1024:5.2f} KiB a session")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "halls.db"
        size = asyncio.run(measured(SavedHall, options.sessions, store=file, lines=options.lines))
        print(f"commit {size / 1024:5.2f} KiB a session")


if __name__ == "__main__":
    main()
