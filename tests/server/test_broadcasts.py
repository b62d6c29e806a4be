"""What a room tells some of its players: reliably across drops and crashes, encoded once, and nobody else hears it."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from holdfast import Auth, ClientRoom, Message, MessageRefused, Player, PlayerData, Refused, Room, on
from holdfast.core.codec import JSON, MSGPACK
from holdfast.server.agents import AgentRoom
from holdfast.testing import FaultyStore, MemoryServer, run
from tests.server.access.kit import Badge


class Tell(Message):
    """Have the room tell this to some."""

    whom: str
    text: str
    how: str = "reliably"


class Told(Message):
    text: str


class Hall(Room[PlayerData]):
    durability = "commit"
    grace_s = 60.0

    @on(Tell)
    def tell(self, player: Player[PlayerData], tell: Tell) -> None:
        ways: dict[str, dict[str, Any]] = {
            "others": {"exclude": [player]},
            "named": {"to": [each for each in self.players if each.id in {"ada", "bob"}]},
            "connected": {"where": lambda each: each.connected},
            "masters": {"role": "gm"},
            "failing": {"where": fails_for_the_last},
        }
        broadcast: Any = self.broadcast if tell.how == "reliably" else self.broadcast_latest
        broadcast(Told(tell.text), **ways[tell.whom])


def fails_for_the_last(player: Player[PlayerData]) -> bool:
    if player.id == "cyd":
        raise Refused("not for cyd")
    return True


async def three(server: MemoryServer) -> dict[str, ClientRoom]:
    """Ada with MessagePack, Bob with JSON, and Cyd, who is a game master."""
    rooms: dict[str, ClientRoom] = {}
    for badge, codec in (("ada", MSGPACK), ("bob", JSON), ("cyd+gm", MSGPACK)):
        client = await server.connect(auth=Auth("badge", badge), messages=[Told], codec=codec.name)
        rooms[client.player_id] = await client.join_or_create("hall")
    return rooms


def a_server() -> MemoryServer:
    return MemoryServer([Hall], store=FaultyStore(), auth=[Badge()])


@pytest.mark.parametrize(
    ("whom", "hear"),
    [("others", {"bob", "cyd"}), ("named", {"ada", "bob"}), ("connected", {"ada", "bob", "cyd"}), ("masters", {"cyd"})],
)
def test_a_broadcast_to_some_reaches_them_and_nobody_else(whom: str, hear: set[str]) -> None:
    async def main() -> None:
        async with a_server() as server:
            rooms = await three(server)

            await rooms["ada"].send(Tell(whom, "psst"))
            await rooms["ada"].send(Tell("connected", "everybody"))

            for name, room in rooms.items():
                first = await room.receive()
                assert first == Told("psst" if name in hear else "everybody")

    run(main())


def test_a_player_who_is_away_hears_what_was_for_them_on_return_and_nothing_else() -> None:
    async def main() -> None:
        async with a_server() as server:
            rooms = await three(server)
            bob = next(client for client in server.clients if client.player_id == "bob")
            server.dialer(bob).is_down = True
            server.link(bob).cut()
            await asyncio.sleep(1.0)

            for whom in ("named", "connected", "masters", "others"):
                await rooms["ada"].send(Tell(whom, whom))
            assert [await rooms["cyd"].receive() for _ in range(3)] == [
                Told("connected"),
                Told("masters"),
                Told("others"),
            ]
            server.crash()
            await server.start()
            server.dialer(bob).is_down = False

            assert [await rooms["bob"].receive() for _ in range(2)] == [Told("named"), Told("others")]

    run(main())


@pytest.mark.parametrize("how", ["reliably", "unreliably"])
def test_a_predicate_that_raises_reaches_nobody_and_the_sender_is_told(how: str) -> None:
    async def main() -> None:
        async with a_server() as server:
            rooms = await three(server)

            await rooms["ada"].send(Tell("failing", "psst", how))
            await rooms["ada"].send(Tell("connected", "everybody"))

            refused = await rooms["ada"].receive()
            assert isinstance(refused, MessageRefused)
            assert refused.message == "not for cyd"
            assert [await room.receive() for room in rooms.values()] == [Told("everybody")] * 3

    run(main())


def test_an_unreliable_broadcast_reaches_those_who_are_connected() -> None:
    async def main() -> None:
        async with a_server() as server:
            rooms = await three(server)

            async def join() -> AgentRoom:
                return await server.open_agent("npc").join(rooms["ada"].id)

            seat = await server.machine.do(join())

            await rooms["ada"].send(Tell("others", "psst", "unreliably"))

            assert await rooms["bob"].receive() == Told("psst")
            assert await rooms["cyd"].receive() == Told("psst")
            async for message in seat:
                assert message == Told("psst")
                break

    run(main())


@pytest.mark.parametrize("how", ["reliably", "unreliably"])
def test_a_broadcast_to_some_is_encoded_once_for_each_codec_among_them(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: Counter[str] = Counter()
    for codec in (MSGPACK, JSON):

        def encode(value: Any, name: str = codec.name, right: Any = codec.encode) -> bytes:
            encoded[name] += isinstance(value, Told)
            result: bytes = right(value)
            return result

        monkeypatch.setattr(codec, "encode", encode)

    async def main() -> None:
        async with a_server() as server:
            rooms = await three(server)

            await rooms["ada"].send(Tell("connected", "psst", how))
            assert [await room.receive() for room in rooms.values()] == [Told("psst")] * 3
            assert encoded == {MSGPACK.name: 1, JSON.name: 1}

            await rooms["ada"].send(Tell("masters", "psst", how))
            assert await rooms["cyd"].receive() == Told("psst")
            assert encoded == {MSGPACK.name: 2, JSON.name: 1}

    run(main())
