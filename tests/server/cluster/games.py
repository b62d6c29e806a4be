"""Games for the tests of clusters, each with one of the things that a room can have."""

from typing import Any

import msgspec

from holdfast import Message, Player, PlayerData, Room, on
from holdfast.core.room import RoomAgent
from tests.server.cluster.nodes import Board, Hero, Said, Say, Table


class Score(msgspec.Struct):
    total: int = 0
    by: dict[str, int] = {}


class Pot(Room[PlayerData]):
    """Shares its state."""

    durability = "commit"
    max_players = 8
    max_spectators = 8
    messages = (Said,)
    shares = ("state",)
    state: Score

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Score()

    @on(Say)
    def say(self, player: Player[PlayerData], say: Say) -> None:
        self.state.total += 1
        self.state.by = {**self.state.by, player.id: self.state.by.get(player.id, 0) + 1}


class Fails(Message):
    text: str


class Strict(Table):
    """Its turns are transactions."""

    kind = "strict"
    transactional = True

    @on(Fails)
    def fails(self, player: Player[Hero], fails: Fails) -> None:
        self.state.said.append(fails.text)
        raise ValueError(fails.text)


class Clock(Room[Hero]):
    """Says something every half second, and once after five seconds."""

    durability = "commit"
    messages = (Said,)
    state: Board

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board()
        self.every(0.5, self.tick)
        self.after(5.0, self.ring, "once")

    def tick(self) -> None:
        self.state.said.append("tick")
        self.broadcast(Said("tick", len(self.state.said)))

    def ring(self, what: str) -> None:
        self.state.said.append(what)


class Botted(Table):
    """Has an agent of its own, which repeats what it hears."""

    kind = "botted"

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board()
        self.open_agent("bot", self.brain)

    def on_recover(self) -> None:
        self.open_agent("bot", self.brain)

    async def brain(self, agent: RoomAgent[Hero]) -> None:
        while True:
            said = await agent.receive(Said)
            if "heard" not in said.text:
                agent.send(Say(f"heard {said.text}"))


class Hall(Table):
    """Forgets players who drop, and may be watched."""

    kind = "hall"
    disconnect = "hard"
    max_spectators = 8

    def on_leave(self, player: Player[Hero], reason: str) -> None:
        self.state.said.append(f"leave {player.id}")


class Watched(Table):
    """May be watched."""

    kind = "watched"
    max_spectators = 8
