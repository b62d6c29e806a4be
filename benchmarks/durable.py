"""What does "acknowledged means durable" cost? Durable rooms beside rooms in memory, and one fsync per message.

Players send messages that their room counts in its state and sends back; in a durable room the echo, and the
acknowledgement that rides on it, leave only once the turn is on the disk. At a given load each message is due at a time
of its own, and the wait for its echo counts from that time. Flat out, each player has 16 messages in flight. The naive
alternative, one transaction per message, is measured at the lowest load. No peer saves what it acknowledges.

    python -m benchmarks.durable [--folder /var/tmp] [--seconds 2] [--rounds 3]
    python -m benchmarks.durable --plot docs/images/durable.svg
    python -m benchmarks.durable --store sqlite:elsewhere.db     # durable rooms on another store
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.contest import Contestant, Paced
from benchmarks.game import Game
from benchmarks.plots import Curve, curves
from benchmarks.rounds import Rounds, alone
from benchmarks.systems import ROOT, SYSTEMS

MODES = ("memory", "commit", "naive")
PLOTTED = (500, 1_000, 2_000, 5_000, 10_000, 20_000)


class Sizes(msgspec.Struct):
    """The options."""

    clients: int = 50
    seats: int = 10
    low: int = 500
    high: int = 20_000
    seconds: float = 2.0
    flat_out_seconds: float = 2.0
    in_flight: int = 16
    folder: str = ""
    store: str = ""
    plot: str = ""


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds: the modes take turns at each load."""

    async def play() -> None:
        at_low = {mode: await under_load(sizes, mode, sizes.low) for mode in MODES}
        at_high = {mode: await under_load(sizes, mode, sizes.high) for mode in ("memory", "commit")}
        flat_out = await under_load(sizes, "commit", None)
        for name, value in {
            "durable_msgs_s": flat_out.per_s,
            "durable_ack_p99_ms": at_high["commit"].p99_ms,
            "memory_ack_p99_ms": at_high["memory"].p99_ms,
            "durable_ack_p50_ms": at_low["commit"].p50_ms,
            "durable_cpu_ratio": at_low["commit"].cpu_us / at_low["memory"].cpu_us,
            "naive_cpu_ratio": at_low["naive"].cpu_us / at_low["memory"].cpu_us,
        }.items():
            rounds.figures.add(name, "holdfast", value)

    # Beside the source: on a disk, where the folder for temporary files may be memory.
    Path(sizes.folder or ROOT / "build").mkdir(parents=True, exist_ok=True)
    if sizes.plot:
        rounds.alone(lambda: plot(sizes, rounds))
    else:
        rounds.alone(play)


async def under_load(sizes: Sizes, mode: str, per_s: int | None) -> Paced:
    """One mode at so many messages a second, or flat out."""
    on_disk = sizes.folder or ROOT / "build"
    with TemporaryDirectory(dir=on_disk) as folder:
        game = Game(seats=sizes.seats, durability=mode, folder=folder, store=sizes.store)
        async with Contestant(SYSTEMS["holdfast"], game) as contestant:
            await contestant.join(sizes.clients)
            await contestant.paced(sizes.low, 0.5)
            if per_s is None:
                return await contestant.crowded(sizes.in_flight, sizes.flat_out_seconds)
            return await contestant.paced(per_s, sizes.seconds)


async def plot(sizes: Sizes, rounds: Rounds) -> None:
    """The wait against the load, as an SVG."""
    measured = {mode: {load: await under_load(sizes, mode, load) for load in loads(mode)} for mode in MODES}
    drawn = [
        Curve(f"{mode}, {name}", mode, name == "p99", [(e.per_s, getattr(e, f"{name}_ms")) for e in by_load.values()])
        for mode, by_load in measured.items()
        for name in ("p50", "p99")
    ]
    curves("Time until a message is echoed, against load", "messages a second", "ms", drawn, sizes.plot)
    rounds.tell(f"wrote {sizes.plot}")


def loads(mode: str) -> tuple[int, ...]:
    """One fsync per message is not asked for more than it can do."""
    return PLOTTED[:3] if mode == "naive" else PLOTTED


if __name__ == "__main__":
    alone(sys.modules[__name__])
