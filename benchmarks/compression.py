"""What does permessage-deflate cost? One payload deflated and inflated.

The work of both ends is done here, in one process and without a socket, so that nothing else is measured. Payloads are
what a ticking room sends: messages with a name, a few numbers and the name of a player.

    python -m benchmarks.compression [--rounds 7]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from random import Random

from msgspec import Raw
from rich.console import Console
from rich.table import Table

from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Data
from holdfast.transports.deflate import Inflater, deflated

SIZES = (100, 1024, 8192)
PAYLOADS = 500


def payloads(size: int) -> list[bytes]:
    """So many payloads of about this size."""
    random = Random(size)
    made = []
    for number in range(PAYLOADS):
        frames: list[Data] = []
        while not frames or len(MSGPACK.encode(frames)) < size - 30:
            place = {"x": round(random.uniform(0, 100), 2), "y": round(random.uniform(0, 100), 2)}
            body = MSGPACK.encode({"player": f"guest-{random.randrange(50)}", **place})
            frames.append(Data(1, number + len(frames) + 1, number, "moved", Raw(body)))
        made.append(MSGPACK.encode(frames))
    return made


def per_call_us(work: Callable[[], object], calls: int) -> float:
    """The processor time of one of so many calls that `work` makes: other programs do not count."""
    start = time.process_time()
    work()
    return (time.process_time() - start) / calls * 1e6


def deflating(said: list[bytes]) -> tuple[float, float, float]:
    """Microseconds to deflate a payload and to inflate it, and its size afterwards as a share of its size before."""
    messages: list[bytes] = []
    deflate_us = per_call_us(lambda: messages.extend(deflated(payload) or payload for payload in said), len(said))
    inflate_us = per_call_us(lambda: [Inflater().read(each, 65536, is_last=True) for each in messages], len(said))
    return deflate_us, inflate_us, sum(map(len, messages)) / sum(map(len, said))


def main() -> None:
    """Print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    table = Table("payload", "deflate", "inflate", "to")
    for size in SIZES:
        said = payloads(size)
        deflate, inflate, ratio = (
            statistics.median(each) for each in zip(*(deflating(said) for _ in range(rounds)), strict=True)
        )
        table.add_row(f"{size} B", f"{deflate:.1f} µs", f"{inflate:.1f} µs", f"{ratio:.0%}")
    Console().print(table)


if __name__ == "__main__":
    main()
