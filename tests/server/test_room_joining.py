import asyncio
from typing import Any

import pytest

from holdfast import (
    AlreadySeated,
    Failed,
    Limits,
    NotFound,
    Player,
    PlayerData,
    Reason,
    Refused,
    Room,
    RoomFull,
    Server,
    Throttled,
    WebSocket,
    connect,
)
from holdfast.core.room import context_of
from tests.server.slow_room import Slow, gate_of
from tests.server.world import Chat, Hero, Say, World, chat, player_in, room_of, texts_until

# Joining


class ConnectionLimiter(Chat):
    @staticmethod
    def decide() -> None:
        raise Refused("members only")

    def admit(self, player: Player[Hero]) -> Any:
        if not self.players:
            return None
        match self.properties.get("how"):
            case "refuse":
                raise Refused("members only")
            case "refuse later":
                return self.refuse_later()
            case "fail":
                raise ZeroDivisionError("a bug of the game")
            case _:
                return asyncio.sleep(60)

    async def refuse_later(self) -> None:
        await asyncio.sleep(0)
        raise Refused("members only")


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ("refuse", Refused, "members only"),
        ("refuse later", Refused, "members only"),
        ("fail", Failed, "admit failed"),
        ("take too long", Throttled, "too long"),
    ],
)
async def test_who_is_not_admitted_leaves_no_trace(world: World, how: str, error: type[Refused], words: str) -> None:
    kind = chat(ConnectionLimiter, max_players=2)
    server = await world.serve(kind, limits=Limits(admit_s=0.1))
    ada, bob = await world.connect(server), await world.connect(server)
    room = await server.create_room("chat", properties={"how": how})
    ada_room = await ada.join(room.id)

    for _ in range(3):
        with pytest.raises(error, match=words) as refused:
            await bob.join(room.id)
        assert type(refused.value) is error

    assert [player.id for player in room.players] == [ada.player_id]
    assert context_of(room).seats.used == 1
    assert kind.story.of("on_join") == [("on_join", ada.player_id)]
    assert kind.story.of("on_leave") == []
    await ada_room.send(Say("undisturbed"))
    assert await texts_until(ada_room, "undisturbed") == ["undisturbed"]


async def test_a_pending_admission_counts_against_the_seats(world: World) -> None:
    decided = asyncio.Event()

    class Deciding(Chat):
        async def admit(self, player: Player[Hero]) -> None:
            self.story.tell("admit", player.id)
            await decided.wait()

    kind = chat(Deciding, max_players=1)
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    room = await server.create_room("chat")
    joining = asyncio.create_task(ada.join(room.id))
    await kind.story.has("admit")

    with pytest.raises(RoomFull):
        await bob.join(room.id)

    decided.set()
    await joining
    assert [player.id for player in room.players] == [ada.player_id]


async def test_a_session_that_ends_while_the_room_decides_gets_no_seat(world: World) -> None:
    decided = asyncio.Event()

    class Deciding(Chat):
        async def admit(self, player: Player[Hero]) -> None:
            if player.session.roles == frozenset() and len(self.players) == 1:
                self.story.tell("admit", player.id)
                await decided.wait()

    kind = chat(Deciding)
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room = await ada.join_or_create("chat")
    joining = asyncio.create_task(bob.join(ada_room.id))
    await kind.story.has("admit")
    bobs = server.sessions.get(bob.id)
    assert bobs is not None

    bobs.end("banned")
    decided.set()

    with pytest.raises(Exception, match="banned"):
        await joining
    await ada_room.send(Say("undisturbed"))
    assert await texts_until(ada_room, "undisturbed") == ["undisturbed"]
    assert context_of(room_of(server, ada_room)).seats.used == 1
    assert kind.story.of("on_join", bob.player_id) == []
    assert server.counters.internal_errors == 0


async def test_joining_with_a_seat_already_is_refused_and_the_seat_is_kept(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    other = await server.create_room("chat")

    for room_id in (room.id, other.id):
        with pytest.raises(AlreadySeated):
            await session.join(room_id)

    assert kind.story.of("on_leave") == []
    assert other.players == ()
    await room.send(Say("still here"))
    assert await texts_until(room, "still here") == ["still here"]


async def test_joining_a_room_that_is_not_there_is_refused(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)

    with pytest.raises(NotFound):
        await session.join("nowhere")
    await session.join_or_create("chat")


async def test_a_player_may_leave_and_join_again_with_fresh_data(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    player_in(server, room, session).data.hp = 1
    await room.leave()

    again = await session.join(room.id)

    assert player_in(server, again, session).data.hp == 100
    assert session.room is again
    await again.send(Say("back"))
    assert await texts_until(again, "back") == ["back"]


class Unwelcoming(Chat):
    def on_join(self, player: Player[Hero]) -> None:
        super().on_join(player)
        if self.properties.get("how") == "refuse":
            raise Refused("the game has begun")
        raise ZeroDivisionError("a bug of the game")


@pytest.mark.parametrize(("how", "error"), [("refuse", Refused), ("fail", Failed)])
async def test_a_join_that_fails_in_on_join_frees_the_seat(world: World, how: str, error: type[Refused]) -> None:
    kind = chat(Unwelcoming)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await server.create_room("chat", properties={"how": how})

    with pytest.raises(error) as refused:
        await session.join(room.id)

    assert type(refused.value) is error
    assert context_of(room).seats.used == 0
    assert kind.story.of("on_leave") == [("on_leave", session.player_id, Reason.JOIN_FAILED)]
    with pytest.raises(error):
        await session.join(room.id)


class Trap(Chat):
    def on_join(self, player: Player[Hero]) -> None:
        super().on_join(player)
        player.kick("it is a trap")


async def test_a_player_who_is_kicked_on_joining_gets_a_room_that_says_so(world: World) -> None:
    kind = chat(Trap)
    server = await world.serve(kind)
    session = await world.connect(server)

    room = await session.join_or_create("chat")

    assert [message async for message in room] == []
    assert room.left is not None
    assert (room.left.reason, room.left.message) == (Reason.KICKED, "it is a trap")
    assert [line[0] for line in kind.story.lines[2:]] == ["on_join", "on_leave"]


class Shy(Chat):
    def on_created(self) -> None:
        super().on_created()
        self.close()


async def test_a_room_that_closes_before_it_is_open_is_refused_and_gone(world: World) -> None:
    kind = chat(Shy, tick_hz=100)
    server = await world.serve(kind)
    session = await world.connect(server)

    for asking in (session.create, session.join_or_create):
        with pytest.raises(NotFound):
            await asking("chat")

    assert len(server.rooms) == 0
    assert [line[0] for line in kind.story.lines] == ["on_create", "on_created", "on_destroy", "on_destroyed"] * 2


async def test_who_joins_while_the_room_is_closing_is_refused(world: World) -> None:
    kind = chat(Slow, gate=asyncio.Event())
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room = await ada.join_or_create("chat")
    await ada_room.send(Say("long"))
    await kind.story.has("begin")
    joining = asyncio.create_task(bob.join(ada_room.id))
    await ada.search()

    room_of(server, ada_room).close()
    with pytest.raises(NotFound):
        await ada.join(ada_room.id)
    gate_of(kind).set()

    with pytest.raises(NotFound):
        await joining
    await kind.story.has("on_destroyed")
    assert kind.story.of("on_join") == [("on_join", ada.player_id)]
    assert (await bob.join_or_create("chat")).id != ada_room.id


async def test_a_room_whose_game_spoiled_its_properties_is_found_and_joined_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Spoiled(Room[PlayerData]):
        def on_created(self) -> None:
            self.properties["map"] = object()

    async with Server([Spoiled], listen=[WebSocket(port=0)]) as server, connect(server.url) as session:
        room = await session.join_or_create("spoiled")
        [found] = await session.search("spoiled")

    assert found.id == room.id
    assert found.properties == {}
    assert "properties" in caplog.text
