"""What do encryption and compression cost? One payload sealed and opened, deflated and inflated; one handshake.

The work of both ends is done here, in one process and without a socket, so that nothing else is measured. Payloads are
what a ticking room sends: messages with a name, a few numbers and the name of a player.

    python benchmarks/links.py [--rounds 7]
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
from holdfast.core.silence import Traffic
from holdfast.schemas.frames import Data
from holdfast.transports.compression import CompressedTransport
from holdfast.transports.deflate import Inflater, deflated
from holdfast.transports.keys import ServerKey, read_public
from holdfast.transports.port import Dialect
from holdfast.transports.secure import Greeting, Tunnel, answer, greeted

BINARY = Dialect("benchmark", text=False)
SIZES = (100, 1024, 8192)
PAYLOADS = 500


class Sink:
    """A transport that keeps what it is told."""

    kind = peer = ""
    dialect = BINARY
    is_encrypted = is_compressed = False
    buffered_bytes = 0
    is_up = True
    traffic = Traffic()

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, payload: bytes) -> None:
        """Keep it."""
        self.sent.append(payload)

    def close(self, code: int, reason: str) -> None:
        """Must not happen."""
        raise AssertionError(f"{code} {reason}")

    def abort(self) -> None:
        """Nothing to cut."""

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """Nothing is read."""


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


def handshake(key: ServerKey) -> tuple[Tunnel, Tunnel]:
    """Both ends of a link, from the first byte to the tunnel."""
    greeting = Greeting(read_public(key.public), b"holdfast.v1.msgpack")
    _, responder = greeted([key], greeting.frame)
    frame, server = answer(responder, b"holdfast.v1.msgpack")
    return greeting.answered(frame)[1], server


def sealing(said: list[bytes]) -> tuple[float, float]:
    """Microseconds to seal a payload and to open it."""
    client, server = handshake(ServerKey.new())
    sealed: list[bytes] = []
    seal_us = per_call_us(lambda: sealed.extend(map(client.seal, said)), len(said))
    return seal_us, per_call_us(lambda: [server.open(frame) for frame in sealed], len(said))


def warm() -> tuple[CompressedTransport, Sink]:
    """One end of a compressed link on which both have spoken."""
    sink = Sink()
    transport = CompressedTransport(sink, BINARY, 65536)
    transport.send(b"first")
    transport.read(b"\x00first")
    sink.sent.clear()
    return transport, sink


def deflating(said: list[bytes]) -> tuple[float, float, float]:
    """Microseconds to deflate a payload and to inflate it, and what is left of it."""
    (sender, sink), (receiver, _) = warm(), warm()

    def send() -> None:
        for payload in said:
            sender.send(payload)

    deflate_us = per_call_us(send, len(said))
    inflate_us = per_call_us(lambda: [receiver.read(message) for message in sink.sent], len(said))
    return deflate_us, inflate_us, sum(map(len, sink.sent)) / sum(map(len, said))


def deflating_alone(said: list[bytes]) -> tuple[float, float, float]:
    """The same for a browser's link, where nothing refers to what was said before."""
    messages: list[bytes] = []
    deflate_us = per_call_us(lambda: messages.extend(deflated(payload) or payload for payload in said), len(said))
    inflate_us = per_call_us(lambda: [Inflater().read(each, 65536, is_last=True) for each in messages], len(said))
    return deflate_us, inflate_us, sum(map(len, messages)) / sum(map(len, said))


def main() -> None:
    """Print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    table = Table("payload", "seal", "open", "deflate", "inflate", "to", "for browsers: deflate", "inflate", "to")
    for size in SIZES:
        said = payloads(size)
        seal, unseal = (statistics.median(each) for each in zip(*(sealing(said) for _ in range(rounds)), strict=True))
        deflate, inflate, ratio = (
            statistics.median(each) for each in zip(*(deflating(said) for _ in range(rounds)), strict=True)
        )
        alone, read_alone, ratio_alone = (
            statistics.median(each) for each in zip(*(deflating_alone(said) for _ in range(rounds)), strict=True)
        )
        times = (f"{each:.1f} µs" for each in (seal, unseal, deflate, inflate))
        times_alone = (f"{each:.1f} µs" for each in (alone, read_alone))
        table.add_row(f"{size} B", *times, f"{ratio:.0%}", *times_alone, f"{ratio_alone:.0%}")
    key = ServerKey.new()
    both = statistics.median(per_call_us(lambda: [handshake(key) for _ in range(50)], 50) for _ in range(rounds))
    console = Console()
    console.print(table)
    console.print(f"a handshake, both ends: {both:.0f} µs")


if __name__ == "__main__":
    main()
