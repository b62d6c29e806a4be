import asyncio
from typing import Any

import pytest
from msgspec import Raw

from holdfast import Limits, Outcome, Player, Tcp, WebSocket, on
from holdfast.schemas.frames import Reply, Request
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
    room_of,
    texts_until,
    until_resumed,
)


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
    server = await world.serve(kind, listen=[WebSocket(port=0), Tcp(port=0)])
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
    session = await world.connect(server, limits=Limits(client_ack_s=60.0, ack_messages=1000))
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
    creating = asyncio.create_task(session.create("chat", properties={"map": "castle"}, config={"seed": 7}))
    await kind.story.has("on_create")

    await until_resumed(session, session.cut)
    may_go_on.set()
    info = await creating

    assert info.properties == {"map": "castle"}
    assert [room.id for room in server.rooms] == [info.id]
    assert kind.story.of("on_create") == [("on_create", {"seed": 7})]


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
