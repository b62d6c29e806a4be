"""Bans of players: until when, why, how many, and that they outlive a restart."""

import gc
import tracemalloc
from datetime import UTC, datetime
from math import inf, nan

import pytest

from holdfast import Invalid, NotFound, Reason, Server, Throttled
from holdfast.schemas.ban import BanInfo
from holdfast.schemas.events import BanLifted, Banned, Event
from holdfast.schemas.requests import Ban
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.access.kit import hall, operator, serving, sign_in, turned_away
from tests.server.directory.seats import patient
from tests.server.durability.bench import a_moment, in_virtual_time


def _told(server: MemoryServer) -> list[Event]:
    told: list[Event] = []
    server.on(Banned, told.append)
    server.on(BanLifted, told.append)
    return told


def _saved(store: FaultyStore, prefix: str) -> list[str]:
    return [key for key in store.disk.entries if key.startswith(prefix)]


# A player


@in_virtual_time
async def test_who_is_banned_is_told_until_when_and_why() -> None:
    async with serving() as server:
        await a_moment(1000.0)
        await server.ban(player="ada", until=server.parts.clock.wall_clock() + 7200.0, why="be nice")

        close = await turned_away(server, "ada")

        assert (close.code, close.reason) == (4205, Reason.BANNED)
        assert close.message == "banned until 1970-01-01 02:16 UTC: be nice"
        await sign_in(server, "bob")


@in_virtual_time
async def test_a_ban_for_good_needs_no_reason() -> None:
    async with serving() as server:
        await server.ban(player="ada")

        assert (await turned_away(server, "ada")).message == "banned"


@in_virtual_time
async def test_a_ban_ends_by_itself_and_is_forgotten() -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        told = _told(server)
        await server.ban(player="ada", until=server.parts.clock.wall_clock() + 60.0)

        await a_moment(59.9)
        assert (await turned_away(server, "ada")).reason == Reason.BANNED
        await a_moment(0.2)

        await sign_in(server, "ada")
        assert server.bans() == []
        assert _saved(store, "ban/") == []
        assert [event.name for event in told] == ["ban.set", "ban.lifted"]


@in_virtual_time
async def test_bans_end_in_their_order_also_if_one_was_replaced() -> None:
    async with serving() as server:
        now = server.parts.clock.wall_clock()
        for name, seconds in (("ada", 30.0), ("bob", 10.0), ("cleo", 20.0), ("bob", 40.0)):
            await server.ban(player=name, until=now + seconds)

        left = []
        for _ in range(5):
            left.append([ban.subject for ban in server.bans()])
            await a_moment(10.0)

        assert left == [
            ["player:ada", "player:cleo", "player:bob"],
            ["player:ada", "player:cleo", "player:bob"],
            ["player:ada", "player:bob"],
            ["player:bob"],
            [],
        ]


@in_virtual_time
async def test_an_operator_lifts_a_ban() -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        told = _told(server)
        await server.ban(player="ada", why="be nice")

        await server.unban(player="ada")

        await sign_in(server, "ada")
        assert _saved(store, "ban/") == []
        await a_moment()
        assert [event.name for event in told] == ["ban.set", "ban.lifted"]
        with pytest.raises(NotFound, match="player:ada"):
            await server.unban(player="ada")


@in_virtual_time
async def test_a_ban_takes_the_place_of_the_one_before() -> None:
    async with serving() as server:
        await server.ban(player="ada", until=server.parts.clock.wall_clock() + 10.0, why="first")

        await server.ban(player="ada", why="second")
        await a_moment(20.0)

        assert (await turned_away(server, "ada")).message == "banned: second"
        assert [ban.why for ban in server.bans()] == ["second"]


@in_virtual_time
async def test_until_may_be_a_date() -> None:
    async with serving() as server:
        ban = await server.ban(player="ada", until=datetime(2030, 1, 31, 18, tzinfo=UTC))

        assert ban == BanInfo("player:ada", "", 1_896_112_800.0, ban.since)


# Until it cannot be meant


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({}, "either a player or an address"),
        ({"player": "ada", "address": "203.0.113.7"}, "either a player or an address"),
        ({"player": "a" * 129}, "at most 128|1 to 128 characters; got 129"),
        ({"player": "\ud800"}, "not valid Unicode"),
        ({"address": "203.0.113.0/33"}, "not a range of addresses; use the form"),
        ({"player": "ada", "until": 1.0}, "must be in the future"),
        ({"player": "ada", "until": -1.0}, "must be in the future"),
        ({"player": "ada", "until": inf}, "before the year 10000"),
        ({"player": "ada", "until": nan}, "must be in the future"),
        ({"player": "ada", "until": datetime(2030, 1, 31)}, "time zone"),  # noqa: DTZ001 - that it is missing
        ({"player": "ada", "why": "x" * 257}, "at most 256 characters; got 257"),
    ],
)
@in_virtual_time
async def test_a_ban_that_cannot_be_meant_is_refused(wish: dict[str, object], says: str) -> None:
    async with serving() as server:
        await a_moment(1000.0)

        with pytest.raises(Invalid, match=says):
            await server.ban(**wish)  # type: ignore[arg-type]  # that it is refused is the claim

        assert server.bans() == []


@in_virtual_time
async def test_a_ban_is_until_a_moment_or_for_a_while_not_both() -> None:
    async with serving() as server:
        with pytest.raises(Invalid, match="until or for_s"):
            await server.machine.do(operator(server).access.ban(Ban(player="ada", until=9e9, for_s=10.0)))


@pytest.mark.parametrize("subject", ["ada", "player:", "player:bob", "address:203.0.113.7", ""])
@in_virtual_time
async def test_there_is_nothing_to_lift_where_there_is_no_ban(subject: str) -> None:
    async with serving() as server:
        await server.ban(player="ada")

        with pytest.raises(NotFound, match="player:ID or address:RANGE"):
            await server.machine.do(operator(server).access.unban(subject))


# How many


@in_virtual_time
async def test_there_are_no_more_bans_than_the_limit() -> None:
    async with serving(limits=patient(bans_max=2)) as server:
        await server.ban(player="ada", until=server.parts.clock.wall_clock() + 10.0)
        await server.ban(address="203.0.113.0/24")

        with pytest.raises(Throttled, match="2 bans are in force"):
            await server.ban(player="cleo")
        await server.ban(player="ada", until=server.parts.clock.wall_clock() + 20.0)
        assert [ban.subject for ban in server.bans()] == ["address:203.0.113.0/24", "player:ada"]
        await a_moment(20.5)
        await server.ban(player="cleo")

        assert [ban.subject for ban in server.bans()] == ["address:203.0.113.0/24", "player:cleo"]


@in_virtual_time
async def test_a_ban_that_is_replaced_again_and_again_does_not_pile_up() -> None:
    limits = patient(bans_max=2, events_kept_max=16)
    async with serving(hall(durability="memory"), limits=limits, store=None) as server:

        async def ban_again_and_again(times: int) -> int:
            """How many bytes more are in use afterwards."""
            before, _ = tracemalloc.get_traced_memory()
            for number in range(times):
                await server.ban(player="ada", until=server.parts.clock.wall_clock() + 100.0 + number)
            gc.collect()
            return tracemalloc.get_traced_memory()[0] - before

        tracemalloc.start()
        try:
            await ban_again_and_again(100)
            grown = await ban_again_and_again(2000)
        finally:
            tracemalloc.stop()

        # Each that piled up would keep its end and its subject: more than 100 bytes.
        assert grown < 2000 * 100


@in_virtual_time
async def test_bans_are_shown_page_by_page() -> None:
    async with serving() as server:
        for number in range(7):
            await server.ban(
                player=f"p{number}", until=server.parts.clock.wall_clock() + (0.5 if number == 3 else 100.0)
            )
        await a_moment(1.0)
        desk = operator(server)

        first = desk.access.bans.page(4, "")
        second = desk.access.bans.page(4, first.cursor)

        assert [ban.subject for ban in first.bans] == [f"player:p{number}" for number in (0, 1, 2, 4)]
        assert [ban.subject for ban in second.bans] == ["player:p5", "player:p6"]
        assert second.cursor == ""


# A restart


@in_virtual_time
async def test_bans_outlive_a_crash_and_those_that_ended_meanwhile_are_dropped() -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        kept = await server.ban(player="ada", until=server.parts.clock.wall_clock() + 100.0, why="be nice")
        await server.ban(player="bob", until=server.parts.clock.wall_clock() + 10.0)
        await server.ban(player="cleo")
        await server.unban(player="cleo")
        await a_moment()
        for_good = await server.ban(address="203.0.113.0/24")

        server.crash()
        await a_moment(20.0)
        await server.start()
        await a_moment()

        assert server.bans() == [kept, for_good]
        assert (await turned_away(server, "ada")).message.endswith("be nice")
        await sign_in(server, "bob")
        await sign_in(server, "cleo")
        assert len(_saved(store, "ban/")) == 2
        await a_moment(80.0)
        await sign_in(server, "ada")


@in_virtual_time
async def test_a_damaged_record_of_a_ban_does_not_keep_the_server_from_starting() -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        await server.ban(player="ada")
        (key,) = _saved(store, "ban/")
        entry = store.disk.entries[key]
        store.disk.entries[key] = entry._replace(value=entry.value[:-1])

        server.crash()
        await server.start()

        assert server.bans() == []
        await server.ban(player="ada")
        server.crash()
        await server.start()
        assert [ban.subject for ban in server.bans()] == ["player:ada"]


@in_virtual_time
async def test_without_a_store_a_restart_forgets() -> None:
    async with serving(hall(durability="memory"), store=None) as server:
        await server.ban(player="ada")
        assert (await turned_away(server, "ada")).reason == Reason.BANNED

        await server.stop()
        await server.start()

        await sign_in(server, "ada")


def test_a_server_that_does_not_run_bans_nobody() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        Server([]).bans()
