"""What is written to a link that is slow or new, and when one that carries next to nothing is cut."""

import asyncio
from dataclasses import replace
from math import inf
from typing import Any

from holdfast import Limits, Message, Player, PlayerData, Reason, Room, on
from holdfast.core.codec import MSGPACK
from holdfast.events import Dropped
from holdfast.schemas.frames import Data, Frame, Ping, Welcome
from holdfast.testing import MemoryServer, Network
from holdfast.transports.memory import MemoryTransport
from tests.simulation.stage import in_virtual_time


class Piece(Message):
    ballast: str


class Depot(Room[PlayerData]):
    pass


class Tapped(Network):
    """Keeps what the server wrote to the newest link."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[int, list[Frame]]] = []

    def fate(self, sender: MemoryTransport, payload: bytes) -> float | None:
        link = self.link(sender.wire)
        if payload and sender is link.end("server"):
            self.written.append((len(payload), list(MSGPACK.from_server(payload))))
        elif not link.hello:
            self.written.clear()
        return super().fate(sender, payload)


class Mute(Network):
    """Lets nothing through that clients say, if told so."""

    is_mute = False

    def fate(self, sender: MemoryTransport, payload: bytes) -> float | None:
        if self.is_mute and sender is self.link(sender.wire).end("client"):
            return inf
        return super().fate(sender, payload)


async def resumed_with(sizes: list[int], **limits: Any) -> list[tuple[int, list[Frame]]]:
    """What the server writes to a client for whom so much waits."""
    network = Tapped()
    async with MemoryServer([Depot], network=network, limits=replace(Limits(), **limits)) as server:
        client = await server.connect("ada", messages=[Piece])
        await client.join_or_create("depot")
        server.dialer(client).is_down = True
        server.link(client).cut()
        await asyncio.sleep(0.01)
        (depot,) = server.rooms
        for size in sizes:
            server.machine.call(depot.broadcast, Piece("x" * size))
        server.dialer(client).is_down = False
        await asyncio.sleep(2.0)
        return network.written


@in_virtual_time
async def test_the_welcome_travels_alone_and_first() -> None:
    written = await resumed_with([10])

    frames = [frames for _, frames in written]
    assert [type(frame) for frame in frames[0]] == [Welcome]
    assert [type(frame) for frame in frames[1]] == [Data]


@in_virtual_time
async def test_what_waits_goes_in_small_payloads() -> None:
    written = await resumed_with([200] * 500)

    sizes = [size for size, frames in written if isinstance(frames[0], Data)]
    assert max(sizes) <= Limits().batch_bytes_max
    assert len(sizes) < 500 / 12
    pieces = [frame for _, frames in written for frame in frames if isinstance(frame, Data) and frame.type == "piece"]
    assert len(pieces) == 500


@in_virtual_time
async def test_a_larger_message_goes_alone() -> None:
    written = await resumed_with([100, 10_000, 100])

    assert [len(frames) for _, frames in written if isinstance(frames[0], Data)] == [1, 1, 1]


@in_virtual_time
async def test_a_client_is_told_of_a_payload_that_may_take_longer_than_the_silence() -> None:
    written = await resumed_with([15_000, 40_000], liveness_bytes_per_s=1000.0)

    (at,) = [index for index, (_, frames) in enumerate(written) if len(frames) == 1 and is_announcing(frames[0])]
    size, frames = written[at + 1]
    assert size > 40_000
    assert isinstance(frames[0], Data)
    (ping,) = written[at][1]
    assert isinstance(ping, Ping)
    assert ping.quiet_s == round(size / 1000.0, 3)


def is_announcing(frame: Frame) -> bool:
    return isinstance(frame, Ping) and frame.quiet_s > 0


@in_virtual_time
async def test_a_client_that_dribbles_is_cut_like_a_silent_one() -> None:
    """Slow-loris: what comes in is less than what counts as life, and the message would take ten minutes."""
    drops: list[Dropped] = []
    async with MemoryServer([Depot], limits=Limits(ping_s=5.0, silence_s=16.0)) as server:
        server.on(Dropped)(drops.append)
        client = await server.connect("mallory", messages=[Piece])
        room = await client.join_or_create("depot")
        server.link(client).bytes_per_s = 100.0

        await room.send(Piece("x" * 60_000))
        await asyncio.sleep(22.0)

        assert [drop.reason for drop in drops] == [Reason.SILENT]
        await client.close()


@in_virtual_time
async def test_a_client_that_takes_everything_and_answers_nothing_is_cut_like_a_silent_one() -> None:
    """Its system takes what comes, and its program hangs."""
    drops: list[Dropped] = []
    network = Mute()
    async with MemoryServer([Depot], network=network, limits=Limits(ping_s=5.0, silence_s=16.0)) as server:
        server.on(Dropped)(drops.append)
        client = await server.connect("ada", messages=[Piece])
        await client.join_or_create("depot")
        network.is_mute = True
        (depot,) = server.rooms

        for _ in range(220):
            server.machine.call(depot.broadcast, Piece("x" * 300))
            await asyncio.sleep(0.1)

        assert [drop.reason for drop in drops] == [Reason.SILENT]


class Ask(Message):
    n: int


class Large(Message):
    n: int
    ballast: str


class Library(Room[PlayerData]):
    """Has something large for everybody who asks."""

    grace_s = 600.0

    @on(Ask)
    def ask(self, player: Player[PlayerData], ask: Ask) -> None:
        player.send(Large(ask.n, "x" * 55_000))


@in_virtual_time
async def test_large_answers_over_a_slow_link_are_not_taken_for_unread_ones() -> None:
    async with MemoryServer([Library]) as server:
        ada = await server.connect("ada", messages=[Large])
        room = await ada.join_or_create("library")
        server.link(ada).bytes_per_s = 3_000.0
        asking = asyncio.gather(*(room.send(Ask(n)) for n in range(15)))

        heard = [await room.receive() for _ in range(15)]

        await asking
        assert [message.n for message in heard if isinstance(message, Large)] == list(range(15))
        assert ada.drops == 0
