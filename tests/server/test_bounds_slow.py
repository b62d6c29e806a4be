"""What waits for a client that is slow or away is bounded, and so is what it may send ahead."""

import asyncio
from dataclasses import replace

from holdfast import (
    ClientRoom,
    Limits,
    Message,
    Outcome,
    Player,
    PlayerData,
    Reason,
    Resynced,
    Room,
    Server,
    WebSocket,
    connect,
    on,
)
from holdfast.core.limits import KIB
from holdfast.core.reasons import CLOSE_CODES
from holdfast.core.session import seat_of
from holdfast.schemas.frames import Ack, Data, Position
from tests.server.world import Chat, Gate, Hero, Said, Say, World, chat, hear, player_in, texts_until, until_resumed

WINDOW = 16


KEPT = 64


SMALL = Limits(window_messages_max=WINDOW, kept_messages_max=KEPT)


async def talk(room: ClientRoom, count: int, name: str = "line") -> list[str]:
    """Say this many things and hear each of them back: what others do does not slow this client down."""
    heard: list[str] = []
    for number in range(count):
        await room.send(Say(f"{name} {number}"))
        heard += await texts_until(room, f"{name} {number}")
    return heard


# A client that does not read


async def test_a_client_that_never_reads_is_closed_as_slow_and_the_others_notice_nothing(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=SMALL)
    stuck = await world.raw(server)
    welcome = await stuck.sign_in()
    await stuck.join()
    stuck.link.pause_reading()
    other = await world.connect(server)
    room = await other.join_or_create("chat")

    heard = await talk(room, KEPT + 10)

    assert heard == [f"line {number}" for number in range(KEPT + 10)]
    assert kind.story.of("on_drop") == [("on_drop", welcome.player)]
    assert other.drops == 0
    assert server.counters.streams_overflowed == 1
    stuck.link.resume_reading()
    close = await stuck.closed()
    assert (close.code, close.reason) == (CLOSE_CODES[Reason.SLOW], Reason.SLOW)
    assert len(stuck.all_heard(Data)) == WINDOW


async def test_a_client_that_was_too_slow_is_resynced_and_then_misses_nothing(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=SMALL)
    slow, fast = await world.connect(server), await world.connect(server)
    slow_room, fast_room = await slow.join_or_create("chat"), await fast.join_or_create("chat")
    resuming = asyncio.create_task(until_resumed(slow, lambda: None))
    await talk(fast_room, KEPT + 1)

    outcome = await resuming
    said = await talk(fast_room, 3, "after")

    assert outcome == Outcome("resynced", drop_reason=Reason.SLOW)
    resynced, state, *rest = await hear(slow_room, "after 2")
    assert resynced == Resynced(), "what was not read before is of an older state"
    assert state == Said("room", "the state"), "on_resync was called, and what it sent came first"
    assert [message.text for message in rest if isinstance(message, Said)] == said
    assert kind.story.of("on_resync") == [("on_resync", slow.player_id)]


async def test_a_player_for_whom_too_much_waited_while_away_is_resynced(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=SMALL)
    gate = Gate()
    away = await world.connect(server, dial=gate)
    here = await world.connect(server)
    away_room, here_room = await away.join_or_create("chat"), await here.join_or_create("chat")
    gate.shut()
    away.cut()
    await kind.story.has("on_drop")
    await talk(here_room, KEPT + 1)

    outcome = await until_resumed(away, gate.open)

    assert outcome == Outcome("resynced")
    assert await away_room.receive() == Resynced()
    assert await away_room.receive() == Said("room", "the state")
    assert player_in(server, away_room, away).connected
    assert server.counters.resynced == 1


async def test_a_player_for_whom_too_much_waited_and_who_lost_the_seat_meanwhile_learns_that_it_is_gone(
    world: World,
) -> None:
    kind = chat()
    server = await world.serve(kind, limits=SMALL)
    gate = Gate()
    away = await world.connect(server, dial=gate)
    room = await away.join_or_create("chat")
    player = player_in(server, room, away)
    gate.shut()
    away.cut()
    await kind.story.has("on_drop")
    for number in range(KEPT + 1):
        player.send(Said("room", str(number)))
    player.kick("away too long")

    outcome = await until_resumed(away, gate.open)

    assert outcome == Outcome("resynced")
    assert [message async for message in room] == []
    assert room.left is not None
    assert room.left.reason == Reason.DROPPED  # why, it could not be told
    assert server.counters.internal_errors == 0


async def test_messages_count_by_their_bytes_too(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=Limits(kept_bytes_max=32 * KIB))
    gate = Gate()
    away = await world.connect(server, dial=gate)
    room = await away.join_or_create("chat")
    player = player_in(server, room, away)
    gate.shut()
    away.cut()
    await kind.story.has("on_drop")

    for _ in range(5):
        player.send(Said("room", "x" * 8 * KIB))
    outcome = await until_resumed(away, gate.open)

    assert outcome == Outcome("resynced")


async def test_a_resync_loses_nothing_of_what_the_client_sent(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=SMALL)
    gate = Gate()
    away = await world.connect(server, dial=gate)
    here = await world.connect(server)
    away_room, here_room = await away.join_or_create("chat"), await here.join_or_create("chat")
    gate.shut()
    away.cut()
    await kind.story.has("on_drop")
    await talk(here_room, KEPT + 1)
    for text in "abc":
        await away_room.send(Say(text))

    await until_resumed(away, gate.open)
    await away_room.flush()

    assert [line[2] for line in kind.story.of("said", away.player_id)] == ["a", "b", "c"]


# Windows


async def test_the_server_sends_no_more_than_a_window_ahead_of_the_acknowledgements(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=SMALL)
    client = await world.raw(server)
    await client.sign_in()
    seat = await client.join()
    room = server.rooms.get(seat.room)
    assert isinstance(room, Chat)
    for number in range(WINDOW * 2):
        room.announce(str(number))
    await client.request("search")
    assert len(client.all_heard(Data)) == WINDOW

    client.say(Ack(seat.channel, 3))
    await client.request("search")

    assert [frame.seq for frame in client.all_heard(Data)] == list(range(1, WINDOW + 4))


class Busy(Chat):
    """Takes as long for a message as the test likes."""

    may_go_on: asyncio.Event

    @on(Say)
    async def said(self, player: Player[Hero], say: Say) -> None:
        self.story.tell("said", player.id, say.text)
        await self.may_go_on.wait()
        self.broadcast(Said(player.id, say.text))


async def test_a_client_waits_with_more_than_a_window_of_unapplied_messages(world: World) -> None:
    kind = chat(Busy, may_go_on=asyncio.Event())
    server = await world.serve(kind, limits=Limits(window_messages_max=4))
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    for number in range(4):
        await room.send(Say(str(number)))

    fifth = asyncio.create_task(room.send(Say("4")))
    await session.search()
    is_waiting = not fifth.done()
    kind.may_go_on.set()  # type: ignore[attr-defined] # of `Busy`
    await fifth

    assert is_waiting
    assert await texts_until(room, "4") == ["0", "1", "2", "3", "4"]


async def test_a_client_that_ignores_the_window_is_stopped_and_may_resume(world: World) -> None:
    kind = chat(Busy, may_go_on=asyncio.Event())
    server = await world.serve(kind, limits=Limits(window_messages_max=4))
    client = await world.raw(server)
    welcome = await client.sign_in()
    await client.join()

    for seq in range(1, 7):
        client.send(seq, Say(str(seq)))
    close = await client.closed()
    kind.may_go_on.set()  # type: ignore[attr-defined] # of `Busy`
    await kind.story.has("said", times=4)
    back = await world.raw(server)
    await back.resume(welcome, Position(1, 1, 0))

    assert close.reason == Reason.SEQUENCE
    assert [text for _, _, text in kind.story.of("said")] == ["1", "2", "3", "4"]


async def test_what_a_client_piles_up_in_a_busy_room_is_bounded_in_bytes() -> None:
    class Blob(Message):
        data: str

    class Busy(Room[PlayerData]):
        @on(Blob)
        async def blob(self, player: Player[PlayerData], blob: Blob) -> None:
            await done.wait()

    done = asyncio.Event()
    limits = Limits(window_bytes_max=10_000)
    async with Server([Busy], listen=[WebSocket(port=0)], limits=limits) as server, connect(server.url) as session:
        room = await session.join_or_create("busy")
        session.protocol.limits = replace(session.protocol.limits, window_bytes_max=10**9, kept_bytes_max=10**9)
        session.protocol.channels.agree(session.protocol.limits)
        dropped = asyncio.Event()
        session.on_drop(lambda _: dropped.set())

        for _ in range(20):
            await room.send(Blob("x" * 1000))
        async with asyncio.timeout(10):
            await dropped.wait()
        [player] = next(iter(server.rooms)).players
        piled_up = seat_of(player).outlet.waiting_bytes
        done.set()
        async with asyncio.timeout(10):
            await room.flush()

    assert piled_up < 12_000
