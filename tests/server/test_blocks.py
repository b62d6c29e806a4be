"""What a room says to many in one turn reaches each client in one frame, and in the order in which it was said."""

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from holdfast import ClientRoom, Limits, Message, Player, PlayerData, Private, Refused, Room, on
from holdfast.client import protocol as client_protocol
from holdfast.core.codec import JSON, MSGPACK
from holdfast.core.codecs import CODECS
from holdfast.schemas.frames import BlockFrame, Data, FromServer, Welcome
from holdfast.testing import FaultyStore, MemoryServer, Network, run
from holdfast.transports.memory import MemoryTransport


class Do(Message):
    """Have the room say this: "all:…" to everybody, "bob:…" to one player; "kick:bob", "fail:"."""

    script: list[str]


class Pause(Message):
    """The same, and then wait for `Go` within the turn."""

    script: list[str]


class Plain(Pause):
    """The same, by a handler that is not `async def` itself."""


class Told(Message):
    text: str


class Points(PlayerData):
    score: int = 0
    secret: Private[int] = 0


class Hall(Room[Points]):
    max_players = 8

    def on_create(self, config: dict[str, Any]) -> None:
        self.go = asyncio.Event()

    @on(Do)
    def do(self, player: Player[Points], do: Do) -> None:
        player.data.score += 1
        for line in do.script:
            to, _, text = line.partition(":")
            if to == "all":
                self.broadcast(Told(text))
            elif to == "fail":
                raise Refused("no")
            elif to == "kick":
                next(each for each in self.players if each.id == text).kick("out")
            else:
                self.broadcast(Told(text), to=[each for each in self.players if each.id in to.split(",")])

    @on(Pause)
    async def pause(self, player: Player[Points], pause: Pause) -> None:
        self.do(player, Do(pause.script))
        await self.go.wait()

    @on(Plain)
    def plain(self, player: Player[Points], plain: Plain) -> Any:
        self.do(player, Do(plain.script))
        return self.go.wait()


class SharedHall(Hall):
    shares = ("players",)


class DurableHall(Hall):
    durability = "commit"


class CarefulHall(Hall):
    transactional = True


class EveryHall(SharedHall):
    durability = "commit"
    transactional = True


HALLS = (Hall, SharedHall, DurableHall, CarefulHall, EveryHall)


class Watched(Network):
    """Keeps the frames that leave the server, by player."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: defaultdict[Any, list[FromServer]] = defaultdict(list)

    def fate(self, sender: MemoryTransport, payload: bytes) -> float | None:
        if payload and sender is self.link(sender.wire).end("server"):
            self._heard[sender.wire] += CODECS[sender.subprotocol.name].from_server(payload)
        return super().fate(sender, payload)

    def frames(self, player_id: str) -> list[list[str]]:
        """The texts in each frame with messages of the game."""
        found: list[list[str]] = []
        for frames in self._heard.values():
            if not any(isinstance(frame, Welcome) and frame.player == player_id for frame in frames):
                continue
            for frame in frames:
                said = frame.data() if isinstance(frame, BlockFrame) else [frame] if isinstance(frame, Data) else []
                texts = [_text(data) for data in said if data.type == "told"]
                found += [texts] if texts else []
        return found


def _text(data: Data) -> str:
    body = bytes(data.body)
    codec = JSON if body.startswith(b"{") else MSGPACK
    told: Told = codec.body_decoder(Told).decode(body)
    return told.text


async def two(server: MemoryServer, kind: str) -> tuple[ClientRoom, ClientRoom]:
    """Ada with MessagePack, Bob with JSON."""
    rooms = []
    for name, codec in (("ada", MSGPACK), ("bob", JSON)):
        client = await server.connect(name, messages=[Told], codec=codec.name)
        rooms.append(await client.join_or_create(kind))
    return rooms[0], rooms[1]


async def texts(room: ClientRoom, count: int) -> list[str]:
    heard: list[str] = []
    while len(heard) < count:
        message = await room.receive()
        if isinstance(message, Told):
            heard.append(message.text)
    return heard


@pytest.mark.parametrize("hall", HALLS)
def test_what_a_turn_says_to_all_is_one_frame_for_each_of_them(hall: type[Hall]) -> None:
    async def main() -> None:
        network = Watched()
        async with MemoryServer([hall], network=network, store=FaultyStore()) as server:
            ada, bob = await two(server, hall.kind)

            await ada.send(Do(["all:a", "all:b", "all:c"]))

            assert await texts(ada, 3) == await texts(bob, 3) == ["a", "b", "c"]
            assert network.frames("ada") == network.frames("bob") == [["a", "b", "c"]]

    run(main())


@pytest.mark.parametrize("hall", HALLS)
def test_each_hears_what_all_and_what_some_are_told_in_the_order_in_which_it_was_said(hall: type[Hall]) -> None:
    async def main() -> None:
        network = Watched()
        async with MemoryServer([hall], network=network, store=FaultyStore()) as server:
            ada, bob = await two(server, hall.kind)

            await ada.send(Do(["all:a", "all:b", "bob:c", "all:d", "ada,bob:e", "ada:f", "all:g", "all:h"]))

            assert await texts(ada, 7) == ["a", "b", "d", "e", "f", "g", "h"]
            assert await texts(bob, 7) == ["a", "b", "c", "d", "e", "g", "h"]
            assert network.frames("ada") == [["a", "b"], ["d", "e"], ["f"], ["g", "h"]]
            assert network.frames("bob") == [["a", "b"], ["c"], ["d", "e"], ["g", "h"]]

    run(main())


@pytest.mark.parametrize("hall", HALLS)
def test_who_is_thrown_out_hears_what_was_said_before(hall: type[Hall]) -> None:
    async def main() -> None:
        async with MemoryServer([hall], store=FaultyStore()) as server:
            ada, bob = await two(server, hall.kind)

            await ada.send(Do(["all:a", "all:b", "kick:bob", "all:c"]))

            assert (await texts(ada, 3))[-1] == "c"
            heard = [message async for message in bob]
            assert [each.text for each in heard if isinstance(each, Told)][:2] == ["a", "b"]

    run(main())


def test_a_client_that_does_not_read_blocks_gets_every_message_in_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_protocol, "_FEATURES", [])

    async def main() -> None:
        network = Watched()
        async with MemoryServer([Hall], network=network) as server:
            ada, _ = await two(server, "hall")

            await ada.send(Do(["all:a", "all:b", "all:c"]))

            assert await texts(ada, 3) == ["a", "b", "c"]
            assert network.frames("ada") == [["a"], ["b"], ["c"]]

    run(main())


@pytest.mark.parametrize("pause", [Pause, Plain])
def test_what_a_turn_says_before_it_waits_is_heard_at_once(pause: type[Pause]) -> None:
    async def main() -> None:
        async with MemoryServer([Hall]) as server:
            ada, bob = await two(server, "hall")

            await ada.send(pause(["all:a", "all:b"]))

            assert await texts(bob, 2) == ["a", "b"]

    run(main())


@pytest.mark.parametrize("hall", [CarefulHall, EveryHall])
def test_a_turn_that_fails_has_told_nobody(hall: type[Hall]) -> None:
    async def main() -> None:
        network = Watched()
        async with MemoryServer([hall], network=network, store=FaultyStore()) as server:
            ada, bob = await two(server, hall.kind)

            await ada.send(Do(["all:a", "bob:b", "all:c", "fail:"]))
            await ada.send(Do(["all:d", "all:e"]))

            assert await texts(ada, 2) == await texts(bob, 2) == ["d", "e"]
            assert network.frames("ada") == network.frames("bob") == [["d", "e"]]

    run(main())


def test_a_turn_that_fails_without_being_undone_has_told_what_it_said_before() -> None:
    async def main() -> None:
        async with MemoryServer([Hall]) as server:
            ada, bob = await two(server, "hall")

            await ada.send(Do(["all:a", "all:b", "fail:", "all:c"]))

            assert await texts(bob, 2) == ["a", "b"]

    run(main())


def test_a_block_is_small_enough_to_get_through_a_slow_link() -> None:
    async def main() -> None:
        network = Watched()
        async with MemoryServer([Hall], network=network, limits=Limits(batch_bytes_max=1000)) as server:
            ada, bob = await two(server, "hall")

            await ada.send(Do([f"all:{number:0100}" for number in range(30)] + ["all:" + "x" * 2000, "all:end"]))

            await texts(bob, 32)
            sizes = [len(frame) for frame in network.frames("bob")]
            assert sizes[-2:] == [1, 1]
            assert 3 < max(sizes) < 10

    run(main())


@pytest.mark.parametrize("hall", HALLS)
def test_a_player_who_was_away_gets_what_all_were_told_exactly_once(hall: type[Hall]) -> None:
    async def main() -> None:
        network = Watched()
        async with MemoryServer([hall], network=network, store=FaultyStore()) as server:
            ada, bob = await two(server, hall.kind)
            await ada.send(Do(["all:a", "all:b", "all:c"]))
            assert await texts(bob, 2) == ["a", "b"]
            server.links[1].cut()

            for script in (["all:d", "all:e"], ["all:f"]):
                await ada.send(Do(script))

            assert await texts(bob, 4) == ["c", "d", "e", "f"]
            assert await texts(ada, 6) == ["a", "b", "c", "d", "e", "f"]

    run(main())
