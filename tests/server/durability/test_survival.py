"""What survives what: one test for each row of the table in docs/guide/durability.md, one case for each cell."""

from typing import Any

import pytest

from holdfast import Room
from tests.saved_sessions import storage_of, suspended
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.faults import NO_FAULT, Fault
from tests.server.durability.rooms import Say, Table, table


def each(memory: str, checkpoint: str, commit: str) -> pytest.MarkDecorator:
    """What the client is told, for each durability."""
    cells = {"memory": memory, "checkpoint": checkpoint, "commit": commit}
    return pytest.mark.parametrize(("durability", "told"), cells.items(), ids=cells)


def of(durability: str) -> type[Room[Any]]:
    class Kept(Table):
        checkpoint_s = 5.0

    Kept.durability = durability  # type: ignore[assignment]  # one of the three
    return table(Kept)


async def seated(bench: Bench) -> Any:
    ada = await bench.sit("ada")
    await ada.send(Say("1"), Say("2"))
    await ada.has_heard("ada:2")
    await a_moment()
    return ada


@each(memory="resumed", checkpoint="resumed", commit="resumed")
@in_virtual_time
async def test_the_players_wifi_fails(durability: str, told: str) -> None:
    async with Bench(of(durability)) as bench:
        ada = await seated(bench)

        bench.link(ada).cut()
        await ada.send(Say("3"))
        await ada.has_heard("ada:3")

        assert ada.kinds == [told]
        assert ada.texts == ["ada:1", "ada:2", "ada:3"]


@each(memory="resumed", checkpoint="resumed", commit="resumed")
@in_virtual_time
async def test_the_page_is_refreshed(durability: str, told: str) -> None:
    """A client that kept its state goes on in another process."""
    async with Bench(of(durability)) as bench:
        ada = await seated(bench)
        ada.stop()
        state = await suspended(ada.session)

        again = await bench.connect("ada", saved=storage_of(state))
        assert again.room is not None
        seat = bench.reading(again, again.room)
        await seat.send(Say("3"))
        await seat.has_heard("ada:3")

        assert again.id == ada.session.id
        assert getattr(bench.server.counters, told) == 1
        assert bench.room(ada).state.said == ["ada:1", "ada:2", "ada:3"]


@each(memory="new", checkpoint="new", commit="new")
@in_virtual_time
async def test_the_client_crashes_and_has_kept_nothing(durability: str, told: str) -> None:
    """The player signs in again: a new session, on the seat that was held, with the state sent anew."""
    kind = of(durability)
    async with Bench(kind) as bench:
        ada = await seated(bench)
        bench.link(ada).cut()
        ada.stop()

        again = await bench.sit("ada")
        await again.has_heard("state 2")
        await again.send(Say("3"))
        await again.has_heard("ada:3")

        assert told == "new"
        assert again.session.id != ada.session.id
        assert again.room.id == ada.room.id
        assert bench.room(again).player("ada").data.count == 3


@each(memory="reset", checkpoint="resumed", commit="resumed")
@in_virtual_time
async def test_the_server_is_restarted(durability: str, told: str) -> None:
    async with Bench(of(durability)) as bench:
        ada = await seated(bench)

        await bench.stop()
        await bench.start()
        await ada.back()

        assert ada.kinds == [told]
        if told == "resumed":
            await ada.send(Say("3"))
            await ada.has_heard("ada:3")
            assert ada.texts == ["ada:1", "ada:2", "ada:3"]


@each(memory="reset", checkpoint="resynced", commit="resumed")
@in_virtual_time
async def test_the_server_is_killed(durability: str, told: str) -> None:
    async with Bench(of(durability)) as bench:
        ada = await seated(bench)

        await bench.restart()
        outcome = await ada.back()

        assert outcome.kind == told
        if told != "reset":
            await ada.send(Say("3"))
            await ada.has_heard("ada:3")
            said = bench.room(ada).state.said
            # At most `checkpoint_s` are lost, and the client knows of how much.
            assert said == (["ada:1", "ada:2", "ada:3"] if told == "resumed" else ["ada:3"])
            if told == "resynced":
                assert outcome.age_s is not None
                assert 0.0 <= outcome.age_s <= 5.0 + 1.0


@each(memory="reset", checkpoint="resynced", commit="resumed")
@in_virtual_time
async def test_the_power_fails_in_the_middle_of_a_commit(durability: str, told: str) -> None:
    """What was on its way to the disk is gone; that SQLite keeps the rest is shown in tests/stores."""
    async with Bench(of(durability)) as bench:
        ada = await seated(bench)
        bench.store.hold()
        await ada.send(Say("3"))
        await a_moment()

        await bench.restart()
        outcome = await ada.back()

        assert outcome.kind == told
        if told == "resumed":
            await ada.has_heard("ada:3")
            assert ada.texts == ["ada:1", "ada:2", "ada:3"]
            assert bench.room(ada).state.said == ["ada:1", "ada:2", "ada:3"]


@each(memory="", checkpoint="busy", commit="busy")
@in_virtual_time
async def test_the_disk_is_full_for_a_while(durability: str, told: str) -> None:
    other = table(name="Other")
    async with Bench(of(durability), other) as bench:
        ada = await seated(bench)
        bob = await bench.sit("bob", "other")
        bench.store.fault = lambda _: Fault.UNAVAILABLE
        await bob.send(Say("x"))
        await ada.send(Say("3"))
        await a_moment(20.0)
        was_sent_away = not ada.session.connected

        bench.store.fault = NO_FAULT
        await ada.has_heard("ada:3")
        await bob.has_heard("bob:x")

        assert was_sent_away == (told == "busy")
        assert set(ada.kinds) <= {"resumed"}
        assert ada.texts == ["ada:1", "ada:2", "ada:3"]
        assert bench.room(ada).state.said == ["ada:1", "ada:2", "ada:3"]
        await until(lambda: bench.room(bob).state.said == ["bob:x"])
