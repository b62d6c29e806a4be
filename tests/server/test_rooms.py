import asyncio
import logging
from typing import Any, Literal

import pytest
from msgspec import Raw

from holdfast import (
    AlreadySeated,
    Failed,
    Limits,
    Message,
    MessageRefused,
    NotFound,
    NotSeated,
    Player,
    PlayerData,
    Reason,
    Refused,
    Room,
    RoomFull,
    Server,
    Throttled,
    connect,
    on,
)
from holdfast.core.frames import TEXT_CHARS_MAX, Close, Data
from tests.server.world import (
    Chat,
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

# Hooks


class Diary(Chat):
    def admit(self, player: Player[Hero]) -> Any:
        self.story.tell("admit", player.id)


class AsyncDiary(Diary):
    """The same with `async def` throughout, and another turn of the loop in each."""

    async def on_create(self, config: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        super().on_create(config)

    async def on_created(self) -> None:
        await asyncio.sleep(0)
        super().on_created()

    async def admit(self, player: Player[Hero]) -> None:
        await asyncio.sleep(0)
        super().admit(player)

    async def on_join(self, player: Player[Hero]) -> None:
        await asyncio.sleep(0)
        super().on_join(player)

    async def on_drop(self, player: Player[Hero]) -> None:
        await asyncio.sleep(0)
        super().on_drop(player)

    async def on_rejoin(self, player: Player[Hero]) -> None:
        await asyncio.sleep(0)
        super().on_rejoin(player)

    async def on_leave(self, player: Player[Hero], reason: Reason) -> None:
        await asyncio.sleep(0)
        super().on_leave(player, reason)

    async def on_start(self) -> None:
        await asyncio.sleep(0)
        super().on_start()

    async def on_end(self) -> None:
        await asyncio.sleep(0)
        super().on_end()

    async def on_destroy(self) -> None:
        await asyncio.sleep(0)
        super().on_destroy()

    async def on_destroyed(self) -> None:
        await asyncio.sleep(0)
        super().on_destroyed()

    @on(Say)
    async def said(self, player: Player[Hero], say: Say) -> None:
        await asyncio.sleep(0)
        super().said(player, say)


@pytest.mark.parametrize("diary", [Diary, AsyncDiary])
async def test_the_hooks_of_a_life_are_called_in_order_and_with_what_they_need(
    world: World, diary: type[Diary]
) -> None:
    kind = chat(diary)
    server = await world.serve(kind)
    room = await server.create_room("chat", properties={"map": "castle"})
    session = await world.connect(server)
    ada = session.player_id

    client_room = await session.join(room.id)
    await client_room.send(Say("hello"))
    await hear(client_room, "hello")
    await until_resumed(session, session.cut)
    await kind.story.has("on_rejoin")
    room.start()
    await kind.story.has("on_start")
    room.end()
    await kind.story.has("on_end")
    await client_room.leave()
    await kind.story.has("on_leave")
    room.close()
    await kind.story.has("on_destroyed")

    assert kind.story.lines == [
        ("on_create", {"map": "castle"}),
        ("on_created",),
        ("admit", ada),
        ("on_join", ada),
        ("said", ada, "hello"),
        ("on_drop", ada),
        ("on_rejoin", ada),
        ("on_start",),
        ("on_end",),
        ("on_leave", ada, Reason.LEFT),
        ("on_destroy",),
        ("on_destroyed",),
    ]


class Census(Chat):
    def admit(self, player: Player[Hero]) -> None:
        self.story.tell("admit", self.ids(), player.data.hp)

    def on_join(self, player: Player[Hero]) -> None:
        self.story.tell("on_join", self.ids(), player.data.hp)

    def on_drop(self, player: Player[Hero]) -> None:
        self.story.tell("on_drop", self.ids(), player.connected)

    def on_rejoin(self, player: Player[Hero]) -> None:
        self.story.tell("on_rejoin", self.ids(), player.connected)

    def on_leave(self, player: Player[Hero], reason: Reason) -> None:
        self.story.tell("on_leave", self.ids(), player.connected)

    def ids(self) -> list[str]:
        return [player.id for player in self.players]


async def test_a_player_is_a_member_from_on_join_through_the_drop_until_before_on_leave(world: World) -> None:
    kind = chat(Census)
    server = await world.serve(kind)
    session = await world.connect(server)
    ada = session.player_id

    room = await session.join_or_create("chat")
    await until_resumed(session, session.cut)
    await room.leave()

    assert kind.story.lines[2:] == [
        ("admit", [], 100),
        ("on_join", [ada], 100),
        ("on_drop", [ada], False),
        ("on_rejoin", [ada], True),
        ("on_leave", [], False),
    ]


class Greeter(Chat):
    def on_join(self, player: Player[Hero]) -> None:
        self.broadcast(Said(player.id, "joined"))

    def on_leave(self, player: Player[Hero], reason: Reason) -> None:
        self.broadcast(Said(player.id, "left"))


async def test_a_broadcast_on_join_includes_the_joiner_and_one_on_leave_excludes_the_leaver(world: World) -> None:
    server = await world.serve(chat(Greeter))
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    player_in(server, bob_room, bob).kick()
    bobs = [message async for message in bob_room]
    await ada_room.send(Say("alone"))

    assert bobs == [Said(bob.player_id, "joined")]
    assert await hear(ada_room, "alone") == [
        Said(ada.player_id, "joined"),
        Said(bob.player_id, "joined"),
        Said(bob.player_id, "left"),
        Said(ada.player_id, "alone"),
    ]


class Selective(Chat):
    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        self.broadcast(Said(player.id, say.text), exclude=[player])
        player.send(Said("room", f"you said {say.text}"))


async def test_a_broadcast_may_leave_players_out(world: World) -> None:
    server = await world.serve(chat(Selective))
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    await ada_room.send(Say("hello"))

    assert await ada_room.receive() == Said("room", "you said hello")
    assert await bob_room.receive() == Said(ada.player_id, "hello")


# One turn at a time


class Slow(Chat):
    """Is in the middle of something for as long as the test likes."""

    gate: asyncio.Event

    def on_tick(self, dt_s: float) -> None:
        self.story.tell("tick")

    @on(Say)
    async def said(self, player: Player[Hero], say: Say) -> None:
        self.story.tell("begin", say.text)
        await self.gate.wait()
        await asyncio.sleep(0)
        self.story.tell("end", say.text)
        self.broadcast(Said(player.id, say.text))


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


# Refusals and failures


class Break(Message):
    how: str


class Colour(Message):
    name: Literal["red", "green"]


class Fragile(Chat):
    @on(Colour)
    def painted(self, player: Player[Hero], colour: Colour) -> None:
        self.story.tell("painted", colour.name)

    @on(Break)
    def broken(self, player: Player[Hero], order: Break) -> Any:
        match order.how:
            case "raise":
                raise ZeroDivisionError("a bug of the game")
            case "raise later":
                return self.fail_later()
            case "cancelled":
                return self.await_something_cancelled()
            case "cancelled at once":
                return self.something_cancelled().result()
            case "refuse in words that are none":
                raise Refused("\ud800!")
            case "kick and raise":
                player.kick("out")
                raise ZeroDivisionError("a bug of the game")
            case "refuse":
                raise Refused("you have no key")
            case "refuse by kind":
                raise RoomFull("no space on the cart")
            case _:
                raise Refused("long " * 20_000)

    async def fail_later(self) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError("a bug of the game")

    async def await_something_cancelled(self) -> None:
        await self.something_cancelled()

    def something_cancelled(self) -> asyncio.Future[None]:
        cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        return cancelled


@pytest.mark.parametrize("how", ["raise", "raise later", "cancelled", "cancelled at once"])
async def test_a_handler_that_raises_harms_only_its_message(
    world: World, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    server = await world.serve(chat(Fragile))
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    await ada_room.send(Say("before"))
    await ada_room.send(Break(how))
    await ada_room.send(Say("after"))

    before, refused, after = await hear(ada_room, "after")
    assert before == Said(ada.player_id, "before")
    assert after == Said(ada.player_id, "after")
    assert refused == MessageRefused(2, "break", "failed", "the game's handler failed")
    assert await texts_until(bob_room, "after") == ["before", "after"], "the other one hears nothing of it"
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert {ada_room.id, "chat", ada.player_id} <= set(record.args or ()) | set(record.getMessage().split())
    assert record.exc_info is not None
    assert server.counters.turns_failed == 1
    assert server.counters.internal_errors == 0


async def test_a_handler_that_kicks_its_player_and_then_raises_is_logged_too(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat(Fragile))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Break("kick and raise"))

    assert [message async for message in room] == []
    assert room.left is not None
    assert room.left.message == "out"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert server.counters.turns_failed == 1


@pytest.mark.parametrize(
    ("how", "code", "text"),
    [("refuse", "refused", "you have no key"), ("refuse by kind", "room_full", "no space on the cart")],
)
async def test_what_a_handler_refuses_reaches_the_client_with_its_words(
    world: World, caplog: pytest.LogCaptureFixture, how: str, code: str, text: str
) -> None:
    server = await world.serve(chat(Fragile))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Break(how))

    assert await room.receive() == MessageRefused(1, "break", code, text)
    assert server.counters.messages_refused == 1
    assert server.counters.turns_failed == 0
    assert caplog.records == []


async def test_a_refusal_with_too_many_words_is_shortened(world: World) -> None:
    server = await world.serve(chat(Fragile))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Break("at length"))
    await room.send(Say("after"))

    refused, after = await hear(room, "after")
    assert isinstance(refused, MessageRefused)
    assert refused.message.startswith("long long")
    assert len(refused.message) <= TEXT_CHARS_MAX
    assert after == Said(session.player_id, "after")


async def test_a_refusal_in_words_that_are_no_unicode_is_said_as_well_as_can_be(world: World) -> None:
    server = await world.serve(chat(Fragile))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Break("refuse in words that are none"))

    assert await room.receive() == MessageRefused(1, "break", "refused", "?!")
    assert session.drops == 0


async def test_a_message_no_handler_knows_is_refused_by_its_name(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Break("raise"))
    refused = await room.receive()

    assert refused == MessageRefused(1, "break", "not_found", "a chat has no handler for 'break'")


async def test_a_body_that_does_not_fit_its_type_is_refused_and_not_applied(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    client = await world.raw(server)
    await client.sign_in()
    await client.join()

    client.say(Data(1, 1, 0, "say", Raw(client.codec.encode({"text": 5}))))
    refused = client.codec.body_decoder(MessageRefused).decode((await client.hear(Data)).body)

    assert (refused.type, refused.code) == ("say", "invalid")
    assert "text" in refused.message
    client.send(2, Say("well formed"))
    await client.hear(Data)
    assert [text for _, _, text in kind.story.of("said")] == ["well formed"]


async def test_a_body_whose_error_quotes_it_at_length_does_not_stop_the_room(world: World) -> None:
    kind = chat(Fragile)
    server = await world.serve(kind)
    client = await world.raw(server)
    await client.sign_in()
    await client.join()
    other = await world.connect(server)
    room = await other.join_or_create("chat")

    client.say(Data(1, 1, 0, "colour", Raw(client.codec.encode({"name": "x" * 65_000}))))
    refused = client.codec.body_decoder(MessageRefused).decode((await client.hear(Data)).body)
    await room.send(Say("going on"))

    assert (refused.type, refused.code) == ("colour", "invalid")
    assert await texts_until(room, "going on") == ["going on"]
    assert server.counters.internal_errors == 0


async def test_an_unreliable_message_is_handled_and_a_bad_one_dropped_without_a_word(world: World) -> None:
    kind = chat(Fragile)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    room.send_latest(Colour("red"), key="sky")
    room.send_latest(Colour("mauve"), key="sea")  # type: ignore[arg-type] # on purpose
    room.send_latest(Break("raise"))
    await room.send(Say("after"))

    assert await hear(room, "after") == [Said(session.player_id, "after")]
    assert kind.story.of("painted") == [("painted", "red")]
    assert server.counters.turns_failed == 1


# Who is not a member


async def test_a_message_from_who_has_no_seat_is_not_applied_and_breaks_the_protocol(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    stranger = await world.raw(server)
    await stranger.sign_in()

    stranger.send(1, Say("let me in"))
    close = await stranger.hear(Close)

    assert close.reason == Reason.PROTOCOL
    assert kind.story.of("said") == []


async def test_a_client_without_a_seat_is_told_when_it_sends(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    await room.leave()

    with pytest.raises(NotSeated):
        await room.send(Say("too late"))


async def test_what_a_player_said_before_a_kick_but_after_its_turn_is_not_applied(world: World) -> None:
    kind = chat(Slow, gate=asyncio.Event())
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    await ada_room.send(Say("ada's"))
    await kind.story.has("begin", "ada's")
    await bob_room.send(Say("bob's"))
    await bob.search()

    player_in(server, bob_room, bob).kick("no more of that")
    gate_of(kind).set()

    assert await texts_until(ada_room, "ada's") == ["ada's"]
    await kind.story.has("on_leave")
    assert [message async for message in bob_room] == []
    await ada_room.send(Say("next"))
    await hear(ada_room, "next")
    assert kind.story.of("begin") == [("begin", "ada's"), ("begin", "next")]


async def test_speaking_to_a_player_who_has_left_does_nothing(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)
    player.kick()
    assert [message async for message in room] == []

    player.send(Said("room", "are you there?"))
    player.send_latest(Said("room", "are you there?"))
    player.kick("again")

    assert await session.search() != []
    assert session.drops == 0


async def test_the_last_message_of_a_seat_is_that_it_is_gone(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    client = await world.raw(server)
    welcome = await client.sign_in()
    seat = await client.join()
    room = server.rooms.get(seat.room)
    assert room is not None
    player = room.player(welcome.player)
    assert player is not None

    player.send(Said("room", "last warning"))
    player.kick()
    player.send(Said("room", "are you there?"))
    await client.request("search")

    assert [frame.type for frame in client.all_heard(Data)] == ["said", "holdfast.left"]


# Creating


class Picky(Chat):
    async def on_create(self, config: dict[str, Any]) -> None:
        if config.get("map") == "nowhere":
            self.spawn(self.never_ends())
            await asyncio.sleep(0)
            self.after(0.02, self.announce, "a timer of a room that is not")
            raise Refused("no such map")
        self.after(0.1, self.announce, "a timer of a room that is")
        if config.get("map") == "broken":
            raise ZeroDivisionError("a bug of the game")

    async def never_ends(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.story.tell("cancelled")

    def announce(self, text: str) -> None:
        self.story.tell("announced", text)


async def test_a_game_may_refuse_to_create_a_room(world: World) -> None:
    kind = chat(Picky)
    server = await world.serve(kind)
    session = await world.connect(server)

    with pytest.raises(Refused, match="no such map"):
        await session.create("chat", properties={"map": "nowhere"})
    with pytest.raises(Refused, match="no such map"):
        await session.join_or_create("chat", properties={"map": "nowhere"})

    assert (len(server.rooms), server.counters.rooms_created) == (0, 0)
    assert await session.search() == []
    await kind.story.has("cancelled", times=2)
    await session.join_or_create("chat", properties={"map": "castle"})
    await kind.story.has("announced")
    assert kind.story.of("announced") == [("announced", "a timer of a room that is")]


async def test_a_room_whose_creation_fails_is_not_there(world: World) -> None:
    server = await world.serve(chat(Picky))
    session = await world.connect(server)

    with pytest.raises(Failed):
        await session.create("chat", properties={"map": "broken"})

    assert len(server.rooms) == 0
    assert server.counters.turns_failed == 1


class Undecided(Chat):
    gate: asyncio.Event

    async def on_create(self, config: dict[str, Any]) -> None:
        self.story.tell("on_create", config)
        await self.gate.wait()
        if config:
            raise Refused("no")


async def test_nobody_gets_into_a_room_that_is_not_created_yet(world: World) -> None:
    kind = chat(Undecided, gate=asyncio.Event())
    server = await world.serve(kind)
    creator, other = await world.connect(server), await world.connect(server)
    creating = asyncio.create_task(creator.create("chat", properties={"map": "nowhere"}))
    await kind.story.has("on_create")

    found = await other.search()
    joining = asyncio.create_task(other.join_or_create("chat"))
    await kind.story.has("on_create", times=2)
    gate_of(kind).set()

    with pytest.raises(Refused):
        await creating
    room = await joining
    assert found == []
    assert [there.id for there in server.rooms] == [room.id]
    await room.send(Say("alive"))
    assert await texts_until(room, "alive") == ["alive"]


async def test_a_room_of_an_unknown_kind_is_refused_with_the_kinds_there_are(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)

    for asking in (session.create, session.join_or_create):
        with pytest.raises(NotFound, match=r"'chess'.*chat"):
            await asking("chess")


@pytest.mark.parametrize("max_players", [0, -1, 17])
async def test_a_room_with_more_seats_than_its_kind_allows_is_refused(world: World, max_players: int) -> None:
    server = await world.serve(chat(max_players=16))
    session = await world.connect(server)

    with pytest.raises(Refused, match="max_players must be from 1 to 16"):
        await session.create("chat", max_players=max_players)


# Joining


class Doorman(Chat):
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
    kind = chat(Doorman, max_players=2)
    server = await world.serve(kind, limits=Limits(admit_s=0.1))
    ada, bob = await world.connect(server), await world.connect(server)
    room = await server.create_room("chat", properties={"how": how})
    ada_room = await ada.join(room.id)

    for _ in range(3):
        with pytest.raises(error, match=words) as refused:
            await bob.join(room.id)
        assert type(refused.value) is error

    assert [player.id for player in room.players] == [ada.player_id]
    assert room.seats_used == 1
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
    assert room_of(server, ada_room).seats_used == 1
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
    assert room.seats_used == 0
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


def gate_of(kind: type[Chat]) -> asyncio.Event:
    gate = kind.gate  # type: ignore[attr-defined] # of `Slow` and `Undecided`
    assert isinstance(gate, asyncio.Event)
    return gate


async def test_a_room_whose_game_spoiled_its_properties_is_found_and_joined_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Spoiled(Room[PlayerData]):
        def on_created(self) -> None:
            self.properties["map"] = object()

    async with Server([Spoiled], port=0, tcp_port=None) as server, connect(server.url) as session:
        room = await session.join_or_create("spoiled")
        [found] = await session.search("spoiled")

    assert found.id == room.id
    assert found.properties == {}
    assert "properties" in caplog.text


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

    async with Server([Slow], port=0, tcp_port=None) as server:
        slow = await server.create_room("slow")
        seat = await server.open_agent("npc").join(slow.id)

        await seat.send(Say("one"))
        await seat.send(Say("two"))
        await seat.leave()
        async for _ in seat:
            pass

    assert slow.state == ["one", "two", "left"]
