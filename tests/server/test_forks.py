"""A new room from a recorded turn: the same state, seats for the same players, and a life of its own."""

import asyncio
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast import on
from holdfast.core.room import context_of
from holdfast.testing import FaultyStore, MemoryServer, run
from tests.server.recorded_table import Dealt, Hand, Play, Played, Table, operations_of, play_some, seen_of


class Durable(Table):
    kind = "durable"
    durability = "commit"


async def _played(server: MemoryServer, kind: str) -> tuple[Any, Any]:
    ada = await server.connect("ada", messages=[Played, Dealt])
    room = await ada.join_or_create(kind)
    await play_some(room, Random(4), 60)
    await asyncio.sleep(1)
    return ada, room


@pytest.mark.parametrize("kind", [Table, Durable])
def test_a_fork_goes_on_from_its_turn_and_leaves_the_first_room_alone(kind: type[Table]) -> None:
    async def scenario() -> None:
        async with MemoryServer([kind], store=FaultyStore()) as server:
            ada, room = await _played(server, kind.kind)
            operations = operations_of(server)
            before = seen_of(server.rooms.get(room.id))
            turn = operations.get(room.id).last - 20
            recorded = server.parts.recordings.get(room.id).reader().state_at(turn)

            info = await server.machine.do(operations.fork(room.id, turn))

            fork: Any = server.rooms.get(info.id)
            assert seen_of(fork) == {name: recorded[name] for name in ("state", "players")}
            assert (info.visibility, info.properties, info.players) == ("private", recorded["room"]["properties"], 1)
            assert [each.name for each in server.rooms.runner(info.id).timers.pending] == ["remind ada"]
            assert fork.owner_of("token of ada").id == "ada"
            assert hex(context_of(fork).random.getstate()[0]) == recorded["room"]["random"]
            # Its player takes the seat over, and plays on.
            await room.leave()
            again = await ada.join(info.id)
            score = fork.player("ada").data.score
            await again.send(Play(15))
            await asyncio.sleep(1)
            assert fork.player("ada").data.score == score + 15
            assert seen_of(server.rooms.get(room.id))["state"] == before["state"]

    run(scenario())


def test_a_fork_of_a_durable_room_survives_a_crash() -> None:
    async def scenario() -> None:
        async with MemoryServer([Durable], store=FaultyStore()) as server:
            _, room = await _played(server, "durable")
            operations = operations_of(server)
            info = await server.machine.do(operations.fork(room.id, 10))
            seen = seen_of(server.rooms.get(info.id))

            server.crash()
            await server.start()

            assert seen_of(server.rooms.runner(info.id).room) == seen

    run(scenario())


def test_a_fork_has_a_recording_of_its_own_that_begins_with_what_it_was_made_from() -> None:
    async def scenario() -> None:
        async with MemoryServer([Table]) as server:
            _, room = await _played(server, "table")
            operations = operations_of(server)
            recorded = server.parts.recordings.get(room.id).reader().state_at(30)

            info = await server.machine.do(operations.fork(room.id, 30))

            reader = server.parts.recordings.get(info.id).reader()
            assert reader.turn(1).cause.name == "on_recover"
            assert reader.state_at(0)["state"] == recorded["state"]

    run(scenario())


def test_a_turn_that_is_not_there_is_refused() -> None:
    async def scenario() -> None:
        async with MemoryServer([Table]) as server:
            _, room = await _played(server, "table")

            with pytest.raises(holdfast.NotFound, match=r"no turn 999: turns 1 to \d+ are kept"):
                await server.machine.do(operations_of(server).fork(room.id, 999))

    run(scenario())


def test_a_recording_of_other_types_is_refused_before_anything_is_made() -> None:
    class Other(holdfast.PlayerData):
        score: str = ""

    class Changed(holdfast.Room[Other]):
        kind = "table"

        @on(Play)
        def play(self, player: Any, play: Play) -> None: ...

    async def scenario() -> None:
        async with MemoryServer([Table]) as server:
            _, room = await _played(server, "table")
            reader = server.parts.recordings.get(room.id).reader()
        async with MemoryServer([Changed]) as server:
            with pytest.raises(holdfast.Invalid, match=r"other types: the data of ada: Expected `str`, got `int`"):
                await server.machine.do(operations_of(server).fork_from(reader, 10))

            assert (len(server.rooms), len(server.sessions)) == (0, 0)

    run(scenario())


def test_players_of_a_fork_are_not_found_by_their_names_elsewhere() -> None:
    async def scenario() -> None:
        async with MemoryServer([Table]) as server:
            ada, room = await _played(server, "table")
            await server.machine.do(operations_of(server).fork(room.id, 10))

            await room.send(Play(7))
            await asyncio.sleep(1)

            assert ada.drops == 0
            assert Hand in (type(player.data) for player in server.rooms.runner(room.id).room.players)

    run(scenario())
