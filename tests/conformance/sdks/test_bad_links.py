"""A backlog gets through real links that are slow or break, in every SDK. By the numbers: `simulation/bad_links.py`.

Everything is scaled down, or it would take minutes: the server allows less silence, and the link carries more.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from holdfast import Limits, Server, WebSocket
from tests.conformance.sdks.game import Counting, Tally, pour_down
from tests.conformance.sdks.programs import Program
from tests.conformance.sdks.throttle import Throttle

# In one payload, what waits would take three times as long as nothing may be heard.
NUMBERS = 450
LIMITS = Limits(ping_s=0.3, silence_s=1.0)
SLOW_BYTES_PER_S = 4_000.0
QUICK_BYTES_PER_S = 100_000.0
BREAKS_AFTER_BYTES = 4_000.0


@asynccontextmanager
async def backlog(client: Program) -> AsyncIterator[tuple[Throttle, Tally]]:
    """A client that is away, and much that waits on both ends."""
    async with (
        Server([Counting], listen=[WebSocket(port=0)], limits=LIMITS) as server,
        Throttle(*server.addresses["websocket"]) as link,
    ):
        host, port = link.address
        await client.do("connect", url=f"ws://{host}:{port}")
        room_id = (await client.do("join"))["room"]
        room = server.rooms.get(room_id)
        assert isinstance(room, Counting)
        (player,) = room.players
        link.is_open = False
        link.cut()
        await client.event("drop")
        await server.rooms.runner(room_id).call(pour_down, player, NUMBERS)
        await client.do("count", numbers=NUMBERS)
        yield link, player.data


async def all_is_there(client: Program, tally: Tally) -> None:
    await client.do("flush")
    heard = await client.do("heard", until=NUMBERS)
    assert (heard["down"], heard["wrong"]) == (NUMBERS, [])
    assert (tally.up, tally.wrong) == (NUMBERS, [])
    assert not client.has_had("resynced")


async def test_a_backlog_gets_through_a_slow_link_both_ways(client: Program) -> None:
    async with backlog(client) as (link, tally):
        link.bytes_per_s = SLOW_BYTES_PER_S

        link.is_open = True

        await all_is_there(client, tally)


async def test_a_backlog_gets_through_links_that_break_again_and_again(client: Program) -> None:
    async with backlog(client) as (link, tally):
        random = Random(1)
        link.bytes_per_s = QUICK_BYTES_PER_S
        link.lasts_bytes = lambda: random.expovariate(1 / BREAKS_AFTER_BYTES)

        link.is_open = True

        await all_is_there(client, tally)
        assert link.links > 3
