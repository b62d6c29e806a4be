import asyncio

from holdfast import Limits, Message, MessageRefused, Player, PlayerData, Reason, Room, Server, WebSocket, on
from tests.server.slow_room import Slow, gate_of
from tests.server.world import Chat, Say, World, chat, hear, texts_until

# One turn at a time


async def test_turns_of_a_room_never_overlap_and_keep_their_order(world: World) -> None:
    kind = chat(Slow, gate=asyncio.Event())
    server = await world.serve(kind)
    session, other = await world.connect(server), await world.connect(server)
    room, other_room = await session.join_or_create("chat"), await other.join_or_create("chat")
    await room.send(Say("0"))
    await kind.story.has("begin")
    for number in range(1, 5):
        await room.send(Say(str(number)))
    other.cut()
    await session.search()

    gate_of(kind).set()

    assert await texts_until(room, "4") == ["0", "1", "2", "3", "4"]
    begun = [line for line in kind.story.lines if line[0] in {"begin", "end"}]
    assert begun == [(edge, str(number)) for number in range(5) for edge in ("begin", "end")]
    await kind.story.has("on_drop")
    assert ("on_drop", other.player_id) in kind.story.lines[kind.story.lines.index(("end", "0")) :]
    assert other_room.left is None


async def test_no_tick_comes_in_the_middle_of_a_turn(world: World) -> None:
    kind = chat(Slow, gate=asyncio.Event(), tick_hz=200)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    await kind.story.has("tick")
    await room.send(Say("long"))
    await kind.story.has("begin")
    asyncio.get_running_loop().call_later(0.1, gate_of(kind).set)

    await kind.story.has("end")
    begin = kind.story.lines.index(("begin", "long"))

    assert kind.story.lines[begin + 1] == ("end", "long")


async def test_a_room_in_the_middle_of_a_turn_does_not_hold_another_one_up(world: World) -> None:
    kind = chat(Slow, gate=asyncio.Event())
    other_kind = type("Other", (Chat,), {"story": kind.story, "kind": "other"})
    server = await world.serve(kind, other_kind)
    busy, free = await world.connect(server), await world.connect(server)
    busy_room, free_room = await busy.join_or_create("chat"), await free.join_or_create("other")
    await busy_room.send(Say("stuck"))
    await kind.story.has("begin")

    await free_room.send(Say("free"))

    assert await texts_until(free_room, "free") == ["free"]
    assert kind.story.of("end") == []
    gate_of(kind).set()
    await hear(busy_room, "stuck")


async def test_a_turn_that_takes_too_long_is_cut_and_the_room_goes_on(world: World) -> None:
    kind = chat(Slow, gate=asyncio.Event())
    server = await world.serve(kind, limits=Limits(turn_s=0.05))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Say("for ever"))
    refused = await room.receive()

    assert isinstance(refused, MessageRefused)
    assert (refused.type, refused.code) == ("say", "failed")
    gate_of(kind).set()
    await room.send(Say("short"))
    assert await texts_until(room, "short") == ["short"]
    assert kind.story.of("end") == [("end", "short")]


async def test_what_an_agent_says_before_it_leaves_is_applied_before() -> None:
    class Say(Message):
        text: str

    class Slow(Room[PlayerData]):
        def on_create(self, config: dict[str, object]) -> None:
            self.state = []

        @on(Say)
        async def say(self, player: Player[PlayerData], say: Say) -> None:
            await asyncio.sleep(0)
            self.state.append(say.text)

        def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
            self.state.append("left")

    async with Server([Slow], listen=[WebSocket(port=0)]) as server:
        slow = await server.create_room("slow")
        seat = await server.open_agent("npc").join(slow.id)

        await seat.send(Say("one"))
        await seat.send(Say("two"))
        await seat.leave()
        async for _ in seat:
            pass

    assert slow.state == ["one", "two", "left"]
