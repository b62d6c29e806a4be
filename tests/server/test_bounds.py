import asyncio
from dataclasses import replace

import pytest

from holdfast import (
    Auth,
    ClientRoom,
    Invalid,
    Limits,
    Message,
    MessageRefused,
    Outcome,
    Player,
    PlayerData,
    Reason,
    Resynced,
    Room,
    Server,
    SessionEnded,
    Throttled,
    connect,
    on,
)
from holdfast.core.frames import FRAME_HEAD_BYTES, Ack, Data, Hello, Position
from holdfast.core.limits import KIB
from holdfast.core.reasons import CLOSE_CODES
from holdfast.testing import generous
from tests.server.world import (
    Chat,
    Gate,
    Hero,
    Said,
    Say,
    World,
    chat,
    hear,
    player_in,
    texts_until,
    until_resumed,
)

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


# Sizes


async def test_a_message_too_large_to_send_is_an_error_that_says_so_and_harms_nothing(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    with pytest.raises(Invalid, match=r"'say' of \d+ bytes.*in parts"):
        await room.send(Say("x" * 64 * KIB))

    await room.send(Say("small"))
    assert await texts_until(room, "small") == ["small"]
    assert session.drops == 0


async def test_the_largest_message_that_may_be_sent_arrives(world: World) -> None:
    server = await world.serve(chat(Quiet))
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    largest = 64 * KIB - FRAME_HEAD_BYTES - len(session.protocol.codec.encode(Say(""))) - 2

    await room.send(Say("x" * largest))
    await room.flush()

    with pytest.raises(Invalid):
        await room.send(Say("x" * (largest + 1)))
    assert session.drops == 0


class Quiet(Chat):
    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        self.story.tell("said", player.id, len(say.text))


class Shout(Message):
    """Answered with more than fits."""

    how: str


class Loud(Chat):
    @on(Shout)
    def shouted(self, player: Player[Hero], shout: Shout) -> None:
        message = Said(player.id, "x" * 64 * KIB)
        match shout.how:
            case "send":
                player.send(message)
            case "send_latest":
                player.send_latest(message)
            case _:
                self.broadcast(message)


@pytest.mark.parametrize("how", ["send", "send_latest", "broadcast"])
async def test_a_room_that_sends_too_large_a_message_gets_the_error_and_goes_on(world: World, how: str) -> None:
    server = await world.serve(chat(Loud))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Shout(how))
    refused = await room.receive()

    assert isinstance(refused, MessageRefused)
    assert (refused.type, refused.code) == ("shout", "invalid")
    assert "'said' of 65" in refused.message
    assert "in parts" in refused.message
    await room.send(Say("small"))
    assert await texts_until(room, "small") == ["small"]


# Unreliable messages


class Moved(Message):
    who: str
    x: int


async def moves(room: ClientRoom) -> list[Message]:
    """The moves that come; they may be overtaken by what is reliable, so one word is not enough to be sure."""
    heard: list[Message] = []
    for text in ("that was all", "really"):
        await room.send(Say(text))
        heard += await hear(room, text)
    return [message for message in heard if isinstance(message, Moved)]


async def test_of_unreliable_messages_only_the_newest_per_key_is_sent(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server, messages=[Moved])
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)

    for x in range(5):
        player.send_latest(Moved("ada", x), key="ada")
        player.send_latest(Moved("bob", x), key="bob")

    assert await moves(room) == [Moved("ada", 4), Moved("bob", 4)]


async def test_unreliable_messages_are_not_kept_for_who_is_away(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate, messages=[Moved])
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)
    gate.shut()
    session.cut()
    await kind.story.has("on_drop")
    player.send_latest(Moved("ada", 1))
    player.send(Said("room", "reliable"))

    outcome = await until_resumed(session, gate.open)

    assert outcome == Outcome("resumed", replayed=1)
    assert await hear(room, "reliable") == [Said("room", "reliable")]


async def test_no_more_unreliable_messages_wait_than_the_limit(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(latest_kept_max=3))
    session = await world.connect(server, messages=[Moved])
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)

    for x in range(10):
        player.send_latest(Moved("ada", x), key=str(x))

    assert await moves(room) == [Moved("ada", 7), Moved("ada", 8), Moved("ada", 9)]


# How many


async def test_a_node_with_all_its_connections_is_busy_and_says_when_to_come_back(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(connections_max=1, hello_s=0.2))
    first = await world.raw(server)
    await first.sign_in()

    second = await world.raw(server)
    close = await second.closed()

    assert (close.code, close.reason) == (CLOSE_CODES[Reason.BUSY], Reason.BUSY)
    assert close.retry_after_s >= 0.2
    assert server.counters.connections_refused == 1
    await first.request("search")


async def test_a_client_that_finds_the_node_busy_gets_in_when_there_is_space(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(connections_max=1, hello_s=0.1))
    first = await world.connect(server)
    connecting = asyncio.create_task(world.connect(server))
    refused = server.counters.connections_refused
    while refused == 0:
        await first.search()
        refused = server.counters.connections_refused

    await first.close()
    second = await connecting

    assert second.outcome == Outcome("new")


async def test_a_node_with_all_its_sessions_is_busy_until_one_ends(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(sessions_max=1, hello_s=0.2))
    first = await world.connect(server)

    second = await world.raw(server)
    second.say(Hello(Auth()))
    close = await second.closed()
    await first.close()
    third = await world.connect(server)

    assert (close.reason, close.retry_after_s) == (Reason.BUSY, 0.2)
    assert third.outcome == Outcome("new")


async def test_a_dropped_session_counts_until_its_grace_ends(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=Limits(sessions_max=1))
    gate = Gate()
    away = await world.connect(server, dial=gate)
    await away.join_or_create("chat")
    gate.shut()
    away.cut()
    await kind.story.has("on_drop")

    stranger = await world.raw(server)
    stranger.say(Hello(Auth()))
    close = await stranger.closed()

    assert close.reason == Reason.BUSY
    assert (await until_resumed(away, gate.open)).kind == "resumed"


async def test_a_player_who_signs_in_too_often_loses_the_oldest_session(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(sessions_per_player_max=2))
    first = await world.connect(server)
    first_room = await first.join_or_create("chat")
    same = Auth("guest", first.credential)
    second = await world.connect(server, auth=same)

    third = await world.connect(server, auth=same)

    assert [message async for message in first_room] == []
    assert first_room.left is not None
    assert first_room.left.reason == Reason.SUPERSEDED
    with pytest.raises(SessionEnded) as ended:
        await first.search()
    assert ended.value.reason == Reason.SUPERSEDED
    assert {session.id for session in server.sessions} == {second.id, third.id}


async def test_a_player_who_signs_in_too_often_loses_a_dropped_session_first(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(sessions_per_player_max=2))
    first = await world.connect(server)
    same = Auth("guest", first.credential)
    gate = Gate()
    second = await world.connect(server, auth=same, dial=gate)
    dropped = asyncio.Event()
    server_session = server.sessions.get(second.id)
    assert server_session is not None
    server_session.on_disconnect = lambda _: dropped.set()
    gate.shut()
    second.cut()
    await dropped.wait()

    third = await world.connect(server, auth=same)

    assert {session.id for session in server.sessions} == {first.id, third.id}


async def test_a_node_has_no_more_rooms_than_its_limit(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=Limits(rooms_max=1))
    session = await world.connect(server)
    await session.create("chat")

    with pytest.raises(Throttled):
        await session.create("chat")

    assert len(server.rooms) == 1


async def test_a_client_with_too_many_unanswered_requests_is_stopped(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(requests_in_flight_max=4))
    client = await world.raw(server)
    await client.sign_in()

    for _ in range(12):
        client.ask("search")
    close = await client.closed()

    assert close.reason == Reason.SEQUENCE


async def test_a_client_asks_only_so_much_at_once_and_gets_every_answer(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(requests_in_flight_max=4))
    session = await world.connect(server)

    answers = await asyncio.gather(*(session.search() for _ in range(40)))

    assert answers == [[]] * 40
    assert session.drops == 0


async def test_a_client_that_asks_and_never_reads_is_cut(world: World) -> None:
    kind = chat()
    limits = Limits(window_bytes_max=16 * KIB, write_buffer_bytes_max=64 * KIB, replies_kept_max=4)
    server = await world.serve(kind, limits=generous(limits))
    host = await world.connect(server)
    for _ in range(20):
        await host.create("chat", properties={"a long story": "x" * 1900})
    greedy = await world.raw(server)
    welcome = await greedy.sign_in()
    dropped = asyncio.Event()
    server_session = server.sessions.get(welcome.session)
    assert server_session is not None
    server_session.on_disconnect = lambda _: dropped.set()
    greedy.link.pause_reading()

    while not dropped.is_set():
        greedy.ask("search")
        await host.search()

    assert server_session.status == "disconnected"
    assert host.drops == 0


async def test_a_message_that_one_dialect_cannot_carry_reaches_nobody_rather_than_some() -> None:
    class Count(Message):
        n: int

    class Counting(Room[PlayerData]):
        @on(Count)
        def count(self, player: Player[PlayerData], count: Count) -> None:
            self.broadcast(count)

    async with Server([Counting], port=0, tcp_port=None) as server:
        json = await connect(server.url, messages=[Count], dialect="holdfast.v1.json")
        msgpack = await connect(server.url, messages=[Count])
        rooms = [await session.join_or_create("counting") for session in (json, msgpack)]

        await rooms[0].send(Count(2**70))
        await rooms[0].send(Count(1))

        assert isinstance(await rooms[0].receive(), MessageRefused)
        assert [await room.receive() for room in rooms] == [Count(1), Count(1)]
        for session in (json, msgpack):
            await session.close()


async def test_what_a_client_piles_up_in_a_busy_room_is_bounded_in_bytes() -> None:
    class Blob(Message):
        data: str

    class Busy(Room[PlayerData]):
        @on(Blob)
        async def blob(self, player: Player[PlayerData], blob: Blob) -> None:
            await done.wait()

    done = asyncio.Event()
    limits = Limits(window_bytes_max=10_000)
    async with Server([Busy], port=0, tcp_port=None, limits=limits) as server, connect(server.url) as session:
        room = await session.join_or_create("busy")
        session.protocol.limits = replace(session.protocol.limits, window_bytes_max=10**9, kept_bytes_max=10**9)
        session.protocol.channels.agree(session.protocol.limits)
        dropped = asyncio.Event()
        session.on_drop = dropped.set

        for _ in range(20):
            await room.send(Blob("x" * 1000))
        async with asyncio.timeout(10):
            await dropped.wait()
        [player] = next(iter(server.rooms)).players
        piled_up = player.outlet.waiting_bytes
        done.set()
        async with asyncio.timeout(10):
            await room.flush()

    assert piled_up < 12_000
