"""The faults of the memory network, on a loop without sockets where waiting costs no time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from holdfast.testing.transport_checks import BINARY, LIMITS, LinkRecorder
from holdfast.transports.memory import MemoryNetwork, MemoryTransport, Wire
from holdfast.transports.port import NORMAL, VANISHED
from tests.transports.harness import Harness, MemoryAdapter

SLOW = 4008


class VirtualLoop(asyncio.BaseEventLoop):
    """Jumps to the next timer instead of waiting for it; knows nothing but callbacks and timers."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = self  # `BaseEventLoop` waits by calling `select` on this

    def time(self) -> float:
        return self._now

    def select(self, timeout_s: float | None) -> list[Any]:
        assert timeout_s is not None, "nothing is left to wait for"
        self._now += timeout_s
        return []

    def _process_events(self, events: list[Any]) -> None:
        assert events == []

    def _write_to_self(self) -> None: ...


class SlowNetwork(MemoryNetwork):
    """Every payload takes as many seconds as its first byte says; 255 loses it."""

    def fate(self, sender: MemoryTransport, payload: bytes) -> float | None:
        assert sender in self.wires[0].ends
        return None if payload[:1] == b"\xff" else float(payload[0] if payload else 0)


Story = Callable[[Harness, Wire], Coroutine[Any, Any, None]]


def play(story: Story, network: MemoryNetwork | None = None) -> None:
    """Tell a story about one link, in virtual time."""

    async def run() -> None:
        harness = Harness(MemoryAdapter(network or MemoryNetwork()))
        await harness.pair(limits=replace(LIMITS, close_s=2.0))
        assert isinstance(harness.adapter, MemoryAdapter)
        await story(harness, harness.adapter.network.wires[0])
        await harness.finish()
        assert harness.adapter.network.wires == []

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


def ends(harness: Harness) -> tuple[LinkRecorder, LinkRecorder]:
    return harness.dialed[0], harness.accepted[0]


def test_a_payload_arrives_when_its_fate_says_and_never_overtakes_another() -> None:
    async def story(harness: Harness, _: Wire) -> None:
        dialed, accepted = ends(harness)
        loop = asyncio.get_running_loop()

        for seconds in (3, 1, 5, 0):
            dialed.link.send(bytes([seconds]))

        await accepted.payload(2)
        assert loop.time() == 3
        assert await accepted.payload(4) == [b"\x03", b"\x01", b"\x05", b"\x00"]
        assert loop.time() == 5

    play(story, SlowNetwork())


def test_a_lost_payload_takes_its_link_with_it() -> None:
    async def story(harness: Harness, _: Wire) -> None:
        dialed, accepted = ends(harness)
        dialed.link.send(b"\x00 arrives")
        await accepted.payload()

        dialed.link.send(b"\x01 is on its way")
        dialed.link.send(b"\xff is lost")
        dialed.link.send(b"\x00 is not even sent")

        assert await dialed.loss() == await accepted.loss() == (VANISHED, "")
        assert accepted.payloads == [b"\x00 arrives"]

    play(story, SlowNetwork())


def test_a_cut_wire_is_told_to_both_ends() -> None:
    async def story(harness: Harness, wire: Wire) -> None:
        dialed, accepted = ends(harness)
        dialed.link.send(b"in flight")

        wire.cut()

        assert dialed.end is None, "not from inside cut"
        assert await dialed.loss() == await accepted.loss() == (VANISHED, "")
        assert accepted.payloads == []

    play(story)


@pytest.mark.parametrize("unaware", [[0], [1], [0, 1]])
def test_an_end_that_is_not_told_of_the_cut_sends_into_the_void(unaware: list[int]) -> None:
    async def story(harness: Harness, wire: Wire) -> None:
        recorders = ends(harness)

        wire.cut(unaware=[wire.ends[index] for index in unaware])
        for recorder in recorders:
            recorder.link.send(b"anybody?")
        await asyncio.sleep(1000)

        assert [recorder.end for recorder in recorders] == [
            None if index in unaware else (VANISHED, "") for index in (0, 1)
        ]
        assert [recorder.payloads for recorder in recorders] == [[], []]

    play(story)


def test_a_close_on_a_half_open_link_ends_after_its_deadline() -> None:
    async def story(harness: Harness, wire: Wire) -> None:
        _, accepted = ends(harness)
        wire.cut(unaware=wire.ends)

        accepted.link.close(SLOW, "silent")

        assert await accepted.loss() == (SLOW, "silent")
        assert asyncio.get_running_loop().time() == 2.0

    play(story)


def test_a_half_open_link_can_be_cut_for_good_later() -> None:
    async def story(harness: Harness, wire: Wire) -> None:
        wire.cut(unaware=wire.ends)

        wire.cut()

        assert [await recorder.loss() for recorder in ends(harness)] == [(VANISHED, "")] * 2

    play(story)


def test_a_stalled_wire_fills_the_buffer_and_flows_again_in_order() -> None:
    async def story(harness: Harness, wire: Wire) -> None:
        dialed, accepted = ends(harness)
        dialed.link.send(b"in flight")
        sent = [bytes([number]) * 100_000 for number in range(5)]

        wire.stall()
        for payload in sent:
            dialed.link.send(payload)
        await asyncio.sleep(1000)

        assert dialed.link.buffered_bytes == 500_000 + len(b"in flight")
        assert (dialed.congested_count, dialed.drained_count) == (1, 0)
        assert accepted.payloads == []
        wire.flow()
        assert await accepted.payload(6) == [b"in flight", *sent]
        assert (dialed.congested_count, dialed.drained_count) == (1, 1)
        assert dialed.link.buffered_bytes == 0

    play(story)


def test_a_close_over_a_stalled_wire_is_cut_and_the_other_end_hears_of_it_when_it_flows() -> None:
    async def story(harness: Harness, wire: Wire) -> None:
        dialed, accepted = ends(harness)
        wire.stall()

        accepted.link.close(SLOW, "stalled")
        assert await accepted.loss() == (SLOW, "stalled")
        await asyncio.sleep(1000)

        assert dialed.end is None
        wire.flow()
        assert await dialed.loss() == (VANISHED, "")

    play(story)


def test_an_answer_that_is_late_but_in_time_ends_the_close_in_order() -> None:
    class Slow(MemoryNetwork):
        def fate(self, sender: MemoryTransport, payload: bytes) -> float | None:
            return 0.9

    async def story(harness: Harness, _: Wire) -> None:
        dialed, accepted = ends(harness)
        dialed.link.send(b"on its way")

        accepted.link.close(NORMAL, "")

        assert await accepted.loss() == (NORMAL, "")
        assert asyncio.get_running_loop().time() == pytest.approx(1.8)
        assert accepted.payloads == []

    play(story, Slow())


async def test_an_address_belongs_to_one_listener_at_a_time() -> None:
    network = MemoryNetwork()
    first = await network.listen(LinkRecorder, "arena", subprotocols=[BINARY], limits=LIMITS)

    with pytest.raises(OSError, match="arena"):
        await network.listen(LinkRecorder, "arena", subprotocols=[BINARY], limits=LIMITS)

    await first.close()
    await network.listen(LinkRecorder, "arena", subprotocols=[BINARY], limits=LIMITS)
