from typing import Any

import pytest

from holdfast import Player, Reason
from tests.server.world import Chat, Gate, Hero, World, chat, player_in, room_of, same_player, until_resumed


class Smithy(Chat):
    """Tells what a player owns whenever something happens to them."""

    def on_drop(self, player: Player[Hero]) -> None:
        self.tell("on_drop", player)

    def on_rejoin(self, player: Player[Hero]) -> None:
        self.tell("on_rejoin", player)

    def on_leave(self, player: Player[Hero], reason: Reason) -> None:
        self.tell("on_leave", player)

    def tell(self, hook: str, player: Player[Hero]) -> None:
        self.story.tell(hook, sorted(player.owned), [self.owner_of(each) is player for each in sorted(player.owned)])


BOTH = (["shield", "sword"], [True, True])


async def test_objects_stay_with_a_player_through_drop_and_return(world: World) -> None:
    kind = chat(Smithy)
    server = await world.serve(kind)
    session = await world.connect(server)
    client_room = await session.join_or_create("chat")
    room, player = room_of(server, client_room), player_in(server, client_room, session)
    room.own(player, "sword")
    room.own(player, "shield")

    await until_resumed(session, session.cut)

    assert kind.story.lines[3:] == [("on_drop", *BOTH), ("on_rejoin", *BOTH)]
    assert player.owned == {"sword", "shield"}
    assert room.owner_of("sword") is player


async def test_an_object_that_changed_hands_while_its_owner_was_away_is_not_theirs_on_return(world: World) -> None:
    kind = chat(Smithy)
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server, dial=gate), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    room = room_of(server, ada_room)
    room.own(player_in(server, ada_room, ada), "sword")
    room.own(player_in(server, ada_room, ada), "shield")
    gate.shut()
    ada.cut()
    await kind.story.has("on_drop")

    room.own(player_in(server, bob_room, bob), "sword")
    room.disown("shield")
    await until_resumed(ada, gate.open)

    assert kind.story.lines[-1] == ("on_rejoin", [], [])
    assert room.owner_of("sword") is player_in(server, bob_room, bob)
    assert room.owner_of("shield") is None
    assert "shield" not in room.objects


async def test_an_object_has_one_owner(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    room = room_of(server, ada_room)
    ada_player, bob_player = player_in(server, ada_room, ada), player_in(server, bob_room, bob)

    room.own(ada_player, "sword")
    room.own(bob_player, "sword")
    room.own(None, "gate")
    room.disown("no such thing")

    assert (ada_player.owned, bob_player.owned) == (set(), {"sword"})
    assert room.owner_of("gate") is None
    assert sorted(room.objects) == ["gate", "sword"]


async def test_a_leaving_player_still_owns_their_objects_in_on_leave(world: World) -> None:
    kind = chat(Smithy)
    server = await world.serve(kind)
    session = await world.connect(server)
    client_room = await session.join_or_create("chat")
    room, player = room_of(server, client_room), player_in(server, client_room, session)
    room.own(player, "sword")
    room.own(player, "shield")

    await client_room.leave()

    assert kind.story.lines[-1] == ("on_leave", *BOTH)
    assert player.owned == set()


@pytest.mark.parametrize(("settings", "are_there"), [({"orphans": "server"}, True), ({}, False)])
async def test_orphans_go_to_the_server_if_the_room_says_so_and_else_to_nobody(
    world: World, settings: dict[str, Any], are_there: bool
) -> None:
    kind = chat(**settings)
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    room, bobs = room_of(server, bob_room), player_in(server, bob_room, bob)
    room.own(player_in(server, ada_room, ada), "sword")
    room.own(bobs, "bow")

    await ada_room.leave()

    assert ("sword" in room.objects) is are_there
    assert room.owner_of("sword") is None
    assert bobs.owned == {"bow"}


class Family(Chat):
    def heir(self, player: Player[Hero], object_id: str) -> Player[Hero] | None:
        if object_id == "cursed":
            raise ZeroDivisionError("a bug of the game")
        return self.players[0] if object_id == "crown" else None


async def test_orphans_go_to_the_heir_the_game_names_and_else_to_nobody(world: World) -> None:
    kind = chat(Family, orphans="heir")
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    room, adas, bobs = room_of(server, ada_room), player_in(server, ada_room, ada), player_in(server, bob_room, bob)
    for thing in ("crown", "rags"):
        room.own(bobs, thing)

    await bob_room.leave()

    assert room.owner_of("crown") is adas
    assert room.owner_of("rags") is None
    assert "rags" not in room.objects
    assert bobs.owned == set()


async def test_when_heir_raises_nothing_is_left_with_who_left(world: World) -> None:
    kind = chat(Family, orphans="heir")
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    room, adas, bobs = room_of(server, ada_room), player_in(server, ada_room, ada), player_in(server, bob_room, bob)
    for thing in ("armour", "crown", "cursed", "rags"):
        room.own(bobs, thing)

    await bob_room.leave()

    assert bobs.owned == set()
    assert {thing: room.owner_of(thing) for thing in room.objects} == {"crown": adas}
    assert server.counters.turns_failed == 1


async def test_objects_stay_where_they_are_when_another_session_of_the_player_takes_the_seat_over(
    world: World,
) -> None:
    kind = chat(Smithy)
    server = await world.serve(kind)
    old = await world.connect(server)
    old_room = await old.join_or_create("chat")
    room, player = room_of(server, old_room), player_in(server, old_room, old)
    room.own(player, "sword")
    room.own(player, "shield")
    new = await same_player(world, server, old)

    await new.join(old_room.id)

    assert [line for line in kind.story.lines[3:] if line[0] != "on_resync"] == [
        ("on_drop", *BOTH),
        ("on_rejoin", *BOTH),
    ]
    assert room.owner_of("sword") is player


async def test_objects_are_orphans_when_the_grace_ends(world: World) -> None:
    kind = chat(Smithy, grace_s=0.1)
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    client_room = await session.join_or_create("chat")
    room, player = room_of(server, client_room), player_in(server, client_room, session)
    room.own(player, "sword")
    gate.shut()

    session.cut()
    await kind.story.has("on_leave")

    assert room.owner_of("sword") is None
    assert "sword" not in room.objects
    assert player.owned == set()
