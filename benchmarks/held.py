"""What does a player cost who is away? The memory of a session whose seat is held while its connection is lost.

    python -m benchmarks.held [--clients 1000] [--waves 2] [--rounds 3] [--systems holdfast colyseus socketio]

Players come in waves, say something, read the answer, and lose their connection. The first wave allocates what is
allocated once; what the later ones leave is that of their sessions. Counted is what the server's allocator has handed
out, after a collection of garbage: the operating system sees more, because memory is given back in larger pieces.
`--lines 20` names the lines of Holdfast's code that allocate it; `--durability commit` is a room on disk.
"""

import asyncio
import sys
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.contest import Contestant
from benchmarks.game import Game, Memory
from benchmarks.rounds import Rounds, alone
from benchmarks.systems import System

# Until a server has dealt with connections that are lost, and the timers of new ones are over.
SETTLE_S = 3.0
# Looked at again until it has not shrunk three times in turn, but not for ever.
STEADY = 0.998
CALM_LOOKS = 3
LOOKS = 20


class Sizes(msgspec.Struct):
    """The options."""

    clients: int = 1_000
    waves: int = 2
    seats: int = 50
    settle: float = SETTLE_S
    durability: str = "memory"
    lines: int = 0


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds."""

    async def play(system: System) -> None:
        with TemporaryDirectory() as folder:
            game = Game(
                seats=sizes.seats,
                grace_s=600.0,
                traced_lines=sizes.lines,
                durability=sizes.durability,
                folder=folder if sizes.durability != "memory" else "",
            )
            async with Contestant(system, game) as contestant:
                kib = [await wave(contestant) for _ in range(sizes.waves)]
        held = sizes.clients * (sizes.waves - 1)
        rounds.figures.add("kib_per_held_session", system.name, (kib[-1] - kib[0]) / held)

    async def wave(contestant: Contestant) -> float:
        for client in await contestant.join(sizes.clients):
            client.expect(1, is_paced=True)
            client.say()
        await contestant.all_done()
        for client in contestant.clients:
            client.acknowledge()
        await asyncio.sleep(0.5)
        for client in contestant.clients:
            client.cut()
        contestant.clients.clear()
        memory = await settled(contestant)
        for line in memory.lines:
            rounds.tell(line)
        return memory.live_kib

    async def settled(contestant: Contestant) -> Memory:
        """When nothing is given back any more: a busy machine needs longer to see that connections are gone."""
        await asyncio.sleep(sizes.settle)
        memory, calm = contestant.server.memory(), 0
        for _ in range(LOOKS):
            await asyncio.sleep(sizes.settle / 3)
            before, memory = memory, contestant.server.memory()
            calm = calm + 1 if memory.live_kib > before.live_kib * STEADY else 0
            if calm == CALM_LOOKS:
                break
        return memory

    # python-socketio and the bare servers keep nothing.
    rounds.play(("holdfast", "colyseus", "socketio"), play)


if __name__ == "__main__":
    alone(sys.modules[__name__])
