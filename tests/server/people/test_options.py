"""What players join a room with: declared by the room, checked at the door, kept with the seat."""

import asyncio
from typing import Any, ClassVar

import msgspec
import pytest

from holdfast import Limits, Player, PlayerData, Queue, Reason, Refused, Room, RoomAgent, Server
from holdfast.core.errors import Invalid
from holdfast.schemas.requests import PlacedPlayer, Reserve
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.durability.bench import a_moment, in_virtual_time, until


class Loadout(msgspec.Struct):
    weapon: str = "sword"
    level: int = 1


class Ticket(msgspec.Struct, frozen=True):
    number: int


class Arena(Room[PlayerData]):
    kind = "arena"
    grace_s = 60.0
    join_options: ClassVar[type[msgspec.Struct] | None] = Loadout
    story: ClassVar[list[Any]]

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = {}

    def admit(self, player: Player[PlayerData]) -> None:
        self.story.append(("admit", player.id, player.options))
        if isinstance(player.options, Loadout) and player.options.level > 50:
            raise Refused("too strong")

    def on_join(self, player: Player[PlayerData]) -> None:
        self.story.append(("join", player.id, player.options))

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
        self.story.append(("leave", player.id, player.options))


def arena(**settings: Any) -> type[Arena]:
    return type("Arena", (Arena,), {"kind": "arena", "story": [], **settings})


def theatre(**settings: Any) -> type[Arena]:
    return arena(kind="theatre", join_options=Ticket, **settings)


def options_in(server: Server) -> dict[str, Any]:
    """By player id, what everybody in the only room joined with."""
    (room,) = server.rooms
    return {player.id: player.options for player in room.players}


@in_virtual_time
async def test_options_reach_admit_and_on_join_however_a_player_comes_in() -> None:
    kind = arena()
    async with MemoryServer([kind]) as server:
        ada, bob, eve = [await server.connect(name) for name in ("ada", "bob", "eve")]
        room = await ada.join_or_create("arena", options={"weapon": "bow", "level": 7})
        await bob.join(room.id, options=Loadout("axe"))
        await eve.join(room.id)
        await server.open_agent("npc").join(room.id, options={"weapon": "claw"})
        expected = {"ada": Loadout("bow", 7), "bob": Loadout("axe"), "eve": Loadout(), "npc": Loadout("claw")}

        assert {player.rpartition(":")[2]: options for player, options in options_in(server).items()} == expected
        assert kind.story[:2] == [("admit", "ada", Loadout("bow", 7)), ("join", "ada", Loadout("bow", 7))]


@in_virtual_time
async def test_wrong_options_are_refused_before_the_game_is_asked_and_leave_nothing_behind() -> None:
    kind = arena(max_players=1)
    async with MemoryServer([kind], limits=Limits(options_bytes_max=100)) as server:
        ada = await server.connect("ada")
        room = await server.create_room("arena")
        for wrong, said in (
            ({"level": "high"}, r"Expected `int`, got `str` - at `\$\.level`"),
            ({"weapon": "x" * 100}, "bytes are more than the 100"),
            (["bow"], "Expected `object`"),
        ):
            with pytest.raises(Invalid, match=said):
                await ada.join(room.id, options=wrong)  # type: ignore[arg-type]
            with pytest.raises(Invalid, match=said):
                await ada.join_or_create("arena", where="players > 5", options=wrong)  # type: ignore[arg-type]

        assert kind.story == []
        assert len(server.rooms) == 1, "no room is created for a player who cannot join it"
        with pytest.raises(Refused, match="too strong"):
            await ada.join(room.id, options={"level": 99})
        await ada.join(room.id, options={"level": 9})
        assert options_in(server) == {"ada": Loadout(level=9)}


@in_virtual_time
async def test_a_room_that_asks_for_nothing_takes_no_options() -> None:
    async with MemoryServer([arena(join_options=None)]) as server:
        ada = await server.connect("ada")
        with pytest.raises(Invalid, match="'arena' take none"):
            await ada.join_or_create("arena", options={})
        await ada.join_or_create("arena")

        assert options_in(server) == {"ada": None}


@in_virtual_time
async def test_a_room_that_needs_options_says_so() -> None:
    async with MemoryServer([theatre()]) as server:
        ada = await server.connect("ada")
        room = await server.create_room("theatre")
        for joining in (ada.join(room.id), ada.join_or_create("theatre")):
            with pytest.raises(Invalid, match=r"rooms of the kind 'theatre' need some to join with.*`number`"):
                await joining
        await ada.join(room.id, options=Ticket(7))

        assert len(server.rooms) == 1
        assert options_in(server) == {"ada": Ticket(7)}


@in_virtual_time
async def test_a_player_who_comes_back_has_the_options_of_the_seat() -> None:
    async with MemoryServer([theatre()]) as server:
        ada = await server.connect("ada")
        room = await ada.join_or_create("theatre", options={"number": 7})
        ada.cut()
        await until(lambda: ada.connected and ada.drops == 1)
        assert options_in(server) == {"ada": Ticket(7)}

        second = await server.connect("ada")
        await second.join(room.id, options={"number": 8})
        assert options_in(server) == {"ada": Ticket(7)}

        await (await server.connect("ada")).rejoin()
        assert options_in(server) == {"ada": Ticket(7)}


@in_virtual_time
async def test_an_agent_of_the_room_joins_with_options_or_says_that_it_needs_some() -> None:
    async def idle(agent: RoomAgent[PlayerData]) -> None:
        await asyncio.Event().wait()

    class Crew(Arena):
        kind = "crew"
        join_options = Ticket
        story: ClassVar[list[Any]] = []

        def on_create(self, config: dict[str, Any]) -> None:
            self.open_agent("bot", idle, options={"number": 3})
            try:
                self.open_agent("other", idle)
            except Invalid as error:
                self.story.append(str(error))

    async with MemoryServer([Crew]) as server:
        await server.create_room("crew")
        await a_moment()

        assert options_in(server) == {"agent:bot": Ticket(3)}
        assert "missing required field `number`" in Crew.story[0]


# Reservations


@in_virtual_time
async def test_a_reservation_keeps_options_for_players_who_say_nothing() -> None:
    async with MemoryServer([theatre()]) as server:
        ada, bob, eve = [await server.connect(name) for name in ("ada", "bob", "eve")]
        room = await ada.join_or_create("theatre", options={"number": 1})
        await ada.reserve(room.id, players=["bob", "eve"], options={"number": 5})
        with pytest.raises(Invalid, match="Expected `int`"):
            await ada.reserve(room.id, players=["zoe"], options={"number": "x"})
        await bob.join_or_create("theatre")
        await eve.join(room.id, options=Ticket(6))

        assert options_in(server) == {"ada": Ticket(1), "bob": Ticket(5), "eve": Ticket(6)}


@in_virtual_time
async def test_nobody_else_changes_what_a_player_has_reserved_to_join_with() -> None:
    async with MemoryServer([theatre()]) as server:
        ada, bob, eve = [await server.connect(name) for name in ("ada", "bob", "eve")]
        room = await ada.join_or_create("theatre", options={"number": 1})
        await eve.join(room.id, options={"number": 2})
        await ada.reserve(room.id, players=["bob"], options={"number": 5})
        await eve.reserve(room.id, players=["bob"], options={"number": 6})
        await server.operate.rooms.reserve(Reserve(room.id, players=["zoe"], options={"number": 9}))
        await ada.reserve(room.id, players=["bob"])
        await bob.join(room.id)
        zoe = await server.connect("zoe")
        await zoe.join(room.id)

        assert options_in(server)["bob"] == Ticket(5)
        assert options_in(server)["zoe"] == Ticket(9)


@in_virtual_time
async def test_a_placement_has_options_for_each_player() -> None:
    async with MemoryServer([theatre()], queues=[Queue("anywhere", ("*",))]) as server:
        ada, bob = await server.connect("ada"), await server.connect("bob")
        party = [PlacedPlayer("ada", options={"number": 1}), PlacedPlayer("bob", options=Ticket(2))]
        wrong = [PlacedPlayer("ada", options={"number": "x"})]

        refused = await (await ada.place("anywhere", "theatre", players=wrong)).done()
        placed = await (await ada.place("anywhere", "theatre", players=party)).done()
        assert placed.room is not None
        await ada.join(placed.room.id)
        await bob.join(placed.room.id)

        assert (refused.status, placed.status) == ("failed", "fulfilled")
        assert "Expected `int`" in refused.reason
        assert options_in(server) == {"ada": Ticket(1), "bob": Ticket(2)}


@in_virtual_time
async def test_a_player_on_the_waitlist_joins_with_their_options() -> None:
    async with MemoryServer([theatre(max_players=1, waiting_max=4)]) as server:
        ada, bob = await server.connect("ada"), await server.connect("bob")
        room = await ada.join_or_create("theatre", options={"number": 1})
        waiting = asyncio.create_task(bob.wait_for_seat(room.id, options={"number": 2}))
        await a_moment()
        await room.leave()
        await waiting

        assert options_in(server) == {"bob": Ticket(2)}


# After a crash


@pytest.mark.parametrize("durability", ["commit", "checkpoint"])
def test_options_survive_a_crash_with_seats_and_reservations(durability: str) -> None:
    @in_virtual_time
    async def play() -> None:
        kind = theatre(durability=durability, checkpoint_s=1.0, reservation_s=600.0)
        async with MemoryServer([kind], store=FaultyStore()) as server:
            ada, bob = await server.connect("ada"), await server.connect("bob")
            room = await ada.join_or_create("theatre", options={"number": 1})
            await ada.reserve(room.id, players=["bob"], options={"number": 5})
            await a_moment(5.0)

            server.crash()
            await server.start()
            await until(lambda: ada.connected and bob.connected)
            await bob.join(room.id)

            assert options_in(server) == {"ada": Ticket(1), "bob": Ticket(5)}
            assert kind.story[-1] == ("join", "bob", Ticket(5))

    play()


async def a_crash(kind: type[Arena], store: FaultyStore, options: Any) -> None:
    """A player takes a seat with these options, and the server dies."""
    server = MemoryServer([kind], store=store)
    await server.start()
    ada = await server.connect("ada")
    await ada.join_or_create(kind.kind, options=options)
    await a_moment()
    server.crash()
    await ada.close()


@in_virtual_time
async def test_a_room_whose_declaration_has_changed_says_why_it_cannot_come_back() -> None:
    store = FaultyStore()
    await a_crash(theatre(durability="commit"), store, {"number": 1})

    class Other(msgspec.Struct):
        number: str

    async with MemoryServer([arena(kind="theatre", join_options=Other, durability="commit")], store=store) as server:
        assert len(server.rooms) == 0
        recovery = server.parts.recovery
        assert recovery is not None
        why = [why for key, why in recovery.set_aside.items() if key.startswith("room/")]

    assert why == ["a player's options: Expected `str`, got `int` - at `$.number`"]


@pytest.mark.parametrize("now", [None, Loadout], ids=["none", "with defaults"])
def test_a_room_that_declares_others_or_none_since_is_restored_as_far_as_it_can(now: Any) -> None:
    @in_virtual_time
    async def play() -> None:
        store = FaultyStore()
        before = Ticket if now is None else None
        await a_crash(arena(join_options=before, durability="commit"), store, {"number": 1} if before else None)

        async with MemoryServer([arena(join_options=now, durability="commit")], store=store) as server:
            assert options_in(server) == {"ada": None if now is None else Loadout()}

    play()


@in_virtual_time
async def test_options_that_the_game_has_changed_are_saved_so() -> None:
    async with MemoryServer([arena(durability="commit")], store=FaultyStore()) as server:
        ada = await server.connect("ada")
        room = await ada.join_or_create("arena")
        runner = server.rooms.runner(room.id)

        def level_up() -> None:
            runner.room.players[0].options.level = 5

        await server.machine.do(runner.call(level_up))
        await a_moment()
        server.crash()
        await server.start()

        assert options_in(server) == {"ada": Loadout(level=5)}


@in_virtual_time
async def test_options_that_could_not_be_read_again_are_named_and_not_saved(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryServer([arena(durability="commit")], store=FaultyStore(), allow_errors=Exception) as server:
        ada = await server.connect("ada")
        room = await ada.join_or_create("arena")
        runner = server.rooms.runner(room.id)

        def spoil(level: Any) -> None:
            runner.room.players[0].options.level = level

        await server.machine.do(runner.call(spoil, "high"))
        await a_moment()
        assert "player('ada').options.level" in caplog.text
        await server.machine.do(runner.call(spoil, 3))
        await a_moment()
        server.crash()
        await server.start()

        assert options_in(server) == {"ada": Loadout(level=3)}


# What a room may declare


class Pair(msgspec.Struct, array_like=True):
    number: int


class Strange(msgspec.Struct):
    room: Room[PlayerData]


@pytest.mark.parametrize("wrong", [5, dict, PlayerData(), Pair, Strange], ids=repr)
def test_a_declaration_that_no_player_could_join_with_is_refused_at_the_start(wrong: Any) -> None:
    with pytest.raises(ValueError, match="join_options must be a msgspec"):
        Server([arena(join_options=wrong)], listen=[])


@in_virtual_time
async def test_operators_see_what_players_joined_with_and_what_they_may_join_with() -> None:
    async with MemoryServer([arena()]) as server:
        ada = await server.connect("ada")
        room = await ada.join_or_create("arena", options={"weapon": "bow"})

        assert [each.options for each in server.operate.rooms.state(room.id).players] == [{"weapon": "bow", "level": 1}]
        (kind,) = server.operate.node.kinds()
        assert kind.options is not None
        assert kind.options["$defs"]["Loadout"]["properties"]["level"] == {"type": "integer", "default": 1}


@in_virtual_time
async def test_a_spectator_who_is_given_a_seat_joins_with_checked_options() -> None:
    kind = theatre(max_spectators=3)
    async with MemoryServer([kind]) as server:
        ada, bob, eve = [await server.connect(name) for name in ("ada", "bob", "eve")]
        seat = await ada.join_or_create("theatre", options=Ticket(1))
        await bob.spectate(seat.id)
        await eve.spectate(seat.id)
        await ada.reserve(seat.id, players=["eve"], options=Ticket(3))
        room = server.rooms.get(seat.id)
        assert room is not None
        before, reserved = room.spectators

        with pytest.raises(Invalid, match="options: rooms of the kind 'theatre' need some"):
            room.promote(before)
        with pytest.raises(Invalid, match="options: Expected `int`, got `str`"):
            room.promote(before, options={"number": "two"})
        room.promote(before, options={"number": 2})
        room.promote(reserved)

        assert options_in(server) == {"ada": Ticket(1), "bob": Ticket(2), "eve": Ticket(3)}
        assert room.spectators == ()
