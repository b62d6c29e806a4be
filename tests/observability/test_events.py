"""The events of sessions, seats and rooms: each is published once, in the order in which it happened."""

import asyncio
from typing import Any

import pytest

from holdfast import Failed, NotFound, Player, PlayerData, Reason, Refused, Room, on
from holdfast.schemas.events import (
    Dropped,
    Ended,
    Event,
    PlayerJoined,
    PlayerLeft,
    Restored,
    Resumed,
    RoomCreated,
    RoomEnded,
    RoomEnding,
    RoomEvent,
    RoomFailed,
    RoomRecovered,
    RoomReleased,
    RoomStarted,
    SessionOpened,
    Superseded,
)
from holdfast.schemas.frames import Bye
from holdfast.testing import FaultyStore
from tests.observability.scene import Hall, Say, hall, scene
from tests.server.durability.bench import in_virtual_time, until

# Sessions


@in_virtual_time
async def test_a_session_is_told_from_the_beginning_to_the_end() -> None:
    async with scene() as play:
        ada = await play.seated()
        ada.client.cut()
        await play.settled()
        back = await play.back(ada)
        await back.client.request("leave")
        play.call(play.session(ada).end, "enough")
        await play.settled()

        assert play.names(ada.session_id) == [
            "session.opened",
            "session.authenticated",
            "player.joined",
            "session.dropped",
            "session.resumed",
            "player.left",
            "session.ended",
        ]
        opened, resumed, ended = play.of(SessionOpened)[0], play.of(Resumed)[0], play.of(Ended)[0]
        assert (opened.player, opened.transport, opened.is_reset) == ("ada", "memory", False)
        assert (resumed.outcome, resumed.away_s) == ("resumed", 0.5)
        assert opened.connection != resumed.connection
        assert (ended.reason, ended.message) == (Reason.KICKED, "enough")


@in_virtual_time
async def test_how_long_a_player_was_away_counts_from_the_drop_whatever_became_of_the_grace() -> None:
    async with scene(hall(grace_s=3600.0)) as play:
        ada = await play.seated()
        ada.client.cut()
        await asyncio.sleep(2.0)
        # Without the seat, the grace is the server's again.
        play.call(play.room(ada).players[0].kick, "asleep")
        await asyncio.sleep(1.0)

        await play.back(ada)

        (resumed,) = play.of(Resumed)
        assert resumed.away_s == pytest.approx(3.0, abs=0.1)


@in_virtual_time
async def test_a_drop_says_what_was_known_of_the_connection() -> None:
    async with scene(ping_s=5.0, silence_s=16.0) as play:
        client = await play.server.connect("ada")
        play.server.link(client).latency_s = 0.02
        await asyncio.sleep(60.0)
        play.server.dialer(client).is_down = True
        play.server.link(client).stall()
        await until(lambda: play.of(Dropped))

        dropped = play.of(Dropped)[0]
        assert dropped.reason == Reason.SILENT
        assert 16.0 <= dropped.silent_s <= 22.0
        assert dropped.pings in {3, 4}
        assert dropped.latency_ms == pytest.approx(40.0, abs=1.0)
        assert dropped.last_ms == pytest.approx(40.0, abs=1.0)
        assert dropped.worst_ms >= dropped.last_ms
        assert (dropped.grace_s, dropped.code) == (30.0, 0)


@pytest.mark.parametrize("code", [1000, 1001, 4999])
@in_virtual_time
async def test_a_drop_says_with_which_code_the_client_went(code: int) -> None:
    async with scene() as play:
        ada = await play.enter()
        ada.client.link.close(code, "")
        await play.settled()

        dropped = play.of(Dropped)[0]
        assert (dropped.reason, dropped.code, dropped.pings) == (Reason.DROPPED, code, 0)


@in_virtual_time
async def test_a_client_cannot_make_us_say_that_it_was_something_else_than_a_drop() -> None:
    async with scene() as play:
        ada = await play.enter()
        ada.client.link.close(4203, "kicked")
        await play.settled()

        assert play.of(Dropped)[0].reason == Reason.DROPPED


@in_virtual_time
async def test_why_a_connection_was_cut_is_told_until_the_client_is_heard() -> None:
    async with scene(ping_s=5.0, silence_s=16.0) as play:
        ada = await play.enter()
        await until(lambda: play.of(Dropped))

        first = await play.back(ada)
        # Its welcome may be lost: the same token is good again, and takes over.
        second = await play.back(ada)
        await second.client.request("mine")
        third = await play.back(second)

        told = [each.welcome.outcome.drop_reason for each in (first, second, third)]
        assert told == [Reason.SILENT, Reason.SILENT, ""]


@in_virtual_time
async def test_a_newer_connection_is_told_before_what_became_of_it() -> None:
    async with scene() as play:
        ada = await play.enter()
        await play.back(ada)

        assert play.names(ada.session_id)[2:] == ["session.superseded", "session.resumed"]
        assert play.of(Superseded)[0].connection == play.of(SessionOpened)[0].connection
        assert play.of(Dropped) == []
        assert await ada.closed_for() == Reason.SUPERSEDED


@in_virtual_time
async def test_an_agent_is_told_of_like_a_player() -> None:
    async with scene() as play:
        room = await play.server.create_room("hall")
        agent = play.server.open_agent("npc")
        await play.server.machine.do(agent.join(room.id))
        agent.end()
        await play.settled()

        assert play.names(agent.session.id) == ["session.opened", "player.joined", "player.left", "session.ended"]
        assert play.of(SessionOpened)[0].transport == "agent"
        assert (play.of(PlayerLeft)[0].reason, play.of(Ended)[0].reason) == (Reason.LEFT, Reason.BYE)


# Seats


@in_virtual_time
async def test_the_end_of_a_session_comes_after_the_end_of_its_seat() -> None:
    async with scene() as play:
        ada = await play.seated()
        play.call(play.session(ada).end, "spam")
        await play.settled()

        assert play.names(ada.session_id)[-2:] == ["player.left", "session.ended"]
        assert [(left.reason, left.message) for left in play.of(PlayerLeft)] == [(Reason.KICKED, "spam")]


class Busy(Hall):
    """A room that thinks about everything that is said."""

    kind = "hall"

    @on(Say)
    async def said(self, player: Player[PlayerData], say: Say) -> None:
        await asyncio.sleep(5.0)


@in_virtual_time
async def test_who_signs_off_in_the_middle_of_a_turn_leaves_once_and_when_that_is_over() -> None:
    async with scene(Busy) as play:
        ada = await play.seated()
        ada.client.send(1, Say("think about this"))
        ada.client.say(Bye())
        await asyncio.sleep(10.0)

        assert play.names(ada.session_id)[-2:] == ["session.ended", "player.left"]
        assert [left.reason for left in play.of(PlayerLeft)] == [Reason.LEFT]


@in_virtual_time
async def test_a_seat_that_goes_to_another_session_is_left_and_joined() -> None:
    async with scene() as play:
        first = await play.seated()
        second = await play.seated()

        assert play.names(first.session_id)[-2:] == ["player.left", "session.ended"]
        assert play.names(second.session_id)[-1] == "player.joined"
        assert {joined.room for joined in play.of(PlayerJoined)} == {first.room_id}
        assert [left.session for left in play.of(PlayerLeft)] == [first.session_id]


@in_virtual_time
async def test_who_was_refused_by_the_game_joined_and_left() -> None:
    async with scene() as play:
        ada = await play.enter("unloved")
        await ada.client.request("join_or_create", kind="hall")

        assert play.names(ada.session_id)[-2:] == ["player.joined", "player.left"]
        left = play.of(PlayerLeft)[0]
        assert (left.reason, left.message) == (Reason.JOIN_FAILED, "not you")


@in_virtual_time
async def test_who_is_not_even_admitted_has_neither_joined_nor_left() -> None:
    def admit(_: Room[Any], player: Player[Any]) -> None:
        raise Refused("members only")

    async with scene(hall(admit=admit)) as play:
        ada = await play.enter()
        await ada.client.request("join_or_create", kind="hall")

        assert not play.of(PlayerJoined)
        assert not play.of(PlayerLeft)


# Rooms


@in_virtual_time
async def test_every_round_of_a_room_is_told_when_it_begins() -> None:
    async with scene() as play:
        room = await play.server.create_room("hall")
        for step in (room.start, room.start, room.end, room.start):
            play.call(step)

        assert [(each.room, each.kind) for each in play.of(RoomStarted)] == [(room.id, "hall")] * 2


@in_virtual_time
async def test_a_room_that_begins_to_play_at_once_is_made_first() -> None:
    async with scene(hall(on_create=lambda room, _: room.start())) as play:
        await play.server.create_room("hall")

        assert [type(event) for event in play.events] == [RoomCreated, RoomStarted]


def _fails(room: Room[Any], config: dict[str, Any]) -> None:
    raise ValueError("a bug of the game")


def _refuses(room: Room[Any], config: dict[str, Any]) -> None:
    raise Refused("no such map")


async def _never(room: Room[Any], config: dict[str, Any]) -> None:
    await asyncio.sleep(3600.0)


@pytest.mark.parametrize(
    ("on_create", "why"), [(_fails, "create_failed"), (_never, "activation_timeout"), (_refuses, None)]
)
@in_virtual_time
async def test_a_room_that_fails_to_begin_has_failed_but_not_one_that_the_game_does_not_want(
    on_create: Any, why: str | None
) -> None:
    async with scene(hall(on_create=on_create), allow_errors=ValueError) as play:
        with pytest.raises(Refused if why is None else Failed):
            await play.server.create_room("hall")

        assert [failed.why for failed in play.of(RoomFailed)] == ([] if why is None else [why])
        assert not play.of(RoomCreated)
        assert not play.of(RoomEnded)


@in_virtual_time
async def test_a_room_that_is_not_well_has_failed_before_it_ends() -> None:
    async with scene(hall(on_health_check=lambda _: False), health_s=1.0) as play:
        room = await play.server.create_room("hall")
        await until(lambda: play.of(RoomEnded))

        assert [(each.room, each.kind, each.why) for each in play.of(RoomFailed)] == [(room.id, "hall", "unhealthy")]
        assert [event.name for event in play.events] == ["room.created", "room.failed", "room.ending", "room.ended"]
        assert [each.reason for each in play.of(RoomEnding)] == ["unhealthy"]


@in_virtual_time
async def test_events_of_a_room_have_its_listing_without_its_code() -> None:
    async with scene(hall(on_create=lambda room, _: room.start())) as play:
        ada = await play.enter()
        await ada.client.request("create", kind="hall", name="The Hall", properties={"map": "mill"})
        (room,) = play.server.rooms
        play.call(lambda: room.update(name="The Great Hall"))
        await play.settled()
        play.call(room.close)
        await until(lambda: play.of(RoomEnded))

        told = [event for event in play.events if isinstance(event, RoomEvent)]
        assert [(event.name, event.body["info"].status, event.body["info"].name) for event in told] == [
            ("room.created", "active", "The Hall"),
            ("room.started", "active", "The Hall"),
            ("room.updated", "active", "The Great Hall"),
            ("room.ending", "ending", "The Great Hall"),
            ("room.ended", "ended", "The Great Hall"),
        ]
        for event in told:
            info = event.body["info"]
            assert (info.id, info.kind, info.phase, info.creator) == (room.id, "hall", "playing", "ada")
            assert info.properties == {"map": "mill"}
            assert info.code == ""


@in_virtual_time
async def test_a_room_that_closes_before_anybody_has_heard_of_it_is_never_told_to_end() -> None:
    async with scene(hall(on_create=lambda room, _: room.close())) as play:
        with pytest.raises(NotFound):
            await play.server.create_room("hall")

        assert not play.of(RoomEvent)


@in_virtual_time
async def test_a_room_whose_last_turn_does_not_end_has_failed() -> None:
    async with scene(Busy, close_s=1.0) as play:
        ada = await play.seated()
        ada.client.send(1, Say("think about this"))
        await play.settled()
        await play.server.stop()

        assert [failed.why for failed in play.of(RoomFailed)] == ["abandoned"]
        assert [ended.status for ended in play.of(RoomEnded)] == ["failed"]
        assert [failed.info.status for failed in play.of(RoomFailed) if failed.info is not None] == ["ending"]


# From the store


@pytest.mark.parametrize("durability", ["commit", "checkpoint"])
@in_virtual_time
async def test_what_comes_back_from_the_store_is_told(durability: str) -> None:
    async with scene(hall(durability=durability, checkpoint_s=2.0), store=FaultyStore()) as play:
        ada = await play.seated()
        await asyncio.sleep(10.0)
        play.server.crash()
        await asyncio.sleep(5.0)
        told: list[Event] = []
        play.server.on(Event, told.append)
        await play.server.start()
        await play.settled()

        restored = [event for event in told if isinstance(event, Restored)]
        recovered = [event for event in told if isinstance(event, RoomRecovered)]
        assert [(each.session, each.player, each.room) for each in restored] == [(ada.session_id, "ada", ada.room_id)]
        assert [(each.room, each.kind) for each in recovered] == [(ada.room_id, "hall")]
        assert (recovered[0].age_s > 5.0) == (durability == "checkpoint")
        assert restored[0].grace_s == 30.0


@in_virtual_time
async def test_a_durable_room_and_its_sessions_are_released_when_the_server_stops() -> None:
    async with scene(hall(durability="commit"), store=FaultyStore()) as play:
        ada = await play.seated()
        await play.server.stop()

        assert [(each.room, each.reason) for each in play.of(RoomReleased)] == [(ada.room_id, Reason.STOPPING)]
        assert play.names(ada.session_id)[-2:] == ["session.dropped", "session.released"]
        for kind in (RoomEnded, Ended, PlayerLeft):
            assert not play.of(kind)


class Fickle(Hall):
    """A room that cannot be brought back."""

    kind = "hall"
    durability = "commit"

    def restore(self, saved: Any) -> None:
        raise ValueError("a bug of the game")


@in_virtual_time
async def test_a_room_that_cannot_be_brought_back_has_failed() -> None:
    async with scene(Fickle, store=FaultyStore()) as play:
        ada = await play.seated()
        await play.settled()
        play.server.crash()
        told: list[Event] = []
        play.server.on(RoomFailed, told.append)
        await play.server.start()
        await play.settled()

        assert [(each.room, each.kind, each.why) for each in told if isinstance(each, RoomFailed)] == [
            (ada.room_id, "hall", "set_aside")
        ]
