"""A real NATS server and real sockets: what was acknowledged is there, whatever becomes of either server."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from holdfast import Limits, Server, Storage, WebSocket, connect
from holdfast.stores import Held
from tests.nats_server import NatsServer, shared_server
from tests.server.durability.rooms import MESSAGES, Say, table
from tests.server.durability.test_sqlite import hear, resumed

LIMITS = Limits(nats_reconnect_s=0.02, nats_answer_s=1.0, store_retry_s=0.02)


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    server = NatsServer(tmp_path)
    server.start()
    yield server
    server.kill()


def serve(store: str, port: int = 0, *, takeover: bool = False) -> Server:
    listen = [WebSocket(port=port)]
    return Server([table()], listen=listen, store=Storage(store, takeover=takeover), limits=LIMITS)


async def test_a_nats_server_that_is_killed_again_and_again_costs_a_pause_and_nothing_else(nats: NatsServer) -> None:
    async def kill_and_start() -> None:
        for _ in range(5):
            await asyncio.to_thread(nats.kill)
            await asyncio.to_thread(nats.start)

    async with serve(nats.url) as server, connect(server.url, messages=MESSAGES, random=Random(1)) as ada:
        room = await ada.join_or_create("table")
        trouble = asyncio.create_task(kill_and_start())
        sent: list[str] = []
        while not trouble.done() or len(sent) < 50:
            sent.append(str(len(sent)))
            await room.send(Say(sent[-1]))
            await asyncio.sleep(0.002)
        heard = await hear(room, sent[-1])
        refused = server.counters.commits_refused
        said = list(next(iter(server.rooms)).state.said)

    async with serve(nats.url) as server:
        (again,) = server.rooms
        assert heard == sent
        assert again.state.said == said
        assert len(said) == len(sent)
        assert refused >= 1


async def test_a_second_server_waits_for_the_first_to_go_and_goes_on_with_every_session() -> None:
    store = f"{shared_server().url}/takeover-{os.getpid()}"
    first = serve(store)
    await first.start()
    port = first.addresses["websocket"][1]
    async with connect(first.url, messages=MESSAGES, random=Random(1)) as ada:
        room = await ada.join_or_create("table")
        await room.send(Say("before"))
        await hear(room, "before")

        with pytest.raises(Held, match="--takeover"):
            await serve(store).start()
        await first.stop()
        async with serve(store, port, takeover=True):
            await room.send(Say("after"))
            assert await hear(room, "after") == ["after"]
            assert await resumed(ada) == "resumed"
