"""Recordings of rooms: exact at every turn, bounded, and without a trace in rooms that are not recorded."""

import asyncio
import math
from random import Random
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Limits, on
from holdfast.core.recording_file import from_bytes
from holdfast.schemas.recording import TurnPage
from holdfast.testing import FaultyStore, MemoryServer, run
from tests.server.recorded_table import Dealt, Play, Played, Table, operations_of, play_some, seen_of


class Watched(Table):
    """Notes what there is at the end of each message."""

    kind = "watched"

    def on_create(self, config: dict[str, Any]) -> None:
        super().on_create(config)
        self.seen: list[dict[str, Any]] = []

    @on(Play)
    def play(self, player: Any, play: Play) -> None:
        try:
            super().play(player, play)
        finally:
            self.seen.append(seen_of(self))


@pytest.mark.parametrize("seed", range(5))
def test_the_recorded_state_of_each_turn_is_the_one_the_room_had(seed: int) -> None:
    async def scenario() -> None:
        async with MemoryServer([Watched], seed=seed) as server:
            ada = await server.connect("ada", messages=[Played, Dealt])
            bob = await server.connect("bob", messages=[Played, Dealt])
            room, other = await ada.join_or_create("watched"), await bob.join_or_create("watched")
            random = Random(seed)
            await asyncio.gather(play_some(room, random, 180), play_some(other, random, 180))
            await asyncio.sleep(1)
            watched: Any = server.rooms.get(room.id)
            reader = server.parts.recordings.get(room.id).reader()

            numbers = [turn.number for turn in reader.turns() if turn.cause.kind == "message"]
            assert len(numbers) == len(watched.seen) == 360
            for number, seen in zip(numbers, watched.seen, strict=True):
                recorded = reader.state_at(number)
                assert {name: recorded[name] for name in seen} == seen
            # Several blocks, and what is read in one go is the same as what is read turn by turn.
            assert len(reader.blocks) > 3
            last = {number: str(state) for number, state in reader.states(1, reader.last)}
            assert last[numbers[150]] == str(reader.state_at(numbers[150]))

    run(scenario())


async def _table(server: MemoryServer) -> tuple[Any, Any, Any]:
    ada = await server.connect("ada", messages=[Played, Dealt])
    bob = await server.connect("bob", messages=[Played, Dealt])
    room = await ada.join_or_create("table")
    return room, await bob.join_or_create("table"), server.rooms.get(room.id)


def page_of(server: MemoryServer, room_id: str) -> TurnPage:
    return operations_of(server).page(server.parts.recordings.get(room_id).reader())


def test_a_turn_says_what_caused_it_what_it_changed_and_what_it_sent() -> None:
    async def scenario() -> None:
        async with MemoryServer([Table]) as server:
            room, _, _ = await _table(server)
            await room.send(Play(7, "a"))
            await room.send(Play(8))
            await asyncio.sleep(31)
            page = page_of(server, room.id)

            told = [(turn.kind, turn.name, turn.player) for turn in page.turns]
            assert told[:4] == [
                ("hook", "on_create", ""),
                ("hook", "on_created", ""),
                ("hook", "on_join", "ada"),
                ("hook", "on_join", "bob"),
            ]
            played, refused, rang = page.turns[4], page.turns[5], page.turns[6]
            assert (played.name, played.player, played.body) == ("play", "ada", {"number": 7, "about": "a"})
            assert set(played.changed) == {"players.ada.score", "room.groups.a"}
            assert [(sent.name, sent.players, sent.body) for sent in played.sent] == [
                ("played", ["ada", "bob"], {"number": 7})
            ]
            assert (refused.error_code, refused.error, refused.changed) == ("refused", "not this one", [])
            assert (rang.kind, rang.name, rang.changed) == ("timer", "remind", ["room.timers.1"])
            assert rang.at == pytest.approx(played.at + 30.0)

    run(scenario())


def test_a_turn_that_fails_is_recorded_with_its_error_and_the_place_of_it() -> None:
    class Broken(Table):
        kind = "table"

        @on(Play)
        def play(self, player: Any, play: Play) -> None:
            raise KeyError("no such card")

    async def scenario() -> None:
        async with MemoryServer([Broken], allow_errors=KeyError) as server:
            room, _, _ = await _table(server)
            await room.send(Play(1))
            await asyncio.sleep(1)
            turn = page_of(server, room.id).turns[-1]

            assert (turn.kind, turn.name, turn.error_code) == ("message", "play", "failed")
            assert turn.error.startswith("KeyError: 'no such card' (test_recording.py:")

    run(scenario())


def test_a_room_that_is_not_recorded_has_no_recorder() -> None:
    class Plain(Table):
        kind = "table"
        record = "off"

    async def scenario() -> None:
        async with MemoryServer([Plain]) as server:
            room, _, _ = await _table(server)

            runner = server.rooms.runner(room.id)
            assert (runner.recorder, runner.turns.recorder, len(server.parts.recordings)) == (None, None, 0)
            with pytest.raises(holdfast.NotFound, match="there is no recording"):
                operations_of(server).get(room.id)

    run(scenario())


def test_a_ring_keeps_the_last_seconds_and_discards_older_turns() -> None:
    class Ring(Table):
        kind = "table"
        record = "off"
        record_s = 60.0
        tick_hz = 5

    async def scenario() -> None:
        async with MemoryServer([Ring]) as server:
            room, _, _ = await _table(server)
            await asyncio.sleep(300)
            recording = server.parts.recordings.get(room.id)
            reader = recording.reader()

            turns = list(reader.turns())
            kept_s = turns[-1].at - turns[0].at
            # Discarded block by block.
            assert 60.0 <= kept_s <= 75.0
            assert reader.first > 1000
            assert reader.state_at(reader.first)["players"].keys() == {"ada", "bob"}

    run(scenario())


def test_a_recording_stays_within_its_bytes_and_the_node_within_those_of_all() -> None:
    limits = Limits(recording_bytes_max=8_000, recordings_bytes_max=20_000, recordings_kept_max=2)

    async def scenario() -> None:
        async with MemoryServer([Table], limits=limits) as server:
            recordings = server.parts.recordings
            ended = []
            for _ in range(4):
                ada = await server.connect("ada", messages=[Played, Dealt])
                room = await ada.join_or_create("table")
                await play_some(room, Random(1), 900)
                await asyncio.sleep(1)
                *stored, _ = recordings.get(room.id).blocks()
                assert sum(len(block.data) for block in stored) <= limits.recording_bytes_max
                assert recordings.get(room.id).first > 1
                ended.append(room.id)
                server.rooms.runner(room.id).end("enough")
                await asyncio.sleep(1)
                await ada.close()

            # Those that have ended give way first; the last is still there to be looked at.
            assert recordings.size_bytes <= limits.recordings_bytes_max
            assert not operations_of(server).get(ended[-1]).is_live
            with pytest.raises(holdfast.NotFound):
                recordings.get(ended[0])

    run(scenario())


def test_a_state_that_grows_too_large_ends_its_recording_and_nothing_else() -> None:
    async def scenario() -> None:
        async with MemoryServer([Table], limits=Limits(recorded_state_bytes_max=2_000)) as server:
            room, _, table = await _table(server)
            server.machine.result_of(lambda: table.state.notes.update(a=list(range(3_000))))
            await room.send(Play(7))
            await room.send(Play(7))
            await asyncio.sleep(1)

            assert "recorded_state_bytes_max" in operations_of(server).get(room.id).stopped
            assert table.players[0].data.score == 14

    run(scenario())


class Grid(msgspec.Struct):
    tiles: dict[tuple[int, int], int] = {}


class GridTable(holdfast.Room[holdfast.PlayerData], kind="table"):
    record = "game"
    durability = "commit"
    state: Grid

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Grid({(1, 2): 3})

    @on(Play)
    def play(self, player: Any, play: Play) -> None:
        self.state.tiles[play.number, 0] = 1


def test_a_state_that_cannot_be_recorded_ends_its_recording_and_nothing_else() -> None:
    async def scenario() -> None:
        async with MemoryServer([GridTable], store=FaultyStore()) as server:
            session = await server.connect("ada")
            room = await session.join_or_create("table")
            await room.ask(Play(1))
            server.crash()
            await server.start()

            await room.ask(Play(2))

            assert "cannot be recorded" in operations_of(server).get(room.id).stopped
            (table,) = server.rooms
            assert table.state.tiles == {(1, 2): 3, (1, 0): 1, (2, 0): 1}

    run(scenario())


def test_values_of_another_type_than_declared_are_recorded_all_the_same() -> None:
    async def scenario() -> None:
        async with MemoryServer([Table], allow_errors=Exception) as server:
            room, _, table = await _table(server)
            await room.send(Play(7))
            await asyncio.sleep(1)
            server.machine.result_of(lambda: setattr(table.state, "pile", "not a list"))
            table.players[0].data.score = math.nan
            await room.send(Play(3, "a"))
            await asyncio.sleep(1)
            reader = server.parts.recordings.get(room.id).reader()

            assert reader.state_at(5)["players"]["ada"]["score"] == 7
            state = reader.state_at(reader.last)
            assert (state["state"]["pile"], state["state"]["notes"]) == ("not a list", {"a": [3]})
            assert math.isnan(state["players"]["ada"]["score"])

    run(scenario())


def test_a_player_that_drops_and_returns_is_seen_to_do_so() -> None:
    async def scenario() -> None:
        async with MemoryServer([Table]) as server:
            room, _, _ = await _table(server)
            server.link(server.clients[0]).cut()
            await asyncio.sleep(5)
            reader = server.parts.recordings.get(room.id).reader()

            hooks = [(each.turn.cause.name, each.turn.cause.player, each.changed) for each in reader.replay(5, 9)]
            assert hooks == [("on_drop", "ada", ["seats.ada.state"]), ("on_rejoin", "ada", ["seats.ada.state"])]

    run(scenario())


def test_a_file_holds_the_whole_recording() -> None:
    async def scenario() -> None:
        async with MemoryServer([Table]) as server:
            room, _, table = await _table(server)
            await play_some(room, Random(2), 250)
            await asyncio.sleep(1)
            operations = operations_of(server)

            reader = from_bytes(operations.file(room.id))

            live = server.parts.recordings.get(room.id).reader()
            assert list(reader.turns()) == list(live.turns())
            state = reader.state_at(reader.last)
            assert {name: state[name] for name in ("state", "players")} == seen_of(table)
            assert (reader.head.room, reader.head.kind) == (room.id, "table")

    run(scenario())


def test_what_is_shown_for_one_player_has_nothing_of_anothers_secrets() -> None:
    async def scenario() -> None:
        async with MemoryServer([Table]) as server:
            room, other, table = await _table(server)
            random = Random(3)
            await asyncio.gather(play_some(room, random, 100), play_some(other, random, 100))
            await asyncio.sleep(1)
            operations = operations_of(server)
            last = operations.get(room.id).last
            secrets = {card.number for card in table.player("bob").data.cards} | set(table.state.deck)
            own = {card.number for card in table.player("ada").data.cards}

            reader = server.parts.recordings.get(room.id).reader()
            shown = [operations.state(reader, number=last, player="ada")]
            pages = [operations.page(reader, first=first, player="ada") for first in range(1, last, 100)]

            state = shown[0].state
            assert [card["number"] for card in state["mine"]["cards"]] == [
                card.number for card in table.player("ada").data.cards
            ]
            assert "cards" not in state["players"]["bob"]
            assert "deck" not in state["state"]
            assert "room" not in state
            turns = [turn for page in pages for turn in page.turns]
            assert all(turn.player in ("", "ada") for turn in turns)
            assert all(each.players == ["ada"] for turn in turns for each in turn.sent)
            dealt = [each.body["numbers"] for turn in turns for each in turn.sent if each.name == "dealt"]
            assert dealt
            assert not (secrets - own) & {number for numbers in dealt for number in numbers}

    run(scenario())


def test_a_turn_that_was_undone_has_changed_nothing_and_sent_only_its_refusal() -> None:
    class Careful(Table):
        kind = "table"
        transactional = True

        @on(Play)
        def play(self, player: Any, play: Play) -> None:
            super().play(player, play)
            player.send(Played(-2))
            player.send_latest(Played(-3))
            raise holdfast.Refused("after all")

    async def scenario() -> None:
        async with MemoryServer([Careful]) as server:
            room, _, _ = await _table(server)
            await room.send(Play(7, "a"))
            await asyncio.sleep(1)
            turn = page_of(server, room.id).turns[-1]

            assert (turn.error, turn.changed) == ("after all", [])
            assert [sent.name for sent in turn.sent] == ["holdfast.refused"]

    run(scenario())
