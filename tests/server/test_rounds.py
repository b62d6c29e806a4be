from holdfast import Player, Reason, on
from tests.server.world import Chat, Gate, Hero, Say, World, chat, hear_the_end, player_in, room_of, until_resumed


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


async def test_players_who_are_away_at_the_end_of_a_round_stay_if_the_room_keeps_them(world: World) -> None:
    kind = chat(keep_after_end=True, keep_before_start=False)
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server, dial=gate), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    room = room_of(server, bob_room)
    player = player_in(server, ada_room, ada)
    room.start()
    for each in room.players:
        each.data.hp = 1
    gate.shut()
    ada.cut()
    await kind.story.has("on_drop")

    room.end()
    room.start()
    await until_resumed(ada, gate.open)

    assert kind.story.of("on_leave") == []
    assert [each.data.hp for each in room.players] == [100, 100]
    assert player in room.players
    assert player.connected
    assert ada_room.left is None


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
    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        self.end()


async def test_a_reset_that_raises_does_not_keep_the_others_from_theirs(world: World) -> None:
    kind = chat(Judged)
    kind._holdfast_data_type = Stubborn  # noqa: SLF001 - what `Room[Stubborn]` would do
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
