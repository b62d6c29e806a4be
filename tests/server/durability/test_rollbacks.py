"""A store that went back in time (a restored backup, a lost tail), and clients who know more than it does."""

import logging
from collections.abc import Awaitable, Callable

import pytest

from holdfast import ClientSession, Effect, Limits, Resynced
from holdfast.events import RolledBack
from holdfast.server.durability.recovery import Pace
from holdfast.testing import MemoryStorage
from tests.saved_sessions import storage_of, suspended
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Do, Said, Say, table


def since_resync(sitting: Sitting) -> list[str]:
    """What the room said after it declared the gap."""
    last = max(at for at, message in enumerate(sitting.heard) if isinstance(message, Resynced))
    return [message.text for message in sitting.heard[last:] if isinstance(message, Said)]


async def say(sitting: Sitting, *words: str) -> None:
    """Say it, hear it, and have it acknowledged."""
    await sitting.send(*map(Say, words))
    await sitting.has_heard(f"{sitting.session.player_id}:{words[-1]}")
    await sitting.room.flush()


async def listener(bench: Bench) -> Sitting:
    ada = await bench.sit("ada")
    await say(ada, "saved")
    return ada


@pytest.mark.parametrize("meanwhile", [0, 1, 3, 4, 10])
@in_virtual_time
async def test_a_listener_of_another_history_is_told_so_however_far_the_room_went_on(meanwhile: int) -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await a_moment(60.0)
        for number in range(3):
            bench.room(ada).broadcast(Said(f"lost {number}"))
        await ada.has_heard("lost 2")
        bench.dialer(ada).is_down = True

        await bench.restore(backup)
        for number in range(meanwhile):
            bench.room(ada).broadcast(Said(f"other {number}"))
        await a_moment()
        bench.dialer(ada).is_down = False
        outcome = await ada.back()
        bench.room(ada).broadcast(Said("after"))
        await ada.has_heard("after")

        assert (outcome.kind, outcome.reason) == ("resynced", "rolled_back")
        assert outcome.age_s is not None
        assert 60.0 <= outcome.age_s <= 70.0
        assert since_resync(ada) == ["state 1", "after"]


@in_virtual_time
async def test_a_listener_that_has_not_read_all_of_another_history_does_not_mix_it_with_ours() -> None:
    async with Bench(table()) as bench:
        client = await bench.connect("ada")
        room = await client.join_or_create("table")
        backup = bench.backup()
        server_room = bench.server.rooms.get(room.id)
        assert server_room is not None
        server_room.broadcast(Said("lost 0"))
        server_room.broadcast(Said("lost 1"))
        await a_moment()  # both have come, and are not read

        await bench.restore(backup)
        server_room = bench.server.rooms.get(room.id)
        assert server_room is not None
        for number in range(4):
            server_room.broadcast(Said(f"other {number}"))
        await until(lambda: _is_back(client))
        messages = [await room.receive() for _ in range(2)]

        assert client.outcome is not None
        assert client.outcome.reason == "rolled_back"
        assert messages == [Resynced(), Said("state 0")]


@in_virtual_time
async def test_a_sender_whose_acknowledged_messages_are_forgotten_is_told_so_and_goes_on() -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await say(ada, "lost 0", "lost 1")

        await bench.restore(backup)
        outcome = await ada.back()
        await say(ada, "new 0", "new 1")

        assert (outcome.kind, outcome.reason) == ("resynced", "rolled_back")
        assert bench.room(ada).state.said == ["ada:saved", "ada:new 0", "ada:new 1"]
        assert since_resync(ada) == ["state 1", "ada:new 0", "ada:new 1"]


@pytest.mark.parametrize("is_killed", [False, True])
@in_virtual_time
async def test_a_saved_sender_that_reads_nothing_is_told_so_as_well(is_killed: bool) -> None:
    async with Bench(table()) as bench:
        storage = MemoryStorage()
        client = await bench.connect("ada", saved=storage)
        room = await client.join_or_create("table")
        await room.send(Say("saved"))
        await room.flush()
        backup = bench.backup()
        await room.send(Say("lost"))
        await room.flush()
        await a_moment()
        if is_killed:
            bench.dialer(client).is_down = True
            bench.link(client).cut()

        await bench.restore(backup)
        if is_killed:
            client = await bench.connect("ada", saved=MemoryStorage(storage.written))
        await until(lambda: _is_back(client))

        assert client.outcome is not None
        assert (client.outcome.kind, client.outcome.reason) == ("resynced", "rolled_back")
        assert client.room is not None
        await client.room.flush()
        server_room = bench.server.rooms.get(room.id)
        assert server_room is not None
        assert server_room.state.said == ["ada:saved"]


def _is_back(client: ClientSession) -> bool:
    return client.outcome is not None and client.outcome.kind != "new"


@in_virtual_time
async def test_what_was_not_acknowledged_before_a_rollback_takes_effect_once_after_it() -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await say(ada, "lost")
        bench.dialer(ada).is_down = True
        bench.link(ada).cut()
        await ada.send(Say("kept 0"), Say("kept 1"))

        await bench.restore(backup)
        bench.dialer(ada).is_down = False
        await ada.back()
        await say(ada, "new")

        assert bench.room(ada).state.said == ["ada:saved", "ada:kept 0", "ada:kept 1", "ada:new"]


@in_virtual_time
async def test_who_knows_nothing_of_what_is_lost_resumes_as_if_nothing_had_happened() -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        bench.dialer(ada).is_down = True
        bench.link(ada).cut()
        bob = await bench.sit("bob")
        await say(bob, "kept")
        backup = bench.backup()
        await say(bob, "lost")

        await bench.restore(backup)
        bench.room(ada).broadcast(Said("other"))
        bench.dialer(ada).is_down = False
        outcome = await ada.back()
        await ada.has_heard("other")

        assert outcome.kind == "resumed"
        assert ada.texts == ["ada:saved", "bob:kept", "other"]
        assert (await bob.back()).reason == "rolled_back"


@pytest.mark.parametrize("restarts", [1, 3, Limits().forks_kept_max + 3])
@in_virtual_time
async def test_any_number_of_crashes_without_a_rollback_is_a_resume(restarts: int) -> None:
    async with Bench(table(), grace_s=600.0) as bench:
        ada = await listener(bench)
        bench.dialer(ada).is_down = True
        for number in range(restarts):
            await bench.restart()
            bench.room(ada).broadcast(Said(f"meanwhile {number}"))
            await a_moment(1.0)

        bench.dialer(ada).is_down = False
        outcome = await ada.back()
        await bench.restart()
        again = await ada.back(2)

        assert (outcome.kind, outcome.reason) == ("resumed", "")
        assert ada.texts == ["ada:saved", *(f"meanwhile {number}" for number in range(restarts))]
        assert again.kind == "resumed"


@in_virtual_time
async def test_any_number_of_welcomes_that_are_lost_in_crashes_is_a_resume() -> None:
    async with Bench(table(), grace_s=600.0) as bench:
        ada = await listener(bench)
        dialer = bench.dialer(ada)
        dialer.latency_s = 1.0
        for _ in range(Limits().forks_kept_max + 2):
            await bench.restart()
            await until(lambda: bench.server.counters.resumed)
            await a_moment(0.1)

        dialer.latency_s = None
        await bench.restart()
        outcome = await ada.back()
        await say(ada, "new")

        assert (outcome.kind, outcome.reason) == ("resumed", "")
        assert ada.texts == ["ada:saved", "ada:new"]
        assert bench.server.counters.clients_rolled_back == 0


@in_virtual_time
async def test_a_second_rollback_to_the_same_backup_is_told_again() -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await say(ada, "lost 0")
        bench.dialer(ada).is_down = True

        await bench.restore(backup)
        bench.room(ada).broadcast(Said("other 0"))
        await a_moment()
        await bench.restore(backup)
        for number in range(5):
            bench.room(ada).broadcast(Said(f"third {number}"))
        await a_moment()
        bench.dialer(ada).is_down = False
        outcome = await ada.back()

        assert outcome.reason == "rolled_back"
        assert since_resync(ada) == ["state 1"]


@in_virtual_time
async def test_a_rollback_that_is_taken_back_is_a_resume_for_who_was_away() -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await say(ada, "lost 0")
        newest = bench.backup()
        bench.dialer(ada).is_down = True
        await bench.restore(backup)
        for number in range(5):
            bench.room(ada).broadcast(Said(f"other {number}"))
        await a_moment()

        await bench.restore(newest)
        bench.dialer(ada).is_down = False
        outcome = await ada.back()
        await say(ada, "new")

        assert outcome.kind == "resumed"
        assert ada.texts == ["ada:saved", "ada:lost 0", "ada:new"]


@in_virtual_time
async def test_a_rollback_that_is_taken_back_is_told_to_who_has_been_there() -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await say(ada, "lost 0", "lost 1", "lost 2")
        newest = bench.backup()
        await bench.restore(backup)
        await ada.back()
        await say(ada, "other 0")

        await bench.restore(newest)
        await until(lambda: len(ada.outcomes) > 1)
        await until(lambda: ada.session.room is not None or ada.outcomes[-1].kind == "reset")

        # Its token is of the other history, too.
        assert (ada.outcomes[-1].kind, ada.outcomes[-1].reason) == ("reset", "rolled_back")
        assert bench.server.counters.tokens_reused == 0


@in_virtual_time
async def test_a_token_that_is_newer_than_the_store_is_no_theft_and_the_reset_says_why() -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        bench.link(ada).cut()
        await ada.back()
        await say(ada, "lost")

        await bench.restore(backup)
        outcome = await ada.back(2)
        room = await ada.session.join(ada.room.id)
        again = bench.reading(ada.session, room)
        await say(again, "new")

        assert (outcome.kind, outcome.reason) == ("reset", "rolled_back")
        assert bench.server.counters.tokens_reused == 0
        assert bench.room(again).state.said == ["ada:saved", "ada:new"]


@pytest.mark.parametrize("meanwhile", [0, 4])
@in_virtual_time
async def test_a_welcome_of_a_rollback_that_is_lost_is_said_again(meanwhile: int) -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await say(ada, "lost 0", "lost 1")
        dialer = bench.dialer(ada)
        dialer.is_down = True
        await bench.restore(backup)
        for number in range(meanwhile):
            bench.room(ada).broadcast(Said(f"other {number}"))
        dialer.latency_s = 1.0
        dialer.is_down = False
        (session,) = bench.server.parts.sessions.of_player("ada")
        await until(lambda: session.resumes)
        bench.link(ada).cut()

        dialer.latency_s = None
        outcome = await ada.back()
        await say(ada, "new")

        assert [(each.kind, each.reason) for each in ada.outcomes] == [("resynced", "rolled_back")]
        assert outcome.age_s is not None
        assert bench.room(ada).state.said == ["ada:saved", "ada:new"]
        assert since_resync(ada)[-1] == "ada:new"


@in_virtual_time
async def test_a_seat_that_was_taken_after_the_backup_is_gone_and_its_reader_is_told_why() -> None:
    async with Bench(table(), table(name="Other")) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await ada.room.leave()
        lost = bench.reading(ada.session, await ada.session.join_or_create("other"))
        await say(lost, "lost")

        await bench.restore(backup)
        await until(lambda: ada.session.outcome is not None and ada.session.outcome.reason == "rolled_back")
        assert ada.session.room is not None
        back = bench.reading(ada.session, ada.session.room)
        await say(back, "new")
        await back.room.leave()
        other = bench.reading(ada.session, await ada.session.join_or_create("other"))
        await say(other, "other")

        assert lost.room.left is not None
        assert lost.room.left.reason == "rolled_back"
        assert back.room.id == ada.room.id, "she had left it, and the store does not know"
        assert back.texts == ["state 1", "ada:new"]
        assert other.texts == ["ada:other"]


@in_virtual_time
async def test_requests_go_on_when_their_answers_are_forgotten() -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        for name in ("one", "two", "three"):
            await ada.room.update(name=name)

        await bench.restore(backup)
        outcome = await ada.back()
        info = await ada.room.update(name="new")

        assert (outcome.kind, outcome.reason) == ("resynced", "rolled_back")
        assert info.name == "new"
        assert ada.kinds == ["resynced"], "the server takes the numbers of her requests"


@in_virtual_time
async def test_a_client_that_goes_on_from_a_saved_state_is_told() -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await say(ada, "lost 0", "lost 1")
        state = await suspended(ada.session)

        await bench.restore(backup)
        for number in range(6):
            bench.room(ada).broadcast(Said(f"other {number}"))
        await a_moment()
        client = await bench.connect("ada", saved=storage_of(state))
        assert client.room is not None
        back = bench.reading(client, client.room)
        await say(back, "new")

        assert client.outcome is not None
        assert (client.outcome.kind, client.outcome.reason) == ("resynced", "rolled_back")
        assert since_resync(back) == ["state 1", "ada:new"]


@in_virtual_time
async def test_a_room_that_is_gone_with_the_rollback_is_a_reset() -> None:
    async with Bench(table()) as bench:
        backup = bench.backup()
        ada = await listener(bench)

        await bench.restore(backup)
        outcome = await ada.back()

        assert (outcome.kind, outcome.reason) == ("reset", "expired")
        assert ada.room.left is not None


@in_virtual_time
async def test_the_operator_hears_loudly_once_and_every_client_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    async with Bench(table()) as bench:
        sittings = [await bench.sit(name) for name in ("ada", "bob", "cid")]
        backup = bench.backup()
        await say(sittings[0], "lost")
        told: list[RolledBack] = []

        with caplog.at_level(logging.ERROR, "holdfast.server"):
            bench.crash()
            bench.data.entries = dict(backup)
            await bench.restart()
            bench.server.on(RolledBack)(told.append)
            for sitting in sittings:
                await sitting.back()

        loud = [record for record in caplog.records if "the store is older" in record.getMessage()]
        assert len(loud) == 1
        assert bench.server.counters.clients_rolled_back == 3
        assert sorted(event.player for event in told) == ["ada", "bob", "cid"]
        assert {event.outcome for event in told} == {"resynced"}


@in_virtual_time
async def test_a_client_that_makes_a_lineage_up_is_resynced_and_nobody_is_alarmed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Bench(table()) as bench:
        ada = await listener(bench)
        ada.session._exchange.protocol._lineage = "made up"  # noqa: SLF001 - a liar

        bench.link(ada).cut()
        outcome = await ada.back()

        assert (outcome.kind, outcome.reason, outcome.age_s) == ("resynced", "rolled_back", None)
        assert bench.server.counters.clients_rolled_back == 0
        assert "the store is older" not in caplog.text


@in_virtual_time
async def test_a_token_that_was_used_up_long_ago_is_no_sign_of_a_rollback(caplog: pytest.LogCaptureFixture) -> None:
    async with Bench(table()) as bench:
        storage = MemoryStorage()
        client = await bench.connect("ada", saved=storage)
        room = await client.join_or_create("table")
        await bench.restart()
        await until(lambda: _is_back(client))
        await room.send(Say("old"))
        await room.flush()
        old = storage.written
        await bench.restart()
        for number in range(Limits().retired_tokens_max + 1):
            bench.link(client).cut()
            await room.send(Say(f"new {number}"))
            await room.flush()
        bench.dialer(client).is_down = True
        await bench.restart()

        late = await bench.connect("ada", saved=MemoryStorage(old))

        assert late.outcome is not None
        assert (late.outcome.kind, late.outcome.reason) == ("reset", "expired")
        assert bench.server.counters.clients_rolled_back == 0
        assert "the store is older" not in caplog.text


# What a client did after the backup


async def nothing(bench: Bench, ada: Sitting) -> None:
    """She was away."""
    bench.dialer(ada).is_down = True
    bench.link(ada).cut()


async def heard(bench: Bench, ada: Sitting) -> None:
    bench.room(ada).broadcast(Said("lost"))
    await ada.has_heard("lost")


async def sent(bench: Bench, ada: Sitting) -> None:
    await say(ada, "lost")


async def asked(bench: Bench, ada: Sitting) -> None:
    await ada.room.update(name="lost")


async def left(bench: Bench, ada: Sitting) -> None:
    await ada.room.leave()


async def moved(bench: Bench, ada: Sitting) -> None:
    await ada.room.leave()
    await ada.session.join_or_create("other")


async def was_kicked(bench: Bench, ada: Sitting) -> None:
    bench.room(ada).player("ada").kick("lost")
    await until(lambda: ada.room.left is not None)


async def came_back(bench: Bench, ada: Sitting) -> None:
    bench.link(ada).cut()
    await ada.back()
    await say(ada, "lost")


async def came_back_and_said_nothing(bench: Bench, ada: Sitting) -> None:
    bench.link(ada).cut()
    await ada.back()


ENDS = [
    (nothing, "resumed", ""),
    (heard, "resynced", "rolled_back"),
    (sent, "resynced", "rolled_back"),
    (asked, "resynced", "rolled_back"),
    (left, "resynced", "rolled_back"),
    (moved, "resynced", "rolled_back"),
    (was_kicked, "resynced", "rolled_back"),
    (came_back, "reset", "rolled_back"),
    # Her token is not known, and nothing else shows that the store is older.
    (came_back_and_said_nothing, "reset", "expired"),
]


@pytest.mark.parametrize(("did", "kind", "reason"), ENDS, ids=[did.__name__ for did, _, _ in ENDS])
@pytest.mark.parametrize("recovery", ["eager", "lazy"])
@in_virtual_time
async def test_every_end_of_a_rollback_is_an_outcome_and_the_session_can_be_used(
    did: Callable[[Bench, Sitting], Awaitable[None]], kind: str, reason: str, recovery: Pace
) -> None:
    async with Bench(table(), table(name="Other"), recovery=recovery) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await did(bench, ada)
        told = len(ada.outcomes)

        await bench.restore(backup)
        bench.dialer(ada).is_down = False
        outcome = await ada.back(told + 1)
        room = ada.session.room or await ada.session.join_or_create("table")
        await room.send(Say("new"))
        await room.flush()
        await room.leave()
        await ada.session.join_or_create("other")
        bench.link(ada).cut()
        last = await ada.back(told + 2)

        assert (outcome.kind, outcome.reason) == (kind, reason)
        assert last.kind == "resumed", "nothing is wrong any more"
        assert bench.server.counters.protocol_errors == 0
        assert bench.server.counters.tokens_reused == 0


@in_virtual_time
async def test_a_session_that_began_after_the_backup_is_not_known() -> None:
    async with Bench(table()) as bench:
        bob = await bench.sit("bob")
        await say(bob, "saved")
        backup = bench.backup()
        ada = await bench.sit("ada")

        await bench.restore(backup)
        outcome = await ada.back()

        assert (outcome.kind, outcome.reason) == ("reset", "expired")


@in_virtual_time
async def test_an_effect_of_the_new_history_has_a_key_that_the_old_one_never_had() -> None:
    keys: list[str] = []

    async def pay(effect: Effect) -> None:
        keys.append(effect.key)

    async with Bench(table(), effects={"pay": pay}) as bench:
        ada = await listener(bench)
        backup = bench.backup()
        await bench.restart()
        await ada.back()
        await ada.send(Do("pay", [1]))
        await until(lambda: len(keys) == 1)

        await bench.restore(backup)
        await until(lambda: ada.session.outcome is not None and ada.session.outcome.reason == "rolled_back")
        room = ada.session.room or await ada.session.join_or_create("table")
        await room.send(Do("pay", [2]))
        await until(lambda: len(keys) == 2)

        assert len(set(keys)) == 2
