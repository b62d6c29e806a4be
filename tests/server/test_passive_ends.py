"""An empty room ends by itself, unless its game refuses: `on_destroy` is asked first."""

import asyncio
from itertools import pairwise
from typing import Any

from holdfast import Limits, Player, PlayerData, Reason, Refused, Room
from holdfast.events import RoomEnded, RoomEnding
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.durability.bench import in_virtual_time


class Tavern(Room[PlayerData]):
    """Stays open while it is popular, and tells what it was asked."""

    empty_ttl_s = 10.0

    is_popular = True

    def on_create(self, config: dict[str, Any]) -> None:
        self.asked_at: list[float] = []
        self.lines: list[Any] = []

    def on_recover(self) -> None:
        self.on_create({})

    def on_join(self, player: Player[PlayerData]) -> None:
        self.lines.append("on_join")

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
        self.lines.append(("on_leave", reason))

    def on_destroy(self) -> Any:
        self.asked_at.append(asyncio.get_running_loop().time())
        self.lines.append("on_destroy")
        if self.is_popular:
            raise Refused("the tavern stays open")

    def on_destroyed(self) -> None:
        self.lines.append("on_destroyed")


def tavern(**settings: Any) -> type[Tavern]:
    return type("Tavern", (Tavern,), {"kind": "tavern", **settings})


def waits(room: Tavern, since: float) -> list[float]:
    """The times between the questions, rounded."""
    times = [since, *room.asked_at]
    return [round(later - earlier, 1) for earlier, later in pairwise(times)]


async def emptied(server: MemoryServer, kind: str = "tavern") -> tuple[Tavern, float]:
    """A room whose only player has just left, and the time."""
    ada = await server.connect("ada")
    joined = await ada.join_or_create(kind)
    room = server.rooms.get(joined.id)
    assert isinstance(room, Tavern)
    await joined.leave()
    return room, asyncio.get_running_loop().time()


@in_virtual_time
async def test_an_empty_room_whose_game_refuses_stays_and_is_asked_again_after_its_time() -> None:
    async with MemoryServer([tavern()]) as server:
        room, left_at = await emptied(server)

        await asyncio.sleep(35.0)

        assert waits(room, left_at) == [10.0, 10.0, 10.0]
        assert server.rooms.get(room.id) is room
        assert "on_destroyed" not in room.lines
        info = server.operate.rooms.get(room.id)
        assert (info.status, info.reason) == ("active", "")

        room.is_popular = False
        await asyncio.sleep(6.0)

        assert room.lines[-2:] == ["on_destroy", "on_destroyed"]
        assert len(room.asked_at) == 4
        assert len(server.rooms) == 0


@in_virtual_time
async def test_a_room_that_would_end_with_its_last_player_is_asked_at_most_once_a_second() -> None:
    async with MemoryServer([tavern(empty_ttl_s=0.0)]) as server:
        room, left_at = await emptied(server)

        await asyncio.sleep(3.5)

        assert waits(room, left_at) == [0.0, 1.0, 1.0, 1.0]


@in_virtual_time
async def test_a_room_that_nobody_has_joined_may_stay_too() -> None:
    async with MemoryServer([tavern()], limits=Limits(unjoined_s=5.0)) as server:
        created_at = asyncio.get_running_loop().time()
        room = await server.create_room("tavern")
        assert isinstance(room, Tavern)

        await asyncio.sleep(26.0)

        assert waits(room, created_at) == [5.0, 10.0, 10.0]


@in_virtual_time
async def test_players_come_and_go_in_a_room_that_stayed_and_it_waits_for_its_time_again() -> None:
    async with MemoryServer([tavern()]) as server:
        room, _ = await emptied(server)
        await asyncio.sleep(11.0)

        bob = await server.connect("bob")
        joined = await bob.join(room.id)
        await asyncio.sleep(60.0)
        assert len(room.asked_at) == 1
        await joined.leave()
        left_at = asyncio.get_running_loop().time()
        room.is_popular = False
        await asyncio.sleep(11.0)

        assert round(room.asked_at[-1] - left_at, 1) == 10.0
        assert len(server.rooms) == 0


class Thinking(Tavern):
    is_popular = False

    async def on_destroy(self) -> None:
        self.lines.append("on_destroy")
        await asyncio.sleep(5.0)
        self.lines.append("agreed")


@in_virtual_time
async def test_a_player_who_joins_while_the_game_decides_keeps_the_room() -> None:
    async with MemoryServer([tavern(on_destroy=Thinking.on_destroy, is_popular=False)]) as server:
        room, _ = await emptied(server)
        ended: list[RoomEnded] = []
        server.on(RoomEnded, ended.append)
        await asyncio.sleep(11.0)
        assert room.lines[-1] == "on_destroy"

        bob = await server.connect("bob")
        joined = await bob.join(room.id)
        await asyncio.sleep(60.0)

        assert room.lines[-3:] == ["on_destroy", "agreed", "on_join"]
        assert [player.id for player in room.players] == ["bob"]
        assert not ended

        await joined.leave()
        await asyncio.sleep(16.0)

        assert room.lines[-3:] == ["on_destroy", "agreed", "on_destroyed"]
        assert [each.reason for each in ended] == ["empty"]


@in_virtual_time
async def test_only_a_passive_end_can_be_refused() -> None:
    for how in ("close", "operator", "stop"):
        async with MemoryServer([tavern()]) as server:
            ada = await server.connect("ada")
            joined = await ada.join_or_create("tavern")
            room = server.rooms.get(joined.id)
            assert isinstance(room, Tavern)

            if how == "close":
                server.machine.call(room.close)
            elif how == "operator":
                await server.machine.do(server.operate.rooms.end(room.id, ""))
            else:
                await server.stop()
            await asyncio.sleep(0.1)

            assert room.lines[1:] == [("on_leave", Reason.ROOM_CLOSED), "on_destroy", "on_destroyed"], how
            # A refusal that counts for nothing is no failure of the game either.
            assert server.failures.errors == []


@in_virtual_time
async def test_an_operator_may_end_a_room_whose_game_is_deciding() -> None:
    async with MemoryServer([tavern(on_destroy=Thinking.on_destroy)]) as server:
        room, _ = await emptied(server)
        await asyncio.sleep(11.0)

        await server.machine.do(server.operate.rooms.end(room.id, ""))
        await asyncio.sleep(20.0)

        assert room.lines[-1] == "on_destroyed"
        assert len(server.rooms) == 0


@in_virtual_time
async def test_an_error_in_on_destroy_is_no_refusal() -> None:
    def fail(room: Tavern) -> None:
        raise ZeroDivisionError

    async with MemoryServer([tavern(on_destroy=fail)], allow_errors=ZeroDivisionError) as server:
        await emptied(server)

        await asyncio.sleep(11.0)

        assert len(server.rooms) == 0
        assert len(server.failures.errors) == 1


@in_virtual_time
async def test_a_recovered_room_is_asked_again() -> None:
    for durability in ("commit", "checkpoint"):
        kind = tavern(durability=durability, checkpoint_s=0.1, state=None)
        async with MemoryServer([kind], store=FaultyStore()) as server:
            first, _ = await emptied(server)
            await asyncio.sleep(11.0)
            server.crash()
            await server.start()
            room = server.rooms.get(first.id)
            assert isinstance(room, Tavern)

            await asyncio.sleep(21.0)

            assert len(room.asked_at) == 2
            room.is_popular = False
            await asyncio.sleep(10.0)
            assert len(server.rooms) == 0
            server.crash()
            await server.start()
            assert len(server.rooms) == 0


@in_virtual_time
async def test_the_end_is_told_when_it_begins_and_not_when_it_is_refused() -> None:
    async with MemoryServer([tavern()]) as server:
        told: list[RoomEnding | RoomEnded] = []
        server.on(RoomEnding, told.append)
        server.on(RoomEnded, told.append)
        room, _ = await emptied(server)
        await asyncio.sleep(11.0)
        assert told == []

        room.is_popular = False
        await asyncio.sleep(10.0)

        ending, ended = told
        assert isinstance(ending, RoomEnding)
        assert (ending.room, ending.kind, ending.reason) == (room.id, "tavern", "empty")
        assert isinstance(ended, RoomEnded)
        assert ended.reason == "empty"
