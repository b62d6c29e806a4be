"""`join_or_create` under many callers: no seat too many, no room twice, and nobody is refused a room that they did not
ask for."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from holdfast.client.session import ClientSession
from holdfast.core.addresses import AddressShares
from holdfast.core.errors import NotFound, Refused, Throttled
from holdfast.schemas.requests import Create
from holdfast.server.cluster.asking import Repeats
from holdfast.testing import run
from holdfast.testing.server import generous
from tests.server.cluster.nodes import Lounge, Nodes, in_virtual_time


class Single(Lounge):
    """One seat."""

    kind = "single"
    max_players = 1


class Slow(Single):
    """Takes its time to open, and each room another one."""

    kind = "slow"

    async def on_create(self, config: dict[str, Any]) -> None:  # type: ignore[override]
        await asyncio.sleep(self.random.random())
        super().on_create(config)


def seats(nodes: Nodes) -> Counter[str]:
    """How many seats each player has."""
    return Counter(
        seat.player_id
        for server in nodes.servers.values()
        for room in server.rooms
        for seat in server.rooms.runner(room.id).seats
    )


async def all_join(nodes: Nodes, callers: int, kind: str, **wish: Any) -> list[str]:
    """The rooms that so many players of all nodes are given who ask at once."""
    random = Random(callers)
    sessions: list[ClientSession] = []
    for start in range(0, callers, 100):
        names = [f"player {n}" for n in range(start, min(callers, start + 100))]
        sessions += await asyncio.gather(*(nodes.connect(name, random.choice("abc")) for name in names))
    rooms = await asyncio.gather(*(session.join_or_create(kind, **wish) for session in sessions))
    return [room.id for room in rooms]


def late_news(nodes: Nodes) -> Callable[..., float | None]:
    """Answers take longer than what nodes tell of their rooms, as with a node that has much to do."""
    random = Random(7)

    def fate(_sender: object, _receiver: object, topic: str) -> float | None:
        return 0.0 if topic.startswith("rows") else random.uniform(0.05, 0.4)

    return fate


@pytest.mark.parametrize("kind", ["single", "slow"])
@in_virtual_time
async def test_a_thousand_callers_on_three_nodes_get_a_room_of_one_seat_each(kind: str) -> None:
    async with Nodes("abc", rooms=(Single, Slow)) as nodes:
        rooms = await all_join(nodes, 1000, kind)

        assert len(set(rooms)) == 1000
        assert set(seats(nodes).values()) == {1}
        assert len(seats(nodes)) == 1000


@pytest.mark.parametrize("seed", range(4))
@in_virtual_time
async def test_nobody_is_refused_a_seat_though_others_find_the_new_room_before_its_creator(seed: int) -> None:
    async with Nodes("abc", rooms=(Single, Slow), seed=seed) as nodes:
        nodes.buses.fate = late_news(nodes)

        rooms = await all_join(nodes, 40, "single")

        assert len(set(rooms)) == 40
        assert set(seats(nodes).values()) == {1}


@in_virtual_time
async def test_a_thousand_callers_on_three_nodes_fill_rooms_of_eight_without_a_seat_too_many() -> None:
    async with Nodes("abc") as nodes:
        counts = Counter(await all_join(nodes, 1000, "lounge"))

        assert sorted(counts.values()) == [8] * 125
        assert sum(seats(nodes).values()) == 1000


@in_virtual_time
async def test_callers_with_one_key_on_three_nodes_make_one_room() -> None:
    async with Nodes("abc") as nodes:
        wanted = Create("lounge", idempotency_key="one")

        made = await asyncio.gather(
            *(nodes.servers[name].rooms.create(wanted, "ann") for name in "abc" * 20), return_exceptions=True
        )

        # The other nodes say where it is.
        ids = {made_or_not.room_id if isinstance(made_or_not, NotFound) else made_or_not.id for made_or_not in made}  # type: ignore[union-attr]  # a room, or where it is
        assert len(ids) == 1
        assert sum(len(server.rooms) for server in nodes.servers.values()) == 1


# A share for each address and each player


def shared(kept_max: int = 8) -> Repeats:
    return Repeats(AddressShares(0.25), kept_s=10.0, kept_max=kept_max)


def test_one_address_takes_a_share_of_what_a_node_does_for_others_and_never_all() -> None:
    async def work() -> str:
        await asyncio.sleep(5.0)
        return "done"

    async def flood() -> None:
        repeats = shared()
        flooding = [
            asyncio.create_task(repeats.once(f"{n}", work, player=f"player {n}", address="203.0.113.7"))
            for n in range(100)
        ]
        await asyncio.sleep(0)
        calm = [
            asyncio.create_task(repeats.once(f"calm {n}", work, player=f"calm {n}", address=f"198.51.100.{n}"))
            for n in range(6)
        ]

        answers = await asyncio.gather(*flooding, return_exceptions=True)

        assert [await each for each in calm] == ["done"] * 6
        assert sum(answer == "done" for answer in answers) == 2
        assert sum(isinstance(answer, Throttled) for answer in answers) == 98
        # What is done makes way for what is new, and keeps nobody out.
        assert await repeats.once("later", work, player="another", address="203.0.113.7") == "done"
        assert len(repeats) <= 8

    run(flood())


def test_one_player_takes_a_share_from_however_many_addresses() -> None:
    async def work() -> str:
        await asyncio.sleep(5.0)
        return "done"

    async def flood() -> None:
        repeats = shared()
        answers = await asyncio.gather(
            *(repeats.once(f"{n}", work, player="ann", address=f"203.0.113.{n}") for n in range(50)),
            return_exceptions=True,
        )
        assert sum(answer == "done" for answer in answers) == 2

    run(flood())


def test_the_same_work_is_done_once_and_its_result_is_kept_for_a_while() -> None:
    begun: list[int] = []

    async def work() -> int:
        begun.append(len(begun))
        await asyncio.sleep(1.0)
        return len(begun)

    async def ask() -> None:
        repeats = shared()
        asked = [repeats.once("same", work, player="ann", address="") for _ in range(5)]
        assert await asyncio.gather(*asked) == [1] * 5
        await asyncio.sleep(9.0)
        assert await repeats.once("same", work, player="ann", address="") == 1
        await asyncio.sleep(2.0)
        assert await repeats.once("same", work, player="ann", address="") == 2
        await asyncio.sleep(11.0)
        assert len(repeats) == 0

    run(ask())


@in_virtual_time
async def test_a_calm_player_is_answered_in_time_while_others_flood_the_nodes_with_requests() -> None:
    limits = replace(generous(), questions_kept_max=24, address_share=0.25)
    async with Nodes("abc", rooms=(Lounge, Single, Slow), limits=limits) as nodes:
        host = await nodes.connect("host", "b")
        room = await host.create("lounge")
        flooding = [await nodes.connect(f"flood {n}", "a") for n in range(30)]
        for session in nodes.a.sessions:
            session.address = "203.0.113.7"
        calm = await nodes.connect("calm", "a")
        [own] = nodes.a.sessions.of_player("calm")
        own.address = "198.51.100.9"

        async def flood(session: ClientSession) -> None:
            for _ in range(20):
                try:
                    await session.join_or_create("slow", where="players > 5")
                    assert session.room is not None
                    await session.room.leave()
                except Refused:
                    await asyncio.sleep(0.05)

        tasks = [asyncio.create_task(flood(each)) for each in flooding]
        await asyncio.sleep(0.2)
        for _ in range(10):
            async with asyncio.timeout(1.0):
                joined = await calm.join_or_create("lounge")
            assert joined.id == room.id
            await joined.leave()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
