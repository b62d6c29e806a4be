"""How long until the doors are open again? A server with so many durable rooms in its store starts, eager and lazy.

python -m benchmarks.recovery [--rooms 10000] [--rounds 3]
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from rich.console import Console

import holdfast
from holdfast import PlayerData, Room
from holdfast.server.durability.recovery import Pace

LIMITS = holdfast.Limits(rooms_max=1_000_000)


class Tally(msgspec.Struct):
    """What a room remembers."""

    said: int = 0


class Durable(Room[PlayerData]):
    """A room with a state, a timer and an object."""

    durability = "commit"
    state: Tally

    def on_create(self, config: dict[str, Any]) -> None:
        """Something of everything."""
        self.state = Tally()
        self.own(None, "flag")
        self.after(3600, self.ring, 1)

    def ring(self, number: int) -> None:
        """An hour later."""
        self.state.said += number


def a_server(url: str, pace: Pace = "eager") -> holdfast.Server:
    """A server on that store."""
    return holdfast.Server(
        [Durable], listen=[holdfast.WebSocket(port=0)], store=holdfast.Storage(url, recovery=pace), limits=LIMITS
    )


async def fill(url: str, rooms: int) -> None:
    """Make the rooms, and leave them in the store."""
    server = a_server(url)
    await server.start()
    for first in range(0, rooms, 500):
        await asyncio.gather(*(server.create_room("durable") for _ in range(min(500, rooms - first))))
    await server.stop()


async def start(url: str, pace: Pace, rooms: int) -> float:
    """The seconds until the doors are open."""
    server = a_server(url, pace)
    began_at = time.perf_counter()
    await server.start()
    took_s = time.perf_counter() - began_at
    if pace == "eager" and len(server.rooms) != rooms:
        raise RuntimeError(f"{len(server.rooms)} rooms came back, not {rooms}")
    await server.stop()
    return took_s


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="How long a server with many durable rooms takes to start.")
    parser.add_argument("--rooms", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the database goes: a disk, not a tmpfs")
    options = parser.parse_args()
    paces: tuple[Pace, ...] = ("eager", "lazy")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        url = f"sqlite:{folder}/rooms.db"
        uvloop.run(fill(url, options.rooms))
        for pace in paces:
            times = [uvloop.run(start(url, pace, options.rooms)) for _ in range(options.rounds)]
            Console().print(f"{options.rooms:,} rooms, {pace}: doors open after {statistics.median(times):.2f} s")


if __name__ == "__main__":
    main()
