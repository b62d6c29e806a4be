"""A table that opens agents, for the tests of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

from holdfast import (
    ClientRoom,
    Message,
    Player,
    PlayerData,
    Reason,
    Refused,
    Room,
    RoomAgent,
    on,
)
from holdfast.testing import MemoryServer


class Say(Message):
    text: str


class Said(Message):
    who: str
    text: str


class Turn(Message):
    number: int


class Hand(PlayerData):
    cards: int = 0

    def reset(self) -> None:
        self.cards = 0


Agent = RoomAgent[Hand]


class Table(Room[Hand]):
    """Repeats what is said; opens the agents in `bots` when it is created."""

    max_players = 4
    bots: ClassVar[tuple[str, ...]] = ()
    brain: ClassVar[Any]

    def on_create(self, config: dict[str, Any]) -> Any:
        self.lines: list[Any] = []
        for name in self.bots:
            self.open_agent(name, self.play)

    def on_recover(self) -> None:
        self.lines = ["on_recover"]
        for name in self.bots:
            self.open_agent(name, self.play)

    def on_created(self) -> None:
        self.lines.append("on_created")

    def on_join(self, player: Player[Hand]) -> Any:
        self.lines.append(("on_join", player.id))
        player.data.cards += 7

    def on_drop(self, player: Player[Hand]) -> None:
        self.lines.append(("on_drop", player.id))

    def on_rejoin(self, player: Player[Hand]) -> None:
        self.lines.append(("on_rejoin", player.id, player.connected))

    def on_resync(self, player: Player[Hand]) -> None:
        self.lines.append(("on_resync", player.id))
        player.send(Said("room", f"you have {player.data.cards} cards"))

    def on_leave(self, player: Player[Hand], reason: Reason) -> None:
        self.lines.append(("on_leave", player.id, reason))

    def on_destroyed(self) -> None:
        self.lines.append("on_destroyed")

    def give(self, player_id: str, cards: int) -> None:
        """A turn that says nothing."""
        player = self.player(player_id)
        assert player is not None
        player.data.cards = cards

    @on(Say)
    def said(self, player: Player[Hand], say: Say) -> None:
        if say.text == "a bad word":
            raise Refused("not in here")
        self.broadcast(Said(player.id, say.text))

    async def play(self, agent: Agent) -> None:
        """Repeats what people say, in capitals."""
        async for message in agent:
            if isinstance(message, Said) and not message.who.startswith(("agent:", "room")):
                agent.send(Say(message.text.upper()))


def table(brain: Callable[..., Any] | None = None, *bots: str, **settings: Any) -> type[Table]:
    """A kind of room called "table" whose agents are played by this."""
    play = {"play": brain} if brain is not None else {}
    return type("Table", (Table,), {"kind": "table", "bots": bots, **play, **settings})


async def created(server: MemoryServer) -> Table:
    room = await server.create_room("table")
    assert isinstance(room, Table)
    return room


def opened(server: MemoryServer, room: Table, name: str, brain: Any) -> Player[Hand]:
    """An agent that the room opens now."""
    found: list[Player[Hand]] = []
    server.machine.call(lambda: found.append(room.open_agent(name, brain)))
    return found[0]


async def idle(room: Table, agent: Agent) -> None:
    await asyncio.Event().wait()


async def sleeping(agent: Agent) -> None:
    await asyncio.Event().wait()


async def a_moment() -> None:
    await asyncio.sleep(0.1)


async def first_words(room: ClientRoom, count: int) -> AsyncIterator[Said]:
    """The next words that somebody says."""
    while count:
        message = await room.receive()
        if isinstance(message, Said) and message.who != "room":
            count -= 1
            yield message


def host_of(room: Room[Any]) -> str:
    return room.host.id if room.host is not None else ""


def ids(room: Room[Any]) -> list[str]:
    return [player.id for player in room.players]
