import asyncio
from typing import Any

import pytest

from holdfast import Duplicate, Player, Reason, SessionEnded, on
from tests.server.world import (
    Chat,
    Gate,
    Hero,
    Said,
    Say,
    World,
    chat,
    hear,
    hear_the_end,
    player_in,
    room_of,
    same_player,
    server_side,
    texts_until,
    until_resumed,
)

# Soft and hard


async def test_soft_the_room_hears_of_a_drop_at_once_and_the_player_is_removed_when_the_grace_ends(
    world: World,
) -> None:
    kind = chat(disconnect="soft", grace_s=0.2)
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server, dial=gate), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    gate.shut()

    ada.cut()
    await kind.story.has("on_drop", ada.player_id)
    members_while_away = [player.id for player in room_of(server, bob_room).players]
    await kind.story.has("on_leave", ada.player_id)

    assert members_while_away == [ada.player_id, bob.player_id]
    assert [player.id for player in room_of(server, bob_room).players] == [bob.player_id]
    assert kind.story.of("on_leave") == [("on_leave", ada.player_id, Reason.GRACE_ENDED)]
    assert ada_room.left is None, "nobody could tell them yet"


async def test_hard_the_player_is_removed_at_once_and_the_session_lives_on(world: World) -> None:
    kind = chat(disconnect="hard")
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    room = await session.join_or_create("chat")
    gate.shut()
    session.cut()
    await kind.story.has("on_leave")
    status_while_away = server_side(server, session).status

    outcome = await until_resumed(session, gate.open)

    assert kind.story.lines[2:] == [
        ("on_join", session.player_id),
        ("on_leave", session.player_id, Reason.DROPPED),
    ]
    assert status_while_away == "disconnected"
    assert outcome.kind == "resumed"
    assert [message async for message in room] == []
    assert room.left is not None
    assert room.left.reason == Reason.DROPPED
    assert (await session.join(room.id)).id == room.id


# The same player again


SETTINGS_THAT_FORGET_DROPS: list[dict[str, Any]] = [
    {},
    {"disconnect": "hard"},
    {"keep_before_start": False},
]


@pytest.mark.parametrize("settings", SETTINGS_THAT_FORGET_DROPS, ids=["soft", "hard", "forgetful lobby"])
async def test_takeover_the_newest_gets_the_seat_with_all_that_is_on_it(world: World, settings: dict[str, Any]) -> None:
    kind = chat(duplicate="takeover", max_players=1, **settings)
    server = await world.serve(kind)
    old = await world.connect(server)
    old_room = await old.join_or_create("chat")
    player = player_in(server, old_room, old)
    player.data.hp = 7
    room_of(server, old_room).own(player, "sword")
    new = await same_player(world, server, old)

    new_room = await new.join(old_room.id)

    assert room_of(server, new_room).players == (player,)
    assert (player.data.hp, player.owned, player.connected) == (7, {"sword"}, True)
    assert player.session.id == new.id
    assert [line[0] for line in kind.story.lines[3:]] == ["on_drop", "on_resync", "on_rejoin"]
    assert await new_room.receive() == Said("room", "the state")
    await hear_the_end(old_room)
    assert old_room.left is not None
    assert old_room.left.reason == Reason.SUPERSEDED
    with pytest.raises(SessionEnded) as ended:
        await old.search()
    assert ended.value.reason == Reason.SUPERSEDED
    await new_room.send(Say("it is me"))
    assert await texts_until(new_room, "it is me") == ["it is me"]
    assert server.counters.internal_errors == 0


class Busy(Chat):
    gate: asyncio.Event

    @on(Say)
    async def said(self, player: Player[Hero], say: Say) -> None:
        self.story.tell("said", say.text)
        await self.gate.wait()
        self.broadcast(Said(player.id, say.text))


async def test_takeover_what_the_old_session_said_before_is_applied_and_does_not_confuse_the_new_one(
    world: World,
) -> None:
    gate = asyncio.Event()
    kind = chat(Busy, gate=gate)
    server = await world.serve(kind)
    old = await world.connect(server)
    old_room = await old.join_or_create("chat")
    for text in "abc":
        await old_room.send(Say(text))
    await kind.story.has("said")
    await old.search()
    new = await same_player(world, server, old)
    new_room = await new.join(old_room.id)

    gate.set()
    await new_room.send(Say("d"))

    assert (await texts_until(new_room, "d"))[-1] == "d"
    await new_room.flush()
    assert [text for _, text in kind.story.of("said")] == ["a", "b", "c", "d"]
    assert new.drops == 0


@pytest.mark.parametrize("policy", ["takeover", "reject"])
async def test_a_dropped_player_who_lost_the_session_gets_the_held_seat_by_signing_in(
    world: World, policy: str
) -> None:
    """A crash of the client must not lock the player out until the grace ends, whatever the policy for doubles."""
    kind = chat(duplicate=policy, max_players=1)
    server = await world.serve(kind)
    gate = Gate()
    crashed = await world.connect(server, dial=gate)
    room = await crashed.join_or_create("chat")
    player = player_in(server, room, crashed)
    gate.shut()
    crashed.cut()
    await kind.story.has("on_drop")
    restarted = await same_player(world, server, crashed)

    new_room = await restarted.join(room.id)

    assert room_of(server, new_room).players == (player,)
    assert player.connected
    assert server.sessions.get(crashed.id) is None
    assert [line[0] for line in kind.story.lines[3:]] == ["on_drop", "on_resync", "on_rejoin"]


async def test_reject_the_newcomer_is_refused_and_the_holder_never_notices(world: World) -> None:
    kind = chat(duplicate="reject")
    server = await world.serve(kind)
    holder = await world.connect(server)
    room = await holder.join_or_create("chat")
    newcomer = await same_player(world, server, holder)

    for _ in range(2):
        with pytest.raises(Duplicate):
            await newcomer.join(room.id)
    await newcomer.close()

    assert [line[0] for line in kind.story.lines[2:]] == ["on_join"]
    await room.send(Say("undisturbed"))
    assert await texts_until(room, "undisturbed") == ["undisturbed"]
    assert holder.drops == 0


async def test_allow_the_same_player_gets_a_second_seat(world: World) -> None:
    kind = chat(duplicate="allow")
    server = await world.serve(kind)
    first = await world.connect(server)
    first_room = await first.join_or_create("chat")
    second = await same_player(world, server, first)
    second_room = await second.join(first_room.id)

    await second_room.send(Say("in both windows"))
    await hear(first_room, "in both windows")
    await hear(second_room, "in both windows")
    await second.close()

    (left,) = room_of(server, first_room).players
    assert left.session.id == first.id
    assert kind.story.of("on_leave") == [("on_leave", first.player_id, Reason.LEFT)]


async def test_a_player_in_two_rooms_with_two_sessions_keeps_both(world: World) -> None:
    server = await world.serve(chat())
    first = await world.connect(server)
    first_room = await first.join_or_create("chat")
    other = await server.create_room("chat")
    second = await same_player(world, server, first)

    second_room = await second.join(other.id)

    await first_room.send(Say("here"))
    await second_room.send(Say("there"))
    assert await texts_until(first_room, "here") == ["here"]
    assert await texts_until(second_room, "there") == ["there"]
