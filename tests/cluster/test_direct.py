"""Nodes of one machine are linked by sockets: messages for relayed clients do not go by the bus."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.cluster.direct import DirectBus
from holdfast.cluster.port import NoReply
from holdfast.testing.bus import BusNetwork, MemoryBus
from tests.deadlines import DEADLINE_S


class Heard:
    """What a node hears of relayed clients."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.came = asyncio.Event()

    def __call__(self, _: str, payload: bytes) -> None:
        self.messages.append(payload)
        self.came.set()

    async def count(self, count: int) -> list[bytes]:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.messages) < count:
                self.came.clear()
                await self.came.wait()
        return self.messages


@asynccontextmanager
async def node(network: BusNetwork, life: str, folder: int) -> AsyncIterator[tuple[DirectBus, Heard]]:
    bus, heard = DirectBus(MemoryBus(network), life, folder), Heard()
    await bus.open()
    await bus.listen(f"relay.{life}", heard)
    try:
        yield bus, heard
    finally:
        await bus.close()


@pytest.fixture
def folder(tmp_path: Path) -> int:
    return os.open(tmp_path, os.O_RDONLY)


async def test_messages_come_whole_and_in_order_over_the_socket(folder: int) -> None:
    # Two networks: nothing of it can go by the bus.
    sent = [bytes([n % 256]) * (n * 997 % 40_000) for n in range(200)]
    async with node(BusNetwork(), "a", folder) as (one, _), node(BusNetwork(), "b", folder) as (_, heard):
        for payload in sent:
            await one.tell("relay.b", payload)

        assert await heard.count(len(sent)) == sent


async def test_a_node_on_another_machine_is_told_by_the_bus(folder: int, tmp_path: Path) -> None:
    network = BusNetwork()
    (tmp_path / "other").mkdir()
    elsewhere = os.open(tmp_path / "other", os.O_RDONLY)
    async with node(network, "a", folder) as (one, _), node(network, "b", elsewhere) as (_, heard):
        await one.tell("relay.b", b"hello")

        assert await heard.count(1) == [b"hello"]


async def test_a_node_that_is_gone_is_not_told_and_its_successor_is(folder: int) -> None:
    async with node(BusNetwork(), "a", folder) as (one, _):
        async with node(BusNetwork(), "b", folder) as (_, heard):
            await one.tell("relay.b", b"1")
            await heard.count(1)
        # As after kill -9: the socket's file is there, and nobody behind it.
        os.close(os.open("c", os.O_CREAT, dir_fd=folder))

        with pytest.raises(NoReply):
            await one.tell("relay.c", b"2")
        async with node(BusNetwork(), "d", folder) as (_, heir):
            await one.tell("relay.d", b"3")
            assert await heir.count(1) == [b"3"]


async def test_what_is_no_relayed_client_goes_by_the_bus(folder: int) -> None:
    network = BusNetwork()
    async with node(network, "a", folder) as (one, _), node(network, "b", folder) as (other, _):
        heard = Heard()
        await other.listen("beat.*", heard)

        await one.tell("beat.a", b"here")

        assert await heard.count(1) == [b"here"]
