"""A large world in `Parts`: shared, saved, undone and recorded entry by entry."""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from holdfast import Areas, ClientRoom, Message, Parts, Player, PlayerData, Refused, Room, on
from holdfast.testing import FaultyStore, MemoryServer, run
from tests.server.recorded_table import operations_of


class Chunk(msgspec.Struct):
    tiles: list[int] = []


class Orc(msgspec.Struct):
    x: int = 0


class Land(msgspec.Struct):
    name: str = ""
    chunks: Parts[Chunk] = msgspec.field(default_factory=Parts)
    orcs: Areas[Orc] = {}


class Dig(Message):
    chunk: str
    tile: int
    is_allowed: bool = True


class World(Room[PlayerData]):
    shares = ("state",)
    transactional = True
    durability = "commit"
    record = "game"
    grace_s = 60.0
    state: Land

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Land("Avalon", Parts({str(x): Chunk([0] * 8) for x in range(20)}), {"orc": Orc()})

    def area(self, entity: Orc) -> str:
        return "all"

    def sees(self, player: Player[PlayerData] | None) -> list[str]:
        return ["all"]

    @on(Dig)
    def dig(self, player: Player[PlayerData], dig: Dig) -> None:
        self.state.chunks[dig.chunk].tiles[dig.tile] += 1
        self.state.chunks[f"pit {dig.tile}"] = Chunk([dig.tile])
        self.state.chunks.pop("19", None)
        if not dig.is_allowed:
            raise Refused("not here")


def test_parts_are_exact_at_every_client_after_a_failed_turn_a_crash_and_in_a_fork() -> None:
    async def main() -> None:
        async with MemoryServer([World], store=FaultyStore()) as server:
            session = await server.connect("ada")
            room = await session.join_or_create("world", state=Land)
            await asyncio.sleep(0.5)
            await dig(room, Dig("3", 1, is_allowed=False))
            assert room.state == world(server).state
            assert list(room.state.chunks) == [str(x) for x in range(20)]

            await dig(room, Dig("3", 1))
            await dig(room, Dig("4", 2))
            assert room.state == world(server).state
            assert (room.state.chunks["3"].tiles[1], "19" in room.state.chunks) == (1, False)

            server.crash()
            await asyncio.sleep(1.0)
            await server.start()
            await asyncio.sleep(5.0)
            await dig(room, Dig("5", 3))
            assert room.state == world(server).state

            turns = server.parts.recordings.get(room.id).reader()
            fork = await server.machine.do(operations_of(server).fork(room.id, turns.last))
            assert server.parts.rooms.runner(fork.id).room.state == world(server).state
            replayed = list(turns.replay(turns.last, turns.last))
            assert set(replayed[-1].changed) == {"state.chunks.5.tiles.3", "state.chunks.pit 3"}

    run(main())


async def dig(room: ClientRoom, message: Dig) -> None:
    with suppress(Refused):
        await room.ask(message)
    await asyncio.sleep(0.2)


def world(server: MemoryServer) -> World:
    room = next(iter(server.rooms))
    assert isinstance(room, World)
    return room
