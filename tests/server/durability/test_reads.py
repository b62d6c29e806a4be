"""Requests that only read: their answers are not kept, and who asks again with the same id hears a fresh one."""

from typing import Any

import pytest
from msgspec import Raw

from holdfast import Auth, Limits
from holdfast.schemas.frames import Hello, Reply, Request, Welcome
from holdfast.testing import Named
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.faults import Moment
from tests.server.durability.rooms import table
from tests.server.raw_client import RawClient


async def _seated(bench: Bench) -> tuple[RawClient, Welcome]:
    client = await bench.raw()
    client.say(Hello(Auth(Named.scheme, "ada")))
    welcome = await client.hear(Welcome)
    await client.join("table")
    return client, welcome


def _request(client: RawClient, number: int, operation: str, **arguments: Any) -> Request:
    return Request(number, operation, Raw(client.codec.encode(arguments)))


async def _ids(client: RawClient, count: int) -> list[int]:
    return [(await client.hear(Reply)).id for _ in range(count)]


@pytest.mark.parametrize("operation", ["search", "mine", "watch"])
@in_virtual_time
async def test_what_only_reads_is_read_again_when_it_is_asked_again(operation: str) -> None:
    wish = {"watch": {"id": "w", "where": ""}}.get(operation, {})
    async with Bench(table(max_players=9)) as bench:
        client, _ = await _seated(bench)
        first = await client.request(operation, **wish)
        await bench.sit("bob")

        client.say(_request(client, first.id, operation, **wish))
        again = await client.hear(Reply)

        assert again.id == first.id
        assert (first.problem, again.problem) == (None, None)
        rooms = [reply.result if operation == "mine" else reply.result["rooms"] for reply in (first, again)]
        assert [room["players"] for (room,) in rooms] == [1, 2]


@in_virtual_time
async def test_what_is_asked_again_does_not_disturb_the_order_of_what_is_new() -> None:
    async with Bench(table()) as bench:
        client, welcome = await _seated(bench)
        for _ in range(3):
            await client.request("search")
        asked = [_request(client, number, "search") for number in range(1, 7)]

        client.say(asked[2], asked[3], asked[2], asked[4], asked[1], asked[5], asked[5])
        ids = await _ids(client, 5)
        back = await bench.raw()
        resumed = await back.resume(welcome)
        back.say(_request(back, 7, "leave"), asked[5])
        left = await back.hear(Reply)

        assert ids == [3, 4, 5, 2, 6]
        assert resumed.requests == 6
        assert (left.id, left.problem) == (7, None)
        assert await _ids(back, 1) == [6]


@pytest.mark.parametrize("moment", Moment)
@in_virtual_time
async def test_who_asks_again_after_a_crash_hears_the_answer(moment: Moment) -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.crash_at(bench.store.commits + 1, moment)

        found = await ada.session.search()
        await until(lambda: bench.started == 2)
        await ada.back()
        (session,) = bench.server.sessions.of_player("ada")
        await ada.room.leave()

        assert [info.id for info in found] == [ada.room.id]
        assert session.last_request == 3, "nothing was lost count of"


@in_virtual_time
async def test_many_searches_make_no_session_and_no_record_of_it_large() -> None:
    async with Bench(table(), limits=Limits(unjoined_s=3600.0)) as bench:
        ada = await bench.sit("ada")
        for _ in range(20):
            await bench.server.create_room("table", properties={"story": "x" * 1900})
        for _ in range(40):
            assert len(await ada.session.search(limit=100)) == 21
        await a_moment()

        (session,) = bench.server.sessions.of_player("ada")
        assert session.last_request == 41
        assert [reply.id for reply in session.replies] == [1], "of the join"
        assert len(bench.store.value(f"session/{session.id}")) < 2000
