"""What does a ticking room cost? Server CPU per delivered message, beside what else one would use.

Rooms tick and broadcast a few messages each tick, as action games do, to their players and, if asked, to spectators.
The bare servers send the same bytes to as many connections from one timer per room: no numbers, no replay, no
acknowledgements. Holdfast's clients acknowledge as the SDKs do.

    python -m benchmarks.tick [--rooms 10] [--players 50] [--hz 20] [--broadcasts 3] [--seconds 4] [--rounds 3]
    python -m benchmarks.tick --rooms 1 --players 1 --spectators 2000 --hz 5 --systems holdfast picows
"""

import sys

import msgspec

from benchmarks.clients import HoldfastClient
from benchmarks.contest import Contestant
from benchmarks.game import Game
from benchmarks.rounds import Rounds, alone
from benchmarks.systems import SYSTEMS, System


class Sizes(msgspec.Struct):
    """The options."""

    rooms: int = 10
    players: int = 50
    spectators: int = 0
    hz: float = 20.0
    broadcasts: int = 3
    seconds: float = 4.0


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds. Only one server runs at a time: a ticking one never rests."""

    async def play(system: System) -> None:
        game = Game(seats=sizes.players, spectators=sizes.spectators, hz=sizes.hz, broadcasts=sizes.broadcasts)
        async with Contestant(system, game) as contestant:
            for _ in range(sizes.rooms):
                seated = await contestant.join(sizes.players)
                watched = seated[0].room if isinstance(seated[0], HoldfastClient) else ""
                options = {"watched": watched} if watched else {}
                await contestant.join(sizes.spectators, **options)
            await contestant.deliveries(0.5)
            delivered = await contestant.deliveries(sizes.seconds)
            rounds.figures.add("tick_cpu_us", system.name, delivered.cpu_us)

    rounds.play(SYSTEMS, play)


if __name__ == "__main__":
    alone(sys.modules[__name__])
