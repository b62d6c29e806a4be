"""The games that are played on the bench. Each test makes its own kind with `table`, with a story of its own."""

import asyncio
from typing import Any, ClassVar

import msgspec

from holdfast import Message, Player, PlayerData, Reason, Room, on


class Say(Message):
    text: str


class Do(Message):
    """Have the room do one of its methods."""

    what: str
    arguments: list[Any] = msgspec.field(default_factory=list)


class Said(Message):
    text: str


class Glimpse(Message):
    text: str


MESSAGES = [Said, Glimpse]


class Hero(PlayerData):
    count: int = 0


class Board(msgspec.Struct):
    said: list[str] = []
    left: list[str] = []
    anything: Any = None


class Table(Room[Hero]):
    """Writes down what everybody says, and repeats it with a number. `Do` calls one of its methods."""

    durability = "commit"
    state: Board
    story: ClassVar[list[str]]
    door: ClassVar[asyncio.Event]

    def on_create(self, config: dict[str, Any]) -> Any:
        self.state = Board()

    def on_join(self, player: Player[Hero]) -> Any:
        self.story.append(f"join {player.id}")

    def on_drop(self, player: Player[Hero]) -> Any:
        self.story.append(f"drop {player.id}")

    def on_rejoin(self, player: Player[Hero]) -> Any:
        self.story.append(f"rejoin {player.id}")

    def on_resync(self, player: Player[Hero]) -> Any:
        self.story.append(f"resync {player.id}")
        player.send(Said(f"state {len(self.state.said)}"))

    def on_leave(self, player: Player[Hero], reason: Reason) -> Any:
        self.story.append(f"leave {player.id} {reason}")
        self.state.left.append(player.id)

    def on_recover(self) -> Any:
        self.story.append("recover")

    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> Any:
        player.data.count += 1
        self.state.said.append(f"{player.id}:{say.text}")
        self.broadcast(Said(f"{player.id}:{say.text}"))

    @on(Do)
    def did(self, player: Player[Hero], do: Do) -> Any:
        return getattr(self, do.what)(player, *do.arguments)

    # What can be done

    def glimpse(self, player: Player[Hero], text: str) -> None:
        player.send_latest(Glimpse(text))

    def finish(self, player: Player[Hero]) -> None:
        self.close()

    def spoil(self, player: Player[Hero]) -> None:
        self.state.anything = object()

    def repair(self, player: Player[Hero]) -> None:
        self.state.anything = None

    async def slow(self, player: Player[Hero], text: str) -> None:
        self.state.said.append("half")
        await self.door.wait()
        self.state.said.remove("half")
        self.state.said.append(text)
        self.broadcast(Said(text))

    def kick_one(self, player: Player[Hero], who: str) -> None:
        other = self.player(who)
        assert other is not None
        other.kick("go")

    def pay(self, player: Player[Hero], amount: int) -> None:
        self.effect("pay", {"amount": amount})


def table(base: type[Room[Any]] = Table, **settings: Any) -> type[Any]:
    """A kind of room with these settings and a story of its own."""
    door = asyncio.Event()
    door.set()
    return type(settings.pop("name", "Table"), (base,), {"story": [], "door": door, **settings})
