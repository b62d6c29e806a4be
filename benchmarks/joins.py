"""What does a player cost who comes? Server CPU for connecting and joining a room, and the memory of each who is there.

Players come fifty at a time, into rooms of fifty, each over connections of its own, as from a machine of its own. The
first of them are not counted: they allocate what is allocated once. Memory is what the operating system has given to
the server, after a collection of garbage.

    python -m benchmarks.joins [--clients 2000] [--seats 50] [--rounds 3] [--systems holdfast colyseus]
"""

import sys

import msgspec

from benchmarks.contest import Contestant
from benchmarks.game import Game
from benchmarks.rounds import Rounds, alone
from benchmarks.systems import SYSTEMS, System


class Sizes(msgspec.Struct):
    """The options."""

    clients: int = 2_000
    warm_up: int = 500
    seats: int = 50


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds."""

    async def play(system: System) -> None:
        async with Contestant(system, Game(seats=sizes.seats)) as contestant:
            await contestant.join(sizes.warm_up)
            kib = contestant.server.rss_kib()
            began_s = contestant.server.cpu_s()
            await contestant.join(sizes.clients)
            joins_per_cpu_s = sizes.clients / (contestant.server.cpu_s() - began_s)
            rounds.figures.add("joins_per_cpu_s", system.name, joins_per_cpu_s)
            grown_kib = contestant.server.rss_kib() - kib
            rounds.figures.add("kib_per_session", system.name, grown_kib / sizes.clients)

    rounds.play(SYSTEMS, play)


if __name__ == "__main__":
    alone(sys.modules[__name__])
