"""What a client receives first, in every SDK: the rows of the table in docs/guide/drops.md, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from holdfast import Limits, Room, Server, WebSocket
from holdfast.cli.demo.proxy import Proxy
from tests.conformance.sdks.game import Lasting, Ordered, Word
from tests.conformance.sdks.programs import Program
from tests.deadlines import DEADLINE_S

# So that a drop with much said in it is a resync.
LIMITS = Limits(window_messages_max=4, kept_messages_max=8)


@asynccontextmanager
async def serving(kind: type[Room], store: str | None = None) -> AsyncIterator[Server]:  # type: ignore[type-arg]  # of any data
    async with Server([kind], listen=[WebSocket(port=0)], limits=LIMITS, store=store) as server:
        yield server


@asynccontextmanager
async def reached(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(*server.addresses["websocket"], random=Random(7), silent_s=0.2) as proxy:
        yield proxy


async def seated(client: Program, proxy: Proxy, kind: str) -> None:
    host, port = proxy.address
    await client.do("connect", url=f"ws://{host}:{port}")
    await client.do("join", kind=kind)
    assert await words(client, 1) == ["on_join"]


async def words(client: Program, count: int) -> list[str]:
    """What came from the room, once that is so much."""
    async with asyncio.timeout(DEADLINE_S):
        while len(heard := (await client.do("heard"))["words"]) < count:  # noqa: ASYNC110 - it is asked, and does not tell
            await asyncio.sleep(0.05)
    assert isinstance(heard, list)
    return heard


def say_to_all(server: Server, times: int) -> None:
    (room,) = server.rooms
    for _ in range(times):
        room.broadcast(Word("missed"))


@pytest.mark.parametrize(
    ("missed", "outcome", "expected"),
    [(2, "resumed", ["missed", "missed", "on_rejoin"]), (20, "resynced", ["resynced", "on_resync", "on_rejoin"])],
)
async def test_after_a_drop(client: Program, missed: int, outcome: str, expected: list[str]) -> None:
    async with serving(Ordered) as server, reached(server) as proxy:
        await seated(client, proxy, "ordered")
        proxy.pull()
        await client.event("drop")
        say_to_all(server, missed)

        proxy.plug()

        assert (await client.event("resume"))["outcome"]["kind"] == outcome
        assert await words(client, 1 + len(expected)) == ["on_join", *expected]


async def test_after_a_recovery(client: Program, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'game.db'}"
    async with serving(Lasting, store) as server, reached(server) as proxy:
        await seated(client, proxy, "lasting")
        proxy.pull()
        await client.event("drop")
        say_to_all(server, 2)
        await server.stop()
        async with serving(Lasting, store) as second:
            proxy.target = second.addresses["websocket"]

            proxy.plug()

            assert (await client.event("resume"))["outcome"]["kind"] == "resumed"
            assert await words(client, 4) == ["on_join", "missed", "missed", "on_rejoin"]
