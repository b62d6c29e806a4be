"""Spectators of durable rooms: nothing reaches them before it is saved, and a crash does not end the watching."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from holdfast import Limits, NotFound, Player, Reason, Resynced, SeatLeft, Spectator, on
from holdfast.core.records import decode_room, decode_session, room_key, session_key
from holdfast.server.durability.recovery import Pace
from holdfast.stores import Entry
from tests.saved_sessions import storage_of, suspended
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.faults import FaultyStore, Moment
from tests.server.durability.rooms import Do, Hero, Said, Say, Table, table

both_paces = pytest.mark.parametrize("pace", ["eager", "lazy"])


class Cheer(Say):
    wire_name = "cheer"


class Stand(Table):
    """A table with spectators, who may cheer."""

    max_spectators = 10

    def on_spectate(self, spectator: Spectator) -> None:
        self.story.append(f"spectate {spectator.id}")
        spectator.send(Said(f"welcome {spectator.id}"))

    def on_unspectate(self, spectator: Spectator, reason: Reason) -> None:
        self.story.append(f"unspectate {spectator.id} {reason}")

    @on(Cheer, spectators=True)
    def cheered(self, who: Player[Hero] | Spectator, cheer: Cheer) -> None:
        self.state.said.append(f"{who.id}!{cheer.text}")
        self.broadcast(Said(f"{who.id}!{cheer.text}"))

    def throw_out(self, player: Player[Hero], who: str) -> None:
        self.watching(who).kick("no phones")

    def raise_up(self, player: Player[Hero], who: str) -> None:
        self.promote(self.watching(who))

    def remind(self, player: Player[Hero], who: str) -> None:
        self.after(5.0, self.reminded, self.watching(who))

    def reminded(self, spectator: Spectator) -> None:
        spectator.send(Said(f"still there, {spectator.id}?"))

    def watching(self, who: str) -> Spectator:
        return next(each for each in self.spectators if each.id == who)


def stand(**settings: Any) -> type[Any]:
    return table(Stand, **settings)


async def watch(bench: Bench, name: str, ada: Sitting, **options: Any) -> Sitting:
    client = await bench.connect(name, **options)
    return bench.reading(client, await client.spectate(ada.room.id))


def watched(bench: Bench, sitting: Sitting) -> list[str]:
    return [each.id for each in bench.room(sitting).spectators]


# The gate


@in_virtual_time
async def test_a_spectator_hears_nothing_and_is_acknowledged_nothing_before_it_is_saved() -> None:
    async with Bench(stand()) as bench:
        ada = await bench.sit("ada")
        bob = await watch(bench, "bob", ada)
        await bob.has_heard("welcome bob")
        await a_moment()

        bench.store.hold()
        await ada.send(Say("one"))
        await bob.send(Cheer("two"))
        await a_moment(0.5)
        before = (bob.texts[1:], bob.room.accepted, bench.room(ada).state.said)
        bench.store.release()
        await bob.has_heard("bob!two")

        assert before == ([], 0, ["ada:one", "bob!two"])
        assert (bob.texts[1:], bob.room.accepted) == (["ada:one", "bob!two"], 1)


@in_virtual_time
async def test_a_spectator_is_told_of_the_place_once_it_is_saved() -> None:
    async with Bench(stand()) as bench:
        ada = await bench.sit("ada")
        client = await bench.connect("bob")
        await a_moment()

        bench.store.hold()
        watching = asyncio.create_task(client.spectate(ada.room.id))
        await until(lambda: watched(bench, ada) == ["bob"])
        await a_moment(0.5)
        was_told = client.spectating is not None or watching.done()
        bench.store.release()
        room = await watching

        assert not was_told
        record = decode_session(bench.data.entries[session_key(client.id)].value)
        assert (record.room, record.spectating) == ("", room.id)


# A crash


@both_paces
@in_virtual_time
async def test_a_crash_costs_a_spectator_no_message_and_repeats_none(pace: Pace) -> None:
    kind = stand()
    async with Bench(kind, recovery=pace) as bench:
        ada = await bench.sit("ada")
        bob = await watch(bench, "bob", ada)
        for number in range(5):
            await ada.send(Say(f"a{number}"))
            await bob.send(Cheer(f"b{number}"))
            await bench.restart()
        await ada.send(Say("end"))
        await bob.has_heard("ada:end")

        assert [text for text in bob.texts if text.startswith("ada")] == [
            *(f"ada:a{each}" for each in range(5)),
            "ada:end",
        ]
        assert [text for text in ada.texts if text.startswith("bob")] == [f"bob!b{each}" for each in range(5)]
        assert bob.texts[1:] == ada.texts
        assert set(bob.kinds) == {"resumed"}
        assert [line for line in kind.story if "bob" in line] == ["spectate bob"]
        assert watched(bench, ada) == ["bob"]


@pytest.mark.parametrize("moment", list(Moment))
@in_virtual_time
async def test_a_crash_at_any_moment_of_any_commit_costs_a_spectator_nothing(moment: Moment) -> None:
    for number in range(1, 9):
        async with Bench(stand()) as bench:
            ada = await bench.sit("ada")
            bob = await watch(bench, "bob", ada)
            await a_moment()
            bench.crash_at(bench.store.commits + number, moment)
            await ada.send(Say("one"))
            await bob.send(Cheer("two"))
            # What is under way when the place ends is lost, as with a seat.
            await bob.room.flush()
            await ada.send(Do("raise_up", ["bob"]))
            await until(lambda bob=bob: bob.room.left is not None)  # type: ignore[misc]
            seat = bob.session.room
            assert seat is not None
            after = bench.reading(bob.session, seat)
            await after.send(Say("three"))
            await after.has_heard("bob:three")
            await until(lambda ada=ada: "bob:three" in ada.texts)  # type: ignore[misc]

            assert bob.room.left is not None
            assert bob.room.left.reason == Reason.SEATED
            assert [*bob.texts[1:], *after.texts] == ada.texts
            assert sorted(ada.texts) == ["ada:one", "bob!two", "bob:three"]


@both_paces
@in_virtual_time
async def test_a_player_who_watches_another_room_comes_back_to_both(pace: Pace) -> None:
    async with Bench(stand(), stand(name="Other"), recovery=pace) as bench:
        ada = await bench.sit("ada")
        bob = await bench.sit("bob", "other")
        watching = bench.reading(bob.session, await bob.session.spectate(ada.room.id))
        await ada.send(Say("one"))
        await bob.send(Say("two"))
        await bench.restart()
        await ada.send(Say("three"))
        await bob.send(Say("four"))

        await watching.has_heard("ada:three")
        await bob.has_heard("bob:four")

        assert watching.texts[1:] == ["ada:one", "ada:three"]
        assert bob.texts == ["bob:two", "bob:four"]
        assert (bob.session.room, bob.session.spectating) == (bob.room, watching.room)
        assert set(watching.kinds) == {"resumed"}


@both_paces
@in_virtual_time
async def test_rooms_that_were_read_too_early_are_read_again_with_whoever_plays_in_one_and_watches_the_other(
    pace: Pace,
) -> None:
    async with Bench(stand(), stand(name="Other"), recovery=pace) as bench:
        ada = await bench.sit("ada")
        bob = await bench.sit("bob", "other")
        watching = bench.reading(bob.session, await bob.session.spectate(ada.room.id))
        await a_moment()
        read = bench.backup()
        await ada.send(Say("one"))
        await bob.send(Say("two"))
        await watching.has_heard("ada:one")
        await a_moment()
        latest = bench.backup()
        for each in (ada, bob):
            bench.dialer(each).is_down = True
        bench.crash()
        bench.data.entries = read
        store = FaultyStore(bench.data)
        store.hold()
        await bench.start(store)
        bench.server.parts.stored.restore(bob.session.id)
        await until(lambda: store.is_waiting)
        bench.data.entries = latest

        store.release()
        for each in (ada, bob):
            bench.dialer(each).is_down = False
        await ada.send(Say("three"))
        await bob.send(Say("four"))
        await bob.has_heard("bob:four")
        await until(lambda: watching.room.left is not None or "ada:three" in watching.texts)

        assert watching.texts[1:] == ["ada:one", "ada:three"]
        assert bob.texts == ["bob:two", "bob:four"]
        assert bench.server.counters.rooms_fenced == 2


@both_paces
@in_virtual_time
async def test_a_chain_of_rooms_that_watch_each_other_is_restored_whole(pace: Pace) -> None:
    count = 120
    async with Bench(stand(), recovery=pace) as bench:
        sittings = []
        for number in range(count):
            client = await bench.connect(f"p{number}")
            info = await client.create("table")
            sittings.append(bench.reading(client, await client.join(info.id)))
        for one, other in pairwise(sittings):
            await one.session.spectate(other.room.id)
        await bench.restart()

        await until(lambda: all(sitting.outcomes for sitting in sittings))

        assert {sitting.kinds[0] for sitting in sittings} == {"resumed"}
        assert all(sitting.session.spectating is not None for sitting in sittings[:-1])


@in_virtual_time
async def test_a_crash_of_a_room_saved_at_intervals_is_told_for_the_watched_room_alone() -> None:
    kinds = stand(), stand(name="Other", durability="checkpoint", checkpoint_s=1000.0)
    async with Bench(*kinds) as bench:
        ada = await bench.sit("ada", "other")
        bob = await bench.sit("bob")
        watching = bench.reading(bob.session, await bob.session.spectate(ada.room.id))
        await ada.send(Say("lost"))
        await watching.has_heard("ada:lost")
        await bob.send(Say("kept"))
        await bob.has_heard("bob:kept")
        await bench.restart()
        await bob.send(Say("on"))
        await bob.has_heard("bob:on")
        await ada.send(Say("again"))
        await watching.has_heard("ada:again")

        assert bob.texts == ["bob:kept", "bob:on"]
        assert not any(isinstance(each, Resynced) for each in bob.heard)
        assert watching.texts == ["welcome bob", "ada:lost", "state 0", "ada:again"]
        assert any(isinstance(each, Resynced) for each in watching.heard)
        outcome = watching.outcomes[-1]
        assert (outcome.kind, outcome.reason) == ("resynced", Reason.ROLLED_BACK)


@in_virtual_time
async def test_a_spectator_of_a_room_saved_at_intervals_comes_back_to_its_checkpoint() -> None:
    kind = stand(durability="checkpoint", checkpoint_s=1000.0)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        bob = await watch(bench, "bob", ada)
        await bob.send(Cheer("lost"))
        await bob.has_heard("bob!lost")
        await bench.restart()
        await bob.send(Cheer("new"))
        await bob.has_heard("bob!new")

        assert "resync bob" in kind.story
        assert bob.texts == ["welcome bob", "bob!lost", "state 0", "bob!new"]


@in_virtual_time
async def test_an_orderly_restart_of_a_room_saved_at_intervals_loses_nothing() -> None:
    async with Bench(stand(durability="checkpoint", checkpoint_s=1000.0)) as bench:
        ada = await bench.sit("ada")
        bob = await watch(bench, "bob", ada)
        await ada.send(Say("one"))
        await bob.has_heard("ada:one")

        await bench.stop()
        await bench.start()
        await ada.send(Say("two"))
        await bob.has_heard("ada:two")

        assert bob.texts == ["welcome bob", "ada:one", "ada:two"]
        assert set(bob.kinds) == {"resumed"}


@in_virtual_time
async def test_a_place_in_a_memory_room_goes_with_the_server_and_the_seat_stays() -> None:
    async with Bench(stand(), stand(name="Other", durability="memory")) as bench:
        ada = await bench.sit("ada", "other")
        bob = await bench.sit("bob")
        watching = bench.reading(bob.session, await bob.session.spectate(ada.room.id))
        await ada.send(Say("one"))
        await watching.has_heard("ada:one")
        await bench.restart()
        await bob.send(Say("two"))

        await bob.has_heard("bob:two")

        assert watching.room.left is not None
        assert bob.session.spectating is None
        assert bob.kinds == [] or set(bob.kinds) == {"resumed"}
        assert watching.outcomes[-1].kind == "resumed"


@pytest.mark.parametrize("has_heard", [True, False], ids=["heard", "unheard"])
@in_virtual_time
async def test_the_end_of_a_place_in_a_memory_room_that_nobody_saved_is_no_sign_of_an_older_store(
    *, has_heard: bool
) -> None:
    door = asyncio.Event()

    async def on_unspectate(*_: Any) -> None:
        await door.wait()

    kind = stand(name="Other", durability="memory", on_unspectate=on_unspectate)
    async with Bench(stand(), kind) as bench:
        ada, bob = await bench.sit("ada", "other"), await bench.sit("bob")
        watching = bench.reading(bob.session, await bob.session.spectate(ada.room.id))
        await watching.has_heard("welcome bob")
        # The session is saved without the place, and the room has more to say to it.
        await ada.send(Do("throw_out", ["bob"]))
        await a_moment()
        if has_heard:
            door.set()
            await until(lambda: watching.room.left is not None)

        await bench.restart()
        await bob.back()
        await until(lambda: watching.room.left is not None)

        assert bob.kinds == ["resumed"]
        assert bench.server.counters.clients_rolled_back == 0


@in_virtual_time
async def test_a_seat_in_a_memory_room_ends_the_session_and_the_place_in_a_durable_one() -> None:
    kind = stand()
    async with Bench(kind, stand(name="Other", durability="memory")) as bench:
        ada = await bench.sit("ada")
        bob = await bench.sit("bob", "other")
        watching = bench.reading(bob.session, await bob.session.spectate(ada.room.id))
        await ada.send(Say("one"))
        await watching.has_heard("ada:one")
        await bench.restart()

        await ada.back()
        await until(lambda: watching.room.left is not None)
        held = watched(bench, ada)
        await a_moment(31.0)

        assert watching.outcomes[-1].kind == "reset"
        # The room's hooks come in pairs: the place is held for its grace, as a seat would be.
        assert (held, watched(bench, ada)) == (["bob"], [])
        assert [line for line in kind.story if "spectate" in line] == ["spectate bob", "unspectate bob grace_ended"]


@in_virtual_time
async def test_a_spectator_whose_session_is_lost_is_given_a_seat_that_is_held_for_their_next_one() -> None:
    async with Bench(stand(), stand(name="Other", durability="memory")) as bench:
        ada = await bench.sit("ada")
        bob = await bench.sit("bob", "other")
        bench.reading(bob.session, await bob.session.spectate(ada.room.id))
        await a_moment()
        await bench.restart()
        await ada.back()

        await ada.send(Do("raise_up", ["bob"]), Say("one"))
        await ada.has_heard("ada:one")
        await bench.restart()
        await ada.back(2)
        held = [(player.id, player.connected) for player in bench.room(ada).players]
        again = await bench.connect("bob")
        sitting = bench.reading(again, await again.join(ada.room.id))
        await ada.send(Say("two"))
        await sitting.has_heard("ada:two")

        assert held == [("ada", True), ("bob", False)]
        assert [player.connected for player in bench.room(ada).players] == [True, True]


@in_virtual_time
async def test_a_session_that_leaves_its_seat_in_a_memory_room_survives_with_what_it_watches() -> None:
    async with Bench(stand(), stand(name="Other", durability="memory")) as bench:
        ada = await bench.sit("ada")
        bob = await bench.sit("bob", "other")
        watching = bench.reading(bob.session, await bob.session.spectate(ada.room.id))
        await bob.room.leave()
        await ada.send(Say("one"))
        await watching.has_heard("ada:one")
        await a_moment()
        await bench.restart()
        await ada.send(Say("two"))

        await watching.has_heard("ada:two")

        assert watching.texts[1:] == ["ada:one", "ada:two"]
        assert watching.outcomes[-1].kind == "resumed"


# Going, and a crash


@pytest.mark.parametrize("how", ["kicked", "left", "room_closed"])
@in_virtual_time
async def test_a_spectator_who_was_away_when_it_ended_hears_everything_up_to_the_end_after_a_crash(how: str) -> None:
    async with Bench(stand()) as bench:
        ada = await bench.sit("ada")
        bob = await watch(bench, "bob", ada)
        await bob.has_heard("welcome bob")
        if how == "left":
            await bob.room.leave()
        else:
            bench.dialer(bob).is_down = True
            bench.link(bob).cut()
            await ada.send(Say("one"), Do("throw_out", ["bob"]) if how == "kicked" else Do("finish"))
            await a_moment()
        await bench.restart()
        bench.dialer(bob).is_down = False

        await until(lambda: bob.room.left is not None and bob.session.connected)

        assert bob.room.left is not None
        assert bob.room.left.reason == how
        assert bob.texts[1:] == ([] if how == "left" else ["ada:one"])
        assert not [key for key in bench.data.entries if "@spectators" in key]


@in_virtual_time
async def test_a_session_that_ends_is_gone_from_both_of_its_rooms_after_a_crash() -> None:
    async with Bench(stand(), stand(name="Other")) as bench:
        ada = await bench.sit("ada")
        bob = await bench.sit("bob", "other")
        eve = await bench.sit("eve", "other")
        await bob.session.spectate(ada.room.id)
        await a_moment()

        await bob.session.close()
        await bench.restart()
        await ada.back()
        await eve.back()

        assert watched(bench, ada) == []
        assert [player.id for player in bench.room(eve).players] == ["eve"]
        assert session_key(bob.session.id) not in bench.data.entries


@in_virtual_time
async def test_a_seat_and_a_place_in_two_rooms_are_saved_in_one_batch_when_both_go_at_once() -> None:
    async with Bench(stand(), stand(name="Other")) as bench:
        ada = await bench.sit("ada")
        bob = await bench.sit("bob", "other")
        await bob.session.spectate(ada.room.id)
        await a_moment()
        before = len(bench.store.written)

        await bob.session.close()
        await a_moment()

        wanted = {room_key(ada.room.id), room_key(bob.room.id), session_key(bob.session.id)}
        batches = [{write.key for write in batch} for commit in bench.store.written[before:] for batch in commit]
        assert any(wanted <= batch for batch in batches)


@in_virtual_time
async def test_another_process_goes_on_watching_after_a_crash() -> None:
    storage = storage_of(None)
    async with Bench(stand()) as bench:
        ada = await bench.sit("ada")
        bob = await watch(bench, "bob", ada, saved=storage)
        await ada.send(Say("one"))
        await bob.has_heard("ada:one")
        bob.stop()
        await suspended(bob.session)
        await bench.restart()
        await ada.send(Say("two"))

        client = await bench.connect("bob", saved=storage)
        assert client.spectating is not None
        again = bench.reading(client, client.spectating)
        await again.has_heard("ada:two")

        assert again.texts == ["ada:two"]
        assert again.room.is_spectator


@in_virtual_time
async def test_a_timer_finds_its_spectator_after_a_crash() -> None:
    async with Bench(stand()) as bench:
        ada = await bench.sit("ada")
        bob = await watch(bench, "bob", ada)
        await ada.send(Do("remind", ["bob"]))
        await a_moment()
        await bench.restart()

        await bob.has_heard("still there, bob?")


@in_virtual_time
async def test_a_stream_that_overflowed_begins_anew_after_a_crash() -> None:
    limits = Limits(kept_messages_max=20, window_messages_max=10)
    async with Bench(stand(), limits=limits) as bench:
        ada = await bench.sit("ada")
        bob = await watch(bench, "bob", ada)
        await bob.has_heard("welcome bob")
        bench.dialer(bob).is_down = True
        bench.link(bob).cut()
        for number in range(40):
            await ada.send(Say(str(number)))
        await ada.has_heard("ada:39")
        await bench.restart()
        bench.dialer(bob).is_down = False

        await bob.has_heard("state 40")

        assert bob.kinds[-1] == "resynced"
        assert bob.texts == ["welcome bob", "state 40"]


@in_virtual_time
async def test_spectators_are_a_list_of_the_room_s_record_and_spill_like_seats() -> None:
    limits = Limits(record_list_bytes_max=200)
    async with Bench(stand(), limits=limits) as bench:
        ada = await bench.sit("ada")
        names = [f"w{number}" for number in range(8)]
        watching = [await watch(bench, name, ada) for name in names]
        for number in range(30):
            await ada.send(Do("glimpse", [str(number)]))
            await a_moment(0.05)
        spilled = [key for key in bench.data.entries if "/@spectators/" in key]
        await bench.restart()
        await ada.send(Say("all"))
        for each in watching:
            await each.has_heard("ada:all")
        await watching[0].room.leave()
        await a_moment()

        assert spilled
        assert watched(bench, ada) == names[1:]
        record = decode_room(bench.data.entries[room_key(ada.room.id)].value)
        assert len(record.spectators) + len([key for key in bench.data.entries if "/@spectators/" in key]) >= 7


# Another server


@in_virtual_time
async def test_a_room_that_another_server_has_is_watched_no_more_and_the_seat_elsewhere_stays() -> None:
    async with Bench(stand(), stand(name="Other")) as bench:
        ada = await bench.sit("ada")
        bob = await bench.sit("bob", "other")
        watching = bench.reading(bob.session, await bob.session.spectate(ada.room.id))
        await a_moment()
        key = room_key(ada.room.id)
        bench.data.entries[key] = bench.data.entries[key]._replace(revision=10**6)

        await ada.send(Say("never"))
        await until(lambda: watching.room.left is not None)
        await bob.send(Say("here"))
        await bob.has_heard("bob:here")

        assert watching.room.left == SeatLeft(Reason.MOVED, "another server has this room")
        assert "ada:never" not in watching.texts
        assert bob.kinds == []


class ListedThenWritten(FaultyStore):
    """Another server writes right after a room was listed."""

    write: Callable[[], None] | None = None

    async def list(self, path: str) -> list[Entry]:
        entries = await super().list(path)
        if self.write is not None and path.startswith("room/"):
            write, self.write = self.write, None
            write()
        return entries


@in_virtual_time
async def test_a_room_is_read_again_together_with_its_sessions_whatever_the_former_server_writes_meanwhile() -> None:
    """Else a spectator who was given a seat there has a session that names a seat, and the room has none for it."""
    async with Bench(stand()) as bench:
        ada = await bench.sit("ada")
        bob = await watch(bench, "bob", ada)
        await bob.has_heard("welcome bob")
        await a_moment()
        before = bench.backup()
        seated = bench.reading(bob.session, await bob.session.join(ada.room.id))
        await a_moment()
        after = bench.backup()
        bench.crash()
        bench.data.entries = before
        store = ListedThenWritten(bench.data)
        store.hold()
        await bench.start(store)
        await until(lambda: store.is_waiting)
        store.intrude(room_key(ada.room.id))
        store.write = lambda: bench.data.entries.update(after)

        store.release()
        await seated.send(Say("from my seat"))
        await seated.has_heard("bob:from my seat")

        recovery = bench.server.parts.recovery
        assert recovery is not None
        assert recovery.set_aside == {}
        assert sorted(player.id for player in bench.room(ada).players) == ["ada", "bob"]


@in_virtual_time
async def test_a_spectator_who_is_being_let_in_hears_that_another_server_has_the_room() -> None:
    begun = asyncio.Event()

    async def on_spectate(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    limits = Limits(turn_s=600.0, store_patience_s=600.0)
    async with Bench(stand(on_spectate=on_spectate), stand(name="Other"), limits=limits) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob", "other")
        bench.store.hold()
        await ada.send(Say("never"))
        await until(lambda: bench.store.is_waiting)
        watching = asyncio.create_task(bob.session.spectate(ada.room.id))
        await begun.wait()

        bench.store.intrude(room_key(ada.room.id))
        bench.store.release()
        await until(watching.done)

        with pytest.raises(NotFound):
            await watching
        await bob.send(Say("here"))
        await bob.has_heard("bob:here")


@in_virtual_time
async def test_a_spectator_who_waits_for_the_state_of_a_room_hears_that_another_server_has_it() -> None:
    limits = Limits(kept_messages_max=20, window_messages_max=10, turn_s=600.0, store_patience_s=600.0)
    kind = stand()
    async with Bench(kind, stand(name="Other"), limits=limits) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob", "other")
        watching = bench.reading(bob.session, await bob.session.spectate(ada.room.id))
        await watching.has_heard("welcome bob")
        bench.dialer(bob).is_down = True
        bench.link(bob).cut()
        for number in range(40):
            await ada.send(Say(str(number)))
        await ada.has_heard("ada:39")
        await a_moment()
        kind.door.clear()
        bench.store.hold()
        await ada.send(Say("never"))
        await until(lambda: bench.store.is_waiting)
        await ada.send(Do("slow", ["never"]))
        await until(lambda: "half" in bench.room(ada).state.said)
        bench.dialer(bob).is_down = False
        await until(lambda: bench.room(ada).spectators[0].connected)

        bench.store.intrude(room_key(ada.room.id))
        bench.store.release()
        await until(lambda: watching.room.left is not None)

        assert watching.room.left == SeatLeft(Reason.MOVED, "another server has this room")
        assert watching.texts == ["welcome bob"]
