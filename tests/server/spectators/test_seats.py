"""Spectators who get a seat: the game gives them one, or they join."""

import asyncio
from typing import Any, ClassVar

import pytest

from holdfast import (
    AlreadySeated,
    Limits,
    MessageRefused,
    Player,
    PlayerData,
    Reason,
    SeatLeft,
    on,
)
from holdfast.core.room import context_of
from tests.server.durability.bench import a_moment, in_virtual_time, until
from tests.server.spectators.stage import Cheer, Do, Said, Say, Stage, heard, stage, theatre


@in_virtual_time
async def test_a_spectator_who_joins_hears_everything_once_first_there_then_here() -> None:
    async with theatre() as play:
        bob, watched = await play.watch("bob")
        await play.say(Say("one"))

        seat = await bob.join(play.seat.id)
        await play.say(Say("two"))

        assert await heard(seat, "two") == ["bob sits", "two"]
        assert [each.text for each in watched.poll() if isinstance(each, Said)] == ["welcome bob", "one"]
        assert watched.left == SeatLeft(Reason.SEATED)
        assert (bob.room, bob.spectating) == (seat, None)
        assert play.room.story[1:] == ["spectate bob", "unspectate bob seated", "join bob here"]


class Dawdling(Stage):
    """Takes its time over what players say."""

    door: ClassVar[asyncio.Event]

    @on(Say)
    async def said(self, player: Player[PlayerData], say: Say) -> None:
        await self.door.wait()
        self.broadcast(Said(say.text))


@in_virtual_time
async def test_what_a_spectator_sent_before_joining_arrives() -> None:
    door = asyncio.Event()
    async with theatre(type("Dawdling", (Dawdling,), {"kind": "stage", "door": door})) as play:
        bob, watched = await play.watch("bob")
        await play.seat.send(Say("slow"))
        await a_moment()

        await watched.send(Cheer("bravo"))
        joining = asyncio.ensure_future(bob.join(play.seat.id))
        await a_moment()
        door.set()
        await joining

        assert await heard(play.seat, "bob sits") == ["ada sits", "slow", "Spectator bob: bravo", "bob sits"]


@in_virtual_time
async def test_a_room_gives_a_spectator_a_seat() -> None:
    async with theatre() as play:
        bob, watched = await play.watch("bob")

        await play.say(Do("shut"), Do("raise_up", "bob"), Say("on"))
        await until(lambda: watched.left is not None)

        seat = bob.room
        assert seat is not None
        assert (watched.left, bob.spectating) == (SeatLeft(Reason.SEATED), None)
        assert await heard(seat, "on") == ["bob sits", "on"]
        assert seat.info is not None
        assert (seat.info.players, seat.info.spectators, seat.info.code) == (2, 0, context_of(play.room).listing.code)
        await seat.send(Say("mine"))
        assert await heard(play.seat, "mine") == ["ada sits", "bob sits", "on", "mine"]
        assert play.room.story[1:] == ["spectate bob", "promoted bob", "unspectate bob seated", "join bob here"]


@in_virtual_time
async def test_a_spectator_who_is_away_is_given_a_seat_that_is_held_for_them() -> None:
    async with theatre() as play:
        bob, watched = await play.watch("bob")
        await heard(watched, "welcome bob")
        play.server.dialer(bob).is_down = True
        play.server.link(bob).cut()

        await play.say(Say("one"), Do("raise_up", "bob"), Say("two"))
        is_connected = play.room.players[1].connected
        play.server.dialer(bob).is_down = False
        await until(lambda: watched.left is not None)

        seat = bob.room
        assert seat is not None
        assert not is_connected
        assert [each.text for each in watched.poll() if isinstance(each, Said)] == ["one"]
        assert await heard(seat, "two") == ["bob sits", "two"]
        assert bob.outcome is not None
        assert bob.outcome.kind == "resumed"
        assert play.room.story[-3:] == ["unspectate bob seated", "join bob away", "rejoin bob"]
        assert play.room.players[1].connected


@in_virtual_time
async def test_a_seat_of_a_spectator_who_does_not_come_back_is_freed_when_the_grace_ends() -> None:
    async with theatre(stage(grace_s=10.0)) as play:
        bob, _ = await play.watch("bob")
        play.server.dialer(bob).is_down = True
        play.server.link(bob).cut()
        await a_moment(8.0)

        await play.say(Do("raise_up", "bob"))
        await a_moment(3.0)

        assert [player.id for player in play.room.players] == ["ada"]
        assert play.room.story[-1] == "leave bob grace_ended"


@pytest.mark.parametrize("is_transactional", [False, True])
@in_virtual_time
async def test_a_spectator_who_is_given_a_seat_while_they_ask_for_one_has_that_one(is_transactional: bool) -> None:
    door = asyncio.Event()

    class Generous(Stage):
        kind = "stage"
        transactional = is_transactional

        @on(Say)
        async def said(self, player: Player[PlayerData], say: Say) -> None:
            await door.wait()
            self.raise_up("bob")

    async with theatre(Generous) as play:
        bob, watched = await play.watch("bob")
        await play.seat.send(Say("slow"))
        joining = asyncio.ensure_future(bob.join(play.seat.id))
        await a_moment()

        door.set()

        with pytest.raises(AlreadySeated):
            await joining
        assert bob.room is not None
        assert (bob.room.left, bob.drops, watched.left) == (None, 0, SeatLeft(Reason.SEATED))
        assert play.room.players[1].session.id == bob.id


@in_virtual_time
async def test_what_a_turn_gives_to_somebody_who_leaves_before_it_promotes_them_is_nobodys() -> None:
    door = asyncio.Event()

    class Generous(Stage):
        kind = "stage"
        transactional = True

        @on(Say)
        async def said(self, player: Player[PlayerData], say: Say) -> None:
            self.own(self.promote(self.watching("bob")), "the crown")
            await door.wait()

    async with theatre(Generous) as play:
        bob, _ = await play.watch("bob")
        await play.seat.send(Say("slow"))
        await a_moment()

        await bob.close()
        door.set()
        await play.seat.flush()

        assert [player.id for player in play.room.players] == ["ada"]
        assert dict(play.room.objects) == {}


@pytest.mark.parametrize(
    ("settings", "what", "code"),
    [
        ({"max_players": 1}, "raise_up", "room_full"),
        ({}, "raise_gone", "not_found"),
    ],
)
@in_virtual_time
async def test_a_seat_that_there_is_not_is_refused(settings: dict[str, Any], what: str, code: str) -> None:
    async with theatre(stage(**settings)) as play:
        bob, _ = await play.watch("bob")

        await play.say(Do(what, "bob"))

        refused = [each for each in play.seat.poll() if isinstance(each, MessageRefused)]
        assert [each.code for each in refused] == [code]
        assert bob.room is None


@in_virtual_time
async def test_a_spectator_whose_session_has_ended_is_given_no_seat_though_the_room_has_not_heard_of_it() -> None:
    door = asyncio.Event()
    async with theatre(type("Dawdling", (Dawdling,), {"kind": "stage", "door": door})) as play:
        bob, _ = await play.watch("bob")
        await play.seat.send(Say("slow"))
        await play.seat.send(Do("raise_up", "bob"))
        await a_moment()

        await bob.close()
        door.set()
        await play.seat.flush()
        await a_moment()

        refused = [each for each in play.seat.poll() if isinstance(each, MessageRefused)]
        assert [each.code for each in refused] == ["not_found"]
        assert [player.id for player in play.room.players] == ["ada"]
        assert play.room.story[-1] == "unspectate bob left"


@in_virtual_time
async def test_a_spectator_with_a_seat_elsewhere_cannot_be_given_one() -> None:
    async with theatre(Stage, stage(kind="other")) as play:
        bob, watched = await play.watch("bob")
        seat = await bob.join_or_create("other")

        await play.say(Do("raise_up", "bob"))

        refused = [each for each in play.seat.poll() if isinstance(each, MessageRefused)]
        assert [each.code for each in refused] == ["already_seated"]
        assert (bob.room, bob.spectating) == (seat, watched)


@in_virtual_time
async def test_a_seat_that_the_game_takes_back_at_once_is_gone_for_the_client_too() -> None:
    async with theatre() as play:
        (bob, watched), (rude, place) = await play.watch("bob"), await play.watch("rude")

        await play.say(Do("raise_and_kick", "bob"), Do("raise_up", "rude"))
        await until(lambda: watched.left is not None and place.left is not None)
        await a_moment()

        assert (bob.room, rude.room) == (None, None)
        assert [player.id for player in play.room.players] == ["ada"]
        assert play.room.story[-2:] == ["join rude here", "leave rude join_failed"]


@in_virtual_time
async def test_a_spectator_with_a_reserved_seat_is_given_that_one() -> None:
    async with theatre(stage(max_players=2)) as play:
        _, watched = await play.watch("bob")
        await play.ada.reserve(play.seat.id, players="bob")

        await play.say(Do("raise_up", "bob"))
        await until(lambda: watched.left is not None)

        shown = (await play.ada.search("stage", where=""))[0]
        assert (shown.players, shown.open_seats) == (2, 0)


class Shouting(Stage):
    """Says more than may be kept to whoever comes back for the first time."""

    kind = "shouting"
    has_shouted = False

    def on_rejoin(self, player: Player[PlayerData]) -> None:
        for _ in range(0 if self.has_shouted else 200):
            player.send(Said("welcome back"))
        self.has_shouted = True


@in_virtual_time
async def test_a_spectator_who_missed_something_is_shown_the_state_also_if_their_seat_costs_them_the_connection() -> (
    None
):
    limits = Limits(window_messages_max=8, kept_messages_max=16)
    async with theatre(Stage, Shouting, limits=limits) as play:
        bob, watched = await play.watch("bob")
        await bob.join_or_create("shouting")
        await heard(watched, "welcome bob")
        play.server.dialer(bob).is_down = True
        play.server.link(bob).cut()
        reading = asyncio.ensure_future(heard(play.seat, "49"))
        for number in range(50):
            await play.say(Say(str(number)))
        await reading

        play.server.dialer(bob).is_down = False
        await until(lambda: bob.drops == 2 and bob.connected)
        await a_moment()
        await play.say(Say("on"))

        assert await heard(watched, "on") == ["the state", "on"]
