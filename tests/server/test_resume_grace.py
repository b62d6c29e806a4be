import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import Auth, Outcome, Reason
from holdfast.core.reasons import CLOSE_CODES
from holdfast.schemas.frames import Position, Welcome
from tests.saved_sessions import storage_of, suspended
from tests.server.world import (
    CLOCK_S,
    Chat,
    Gate,
    Say,
    World,
    chat,
    hear,
    player_in,
    room_of,
    texts_until,
    until_resumed,
)

GRACE_S = 0.3


def as_chat(room: Any) -> Chat:
    assert isinstance(room, Chat)
    return room


# The grace


async def test_a_dropped_player_keeps_the_seat_until_the_grace_ends_and_no_longer(world: World) -> None:
    kind = chat(grace_s=GRACE_S)
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    await session.join_or_create("chat")
    (server_session,) = server.sessions
    gate.shut()

    session.cut()
    await kind.story.has("on_leave")

    assert kind.story.lines[-1] == ("on_leave", session.player_id, Reason.GRACE_ENDED)
    (dropped_at,), (left_at,) = kind.story.when("on_drop"), kind.story.when("on_leave")
    assert left_at - dropped_at >= GRACE_S - CLOCK_S
    assert (server_session.status, server_session.end_reason) == ("ended", Reason.GRACE_ENDED)
    assert len(server.sessions) == 0


async def test_a_session_without_a_seat_waits_for_the_servers_grace(world: World) -> None:
    server = await world.serve(chat(), grace_s=GRACE_S)
    client = await world.raw(server)
    welcome = await client.sign_in()
    (server_session,) = server.sessions
    dropped = asyncio.Event()
    server_session.on_disconnect = lambda _: dropped.set()

    before = server.parts.clock.now()
    client.cut()
    await dropped.wait()
    after = server.parts.clock.now()

    assert welcome.terms.grace_s == GRACE_S
    assert server_session.status == "disconnected"
    assert server_session.expires_at is not None
    assert before <= server_session.expires_at - GRACE_S <= after


async def test_a_game_may_give_one_player_a_grace_of_their_own(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    room = await session.join_or_create("chat")
    player_in(server, room, session).session.grace_s = GRACE_S
    gate.shut()

    session.cut()
    await kind.story.has("on_leave")

    (dropped_at,), (left_at,) = kind.story.when("on_drop"), kind.story.when("on_leave")
    assert GRACE_S - CLOCK_S <= left_at - dropped_at < 5


async def test_a_return_in_time_cancels_the_end(world: World) -> None:
    kind = chat(grace_s=GRACE_S)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await until_resumed(session, session.cut)
    room_of(server, room).after(GRACE_S * 1.5, as_chat(room_of(server, room)).announce, "the grace is over")
    await hear(room, "the grace is over")

    assert kind.story.of("on_leave") == []
    assert player_in(server, room, session).connected
    assert player_in(server, room, session).session.expires_at is None


async def test_a_second_drop_gets_a_whole_grace_of_its_own(world: World) -> None:
    kind = chat(grace_s=GRACE_S)
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    room = await session.join_or_create("chat")
    await until_resumed(session, session.cut)
    room_of(server, room).after(GRACE_S * 0.6, as_chat(room_of(server, room)).announce, "a while later")
    await hear(room, "a while later")
    gate.shut()

    session.cut()
    await kind.story.has("on_leave")

    first, second = kind.story.when("on_drop")
    (left_at,) = kind.story.when("on_leave")
    assert left_at - second >= GRACE_S - CLOCK_S, f"it left {left_at - first} s after its first drop"


async def test_after_the_grace_the_same_player_gets_a_new_session_and_is_told_why(world: World) -> None:
    kind = chat(grace_s=0.0)
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    room = await session.join_or_create("chat")
    session_id, player_id = session.id, session.player_id
    gate.shut()
    session.cut()
    await kind.story.has("on_leave")

    outcome = await until_resumed(session, gate.open)

    assert outcome == Outcome("reset", reason=Reason.EXPIRED)
    assert (session.player_id, session.room) == (player_id, None)
    assert session.id != session_id
    with pytest.raises(holdfast.NotSeated):
        await room.receive()
    assert room.left is not None
    assert room.left.reason == Reason.EXPIRED


async def test_a_client_that_cannot_sign_in_again_is_told_that_its_session_is_gone(world: World) -> None:
    kind = chat(grace_s=0.0)
    server = await world.serve(kind)
    client = await world.raw(server)
    welcome = await client.sign_in()
    await client.join()
    client.cut()
    await kind.story.has("on_leave")

    late = await world.raw(server)
    late.ask_to_resume(welcome)
    close = await late.closed()

    assert (close.code, close.reason) == (CLOSE_CODES[Reason.EXPIRED], Reason.EXPIRED)


async def test_every_resume_is_told_exactly_one_outcome(world: World) -> None:
    kind = chat(grace_s=GRACE_S)
    server = await world.serve(kind)
    client = await world.raw(server)
    first = await client.sign_in()
    await client.join()
    signed_in_again = Auth("guest", first.credential)

    async def come_back(welcome: Welcome, *positions: Position) -> Welcome:
        client = await world.raw(server)
        back = await client.resume(welcome, *positions, auth=signed_in_again)
        assert len(client.all_heard(Welcome)) == 1
        client.cut()
        return back

    resumed = await come_back(first, Position(1, 1, 0))
    resynced = await come_back(resumed, Position(1, 1, None))
    await kind.story.has("on_leave")
    reset = await come_back(resynced, Position(1, 2, 0))

    assert resumed.outcome == Outcome("resumed")
    assert resynced.outcome == Outcome("resynced")
    assert reset.outcome == Outcome("reset", reason=Reason.EXPIRED)
    assert (reset.player, reset.channels) == (first.player, [])
    counters = server.counters
    assert (counters.resumed, counters.resynced, counters.reset) == (1, 1, 1)


# Nothing is left


async def test_nothing_is_left_of_sessions_that_ended(world: World) -> None:
    kind = chat(empty_ttl_s=0.0)
    server = await world.serve(kind)
    sessions = [await world.connect(server) for _ in range(3)]
    server_sessions = list(server.sessions)
    for session in sessions:
        await session.join_or_create("chat")
        await until_resumed(session, session.cut)
    connections = [session.connection for session in server_sessions]

    for session in sessions:
        await session.close()
    await kind.story.has("on_destroyed")

    assert (len(server.sessions), len(server.rooms), len(server.parts.connections)) == (0, 0, 0)
    for server_session, connection in zip(server_sessions, connections, strict=True):
        assert connection is not None
        assert server.sessions.get(server_session.id) is None
        assert server.sessions.of_player(server_session.player_id) == []
        assert server.sessions.of_connection(connection.id) is None
    assert server.counters.sessions == server.counters.sessions_ended == 3


async def test_a_closed_session_tells_its_room_that_the_player_left(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    await session.join_or_create("chat")

    await session.close()

    assert kind.story.lines[-1] == ("on_leave", session.player_id, Reason.LEFT)
    assert len(server.sessions) == 0


async def test_a_suspended_session_goes_on_in_another_client(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    first = await world.connect(server)
    first_room = await first.join_or_create("chat")
    await first_room.send(Say("a"))
    await hear(first_room, "a")
    await first_room.send(Say("b"))

    state = await suspended(first)
    second = await world.connect(server, saved=storage_of(state))

    assert second.room is not None
    assert second.id == first.id
    await second.room.send(Say("c"))
    assert (await texts_until(second.room, "c"))[-2:] == ["b", "c"]
    assert [text for _, _, text in kind.story.of("said")] == ["a", "b", "c"]
