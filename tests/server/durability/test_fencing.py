"""A room that another server has written is not ours any more: nothing that waits may leave or be written."""

import asyncio

import pytest

from holdfast import Auth, Player, Throttled
from holdfast.schemas.frames import Data, Hello, Position, Resume, Welcome
from holdfast.stores import Write
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.faults import FaultyStore
from tests.server.durability.rooms import Do, Hero, Said, Say, Table, table


@in_virtual_time
async def test_a_room_that_somebody_else_has_written_is_let_go_of() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        key = f"room/{ada.room.id}"
        theirs = bench.store.intrude(key)
        bench.dialer(ada).is_down = True

        await ada.send(Say("lost"))
        await until(lambda: not ada.session.connected)
        await a_moment(1.0)
        written = len(bench.store.written_keys())
        fenced, rooms = bench.server.counters.rooms_fenced, len(bench.server.rooms)
        await a_moment(60.0)

        assert ada.texts == []
        assert (fenced, rooms) == (1, 0)
        assert len(bench.store.written_keys()) == written
        assert bench.store.value(key) == theirs


@in_virtual_time
async def test_clients_of_a_room_that_is_elsewhere_are_told_so_and_find_it_there() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")
        bench.store.intrude(f"room/{ada.room.id}")
        closes: list[str] = []
        ada.session.on_drop(lambda _: closes.append("drop"))

        await ada.send(Say("2"))
        await a_moment(10.0)
        was_back = list(ada.outcomes)
        await bench.restart()
        await ada.has_heard("ada:2")

        assert was_back == []
        assert closes == ["drop"]
        assert ada.texts == ["ada:1", "ada:2"] == bench.room(ada).state.said
        assert ada.kinds == ["resumed"]


@in_virtual_time
async def test_a_lost_room_that_nobody_has_comes_back_when_it_is_asked_for() -> None:
    async with Bench(table()) as bench:
        ada, bob = await bench.sit("ada"), await bench.connect("bob")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")
        bench.store.intrude(f"room/{ada.room.id}")
        await ada.send(Say("2"))
        await until(lambda: bench.server.counters.rooms_fenced)

        with pytest.raises(Throttled, match="is moving to another server"):
            await bob.join(ada.room.id)
        await a_moment(5.0)
        elsewhere = len(bench.server.rooms), list(ada.outcomes)
        bench.store.is_alone = True
        await ada.back()
        await ada.has_heard("ada:2")

        assert elsewhere == (0, [])
        assert ada.kinds == ["resumed"]
        assert ada.texts == ["ada:1", "ada:2"] == bench.room(ada).state.said
        assert (await bob.join(ada.room.id)).id == ada.room.id


@in_virtual_time
async def test_nothing_of_a_lost_room_is_written_also_if_its_sessions_were_about_to_be() -> None:
    async with Bench(table()) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await a_moment()
        bench.store.hold()
        await ada.send(Say("x"))
        await until(lambda: bench.store.is_waiting)
        bench.link(bob).cut()
        await until(lambda: bench.server.counters.resumed == 1)
        bench.store.intrude(f"room/{ada.room.id}")
        revisions = {key: entry.revision for key, entry in bench.data.entries.items()}

        for sitting in (ada, bob):
            bench.dialer(sitting).is_down = True
        bench.store.release()
        await a_moment(60.0)

        assert {key: entry.revision for key, entry in bench.data.entries.items()} == revisions


@in_virtual_time
async def test_a_room_that_is_lost_does_not_take_the_others_of_its_commit_with_it() -> None:
    async with Bench(table(), table(name="Other")) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob", "other")
        await a_moment()
        bench.store.hold()
        await ada.send(Say("lost"))
        await bob.send(Say("first"))
        await until(lambda: bench.store.is_waiting)
        await bob.send(Say("second"))
        bench.store.intrude(f"room/{ada.room.id}")

        bench.store.release()
        await bob.has_heard("bob:second")

        assert bob.texts == ["bob:first", "bob:second"]
        assert bench.server.counters.rooms_fenced == 1


@in_virtual_time
async def test_the_word_for_a_lost_room_is_moved_now_and_later() -> None:
    async with Bench(table()) as bench:
        ada = await bench.raw()
        ada.say(Hello(Auth("name", "ada")))
        welcome = await ada.hear(Welcome)
        seat = await ada.join("table")
        bench.store.intrude(f"room/{seat.room}")

        ada.send(1, Say("lost"))
        close = await ada.closed()
        again = await bench.raw()
        again.say(Hello(None, Resume(welcome.session, welcome.token, [Position(1, 1, 0)])))
        answer = await again.closed()

        assert (close.code, close.reason) == (4007, "moved")
        assert (answer.code, answer.reason) == (4007, "moved")
        assert answer.retry_after_s > 0
        assert ada.all_heard(Data) == []


@in_virtual_time
async def test_a_claim_that_came_too_late_is_made_again_with_what_the_other_has_written() -> None:
    """R8: its former server wrote once more between our reading and our first commit."""
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")
        bench.crash()
        store = FaultyStore(bench.data)
        store.hold()
        await bench.start(store)
        await until(lambda: store.is_waiting)
        store.intrude(f"room/{ada.room.id}")
        store.release()

        await ada.send(Say("2"))
        await ada.has_heard("ada:2")

        assert bench.server.counters.rooms_fenced == 1
        assert ada.texts == ["ada:1", "ada:2"] == bench.room(ada).state.said
        assert ada.kinds == ["resumed"]


@in_virtual_time
async def test_a_session_that_ended_in_a_room_that_is_elsewhere_is_closed_all_the_same() -> None:
    class Ending(Table):
        def over(self, player: Player[Hero]) -> None:
            player.session.end("game over")

    async with Bench(table(Ending)) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.intrude(f"room/{ada.room.id}")

        await ada.send(Do("over"))

        await until(lambda: not ada.session.connected, within_s=5.0)
        assert len(bench.server.parts.connections) == 0


@in_virtual_time
async def test_a_room_whose_name_begins_like_anothers_is_read_again_alone() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")
        key = f"room/{ada.room.id}"
        bench.crash()
        # As `holdfast rooms import --id` might have named it.
        bench.data.write([Write(f"{key}-copy", bench.data.entries[key].value, 0)])
        store = FaultyStore(bench.data)
        store.hold()
        await bench.start(store)
        await until(lambda: store.is_waiting)
        store.intrude(key)
        store.release()

        await ada.send(Say("2"))
        await ada.has_heard("ada:2")

        assert ada.texts == ["ada:1", "ada:2"] == bench.room(ada).state.said


@in_virtual_time
async def test_a_session_that_is_lost_while_it_takes_a_seat_leaves_none_behind() -> None:
    async with Bench(table(), table(name="Other")) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob", "other")
        await ada.room.leave()
        await a_moment()
        (session,) = bench.server.sessions.of_player("ada")
        bench.store.hold()
        session.send(Said("not saved"))
        await until(lambda: bench.store.is_waiting)
        joining = asyncio.create_task(ada.session.join(bob.room.id))
        await until(lambda: bench.room(bob).player("ada") is not None)
        bench.store.intrude(f"session/{session.id}")

        bench.dialer(ada).is_down = True
        bench.store.release()
        await until(lambda: bench.room(bob).player("ada") is None)
        await a_moment()
        joining.cancel()

        assert bob.texts == []
        assert bench.room(bob).state.left == ["ada"]
        await bench.restart()
        assert [player.id for player in bench.room(bob).players] == ["bob"]


@in_virtual_time
async def test_a_session_that_went_to_a_new_room_of_the_former_server_is_not_ended_by_the_next_one() -> None:
    """R8: this server has read the store before the session left, and claims the room that it left too late."""
    async with Bench(table(), table(name="Other")) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await a_moment()
        before = bench.backup()
        await ada.room.leave()
        other = bench.reading(ada.session, await ada.session.join_or_create("other"))
        await a_moment()
        after = bench.backup()
        bench.crash()
        bench.data.entries = before
        store = FaultyStore(bench.data)
        store.hold()
        await bench.start(store)
        await until(lambda: store.is_waiting)
        bench.data.entries = after
        store.release()

        await bob.send(Say("still here"))
        await bob.has_heard("bob:still here")
        await a_moment(10.0)
        recovery = bench.server.parts.recovery
        assert recovery is not None
        moved, set_aside = list(other.outcomes), dict(recovery.set_aside)
        store.is_alone = True
        await other.send(Say("and I am there"))
        await other.has_heard("ada:and I am there")

        assert (moved, set_aside) == ([], {})
        assert other.kinds == ["resumed"]
        assert [player.id for player in bench.room(bob).players] == ["bob"]
