"""What the simulation has found in rooms and requests, each reduced to the few steps that it takes."""

import asyncio

import pytest
from msgspec import Raw

from holdfast import Auth, Limits, NotSeated, Player, PlayerData, Reason, Resynced, Room, Spectator, on
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Hello, Request, Welcome
from holdfast.server.server import SUBPROTOCOLS
from holdfast.testing import MemoryServer
from holdfast.testing.server import URL
from holdfast.transports.port import TransportLimits
from tests.saved_sessions import storage_of
from tests.simulation.hostile import RawWire
from tests.simulation.stage import Say, a_moment, chat, in_virtual_time, kill


@in_virtual_time
async def test_a_seat_that_is_freed_before_the_room_heard_of_it_is_never_heard_of() -> None:
    kind = chat()
    async with MemoryServer([kind]) as server:
        bob = await server.connect("bob", messages=[Say])
        room = await bob.join_or_create("chat")
        kind.door.clear()
        await room.send(Say("this takes long"))
        ada = await server.connect("ada")
        joining = asyncio.create_task(ada.join(room.id))
        await a_moment()
        for session in server.sessions.of_player("ada"):
            assert session.player is not None
            session.player.kick("not today")
        kind.door.set()

        with pytest.raises(NotSeated):
            await joining
        assert [line for line in kind.story if "ada" in line] == []


@pytest.mark.parametrize("disconnect", ["soft", "hard"])
@in_virtual_time
async def test_nothing_is_told_of_a_seat_after_it_was_left(disconnect: str) -> None:
    kind = chat(disconnect=disconnect)
    async with MemoryServer([kind]) as server:
        bob = await server.connect("bob", messages=[Say])
        room = await bob.join_or_create("chat")
        ada = await server.connect("ada")
        await ada.join(room.id)
        kind.door.clear()
        await room.send(Say("this takes long"))
        await a_moment()
        server.link(ada).cut()
        await a_moment()
        for session in server.sessions.of_player("ada"):
            if session.player is not None:
                session.player.kick("enough")
        kind.door.set()
        await a_moment()

        of_ada = [line for line in kind.story if "ada" in line]
        assert [line.split()[0] for line in of_ada] == ["join", "leave"]


@in_virtual_time
async def test_requests_that_were_given_up_do_not_stop_the_next_process() -> None:
    door = asyncio.Event()

    class Slow(Room[PlayerData]):
        async def admit(self, player: Player[PlayerData]) -> None:
            await door.wait()

    async with MemoryServer([Slow, chat()]) as server:
        former = await server.connect("ada")
        slow = await former.create("slow")
        joining = asyncio.create_task(former.join(slow.id))
        await a_moment()
        state = former.protocol.save()
        kill(server, former)
        ada = await server.connect("ada", saved=storage_of(state))
        server.dialer(ada).is_down = True
        server.link(ada).cut()
        await a_moment()
        door.set()
        await a_moment()
        server.dialer(ada).is_down = False

        async with asyncio.timeout(60.0):
            await ada.join_or_create("chat")

        assert server.counters.protocol_errors == 0
        joining.cancel()


@in_virtual_time
async def test_a_room_that_ends_with_turns_waiting_has_not_failed() -> None:
    kind = chat(tick_hz=20.0)
    async with MemoryServer([kind]) as server:
        ada = await server.connect("ada")
        room = await ada.join_or_create("chat")
        kind.door.clear()
        await room.send(Say("this takes long"))
        await a_moment()
        for each in server.rooms:
            each.close()
        kind.door.set()
        await a_moment()

        assert len(server.rooms) == 0
        assert server.counters.turns_failed == 0


@in_virtual_time
async def test_who_has_dropped_does_not_take_a_seat_over() -> None:
    kind = chat()
    async with MemoryServer([kind]) as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("chat")
        second = RawWire()
        await server.network.dial(second, URL, subprotocols=SUBPROTOCOLS, limits=TransportLimits.of(server.limits))
        second.say(Hello(Auth("name", "ada")))
        await second.hear(Welcome)

        # In one payload: ask for the seat, and break the protocol before it can be given.
        second.say(Request(1, "join", Raw(MSGPACK.encode({"room": room.id}))), Hello(Auth("name", "ada")))
        await a_moment()

        assert room.left is None
        await room.send(Say("still here"))
        assert await room.receive() == Say("still here")
        assert kind.story == ["join ada", "say still here"]


@in_virtual_time
async def test_what_a_session_has_waiting_does_not_count_against_the_one_that_takes_its_seat_over() -> None:
    kind = chat()
    async with MemoryServer([kind], limits=Limits(window_bytes_max=2048)) as server:
        former = await server.connect("ada", messages=[Say])
        room = await former.join_or_create("chat")
        kind.door.clear()
        for size in (10, 1800, 1800):
            await room.send(Say("x" * size))
        await a_moment()

        ada = await server.connect("ada", messages=[Say])
        await (await ada.join(room.id)).send(Say("from elsewhere"))
        await a_moment()

        assert (ada.drops, server.counters.protocol_errors) == (0, 0)


@pytest.mark.parametrize("is_spectator", [False, True])
@in_virtual_time
async def test_a_stream_that_waits_for_the_state_when_its_seat_is_lost_has_only_the_last_words(
    is_spectator: bool,
) -> None:
    door = asyncio.Event()

    class Echo(Room[PlayerData]):
        max_spectators = 1

        @on(Say, spectators=True)
        async def said(self, speaker: Player[PlayerData] | Spectator, say: Say) -> None:
            if say.text == "this takes long":
                await door.wait()
            speaker.send(say)

        def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
            player.send(Say("goodbye"))

        def on_unspectate(self, spectator: Spectator, reason: Reason) -> None:
            spectator.send(Say("goodbye"))

    async with MemoryServer([Echo], limits=Limits(ack_messages=1)) as server:
        bob = await server.connect("bob")
        echo = await bob.join_or_create("echo")
        former = await server.connect("ada", messages=[Say])
        room = await (former.spectate(echo.id) if is_spectator else former.join(echo.id))
        state = former.protocol.save()
        await room.send(Say("0"))
        assert await room.receive() == Say("0")
        room.acknowledge()
        await room.send(Say("this takes long"))
        await a_moment()
        # What the former process has read is not kept for one that does not remember it.
        ada = await server.connect("ada", messages=[Say], saved=storage_of(state))
        found = ada.spectating if is_spectator else ada.room
        assert found is not None

        for each in server.rooms:
            server.machine.call(each.close)
        await a_moment()
        door.set()

        assert [message async for message in found] == [Resynced(), Say("goodbye")]
        assert found.left is not None
        assert found.left.reason == "room_closed"
