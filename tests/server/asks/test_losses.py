"""Asks across drops, crashes and the loss of the seat."""

import asyncio
from typing import Any

import pytest

from holdfast import (
    HoldfastError,
    Limits,
    MessageRefused,
    NotSeated,
    Reset,
    Resynced,
    RoomUpdated,
    SessionEnded,
)
from holdfast.testing import FaultyStore
from tests.saved_sessions import storage_of, suspended
from tests.server.asks.shop import Bought, Buy, Flood, Goodbye, Look, Wait, serve, shop, shopper
from tests.simulation.stage import a_moment, in_virtual_time

# Drops and crashes


@in_virtual_time
async def test_asks_are_answered_once_across_drops() -> None:
    async with serve() as server:
        session, room = await shopper(server)
        answers: list[Any] = []

        async def ask() -> None:
            for _ in range(30):
                answers.append(await room.ask(Buy(1)))
                await asyncio.sleep(0.1)

        asking = asyncio.create_task(ask())
        for number in range(6):
            await asyncio.sleep(0.5)
            server.link(session).cut_next("client" if number % 2 else "server")
        await asking

        assert answers == [Bought(number) for number in range(1, 31)]
        assert session.drops >= 3


@in_virtual_time
async def test_an_answer_of_a_commit_room_leaves_when_its_turn_is_saved() -> None:
    async with serve(store=FaultyStore(latency_s=0.2)) as server:
        _, room = await shopper(server, "ledger")
        await asyncio.sleep(10.0)
        asking = asyncio.create_task(room.ask(Buy(3)))
        await asyncio.sleep(0.1)
        assert shop(server, room).state.total == 3
        assert not asking.done()

        await asyncio.sleep(0.2)

        assert asking.done()
        assert await asking == Bought(3)


@pytest.mark.parametrize("at_s", [0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.05])
@in_virtual_time
async def test_a_commit_room_answers_once_across_a_crash(at_s: float) -> None:
    async with serve(store=FaultyStore(latency_s=0.01)) as server:
        server.network.latency_s = 0.005
        session, room = await shopper(server, "ledger")
        assert await room.ask(Buy(1)) == Bought(1)
        asking = [asyncio.create_task(room.ask(Buy(1))) for _ in range(3)]
        await asyncio.sleep(at_s)

        server.crash()
        await server.start()

        assert await asyncio.gather(*asking) == [Bought(2), Bought(3), Bought(4)]
        assert await room.ask(Buy(1)) == Bought(5)
        assert session.outcome is not None
        assert session.outcome.kind == "resumed"
        assert shop(server, room).state.sold == [1, 1, 1, 1, 1]


@in_virtual_time
async def test_a_memory_room_that_is_lost_resets_its_asks() -> None:
    async with serve() as server:
        _, room = await shopper(server)
        asking = asyncio.create_task(room.ask(Wait(10.0)))
        await asyncio.sleep(1.0)

        server.crash()
        await server.start()

        with pytest.raises(Reset) as error:
            await asking
        assert error.value.reason == "expired"
        with pytest.raises(NotSeated):
            await room.ask(Buy(1))


@in_virtual_time
async def test_a_checkpoint_room_answers_what_it_has_not_applied_and_resets_what_it_had() -> None:
    async with serve() as server:
        session, room = await shopper(server, "notes")
        await asyncio.sleep(6.0)
        server.link(session).stop_reading("client")
        had = asyncio.create_task(room.ask(Buy(1)))
        await asyncio.sleep(1.0)
        assert shop(server, room).state.sold == [1]

        server.crash()
        await server.start()

        # The room is as it was before, and has never heard of the message: it is sent again.
        assert await had == Bought(1)
        assert shop(server, room).state.sold == [1]


SMALL = Limits(kept_messages_max=64, window_messages_max=16)


@pytest.mark.parametrize("kind", ["shop", "ledger"])
@in_virtual_time
async def test_an_answer_that_was_lost_with_its_stream_is_reset_and_what_was_not_applied_is_answered(kind: str) -> None:
    async with serve(limits=SMALL) as server:
        session, room = await shopper(server, kind)
        flooded = asyncio.create_task(room.ask(Flood()))
        await a_moment()
        server.link(session).cut()
        after = asyncio.create_task(room.ask(Buy(3)))

        with pytest.raises(Reset) as error:
            await flooded
        assert error.value.reason == "resynced"
        assert await after == Bought(3)
        assert [type(message) for message in room.poll()][:2] == [Resynced, Bought]


@in_virtual_time
async def test_an_answer_that_comes_after_its_reset_is_dropped() -> None:
    async with serve(limits=SMALL) as server:
        session, room = await shopper(server)
        waiting = asyncio.create_task(room.ask(Wait(5.0)))
        behind = asyncio.create_task(room.ask(Buy(3)))
        await asyncio.sleep(1.0)
        found = shop(server, room)
        for number in range(200):
            found.players[0].send(Bought(number))

        for each in (waiting, behind):
            with pytest.raises(Reset):
                await each
        await asyncio.sleep(10.0)
        assert found.state.sold == [-1, 3]
        assert await room.ask(Buy(1)) == Bought(4)

        assert [type(message) for message in room.poll()][:2] == [Resynced, Bought]
        assert room.poll() == []
        assert session.drops > 0


# The seat goes


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ("kick", NotSeated, "thieves are not welcome"),
        ("close", NotSeated, "room_closed"),
        ("end", SessionEnded, "enough"),
    ],
)
@in_virtual_time
async def test_an_ask_that_costs_its_sender_the_seat_is_told_so(
    how: str, error: type[HoldfastError], text: str
) -> None:
    async with serve() as server:
        _, room = await shopper(server)

        with pytest.raises(error, match=text):
            await room.ask(Goodbye(how))


@in_virtual_time
async def test_an_ask_that_waits_when_its_seat_is_freed_is_told_so() -> None:
    async with serve() as server:
        _, room = await shopper(server)
        asking = [asyncio.create_task(room.ask(message)) for message in (Wait(5.0), Buy(3))]
        await asyncio.sleep(1.0)

        server.machine.call(shop(server, room).players[0].kick, "out")

        for each in asking:
            with pytest.raises(NotSeated, match="out"):
                await each


@in_virtual_time
async def test_an_ask_of_a_session_whose_seat_was_taken_over_is_told_so() -> None:
    async with serve() as server:
        first, room = await shopper(server)
        asking = asyncio.create_task(room.ask(Wait(5.0)))
        await asyncio.sleep(1.0)

        second = await server.connect("ada", messages=[Bought])
        again = await second.rejoin()

        with pytest.raises((NotSeated, SessionEnded)):
            await asking
        assert await again.ask(Buy(3)) == Bought(3)
        assert [type(message) for message in again.poll()] == [Bought, RoomUpdated]  # the state
        assert first.room is None


@in_virtual_time
async def test_what_was_asked_before_leaving_is_answered_and_what_is_asked_after_is_not() -> None:
    async with serve() as server:
        session, room = await shopper(server)
        asking = asyncio.create_task(room.ask(Buy(3)))
        await asyncio.sleep(0)

        await room.leave()

        assert await asking == Bought(3)
        with pytest.raises(NotSeated):
            await room.ask(Buy(3))
        room = await session.join_or_create("shop")
        asking = asyncio.create_task(room.ask(Wait(5.0)))
        await asyncio.sleep(1.0)
        await session.close()
        with pytest.raises(SessionEnded):
            await asking


# Another process


@in_virtual_time
async def test_the_answers_to_what_an_earlier_process_asked_arrive_as_messages() -> None:
    async with serve() as server:
        first, room = await shopper(server, saved=storage_of(None))
        asking = [asyncio.create_task(room.ask(message)) for message in (Wait(2.0), Buy(3), Buy(0), Look())]
        await asyncio.sleep(1.0)
        state = await suspended(first)
        for each in asking:
            with pytest.raises(SessionEnded):
                await each

        second = await server.connect("ada", messages=[Bought], saved=storage_of(state))
        assert second.room is not None
        heard = [await second.room.receive() for _ in range(3)]
        assert await second.room.ask(Buy(1)) == Bought(4)

        assert heard == [Bought(0), Bought(3), MessageRefused(3, "buy", "refused", "nothing to buy")]
        assert second.room.poll() == []
        assert shop(server, second.room).state.sold == [-1, 3, 1]


@in_virtual_time
async def test_an_ask_that_cannot_be_saved_was_not_sent() -> None:
    class Full:
        def __init__(self) -> None:
            self.is_full = False
            self._inner = storage_of(None)

        def __getattr__(self, name: str) -> Any:
            if self.is_full and name in {"append", "replace"}:
                raise OSError("disk full")
            return getattr(self._inner, name)

    storage = Full()
    async with serve() as server:
        _, room = await shopper(server, saved=storage)
        storage.is_full = True

        with pytest.raises(OSError, match="disk full"):
            await room.ask(Buy(3))

        storage.is_full = False
        assert await room.ask(Buy(1)) == Bought(1)
