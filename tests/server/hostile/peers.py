"""A foreigner with a seat, how the server closed on one, and the bare link beneath one."""

from dataclasses import dataclass

from tests.server.foreign import Foreigner, TcpWire


@dataclass
class Seated:
    """Sits in the hall, beside the bystander."""

    foreigner: Foreigner
    channel: int

    async def say(self, seq: int, n: int, *, ack: int = 0) -> None:
        await self.foreigner.say(["data", self.channel, seq, ack, "say", {"n": n}])


async def closed(foreigner: Foreigner) -> tuple[int, str]:
    """How the server closed, told twice: in its last frame and by the transport."""
    frame, end = await foreigner.hear_end()
    assert frame is not None, f"there was no close frame before {end}"
    assert (frame[1], frame[2]) == end
    return end


def tcp(foreigner: Foreigner) -> TcpWire:
    assert isinstance(foreigner.wire, TcpWire)
    return foreigner.wire
