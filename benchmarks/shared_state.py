"""What does a room that shares its state cost a server in all? Holdfast beside Colyseus, the same game and clients.

In each room all players move at each tick, and every client gets what has changed: finding it, encoding it and sending
it are in the CPU time. Neither game sends messages. Holdfast's clients acknowledge, as the SDKs do; Colyseus keeps
nothing for players who are away.

    python -m benchmarks.shared_state [--rooms 10] [--players 50] [--hz 20] [--seconds 4] [--rounds 3]
"""

import sys

import msgspec

from benchmarks.contest import Contestant
from benchmarks.game import Game
from benchmarks.rounds import Rounds, alone
from benchmarks.systems import System


class Sizes(msgspec.Struct):
    """The options."""

    rooms: int = 10
    players: int = 50
    hz: float = 20.0
    seconds: float = 4.0


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds. Only one server runs at a time: a ticking one never rests."""

    async def play(system: System) -> None:
        async with Contestant(system, Game(seats=sizes.players, hz=sizes.hz, shares=True)) as contestant:
            await contestant.join(sizes.rooms * sizes.players)
            await contestant.deliveries(1.0)
            delivered = await contestant.deliveries(sizes.seconds)
            rounds.figures.add("shared_sync_cpu_us", system.name, delivered.cpu_us)
            rounds.figures.add("shared_sync_bytes", system.name, delivered.bytes)

    rounds.play(("holdfast", "holdfast_compiled", "colyseus"), play)


if __name__ == "__main__":
    alone(sys.modules[__name__])
