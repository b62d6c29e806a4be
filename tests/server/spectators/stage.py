"""A stage that can be watched, and its audience, for the tests of spectators."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast import (
    ClientRoom,
    ClientSession,
    Message,
    Player,
    PlayerData,
    Reason,
    Refused,
    Room,
    Spectator,
    on,
)
from holdfast.testing import MemoryServer


class Say(Message):
    text: str


class Cheer(Message):
    text: str


class Do(Message):
    """Have the room do one of its methods."""

    what: str
    who: str = ""


class Said(Message):
    text: str


class Glimpse(Message):
    text: str


MESSAGES = [Said, Glimpse]


class Stage(Room[PlayerData]):
    """Repeats what is said, to everybody or to players only, and tells its story."""

    max_players = 2
    max_spectators = 3
    empty_ttl_s = 5.0

    def on_create(self, config: dict[str, Any]) -> None:
        self.story: list[str] = []

    def on_join(self, player: Player[PlayerData]) -> Any:
        self.story.append(f"join {player.id} {'here' if player.connected else 'away'}")
        self.broadcast(Said(f"{player.id} sits"))
        if player.id == "rude":
            raise Refused("no seat for you")

    def on_drop(self, player: Player[PlayerData]) -> None:
        self.story.append(f"drop {player.id}")

    def on_rejoin(self, player: Player[PlayerData]) -> None:
        self.story.append(f"rejoin {player.id}")

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
        self.story.append(f"leave {player.id} {reason}")

    def on_spectate(self, spectator: Spectator) -> Any:
        self.story.append(f"spectate {spectator.id}")
        if spectator.id == "mallory":
            raise Refused("not you")
        if spectator.id == "bug":
            raise ZeroDivisionError("a bug of the game")
        spectator.send(Said(f"welcome {spectator.id}"))

    def on_unspectate(self, spectator: Spectator, reason: Reason) -> None:
        self.story.append(f"unspectate {spectator.id} {reason}")

    def on_resync(self, player: Player[PlayerData] | Spectator) -> None:
        self.story.append(f"resync {type(player).__name__} {player.id}")
        player.send(Said("the state"))

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> Any:
        self.broadcast(Said(say.text))

    @on(Cheer, spectators=True)
    def cheered(self, who: Player[PlayerData] | Spectator, cheer: Cheer) -> None:
        self.broadcast(Said(f"{type(who).__name__} {who.id}: {cheer.text}"))

    @on(Do)
    def did(self, player: Player[PlayerData], do: Do) -> Any:
        return getattr(self, do.what)(do.who)

    def whisper(self, text: str) -> None:
        self.broadcast(Said(text), spectators=False)

    def but(self, who: str) -> None:
        self.broadcast(Said("not for one"), exclude=[each for each in self.spectators if each.id == who])

    def throw_out(self, who: str) -> None:
        next(each for each in self.spectators if each.id == who).kick("no phones")

    def raise_up(self, who: str) -> None:
        self.story.append(f"promoted {self.promote(self.watching(who)).id}")

    def raise_gone(self, who: str) -> None:
        spectator = self.watching(who)
        spectator.kick()
        self.promote(spectator)

    def raise_and_kick(self, who: str) -> None:
        self.promote(self.watching(who)).kick("changed my mind")

    def glimpse(self, text: str) -> None:
        for spectator in self.spectators:
            spectator.send_latest(Glimpse(f"old {text}"))
            spectator.send_latest(Glimpse(text))
        for player in self.players:
            player.send_latest(Glimpse(text))

    def finish(self, _: str) -> None:
        self.close()

    def name_it(self, name: str) -> None:
        self.update(name=name)

    def shut(self, _: str) -> None:
        self.lock()

    def watching(self, who: str) -> Spectator:
        return next(each for each in self.spectators if each.id == who)


def stage(**settings: Any) -> type[Stage]:
    return type("Stage", (Stage,), {"kind": "stage", **settings})


class Theatre:
    """A server with one stage, and ada on it."""

    def __init__(self, server: MemoryServer, ada: ClientSession, seat: ClientRoom) -> None:
        self.server = server
        self.ada = ada
        self.seat = seat

    @property
    def room(self) -> Stage:
        room = self.server.rooms.get(self.seat.id)
        assert isinstance(room, Stage)
        return room

    async def watch(self, name: str, **options: Any) -> tuple[ClientSession, ClientRoom]:
        client = await self.connect(name, **options)
        return client, await client.spectate(self.seat.id)

    async def connect(self, name: str, **options: Any) -> ClientSession:
        return await self.server.connect(name, messages=MESSAGES, **options)

    async def say(self, *messages: Message) -> None:
        for message in messages:
            await self.seat.send(message)
        await self.seat.flush()

    def session(self, client: ClientSession) -> Any:
        return self.server.sessions.get(client.id)


@asynccontextmanager
async def theatre(*kinds: type[Room[Any]], **options: Any) -> AsyncIterator[Theatre]:
    async with MemoryServer(kinds or [Stage], **options) as server:
        ada = await server.connect("ada", messages=MESSAGES)
        yield Theatre(server, ada, await ada.join_or_create("stage"))


async def heard(room: ClientRoom, last: str) -> list[str]:
    """What the room said, up to this."""
    texts: list[str] = []
    while not texts or texts[-1] != last:
        message = await room.receive()
        if isinstance(message, Said):
            texts.append(message.text)
    return texts
