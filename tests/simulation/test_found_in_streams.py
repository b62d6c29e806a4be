"""What the simulation has found in streams and resumes, each reduced to the few steps that it takes."""

import asyncio

from holdfast import Limits, Resynced
from holdfast.testing import MemoryServer
from tests.saved_sessions import storage_of
from tests.simulation.stage import Say, a_moment, chat, in_virtual_time, kill, until_dialed


@in_virtual_time
async def test_numbers_that_wait_in_a_busy_room_are_not_used_again_by_the_next_process() -> None:
    kind = chat()
    async with MemoryServer([kind]) as server:
        former = await server.connect("ada", messages=[Say])
        room = await former.join_or_create("chat")
        state = former.protocol.save()
        kind.door.clear()
        await room.send(Say("of the former process"))
        await a_moment()
        kill(server, former)

        ada = await server.connect("ada", messages=[Say], saved=storage_of(state))
        assert ada.room is not None
        sent = asyncio.create_task(ada.room.send(Say("of the next process")))
        flushed = asyncio.create_task(ada.room.flush())
        await a_moment()
        assert not flushed.done()
        kind.door.set()
        await flushed
        await sent
        await ada.room.flush()

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
        state = former.protocol.save()
        kill(server, former)

        ada = await server.connect("ada", messages=[Say], saved=storage_of(state))

        assert ada.outcome is not None
        assert ada.outcome.kind == "resumed"
        assert ada.room is not None
        assert [await ada.room.receive() for _ in range(2)] == [Resynced(), Say("the state")]


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
async def test_what_is_sent_again_to_a_busy_room_is_not_too_much_for_it() -> None:
    kind = chat()
    async with MemoryServer([kind], limits=Limits(window_bytes_max=2048)) as server:
        ada = await server.connect("ada", messages=[Say])
        room = await ada.join_or_create("chat")
        kind.door.clear()
        # A message may begin below the window and end above it.
        for size in (10, 1800, 1800):
            await room.send(Say("x" * size))
        await a_moment()
        server.link(ada).cut()
        await asyncio.sleep(10.0)
        kind.door.set()
        await room.flush()

        assert (ada.drops, server.counters.protocol_errors) == (1, 0)


@in_virtual_time
async def test_two_crashes_in_a_row_do_not_make_what_waits_in_a_busy_room_weigh_less() -> None:
    kind = chat()
    async with MemoryServer([kind], limits=Limits(window_bytes_max=2048)) as server:
        former = await server.connect("ada", messages=[Say])
        room = await former.join_or_create("chat")
        state = former.protocol.save()
        kind.door.clear()
        for size in (10, 1800, 1800):
            await room.send(Say("x" * size))
        await a_moment()
        kill(server, former)
        second = await server.connect("ada", messages=[Say], saved=storage_of(state))
        state = second.protocol.save()
        kill(server, second)

        ada = await server.connect("ada", messages=[Say], saved=storage_of(state))
        assert ada.room is not None
        sent = asyncio.create_task(ada.room.send(Say("of the third process")))
        await a_moment()
        kind.door.set()
        # Somebody has to read what the room repeats: it does not let unread messages pile up.
        heard = [await ada.room.receive() for _ in range(4)]
        await sent

        assert heard[-1] == Say("of the third process")
        assert (ada.drops, server.counters.protocol_errors) == (0, 0)


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
