"""Crashes at every point of every commit, while clients talk all the time: nothing lost, nothing duplicated (I1–I4)."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

import pytest

from holdfast import Reset
from holdfast.server.durability.recovery import Pace
from holdfast.testing import Network
from tests.saved_sessions import storage_of
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.faults import FaultyStore, Moment
from tests.server.durability.rooms import Say, table

T = TypeVar("T")

MESSAGES = 30


async def talk(sitting: Sitting) -> None:
    for number in range(MESSAGES):
        await sitting.send(Say(str(number)))
        await asyncio.sleep(0.02)


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again if the server had forgotten the session: before its first seat is saved it is not meant to last."""
    try:
        return await ask()
    except Reset:
        return await ask()


async def sit_down(bench: Bench, name: str) -> Sitting:
    client = await bench.connect(name)
    return bench.reading(client, await insist(lambda: client.join_or_create("table")))


def check(bench: Bench, *players: Sitting) -> None:
    """What everybody heard is what the room has, and has everything that was sent, once and in order."""
    said = bench.room(players[0]).state.said
    for player in players:
        own = [line for line in said if line.startswith(f"{player.session.player_id}:")]
        assert own == [f"{player.session.player_id}:{number}" for number in range(MESSAGES)]
        assert bench.room(player).player(player.session.player_id).data.count == MESSAGES
    # Who sat down first has heard it all; the others everything since.
    assert players[0].texts == said
    for player in players[1:]:
        assert player.texts == said[len(said) - len(player.texts) :]


@pytest.mark.parametrize("moment", list(Moment))
@in_virtual_time
async def test_a_crash_at_any_point_loses_and_doubles_nothing(moment: Moment) -> None:
    paces: tuple[Pace, Pace] = ("eager", "lazy")
    for number in range(2, 40):
        # How rooms are read at the next start has nothing to do with which commit it was.
        pace = paces[number % 2]
        network = Network(Random(number), latency_s=0.005, jitter_s=0.01)
        async with Bench(table(), recovery=pace, network=network) as bench:
            bench.store.latency_s = 0.004
            bench.crash_at(number, moment)
            ada, bob = await sit_down(bench, "ada"), await sit_down(bench, "bob")
            await asyncio.gather(talk(ada), talk(bob))
            await ada.has_heard(f"bob:{MESSAGES - 1}")
            await ada.has_heard(f"ada:{MESSAGES - 1}")
            await until(lambda bob=bob, ada=ada: bob.texts[-1:] == ada.texts[-1:])  # type: ignore[misc]  # bound now

            assert bench.started == 2, number
            check(bench, ada, bob)
            assert {*ada.kinds, *bob.kinds} <= {"resumed", "reset"}, number


@pytest.mark.parametrize("seed", range(10))
@in_virtual_time
async def test_many_crashes_lose_and_double_nothing(seed: int) -> None:
    random = Random(seed)
    async with Bench(table(), network=Network(Random(seed), latency_s=0.005, jitter_s=0.02)) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        talking = asyncio.gather(talk(ada), talk(bob))
        for _ in range(8):
            bench.store.latency_s = 0.006
            await asyncio.sleep(random.uniform(0.0, 0.7))
            await bench.restart()
        await talking
        await ada.has_heard(f"bob:{MESSAGES - 1}")
        await ada.has_heard(f"ada:{MESSAGES - 1}")
        await until(lambda: bob.texts[-1:] == ada.texts[-1:])

        check(bench, ada, bob)
        assert {*ada.kinds, *bob.kinds} == {"resumed"}


@pytest.mark.parametrize("moment", list(Moment))
@in_virtual_time
async def test_a_join_and_a_leave_are_carried_out_once_whenever_the_server_crashes(moment: Moment) -> None:
    for number in range(2, 7):
        kind = table()
        async with Bench(kind) as bench:
            room = await bench.server.create_room("table")
            bench.store.latency_s = 0.004
            bench.crash_at(number, moment)
            client = await bench.connect("ada")

            seat = await insist(lambda: client.join(room.id))  # noqa: B023 - called at once
            await seat.send(Say("x"))
            await seat.flush()
            await seat.leave()
            await client.search()
            await a_moment(2.0)

            room_now: Any = bench.server.rooms.get(room.id)
            assert room_now.state.said == ["ada:x"], number
            assert room_now.state.left == ["ada"], number
            assert room_now.players == ()
            assert client.room is None


@in_virtual_time
async def test_a_token_that_was_rotated_survives_a_crash_right_after_the_welcome() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        for _ in range(3):
            bench.link(ada).cut()
            times = len(ada.outcomes) + 1
            await until(lambda times=times: len(ada.outcomes) == times)  # type: ignore[misc]  # bound now
            bench.crash()
            await bench.start()
            await ada.back(times + 1)

        assert set(ada.kinds) == {"resumed"}
        assert bench.server.counters.tokens_reused == 0


@pytest.mark.parametrize("resumes", [1, 2, 3])
@in_virtual_time
async def test_a_used_token_is_refused_after_a_crash_too_and_revokes_the_session(resumes: int) -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("x"))
        await ada.has_heard("ada:x")
        stolen = ada.session.protocol.save()
        for number in range(resumes):
            bench.link(ada).cut()
            await ada.back(number + 1)
            await ada.send(Say(str(number)))
            await ada.has_heard(f"ada:{number}")
        await a_moment()

        bench.dialer(ada).is_down = True
        await bench.restart()
        thief = await bench.connect("ada", saved=storage_of(stolen))
        await a_moment()

        assert thief.outcome is not None
        assert thief.outcome.kind != "resumed"
        assert bench.server.counters.tokens_reused == 1


@in_virtual_time
async def test_the_last_messages_of_a_seat_survive_a_crash() -> None:
    async with Bench(table()) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        bench.link(bob).stop_reading("client")
        await ada.send(Say("last"))
        await ada.has_heard("ada:last")
        bench.room(ada).player("bob").kick("enough")
        await a_moment()

        await bench.restart()
        await until(lambda: bob.room.left is not None)
        await a_moment()

        assert bob.texts == ["ada:last"]
        assert bob.room.left is not None
        assert (bob.room.left.reason, bob.room.left.message) == ("kicked", "enough")
        assert bob.kinds == ["resumed"]


def test_the_bench_kills_for_good() -> None:
    # A dead store answers nobody.
    @in_virtual_time
    async def main() -> None:
        async with Bench(table()) as bench:
            ada = await bench.sit("ada")
            store: FaultyStore = bench.store
            bench.crash()
            written = len(store.written)
            await a_moment(60.0)
            assert len(store.written) == written
            assert not ada.session.connected

    main()
