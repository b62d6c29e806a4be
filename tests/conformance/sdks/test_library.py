"""Every SDK with servers that are not ours: `PlayerStreams` in a plain `websockets` server and in a FastAPI app."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random
from socket import create_server
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from holdfast import Limits, PlayerStream, PlayerStreams, on
from holdfast.cli.demo.proxy import Cut, Proxy
from tests.conformance.sdks.game import Down, Pour, State, Tally, Up
from tests.conformance.sdks.programs import Program, program

# A burst exceeds them soon.
LIMITS = Limits(window_messages_max=256, kept_messages_max=1024)


class Counting(PlayerStreams):
    grace_s = 60.0

    def __init__(self) -> None:
        super().__init__(limits=LIMITS)
        self.left: asyncio.Queue[str] = asyncio.Queue()

    def on_join(self, player: PlayerStream) -> None:
        player.data = Tally()

    def on_leave(self, player: PlayerStream, reason: str) -> None:
        self.left.put_nowait(reason)

    def on_resync(self, player: PlayerStream) -> None:
        player.data.resyncs += 1
        player.send(State(player.data.up, player.data.down))

    @on(Up)
    async def up(self, player: PlayerStream, up: Up) -> None:
        # Away for a moment, as for a database: the connection may be cut meanwhile.
        await asyncio.sleep(0)
        if up.number != player.data.up + 1:
            player.data.wrong.append(up.number)
        player.data.up = up.number
        pour_down(player, up.answers)

    @on(Pour)
    def pour(self, player: PlayerStream, pour: Pour) -> None:
        pour_down(player, pour.numbers)


def pour_down(player: PlayerStream, numbers: int) -> None:
    for _ in range(numbers):
        player.data.down += 1
        player.send(Down(player.data.down))


@asynccontextmanager
async def in_websockets(game: Counting) -> AsyncIterator[int]:
    async def serve_socket(socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            await game.serve(socket, socket.send, socket.close, subprotocol=socket.subprotocol)

    subprotocols = [Subprotocol(name) for name in game.subprotocols]
    async with serve(serve_socket, "127.0.0.1", 0, subprotocols=subprotocols, close_timeout=0.1) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def in_fastapi(game: Counting) -> AsyncIterator[int]:
    app = FastAPI()

    @app.websocket("/")
    async def play(socket: WebSocket) -> None:
        (subprotocol,) = socket.scope["subprotocols"]
        await socket.accept(subprotocol=subprotocol)
        is_text = subprotocol.endswith("json")
        payloads: Any = socket.iter_text() if is_text else socket.iter_bytes()
        send: Callable[[Any], Awaitable[None]] = socket.send_text if is_text else socket.send_bytes
        with suppress(WebSocketDisconnect):
            await game.serve(payloads, send, socket.close, subprotocol=subprotocol)

    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="websockets-sansio"))
    with create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield listener.getsockname()[1]
        server.should_exit = True
        await serving


SERVERS: dict[str, Callable[[Counting], AbstractAsyncContextManager[int]]] = {
    "websockets": in_websockets,
    "fastapi": in_fastapi,
}


@dataclass
class World:
    game: Counting
    proxy: Proxy

    @property
    def url(self) -> str:
        host, port = self.proxy.address
        return f"ws://{host}:{port}/"

    @property
    def player(self) -> PlayerStream:
        (player,) = self.game.players
        return player

    async def joined(self, client: Program, **options: Any) -> dict[str, Any]:
        """Who connects has a place at once, and listens."""
        return await client.do("connect", url=self.url, **options)

    async def check(self, client: Program, *, up: int, down: int) -> None:
        """Both sides have all numbers, each once and in order."""
        await client.do("flush")
        heard = await client.do("heard", until=down)
        tally = self.player.data
        assert (heard["down"], heard["wrong"]) == (down, [])
        assert (tally.up, tally.wrong) == (up, [])
        assert not client.has_had("unexpected")


@pytest.fixture(params=SERVERS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    game = Counting()
    async with SERVERS[request.param](game) as port, Proxy("127.0.0.1", port, random=Random(7), silent_s=0.2) as proxy:
        yield World(game, proxy)
        await game.stop()


@pytest.mark.parametrize("codec", PlayerStreams.subprotocols)
async def test_cuts_in_the_middle_of_the_talk_lose_double_and_reorder_nothing(
    client: Program, world: World, codec: str
) -> None:
    await world.joined(client, codec=codec)
    down = up = 0

    for manner in islice(cycle(Cut), 6):
        down, up = down + 50, up + 100
        counting = client.begin("count", numbers=100)
        await client.do("pour", numbers=50)
        await world.proxy.cut(manner)
        assert (await client.event("resume"))["outcome"]["kind"] == "resumed"
        await counting

    await world.check(client, up=up, down=down)


async def test_what_was_said_while_the_client_was_away_is_replayed_both_ways(client: Program, world: World) -> None:
    await world.joined(client)
    world.proxy.pull()
    await client.event("drop")

    await client.do("count", numbers=60)
    pour_down(world.player, 40)
    world.proxy.plug()
    outcome = (await client.event("resume"))["outcome"]

    assert outcome == {"kind": "resumed", "replayed": 40, "reason": ""}
    await world.check(client, up=60, down=40)


async def test_a_burst_that_waited_for_the_network_does_not_drown_in_its_answers(client: Program, world: World) -> None:
    await world.joined(client)
    world.proxy.pull()
    await client.event("drop")

    counting = client.begin("count", numbers=800, answers=2)
    world.proxy.plug()
    await client.event("resume")
    await counting

    await world.check(client, up=800, down=1600)
    assert not client.has_had("resynced")


async def test_another_process_goes_on_where_one_was_suspended(client: Program, world: World, sdk: str) -> None:
    await world.joined(client)
    await client.do("count", numbers=10)
    await client.do("pour", numbers=10)
    await world.check(client, up=10, down=10)
    state = (await client.do("suspend"))["state"]
    pour_down(world.player, 5)

    async with program(sdk) as second:
        told = await world.joined(second, resume=state, up=10, down=10)
        await second.do("count", numbers=10)

        assert told["outcome"] == {"kind": "resumed", "replayed": 5, "reason": ""}
        await world.check(second, up=20, down=15)


async def test_more_than_can_be_kept_is_declared_and_the_state_follows(client: Program, world: World) -> None:
    await world.joined(client)
    world.proxy.pull()
    await client.event("drop")

    await client.do("count", numbers=30)
    pour_down(world.player, LIMITS.kept_messages_max + 1)
    world.proxy.plug()
    outcome = (await client.event("resume"))["outcome"]
    await client.event("resynced")
    await client.do("pour", numbers=10)

    assert outcome["kind"] == "resynced"
    await world.check(client, up=30, down=LIMITS.kept_messages_max + 11)


async def test_a_client_that_joins_as_in_a_room_is_in_its_place(client: Program, world: World) -> None:
    await world.joined(client)

    assert (await client.do("join"))["room"] == "counting"
    assert len(world.game.players) == 1


async def test_a_kicked_player_stays_away(client: Program, world: World) -> None:
    await world.joined(client)

    world.player.kick("enough")

    assert (await client.event("close"))["reason"] == "kicked"
    assert not client.has_had("drop")
    assert world.game.players == ()


async def test_a_client_says_goodbye(client: Program, world: World) -> None:
    await world.joined(client)
    await client.do("count", numbers=10)
    tally = world.player.data

    await client.do("close")

    assert await world.game.left.get() == "bye"
    assert (tally.up, tally.wrong) == (10, [])
