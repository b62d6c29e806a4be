"""Who is connected after a room was restored: nobody after a crash, everybody after a move, who heard nothing of it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from examples.last_card.game import Deal, Holder, LastCard
from examples.party.game import Lobby, PartyMember, PartyRoom, Ready

from holdfast import ClientRoom, Player, PlayerData, Room, SessionEnded
from holdfast.client.session import ClientSession
from tests.server.cluster.nodes import Nodes, in_virtual_time, soon, until


class Log(msgspec.Struct):
    lines: list[str] = []


class Roll(Room[PlayerData]):
    """Writes down what it hears of its players, and who is connected when it is restored."""

    durability = "commit"
    max_players = 8
    state: Log

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Log()

    def on_join(self, player: Player[PlayerData]) -> None:
        if self.phase == "lobby":
            self.start()

    def on_recover(self) -> None:
        here = [player.id for player in self.players if player.connected]
        self.state.lines.append(f"recover {','.join(here)}")

    def on_drop(self, player: Player[PlayerData]) -> None:
        self.state.lines.append(f"drop {player.id} {player.connected}")

    def on_rejoin(self, player: Player[PlayerData]) -> None:
        self.state.lines.append(f"rejoin {player.id} {player.connected}")


def roll(nodes: Nodes, room_id: str) -> Roll:
    [name] = nodes.where(room_id)
    room = nodes.servers[name].rooms.get(room_id)
    assert isinstance(room, Roll)
    return room


def lines(nodes: Nodes, room_id: str) -> list[str]:
    return roll(nodes, room_id).state.lines if nodes.where(room_id) else []


async def rolled(nodes: Nodes) -> tuple[ClientRoom, ClientSession]:
    """Two players of one room of the node a: one connected there, and one to b."""
    ann, bob = await nodes.connect("ann", "a", "b"), await nodes.connect("bob", "b")
    room = await ann.join_or_create("roll")
    await bob.join(room.id)
    assert nodes.where(room.id) == ["a"]
    return room, bob


@in_virtual_time
async def test_after_a_move_everybody_is_connected_who_was_and_no_hook_is_called_for_them() -> None:
    async with Nodes("ab", rooms=[Roll]) as nodes:
        room, _ = await rolled(nodes)

        await nodes.migration("a").move(room.id, "b")
        await room.flush()
        await asyncio.sleep(10.0)

        assert lines(nodes, room.id) == ["recover ann,bob"]
        assert all(player.connected for player in roll(nodes, room.id).players)


@in_virtual_time
async def test_after_a_drain_everybody_is_connected_who_was() -> None:
    async with Nodes("ab", rooms=[Roll]) as nodes:
        room, _ = await rolled(nodes)

        await nodes.a.drain(5.0)
        await nodes.a.stop()
        await room.flush()
        await asyncio.sleep(10.0)

        assert lines(nodes, room.id) == ["recover ann,bob"]
        assert all(player.connected for player in roll(nodes, room.id).players)


@in_virtual_time
async def test_a_player_who_was_away_before_the_move_is_away_after_it() -> None:
    async with Nodes("ab", rooms=[Roll]) as nodes:
        room, bob = await rolled(nodes)
        nodes.b.dialer(bob).is_down = True
        nodes.b.link(bob).cut()
        await until(lambda: "drop bob False" in lines(nodes, room.id))

        await nodes.migration("a").move(room.id, "b")
        nodes.b.dialer(bob).is_down = False
        await until(lambda: "rejoin bob True" in lines(nodes, room.id))

        assert lines(nodes, room.id) == ["drop bob False", "recover ann", "rejoin bob True"]


@in_virtual_time
async def test_after_a_takeover_nobody_is_connected_until_they_are_back() -> None:
    async with Nodes("ab", rooms=[Roll]) as nodes:
        room, _ = await rolled(nodes)

        nodes.a.crash()
        await until(lambda: len(lines(nodes, room.id)) == 3)

        first, *others = lines(nodes, room.id)
        assert first == "recover "
        assert sorted(others) == ["rejoin ann True", "rejoin bob True"]


@in_virtual_time
async def test_a_player_whose_connection_does_not_follow_drops() -> None:
    async with Nodes("ab", rooms=[Roll]) as nodes:
        room, bob = await rolled(nodes)
        nodes.b.dialer(bob).is_down = True

        moving = asyncio.create_task(nodes.migration("a").move(room.id, "b"))
        await soon(lambda: nodes.b.rooms.get(room.id) is not None)
        nodes.b.link(bob).cut()
        await moving
        await until(lambda: "drop bob False" in lines(nodes, room.id))

        assert lines(nodes, room.id) == ["recover ann,bob", "drop bob False"]


class Ends(Roll):
    kind = "roll"

    def on_recover(self) -> None:
        super().on_recover()
        self.end()


@in_virtual_time
async def test_a_round_that_ends_in_the_middle_of_a_move_takes_the_seats_of_those_only_who_are_away() -> None:
    async with Nodes("ab", rooms=[Ends]) as nodes:
        room, bob = await rolled(nodes)
        nodes.b.dialer(bob).is_down = True
        nodes.b.link(bob).cut()
        await until(lambda: "drop bob False" in lines(nodes, room.id))

        await nodes.migration("a").move(room.id, "b")
        await room.flush()

        assert [player.id for player in roll(nodes, room.id).players] == ["ann"]


# The examples


class Seen:
    """What a player sees of who is here."""

    def __init__(self, room: ClientRoom) -> None:
        self.room = room
        self.away: set[str] = set()
        room.on_change(lambda _: self._look())
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with suppress(SessionEnded):
            async for _ in self.room:
                pass

    def _look(self) -> None:
        self.away |= set(self.away_now)

    @property
    def away_now(self) -> list[str]:
        return [player.name for player in self.room.players.values() if not player.is_here]


Enter = Callable[[Nodes], Any]


async def cards(nodes: Nodes) -> Seen:
    ann = await nodes.servers["a"].connect(
        "ann", url=[nodes.a.address, nodes.b.address], name="Ann", state=Deal, data=Holder
    )
    bob = await nodes.servers["b"].connect("bob", name="Bob", state=Deal, data=Holder)
    seen = Seen(await ann.join_or_create("last_card"))
    await bob.join(seen.room.id)
    await until(lambda: bool(seen.room.state) and seen.room.state.turn != "" and len(seen.room.players) == 4)
    return seen


async def party(nodes: Nodes) -> Seen:
    ann = await nodes.servers["a"].connect(
        "ann", url=[nodes.a.address, nodes.b.address], name="Ann", state=Lobby, data=PartyMember
    )
    bob = await nodes.servers["b"].connect("bob", name="Bob", state=Lobby, data=PartyMember)
    seen = Seen(await ann.join_or_create("party"))
    await (await bob.join(seen.room.id)).ask(Ready(is_ready=True))
    await until(lambda: len(seen.room.players) == 2)
    return seen


@in_virtual_time
async def moved_and_crashed(enter: Enter) -> None:
    async with Nodes("ab", rooms=[LastCard, PartyRoom]) as nodes:
        seen = await enter(nodes)
        assert nodes.where(seen.room.id) == ["a"]

        await nodes.migration("a").move(seen.room.id, "b")
        await asyncio.sleep(10.0)

        assert {name for name in seen.away if not name.startswith("Bot")} == set()
        assert seen.away_now == []

        nodes.b.crash()
        await until(lambda: nodes.where(seen.room.id) == ["a"])
        await until(lambda: bool(seen.away) and "Bob" in seen.away)

        assert "Bob" in seen.away


@pytest.mark.parametrize("enter", [cards, party])
def test_the_players_of_an_example_are_shown_as_here_after_a_move_and_as_away_after_a_crash(enter: Enter) -> None:
    moved_and_crashed(enter)
