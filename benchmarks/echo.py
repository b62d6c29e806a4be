"""What does the session layer cost? Server CPU per echoed message, beside what else one would use.

Two loads. Flat out, each client sends its next message when the last came back, so that the server is never idle and
the kernel's part is as small as it gets. And paced, a given number of messages a second, each due at a time of its own:
the wait for the answer counts from that time, however late the message left.

    python -m benchmarks.echo [--clients 200] [--messages 40000] [--rate 5000] [--rounds 3] [--systems holdfast picows]
"""

import sys

import msgspec

from benchmarks.contest import Contestant
from benchmarks.game import Game
from benchmarks.rounds import Rounds, alone
from benchmarks.systems import SYSTEMS, System


class Sizes(msgspec.Struct):
    """The options."""

    clients: int = 200
    messages: int = 40_000
    rate: int = 5_000
    seconds: float = 2.0


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds."""

    async def play(system: System) -> None:
        async with Contestant(system, Game(seats=10_000)) as contestant:
            await contestant.join(sizes.clients)
            await contestant.flat_out(sizes.messages // 10)
            rounds.figures.add("echo_cpu_us", system.name, await contestant.flat_out(sizes.messages))
            paced = await contestant.paced(sizes.rate, sizes.seconds)
            rounds.figures.add("echo_p99_ms", system.name, paced.p99_ms)

    rounds.play(SYSTEMS, play)


if __name__ == "__main__":
    alone(sys.modules[__name__])
