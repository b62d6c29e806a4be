import logging

import pytest

from holdfast import Outcome, Reason, Session, SessionEnded
from holdfast.core.reasons import CLOSE_CODES
from holdfast.core.room import context_of
from holdfast.schemas.frames import TEXT_CHARS_MAX
from tests.saved_sessions import storage_of
from tests.server.world import (
    Gate,
    Say,
    World,
    chat,
    hear_the_end,
    player_in,
    room_of,
    server_side,
    texts_until,
    until_resumed,
)


async def test_a_session_that_is_disconnected_comes_back_by_itself(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    outcome = await until_resumed(session, lambda: server_side(server, session).disconnect("try the other door"))

    assert outcome.kind == "resumed"
    assert [line[0] for line in kind.story.lines[3:]] == ["on_drop", "on_rejoin"]
    await room.send(Say("back"))
    assert await texts_until(room, "back") == ["back"]


async def test_a_disconnected_client_is_told_why(world: World) -> None:
    server = await world.serve(chat())
    client = await world.raw(server)
    welcome = await client.sign_in()
    session = server.sessions.get(welcome.session)
    assert session is not None

    session.disconnect("try the other door")
    close = await client.closed()

    assert (close.code, close.reason, close.message) == (
        CLOSE_CODES[Reason.DISCONNECTED],
        Reason.DISCONNECTED,
        "try the other door",
    )
    session.disconnect("nobody is there any more")
    assert session.status == "disconnected"


async def test_a_session_that_is_ended_frees_the_seat_and_does_not_come_back(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    state = session.protocol.save()
    ended_session = server_side(server, session)

    ended_session.end("banned")
    await hear_the_end(room)

    assert room.left is not None
    assert (room.left.reason, room.left.message) == (Reason.KICKED, "banned")
    with pytest.raises(SessionEnded, match="banned") as ended:
        await session.search()
    assert ended.value.reason == Reason.KICKED
    assert ended_session.status == "ended"
    assert kind.story.lines[-1] == ("on_leave", session.player_id, Reason.KICKED)
    assert len(server.sessions) == 0
    again = await world.connect(server, saved=storage_of(state))
    assert again.outcome == Outcome("reset", reason=Reason.EXPIRED)
    ended_session.end("twice")
    assert server.counters.sessions_ended == 1


@pytest.mark.parametrize("command", ["disconnect", "end"])
async def test_a_reason_with_too_many_words_is_shortened(world: World, command: str) -> None:
    server = await world.serve(chat())
    client = await world.raw(server)
    welcome = await client.sign_in()
    session = server.sessions.get(welcome.session)

    getattr(session, command)("long " * 20_000)
    close = await client.closed()

    assert close.message.startswith("long long")
    assert len(close.message) <= TEXT_CHARS_MAX


async def test_the_sessions_own_callback_runs_before_the_room_hears_of_a_drop(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    def on_disconnect(lost: Session) -> None:
        assert lost.room_id == room.id
        kind.story.tell("on_disconnect", lost.status)

    server_side(server, session).on_disconnect = on_disconnect
    await until_resumed(session, session.cut)

    assert kind.story.lines[3:5] == [("on_disconnect", "disconnected"), ("on_drop", session.player_id)]


async def test_a_callback_that_raises_does_not_keep_the_room_from_hearing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    await session.join_or_create("chat")

    def on_disconnect(lost: Session) -> None:
        raise ZeroDivisionError("a bug of the game")

    server_side(server, session).on_disconnect = on_disconnect
    await until_resumed(session, session.cut)

    assert [line[0] for line in kind.story.lines[3:]] == ["on_drop", "on_rejoin"]
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert session.id in record.getMessage()


async def test_a_callback_may_end_the_session(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    await session.join_or_create("chat")

    server_side(server, session).on_disconnect = lambda lost: lost.end("one chance only")
    outcome = await until_resumed(session, session.cut)

    assert outcome.kind == "reset"
    assert [line[0] for line in kind.story.lines[3:]] == ["on_leave"]
    assert server.counters.internal_errors == 0


async def test_no_member_is_left_however_players_go(world: World) -> None:
    kind = chat(grace_s=0.1, max_players=6)
    server = await world.serve(kind)
    gate = Gate()
    sessions = [await world.connect(server, dial=gate) for _ in range(6)]
    rooms = [await session.join_or_create("chat") for session in sessions]
    room = room_of(server, rooms[0])
    gate.shut()

    await rooms[0].leave()
    await sessions[1].close()
    sessions[2].cut()
    await sessions[3].suspend()
    player_in(server, rooms[4], sessions[4]).kick()
    server_side(server, sessions[5]).end()
    await kind.story.has("on_leave", times=6)

    assert (room.players, context_of(room).seats.used) == ((), 0)
    assert {line[1]: line[2] for line in kind.story.of("on_leave")} == {
        sessions[0].player_id: Reason.LEFT,
        sessions[1].player_id: Reason.LEFT,
        sessions[2].player_id: Reason.GRACE_ENDED,
        sessions[3].player_id: Reason.GRACE_ENDED,
        sessions[4].player_id: Reason.KICKED,
        sessions[5].player_id: Reason.KICKED,
    }
    assert {session.player_id for session in server.sessions} == {sessions[0].player_id, sessions[4].player_id}
    assert all(not session.room_id for session in server.sessions)
