"""Rooms that are saved now and then: quick, and honest about what a crash costs."""

from typing import Any

from holdfast import Resynced
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Said, Say, Table, table


def checkpointed(**settings: Any) -> type[Any]:
    return table(Table, durability="checkpoint", checkpoint_s=10.0, **settings)


def since_resync(sitting: Sitting) -> list[str]:
    """What the client heard after it was told of the last gap."""
    last = max(index for index, message in enumerate(sitting.heard) if isinstance(message, Resynced))
    return [message.text for message in sitting.heard[last:] if isinstance(message, Said)]


@in_virtual_time
async def test_what_a_checkpoint_room_says_is_not_delayed() -> None:
    async with Bench(checkpointed()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()

        await ada.send(Say("now"))

        await ada.has_heard("ada:now")
        await ada.room.flush()


@in_virtual_time
async def test_a_checkpoint_room_is_saved_at_its_rate() -> None:
    async with Bench(checkpointed()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        start = bench.store.commits

        for number in range(50):
            await ada.send(Say(str(number)))
            await a_moment(0.1)
        few = bench.store.commits - start
        await a_moment(11.0)

        assert few <= 1
        assert bench.store.commits - start <= 2
        assert b"ada:49" in bench.store.value(f"room/{ada.room.id}")


@in_virtual_time
async def test_after_a_crash_the_client_is_resynced_with_the_age_and_goes_on_exactly_once() -> None:
    kind = checkpointed()
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await ada.send(Say("saved"))
        await a_moment(11.0)
        await ada.send(*(Say(f"lost {number}") for number in range(5)))
        await bob.has_heard("ada:lost 4")
        await ada.room.flush()
        await a_moment(3.0)

        await bench.restart()
        outcome = await ada.back()
        await bob.back()
        await ada.send(*(Say(f"new {number}") for number in range(5)))
        await ada.has_heard("ada:new 4")
        await bob.has_heard("ada:new 4")

        assert outcome.kind == "resynced"
        assert outcome.age_s is not None
        assert 3.0 <= outcome.age_s <= 15.0
        assert "resync ada" in kind.story
        assert bench.room(ada).state.said == ["ada:saved", *(f"ada:new {number}" for number in range(5))]
        assert since_resync(ada) == ["state 1", *(f"ada:new {number}" for number in range(5))]
        assert since_resync(bob) == ["state 1", *(f"ada:new {number}" for number in range(5))]


@in_virtual_time
async def test_what_was_not_acknowledged_is_sent_again_to_a_checkpoint_room() -> None:
    async with Bench(checkpointed()) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("acked and lost"))
        await ada.room.flush()
        bench.link(ada).stall()
        await ada.send(Say("never arrived"))
        await a_moment(0.1)

        await bench.restart()
        await ada.has_heard("ada:never arrived")

        assert bench.room(ada).state.said == ["ada:never arrived"]


@in_virtual_time
async def test_a_second_crash_before_the_next_checkpoint_hides_nothing() -> None:
    async with Bench(checkpointed()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        await bench.restart()
        await ada.back()
        await ada.send(*(Say(f"first {number}") for number in range(5)))
        await ada.has_heard("ada:first 4")

        await bench.restart()
        outcome = await ada.back(2)
        await ada.send(*(Say(f"second {number}") for number in range(5)))
        await until(lambda: "ada:second 4" in ada.texts, within_s=20.0)

        assert outcome.kind == "resynced"
        assert since_resync(ada) == ["state 0", *(f"ada:second {number}" for number in range(5))]


@in_virtual_time
async def test_after_an_orderly_stop_a_checkpoint_room_goes_on_exactly() -> None:
    async with Bench(checkpointed()) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("1"), Say("2"))
        await ada.has_heard("ada:2")

        await bench.stop()
        await a_moment()
        await bench.start()
        outcome = await ada.back()
        await ada.send(Say("3"))
        await ada.has_heard("ada:3")

        assert outcome.kind == "resumed"
        assert ada.texts == ["ada:1", "ada:2", "ada:3"] == bench.room(ada).state.said


@in_virtual_time
async def test_joining_and_leaving_a_checkpoint_room_is_saved_at_once() -> None:
    async with Bench(checkpointed()) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await bob.room.leave()

        await bench.restart()
        await ada.back()

        assert [player.id for player in bench.room(ada).players] == ["ada"]
        await until(lambda: bob.session.connected)
        assert bob.session.room is None
