"""Bans of ranges of addresses, on real sockets: machines have many addresses of the range 127.0.0.0/8."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import pytest

from holdfast import Invalid, NotFound, Player, PlayerData, Reason, Server, Tcp, WebSocket, on
from holdfast.core.addresses import host_of
from holdfast.server.durability.recovery import Pace
from holdfast.testing import FaultyStore
from tests.deadlines import DEADLINE_S
from tests.server.access.kit import Hall, Say, back, hall, refused, seated, serving
from tests.server.directory.seats import patient
from tests.server.durability.bench import a_moment, in_virtual_time
from tests.server.foreign import MSGPACK, Foreigner, Frame, TcpWire
from tests.server.world import World, chat

BANNED = (4205, "banned")


@asynccontextmanager
async def calling(server: Server, address: str) -> AsyncIterator[Foreigner]:
    """Somebody who calls from an address of this machine, and has not said who they are."""
    host, port = server.addresses["tcp"]
    wire = TcpWire(*await asyncio.open_connection(host, port, local_addr=(address, 0)))
    try:
        await wire.send(MSGPACK.encode())
        assert await wire.receive() == MSGPACK.encode()
        yield Foreigner(wire, MSGPACK)
    finally:
        await wire.hang_up()


async def serve(world: World, **options: Any) -> Server:
    return await world.serve(chat(), listen=[WebSocket(port=0), Tcp(port=0)], **options)


async def refusal(server: Server, address: str, hello: Frame) -> tuple[int, str]:
    """How the server closes on who says this from there."""
    async with calling(server, address) as caller:
        await caller.say(hello)
        frame, end = await caller.hear_end()
        assert frame is not None
        return end


GUEST = ["hello", {"scheme": "guest"}]


async def test_nobody_from_a_banned_range_gets_in_and_everybody_else_does(world: World) -> None:
    server = await serve(world)

    await server.ban(address="127.0.2.0/24", why="a botnet")

    assert await refusal(server, "127.0.2.1", GUEST) == BANNED
    assert await refusal(server, "127.0.2.255", GUEST) == BANNED
    async with calling(server, "127.0.1.255") as ada, calling(server, "127.0.3.0") as bob:
        await ada.sign_in()
        await bob.sign_in()


async def test_live_connections_from_a_banned_range_end_with_their_sessions(world: World) -> None:
    server = await serve(world)
    async with (
        calling(server, "127.0.2.1") as ada,
        calling(server, "127.0.2.2") as stranger,
        calling(server, "127.0.3.1") as bob,
    ):
        welcome = await ada.sign_in()
        other = await bob.sign_in()

        await server.ban(address="127.0.2.0/24", why="a botnet")

        frame, end = await ada.hear_end()
        assert end == BANNED
        assert frame is not None
        assert "a botnet" in frame[3]
        assert (await stranger.hear_end())[1] == BANNED
        assert [str(session.id) for session in server.sessions] == [other[1]]
        assert (await bob.ask(1, "mine", {}))[3:] in ([], [None])
        resume = {"session": welcome[1], "token": welcome[3], "positions": []}
        assert await refusal(server, "127.0.3.1", ["hello", None, resume]) == (4101, "expired")


async def test_a_session_that_is_away_and_was_last_heard_from_there_ends_too(world: World) -> None:
    server = await serve(world)
    async with calling(server, "127.0.2.1") as ada, calling(server, "127.0.3.1") as bob:
        await ada.sign_in()
        await bob.sign_in()
    async with asyncio.timeout(DEADLINE_S):
        while any(session.connection is not None for session in server.sessions):  # noqa: ASYNC110 - a deadline
            await asyncio.sleep(0.01)

    await server.ban(address="127.0.2.0/24")

    assert [session.address for session in server.sessions] == ["127.0.3.1"]


async def test_a_token_is_not_taken_from_a_banned_range_but_its_session_lives(world: World) -> None:
    server = await serve(world)
    await server.ban(address="127.0.2.1")
    async with calling(server, "127.0.3.1") as ada:
        welcome = await ada.sign_in()
    resume = {"session": welcome[1], "token": welcome[3], "positions": []}

    assert await refusal(server, "127.0.2.1", ["hello", None, resume]) == BANNED

    async with calling(server, "127.0.3.1") as again:
        assert (await again.come_back(welcome))[1] == welcome[1]


async def test_a_credential_is_not_even_looked_at_from_a_banned_range(world: World) -> None:
    class Asked:
        scheme = "guest"

        def authenticate(self, credential: str, approach: object) -> Any:
            raise AssertionError("to check a password costs time")

    server = await serve(world, auth=[Asked()])
    await server.ban(address="127.0.2.1")

    assert await refusal(server, "127.0.2.1", GUEST) == BANNED
    assert server.counters.internal_errors == 0


async def test_a_range_is_lifted_by_any_way_to_write_it(world: World) -> None:
    server = await serve(world)
    ban = await server.ban(address="127.0.2.7/24")
    assert ban.subject == "address:127.0.2.0/24"

    with pytest.raises(NotFound):
        await server.unban(address="127.0.2.0/25")
    with pytest.raises(Invalid):
        await server.unban(address="127.0.2")
    await server.unban(address="::ffff:127.0.2.0/120")

    async with calling(server, "127.0.2.1") as ada:
        await ada.sign_in()
    assert server.bans() == []


async def test_of_several_bans_the_longest_is_told(world: World) -> None:
    server = await serve(world)
    until = server.parts.clock.wall_clock() + 600.0
    await server.ban(address="127.0.0.0/16", until=until, why="wide")
    await server.ban(address="127.0.2.0/24", why="for good")
    await server.ban(address="127.0.2.1", until=until + 60.0, why="narrow")

    access = server.parts.access
    assert getattr(access.bans.of("ada", "127.0.2.1"), "why", None) == "for good"
    assert getattr(access.bans.of("ada", "127.0.3.1"), "why", None) == "wide"
    assert access.bans.of("ada", "127.1.0.1") is None


async def test_ranges_of_ipv6_and_addresses_that_stand_for_ipv4_are_known(world: World) -> None:
    server = await serve(world)
    await server.ban(address="2001:db8::/32", why="six")
    await server.ban(address="203.0.113.0/24", why="four")
    access = server.parts.access

    def why(peer: str) -> str:
        ban = access.bans.of("", host_of(peer))
        return ban.why if ban is not None else ""

    assert why("[2001:db8:ffff::1]:5555") == "six"
    assert why("[2001:db9::1]:5555") == ""
    assert why("203.0.113.255:1") == "four"
    assert why("[::ffff:203.0.113.255]:1") == "four"
    assert why("memory:7") == ""


async def test_very_many_ranges_are_looked_at_by_their_length_and_not_one_by_one(world: World) -> None:
    server = await serve(world)
    access = server.parts.access
    await server.ban(address="10.0.0.0/24")
    # An address is parsed once.
    access.bans.of("", "10.8.0.9")
    with_one = calls_of(lambda: access.bans.of("", "10.8.0.9"))
    for number in range(1, 2000):
        await server.ban(address=f"10.{number // 250}.{number % 250}.0/24")

    with_many = calls_of(lambda: access.bans.of("", "10.8.0.9"))

    assert with_many == with_one > 0
    assert access.bans.of("", "10.7.249.9") is not None
    assert access.bans.of("", "10.8.0.9") is None


def calls_of(work: Callable[[], object]) -> int:
    """How many calls something takes, of Python's functions and of those in C."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


class Busy(Hall):
    """A room whose turns take their time."""

    kind = "hall"

    @on(Say)
    async def said(self, player: Player[PlayerData], say: Say) -> None:
        await asyncio.sleep(10.0)


@in_virtual_time
async def test_the_token_of_who_was_last_heard_from_a_banned_range_is_dead_after_a_crash_too() -> None:
    async with serving(Busy, store=FaultyStore(latency_s=0.1)) as server:
        ada, bob = await seated(server, "ada"), await seated(server, "bob")
        (session,) = server.sessions.of_player("ada")
        session.address = "203.0.113.7"
        bob.client.send(1, Say("one moment"))
        await a_moment(0.3)

        banning = asyncio.create_task(server.ban(address="203.0.113.0/24"))
        await a_moment(5.0)
        assert not banning.done(), "that the session is over is not saved before the turn of its room is"
        await banning
        server.crash()
        await server.start()

        assert (await refused(server, ada.welcome)).reason == Reason.EXPIRED
        assert (await back(server, bob.welcome)).outcome.kind == "resumed"


@pytest.mark.parametrize("recovery", ["eager", "lazy"])
@in_virtual_time
async def test_a_session_that_waits_since_before_a_restart_is_banned_by_its_last_address(recovery: Pace) -> None:
    async with serving(hall(max_players=1), recovery=recovery) as server:
        ada, bob, *_ = [await seated(server, name) for name in ("ada", "bob", *(f"p{number}" for number in range(9)))]
        (session,) = server.sessions.of_player("ada")
        session.address = "203.0.113.7"
        assert server.parts.committer is not None
        server.parts.committer.sessions.changed(session)
        await a_moment()
        server.crash()
        await server.start()

        await server.ban(address="203.0.113.0/24")

        assert (await refused(server, ada.welcome)).reason == Reason.EXPIRED
        assert (await back(server, bob.welcome)).outcome.kind == "resumed"


@in_virtual_time
async def test_a_range_with_very_many_sessions_is_banned_in_slices() -> None:
    async with serving(store=FaultyStore(), limits=patient(sessions_per_player_max=2000)) as server:
        agents = [server.open_agent(f"bot-{number}") for number in range(1200)]
        for agent in agents[::2]:
            agent.session.address = "203.0.113.7"
        left: list[int] = []

        async def look() -> None:
            while True:
                left.append(len(server.sessions))
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        await server.ban(address="203.0.113.0/24")
        looking.cancel()

        assert len(server.sessions) == 600
        assert set(left) > {1200, 600}, "others had their turn meanwhile"
