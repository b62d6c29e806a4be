"""Spectators come, drop, return and leave."""

import asyncio
from typing import Any, ClassVar

import pytest

from holdfast import (
    AlreadySeated,
    AlreadySpectating,
    Duplicate,
    Failed,
    Limits,
    NotAllowed,
    NotFound,
    NotSeated,
    Player,
    PlayerData,
    Reason,
    Refused,
    Resynced,
    RoomFull,
    RoomUpdated,
    SeatLeft,
    SessionEnded,
    WrongPassword,
    on,
)
from holdfast.events import PlayerJoined, Renamed, SpectatorJoined, SpectatorLeft
from holdfast.schemas.requests import Unspectate
from tests.server.durability.bench import a_moment, in_virtual_time, until
from tests.server.spectators.stage import Cheer, Do, Said, Say, Stage, heard, stage, theatre

# Coming


@in_virtual_time
async def test_a_session_watches_one_room_at_a_time() -> None:
    async with theatre(Stage, stage(kind="other")) as play:
        other = await (await play.connect("eve")).join_or_create("other")
        bob, watched = await play.watch("bob")

        with pytest.raises(AlreadySpectating, match="leave it first"):
            await bob.spectate(other.id)
        await watched.leave()
        again = await bob.spectate(other.id)

        assert watched.left == SeatLeft(Reason.LEFT)
        assert (bob.spectating, again.id) == (again, other.id)
        assert play.room.story == ["join ada here", "spectate bob", "unspectate bob left"]


@in_virtual_time
async def test_there_are_as_many_places_as_the_room_says() -> None:
    async with theatre(stage(max_spectators=1), stage(kind="closed", max_spectators=0)) as play:
        await play.watch("bob")
        cleo = await play.connect("cleo")
        closed = await (await play.connect("eve")).join_or_create("closed")

        with pytest.raises(RoomFull, match="all 1 places for spectators"):
            await cleo.spectate(play.seat.id)
        with pytest.raises(NotAllowed, match="no places for spectators"):
            await cleo.spectate(closed.id)
        with pytest.raises(NotFound):
            await cleo.spectate("nowhere")
        with pytest.raises(AlreadySeated, match="hear everything already"):
            await play.ada.spectate(play.seat.id)


@in_virtual_time
async def test_a_game_refuses_spectators_in_on_spectate() -> None:
    async with theatre(allow_errors=ZeroDivisionError) as play:
        mallory, bug = await play.connect("mallory"), await play.connect("bug")

        with pytest.raises(Refused, match="not you"):
            await mallory.spectate(play.seat.id)
        with pytest.raises(Failed):
            await bug.spectate(play.seat.id)

        assert mallory.spectating is None
        assert play.room.spectators == ()
        assert play.room.story[1:] == [
            "spectate mallory",
            "unspectate mallory join_failed",
            "spectate bug",
            "unspectate bug join_failed",
        ]


@in_virtual_time
async def test_a_password_and_a_code_open_the_room_to_spectators_as_to_players() -> None:
    async with theatre() as play:
        info = await play.ada.create("stage", password="sesame", visibility="private")
        bob = await play.connect("bob")

        with pytest.raises(WrongPassword):
            await bob.spectate(info.id)
        watched = await bob.spectate(code=info.code, password="sesame")

        assert watched.id == info.id
        assert watched.info is not None
        assert watched.info.code == ""


@in_virtual_time
async def test_a_role_that_seats_need_is_not_asked_of_spectators_and_a_lock_does_not_stop_them() -> None:
    async with theatre(Stage, stage(kind="locked", join_role="star")) as play:
        info = await play.ada.create("locked")
        bob = await play.connect("bob")
        await play.say(Do("shut"))

        assert (await bob.spectate(info.id)).id == info.id
        _, watched = await play.watch("cleo")
        assert watched.is_spectator


@in_virtual_time
async def test_spectators_do_not_see_the_code_when_the_entry_changes() -> None:
    async with theatre() as play:
        _, watched = await play.watch("bob")

        await play.say(Do("name_it", "finals"))
        await until(lambda: watched.info is not None and watched.info.name == "finals")

        assert watched.info is not None
        assert watched.info.code == ""
        assert any(isinstance(each, RoomUpdated) and each.room.code for each in play.seat.poll())


# Away, and back


@in_virtual_time
async def test_a_spectator_who_drops_comes_back_to_every_message_once() -> None:
    async with theatre() as play:
        bob, watched = await play.watch("bob")
        await play.say(Say("one"))
        play.server.link(bob).cut()
        await watched.send(Cheer("from afar"))
        await play.say(Say("two"))
        (spectator,) = play.room.spectators
        was_connected = spectator.connected

        texts = await heard(watched, "Spectator bob: from afar")

        assert not was_connected
        assert spectator.connected
        assert texts == ["welcome bob", "one", "two", "Spectator bob: from afar"]
        assert bob.outcome is not None
        assert bob.outcome.kind == "resumed"
        assert play.room.story == ["join ada here", "spectate bob"]


@in_virtual_time
async def test_a_spectator_for_whom_messages_could_not_be_kept_is_sent_the_state() -> None:
    async with theatre(limits=Limits(kept_messages_max=20, window_messages_max=10)) as play:
        bob, watched = await play.watch("bob")
        await heard(watched, "welcome bob")
        play.server.dialer(bob).is_down = True
        play.server.link(bob).cut()
        (spectator,) = play.room.spectators
        for number in range(40):
            play.server.machine.call(spectator.send, Said(str(number)))
        play.server.dialer(bob).is_down = False

        first = await watched.receive()
        texts = await heard(watched, "the state")
        await play.say(Say("on"))

        assert isinstance(first, Resynced)
        assert texts == ["the state"]
        assert await heard(watched, "on") == ["on"]
        assert bob.outcome is not None
        assert bob.outcome.kind == "resynced"
        assert "resync Spectator bob" in play.room.story


@in_virtual_time
async def test_the_place_is_held_for_the_grace_and_then_free() -> None:
    async with theatre(stage(grace_s=10.0, max_spectators=1)) as play:
        bob, _ = await play.watch("bob")
        play.server.dialer(bob).is_down = True
        play.server.link(bob).cut()

        await a_moment(9.0)
        with pytest.raises(RoomFull):
            await play.watch("cleo")
        await a_moment(2.0)
        _, watched_after = await play.watch("eve")

        assert play.room.story[1:] == ["spectate bob", "unspectate bob grace_ended", "spectate eve"]
        assert watched_after.left is None


@pytest.mark.parametrize("settings", [{"disconnect": "hard"}, {"keep_before_start": False}])
@in_virtual_time
async def test_a_room_that_holds_no_seats_holds_no_places(settings: dict[str, Any]) -> None:
    async with theatre(stage(**settings)) as play:
        bob, watched = await play.watch("bob")

        play.server.link(bob).cut()
        await until(lambda: watched.left is not None)

        assert watched.left == SeatLeft(Reason.DROPPED)
        assert (play.room.story[-1], bob.spectating) == ("unspectate bob dropped", None)


@in_virtual_time
async def test_a_newer_connection_of_the_session_goes_on_watching() -> None:
    async with theatre() as play:
        bob, watched = await play.watch("bob")
        play.server.link(bob).half_open("server")
        bob.cut()
        await play.say(Say("one"))

        assert await heard(watched, "one") == ["welcome bob", "one"]
        assert bob.outcome is not None
        assert bob.outcome.kind == "resumed"
        assert play.session(bob).epoch == 2


@pytest.mark.parametrize("policy", ["takeover", "reject", "allow"])
@in_virtual_time
async def test_the_policy_for_duplicates_counts_for_spectators_too(policy: str) -> None:
    async with theatre(stage(duplicate=policy)) as play:
        bob, watched = await play.watch("bob")
        twin = await play.connect("bob")

        if policy == "reject":
            with pytest.raises(Duplicate):
                await twin.spectate(play.seat.id)
        else:
            await twin.spectate(play.seat.id)
        await a_moment()

        assert len(play.room.spectators) == (2 if policy == "allow" else 1)
        assert (bob.spectating is None) == (policy == "takeover")
        if policy == "takeover":
            assert watched.left is not None
            assert watched.left.reason == Reason.SUPERSEDED
            assert bob.connected


# Going


@in_virtual_time
async def test_spectators_are_told_why_they_watch_no_more() -> None:
    async with theatre() as play:
        (bob, kicked), (cleo, closed) = await play.watch("bob"), await play.watch("cleo")
        dan, _ = await play.watch("dan")

        await dan.close()
        await play.say(Do("throw_out", "bob"))
        await play.seat.send(Do("finish"))
        await until(lambda: closed.left is not None)

        assert kicked.left == SeatLeft(Reason.KICKED, "no phones")
        assert closed.left == SeatLeft(Reason.ROOM_CLOSED)
        assert (bob.spectating, cleo.spectating) == (None, None)
        with pytest.raises(NotSeated, match="the place is gone: no phones"):
            await kicked.send(Cheer("hey"))


class Bouncer(Stage):
    """Ends the session of whoever comes back."""

    def on_rejoin(self, player: Player[PlayerData]) -> None:
        super().on_rejoin(player)
        player.session.end("once is enough")


@in_virtual_time
async def test_a_session_that_the_room_of_its_seat_ends_when_it_returns_watches_no_more_either() -> None:
    async with theatre(Stage, type("Door", (Bouncer,), {"kind": "door"})) as play:
        bob, _ = await play.watch("bob")
        await bob.join_or_create("door")
        ended: list[SessionEnded] = []
        bob.on_close(ended.append)

        play.server.link(bob).cut()
        await until(lambda: ended)

        assert [each.reason for each in ended] == [Reason.KICKED]
        assert play.room.spectators == ()
        assert play.room.story[-1] == "unspectate bob kicked"
        assert play.server.counters.internal_errors == 0


class Revolving(Stage):
    """Disconnects whoever comes back, twice."""

    def on_rejoin(self, player: Player[PlayerData]) -> None:
        super().on_rejoin(player)
        if len(self.story) <= 5:
            player.session.disconnect("and again")


@in_virtual_time
async def test_a_session_that_the_room_of_its_seat_disconnects_when_it_returns_comes_back_to_both_rooms() -> None:
    async with theatre(Stage, type("Door", (Revolving,), {"kind": "door"})) as play:
        bob, watched = await play.watch("bob")
        await bob.join_or_create("door")

        play.server.link(bob).cut()
        await until(lambda: play.session(bob).resumes == 3)
        await play.say(Say("on"))

        assert await heard(watched, "on") == ["welcome bob", "on"]
        assert play.room.spectators[0].connected
        assert play.server.counters.internal_errors == 0


class Pause(Stage):
    """Takes its time over a turn, and ends with it."""

    door: ClassVar[asyncio.Event]

    @on(Say)
    async def said(self, player: Player[PlayerData], say: Say) -> None:
        await self.door.wait()
        self.close()


@in_virtual_time
async def test_a_spectator_may_change_their_name_while_the_room_ends() -> None:
    door = asyncio.Event()
    async with theatre(type("Pause", (Pause,), {"kind": "stage", "door": door})) as play:
        bob, watched = await play.watch("bob")
        renamed: list[Renamed] = []
        play.server.on(Renamed, renamed.append)
        await play.seat.send(Say("the end"))
        await a_moment()

        renaming = asyncio.ensure_future(bob.rename("Robert"))
        await a_moment()
        door.set()

        assert await renaming == "Robert"
        await until(lambda: watched.left is not None and renamed)
        assert play.session(bob).name == "Robert"


@in_virtual_time
async def test_what_a_spectator_sent_before_leaving_arrives() -> None:
    async with theatre() as play:
        bob, watched = await play.watch("bob")
        await watched.send(Cheer("bye"))

        await watched.leave()

        assert await heard(play.seat, "Spectator bob: bye") == ["ada sits", "Spectator bob: bye"]
        with pytest.raises(NotSeated):
            await bob._exchange.ask(Unspectate(), object)  # noqa: SLF001 - what `leave` asks for, once more
        assert play.session(bob).closing == ()


@in_virtual_time
async def test_events_tell_of_spectators() -> None:
    async with theatre() as play:
        told: list[Any] = []
        for kind in (SpectatorJoined, SpectatorLeft, PlayerJoined):
            play.server.on(kind)(told.append)
        bob, _ = await play.watch("bob")
        await play.say(Do("raise_up", "bob"))
        await a_moment()

        assert [(type(each), each.player, getattr(each, "reason", "")) for each in told] == [
            (SpectatorJoined, "bob", ""),
            (SpectatorLeft, "bob", "seated"),
            (PlayerJoined, "bob", ""),
        ]
        assert {each.session for each in told} == {bob.id}
