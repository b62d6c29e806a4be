"""What every SDK must do, with a real server and real sockets: nothing is lost, nothing comes twice, and it is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import cycle, islice
from random import Random
from typing import NamedTuple

import pytest

from holdfast import Announcement, Limits, Player, Server, Session, WebSocket
from holdfast.cli.demo.proxy import Cut, Proxy
from holdfast.core.codecs import CODECS
from tests.conformance.sdks.game import Counting, Down, Tally, Word, pour_down
from tests.conformance.sdks.programs import Program, program

# What is counted here is no flood, and soon more than is kept.
LIMITS = Limits(messages_burst=100_000, bytes_burst=64 * 1024 * 1024, window_messages_max=256, kept_messages_max=1024)
# Every server here knows the guests of every other.
SECRET = b"for tests and nothing else, 32 B"


class World(NamedTuple):
    server: Server
    proxy: Proxy

    @property
    def url(self) -> str:
        host, port = self.proxy.address
        return f"ws://{host}:{port}"

    def player(self, room_id: str) -> Player[Tally]:
        room = self.server.rooms.get(room_id)
        assert isinstance(room, Counting)
        (player,) = room.players
        return player

    async def pour(self, room_id: str, numbers: int) -> None:
        """Have the room say numbers, from outside of its turn."""
        await self.server.rooms.runner(room_id).call(pour_down, self.player(room_id), numbers)


@asynccontextmanager
async def a_world(limits: Limits = LIMITS) -> AsyncIterator[World]:
    async with (
        Server([Counting], listen=[WebSocket(port=0)], limits=limits, secret=SECRET) as server,
        Proxy(*server.addresses["websocket"], random=Random(7), silent_s=0.2) as proxy,
    ):
        yield World(server, proxy)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as world:
        yield world


async def seated(client: Program, world: World) -> str:
    """Sign in and take a seat; the room's id."""
    await client.do("connect", url=world.url)
    room = (await client.do("join"))["room"]
    assert isinstance(room, str)
    return room


async def check(client: Program, world: World, room_id: str, *, up: int, down: int) -> None:
    """Both sides have all numbers, each once and in order."""
    await client.do("flush")
    heard = await client.do("heard", until=down)
    tally = world.player(room_id).data
    assert (heard["down"], heard["wrong"]) == (down, [])
    assert (tally.up, tally.wrong) == (up, [])
    assert not client.has_had("unexpected")


@pytest.mark.parametrize("codec", CODECS)
async def test_a_client_signs_in_joins_and_speaks_both_ways(client: Program, world: World, codec: str) -> None:
    told = await client.do("connect", url=world.url, codec=codec)
    room = (await client.do("join"))["room"]
    await client.do("count", numbers=50)
    await client.do("pour", numbers=50)

    await check(client, world, room, up=50, down=50)
    assert told["outcome"] == {"kind": "new", "replayed": 0, "reason": ""}
    assert world.player(room).id == told["player"]


@pytest.mark.parametrize("manner", Cut)
async def test_a_link_that_is_cut_in_the_middle_of_the_talk_is_resumed(
    client: Program, world: World, manner: Cut
) -> None:
    room = await seated(client, world)
    counting = client.begin("count", numbers=1000)
    await client.do("pour", numbers=300)

    await world.proxy.cut(manner)
    await client.event("drop")
    outcome = (await client.event("resume"))["outcome"]
    await counting

    assert outcome["kind"] == "resumed"
    await check(client, world, room, up=1000, down=300)


async def test_many_cuts_lose_double_and_reorder_nothing(client: Program, world: World) -> None:
    room = await seated(client, world)
    down = up = 0

    for manner in islice(cycle(Cut), 9):
        down, up = down + 100, up + 200
        counting = client.begin("count", numbers=200)
        await client.do("pour", numbers=100)
        await world.proxy.cut(manner)
        await client.event("resume")
        await counting

    await check(client, world, room, up=up, down=down)


async def test_asks_are_answered_once_across_many_cuts(client: Program, world: World) -> None:
    room = await seated(client, world)
    answers: list[int] = []

    for manner in islice(cycle(Cut), 6):
        asking = client.begin("ask", number=1, times=50, wait_s=0.002)
        await world.proxy.cut(manner)
        await client.event("resume")
        answers += (await asking)["answers"]

    assert answers == list(range(1, 301))
    assert world.player(room).data.sum == 300
    assert not client.has_had("unexpected")


async def test_an_ask_that_is_refused_or_loses_its_seat_says_so(client: Program, world: World) -> None:
    room = await seated(client, world)
    refused = await client.attempt("ask", number=0)
    waiting = client.begin("ask", number=1, wait_s=30.0)
    world.player(room).kick("out")

    assert (refused["error"], refused["message"]) == ("not_allowed", "nothing to add")
    assert (await waiting)["error"] == "not_seated"
    assert not client.has_had("unexpected")


async def test_what_was_said_while_the_client_was_away_is_replayed_both_ways(client: Program, world: World) -> None:
    room = await seated(client, world)
    world.proxy.pull()
    await client.event("drop")

    await client.do("count", numbers=60)
    await world.pour(room, 40)
    world.proxy.plug()
    outcome = (await client.event("resume"))["outcome"]

    assert outcome == {"kind": "resumed", "replayed": 40, "reason": ""}
    await check(client, world, room, up=60, down=40)


async def test_a_burst_that_waited_for_the_network_does_not_drown_in_its_answers(client: Program, world: World) -> None:
    room = await seated(client, world)
    world.proxy.pull()
    await client.event("drop")

    counting = client.begin("count", numbers=1500, answers=2)
    world.proxy.plug()
    outcome = (await client.event("resume"))["outcome"]
    await counting

    assert outcome["kind"] == "resumed"
    await check(client, world, room, up=1500, down=3000)
    assert not client.has_had("drop")
    assert not client.has_had("resynced")


async def test_another_process_goes_on_where_one_was_suspended(client: Program, world: World, sdk: str) -> None:
    room = await seated(client, world)
    await client.do("count", numbers=10)
    await client.do("pour", numbers=10)
    await check(client, world, room, up=10, down=10)
    state = (await client.do("suspend"))["state"]
    await world.pour(room, 5)

    async with program(sdk) as second:
        told = await second.do("connect", url=world.url, resume=state, up=10, down=10)
        await second.do("count", numbers=10)

        assert told["outcome"] == {"kind": "resumed", "replayed": 5, "reason": ""}
        await check(second, world, room, up=20, down=15)


async def test_a_takeover_ends_the_first_client_and_it_does_not_fight(client: Program, world: World, sdk: str) -> None:
    room = await seated(client, world)
    await client.do("count", numbers=10)
    await client.do("pour", numbers=10)
    await check(client, world, room, up=10, down=10)
    state = (await client.do("save"))["state"]

    async with program(sdk) as second:
        told = await second.do("connect", url=world.url, resume=state, up=10, down=10)
        ended = await client.event("close")
        await second.do("count", numbers=10)
        await second.do("pour", numbers=10)

        assert ended["reason"] == "superseded"
        assert told["outcome"]["kind"] == "resumed"
        await check(second, world, room, up=20, down=20)
        assert not second.has_had("drop")


async def test_a_player_who_is_kicked_from_a_room_keeps_the_session(client: Program, world: World) -> None:
    room = await seated(client, world)
    world.player(room).kick("enough")

    left = await client.event("left")

    assert left["reason"] == "kicked"
    assert (await client.do("join"))["room"]
    assert not client.has_had("close")


async def test_a_session_that_is_kicked_ends_for_good(client: Program, world: World) -> None:
    told = await client.do("connect", url=world.url)
    session = world.server.sessions.get(told["session"])
    assert session is not None

    session.end("enough")

    assert (await client.attempt("join"))["error"] == "kicked"
    assert not client.has_had("drop")


async def test_a_closed_connection_is_resumed(client: Program, world: World) -> None:
    told = await client.do("connect", url=world.url)
    session = world.server.sessions.get(told["session"])
    assert session is not None

    session.disconnect("read it again")

    assert (await client.event("resume"))["outcome"]["kind"] == "resumed"


async def test_more_than_can_be_kept_is_declared_and_the_state_follows(client: Program, world: World) -> None:
    room = await seated(client, world)
    world.proxy.pull()
    await client.event("drop")

    await client.do("count", numbers=30)
    await world.pour(room, LIMITS.kept_messages_max + 1)
    world.proxy.plug()
    outcome = (await client.event("resume"))["outcome"]
    await client.event("resynced")
    await client.do("pour", numbers=10)

    assert outcome["kind"] == "resynced"
    await check(client, world, room, up=30, down=LIMITS.kept_messages_max + 11)
    assert world.player(room).data.resyncs == 1


async def test_the_state_comes_directly_behind_the_gap_also_if_the_room_was_busy(client: Program, world: World) -> None:
    room = await seated(client, world)
    world.proxy.pull()
    await client.event("drop")
    await world.pour(room, LIMITS.kept_messages_max + 1)
    may_go_on = asyncio.Event()

    async def work() -> None:
        await may_go_on.wait()
        pour_down(world.player(room), 5)

    working = asyncio.create_task(world.server.rooms.runner(room).call(work))
    world.proxy.plug()
    outcome = (await client.event("resume"))["outcome"]
    may_go_on.set()
    await working
    await client.event("resynced")
    await client.do("pour", numbers=3)

    assert outcome["kind"] == "resynced"
    await check(client, world, room, up=0, down=LIMITS.kept_messages_max + 9)


async def test_a_session_that_is_gone_is_reset_with_a_reason(client: Program, world: World) -> None:
    told = await client.do("connect", url=world.url)
    room = (await client.do("join"))["room"]
    world.proxy.pull()
    await client.event("drop")
    session = world.server.sessions.get(told["session"])
    assert session is not None

    session.end("gone")
    world.proxy.plug()
    outcome = (await client.event("resume"))["outcome"]

    assert outcome == {"kind": "reset", "replayed": 0, "reason": "expired"}
    assert await client.event("left")
    assert (await client.attempt("flush"))["error"] == "not_seated"
    assert (await client.do("join"))["room"] == room
    assert world.player(room).id == told["player"]


async def test_a_server_that_drains_says_so_and_the_next_one_is_found(client: Program, world: World) -> None:
    await seated(client, world)
    draining = asyncio.create_task(world.server.drain(within_s=30.0))
    stopping = await client.event("stopping")
    draining.cancel()

    async with a_world() as other:
        world.proxy.target = other.server.addresses["websocket"]
        await world.server.stop()
        outcome = (await client.event("resume"))["outcome"]

    assert 0 < stopping["deadline_s"] <= 30
    assert (outcome["kind"], outcome["reason"]) == ("reset", "expired")


async def test_a_client_leaves_and_says_goodbye(client: Program, world: World) -> None:
    room = await seated(client, world)
    await client.do("count", numbers=10)
    tally = world.player(room).data

    await client.do("leave")
    await client.do("close")

    assert (tally.up, tally.wrong) == (10, [])
    assert not client.has_had("drop")


# The session's own messages


def own_session(world: World, session_id: str) -> Session:
    session = world.server.sessions.get(session_id)
    assert session is not None
    return session


@pytest.mark.parametrize("codec", CODECS)
async def test_a_session_without_a_seat_hears_what_is_sent_to_it(client: Program, world: World, codec: str) -> None:
    told = await client.do("connect", url=world.url, codec=codec)
    session = own_session(world, told["session"])

    session.send(Word("here"))
    world.server.broadcast(Announcement("soon"))

    heard = (await client.do("receive", numbers=2))["messages"]
    assert heard == [["word", {"where": "here"}], ["holdfast.announcement", {"text": "soon"}]]


@pytest.mark.parametrize("manner", Cut)
async def test_messages_to_a_session_cross_cuts_once_and_in_order(client: Program, world: World, manner: Cut) -> None:
    told = await client.do("connect", url=world.url)
    room = (await client.do("join"))["room"]
    session = own_session(world, told["session"])
    hearing = client.begin("receive", numbers=300)

    for round_number in range(3):
        for number in range(100):
            session.send(Down(100 * round_number + number))
        counting = client.begin("count", numbers=100)
        await world.proxy.cut(manner)
        await client.event("resume")
        await counting

    assert (await hearing)["messages"] == [["down", {"number": number}] for number in range(300)]
    await check(client, world, room, up=300, down=0)


async def test_another_process_gets_what_the_first_has_not_dealt_with(client: Program, world: World, sdk: str) -> None:
    told = await client.do("connect", url=world.url)
    session = own_session(world, told["session"])
    for number in range(4):
        session.send(Down(number))
    await client.do("receive", numbers=2)
    state = (await client.do("save"))["state"]
    await client.stop()
    session.send(Down(4))

    async with program(sdk) as second:
        await second.do("connect", url=world.url, resume=state)
        heard = (await second.do("receive", numbers=4))["messages"]

    # What was received last counts as dealt with when the next one is asked for.
    assert heard == [["down", {"number": number}] for number in range(1, 5)]


async def test_what_could_not_be_kept_for_a_session_is_declared(client: Program) -> None:
    limits = replace(LIMITS, kept_messages_max=20, window_messages_max=10)
    async with a_world(limits) as world:
        told = await client.do("connect", url=world.url)
        session = own_session(world, told["session"])

        for number in range(50):
            session.send(Down(number))
        outcome = (await client.event("resume"))["outcome"]
        session.send(Down(99))

        assert outcome["kind"] == "resynced"
        heard = (await client.do("receive", numbers=2))["messages"]
        assert heard == [["holdfast.resynced", {}], ["down", {"number": 99}]]
