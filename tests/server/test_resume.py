import asyncio
import logging
from typing import Any

import pytest
from msgspec import Raw

import holdfast
from holdfast import Auth, Limits, Outcome, Player, Reason, SessionEnded, on
from holdfast.client.saved import SavedState
from holdfast.core.frames import Data, Hello, Position, Reply, Request, Resume, Welcome
from holdfast.core.reasons import CLOSE_CODES
from tests.server.world import (
    CLOCK_S,
    Chat,
    Gate,
    Hero,
    Said,
    Say,
    World,
    chat,
    hear,
    player_in,
    room_of,
    texts_until,
    until_resumed,
    url_of,
)

GRACE_S = 0.3


# The same seat, the same data, the same objects


async def test_a_player_who_was_away_for_less_than_the_grace_has_the_same_seat_data_and_objects(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)
    player.data.hp = 7
    room_of(server, room).own(player, "sword")
    server_session = player.session

    outcome = await until_resumed(session, session.cut)

    assert outcome.kind == "resumed"
    assert room_of(server, room).players == (player,)
    assert (player.data.hp, player.owned, player.connected) == (7, {"sword"}, True)
    assert player.session is server_session
    assert (server_session.id, server_session.status) == (session.id, "connected")
    assert session.room is room


async def test_what_a_room_sends_while_a_player_is_away_is_waiting_for_them(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    gate = Gate()
    away = await world.connect(server, dial=gate)
    here = await world.connect(server)
    room_away, room_here = await away.join_or_create("chat"), await here.join_or_create("chat")
    gate.shut()
    away.cut()
    await kind.story.has("on_drop")
    for text in "abc":
        await room_here.send(Say(text))
    await hear(room_here, "c")

    outcome = await until_resumed(away, gate.open)

    assert outcome == Outcome("resumed", replayed=3)
    assert await texts_until(room_away, "c") == ["a", "b", "c"]


async def test_what_a_player_sends_while_away_is_applied_when_they_are_back(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    room = await session.join_or_create("chat")
    gate.shut()
    session.cut()
    await kind.story.has("on_drop")

    for text in "abc":
        await room.send(Say(text))
    gate.open()

    assert await texts_until(room, "c") == ["a", "b", "c"]
    assert [text for _, _, text in kind.story.of("said")] == ["a", "b", "c"]


class Quiet(Chat):
    """Answers nothing, so that acknowledgements travel alone."""

    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        self.story.tell("said", player.id, say.text)


class Metronome(Chat):
    """Speaks on its own too, so that both streams flow whatever the client does."""

    tick_hz = 500
    beats = 0

    def on_tick(self, dt_s: float) -> None:
        if self.players and self.beats < 200:
            self.beats += 1
            self.broadcast(Said("beat", str(self.beats)))


@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_nothing_is_lost_doubled_or_reordered_in_either_direction_however_often_it_breaks(
    world: World, transport: str
) -> None:
    kind = chat(Metronome)
    server = await world.serve(kind, tcp_port=0)
    session = await world.connect(server, transport=transport)
    room = await session.join_or_create("chat")
    said = [str(number) for number in range(400)]
    echoes: list[str] = []
    beats: list[str] = []

    async def send_in_bursts() -> None:
        for number, text in enumerate(said, start=1):
            await room.send(Say(text))
            if number % 40 == 0:
                await until_resumed(session, session.cut)

    sending = asyncio.create_task(send_in_bursts())
    while len(echoes) < 400 or len(beats) < 200:
        message = await room.receive()
        assert isinstance(message, Said)
        (beats if message.who == "beat" else echoes).append(message.text)
        if (len(echoes) + len(beats)) % 25 == 0:
            session.cut()
    await sending

    assert echoes == said
    assert beats == [str(number) for number in range(1, 201)]
    assert [text for _, _, text in kind.story.of("said")] == said
    assert session.drops >= 10


async def test_a_message_that_was_applied_but_not_acknowledged_is_not_applied_again(world: World) -> None:
    kind = chat(Quiet)
    server = await world.serve(kind, limits=Limits(ack_s=60.0, ack_messages=1000))
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    await room.send(Say("once"))
    await kind.story.has("said")
    assert session.protocol.unacked(room.channel) == 1

    await until_resumed(session, session.cut)
    await room.flush()

    assert len(kind.story.of("said")) == 1


class Touchy(Chat):
    """Throws its player out of the line with every message."""

    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        super().said(player, say)
        player.session.disconnect("again")


async def test_a_handler_may_cut_its_own_player_off_in_the_middle_of_what_they_say(world: World) -> None:
    kind = chat(Touchy)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    for text in "abcd":
        await room.send(Say(text))

    assert await texts_until(room, "d") == ["a", "b", "c", "d"]
    assert [text for _, _, text in kind.story.of("said")] == ["a", "b", "c", "d"]
    assert server.counters.internal_errors == 0


async def test_a_message_that_was_read_but_not_acknowledged_is_not_delivered_again(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server, limits=Limits(ack_s=60.0, ack_messages=1000))
    room = await session.join_or_create("chat")
    room_of(server, room).broadcast(Said("room", "once"))
    room_of(server, room).broadcast(Said("room", "in hand"))
    await hear(room, "in hand")

    outcome = await until_resumed(session, session.cut)

    room_of(server, room).broadcast(Said("room", "later"))
    assert outcome == Outcome("resumed", replayed=1), "the one in hand is not processed yet, and known to the client"
    assert await texts_until(room, "later") == ["later"]


async def test_a_request_whose_answer_was_lost_is_answered_and_carried_out_once(world: World) -> None:
    may_go_on = asyncio.Event()

    class Slow(Chat):
        async def on_create(self, config: dict[str, Any]) -> None:
            self.story.tell("on_create", config)
            await may_go_on.wait()

    kind = chat(Slow)
    server = await world.serve(kind)
    session = await world.connect(server)
    creating = asyncio.create_task(session.create("chat", properties={"map": "castle"}))
    await kind.story.has("on_create")

    await until_resumed(session, session.cut)
    may_go_on.set()
    info = await creating

    assert info.properties == {"map": "castle"}
    assert [room.id for room in server.rooms] == [info.id]
    assert kind.story.of("on_create") == [("on_create", {"map": "castle"})]


async def test_a_request_that_is_asked_again_while_it_is_carried_out_is_carried_out_once(world: World) -> None:
    may_go_on = asyncio.Event()

    class Slow(Chat):
        async def on_create(self, config: dict[str, Any]) -> None:
            self.story.tell("on_create")
            await may_go_on.wait()

    kind = chat(Slow)
    server = await world.serve(kind)
    client = await world.raw(server)
    welcome = await client.sign_in()
    client.ask("create", kind="chat")
    await kind.story.has("on_create")
    client.cut()
    back = await world.raw(server)
    again = await back.resume(welcome)

    request = Request(again.requests, "create", Raw(back.codec.encode({"kind": "chat"})))
    back.say(request, request)
    may_go_on.set()
    replies = [await back.hear(Reply)]
    back.say(request)
    replies.append(await back.hear(Reply))

    assert replies[0] == replies[1]
    assert len(server.rooms) == 1


@pytest.mark.parametrize("is_back_in_time", [True, False])
async def test_a_player_who_drops_while_the_room_decides_gets_the_seat_once_when_back(
    world: World, is_back_in_time: bool
) -> None:
    may_decide = asyncio.Event()

    class Careful(Chat):
        async def admit(self, player: Player[Hero]) -> None:
            self.story.tell("admit")
            await may_decide.wait()

    kind = chat(Careful)
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    joining = asyncio.create_task(session.join_or_create("chat"))
    await kind.story.has("admit")
    gate.shut()
    session.cut()
    (server_session,) = server.sessions
    dropped = asyncio.Event()
    server_session.on_disconnect = lambda _: dropped.set()
    await dropped.wait()

    if is_back_in_time:
        await until_resumed(session, gate.open)
        may_decide.set()
    else:
        may_decide.set()
        await asyncio.sleep(0)
        gate.open()
    room = await joining

    assert [player.id for player in room_of(server, room).players] == [session.player_id]
    assert kind.story.of("on_join") == [("on_join", session.player_id)]
    assert len(server.rooms) == 1


async def test_a_player_may_change_rooms_any_number_of_times_and_still_resume(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    for _ in range(12):
        room = await session.join_or_create("chat")
        await room.send(Say("hello"))
        await room.leave()
    room = await session.join_or_create("chat")

    outcome = await until_resumed(session, session.cut)

    assert outcome.kind == "resumed"
    await room.send(Say("still here"))
    assert await texts_until(room, "still here") == ["still here"]


# The newest connection wins


async def test_the_newest_connection_wins_at_once_and_the_old_one_is_told(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    old = await world.connect(server)
    old_room = await old.join_or_create("chat")

    new = await world.connect(server, resume=old.save())

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
    server = await world.serve(kind, tcp_port=0)
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

    before = server.node.now()
    client.cut()
    await dropped.wait()
    after = server.node.now()

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


# Tokens


async def test_a_used_token_revokes_the_session_and_both_ends_are_told(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    first = await world.raw(server)
    stolen = await first.sign_in()
    await first.join()
    owner = await world.raw(server)
    await owner.resume(stolen, Position(1, 1, 0))
    await owner.request("search")

    thief = await world.raw(server)
    thief.ask_to_resume(stolen, auth=Auth())

    for client in (thief, owner):
        close = await client.closed()
        assert (close.code, close.reason) == (CLOSE_CODES[Reason.TOKEN_REUSED], Reason.TOKEN_REUSED)
    assert kind.story.lines[-1] == ("on_leave", stolen.player, Reason.TOKEN_REUSED)
    assert len(server.sessions) == 0
    assert server.counters.tokens_reused == 1


async def test_a_token_that_was_never_issued_opens_nothing_and_harms_nobody(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    owner = await world.raw(server)
    welcome = await owner.sign_in()
    await owner.join()

    guesser = await world.raw(server)
    guesser.say(Hello(None, Resume(welcome.session, "A" * 43)))
    close = await guesser.closed()

    assert close.reason == Reason.EXPIRED
    owner.send(1, Say("still me"))
    await owner.hear(Data)
    assert kind.story.of("on_drop") == []


async def test_a_welcome_that_was_lost_does_not_cost_the_session(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    client = await world.raw(server)
    welcome = await client.sign_in()
    await client.join()
    client.cut()
    await kind.story.has("on_drop")
    attempts = Limits().retired_tokens_max + 4

    for attempt in range(attempts):
        deaf = await world.raw(server)
        deaf.link.pause_reading()
        deaf.ask_to_resume(welcome)
        await kind.story.has("on_rejoin", times=attempt + 1)
        deaf.cut()
        await kind.story.has("on_drop", times=attempt + 2)
    back = await world.raw(server)
    second = await back.resume(welcome, Position(1, 1, 0))

    assert second.outcome == Outcome("resumed")
    assert second.session == welcome.session


async def test_no_secret_is_in_any_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    kind = chat(grace_s=0.0)
    server = await world.serve(kind)
    first = await world.raw(server)
    signed_in = await first.sign_in()
    second = await world.raw(server)
    resumed = await second.resume(signed_in)
    await second.join()
    thief = await world.raw(server)
    thief.ask_to_resume(signed_in, auth=Auth("guest", signed_in.credential))
    await thief.closed()
    wrong = await world.raw(server)
    wrong.say(Hello(Auth("guest", signed_in.credential + "x")))
    await wrong.closed()
    session = await world.connect(server)
    await session.join_or_create("chat")
    await until_resumed(session, session.cut)
    saved = SavedState.read(session.save())

    secrets = {signed_in.token, resumed.token, signed_in.credential, session.credential, saved.token}

    assert "revoked" in caplog.text
    assert [secret for secret in secrets if secret and secret in caplog.text] == []


async def test_no_secret_is_in_any_repr(world: World) -> None:
    server = await world.serve(chat())
    client = await world.raw(server)
    welcome = await client.sign_in()
    session = await world.connect(server)
    saved = SavedState.read(session.save())
    auth = Auth("guest", welcome.credential)
    resume = Resume(welcome.session, welcome.token)

    shown = repr(
        [welcome, auth, resume, Hello(auth, resume), saved, session, session.protocol, *server.sessions, server.node]
    )
    secrets = {welcome.token, welcome.credential, session.credential, saved.token}

    assert [secret for secret in secrets if secret in shown] == []


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

    assert (len(server.sessions), len(server.rooms), len(server.node.connections)) == (0, 0, 0)
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

    state = await first.suspend()
    second = await world.connect(server, resume=state)

    assert second.room is not None
    assert second.id == first.id
    await second.room.send(Say("c"))
    assert (await texts_until(second.room, "c"))[-2:] == ["b", "c"]
    assert [text for _, _, text in kind.story.of("said")] == ["a", "b", "c"]


def as_chat(room: Any) -> Chat:
    assert isinstance(room, Chat)
    return room
