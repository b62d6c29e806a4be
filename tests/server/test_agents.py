import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import (
    Agent,
    AlreadySeated,
    Invalid,
    Limits,
    Message,
    MessageRefused,
    NotFound,
    NotSeated,
    Player,
    Reason,
    Refused,
    RoomFull,
    SessionEnded,
    Throttled,
    on,
)
from holdfast.core.room import context_of
from holdfast.schemas.events import Dropped, Resumed
from holdfast.server.agents import AgentRoom
from tests.server.durability.bench import until
from tests.server.world import Chat, Hero, Said, Say, World, chat, hear, texts_until, until_resumed


class Keep(Chat):
    """Keeps the very objects that went through it."""

    seen: list[Message]
    sent: list[Message]

    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        self.story.tell("said", player.id, say.text)
        answer = Said(player.id, say.text)
        self.seen.append(say)
        self.sent.append(answer)
        self.broadcast(answer)


async def test_an_agent_plays_with_native_objects_that_are_never_encoded(world: World) -> None:
    seen: list[Message] = []
    sent: list[Message] = []
    server = await world.serve(chat(Keep, seen=seen, sent=sent))
    npc, dog = server.open_agent("npc"), server.open_agent("dog")
    room_id = await npc.create("chat", properties={"map": "castle"})
    npc_room, dog_room = await npc.join(room_id), await dog.join(room_id)
    say = Say("woof")

    await dog_room.send(say)
    dogs, npcs = await anext(aiter(dog_room)), await anext(aiter(npc_room))

    assert seen[0] is say
    assert dogs is npcs is sent[0]
    room = server.rooms.get(room_id)
    assert room is not None
    assert room.properties == {"map": "castle"}


async def test_agents_and_clients_are_players_alike(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    npc = server.open_agent("npc")
    npc_room = await npc.join(room.id)

    await npc_room.send(Say("hello"))
    await room.send(Say("hello yourself"))

    assert await hear(room, "hello yourself") == [Said("agent:npc", "hello"), Said(session.player_id, "hello yourself")]
    messages = aiter(npc_room)
    assert [await anext(messages), await anext(messages)] == [
        Said("agent:npc", "hello"),
        Said(session.player_id, "hello yourself"),
    ]
    assert kind.story.of("on_join") == [("on_join", session.player_id), ("on_join", "agent:npc")]


async def test_an_agent_is_a_session_of_the_server(world: World) -> None:
    server = await world.serve(chat())

    npc = server.open_agent("npc", roles=["guard"])

    assert list(server.sessions) == [npc.session]
    assert server.sessions.of_player("agent:npc") == [npc.session]
    assert (npc.session.status, npc.session.roles, npc.session.codec) == ("connected", frozenset({"guard"}), None)
    assert npc.session.connection is not None
    assert npc.session.connection.transport_kind == "agent"
    npc.end()
    assert (list(server.sessions), npc.session.status) == ([], "ended")


async def test_an_agent_that_is_kicked_is_told_why_and_may_join_again(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    npc = server.open_agent("npc")
    room = await server.create_room("chat")
    npc_room = await npc.join(room.id)
    player = npc.session.player
    assert player is not None

    player.send(Said("room", "last warning"))
    player.kick("no dogs")

    assert [message async for message in npc_room] == [Said("room", "last warning")]
    assert npc_room.left is not None
    assert (npc_room.left.reason, npc_room.left.message) == (Reason.KICKED, "no dogs")
    with pytest.raises(NotSeated):
        await npc_room.send(Say("woof"))
    player.send(Said("room", "to nobody"))
    assert [message async for message in npc_room] == []
    again = await npc.join(room.id)
    await again.send(Say("woof"))
    assert await anext(aiter(again)) == Said("agent:npc", "woof")


async def test_an_agent_may_leave(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    npc = server.open_agent("npc")
    room = await server.create_room("chat")
    npc_room = await npc.join(room.id)

    await npc_room.leave()
    await npc_room.leave()

    assert room.players == ()
    assert kind.story.of("on_leave") == [("on_leave", "agent:npc", Reason.LEFT)]
    assert npc.session.status == "connected"


async def test_an_agent_that_does_not_read_is_ended_and_the_others_notice_nothing(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=Limits(kept_messages_max=8))
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    npc = server.open_agent("npc")
    npc_room = await npc.join(room.id)

    for number in range(12):
        await room.send(Say(str(number)))
        assert await texts_until(room, str(number)) == [str(number)]

    assert (npc.session.status, npc.session.end_reason) == ("ended", Reason.SLOW)
    assert kind.story.of("on_leave") == [("on_leave", "agent:npc", Reason.SLOW)]
    assert [message async for message in npc_room] == []
    assert npc_room.left is not None
    assert npc_room.left.reason == Reason.SLOW
    with pytest.raises(SessionEnded) as ended:
        await npc.join(room.id)
    assert ended.value.reason == Reason.SLOW


class Busy(Chat):
    gate: asyncio.Event

    @on(Say)
    async def said(self, player: Player[Hero], say: Say) -> None:
        self.story.tell("said", player.id, say.text)
        await self.gate.wait()


async def test_an_agent_that_says_more_than_the_room_can_hear_is_told_so(world: World) -> None:
    gate = asyncio.Event()
    kind = chat(Busy, gate=gate)
    server = await world.serve(kind, limits=Limits(turns_waiting_max=2))
    npc = server.open_agent("npc")
    room = await server.create_room("chat")
    npc_room = await npc.join(room.id)
    for text in "abc":
        await npc_room.send(Say(text))

    with pytest.raises(Throttled):
        await npc_room.send(Say("one too many"))

    gate.set()
    await kind.story.has("said", times=3)
    assert [text for _, _, text in kind.story.of("said")] == ["a", "b", "c"]


class Bark(Message):
    """Nobody handles this."""


class FalseSay(Message):
    wire_name = "say"

    volume: int


async def test_what_an_agent_says_wrongly_is_a_typed_error_at_once(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    npc = server.open_agent("npc")
    room = await server.create_room("chat")
    npc_room = await npc.join(room.id)

    with pytest.raises(NotFound, match="'bark'"):
        await npc_room.send(Bark())
    with pytest.raises(Invalid, match="Say"):
        await npc_room.send(FalseSay(3))

    assert kind.story.of("said") == []
    assert server.counters.turns_failed == 0


class Strict(Chat):
    def admit(self, player: Player[Hero]) -> None:
        if player.session.roles != {"guard"}:
            raise Refused("guards only")

    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        raise Refused("silence")


async def test_an_agent_is_refused_like_any_player(world: World) -> None:
    server = await world.serve(chat(Strict, max_players=1))
    room = await server.create_room("chat")
    guard, thief = server.open_agent("guard", roles=["guard"]), server.open_agent("thief")

    with pytest.raises(Refused, match="guards only"):
        await thief.join(room.id)
    guard_room = await guard.join(room.id)
    with pytest.raises(RoomFull):
        await thief.join(room.id)
    with pytest.raises(AlreadySeated):
        await guard.join(room.id)
    with pytest.raises(NotFound):
        await thief.join("nowhere")
    with pytest.raises(NotFound):
        await thief.create("chess")
    await guard_room.send(Say("halt"))

    assert await anext(aiter(guard_room)) == MessageRefused(0, "say", "refused", "silence")


class Deciding(Chat):
    decided: asyncio.Event

    async def admit(self, player: Player[Hero]) -> None:
        self.story.tell("admit")
        await self.decided.wait()


async def deciding(world: World) -> tuple[Any, asyncio.Event, Agent, Any]:
    decided = asyncio.Event()
    kind = chat(Deciding, decided=decided)
    server = await world.serve(kind)
    return server, decided, server.open_agent("npc"), kind.story


async def test_an_agent_that_ends_while_the_room_decides_gets_no_seat(world: World) -> None:
    server, decided, npc, story = await deciding(world)
    room = await server.create_room("chat")
    joining = asyncio.create_task(npc.join(room.id))
    await story.has("admit")

    npc.end()
    decided.set()

    with pytest.raises(SessionEnded):
        await joining
    assert context_of(room).seats.used == 0


async def test_an_agent_that_joins_two_rooms_at_once_gets_one_seat(world: World) -> None:
    server, decided, npc, story = await deciding(world)
    rooms = [await server.create_room("chat") for _ in range(2)]
    joining = [asyncio.create_task(npc.join(room.id)) for room in rooms]
    await story.has("admit", times=2)

    decided.set()
    results = await asyncio.gather(*joining, return_exceptions=True)

    assert [type(result).__name__ for result in results] == ["AgentRoom", "AlreadySeated"]
    assert [context_of(room).seats.used for room in rooms] == [1, 0]


async def test_a_room_that_closes_ends_its_agents_reading(world: World) -> None:
    server = await world.serve(chat())
    npc = server.open_agent("npc")
    room = await server.create_room("chat")
    npc_room = await npc.join(room.id)
    reading = asyncio.create_task(anext(aiter(npc_room), None))

    room.close()

    assert await reading is None
    assert npc_room.left is not None
    assert npc_room.left.reason == Reason.ROOM_CLOSED


async def test_the_same_agent_again_takes_the_seat_over(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    old, new = server.open_agent("npc"), server.open_agent("npc")
    room = await server.create_room("chat")
    old_room = await old.join(room.id)

    new_room = await new.join(room.id)

    assert [message async for message in old_room] == []
    assert old_room.left is not None
    assert old_room.left.reason == Reason.SUPERSEDED
    assert old.session.status == "ended"
    assert await anext(aiter(new_room)) == Said("room", "the state")
    assert [player.session for player in room.players] == [new.session]


async def test_a_drop_of_a_client_is_seen_by_an_agent(world: World) -> None:
    class Gossip(Chat):
        def on_drop(self, player: Player[Hero]) -> None:
            self.broadcast(Said(player.id, "dropped"))

        def on_rejoin(self, player: Player[Hero]) -> None:
            self.broadcast(Said(player.id, "is back"))

    server = await world.serve(chat(Gossip))
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    npc_room = await server.open_agent("npc").join(room.id)

    await until_resumed(session, session.cut)

    messages = aiter(npc_room)
    assert [await anext(messages), await anext(messages)] == [
        Said(session.player_id, "dropped"),
        Said(session.player_id, "is back"),
    ]


async def test_a_client_cannot_resume_the_session_of_an_agent(world: World) -> None:
    server = await world.serve(chat())
    npc = server.open_agent("npc")
    client = await world.raw(server)
    welcome = await client.sign_in()
    impostor = await world.raw(server)

    impostor.ask_to_resume(type(welcome)(npc.session.id, "npc", "", welcome.outcome, welcome.terms))
    close = await impostor.closed()

    assert close.reason == Reason.EXPIRED
    assert npc.session.status == "connected"


async def test_an_agent_that_is_disconnected_is_held_and_comes_back_to_its_seat(world: World) -> None:
    server = await world.serve(chat())
    npc = server.open_agent("npc")
    room = await npc.join(await npc.create("chat"))
    events: list[str] = []
    server.on(Dropped, lambda event: events.append(f"dropped: {event.reason}"))
    server.on(Resumed, lambda event: events.append(event.outcome))

    npc.session.disconnect("a test")
    assert (npc.session.status, npc.session.drops) == ("disconnected", 1)
    (held,) = next(iter(server.rooms)).players
    assert (held.id, held.connected) == ("agent:npc", False)
    with pytest.raises(NotSeated, match="resume"):
        await room.send(Say("hello?"))
    held.send(Said("room", "while you were away"))
    npc.resume()
    npc.resume()
    await room.send(Say("back"))

    assert npc.session.status == "connected"
    assert [message.text async for message in _first(room, 2)] == ["while you were away", "back"]
    assert held.connected
    await until(lambda: events == ["dropped: disconnected", "resumed"])


async def test_an_agent_that_does_not_come_back_in_time_is_gone(world: World) -> None:
    server = await world.serve(chat(grace_s=0.05))
    npc = server.open_agent("npc")
    room = await npc.join(await npc.create("chat"))

    npc.session.disconnect()
    await until(lambda: len(server.sessions) == 0)

    assert room.left is not None
    assert room.left.reason == Reason.GRACE_ENDED
    with pytest.raises(SessionEnded):
        npc.resume()


async def test_an_agent_without_a_seat_can_be_disconnected_and_joins_when_it_is_back(world: World) -> None:
    server = await world.serve(chat())
    npc = server.open_agent("npc")
    room_id = await npc.create("chat")
    npc.session.disconnect()

    with pytest.raises(NotSeated, match="resume"):
        await npc.join(room_id)
    npc.resume()

    assert (await npc.join(room_id)).id == room_id


async def _first(room: AgentRoom, count: int) -> AsyncIterator[Said]:
    messages = aiter(room)
    for _ in range(count):
        message = await anext(messages)
        assert isinstance(message, Said)
        yield message
