"""Spectators in every SDK, with real sockets: watching, drops, the end, a seat, and a server that is killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import holdfast
from holdfast import ClientRoom, ClientSession, Server, WebSocket
from holdfast.cli.demo.proxy import Cut, Proxy
from holdfast.core.codecs import CODECS
from tests.conformance.sdks import gallery
from tests.conformance.sdks.gallery import Finish, Gallery, Halfway, Promote
from tests.conformance.sdks.game import Pour
from tests.conformance.sdks.programs import Program, program
from tests.deadlines import TEST_S
from tests.e2e.serving import holdfast_process, read_until, websocket_address


class World(NamedTuple):
    """A gallery with one player on it, who does what the test wants."""

    server: Server
    proxy: Proxy
    player: ClientSession
    seat: ClientRoom

    @property
    def url(self) -> str:
        host, port = self.proxy.address
        return f"ws://{host}:{port}"

    @property
    def room(self) -> Gallery:
        (room,) = self.server.rooms
        assert isinstance(room, Gallery)
        return room

    async def pour(self, numbers: int) -> None:
        await self.seat.send(Pour(numbers))
        await self.seat.flush()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Server([Gallery], listen=[WebSocket(port=0)]) as server:
        address = server.addresses["websocket"]
        async with (
            Proxy(*address, random=Random(7), silent_s=0.2) as proxy,
            holdfast.connect(f"ws://{address[0]}:{address[1]}") as player,
        ):
            yield World(server, proxy, player, await player.join_or_create("gallery"))


async def watching(client: Program, world: World, **options: str) -> None:
    await client.do("connect", url=world.url, **options)
    await client.do("spectate", room=world.seat.id)


async def check(client: Program, *, down: int) -> None:
    """The client has all numbers, each once and in order."""
    heard = await client.do("heard", until=down)
    assert (heard["down"], heard["wrong"]) == (down, [])
    assert not client.has_had("unexpected")


@pytest.mark.parametrize("codec", CODECS)
async def test_a_client_watches_and_sends_what_spectators_may(client: Program, world: World, codec: str) -> None:
    await world.pour(3)
    await watching(client, world, codec=codec)

    await client.do("count", numbers=20)
    await world.pour(20)
    await client.do("flush")

    await check(client, down=23)
    (spectator,) = world.room.spectators
    assert (world.room.state.up, world.room.state.wrong) == ({spectator.id: 20}, [])
    await client.do("leave")
    assert world.room.spectators == ()


async def test_what_is_for_players_is_refused_to_a_spectator(client: Program, world: World) -> None:
    await watching(client, world)

    await client.do("pour", numbers=1)
    refused = await client.event("unexpected")

    assert "not_allowed" in str(refused["message"])
    assert world.room.state.down == 0


@pytest.mark.parametrize("manner", Cut)
async def test_a_spectator_who_is_cut_off_misses_nothing(client: Program, world: World, manner: Cut) -> None:
    await watching(client, world)
    counting = client.begin("count", numbers=500)
    await world.pour(200)

    await world.proxy.cut(manner)
    outcome = (await client.event("resume"))["outcome"]
    await counting
    await world.pour(200)
    await client.do("flush")

    assert outcome["kind"] == "resumed"
    await check(client, down=400)
    assert (list(world.room.state.up.values()), world.room.state.wrong) == ([500], [])


async def test_another_process_goes_on_watching(client: Program, world: World, sdk: str) -> None:
    await watching(client, world)
    await world.pour(10)
    await check(client, down=10)
    state = (await client.do("suspend"))["state"]
    await world.pour(5)

    async with program(sdk) as second:
        told = await second.do("connect", url=world.url, resume=state, down=10)

        assert told["outcome"] == {"kind": "resumed", "replayed": 5, "reason": ""}
        await check(second, down=15)


async def test_the_end_of_the_room_is_the_end_of_the_watching(client: Program, world: World) -> None:
    await watching(client, world)
    await world.pour(10)
    await world.seat.send(Finish())

    left = await client.event("left")

    assert left["reason"] == "room_closed"
    await check(client, down=10)
    assert not client.has_had("close")


async def test_a_spectator_is_given_a_seat_and_misses_nothing(client: Program, world: World) -> None:
    await watching(client, world)
    await world.pour(10)

    await world.seat.send(Promote())
    await world.pour(10)
    left = await client.event("left")
    seat = await client.do("seat")
    await client.do("pour", numbers=5)

    assert (left["reason"], seat["room"]) == ("seated", world.seat.id)
    await check(client, down=25)
    assert len(world.room.players) == 2
    assert world.room.spectators == ()


async def test_a_spectator_who_joins_misses_nothing(client: Program, world: World) -> None:
    await watching(client, world)
    await world.pour(10)
    await check(client, down=10)

    await client.do("join", room=world.seat.id)
    left = await client.event("left")
    await world.pour(10)

    assert left["reason"] == "seated"
    await check(client, down=20)
    assert world.room.spectators == ()


@asynccontextmanager
async def lasting(store: Path, port: int = 0) -> AsyncIterator[tuple[str, int]]:
    """The gallery in a process of its own, on a store; SIGKILL at the end of the block."""
    ports = ("--port", str(port), "--tcp-port", "0", "--http-port", "0")
    async with holdfast_process("serve", gallery.__file__, *ports, "--store", f"sqlite:{store}") as process:
        yield websocket_address(await read_until(process, "Press Ctrl-C to stop"))


async def test_a_server_that_is_killed_costs_a_spectator_nothing(client: Program, tmp_path: Path) -> None:
    store, port = tmp_path / "gallery.db", 0
    async with asyncio.timeout(TEST_S):
        async with lasting(store) as (host, port):
            url = f"ws://{host}:{port}"
            player = await holdfast.connect(url, give_up_s=60.0, messages=[Halfway])
            seat = await player.join_or_create("lasting_gallery")
            await client.do("connect", url=url)
            await client.do("spectate", room=seat.id)
            await client.do("count", numbers=50)
            await client.do("flush")
            asking = client.begin("ask", number=1, times=40, wait_s=0.002)
            await seat.receive(Halfway)
            await seat.send(Pour(100))
            counting = client.begin("count", numbers=50)
        async with lasting(store, port):
            outcome = (await client.event("resume"))["outcome"]
            answers = (await asking)["answers"]
            await counting
            await seat.send(Pour(100))
            await client.do("flush")

            assert outcome["kind"] == "resumed"
            assert answers == list(range(1, 41))
            await check(client, down=200)
            assert not client.has_had("resynced")
        await player.suspend()
