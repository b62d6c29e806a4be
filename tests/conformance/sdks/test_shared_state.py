"""Shared state in every SDK, with real sockets: exact at each message, after drops, resyncs and restarts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from holdfast import Limits, Server, WebSocket
from holdfast.cli.demo.proxy import Proxy
from holdfast.core.codecs import CODECS
from tests.conformance.sdks.ledger import Ledgers
from tests.conformance.sdks.programs import Program, program
from tests.deadlines import DEADLINE_S

# So that a drop with much told in it is a resync.
SMALL = Limits(window_messages_max=8, kept_messages_max=16)


class World(NamedTuple):
    server: Server
    proxy: Proxy

    @property
    def url(self) -> str:
        host, port = self.proxy.address
        return f"ws://{host}:{port}"

    @property
    def room(self) -> Ledgers:
        (room,) = self.server.rooms
        assert isinstance(room, Ledgers)
        return room

    def turns(self, numbers: int, *, is_told: bool = True) -> None:
        """The room changes by itself, a turn for each."""
        for number in range(numbers):
            self.room.after(0.0, self.room.turn, "nobody", number, is_told)


@asynccontextmanager
async def serving(limits: Limits | None = None) -> AsyncIterator[World]:
    async with (
        Server([Ledgers], listen=[WebSocket(port=0)], limits=limits) as server,
        Proxy(*server.addresses["websocket"], random=Random(7), silent_s=0.2) as proxy,
    ):
        yield World(server, proxy)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serving() as world:
        yield world


async def seated(client: Program, world: World, **options: str) -> str:
    player = (await client.do("connect", url=world.url, **options))["player"]
    await client.do("join", kind="ledgers")
    return str(player)


async def counted(world: World, turns: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while world.room.state.turns < turns:  # noqa: ASYNC110 - the room has no event for it
            await asyncio.sleep(0.01)


async def agreed(client: Program, world: World, turns: int, player: str = "") -> dict[str, Any]:
    """Once the client has the state of so many turns: it is the room's, to the last byte."""
    async with asyncio.timeout(DEADLINE_S):
        while ((shared := await client.do("shared"))["state"] or {}).get("turns", 0) < turns:  # noqa: ASYNC110 - it is asked
            await asyncio.sleep(0.05)
    assert {"state": shared["state"], "players": shared["players"]} == world.room.seen()
    heard = await client.do("heard")
    assert (heard["wrong"], heard["stale"]) == ([], [])
    assert not client.has_had("unexpected")
    mine = None
    if player:
        (data,) = (each.data for each in world.room.players if each.id == player)
        mine = {"numbers": data.numbers, "coins": data.coins}
    assert shared["mine"] == mine
    return heard


@pytest.mark.parametrize("codec", CODECS)
async def test_each_message_finds_the_state_of_its_turn(client: Program, world: World, codec: str) -> None:
    player = await seated(client, world, codec=codec)

    for _ in range(20):
        await client.do("count", numbers=5, answers=1)
        await client.do("count", numbers=2)
    await client.do("flush")

    heard = await agreed(client, world, 140, player)
    assert heard["stateless"] == 0
    # The last of a pair that was not told may be one with the next.
    assert heard["changes"] > 100


@pytest.mark.parametrize("codec", CODECS)
async def test_a_state_of_400_kilobytes_comes_whole_and_follows(client: Program, world: World, codec: str) -> None:
    player = (await client.do("connect", url=world.url, codec=codec))["player"]
    room = await world.server.create_room("ledgers")
    assert isinstance(room, Ledgers)
    room.state.by_player = {f"a player with a long name {number:05}": number for number in range(12_000)}
    assert len(msgspec.json.encode(room.state)) > 400_000

    await client.do("join", kind="ledgers")
    await client.do("count", numbers=5, answers=1)

    await agreed(client, world, 5, str(player))


async def test_two_players_see_the_same_and_their_own(sdk: str, world: World) -> None:
    async with program(sdk) as first, program(sdk) as second:
        ada, bob = await seated(first, world), await seated(second, world)

        await asyncio.gather(*(each.do("count", numbers=40, answers=1) for each in (first, second)))

        await agreed(first, world, 80, ada)
        await agreed(second, world, 80, bob)


async def test_a_drop_costs_nothing(client: Program, world: World) -> None:
    player = await seated(client, world)
    for turns in (5, 10, 15):
        await client.do("count", numbers=3, answers=1)
        world.proxy.pull()
        await client.event("drop")
        world.turns(2)
        world.proxy.plug()

        assert (await client.event("resume"))["outcome"]["kind"] == "resumed"
        await agreed(client, world, turns, player)


async def test_who_was_away_for_long_gets_all_changes_that_were_not_told_as_one(client: Program, world: World) -> None:
    player = await seated(client, world)
    world.proxy.pull()
    await client.event("drop")
    world.turns(200, is_told=False)
    await counted(world, 200)
    world.proxy.plug()

    assert (await client.event("resume"))["outcome"]["kind"] == "resumed"
    heard = await agreed(client, world, 200, player)
    assert heard["changes"] < 20


async def test_after_a_resync_the_state_is_exact(client: Program) -> None:
    async with serving(SMALL) as world:
        player = await seated(client, world)
        world.proxy.pull()
        await client.event("drop")
        world.turns(100)
        await counted(world, 100)
        world.proxy.plug()

        assert (await client.event("resume"))["outcome"]["kind"] == "resynced"
        await agreed(client, world, 100, player)
        assert (await client.do("heard"))["words"] == ["resynced"]


async def test_another_process_gets_the_state_again(sdk: str, world: World) -> None:
    async with program(sdk) as first:
        player = await seated(first, world)
        await first.do("count", numbers=10, answers=1)
        await agreed(first, world, 10, player)
        state = (await first.do("suspend"))["state"]
    world.turns(3, is_told=False)

    async with program(sdk) as second:
        back = await second.do("connect", url=world.url, resume=state, down=10, up=10)
        assert (back["outcome"]["kind"], back["player"]) == ("resumed", player)

        await agreed(second, world, 13, player)
        await second.do("count", numbers=5, answers=1)
        heard = await agreed(second, world, 18, player)
        assert heard["stateless"] == 0


async def test_a_spectator_sees_what_is_public(sdk: str, world: World) -> None:
    async with program(sdk) as player, program(sdk) as watching:
        await seated(player, world)
        await watching.do("connect", url=world.url)
        await watching.do("spectate", room=world.room.id)

        await player.do("count", numbers=30, answers=1)

        await agreed(watching, world, 30)
