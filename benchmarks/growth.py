"""Does a message cost more when many are there? Server CPU per echo among 10,000 sessions, relative to 100.

The same server process is measured with few sessions and with many, in rooms of fifty or all in one room; every client
has one message in flight. Much of what grows is the work of
the kernel and of the processor's caches, which bare servers have too.

    python -m benchmarks.growth [--few 100] [--many 10000] [--messages 40000] [--rounds 3] [--systems holdfast picows]
"""

import sys

import msgspec

from benchmarks.contest import Contestant
from benchmarks.game import Game
from benchmarks.rounds import Rounds, alone
from benchmarks.systems import System

# The bare servers have no rooms to tell apart.
WITH_ROOMS = ("holdfast", "colyseus", "socketio")


class Sizes(msgspec.Struct):
    """The options."""

    few: int = 100
    many: int = 10_000
    messages: int = 40_000
    seats: int = 50


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds: in rooms, then in one room."""

    async def growth(system: System, seats: int) -> float:
        async with Contestant(system, Game(seats=seats)) as contestant:
            await contestant.join(sizes.few)
            await contestant.flat_out(sizes.messages // 10)
            few_us = await contestant.flat_out(sizes.messages)
            await contestant.join(sizes.many - sizes.few)
            await contestant.flat_out(sizes.messages // 2)
            return await contestant.flat_out(sizes.messages) / few_us

    async def in_rooms(system: System) -> None:
        rounds.figures.add("growth_ratio", system.name, await growth(system, sizes.seats))

    async def in_one_room(system: System) -> None:
        rounds.figures.add("growth_one_room_ratio", system.name, await growth(system, sizes.many))

    rounds.play((*WITH_ROOMS, "ws", "picows"), in_rooms)
    rounds.play(("holdfast",), in_one_room)
    for each in rounds.figures.rounds("growth_ratio", "picows"):
        rounds.figures.add("growth_one_room_ratio", "picows", each)


if __name__ == "__main__":
    alone(sys.modules[__name__])
