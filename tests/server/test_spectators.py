"""Spectators: they watch a room without a seat, count in nothing, and can be given a seat."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from holdfast import (
    AlreadySeated,
    AlreadySpectating,
    ClientRoom,
    ClientSession,
    Duplicate,
    Failed,
    Limits,
    Message,
    MessageRefused,
    NotAllowed,
    NotFound,
    NotSeated,
    Player,
    PlayerData,
    Reason,
    Refused,
    Resynced,
    Room,
    RoomFull,
    RoomUpdated,
    SeatLeft,
    SessionEnded,
    Spectator,
    WrongPassword,
    on,
)
from holdfast.core.codec import MSGPACK
from holdfast.core.room import context_of
from holdfast.events import PlayerJoined, Renamed, SpectatorJoined, SpectatorLeft
from holdfast.schemas.frames import Data
from holdfast.schemas.requests import Unspectate
from holdfast.testing import MemoryServer
from holdfast.transports.memory import MemoryTransport
from tests.server.durability.bench import a_moment, in_virtual_time, until


class Say(Message):
    text: str


class Cheer(Message):
    text: str


class Do(Message):
    """Have the room do one of its methods."""

    what: str
    who: str = ""


class Said(Message):
    text: str


class Glimpse(Message):
    text: str


MESSAGES = [Said, Glimpse]


class Stage(Room[PlayerData]):
    """Repeats what is said, to everybody or to players only, and tells its story."""

    max_players = 2
    max_spectators = 3
    empty_ttl_s = 5.0

    def on_create(self, config: dict[str, Any]) -> None:
        self.story: list[str] = []

    def on_join(self, player: Player[PlayerData]) -> Any:
        self.story.append(f"join {player.id} {'here' if player.connected else 'away'}")
        self.broadcast(Said(f"{player.id} sits"))
        if player.id == "rude":
            raise Refused("no seat for you")

    def on_drop(self, player: Player[PlayerData]) -> None:
        self.story.append(f"drop {player.id}")

    def on_rejoin(self, player: Player[PlayerData]) -> None:
        self.story.append(f"rejoin {player.id}")

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
        self.story.append(f"leave {player.id} {reason}")

    def on_spectate(self, spectator: Spectator) -> Any:
        self.story.append(f"spectate {spectator.id}")
        if spectator.id == "mallory":
            raise Refused("not you")
        if spectator.id == "bug":
            raise ZeroDivisionError("a bug of the game")
        spectator.send(Said(f"welcome {spectator.id}"))

    def on_unspectate(self, spectator: Spectator, reason: Reason) -> None:
        self.story.append(f"unspectate {spectator.id} {reason}")

    def on_resync(self, player: Player[PlayerData] | Spectator) -> None:
        self.story.append(f"resync {type(player).__name__} {player.id}")
        player.send(Said("the state"))

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> Any:
        self.broadcast(Said(say.text))

    @on(Cheer, spectators=True)
    def cheered(self, who: Player[PlayerData] | Spectator, cheer: Cheer) -> None:
        self.broadcast(Said(f"{type(who).__name__} {who.id}: {cheer.text}"))

    @on(Do)
    def did(self, player: Player[PlayerData], do: Do) -> Any:
        return getattr(self, do.what)(do.who)

    def whisper(self, text: str) -> None:
        self.broadcast(Said(text), spectators=False)

    def but(self, who: str) -> None:
        self.broadcast(Said("not for one"), exclude=[each for each in self.spectators if each.id == who])

    def throw_out(self, who: str) -> None:
        next(each for each in self.spectators if each.id == who).kick("no phones")

    def raise_up(self, who: str) -> None:
        self.story.append(f"promoted {self.promote(self.watching(who)).id}")

    def raise_gone(self, who: str) -> None:
        spectator = self.watching(who)
        spectator.kick()
        self.promote(spectator)

    def raise_and_kick(self, who: str) -> None:
        self.promote(self.watching(who)).kick("changed my mind")

    def glimpse(self, text: str) -> None:
        for spectator in self.spectators:
            spectator.send_latest(Glimpse(f"old {text}"))
            spectator.send_latest(Glimpse(text))
        for player in self.players:
            player.send_latest(Glimpse(text))

    def finish(self, _: str) -> None:
        self.close()

    def name_it(self, name: str) -> None:
        self.update(name=name)

    def shut(self, _: str) -> None:
        self.lock()

    def watching(self, who: str) -> Spectator:
        return next(each for each in self.spectators if each.id == who)


def stage(**settings: Any) -> type[Stage]:
    return type("Stage", (Stage,), {"kind": "stage", **settings})


class Theatre:
    """A server with one stage, and ada on it."""

    def __init__(self, server: MemoryServer, ada: ClientSession, seat: ClientRoom) -> None:
        self.server = server
        self.ada = ada
        self.seat = seat

    @property
    def room(self) -> Stage:
        room = self.server.rooms.get(self.seat.id)
        assert isinstance(room, Stage)
        return room

    async def watch(self, name: str, **options: Any) -> tuple[ClientSession, ClientRoom]:
        client = await self.connect(name, **options)
        return client, await client.spectate(self.seat.id)

    async def connect(self, name: str, **options: Any) -> ClientSession:
        return await self.server.connect(name, messages=MESSAGES, **options)

    async def say(self, *messages: Message) -> None:
        for message in messages:
            await self.seat.send(message)
        await self.seat.flush()

    def session(self, client: ClientSession) -> Any:
        return self.server.sessions.get(client.id)


@asynccontextmanager
async def theatre(*kinds: type[Room[Any]], **options: Any) -> AsyncIterator[Theatre]:
    async with MemoryServer(kinds or [Stage], **options) as server:
        ada = await server.connect("ada", messages=MESSAGES)
        yield Theatre(server, ada, await ada.join_or_create("stage"))


async def heard(room: ClientRoom, last: str) -> list[str]:
    """What the room said, up to this."""
    texts: list[str] = []
    while not texts or texts[-1] != last:
        message = await room.receive()
        if isinstance(message, Said):
            texts.append(message.text)
    return texts


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


# From watching to playing


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
