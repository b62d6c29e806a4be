"""A room's entry is changed by those who may, whole or not at all, and everybody whom it concerns is told."""

import asyncio
from typing import Any

import pytest

from holdfast import (
    Conflict,
    Invalid,
    NameTaken,
    NotAllowed,
    NotFound,
    Player,
    RoomFull,
    RoomInfo,
    RoomLocked,
    RoomUpdated,
    WrongPassword,
    on,
)
from holdfast.core.room import context_of
from holdfast.schemas.requests import Update
from tests.server.world import Chat, Hero, Said, Say, World, chat, hear, room_of


class Told(Chat):
    """Tells of updates, and changes its own entry when it is told to."""

    def on_update(self) -> Any:
        self.story.tell("on_update", context_of(self).listing.version)

    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        match say.text.split():
            case ["set", name, value]:
                self.properties[name] = value
            case ["clear"]:
                self.properties = {}
            case ["update", name]:
                self.update(name=name, set={"by": "the game"}, remove=["map"], max_players=3)
            case ["lock"]:
                self.lock()
            case _:
                pass
        self.broadcast(Said(player.id, say.text))


async def updates_until(room: Any, text: str) -> list[RoomInfo]:
    """What a member was told of the entry, until somebody says this."""
    return [message.room for message in await hear(room, text) if isinstance(message, RoomUpdated)]


# What can be changed


async def test_everything_is_changed_at_once_and_the_answer_shows_it(world: World) -> None:
    server = await world.serve(chat(Told))
    ada = await world.connect(server)
    info = await ada.create("chat", properties={"map": "sea", "level": 1})

    changed = await ada.update_room(
        info.id,
        name="arena",
        set={"map": "cave", "tags": ["dark"]},
        remove=["level"],
        max_players=2,
        join_policy="deny_all",
        locked=True,
        visibility="private",
        password="sesame",
        if_version=info.version,
    )

    room = server.rooms.get(info.id)
    assert room is not None
    assert (room.name, room.properties) == ("arena", {"map": "cave", "tags": ["dark"]})
    assert changed == RoomInfo(
        id=info.id,
        kind="chat",
        players=0,
        max_players=2,
        phase="lobby",
        properties={"map": "cave", "tags": ["dark"]},
        name="arena",
        open_seats=0,
        visibility="private",
        join_policy="deny_all",
        is_locked=True,
        has_password=True,
        code=info.code,
        creator=ada.player_id,
        created_at=info.created_at,
        version=info.version + 1,
    )


async def test_members_are_told_in_their_stream_and_the_game_by_its_hook(world: World) -> None:
    kind = chat(Told)
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room = await ada.join_or_create("chat")
    bob_room = await bob.join(ada_room.id)

    first = await ada_room.update(name="arena")
    second = await ada_room.update(set={"map": "sea"})
    await ada_room.send(Say("done"))

    for room in (ada_room, bob_room):
        assert await updates_until(room, "done") == [first, second]
        assert room.info is not None
        assert (room.info.name, room.info.properties) == ("arena", {"map": "sea"})
    assert kind.story.of("on_update") == [("on_update", first.version), ("on_update", second.version)]


async def test_a_member_who_was_away_is_told_when_they_are_back(world: World) -> None:
    server = await world.serve(chat(Told, max_players=2))
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room = await ada.join_or_create("chat")
    bob_room = await bob.join(ada_room.id)

    bob.cut()
    changed = await ada_room.update(name="arena")
    await ada_room.send(Say("done"))

    assert await updates_until(bob_room, "done") == [changed]


async def test_searches_find_what_was_changed_at_once(world: World) -> None:
    server = await world.serve(chat(Told))
    ada, eve = await world.connect(server), await world.connect(server)
    info = await ada.create("chat", properties={"map": "sea"})

    async def found(where: str) -> list[str]:
        return [each.id for each in await eve.search("chat", where=where)]

    await ada.update_room(info.id, name="arena", set={"map": "cave"}, max_players=2)
    assert await found("name = 'arena' AND properties.map = 'cave' AND max_players = 2") == [info.id]
    assert await found("properties.map = 'sea'") == []
    await ada.update_room(info.id, locked=True)
    assert await found("open_seats > 0") == []
    await ada.update_room(info.id, locked=False, visibility="private")
    assert await found("open_seats > 0") == []
    await ada.update_room(info.id, visibility="public")
    assert await found("open_seats = 2") == [info.id]


async def test_what_the_game_changes_itself_is_found_at_once(world: World) -> None:
    kind = chat(Told)
    server = await world.serve(kind)
    ada, eve = await world.connect(server), await world.connect(server)
    seat = await ada.join_or_create("chat", properties={"map": "sea"})
    room = room_of(server, seat)
    version = context_of(room).listing.version

    for number, (text, where) in enumerate(
        [
            ("set level 5", "properties.level = '5' AND properties.map = 'sea'"),
            ("update arena", "name = 'arena' AND properties.by = 'the game' AND max_players = 3"),
            ("clear", "NOT (properties.by = 'the game')"),
            ("lock", "open_seats = 0"),
        ],
        start=1,
    ):
        await seat.send(Say(text))
        await hear(seat, text)
        assert [each.id for each in await eve.search(where=where)] == [room.id], text
        assert context_of(room).listing.version == version + number

    # Its own `update` goes the same way as anybody's.
    assert kind.story.of("on_update") == [("on_update", version + 2)]


async def test_a_game_hears_of_nonsense_at_once_and_nothing_changes(world: World) -> None:
    server = await world.serve(chat(Told))
    ada = await world.connect(server)
    seat = await ada.join_or_create("chat")
    room = room_of(server, seat)
    before = context_of(room).listing.version

    with pytest.raises(Invalid, match="128"):
        room.update(name="n" * 129)
    wishes: list[dict[str, Any]] = [{"name": 5}, {"name": "\ud800"}, {"set": {"x": object()}}, {"max_players": "many"}]
    for wish in wishes:
        with pytest.raises(Invalid):
            room.update(**wish)

    assert (room.name, room.properties, context_of(room).listing.version) == ("", {}, before)
    assert [each.id for each in await ada.search()] == [room.id]


# Seats


async def test_fewer_seats_throw_nobody_out_and_the_room_is_full_until_enough_have_left(world: World) -> None:
    server = await world.serve(chat(Told, max_players=4))
    sessions = [await world.connect(server) for _ in range(4)]
    ada, bob, cyd, dan = sessions
    info = await ada.create("chat")
    seats = [await session.join(info.id) for session in (ada, bob, cyd)]

    changed = await seats[0].update(max_players=2)
    assert (changed.players, changed.max_players, changed.open_seats) == (3, 2, 0)
    for left in (bob, cyd):
        with pytest.raises(RoomFull):
            await dan.join(info.id)
        await seats[sessions.index(left)].leave()
    await dan.join(info.id)

    room = room_of(server, seats[0])
    assert [player.id for player in room.players] == [ada.player_id, dan.player_id]


async def test_who_dropped_from_a_room_that_became_smaller_still_has_their_seat(world: World) -> None:
    kind = chat(Told)
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room = await ada.join_or_create("chat")
    await bob.join(ada_room.id)

    await ada_room.update(max_players=1, locked=True, password="sesame", join_policy="deny_all")
    bob.cut()
    await kind.story.has("on_rejoin", bob.player_id)

    assert context_of(room_of(server, ada_room)).seats.used == 2


@pytest.mark.parametrize("change", [{"locked": True}, {"join_policy": "deny_all"}], ids=str)
async def test_a_room_takes_nobody_while_it_is_locked_or_denies_all(world: World, change: dict[str, Any]) -> None:
    server = await world.serve(chat(Told))
    ada, bob = await world.connect(server), await world.connect(server)
    info = await ada.create("chat")

    await ada.update_room(info.id, **change)
    with pytest.raises(RoomLocked):
        await bob.join(info.id)
    await ada.update_room(info.id, locked=False, join_policy="accept_all")

    assert (await bob.join(info.id)).id == info.id


async def test_a_password_can_be_set_changed_and_taken_away(world: World) -> None:
    server = await world.serve(chat(Told))
    ada, bob = await world.connect(server), await world.connect(server)
    info = await ada.create("chat")

    for password in ("first", "second"):
        assert (await ada.update_room(info.id, password=password)).has_password
        with pytest.raises(WrongPassword):
            await bob.join(info.id)
        with pytest.raises(WrongPassword):
            await bob.join(info.id, password="first" if password == "second" else "second")
    assert not (await ada.update_room(info.id, password="")).has_password

    assert (await bob.join(info.id)).id == info.id


# Versions


async def test_of_two_who_change_the_same_version_one_is_told_of_the_conflict(world: World) -> None:
    server = await world.serve(chat(Told))
    ada = await world.connect(server)
    operator = server.operate
    info = await ada.create("chat")
    wishes = [Update(info.id, name=name, set={name: 1}, if_version=info.version) for name in "abcdefgh"]

    answers = await asyncio.gather(*(operator.rooms.update(wish) for wish in wishes), return_exceptions=True)

    [won] = [answer for answer in answers if isinstance(answer, RoomInfo)]
    assert sum(isinstance(answer, Conflict) for answer in answers) == 7
    assert won.properties == {won.name: 1}
    assert operator.rooms.get(info.id) == won
    assert won.version == info.version + 1


async def test_a_conflict_changes_nothing_and_tells_nobody(world: World) -> None:
    kind = chat(Told)
    server = await world.serve(kind)
    ada = await world.connect(server)
    seat = await ada.join_or_create("chat")
    assert seat.info is not None

    with pytest.raises(Conflict, match="version"):
        await seat.update(name="x", set={"a": 1}, host=ada.player_id, if_version=seat.info.version - 1)
    await seat.send(Say("done"))

    assert await hear(seat, "done") == [Said(ada.player_id, "done")]
    assert kind.story.of("on_update") == []
    assert room_of(server, seat).name == ""


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"max_players": 0}, Invalid),
        ({"max_players": 17}, Invalid),
        ({"name": "n" * 129}, Invalid),
        ({"set": {"x": None}}, Invalid),
        ({"set": {"x": "y" * 2048}}, Invalid),
        ({"set": {f"p{number}": 1 for number in range(65)}}, Invalid),
        ({"visibility": "secret"}, Invalid),
        ({"join_policy": "some"}, Invalid),
        ({"host": "nobody"}, NotFound),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_refused_update_changes_nothing(world: World, change: dict[str, Any], error: type[Exception]) -> None:
    server = await world.serve(chat(Told))
    ada = await world.connect(server)
    info = await ada.create("chat")

    with pytest.raises(error):
        await ada.update_room(info.id, **{"name": "other", "locked": True, **change})

    assert server.operate.rooms.get(info.id) == info


# Who may


async def test_the_creator_and_the_host_may_and_nobody_else(world: World) -> None:
    server = await world.serve(chat(Told, election="oldest"))
    ada, bob, cyd, eve = [await world.connect(server) for _ in range(4)]
    info = await ada.create("chat")
    await bob.join(info.id)
    await cyd.join(info.id)

    for stranger in (cyd, eve):
        with pytest.raises(NotAllowed):
            await stranger.update_room(info.id, name="mine")
    assert (await ada.update_room(info.id, name="the creator's")).name == "the creator's"
    assert (await bob.update_room(info.id, name="the host's")).name == "the host's"
    await bob.update_room(info.id, host=cyd.player_id)
    with pytest.raises(NotAllowed):
        await bob.update_room(info.id, name="mine again")
    assert (await cyd.update_room(info.id, name="the new host's")).name == "the new host's"


async def test_a_room_of_the_server_without_a_host_is_changed_by_no_player(world: World) -> None:
    server = await world.serve(chat(Told))
    room = await server.create_room("chat")
    ada = await world.connect(server)
    await ada.join(room.id)

    with pytest.raises(NotAllowed):
        await ada.update_room(room.id, name="mine")
    with pytest.raises(NotFound):
        await ada.update_room("no-such-room", name="mine")

    assert (await server.operate.rooms.update(Update(room.id, name="ours"))).name == "ours"


# Names


async def test_a_room_is_renamed_to_what_no_other_is_called_and_leaves_its_old_name(world: World) -> None:
    server = await world.serve(chat(Told, unique_names=True))
    ada = await world.connect(server)
    first, second = await ada.create("chat", name="a"), await ada.create("chat", name="b")

    with pytest.raises(NameTaken):
        await ada.update_room(second.id, name="a", set={"x": 1})
    await ada.update_room(first.id, name="a", set={"x": 1})
    await ada.update_room(first.id, name="c")
    await ada.update_room(second.id, name="a")
    third = await ada.create("chat", name="b")

    names = {info.id: (info.name, info.properties) for info in await ada.search()}
    assert names == {first.id: ("c", {"x": 1}), second.id: ("a", {}), third.id: ("b", {})}


async def test_what_a_game_changes_by_its_own_hand_is_told_to_who_is_in_the_room_once_in_a_while(world: World) -> None:
    server = await world.serve(chat(Told))
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")

    for word in ("set map sea", "set map cave", "lock"):
        await room.send(Say(word))
    told: list[RoomInfo] = []
    async for message in room:
        if isinstance(message, RoomUpdated):
            told.append(message.room)
            break

    assert [(info.properties, info.is_locked) for info in told] == [({"map": "cave"}, True)]
    assert told[0].version == context_of(room_of(server, room)).listing.version
    # Whoever was told may change it with what they know.
    assert room.info is not None
    assert (await room.update(name="arena", if_version=room.info.version)).name == "arena"
