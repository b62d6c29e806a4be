import asyncio
import logging
from typing import Any

import pytest

from holdfast import (
    Auth,
    ClientSession,
    Duplicate,
    Limits,
    NotSeated,
    Outcome,
    Player,
    Reason,
    Refused,
    RoomFull,
    RoomLocked,
    Server,
    Session,
    SessionEnded,
    on,
)
from holdfast.core.frames import TEXT_CHARS_MAX
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
)


def server_side(server: Server, session: ClientSession) -> Session:
    found = server.sessions.get(session.id)
    assert found is not None
    return found


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


# Lobby and game


async def test_a_drop_in_the_lobby_forgets_the_player_and_a_drop_in_the_game_keeps_them(world: World) -> None:
    kind = chat(keep_before_start=False)
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server, dial=gate), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    room = room_of(server, bob_room)
    await until_resumed(ada, ada.cut)
    assert kind.story.of("on_leave") == [("on_leave", ada.player_id, Reason.DROPPED)]
    await hear_the_end(ada_room)
    ada_room = await ada.join(bob_room.id)
    player = player_in(server, ada_room, ada)

    room.start()
    gate.shut()
    ada.cut()
    await kind.story.has("on_drop")
    await until_resumed(ada, gate.open)

    assert room.phase == "playing"
    assert kind.story.of("on_drop") == [("on_drop", ada.player_id)]
    assert player in room.players
    assert player.connected


async def hear_the_end(room: Any) -> None:
    assert [message async for message in room] == []


async def test_a_lobby_may_keep_dropped_players_too(world: World) -> None:
    kind = chat(keep_before_start=True)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await until_resumed(session, session.cut)

    assert room_of(server, room).phase == "lobby"
    assert [line[0] for line in kind.story.lines[2:]] == ["on_join", "on_drop", "on_rejoin"]


async def test_the_end_of_a_round_frees_the_seats_of_who_is_away_and_resets_who_is_there(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server, dial=gate), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    room = room_of(server, bob_room)
    players: dict[str, Player[Hero]] = {player.id: player for player in room.players}
    room.start()
    for player in players.values():
        player.data.hp = 1
    gate.shut()
    ada.cut()
    await kind.story.has("on_drop")

    room.end()
    outcome = await until_resumed(ada, gate.open)

    assert room.phase == "lobby"
    assert room.players == (players[bob.player_id],)
    assert players[bob.player_id].data.hp == 100
    assert kind.story.lines[-2:] == [("on_leave", ada.player_id, Reason.ROUND_ENDED), ("on_end",)]
    assert outcome.kind == "resumed"
    await hear_the_end(ada_room)
    assert ada_room.left is not None
    assert ada_room.left.reason == Reason.ROUND_ENDED


async def test_rounds_may_follow_each_other_however_players_come_and_go(world: World) -> None:
    """Boss Room's SessionManager fails in the second round of this story, and keeps lobby drops ever after."""
    kind = chat(keep_before_start=False)
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    room = room_of(server, bob_room)

    room.start()
    await until_resumed(ada, ada.cut)
    room.end()
    await until_resumed(ada, ada.cut)
    await hear_the_end(ada_room)
    room.start()
    room.end()
    await ada.join(bob_room.id)
    room.start()
    room.end()

    assert [line[0] for line in kind.story.lines].count("on_end") == 3
    assert sorted(player.id for player in room.players) == sorted([ada.player_id, bob.player_id])
    assert server.counters.turns_failed == 0


async def test_starting_a_round_twice_or_ending_none_does_nothing(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    room = await server.create_room("chat")

    room.end()
    room.start()
    room.start()
    room.end()
    room.end()

    assert kind.story.lines[2:] == [("on_start",), ("on_end",)]


class Stubborn(Hero):
    def reset(self) -> None:
        if self.hp == 13:
            raise ZeroDivisionError("a bug of the game")
        super().reset()


class Judged(Chat):
    data_type = Stubborn

    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        self.end()


async def test_a_reset_that_raises_does_not_keep_the_others_from_theirs(world: World) -> None:
    kind = chat(Judged)
    kind.data_type = Stubborn
    server = await world.serve(kind)
    sessions = [await world.connect(server) for _ in range(3)]
    rooms = [await session.join_or_create("chat") for session in sessions]
    room = room_of(server, rooms[0])
    room.start()
    for player, hp in zip(room.players, (1, 13, 2), strict=True):
        player.data.hp = hp

    await rooms[0].send(Say("end it"))
    await kind.story.has("on_end")

    assert [player.data.hp for player in room.players] == [100, 13, 100]
    assert server.counters.turns_failed == 1


# Kick, lock, seats


async def test_a_kicked_player_is_told_why_and_may_go_elsewhere(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    player_in(server, ada_room, ada).kick("no swearing")

    with pytest.raises(NotSeated, match="no swearing"):
        await ada_room.receive()
    assert ada_room.left is not None
    assert (ada_room.left.reason, ada_room.left.message) == (Reason.KICKED, "no swearing")
    assert kind.story.lines[-1] == ("on_leave", ada.player_id, Reason.KICKED)
    assert (ada.room, ada.connected, ada.drops) == (None, True, 0)
    await bob_room.send(Say("peace"))
    assert await texts_until(bob_room, "peace") == ["peace"]
    other = await server.create_room("chat")
    assert (await ada.join(other.id)).id == other.id


async def test_what_was_sent_before_a_kick_is_read_before_it(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)

    player.send(Said("room", "last warning"))
    player.kick("that was it")

    assert [message async for message in room] == [Said("room", "last warning")]


async def test_a_player_kicked_while_away_is_told_on_return(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)
    gate.shut()
    session.cut()
    await kind.story.has("on_drop")
    player.kick("away too long")

    outcome = await until_resumed(session, gate.open)

    assert outcome == Outcome("resumed", replayed=1)
    await hear_the_end(room)
    assert room.left is not None
    assert room.left.message == "away too long"


async def test_a_kick_with_too_many_words_is_shortened(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    player_in(server, ada_room, ada).kick("long " * 20_000)
    await hear_the_end(ada_room)
    await bob_room.send(Say("going on"))

    assert ada_room.left is not None
    assert ada_room.left.message.startswith("long long")
    assert len(ada_room.left.message) <= TEXT_CHARS_MAX
    assert await texts_until(bob_room, "going on") == ["going on"]
    assert ada.drops == 0


async def test_a_locked_room_takes_nobody_new_but_lets_its_players_return(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room = await ada.join_or_create("chat")
    room = room_of(server, ada_room)
    room.lock()

    with pytest.raises(RoomLocked):
        await bob.join(room.id)
    found = await bob.search("chat")
    elsewhere = await bob.join_or_create("chat")
    outcome = await until_resumed(ada, ada.cut)
    room.unlock()
    carol = await world.connect(server)
    await carol.join(room.id)

    assert found == []
    assert elsewhere.id != room.id
    assert outcome.kind == "resumed"
    assert [player.id for player in room.players] == [ada.player_id, carol.player_id]


async def test_a_stranger_cannot_take_the_seat_that_is_held_for_a_dropped_player(world: World) -> None:
    kind = chat(max_players=1)
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server, dial=gate), await world.connect(server)
    room = await ada.join_or_create("chat")
    gate.shut()
    ada.cut()
    await kind.story.has("on_drop")

    with pytest.raises(RoomFull):
        await bob.join(room.id)
    found = await bob.search("chat")
    outcome = await until_resumed(ada, gate.open)

    assert found == []
    assert outcome.kind == "resumed"
    assert [player.id for player in room_of(server, room).players] == [ada.player_id]


async def test_a_seat_is_free_again_when_the_grace_ends(world: World) -> None:
    kind = chat(max_players=1, grace_s=0.1)
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server, dial=gate), await world.connect(server)
    room = await ada.join_or_create("chat")
    gate.shut()
    ada.cut()
    await kind.story.has("on_leave")

    await bob.join(room.id)

    assert [player.id for player in room_of(server, room).players] == [bob.player_id]


# The same player again


async def same_player(world: World, server: Server, session: ClientSession) -> ClientSession:
    """The same player in another window: proven by the credential, with a session of its own."""
    return await world.connect(server, auth=Auth("guest", session.credential))


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
    assert [line[0] for line in kind.story.lines[3:]] == ["on_drop", "on_rejoin", "on_resync"]
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
    assert [line[0] for line in kind.story.lines[3:]] == ["on_drop", "on_rejoin", "on_resync"]


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


# The end of a room


async def test_a_room_ends_with_its_last_player_when_it_may_not_stay_empty(world: World) -> None:
    kind = chat(empty_ttl_s=0.0)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.leave()
    await kind.story.has("on_destroyed")

    assert [line[0] for line in kind.story.lines[2:]] == ["on_join", "on_leave", "on_destroy", "on_destroyed"]
    assert len(server.rooms) == 0


async def test_an_empty_room_waits_for_its_time_and_then_ends(world: World) -> None:
    kind = chat(empty_ttl_s=0.2)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.leave()
    assert len(server.rooms) == 1
    await kind.story.has("on_destroyed")

    (left_at,), (ended_at,) = kind.story.when("on_leave"), kind.story.when("on_destroyed")
    assert ended_at - left_at >= 0.2 - CLOCK_S


async def test_a_room_that_is_joined_again_in_time_does_not_end(world: World) -> None:
    kind = chat(empty_ttl_s=0.1)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    await room.leave()
    again = await session.join(room.id)
    server_room = room_of(server, again)
    assert isinstance(server_room, Chat)

    server_room.after(0.2, server_room.announce, "much later")

    await hear(again, "much later")
    assert kind.story.of("on_destroy") == []


async def test_a_seat_that_is_held_keeps_the_room(world: World) -> None:
    kind = chat(empty_ttl_s=0.0, grace_s=0.2)
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    await session.join_or_create("chat")
    gate.shut()
    session.cut()

    await kind.story.has("on_destroyed")

    (dropped_at,), (ended_at,) = kind.story.when("on_drop"), kind.story.when("on_destroyed")
    assert ended_at - dropped_at >= 0.2 - CLOCK_S


async def test_a_room_nobody_ever_joined_ends_too(world: World) -> None:
    kind = chat(empty_ttl_s=0.0)
    server = await world.serve(kind, limits=Limits(unjoined_s=0.2))

    await server.create_room("chat")
    await kind.story.has("on_destroyed")

    (created_at,), (ended_at,) = kind.story.when("on_created"), kind.story.when("on_destroyed")
    assert ended_at - created_at >= 0.2 - CLOCK_S
    assert len(server.rooms) == 0


class Members(Chat):
    """Lets in who has the password, which here is to have signed in first."""

    async def admit(self, player: Player[Hero]) -> None:
        self.story.tell("admit", player.id)
        await asyncio.sleep(0)
        if player.id != self.properties["owner"]:
            raise Refused("members only")


async def test_a_stranger_who_is_refused_does_not_end_a_room_that_waits_for_its_first_player(world: World) -> None:
    kind = chat(Members, empty_ttl_s=0.0)
    server = await world.serve(kind)
    owner, stranger = await world.connect(server), await world.connect(server)
    room = await server.create_room("chat", properties={"owner": owner.player_id})

    with pytest.raises(Refused):
        await stranger.join(room.id)
    await stranger.search()

    assert (await owner.join(room.id)).id == room.id


async def test_a_room_does_not_end_under_a_player_it_is_about_to_admit(world: World) -> None:
    decided = asyncio.Event()

    class Deciding(Chat):
        async def admit(self, player: Player[Hero]) -> None:
            self.story.tell("admit")
            await decided.wait()

    kind = chat(Deciding)
    server = await world.serve(kind, limits=Limits(unjoined_s=0.1))
    session = await world.connect(server)
    room = await server.create_room("chat")
    joining = asyncio.create_task(session.join(room.id))
    await kind.story.has("admit")

    asyncio.get_running_loop().call_later(0.2, decided.set)

    assert (await joining).id == room.id


async def test_a_room_that_closes_tells_everybody_and_their_sessions_live_on(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server), await world.connect(server, dial=gate)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    gate.shut()
    bob.cut()
    await kind.story.has("on_drop")

    room_of(server, ada_room).close()
    await until_resumed(bob, gate.open)

    for session, room in ((ada, ada_room), (bob, bob_room)):
        await hear_the_end(room)
        assert room.left is not None
        assert room.left.reason == Reason.ROOM_CLOSED
        assert ("on_leave", session.player_id, Reason.ROOM_CLOSED) in kind.story.lines
        assert await session.search() == []
    assert [line[0] for line in kind.story.lines[-2:]] == ["on_destroy", "on_destroyed"]
    assert len(server.rooms) == 0


class Fuse(Chat):
    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        super().said(player, say)
        self.close()
        self.close()
        self.story.tell("said it")


async def test_a_room_that_closes_itself_finishes_its_turn_first_and_closes_once(world: World) -> None:
    kind = chat(Fuse)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Say("the last word"))

    assert [message async for message in room] == [Said(session.player_id, "the last word")]
    assert [line[0] for line in kind.story.lines[3:]] == ["said", "said it", "on_leave", "on_destroy", "on_destroyed"]


# What the server may do to a session


async def test_a_session_that_is_disconnected_comes_back_by_itself(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    outcome = await until_resumed(session, lambda: server_side(server, session).disconnect("try the other door"))

    assert outcome.kind == "resumed"
    assert [line[0] for line in kind.story.lines[3:]] == ["on_drop", "on_rejoin"]
    await room.send(Say("back"))
    assert await texts_until(room, "back") == ["back"]


async def test_a_disconnected_client_is_told_why(world: World) -> None:
    server = await world.serve(chat())
    client = await world.raw(server)
    welcome = await client.sign_in()
    session = server.sessions.get(welcome.session)
    assert session is not None

    session.disconnect("try the other door")
    close = await client.closed()

    assert (close.code, close.reason, close.message) == (
        CLOSE_CODES[Reason.DISCONNECTED],
        Reason.DISCONNECTED,
        "try the other door",
    )
    session.disconnect("nobody is there any more")
    assert session.status == "disconnected"


async def test_a_session_that_is_ended_frees_the_seat_and_does_not_come_back(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    state = session.save()
    ended_session = server_side(server, session)

    ended_session.end("banned")
    await hear_the_end(room)

    assert room.left is not None
    assert (room.left.reason, room.left.message) == (Reason.KICKED, "banned")
    with pytest.raises(SessionEnded, match="banned") as ended:
        await session.search()
    assert ended.value.reason == Reason.KICKED
    assert ended_session.status == "ended"
    assert kind.story.lines[-1] == ("on_leave", session.player_id, Reason.KICKED)
    assert len(server.sessions) == 0
    again = await world.connect(server, resume=state)
    assert again.outcome == Outcome("reset", reason=Reason.EXPIRED)
    ended_session.end("twice")
    assert server.counters.sessions_ended == 1


@pytest.mark.parametrize("command", ["disconnect", "end"])
async def test_a_reason_with_too_many_words_is_shortened(world: World, command: str) -> None:
    server = await world.serve(chat())
    client = await world.raw(server)
    welcome = await client.sign_in()
    session = server.sessions.get(welcome.session)

    getattr(session, command)("long " * 20_000)
    close = await client.closed()

    assert close.message.startswith("long long")
    assert len(close.message) <= TEXT_CHARS_MAX


async def test_the_sessions_own_callback_runs_before_the_room_hears_of_a_drop(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    def on_disconnect(lost: Session) -> None:
        assert lost.room is room_of(server, room)
        kind.story.tell("on_disconnect", lost.status)

    server_side(server, session).on_disconnect = on_disconnect
    await until_resumed(session, session.cut)

    assert kind.story.lines[3:5] == [("on_disconnect", "disconnected"), ("on_drop", session.player_id)]


async def test_a_callback_that_raises_does_not_keep_the_room_from_hearing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    await session.join_or_create("chat")

    def on_disconnect(lost: Session) -> None:
        raise ZeroDivisionError("a bug of the game")

    server_side(server, session).on_disconnect = on_disconnect
    await until_resumed(session, session.cut)

    assert [line[0] for line in kind.story.lines[3:]] == ["on_drop", "on_rejoin"]
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert session.id in record.getMessage()


async def test_a_callback_may_end_the_session(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    session = await world.connect(server)
    await session.join_or_create("chat")

    server_side(server, session).on_disconnect = lambda lost: lost.end("one chance only")
    outcome = await until_resumed(session, session.cut)

    assert outcome.kind == "reset"
    assert [line[0] for line in kind.story.lines[3:]] == ["on_leave"]
    assert server.counters.internal_errors == 0


async def test_no_member_is_left_however_players_go(world: World) -> None:
    kind = chat(grace_s=0.1, max_players=6)
    server = await world.serve(kind)
    gate = Gate()
    sessions = [await world.connect(server, dial=gate) for _ in range(6)]
    rooms = [await session.join_or_create("chat") for session in sessions]
    room = room_of(server, rooms[0])
    gate.shut()

    await rooms[0].leave()
    await sessions[1].close()
    sessions[2].cut()
    await sessions[3].suspend()
    player_in(server, rooms[4], sessions[4]).kick()
    server_side(server, sessions[5]).end()
    await kind.story.has("on_leave", times=6)

    assert (room.players, room.seats_used) == ((), 0)
    assert {line[1]: line[2] for line in kind.story.of("on_leave")} == {
        sessions[0].player_id: Reason.LEFT,
        sessions[1].player_id: Reason.LEFT,
        sessions[2].player_id: Reason.GRACE_ENDED,
        sessions[3].player_id: Reason.GRACE_ENDED,
        sessions[4].player_id: Reason.KICKED,
        sessions[5].player_id: Reason.KICKED,
    }
    assert {session.player_id for session in server.sessions} == {sessions[0].player_id, sessions[4].player_id}
    assert all(session.room is None for session in server.sessions)
