import pytest

from holdfast import Outcome, Player, Reason, SessionEnded, Tcp, WebSocket
from holdfast.core.reasons import CLOSE_CODES
from holdfast.schemas.frames import Data, Position
from tests.saved_sessions import storage_of
from tests.server.world import Chat, Gate, Hero, Say, World, chat, texts_until, until_resumed, url_of


async def test_the_newest_connection_wins_at_once_and_the_old_one_is_told(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    old = await world.connect(server)
    old_room = await old.join_or_create("chat")

    new = await world.connect(server, saved=storage_of(old.protocol.save()))

    with pytest.raises(SessionEnded) as ended:
        await old_room.receive()
    assert ended.value.reason == Reason.SUPERSEDED
    assert new.outcome == Outcome("resumed")
    assert new.room is not None
    assert (new.id, new.room.id) == (old.id, old_room.id)
    assert [line[0] for line in kind.story.lines[3:]] == ["on_drop", "on_rejoin"]
    await new.room.send(Say("it is me"))
    assert await texts_until(new.room, "it is me") == ["it is me"]


async def test_what_the_old_connection_still_says_is_not_applied(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    half_open = await world.raw(server)
    welcome = await half_open.sign_in()
    await half_open.join()
    half_open.link.pause_reading()
    new = await world.raw(server)
    await new.resume(welcome, Position(1, 1, 0))

    half_open.send(1, Say("a ghost"))
    half_open.link.resume_reading()
    close = await half_open.closed()
    new.send(1, Say("alive"))
    await new.hear(Data)

    assert (close.code, close.reason) == (CLOSE_CODES[Reason.SUPERSEDED], Reason.SUPERSEDED)
    assert [text for _, _, text in kind.story.of("said")] == ["alive"]


@pytest.mark.parametrize("hook", ["on_disconnect", "on_drop"])
async def test_a_game_may_end_a_session_in_the_moment_it_is_continued_elsewhere(world: World, hook: str) -> None:
    class Strict(Chat):
        def on_drop(self, player: Player[Hero]) -> None:
            if hook == "on_drop":
                player.session.end("one connection only")

    kind = chat(Strict)
    server = await world.serve(kind)
    old = await world.raw(server)
    welcome = await old.sign_in()
    await old.join()
    session = server.sessions.get(welcome.session)
    assert session is not None
    if hook == "on_disconnect":
        session.on_disconnect = lambda lost: lost.end("one connection only")

    new = await world.raw(server)
    new.ask_to_resume(welcome)

    assert (await old.closed()).reason == Reason.SUPERSEDED
    assert (await new.closed()).reason == Reason.KICKED
    assert kind.story.lines[-1] == ("on_leave", welcome.player, Reason.KICKED)
    assert (len(server.sessions), server.counters.internal_errors) == (0, 0)


async def test_each_connection_raises_the_epoch_and_has_an_id_of_its_own(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    (server_session,) = server.sessions
    seen: list[tuple[int, str]] = []

    for _ in range(5):
        assert server_session.connection is not None
        seen.append((server_session.epoch, server_session.connection.id))
        await until_resumed(session, session.cut)

    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4, 5]
    assert len({connection_id for _, connection_id in seen}) == 5


async def test_a_later_server_never_uses_a_connection_id_again(world: World) -> None:
    ids: list[str] = []
    for _ in range(3):
        server = await world.serve(chat())
        session = await world.connect(server)
        (server_session,) = server.sessions
        assert server_session.connection is not None
        ids.append(server_session.connection.id)
        await session.close()
        await server.stop()

    assert len(set(ids)) == 3


async def test_a_drop_on_websocket_may_be_resumed_on_tcp_and_back(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, listen=[WebSocket(port=0), Tcp(port=0)])
    gate = Gate()
    session = await world.connect(server, dial=gate)
    room = await session.join_or_create("chat")
    (server_session,) = server.sessions
    kinds: list[str] = []

    for transport in ("tcp", "websocket"):
        gate.url = url_of(server, transport)
        outcome = await until_resumed(session, session.cut)
        assert outcome.kind == "resumed"
        assert server_session.connection is not None
        kinds.append(server_session.connection.transport_kind)
        await room.send(Say(transport))
        assert await texts_until(room, transport) == [transport]

    assert kinds == ["tcp", "websocket"]
