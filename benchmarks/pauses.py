"""How long does everybody wait for one turn of the server's event loop? The longest ones, while rooms tick and players
come, go and return.

Rooms of fifty tick at 20 Hz and say one message each time. Meanwhile some players lose their connection for good, and
as many join. A timer in the server asks to be called every millisecond: how much later it is called, is how long the
loop was busy with something else; the pauses of Python's garbage collector are counted apart.

    python -m benchmarks.pauses [--clients 5000] [--hz 20] [--churn 50] [--seconds 20] [--rounds 3]
"""

import asyncio
import sys

import msgspec

from benchmarks.contest import Contestant
from benchmarks.game import Game
from benchmarks.rounds import Rounds, alone
from benchmarks.systems import SYSTEMS

# Until the first ticks of all rooms are over.
SETTLE_S = 2.0


class Sizes(msgspec.Struct):
    """The options."""

    clients: int = 5_000
    seats: int = 50
    hz: float = 20.0
    churn: int = 50
    """So many players a second are gone, and as many join."""
    seconds: float = 20.0


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds."""

    async def play() -> None:
        game = Game(seats=sizes.seats, hz=sizes.hz, broadcasts=1, grace_s=1.0)
        async with Contestant(SYSTEMS["holdfast"], game) as contestant:
            await contestant.join(sizes.clients)
            await asyncio.sleep(SETTLE_S)
            contestant.server.delays()
            delivered, _ = await asyncio.gather(
                contestant.deliveries(sizes.seconds), churn(contestant, sizes.churn, sizes.seconds)
            )
            delays = contestant.server.delays()
        for name, value in {
            "loop_longest_ms": delays.longest_ms,
            "loop_p999_ms": delays.p999_ms,
            "gc_longest_ms": delays.gc_longest_ms,
            "ticking_cpu_share": delivered.cpu_us * delivered.per_s / 1e6,
        }.items():
            rounds.figures.add(name, "holdfast", value)

    rounds.alone(play)


async def churn(contestant: Contestant, per_s: int, seconds: float) -> None:
    """Players lose their connection and are not seen again; others take their places."""
    for _ in range(int(per_s * seconds)):
        gone, contestant.clients = contestant.clients[:1], contestant.clients[1:]
        gone[0].cut()
        await asyncio.gather(contestant.join(1), asyncio.sleep(1 / per_s))


if __name__ == "__main__":
    alone(sys.modules[__name__])
