"""Rooms are made as they were wished for, or not at all."""

import asyncio
from random import Random
from typing import Any

import pytest

from holdfast import (
    Failed,
    Invalid,
    Limits,
    NameTaken,
    NotFound,
    Refused,
    RoomFull,
    RoomInfo,
    Throttled,
    WrongPassword,
)
from holdfast.core.room import context_of
from holdfast.core.room_listing import CODE_LENGTH, CODE_LETTERS
from holdfast.server.context import Environment
from tests.server.world import Chat, World, chat


class Gated(Chat):
    """Begins when its gate is opened; refuses what it does not like."""

    gate: asyncio.Event

    async def on_create(self, config: dict[str, Any]) -> None:
        self.story.tell("begin", self.name)
        await self.gate.wait()
        if "refuse" in config:
            raise Refused(str(config["refuse"]))
        if "fail" in config:
            raise RuntimeError("a bug of the game")


def gated(**settings: Any) -> type[Chat]:
    return chat(Gated, gate=asyncio.Event(), **settings)


def open_gate(kind: Any) -> None:
    kind.gate.set()


# What was wished for


async def test_a_room_has_what_it_was_wished_with(world: World) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)
    properties = {"map": "sea", "level": 3, "rate": 0.5, "ranked": True, "tags": ["a", 1, 0.5, False]}

    info = await ada.create(
        "chat", name="Ada's", properties=properties, max_players=5, visibility="private", password="sesame"
    )

    room = server.rooms.get(info.id)
    assert room is not None
    assert (room.name, dict(room.properties), room.max_players) == ("Ada's", properties, 5)
    assert info == RoomInfo(
        id=room.id,
        kind="chat",
        players=0,
        max_players=5,
        phase="lobby",
        properties=properties,
        name="Ada's",
        status="active",
        open_seats=5,
        visibility="private",
        has_password=True,
        code=info.code,
        creator=ada.player_id,
        created_at=context_of(room).listing.created_at,
        version=1,
    )


async def test_a_room_of_which_nothing_was_wished_is_public_open_and_as_large_as_its_kind(world: World) -> None:
    server = await world.serve(chat(max_players=7))
    ada = await world.connect(server)

    info = await ada.create("chat")

    assert (info.name, info.properties, info.visibility, info.has_password) == ("", {}, "public", False)
    assert (info.max_players, info.open_seats, info.join_policy, info.is_locked) == (7, 7, "accept_all", False)
    assert (info.host, info.status, info.reason) == ("", "active", "")


async def test_a_room_that_the_server_makes_is_nobody_s(world: World) -> None:
    server = await world.serve(chat())

    room = await server.create_room("chat", name="lobby", properties={"a": 1}, max_players=2, visibility="private")

    assert context_of(room).listing.creator == ""
    assert (room.name, room.properties, room.max_players) == ("lobby", {"a": 1}, 2)


@pytest.mark.parametrize(
    "wish",
    [
        {"name": "n" * 129},
        {"properties": {"x": None}},
        {"properties": {"x": {"nested": 1}}},
        {"properties": {"x": float("nan")}},
        {"properties": {"x": "y" * 2049}},
        {"properties": {"n" * 65: 1}},
        {"properties": {f"p{number}": 1 for number in range(65)}},
        {"max_players": 0},
        {"max_players": -3},
        {"max_players": 17},
        {"max_players": 2.5},
        {"visibility": "secret"},
        {"password": "p" * 65},
        {"idempotency_key": "k" * 65},
        {"name": 5},
    ],
    ids=lambda wish: str(wish)[:40],
)
async def test_what_no_room_can_have_is_refused_to_players_and_to_the_server(
    world: World, wish: dict[str, Any]
) -> None:
    kind = chat()
    server = await world.serve(kind)
    ada = await world.connect(server)

    with pytest.raises(Invalid):
        await ada.create("chat", **wish)
    with pytest.raises(Invalid):
        await server.create_room("chat", **wish)

    assert len(server.rooms) == 0
    assert kind.story.lines == []
    assert server.counters.internal_errors == 0


async def test_the_server_cannot_name_a_room_with_what_no_client_could_read(world: World) -> None:
    server = await world.serve(chat())

    with pytest.raises(Invalid):
        await server.create_room("chat", name="\ud800")

    assert len(server.rooms) == 0


async def test_an_unknown_kind_is_not_found_and_the_known_ones_are_named(world: World) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)

    with pytest.raises(NotFound, match=r"'chess'.*chat"):
        await ada.create("chess")


async def test_a_node_with_no_space_for_another_room_says_so_also_while_some_are_being_made(world: World) -> None:
    kind = gated()
    server = await world.serve(kind, limits=Limits(rooms_max=2))
    making = [asyncio.create_task(server.create_room("chat")) for _ in range(2)]
    await kind.story.has("begin", times=2)

    with pytest.raises(Throttled):
        await server.create_room("chat")
    open_gate(kind)
    await asyncio.gather(*making)

    assert len(server.rooms) == 2


@pytest.mark.parametrize(("how", "error"), [("refuse", Refused), ("fail", Failed)])
async def test_a_room_that_was_not_made_leaves_its_place_to_another(
    world: World, how: str, error: type[Refused]
) -> None:
    kind = gated()
    open_gate(kind)
    server = await world.serve(kind, limits=Limits(rooms_max=1))

    for _ in range(3):
        with pytest.raises(error) as refused:
            await server.create_room("chat", config={how: "no such map"})
        assert type(refused.value) is error

    assert await server.create_room("chat") in server.rooms


# Codes


async def test_every_room_has_a_code_of_six_letters_by_which_it_is_joined(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)
    info = await ada.create("chat", visibility="private")

    typed = f" {info.code[:3].lower()}-{info.code[3:]} "
    joined = await bob.join(code=typed)

    assert joined.id == info.id
    assert len(info.code) == CODE_LENGTH
    assert set(info.code) <= set(CODE_LETTERS)


async def test_a_code_that_no_room_has_is_not_found_and_one_that_ended_neither(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    ada = await world.connect(server)
    info = await ada.create("chat")
    room = server.rooms.get(info.id)
    assert room is not None

    room.close()
    await kind.story.has("on_destroyed")

    for code in (info.code, "BCDFGH", "OOO", "?"):
        with pytest.raises(NotFound):
            await ada.join(code=code)


@pytest.mark.parametrize("wish", [{}, {"room_id": "r", "code": "BCDFGH"}], ids=["neither", "both"])
async def test_a_room_is_named_by_its_id_or_by_its_code(world: World, wish: dict[str, Any]) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)

    with pytest.raises(Invalid):
        await ada.join(**wish)


class Repeats(Random):
    """Makes the same code up again and again, before another."""

    def __init__(self) -> None:
        super().__init__(1)
        self.times = 8

    def randbytes(self, n: int) -> bytes:
        if n == CODE_LENGTH and self.times:
            self.times -= 1
            return bytes(n)
        return super().randbytes(n)


async def test_no_two_rooms_have_the_same_code_also_when_they_are_made_at_the_same_time(world: World) -> None:
    kind = gated()
    server = await world.serve(kind, _environment=Environment(random=Repeats()))
    making = [asyncio.create_task(server.create_room("chat")) for _ in range(4)]
    await kind.story.has("begin", times=4)

    open_gate(kind)
    rooms = await asyncio.gather(*making)

    codes = {context_of(room).listing.code: room.id for room in rooms}
    assert len(codes) == 4
    for code, room_id in codes.items():
        assert server.rooms.find("", code).room.id == room_id


async def test_the_code_of_a_room_that_was_not_made_is_free_again(world: World) -> None:
    kind = gated()
    open_gate(kind)
    server = await world.serve(kind, _environment=Environment(random=Repeats()))

    for _ in range(2):
        with pytest.raises(Refused):
            await server.create_room("chat", config={"refuse": "no"})
    room = await server.create_room("chat")

    assert context_of(room).listing.code == CODE_LETTERS[0] * CODE_LENGTH


async def test_a_code_is_shown_to_the_creator_the_members_and_the_operator_and_to_nobody_else(world: World) -> None:
    server = await world.serve(chat())
    ada, bob, eve = [await world.connect(server) for _ in range(3)]
    info = await ada.create("chat")
    seat = await bob.join(info.id)

    [found] = await eve.search("chat")
    [mine] = await bob.my_rooms()

    assert found.code == ""
    assert seat.info is not None
    assert info.code == seat.info.code == mine.code != ""


# Visibility and passwords


async def test_a_private_room_is_found_by_its_creator_and_its_members_and_joined_by_who_knows_it(world: World) -> None:
    server = await world.serve(chat())
    ada, bob, eve = [await world.connect(server) for _ in range(3)]
    info = await ada.create("chat", visibility="private")

    await bob.join(info.id)

    assert [each.id for each in await ada.search("chat")] == [info.id]
    assert [each.id for each in await bob.search("chat")] == [info.id]
    assert await eve.search("chat") == []
    assert (await eve.join_or_create("chat")).id != info.id


async def test_who_does_not_know_the_password_stays_outside(world: World) -> None:
    server = await world.serve(chat(max_players=1))
    ada, bob = await world.connect(server), await world.connect(server)
    info = await ada.create("chat", password="sesame")

    for wrong in ("", "Sesame"):
        with pytest.raises(WrongPassword):
            await bob.join(info.id, password=wrong)
        with pytest.raises(WrongPassword):
            await bob.join(code=info.code, password=wrong)
    await bob.join(info.id, password="sesame")

    [found] = await ada.search("chat", where="")
    assert (found.has_password, found.players) == (True, 1)
    with pytest.raises(RoomFull):
        await ada.join(info.id, password="sesame")


async def test_the_creator_needs_the_password_too_and_who_has_a_seat_does_not(world: World) -> None:
    server = await world.serve(chat(grace_s=20.0))
    ada = await world.connect(server)
    info = await ada.create("chat", password="sesame")

    with pytest.raises(WrongPassword):
        await ada.join(info.id)
    await ada.reserve(info.id, password="sesame")
    seat = await ada.join(info.id)

    assert seat.id == info.id


# Names


@pytest.mark.parametrize("name", ["", "arena"])
async def test_names_need_not_be_unique(world: World, name: str) -> None:
    server = await world.serve(chat())

    rooms = [await server.create_room("chat", name=name) for _ in range(2)]

    assert [room.name for room in rooms] == [name, name]


async def test_where_names_are_unique_a_second_room_of_the_name_is_refused(world: World) -> None:
    server = await world.serve(chat(unique_names=True), chat(kind="other", unique_names=True))
    ada = await world.connect(server)
    await ada.create("chat", name="arena")

    with pytest.raises(NameTaken, match="'arena'"):
        await ada.create("chat", name="arena")
    await ada.create("chat", name="Arena")
    await ada.create("other", name="arena")
    await asyncio.gather(ada.create("chat"), ada.create("chat"))

    assert len(server.rooms) == 5


async def test_of_rooms_that_are_made_at_the_same_time_one_gets_the_name(world: World) -> None:
    kind = gated(unique_names=True)
    server = await world.serve(kind)
    making = [asyncio.create_task(server.create_room("chat", name="arena")) for _ in range(20)]
    await kind.story.has("begin", "arena")

    open_gate(kind)
    made = await asyncio.gather(*making, return_exceptions=True)

    assert sum(isinstance(each, Chat) for each in made) == 1
    assert sum(isinstance(each, NameTaken) for each in made) == 19
    assert kind.story.of("begin") == [("begin", "arena")]


async def test_a_name_is_free_again_when_its_room_was_refused_cancelled_or_has_ended(world: World) -> None:
    kind = gated(unique_names=True)
    server = await world.serve(kind)
    cancelled = asyncio.create_task(server.create_room("chat", name="arena"))
    await kind.story.has("begin")

    cancelled.cancel()
    await asyncio.wait([cancelled])
    open_gate(kind)
    with pytest.raises(Refused):
        await server.create_room("chat", name="arena", config={"refuse": "no"})
    first = await server.create_room("chat", name="arena")
    first.close()
    await kind.story.has("on_destroyed")
    second = await server.create_room("chat", name="arena")

    assert second.name == "arena"
    assert list(server.rooms) == [second]


async def test_a_room_that_names_itself_takes_the_name(world: World) -> None:
    class Proud(Chat):
        def on_created(self) -> None:
            self.update(name="the best")

    server = await world.serve(chat(Proud, unique_names=True))

    first, second = await server.create_room("chat"), await server.create_room("chat")

    assert [first.name, second.name] == ["the best", ""]
