"""The end of what lasts: whoever ended it hears so when no crash can bring it back, and nobody waits in vain."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from holdfast import Limits, NotFound, Player, Reason, Throttled
from holdfast.server.operations import Operations
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Do, Hero, Say, Table, table


class Duel(Table):
    """Ends when somebody leaves."""

    def on_leave(self, player: Player[Hero], reason: Reason) -> Any:
        self.close()


def _operator(bench: Bench) -> Operations:
    return bench.server.operate


# Who waits for a commit of a room that has ended


@in_virtual_time
async def test_who_kicks_a_player_and_so_ends_the_room_is_answered_when_that_is_saved() -> None:
    kind = table(Duel)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        kind.door.clear()
        await ada.send(Do("slow", ["done"]))
        await a_moment()

        kicking = asyncio.create_task(_operator(bench).rooms.kick(ada.room.id, "ada", "go"))
        await a_moment()
        kind.door.set()
        async with asyncio.timeout(1.0):
            await kicking

        assert len(bench.server.rooms) == 0
        assert bench.store.keys_of("room/") == []


@in_virtual_time
async def test_to_wait_for_a_room_that_is_gone_is_no_wait() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        host = bench.server.parts.rooms.runner(ada.room.id)
        await ada.send(Do("finish"))
        await until(lambda: not bench.store.keys_of("room/"))
        told: list[str] = []

        async with asyncio.timeout(0.1):
            await host.persistence.saved()
            host.persistence.once_saved(lambda: told.append("saved"))
            await asyncio.sleep(0)

        assert told == ["saved"]


@in_virtual_time
async def test_to_wait_for_a_room_that_another_server_has_is_refused_at_once() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        host = bench.server.parts.rooms.runner(ada.room.id)
        bench.store.hold()
        bench.store.intrude(f"room/{ada.room.id}")
        await ada.send(Say("lost"))
        await until(lambda: bench.store.is_waiting)

        # One is in the commit that fails, and the other would have been in the next.
        waiting = asyncio.create_task(host.persistence.saved())
        ending = asyncio.create_task(_operator(bench).rooms.end(ada.room.id, ""))
        await asyncio.sleep(0)
        bench.store.release()

        async with asyncio.timeout(1.0):
            for task in (waiting, ending):
                with pytest.raises(NotFound, match="another server"):
                    await task
            with pytest.raises(NotFound, match="another server"):
                await host.persistence.saved()


# What an operator ends


@in_virtual_time
async def test_a_room_has_ended_for_its_operator_when_no_crash_can_bring_it_back() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()

        ending = asyncio.create_task(_operator(bench).rooms.end(ada.room.id, "maintenance"))
        await a_moment()
        assert not ending.done()
        bench.store.release()
        info = await ending

        assert bench.store.keys_of("room/") == []
        assert (info.status, info.reason) == ("ended", "maintenance")
        await bench.restart()
        assert len(bench.server.rooms) == 0


@in_virtual_time
async def test_an_operator_ends_a_room_that_cannot_be_saved() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("spoil"))
        await a_moment()

        info = await _operator(bench).rooms.end(ada.room.id, "")

        assert info.status == "ended"
        assert bench.store.keys_of("room/") == []


@in_virtual_time
async def test_a_session_has_ended_for_its_operator_when_its_token_is_dead_after_a_crash() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()

        ending = asyncio.create_task(_operator(bench).sessions.end(ada.session.id, "banned"))
        await a_moment()
        assert not ending.done()
        bench.store.release()
        await ending

        assert bench.store.keys_of("session/") == []
        await bench.restart()
        assert len(bench.server.sessions) == 0


@in_virtual_time
async def test_an_operator_hears_that_another_server_has_the_session() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.intrude(f"session/{ada.session.id}")

        with pytest.raises(NotFound, match="another server"):
            await _operator(bench).sessions.end(ada.session.id, "banned")


@pytest.mark.parametrize("what", ["room", "session"])
@in_virtual_time
async def test_an_operator_does_not_wait_forever_for_a_store_that_does_not_save(what: str) -> None:
    async with Bench(table(), limits=Limits(turn_s=5.0, commit_timeout_s=2.0)) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()
        began_at = asyncio.get_running_loop().time()

        operator = _operator(bench)
        ends: dict[str, Callable[[str], Awaitable[Any]]] = {
            "room": partial(operator.rooms.end, ada.room.id),
            "session": partial(operator.sessions.end, ada.session.id),
        }
        with pytest.raises(Throttled, match="cannot save"):
            await ends[what]("")

        assert asyncio.get_running_loop().time() - began_at == pytest.approx(7.0, abs=0.1)


@in_virtual_time
async def test_requests_to_a_session_that_has_ended_are_left_unanswered_until_its_end_is_saved() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()
        session = bench.server.sessions.get(ada.session.id)
        assert session is not None
        session.end()
        asking = []
        for _ in range(2):
            asking.append(asyncio.create_task(ada.session.search("table")))
            await a_moment(0.1)

        bench.store.release()
        await asyncio.wait(asking)

        assert bench.server.counters.protocol_errors == 0
