"""The same key and the same request are the same room, however often and from wherever it is asked for."""

import asyncio
import gc
from typing import Any

import pytest

from holdfast import Conflict, Expired, Failed, Limits, NotFound, Refused, Reset, Throttled
from tests.server.directory.test_create import gated, open_gate
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.faults import Moment
from tests.server.durability.rooms import Table, table
from tests.server.world import World, chat

WISH: dict[str, Any] = {
    "name": "arena",
    "properties": {"map": "sea", "tags": ["a", "b"]},
    "max_players": 4,
    "visibility": "private",
    "password": "sesame",
}


async def test_the_same_key_with_the_same_request_gives_the_same_room(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    ada = await world.connect(server)

    first = await ada.create("chat", **WISH, idempotency_key="k")
    turned = {**WISH, "properties": {"tags": ["a", "b"], "map": "sea"}}
    second = await ada.create("chat", **turned, idempotency_key="k")

    assert first == second
    assert len(server.rooms) == 1
    assert len(kind.story.of("on_create")) == 1


async def test_a_room_that_changed_since_is_given_as_it_is_now(world: World) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)
    first = await ada.create("chat", idempotency_key="k")
    await ada.update_room(first.id, name="renamed")

    second = await ada.create("chat", idempotency_key="k")

    assert (second.id, second.name) == (first.id, "renamed")


@pytest.mark.parametrize(
    "other",
    [
        {"name": "other"},
        {"properties": {"map": "sea"}},
        {"properties": {"map": "sea", "tags": ["b", "a"]}},
        {"max_players": 5},
        {"max_players": None},
        {"visibility": "public"},
        {"password": "open"},
    ],
    ids=str,
)
async def test_the_same_key_with_another_request_is_refused(world: World, other: dict[str, Any]) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)
    first = await ada.create("chat", **WISH, idempotency_key="k")

    with pytest.raises(Conflict, match="'k'"):
        await ada.create("chat", **{**WISH, **other}, idempotency_key="k")

    assert [room.id for room in server.rooms] == [first.id]


async def test_the_same_key_for_another_kind_is_refused(world: World) -> None:
    server = await world.serve(chat(), chat(kind="other"))
    ada = await world.connect(server)
    await ada.create("chat", idempotency_key="k")

    with pytest.raises(Conflict):
        await ada.create("other", idempotency_key="k")


async def test_keys_of_different_creators_do_not_meet(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)

    rooms = {
        (await ada.create("chat", idempotency_key="k")).id,
        (await bob.create("chat", name="another wish", idempotency_key="k")).id,
        (await server.create_room("chat", name="a third", idempotency_key="k")).id,
    }

    assert len(rooms) == len(server.rooms) == 3


async def test_without_a_key_every_request_is_another_room(world: World) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)

    assert (await ada.create("chat")).id != (await ada.create("chat")).id


# At the same time


async def test_of_a_hundred_who_ask_at_once_all_get_the_one_room(world: World) -> None:
    kind = gated()
    server = await world.serve(kind)
    asking = [asyncio.create_task(server.create_room("chat", idempotency_key="k")) for _ in range(100)]
    await kind.story.has("begin")

    open_gate(kind)
    rooms = await asyncio.gather(*asking)

    assert len({room.id for room in rooms}) == len(server.rooms) == 1
    assert len(kind.story.of("begin")) == 1
    assert server.counters.rooms_created == 1


async def test_another_request_with_the_key_of_a_room_in_the_making_is_refused_at_once(world: World) -> None:
    kind = gated()
    server = await world.serve(kind)
    making = asyncio.create_task(server.create_room("chat", idempotency_key="k"))
    await kind.story.has("begin")

    with pytest.raises(Conflict):
        await server.create_room("chat", name="other", idempotency_key="k")

    open_gate(kind)
    await making


async def test_who_asks_again_gets_the_room_also_if_the_first_has_stopped_asking(world: World) -> None:
    kind = gated()
    server = await world.serve(kind)
    first = asyncio.create_task(server.create_room("chat", idempotency_key="k"))
    await kind.story.has("begin")
    second = asyncio.create_task(server.create_room("chat", idempotency_key="k"))
    await asyncio.sleep(0)

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    open_gate(kind)
    room = await second

    assert await server.create_room("chat", idempotency_key="k") is room
    assert list(server.rooms) == [room]
    assert len(kind.story.of("begin")) == 1


async def test_a_room_that_nobody_waits_for_any_more_is_made_all_the_same(world: World) -> None:
    kind = gated()
    server = await world.serve(kind)
    asking = asyncio.create_task(server.create_room("chat", idempotency_key="k"))
    await kind.story.has("begin")

    asking.cancel()
    await asyncio.wait([asking])
    open_gate(kind)
    await kind.story.has("on_created")

    room = await server.create_room("chat", idempotency_key="k")
    assert list(server.rooms) == [room]


async def test_a_client_that_drops_while_it_asks_and_asks_again_has_one_room(world: World) -> None:
    kind = gated()
    server = await world.serve(kind)
    ada = await world.connect(server)
    asking = asyncio.create_task(ada.create("chat", idempotency_key="k"))
    await kind.story.has("begin")

    ada.cut()
    open_gate(kind)
    info = await asking
    again = await ada.create("chat", idempotency_key="k")

    assert again.id == info.id
    assert len(server.rooms) == 1


# What fails


async def test_a_refused_request_frees_its_key_for_any_other(world: World) -> None:
    kind = gated()
    open_gate(kind)
    server = await world.serve(kind)
    ada = await world.connect(server)

    for problem, error in (({"refuse": "no"}, Refused), ({"fail": "yes"}, Failed), ({"refuse": "no"}, Refused)):
        with pytest.raises(error):
            await ada.create("chat", config=problem, idempotency_key="k")
    with pytest.raises(NotFound):
        await ada.create("chess", idempotency_key="k")
    info = await ada.create("chat", idempotency_key="k")

    assert [room.id for room in server.rooms] == [info.id]


async def test_all_who_ask_at_once_hear_of_the_refusal_and_the_next_is_a_new_try(world: World) -> None:
    kind = gated()
    server = await world.serve(kind)
    wish: dict[str, Any] = {"config": {"refuse": "not today"}, "idempotency_key": "k"}
    asking = [asyncio.create_task(server.create_room("chat", **wish)) for _ in range(10)]
    # The next one asks as soon as it hears the answer, while others still wait for theirs.
    next_try = asyncio.create_task(_again_after(asking[0], server.create_room, wish))
    await kind.story.has("begin")

    open_gate(kind)
    answers = await asyncio.gather(*asking, return_exceptions=True)
    again = await asyncio.gather(next_try, return_exceptions=True)

    assert [str(answer) for answer in [*answers, *again]] == ["not today"] * 11
    assert len(kind.story.of("begin")) == 2


async def _again_after(first: "asyncio.Task[Any]", create: Any, wish: dict[str, Any]) -> Any:
    await asyncio.wait([first])
    return await create("chat", **wish)


async def test_a_refusal_that_nobody_heard_frees_the_key_too(world: World, caplog: pytest.LogCaptureFixture) -> None:
    kind = gated()
    server = await world.serve(kind)
    wish: dict[str, Any] = {"config": {"refuse": "no"}, "idempotency_key": "k"}
    asking = asyncio.create_task(server.create_room("chat", **wish))
    await kind.story.has("begin")
    asking.cancel()
    await asyncio.wait([asking])

    open_gate(kind)
    with pytest.raises(Refused, match="no"):
        await server.create_room("chat", **wish)
    room = await server.create_room("chat", idempotency_key="k")

    gc.collect()
    assert list(server.rooms) == [room]
    assert "never retrieved" not in caplog.text


async def test_a_server_that_stops_waits_for_no_room_in_the_making(world: World) -> None:
    kind = gated()
    server = await world.serve(kind)
    asking = [
        asyncio.create_task(server.create_room("chat", idempotency_key="k")),
        asyncio.create_task(server.create_room("chat")),
    ]
    await kind.story.has("begin", times=2)

    await server.stop()

    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Throttled, Throttled]


# Rooms that ended


@in_virtual_time
async def test_the_key_of_a_room_that_ended_is_expired_for_a_while_and_then_free_again() -> None:
    kind = table(durability="memory")
    async with Bench(kind, limits=Limits(ended_kept_s=100.0, unjoined_s=1000.0)) as bench:
        ada = await bench.connect("ada")
        first = await ada.create("table", idempotency_key="k")

        bench.server.rooms.runner(first.id).room.close()
        await a_moment()
        with pytest.raises(Expired, match="'k'"):
            await ada.create("table", idempotency_key="k")
        with pytest.raises(Conflict):
            await ada.create("table", name="other", idempotency_key="k")
        await a_moment(99.0)
        with pytest.raises(Expired):
            await ada.create("table", idempotency_key="k")
        await a_moment(2.0)
        second = await ada.create("table", name="other", idempotency_key="k")

        assert second.id != first.id


@in_virtual_time
async def test_of_rooms_that_ended_so_many_are_remembered_and_the_oldest_keys_are_free_again() -> None:
    kind = table(durability="memory")
    async with Bench(kind, limits=Limits(ended_kept_max=2)) as bench:
        for key in ("a", "b", "c"):
            (await bench.server.create_room("table", idempotency_key=key)).close()
            await a_moment()

        for key in ("b", "c"):
            with pytest.raises(Expired):
                await bench.server.create_room("table", idempotency_key=key)
        assert await bench.server.create_room("table", idempotency_key="a") in bench.server.rooms


# Across restarts


@pytest.mark.parametrize("pace", ["eager", "lazy"])
@pytest.mark.parametrize("durability", ["commit", "checkpoint"])
@in_virtual_time
async def test_the_same_key_gives_the_same_room_after_a_crash(pace: Any, durability: str) -> None:
    async with Bench(table(durability=durability), recovery=pace) as bench:
        ada = await bench.connect("ada")
        first = await ada.create("table", **WISH, idempotency_key="k")
        await bench.server.create_room("table", idempotency_key="k")

        await bench.restart()
        # At once: with the lazy pace the room itself is not back yet.
        of_server = await bench.server.create_room("table", idempotency_key="k")
        ada = await bench.connect("ada")
        again = await ada.create("table", **WISH, idempotency_key="k")
        with pytest.raises(Conflict):
            await ada.create("table", name="other", idempotency_key="k")

        assert again.id == first.id != of_server.id
        await a_moment()
        assert len(bench.server.rooms) == 2


@in_virtual_time
async def test_who_heard_nothing_before_the_crash_asks_again_and_has_one_room() -> None:
    async with Bench(table()) as bench:
        ada = await bench.connect("ada")
        bench.crash_at(bench.store.commits + 1, Moment.WRITTEN)

        [answer] = await asyncio.gather(ada.create("table", idempotency_key="k"), return_exceptions=True)
        await until(lambda: bench.started == 2)
        info = await ada.create("table", idempotency_key="k")

        assert isinstance(answer, Reset)
        assert [room.id for room in bench.server.rooms] == [info.id]


@in_virtual_time
async def test_a_room_that_ended_before_the_crash_has_left_its_key() -> None:
    async with Bench(table()) as bench:
        first = await bench.server.create_room("table", idempotency_key="k")
        first.close()
        await a_moment()

        await bench.restart()
        second = await bench.server.create_room("table", name="another wish", idempotency_key="k")

        assert second.id != first.id


class Refusing(Table):
    def on_create(self, config: dict[str, Any]) -> Any:
        raise Refused("no")


@in_virtual_time
async def test_a_durable_room_that_was_refused_is_not_in_the_store_and_its_key_is_free() -> None:
    async with Bench(table(Refusing), table(name="Other")) as bench:
        with pytest.raises(Refused):
            await bench.server.create_room("table", idempotency_key="k")
        other = await bench.server.create_room("other", idempotency_key="k")

        await bench.restart()

        assert [room.id for room in bench.server.rooms] == [other.id]
