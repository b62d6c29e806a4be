"""A shop that is asked, for the tests of asks."""

import asyncio
from typing import Any

from msgspec import Struct

from holdfast import (
    ClientRoom,
    ClientSession,
    Message,
    Player,
    PlayerData,
    Refused,
    Room,
    on,
)
from holdfast.core.room import Durability
from holdfast.testing import FaultyStore, MemoryServer


class Buy(Message):
    count: int


class Bought(Message):
    total: int


class Look(Message):
    """Answered with nothing."""


class Steal(Message):
    """For thieves only."""


class Haggle(Message):
    """The handler returns what it should not."""

    kind: str


class Wait(Message):
    """Takes its time."""

    seconds: float


class Flood(Message):
    """Send me more than is kept for me."""


class Wrong(Message):
    wire_name = "buy"
    count: str


class Goodbye(Message):
    """Takes the seat of its sender."""

    how: str


class Till(Struct):
    total: int = 0
    sold: list[int] = []


class Shop(Room[PlayerData]):
    grace_s = 60.0
    state: Till

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Till()

    def on_resync(self, player: Player[PlayerData]) -> None:
        player.send(Bought(self.state.total))

    @on
    def buy(self, player: Player[PlayerData], buy: Buy) -> Bought:
        if buy.count < 1:
            raise Refused("nothing to buy")
        self.state.total += buy.count
        self.state.sold.append(buy.count)
        return Bought(self.state.total)

    @on
    def look(self, player: Player[PlayerData], look: Look) -> None: ...

    @on(role="thief")
    def steal(self, player: Player[PlayerData], steal: Steal) -> Bought:
        return Bought(0)

    @on
    def haggle(self, player: Player[PlayerData], haggle: Haggle) -> Any:
        if haggle.kind == "raises":
            raise ZeroDivisionError
        return {"number": 5, "dict": {}, "class": Bought, "large": Haggle("x" * 100_000)}[haggle.kind]

    @on
    async def wait(self, player: Player[PlayerData], wait: Wait) -> Bought:
        await asyncio.sleep(wait.seconds)
        self.state.sold.append(-1)
        return Bought(self.state.total)

    @on
    def flood(self, player: Player[PlayerData], flood: Flood) -> Bought:
        for number in range(200):
            player.send(Bought(number))
        return Bought(-1)

    @on
    def goodbye(self, player: Player[PlayerData], goodbye: Goodbye) -> Bought:
        if goodbye.how == "kick":
            player.kick("thieves are not welcome")
        elif goodbye.how == "close":
            self.close()
        else:
            player.session.end("enough")
        return Bought(-1)


class Ledger(Shop):
    durability: Durability = "commit"


class Notes(Shop):
    durability: Durability = "checkpoint"
    checkpoint_s = 5.0


def serve(**options: Any) -> MemoryServer:
    return MemoryServer([Shop, Ledger, Notes], **{"store": FaultyStore(), **options})


async def shopper(server: MemoryServer, kind: str = "shop", **options: Any) -> tuple[ClientSession, ClientRoom]:
    session = await server.connect("ada", messages=[Bought, Haggle], **options)
    return session, await session.join_or_create(kind)


def shop(server: MemoryServer, room: ClientRoom) -> Shop:
    found = server.rooms.get(room.id)
    assert isinstance(found, Shop)
    return found
