"""What the simulation has found, each reduced to the few steps that it takes."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ClassVar

import pytest
from msgspec import Raw

from holdfast import (
    Auth,
    ClientSession,
    Limits,
    Message,
    NotSeated,
    Player,
    PlayerData,
    Reason,
    Resynced,
    Room,
    on,
)
from holdfast.core.codec import MSGPACK
from holdfast.core.frames import Hello, Request, Welcome
from holdfast.server.server import DIALECTS, transport_limits
from holdfast.testing import MemoryServer, run
from holdfast.testing.server import URL
from tests.simulation.hostile import RawWire


class Say(Message):
    text: str


class Chat(Room[PlayerData]):
    """Tells what it does, and repeats what it hears. Its turns take as long as its door is shut."""

    story: ClassVar[list[str]]
    door: ClassVar[asyncio.Event]

    def on_join(self, player: Player[PlayerData]) -> Any:
        self.story.append(f"join {player.id}")

    def on_drop(self, player: Player[PlayerData]) -> Any:
        self.story.append(f"drop {player.id}")

    def on_rejoin(self, player: Player[PlayerData]) -> Any:
        self.story.append(f"rejoin {player.id}")

    def on_resync(self, player: Player[PlayerData]) -> Any:
        player.send(Say("the state"))

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> Any:
        self.story.append(f"leave {player.id} {reason}")

    @on(Say)
    async def said(self, player: Player[PlayerData], say: Say) -> None:
        await self.door.wait()
        self.story.append(f"say {say.text}")
        self.broadcast(say)


def chat(**settings: Any) -> type[Chat]:
    door = asyncio.Event()
    door.set()
    return type("Chat", (Chat,), {"story": [], "door": door, **settings})


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    async def limited(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(600.0):
            await test(*args, **kwargs)

    @wraps(test)
    def plain(*args: Any, **kwargs: Any) -> None:
        run(limited(*args, **kwargs))

    return plain


async def a_moment() -> None:
    await asyncio.sleep(0.5)


def kill(server: MemoryServer, client: ClientSession) -> None:
    """The process of a client is gone."""
    server.dialer(client).is_dead = True
    server.link(client).cut()


async def until_dialed(server: MemoryServer, client: ClientSession, *, links: int) -> None:
    while len(server.dialer(client).links) < links:  # noqa: ASYNC110 - costs nothing in virtual time
        await asyncio.sleep(0.1)


@in_virtual_time
async def test_numbers_that_wait_in_a_busy_room_are_not_used_again_by_the_next_process() -> None:
    kind = chat()
    async with MemoryServer([kind]) as server:
        former = await server.connect("ada", messages=[Say])
        room = await former.join_or_create("chat")
        state = former.save()
        kind.door.clear()
        await room.send(Say("of the former process"))
        await a_moment()
        kill(server, former)

        ada = await server.connect("ada", messages=[Say], resume=state)
        assert ada.room is not None
        await ada.room.send(Say("of the next process"))
        flushed = asyncio.create_task(ada.room.flush())
        await a_moment()
        assert not flushed.done()
        kind.door.set()
        await flushed

        said = [line for line in kind.story if line.startswith("say")]
        assert said == ["say of the former process", "say of the next process"]
        assert ada.drops == 0


@in_virtual_time
async def test_a_resync_that_nobody_has_read_is_told_by_the_next_process() -> None:
    kind = chat()
    async with MemoryServer([kind], limits=Limits(window_messages_max=4, kept_messages_max=8)) as server:
        former = await server.connect("ada", messages=[Say])
        bob = await server.connect("bob", messages=[Say])
        room = await bob.join((await former.join_or_create("chat")).id)
        server.link(former).stop_reading("client")
        for _ in range(30):
            await room.send(Say("noise"))
            await room.receive()
        await asyncio.sleep(30.0)
        assert former.outcome is not None
        assert former.outcome.kind == "resynced"
        state = former.save()
        kill(server, former)

        ada = await server.connect("ada", messages=[Say], resume=state)

        assert ada.outcome is not None
        assert ada.outcome.kind == "resumed"
        assert ada.room is not None
        assert [await ada.room.receive() for _ in range(2)] == [Resynced(), Say("the state")]


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
        state = former.save()
        kill(server, former)
        ada = await server.connect("ada", resume=state)
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
        await server.network.dial(second, URL, dialects=DIALECTS, limits=transport_limits(server.limits))
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
async def test_a_stream_that_is_read_to_its_end_while_a_resume_is_on_its_way_is_over() -> None:
    kind = chat(disconnect="hard")
    async with MemoryServer([kind], grace_s=60.0) as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("chat")
        for number in range(3):
            await room.send(Say(str(number)))
        await a_moment()
        assert [await room.receive() for _ in range(2)] == [Say("0"), Say("1")]
        server.link(ada).cut()
        await asyncio.sleep(1.0)
        # Back, and told of the end, but it has read no further; then away again, with the way back a long one.
        assert ada.connected
        server.dialer(ada).latency_s = 1.0
        server.link(ada).cut()
        await until_dialed(server, ada, links=3)

        assert [message async for message in room] == [Say("2")]
        await asyncio.sleep(10.0)

        assert ada.outcome is not None
        assert (ada.drops, ada.outcome.kind) == (2, "resumed")
        assert server.counters.protocol_errors == 0


@in_virtual_time
async def test_who_still_speaks_to_a_seat_that_is_gone_hears_its_whole_stream_and_that_it_is_gone() -> None:
    kind = chat(disconnect="hard")
    limits = Limits(window_messages_max=4, kept_messages_max=64, ack_messages=1)
    async with MemoryServer([kind], limits=limits) as server:
        ada = await server.connect("ada", messages=[Say])
        bob = await server.connect("bob", messages=[Say])
        loud = await ada.join_or_create("chat")
        room = await bob.join(loud.id)
        for number in range(20):
            await loud.send(Say(str(number)))
            await loud.receive()
        server.link(bob).cut()
        await asyncio.sleep(5.0)

        # Bob does not know yet that he has lost the seat, and what he says carries his acknowledgements.
        heard = []
        async with asyncio.timeout(60.0):
            for _ in range(4):
                heard.append(await room.receive())
                await room.send(Say("is anybody there?"))
            heard += [message async for message in room]

        assert heard == [Say(str(number)) for number in range(20)]


@in_virtual_time
async def test_a_slow_way_back_does_not_cost_the_session() -> None:
    async with MemoryServer([chat()], grace_s=60.0) as server:
        ada = await server.connect("ada")
        before = ada.id
        server.dialer(ada).latency_s = server.limits.hello_s + 1.0
        server.link(ada).cut()
        await until_dialed(server, ada, links=2)
        # The hello is on its way and will be late; whatever the server answers is not.
        server.link(ada).latency_s = 0.0
        server.dialer(ada).latency_s = None
        await asyncio.sleep(20.0)

        assert ada.id == before
