"""A server in memory that crashes, comes back from its store, or is replaced while it sleeps."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
from msgspec import Struct

from holdfast import Effect, Message, Player, PlayerData, Room, on
from holdfast.testing import Disk, FaultyStore, MemoryServer, run


class Say(Message):
    text: str


class Minutes(Struct):
    said: list[str] = []


class Chat(Room[PlayerData]):
    durability = "commit"
    state: Minutes

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Minutes()

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> None:
        self.state.said.append(say.text)
        self.broadcast(say)
        if say.text == "pay":
            self.effect("pay", say.text)


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def plain(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs))

    return plain


@pytest.mark.parametrize("silently", [False, True])
@in_virtual_time
async def test_clients_come_back_to_a_server_that_crashed(silently: bool) -> None:
    async with MemoryServer([Chat], store=FaultyStore(latency_s=0.01)) as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("chat")
        await room.send(Say("before"))
        await room.flush()

        server.crash(silently=silently)
        with pytest.raises(RuntimeError, match="not running"):
            _ = server.operate
        await asyncio.sleep(1.0)
        assert ada.connected is silently
        await server.start()
        await room.send(Say("after"))

        assert [await room.receive(), await room.receive()] == [Say("before"), Say("after")]
        recovered = server.rooms.get(room.id)
        assert recovered is not None
        assert recovered.state.said == ["before", "after"]


@in_virtual_time
async def test_clients_come_back_to_a_server_that_stopped() -> None:
    async with MemoryServer([Chat], store=FaultyStore()) as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("chat")

        await server.stop()
        await server.start()
        await room.send(Say("after"))

        assert await room.receive() == Say("after")


@in_virtual_time
async def test_a_server_that_sleeps_goes_on_where_it_was() -> None:
    async with MemoryServer([Chat], store=FaultyStore()) as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("chat")

        server.pause()
        await room.send(Say("in the meantime"))
        await asyncio.sleep(5.0)
        server.wake()

        assert await room.receive() == Say("in the meantime")
        assert ada.drops == 0


@in_virtual_time
async def test_a_server_that_was_replaced_in_its_sleep_has_no_more_say() -> None:
    disk = Disk()
    async with MemoryServer([Chat], store=FaultyStore(disk)) as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("chat")
        server.pause()
        async with MemoryServer([Chat], seed=1, network=server.network, store=FaultyStore(disk)) as other:
            await room.send(Say("to the old one"))
            server.wake()

            assert await room.receive() == Say("to the old one")
            assert ada.drops == 1
            assert len(server.rooms) == 0
            taken = other.rooms.get(room.id)
            assert taken is not None
            assert taken.state.said == ["to the old one"]


@in_virtual_time
async def test_a_server_that_sleeps_saves_nothing_of_what_it_was_just_told_to_broadcast() -> None:
    disk = Disk()
    async with MemoryServer([Chat], store=FaultyStore(disk)) as server:
        ada = await server.connect("ada", messages=[Say])
        await ada.join_or_create("chat")
        await asyncio.sleep(1.0)
        before = dict(disk.entries)

        server.broadcast(Say("to all"))
        server.pause()
        await asyncio.sleep(1.0)

        assert disk.entries == before
        server.wake()
        assert await ada.receive() == Say("to all")


@in_virtual_time
async def test_nothing_that_a_broadcast_began_goes_on_after_a_crash() -> None:
    attempts: list[int] = []

    async def pay(effect: Effect) -> None:
        attempts.append(effect.attempt)
        raise ConnectionError("the bank does not answer")

    async with MemoryServer([Chat], store=FaultyStore(latency_s=0.05), effects={"pay": pay}) as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("chat")
        await asyncio.sleep(1.0)

        # The commit of the broadcast is followed by the one with the effect.
        server.broadcast(Say("to all"))
        await room.send(Say("pay"))
        await room.flush()
        server.crash()
        await asyncio.sleep(60.0)

        assert attempts == [1]
        await server.start()


@in_virtual_time
async def test_a_server_that_sleeps_does_not_go_on_with_its_drain() -> None:
    class Lobby(Room[PlayerData]):
        """Ends with its server."""

    async with MemoryServer([Lobby]) as server:
        ada = await server.connect("ada")
        await ada.join_or_create("lobby")
        drain = asyncio.create_task(server.drain(1.0))
        await asyncio.sleep(0.5)

        server.pause()
        await asyncio.sleep(5.0)

        assert not drain.done()
        server.wake()
        await drain


@in_virtual_time
async def test_a_server_that_sleeps_or_has_crashed_cannot_broadcast() -> None:
    async with MemoryServer([Chat], store=FaultyStore()) as server:
        server.pause()
        with pytest.raises(RuntimeError, match="paused"):
            server.broadcast(Say("to all"))
        server.wake()

        server.crash()
        with pytest.raises(RuntimeError, match="not running"):
            server.broadcast(Say("to all"))
        await server.start()


@in_virtual_time
async def test_a_store_that_would_not_crash_too_is_refused() -> None:
    async with MemoryServer([Chat], store="memory:") as server:
        with pytest.raises(RuntimeError, match="FaultyStore"):
            server.crash()
