"""Spectators: what they hear and may say, and that they count in nothing."""

import asyncio
from typing import Any

import pytest

from holdfast import (
    Limits,
    MessageRefused,
    NotFound,
    Reason,
    RoomFull,
    SeatLeft,
)
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Data
from holdfast.transports.memory import MemoryTransport
from tests.server.durability.bench import a_moment, in_virtual_time
from tests.server.spectators.stage import Cheer, Do, Glimpse, Said, Say, Stage, heard, stage, theatre

# Hearing and speaking


@in_virtual_time
async def test_a_spectator_hears_what_is_said_to_all_unless_it_is_not_for_spectators() -> None:
    async with theatre() as play:
        _, watched = await play.watch("bob")

        await play.say(Say("one"), Do("whisper", "secret"), Do("but", "bob"), Say("two"))

        assert await heard(watched, "two") == ["welcome bob", "one", "two"]
        assert await heard(play.seat, "two") == ["ada sits", "one", "secret", "not for one", "two"]


@in_virtual_time
async def test_a_spectator_may_send_what_is_marked_for_spectators_and_nothing_else() -> None:
    async with theatre() as play:
        _, watched = await play.watch("bob")

        numbers = [await watched.send(each) for each in (Cheer("go"), Say("me too"), Do("finish"), Glimpse("?"))]
        await watched.flush()
        await play.say(Cheer("thanks"))

        refused = [each for each in watched.poll() if isinstance(each, MessageRefused)]
        assert numbers == [1, 2, 3, 4]
        assert [(each.seq, each.code) for each in refused] == [(2, "not_allowed"), (3, "not_allowed"), (4, "not_found")]
        assert "'say' is for players" in refused[0].message
        assert await heard(play.seat, "Player ada: thanks") == [
            "ada sits",
            "Spectator bob: go",
            "Player ada: thanks",
        ]


@in_virtual_time
async def test_the_newest_value_for_the_seat_does_not_replace_that_for_the_watched_room() -> None:
    async with theatre(Stage, stage(kind="other")) as play:
        seat = await (await play.connect("eve")).join_or_create("other")
        await play.ada.spectate(seat.id)
        other = play.server.rooms.get(seat.id)
        assert isinstance(other, Stage)

        def both() -> None:
            play.room.glimpse("seat")
            other.glimpse("place")

        play.server.machine.call(both)
        await a_moment()

        watched = play.ada.spectating
        assert watched is not None
        assert [each.text for each in watched.poll() if isinstance(each, Glimpse)] == ["place"]
        assert [each.text for each in play.seat.poll() if isinstance(each, Glimpse)] == ["seat"]


@in_virtual_time
async def test_unreliable_messages_of_spectators_arrive_if_they_are_marked() -> None:
    async with theatre() as play:
        _, watched = await play.watch("bob")

        watched.send_latest(Cheer("fast"))
        watched.send_latest(Say("not mine"))

        assert await heard(play.seat, "Spectator bob: fast") == ["ada sits", "Spectator bob: fast"]


@in_virtual_time
async def test_a_message_for_thousands_is_encoded_once_and_written_once_to_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[Any] = []
    written: list[bytes] = []
    encode, send = MSGPACK.encode, MemoryTransport.send

    def counting(content: Any) -> bytes:
        encoded.append(content)
        return encode(content)

    def sending(transport: MemoryTransport, payload: bytes) -> None:
        written.append(payload)
        send(transport, payload)

    monkeypatch.setattr(MSGPACK, "encode", counting)
    async with theatre(stage(max_spectators=50)) as play:
        rooms = [(await play.watch(f"w{number}"))[1] for number in range(50)]
        await a_moment()
        monkeypatch.setattr(MemoryTransport, "send", sending)
        encoded.clear()

        play.server.machine.call(lambda: play.room.broadcast(Said("tick " + "x" * 1000)))
        await a_moment(0.01)

        ticks = [payload for payload in written if b"tick" in payload]
        bodies = [each for each in encoded if isinstance(each, Said)]
        frames = [frame for each in encoded if isinstance(each, list) for frame in each if isinstance(frame, Data)]
        heads = [len(encode([frame])) - len(frame.body) for frame in frames]
        assert len(rooms) == 50
        assert len(bodies) == 1
        assert (len(frames), len(ticks)) == (51, 51)
        assert max(heads) < 20


# Counting


@in_virtual_time
async def test_spectators_count_in_nothing_that_seats_count_in() -> None:
    async with theatre(stage(election="oldest")) as play:
        bob, watched = await play.watch("bob")
        await play.watch("cleo")

        shown = (await play.ada.search("stage", where="spectators = 2", order_by="spectators desc"))[0]

        assert (shown.players, shown.open_seats, shown.spectators, shown.max_spectators) == (1, 1, 2, 3)
        assert watched.info is not None
        assert (watched.info.host, watched.info.spectators) == ("ada", 1)
        assert await bob.my_rooms() == []
        with pytest.raises(NotFound):
            await bob.rejoin()
        assert bob.room is None
        assert [player.id for player in play.room.players] == ["ada"]
        assert [spectator.id for spectator in play.room.spectators] == ["bob", "cleo"]
        assert play.room.player("bob") is None
        await (await play.connect("eve")).join(play.seat.id)
        with pytest.raises(RoomFull):
            await (await play.connect("kim")).join(play.seat.id)


@in_virtual_time
async def test_a_room_with_only_spectators_is_empty_and_ends() -> None:
    async with theatre() as play:
        _, watched = await play.watch("bob")

        await play.seat.leave()
        await a_moment(6.0)

        assert watched.left == SeatLeft(Reason.ROOM_CLOSED)
        assert list(play.server.rooms) == []


@in_virtual_time
async def test_a_player_may_have_a_seat_in_one_room_and_watch_another() -> None:
    async with theatre(Stage, stage(kind="other")) as play:
        eve = await play.connect("eve")
        seat = await eve.join_or_create("other")

        watched = await eve.spectate(play.seat.id)
        await seat.send(Say("there"))
        await play.say(Say("here"))

        assert (eve.room, eve.spectating) == (seat, watched)
        assert await heard(seat, "there") == ["eve sits", "there"]
        assert await heard(watched, "here") == ["welcome eve", "here"]
        assert play.session(eve).spectating == play.seat.id
        await seat.leave()
        await play.say(Say("more"))
        assert (eve.room, await heard(watched, "more")) == (None, ["more"])


# Slow readers


@in_virtual_time
async def test_messages_of_a_spectator_who_does_not_read_wait_until_they_do() -> None:
    limits = Limits(window_messages_max=8, kept_messages_max=1000, unread_s=1000.0)
    async with theatre(limits=limits) as play:
        _, watched = await play.watch("bob")
        await play.say(*(Say(str(number)) for number in range(12)))
        sending = asyncio.create_task(watched.send(Cheer("late")))
        await a_moment()
        waiting = "Spectator bob: late" not in [each.text for each in play.seat.poll() if isinstance(each, Said)]

        await heard(watched, "11")
        await sending

        assert waiting
        assert (await heard(play.seat, "Spectator bob: late"))[-1] == "Spectator bob: late"
