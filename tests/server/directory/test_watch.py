"""Searches that go on: whoever began one is told of what comes into it, changes in it, and leaves it."""

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast import Invalid, NotFound, Reason, Room, Throttled
from holdfast.core.codec import JSON, MSGPACK
from holdfast.core.room import context_of
from holdfast.schemas.frames import Notice, Reply
from holdfast.schemas.room import RoomInfo, RoomPage, RoomsChanged, Visibility
from holdfast.testing import MemoryServer
from holdfast.testing.server import URL
from holdfast.transports.port import Subprotocol, TransportLimits
from tests.server.directory.seats import Caller, arena, call, patient, served
from tests.server.durability.bench import a_moment, in_virtual_time, until
from tests.server.raw_client import RawClient
from tests.server.world import World, chat


def _notices(caller: Caller, watch_id: str = "w") -> list[RoomsChanged]:
    """What the caller was told since it began the search, in order."""
    notices = [
        notice for notice in caller.client.all_heard(Notice) if (notice.topic, notice.key) == ("rooms", watch_id)
    ]
    return [msgspec.convert(notice.body, RoomsChanged) for notice in notices]


class Board:
    """The rooms of a search that goes on, as its caller knows them."""

    def __init__(self, caller: Caller, page: RoomPage, watch_id: str) -> None:
        self._caller = caller
        self._page = page
        self._watch_id = watch_id

    @property
    def rooms(self) -> dict[str, RoomInfo]:
        rooms = {info.id: info for info in self._page.rooms}
        for notice in _notices(self._caller, self._watch_id):
            rooms.update((info.id, info) for info in notice.changed)
            for room_id in notice.removed:
                del rooms[room_id]
        return rooms


async def _watch(caller: Caller, watch_id: str = "w", **wish: Any) -> Board:
    return Board(caller, await caller.ask("watch", RoomPage, id=watch_id, **{"where": "", **wish}), watch_id)


async def _change(server: MemoryServer, room: Room[Any], **properties: Any) -> None:
    """Change a room, and let it be told."""
    server.machine.call(room.properties.update, properties)
    await a_moment()


# What is told


@in_virtual_time
async def test_a_watch_is_told_what_comes_into_its_search_changes_in_it_and_leaves_it() -> None:
    async with served(arena()) as server:
        ada = await call(server, "ada")
        there = await server.create_room("arena", properties={"level": 5})
        elsewhere = await server.create_room("arena", properties={"level": 1})
        board = await _watch(ada, where="properties.level > 3")
        assert list(board.rooms) == [there.id]

        new = await server.create_room("arena", properties={"level": 9})
        await a_moment()
        await _change(server, there, level=6)
        await _change(server, elsewhere, level=2)
        await _change(server, elsewhere, level=4)
        await _change(server, there, level=3)
        server.machine.call(new.close)
        await a_moment()

        told = [([info.id for info in each.changed], each.removed) for each in _notices(ada)]
        assert told == [
            ([new.id], []), ([there.id], []), ([elsewhere.id], []), ([], [there.id]), ([], [new.id]),
        ]  # fmt: skip
        assert board.rooms[elsewhere.id].properties == {"level": 4}


@in_virtual_time
async def test_what_changes_within_a_moment_is_told_at_once_as_it_is_in_the_end() -> None:
    async with served(arena(), limits=patient(watch_s=0.25)) as server:
        loop = asyncio.get_running_loop()
        ada = await call(server, "ada")
        room = await server.create_room("arena")
        await _watch(ada)

        began_at = loop.time()
        for level in range(20):
            server.machine.call(room.properties.__setitem__, "level", level)
            await asyncio.sleep(0.01)
        assert _notices(ada) == []
        await until(lambda: _notices(ada))

        assert loop.time() - began_at == pytest.approx(0.25, abs=0.02)
        (notice,) = _notices(ada)
        assert [info.properties for info in notice.changed] == [{"level": 19}]


@in_virtual_time
async def test_a_watch_is_told_of_rooms_that_its_player_may_see_and_no_others() -> None:
    async with served(arena()) as server:
        maker, member, stranger = [await call(server, name) for name in ("maker", "member", "stranger")]
        boards = [await _watch(caller) for caller in (maker, member, stranger)]

        async def seen() -> list[list[str]]:
            await a_moment()
            return [list(board.rooms) for board in boards]

        reply = await maker.client.request("create", kind="arena", visibility="private")
        room = msgspec.convert(reply.result, RoomInfo)
        mine = [room.id]
        assert await seen() == [mine, [], []]
        await member.join(room.id)
        assert await seen() == [mine, mine, []]
        await maker.ask("update", RoomInfo, room=room.id, visibility="public")
        assert await seen() == [mine, mine, mine]
        assert [board.rooms[room.id].code for board in boards] == [room.code, room.code, ""]
        await maker.ask("update", RoomInfo, room=room.id, visibility="private")
        assert await seen() == [mine, mine, []]
        await member.tell("leave")
        assert await seen() == [mine, [], []]
        assert len(_notices(stranger)) == 2, "that it came and that it went, and nothing in between"


async def test_a_watch_that_cannot_be_read_is_refused(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)

    with pytest.raises(Invalid, match="column 9"):
        await session.watch(where="players what")


@pytest.mark.parametrize(("properties_bytes", "rooms_max"), [(10, 32), (8000, 7)])
@in_virtual_time
async def test_a_notice_carries_few_enough_rooms_for_a_payload(properties_bytes: int, rooms_max: int) -> None:
    limits = patient(properties_bytes_max=9000)
    async with served(arena(), limits=limits) as server:
        ada = await call(server, "ada")
        rooms = [await server.create_room("arena", properties={"text": "x" * properties_bytes}) for _ in range(40)]
        await _watch(ada, where="name = ''", limit=1)

        for room in rooms:
            server.machine.call(room.lock)
        await a_moment()
        for room in rooms:
            server.machine.call(room.close)
        await a_moment()

        notices = _notices(ada)
        assert [info.id for each in notices for info in each.changed] == [room.id for room in rooms]
        assert [room_id for each in notices for room_id in each.removed] == [room.id for room in rooms]
        assert max(len(each.changed) for each in notices) == rooms_max
        sizes = [len(codec.encode(notice)) for codec in (JSON, MSGPACK) for notice in ada.client.all_heard(Notice)]
        assert max(sizes) < limits.payload_bytes_max


# Limits and ends


@in_virtual_time
async def test_a_session_and_a_node_have_so_many_watches_and_one_that_ends_makes_room() -> None:
    async with served(arena(), limits=patient(watches_per_session_max=2, watches_max=3)) as server:
        ada, bob = await call(server, "ada"), await call(server, "bob")
        await _watch(ada, "one")
        await _watch(ada, "two")
        with pytest.raises(Throttled, match="2 searches"):
            await _watch(ada, "three")
        await _watch(ada, "two")
        await _watch(bob, "one")
        with pytest.raises(Throttled, match="node"):
            await _watch(bob, "two")

        await ada.tell("unwatch", id="one")

        await _watch(bob, "two")
        with pytest.raises(Throttled, match="node"):
            await _watch(ada, "one")


@in_virtual_time
async def test_a_watch_tells_of_so_many_rooms_and_of_another_when_one_has_left_it() -> None:
    async with served(arena(), limits=patient(watch_rooms_max=2)) as server:
        ada = await call(server, "ada")
        board = await _watch(ada)
        first, second, third = [await server.create_room("arena") for _ in range(3)]
        await a_moment()
        assert set(board.rooms) == {first.id, second.id}

        server.machine.call(first.close)
        await a_moment()
        await _change(server, third, level=1)

        assert set(board.rooms) == {second.id, third.id}


@in_virtual_time
async def test_nothing_is_told_after_the_end_of_a_watch() -> None:
    async with served(arena()) as server:
        ada = await call(server, "ada")
        room = await server.create_room("arena")
        await _watch(ada, "ends")
        await _watch(ada, "stays")

        await ada.tell("unwatch", id="ends")
        await _change(server, room, level=1)

        assert _notices(ada, "ends") == []
        assert len(_notices(ada, "stays")) == 1
        with pytest.raises(NotFound):
            await ada.tell("unwatch", id="ends")


async def _resumed(server: MemoryServer, caller: Caller) -> Caller:
    """The same session on another link."""
    client = RawClient(MSGPACK)
    subprotocol = Subprotocol(MSGPACK.name, MSGPACK.text)
    await server.network.dial(client, URL, subprotocols=[subprotocol], limits=TransportLimits.of(server.limits))
    return Caller(client, await client.resume(caller.welcome))


@pytest.mark.parametrize("end", ["drop", "takeover", "end", "loss"])
@in_virtual_time
async def test_a_watch_ends_with_its_connection_and_with_its_session(end: str) -> None:
    async with served(arena(), limits=patient(watches_max=1)) as server:
        ada, bob = await call(server, "ada"), await call(server, "bob")
        room = await server.create_room("arena")
        await _watch(ada)

        heard_by = ada
        if end == "drop":
            ada.client.cut()
            await a_moment()
            heard_by = await _resumed(server, ada)
        elif end == "takeover":
            heard_by = await _resumed(server, ada)
        elif end == "loss":
            server.machine.call(server.parts.lifecycle.release, server.sessions.of_player("ada")[0], Reason.MOVED)
        else:
            await server.operate.sessions.end(ada.welcome.session, "")
        await _change(server, room, level=1)

        assert _notices(heard_by) == []
        await _watch(bob)


@in_virtual_time
async def test_who_dropped_while_their_watch_began_has_none() -> None:
    async with served(arena(), limits=patient(watches_max=1, search_slice_max=1)) as server:
        ada, bob = await call(server, "ada"), await call(server, "bob")
        for _ in range(50):
            await server.create_room("arena")

        ada.client.ask("watch", id="w", where="name = 'x'")
        for _ in range(10):
            await asyncio.sleep(0)
        ada.client.cut()
        await a_moment()

        await _watch(bob)


# Nothing is lost


@in_virtual_time
async def test_what_happens_while_the_first_page_is_looked_for_is_told_after_it() -> None:
    async with served(arena(), limits=patient(search_slice_max=1, watch_s=0.0)) as server:
        ada = await call(server, "ada")
        other = await call(server, "bob")
        await _watch(other)

        for turns in range(40):
            rooms = [await server.create_room("arena") for _ in range(20)]
            ada.client.ask("watch", id=f"w{turns}", where="")
            for _ in range(turns):
                await asyncio.sleep(0)
            server.machine.call(rooms[0].close)
            server.machine.call(rooms[1].lock)
            server.machine.call(rooms[-1].lock)
            board = Board(ada, msgspec.convert((await ada.client.hear(Reply)).result, RoomPage), f"w{turns}")
            await a_moment()

            locked = {room.id: room in (rooms[1], rooms[-1]) for room in rooms[1:]}
            assert {info.id: info.is_locked for info in board.rooms.values()} == locked
            await ada.tell("unwatch", id=f"w{turns}")
            for room in rooms[1:]:
                server.machine.call(room.close)


class Storm:
    """Rooms that are made, changed, hidden, shown, joined, left and ended, as a seed decides."""

    def __init__(self, server: MemoryServer, dice: Random) -> None:
        self._server = server
        self._dice = dice
        self.rooms: list[Room[Any]] = []

    async def step(self) -> None:
        dice = self._dice
        rooms = [room for room in self.rooms if not context_of(room).is_closing]
        if not rooms or dice.random() < 0.1:
            properties = {"level": dice.randrange(4)}
            self.rooms.append(
                await self._server.create_room("arena", properties=properties, visibility=self._visibility)
            )
            return
        room = dice.choice(rooms)
        match dice.randrange(8):
            case 0:
                self._server.machine.call(room.close)
            case 1:
                self._server.machine.call(room.start if room.phase == "lobby" else room.end)
            case 2:
                context_of(room).listing.visibility = self._visibility
                self._server.machine.call(room.unlock)
            case _:
                self._server.machine.call(room.properties.__setitem__, "level", dice.randrange(4))

    @property
    def _visibility(self) -> Visibility:
        return self._dice.choice(("public", "private"))

    async def rage(self, steps: int) -> None:
        for _ in range(steps):
            await self.step()
            # Now and then in the middle of something, else between two things.
            await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.0, 0.002, 0.01)))


_WHERE = ("", "properties.level > 1", "properties.level = 0 OR phase = 'playing'", "NOT properties.level IN (1, 2)")


@pytest.mark.parametrize("seed", range(12))
@in_virtual_time
async def test_whatever_happens_whoever_watches_knows_in_the_end_what_a_search_would_find(seed: int) -> None:
    dice = Random(seed)
    # So few at a time that rounds and first pages are interrupted again and again.
    limits = patient(search_slice_max=dice.choice((1, 3, 40)), watch_s=dice.choice((0.0, 0.05)))
    async with served(arena(), limits=limits) as server:
        storm = Storm(server, dice)
        await storm.rage(60)
        raging = asyncio.create_task(storm.rage(700))
        boards: list[tuple[Caller, str, Board]] = []
        for number in range(12):
            where = dice.choice(_WHERE)
            caller = await call(server, f"player-{number}")
            boards.append((caller, where, await _watch(caller, where=where)))
            await asyncio.sleep(dice.choice((0.0, 0.1)))
        assert not raging.done()
        await raging
        await a_moment(5.0)

        for caller, where, board in boards:
            page = await caller.ask("search", RoomPage, where=where, limit=100)
            assert {info.id: info for info in page.rooms} == board.rooms
            heard = [frame for frame in caller.client.heard if isinstance(frame, Notice | Reply)]
            assert isinstance(heard[0], Reply), "nothing is told before the first page"
