"""A room that came back from a checkpoint, and players who remember more of it than it does."""

from typing import Any

import pytest

from holdfast import Message, Resynced
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Said, Say, Table, table


def checkpointed(base: type[Any] = Table) -> type[Any]:
    return table(base, durability="checkpoint", checkpoint_s=10.0)


async def a_lost_past(bench: Bench) -> Sitting:
    """Ada has said three things, heard them and had them acknowledged; her room will not remember them."""
    ada = await bench.sit("ada")
    await ada.send(Say("saved"))
    await a_moment(11.0)
    await ada.send(*(Say(f"lost {number}") for number in range(3)))
    await ada.has_heard("ada:lost 2")
    await ada.room.flush()
    return ada


@pytest.mark.parametrize("said", [0, 1, 3, 10])
@in_virtual_time
async def test_who_was_away_during_a_crash_and_an_orderly_restart_hears_of_the_crash(said: int) -> None:
    async with Bench(checkpointed()) as bench:
        ada = await a_lost_past(bench)
        bench.dialer(ada).is_down = True

        await bench.restart()
        for number in range(said):
            bench.room(ada).broadcast(Said(f"meanwhile {number}"))
        await bench.stop()
        await bench.start()
        bench.dialer(ada).is_down = False
        outcome = await ada.back()
        await ada.send(Say("new"))
        await ada.has_heard("ada:new")

        assert outcome.kind == "resynced"
        assert outcome.age_s
        assert bench.room(ada).state.said == ["ada:saved", "ada:new"]


@in_virtual_time
async def test_who_has_heard_of_the_crash_resumes_after_an_orderly_restart() -> None:
    async with Bench(checkpointed()) as bench:
        ada = await a_lost_past(bench)
        await bench.restart()
        await ada.back()
        await ada.send(Say("new"))
        await ada.has_heard("ada:new")

        await bench.stop()
        await bench.start()
        outcome = await ada.back(2)
        await ada.send(Say("newer"))
        await ada.has_heard("ada:newer")

        assert (outcome.kind, outcome.age_s) == ("resumed", None)
        assert bench.room(ada).state.said == ["ada:saved", "ada:new", "ada:newer"]


@pytest.mark.parametrize("is_orderly", [False, True])
@pytest.mark.parametrize("restarts", [1, 3])
@in_virtual_time
async def test_who_lost_the_seat_and_missed_further_restarts_hears_of_the_crash_and_misses_no_message_to_the_session(
    restarts: int, is_orderly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with Bench(checkpointed()) as bench:
        ada = await a_lost_past(bench)
        letters: list[Message] = []
        ada.session.on_message(letters.append)
        bench.dialer(ada).is_down = True
        await bench.restart()
        (session,) = bench.server.sessions.of_player("ada")
        age_s = session.rewound_s

        bench.room(ada).player("ada").kick("go")
        session.send(Said("a letter"))
        await a_moment()
        for _ in range(restarts):
            if is_orderly:
                await bench.stop()
                await bench.start()
            else:
                await bench.restart()
            await a_moment(1.0)
        bench.dialer(ada).is_down = False
        outcome = await ada.back()
        await until(lambda: ada.room.left is not None)
        await until(lambda: letters)

        assert (outcome.kind, outcome.reason) == ("resynced", "rolled_back")
        assert outcome.age_s == pytest.approx(age_s, abs=0.001)
        assert letters == [Said("a letter")]
        assert bench.server.counters.clients_rolled_back == 0
        assert "the store is older" not in caplog.text


class Strict(Table):
    """Tells everybody three things after a crash and sends them away."""

    def on_recover(self) -> Any:
        for player in self.players:
            for number in range(3):
                player.send(Said(f"verdict {number}"))
            player.kick("the game is over")


@in_virtual_time
async def test_who_lost_the_seat_before_they_came_back_is_not_told_half_of_what_was_said() -> None:
    async with Bench(checkpointed(Strict)) as bench:
        ada = await a_lost_past(bench)
        before = list(ada.texts)

        await bench.restart()
        outcome = await ada.back()
        await until(lambda: ada.room.left is not None)

        assert outcome.kind == "resynced"
        assert ada.texts == before
        assert not any(isinstance(message, Resynced) for message in ada.heard)


@in_virtual_time
async def test_who_was_told_that_the_seat_is_gone_does_not_have_it_after_a_crash() -> None:
    async with Bench(checkpointed()) as bench:
        ada = await bench.sit("ada")
        await a_moment(11.0)
        bench.store.hold()
        bench.room(ada).player("ada").kick("go")
        await a_moment()

        await bench.restart()
        await ada.back()

        has_seat = bench.room(ada).player("ada") is not None
        assert has_seat is (ada.room.left is None)
