"""Groups in whole games: through drops, takeovers, kicks, rounds and crashes, with agents, in every kind of room."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import ClientRoom, Message, Player, PlayerData, Room, on
from holdfast.core.codec import JSON, MSGPACK
from holdfast.server.agents import AgentRoom
from holdfast.testing import FaultyStore, MemoryServer, run


class Join(Message):
    group: str


class Leave(Message):
    group: str


class Say(Message):
    group: str
    text: str


class Do(Message):
    what: str


class Said(Message):
    text: str


class Field(Room[PlayerData]):
    """Players join and leave groups, and speak to them. It remembers what `on_leave` saw of them."""

    grace_s = 60.0
    state: dict[str, list[str]]

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = {}

    def on_leave(self, player: Player[PlayerData], reason: Any) -> None:
        self.state[player.id] = members(self)

    @on(Join)
    def join(self, player: Player[PlayerData], join: Join) -> None:
        self.group(join.group).add(player)

    @on(Leave)
    def leave(self, player: Player[PlayerData], leave: Leave) -> None:
        self.group(leave.group).remove(player)

    @on(Say)
    def say(self, player: Player[PlayerData], say: Say) -> None:
        self.group(say.group).send(Said(say.text))

    @on(Do)
    def do(self, player: Player[PlayerData], do: Do) -> None:
        getattr(self, do.what)()


def members(room: Room[Any]) -> list[str]:
    return [f"{name}: {', '.join(player.id for player in group)}" for name, group in room.groups.items()]


DURABILITIES = pytest.mark.parametrize("durability", ["memory", "checkpoint", "commit"])


class Match:
    """A server with one field, and players on it."""

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self.rooms: dict[str, ClientRoom] = {}

    async def join(self, name: str, *groups: str, codec: str = MSGPACK.name) -> ClientRoom:
        client = await self.server.connect(name, messages=[Said], codec=codec)
        room = self.rooms[name] = await client.join_or_create("field")
        for group in groups:
            await room.send(Join(group))
        await room.flush()
        return room

    @property
    def room(self) -> Room[Any]:
        (room,) = self.server.rooms
        return room

    def client(self, name: str) -> Any:
        return [client for client in self.server.clients if client.player_id == name][-1]

    def drop(self, name: str) -> None:
        """Cut a player's connection; they stay away until `back`."""
        self.server.dialer(self.client(name)).is_down = True
        self.server.link(self.client(name)).cut()

    def back(self, name: str) -> None:
        self.server.dialer(self.client(name)).is_down = False

    async def crash(self) -> None:
        self.server.crash()
        await asyncio.sleep(1.0)
        await self.server.start()


def play(test: Callable[[Match], Coroutine[Any, Any, None]], durability: str = "memory") -> None:
    async def main() -> None:
        kind = type("Field", (Field,), {"durability": durability, "checkpoint_s": 5.0})
        async with MemoryServer([kind], store=FaultyStore()) as server:
            await test(Match(server))

    run(main())


@DURABILITIES
def test_a_group_reaches_clients_of_both_codecs_and_agents(durability: str) -> None:
    async def test(match: Match) -> None:
        ada = await match.join("ada", "red")
        bob = await match.join("bob", "red", codec=JSON.name)
        cyd = await match.join("cyd", "blue")

        async def agent() -> AgentRoom:
            return await match.server.open_agent("npc").join(ada.id)

        npc = await match.server.machine.do(agent())
        await npc.send(Join("red"))

        await cyd.send(Say("red", "attack"))
        await cyd.send(Say("blue", "hide"))

        assert await ada.receive() == await bob.receive() == Said("attack")
        assert await cyd.receive() == Said("hide")
        async for message in npc:
            assert message == Said("attack")
            break

    play(test, durability)


@DURABILITIES
def test_a_held_player_stays_in_the_group_and_hears_what_was_said_on_return(durability: str) -> None:
    async def test(match: Match) -> None:
        ada, bob = await match.join("ada", "red"), await match.join("bob", "red")
        match.drop("ada")
        await asyncio.sleep(1.0)

        for text in ("first", "second"):
            await bob.send(Say("red", text))
        await bob.flush()
        assert members(match.room) == ["red: ada, bob"]
        match.back("ada")

        assert [await ada.receive(), await ada.receive()] == [Said("first"), Said("second")]

    play(test, durability)


def test_a_player_who_leaves_for_good_leaves_all_groups_before_the_game_hears_of_it() -> None:
    async def test(match: Match) -> None:
        await match.join("ada", "red", "scouts")
        await match.join("bob", "red")

        await match.rooms["ada"].leave()

        assert members(match.room) == ["red: bob"]
        assert match.room.state == {"ada": ["red: bob"]}

    play(test)


@pytest.mark.parametrize("how", ["kick", "grace", "end of the session", "round"])
def test_whoever_loses_the_seat_loses_the_groups(how: str) -> None:
    async def test(match: Match) -> None:
        await match.join("ada", "red")
        bob = await match.join("bob", "red", "blue")
        player = match.room.player("ada")
        assert player is not None
        call = match.server.machine.call
        match how:
            case "kick":
                call(player.kick)
            case "grace":
                match.drop("ada")
            case "end of the session":
                call(player.session.end)
            case _:
                await bob.send(Do("start"))
                match.drop("ada")
                await asyncio.sleep(1.0)
                await bob.send(Do("end"))

        await asyncio.sleep(90.0)

        assert members(match.room) == ["red: bob", "blue: bob"]
        again = await match.join("ada")
        assert members(match.room) == ["red: bob", "blue: bob"]
        await again.leave()

    play(test)


def test_a_takeover_keeps_the_groups() -> None:
    async def test(match: Match) -> None:
        await match.join("ada", "red")
        bob = await match.join("bob", "red")

        ada = await match.join("ada")
        await bob.send(Say("red", "hello again"))

        assert members(match.room) == ["red: ada, bob"]
        while (message := await ada.receive()) != Said("hello again"):
            assert not isinstance(message, Said)

    play(test)


def test_a_player_who_is_in_the_room_twice_is_in_groups_by_seat() -> None:
    async def main() -> None:
        kind = type("Field", (Field,), {"durability": "commit", "duplicate": "allow"})
        async with MemoryServer([kind], store=FaultyStore()) as server:
            match = Match(server)
            left, right = await match.join("ada", "left"), await match.join("ada", "right", "both")
            await left.send(Join("both"))
            await left.flush()

            await match.crash()
            await right.send(Say("left", "for the first"))
            await left.send(Say("both", "for both"))

            assert [await left.receive(), await left.receive()] == [Said("for the first"), Said("for both")]
            assert await right.receive() == Said("for both")

    run(main())


@pytest.mark.parametrize("durability", ["checkpoint", "commit"])
def test_groups_survive_a_crash_with_their_room(durability: str) -> None:
    async def test(match: Match) -> None:
        ada = await match.join("ada", "red", "scouts")
        bob = await match.join("bob", "scouts", "blue")
        await match.join("cyd", "blue", "gone")
        await match.rooms["cyd"].leave()
        await asyncio.sleep(6.0)

        await match.crash()

        assert members(match.room) == ["red: ada", "scouts: ada, bob", "blue: bob"]
        await bob.send(Leave("blue"))
        await ada.send(Join("green"))
        await asyncio.sleep(6.0)
        await match.crash()
        assert members(match.room) == ["red: ada", "scouts: ada, bob", "green: ada"]
        await bob.send(Say("scouts", "still here?"))
        heard = [await next_said(room) for room in (ada, bob)]
        assert heard == [Said("still here?")] * 2

    play(test, durability)


async def next_said(room: ClientRoom) -> Message:
    while not isinstance(message := await room.receive(), Said):
        pass
    return message


def test_a_player_who_does_not_return_after_a_crash_leaves_the_groups() -> None:
    async def test(match: Match) -> None:
        await match.join("ada", "red")
        await match.join("bob", "red")
        match.drop("ada")

        await match.crash()
        assert members(match.room) == ["red: ada, bob"]
        await asyncio.sleep(90.0)

        assert members(match.room) == ["red: bob"]

    play(test, "commit")


def test_an_operator_sees_the_groups_of_the_players() -> None:
    async def test(match: Match) -> None:
        await match.join("ada", "red", "scouts")
        await match.join("bob")

        shown = match.server.operate.rooms.state(match.room.id).players

        assert [(player.player, player.groups) for player in shown] == [("ada", ["red", "scouts"]), ("bob", [])]

    play(test)


class Town(Field):
    """A room of many, in groups of many."""

    kind = "field"
    durability = "commit"
    max_players = 400


def test_one_message_in_a_room_with_large_groups_writes_none_of_them() -> None:
    async def main() -> None:
        store = FaultyStore()
        async with MemoryServer([Town], store=store) as server:
            match = Match(server)
            ada = await match.join("ada", "everybody")
            bob = await match.join("bob", "everybody")

            async def agents() -> None:
                for number in range(300):
                    npc = await server.open_agent(f"npc {number}").join(ada.id)
                    for group in range(8):
                        await npc.send(Join(f"group {(number + group) % 64}"))

            await server.machine.do(agents())
            for number in range(100):
                await bob.send(Say("nobody", str(number)))
                await bob.flush()
            key = f"room/{ada.id}"
            stored = {entry.key: entry.value for entry in await server.machine.do(store.list(key))}
            groups = {name: value for name, value in stored.items() if "/@groups/" in name}
            small = len(stored[key])

            await bob.send(Say("nobody", "again"))
            await bob.flush()
            again = {entry.key: entry.value for entry in await server.machine.do(store.list(key))}
            await match.crash()

            assert len(groups) > 32
            assert small < 16 * 1024
            assert groups == {name: value for name, value in again.items() if "/@groups/" in name}
            assert sum(len(group) for group in match.room.groups.values()) == 300 * 8 + 2

    run(main())
