"""A recorded game with everything a recording can have in it, and random play."""

from random import Random
from typing import Any

import msgspec

import holdfast
from holdfast import F32, Hidden, Message, Private, Refused, on
from holdfast.core.room import Recorded, context_of
from holdfast.server.operate.recordings import RecordingOperations
from holdfast.testing import MemoryServer


class Card(msgspec.Struct):
    """A card."""

    number: int
    weight: F32 = 0.1


class Board(msgspec.Struct):
    """The state."""

    pile: list[Card] = []
    deck: Hidden[list[int]] = []
    notes: dict[str, list[int]] = {}
    leader: Card | None = None


class Hand(holdfast.PlayerData):
    """A player's data."""

    score: int = 0
    cards: Private[list[Card]] = msgspec.field(default_factory=list)


class Play(Message):
    """Play a card."""

    number: int
    about: str = ""


class Played(Message):
    """Somebody has."""

    number: int


class Dealt(Message):
    """A player's own cards."""

    numbers: list[int]


class Table(holdfast.Room[Hand]):
    """A card table."""

    kind = "table"
    record: Recorded = "game"
    shares = ("state", "players")
    state: Board

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board(deck=[self.random.randint(1, 1000) for _ in range(20)])
        self.properties["level"] = 1

    def on_join(self, player: Any) -> None:
        player.data.cards = [Card(self.random.randint(1, 1000)) for _ in range(3)]
        player.send(Dealt([card.number for card in player.data.cards]))
        self.own(player, f"token of {player.id}")
        self.after(30.0, self.remind, player, name=f"remind {player.id}")

    def remind(self, player: Any) -> None:
        self.broadcast(Played(-1))

    @on(Play)
    def play(self, player: Any, play: Play) -> None:
        state = self.state
        match play.number % 8:
            case 0:
                raise Refused("not this one")
            case 1:
                state.pile.insert(0, Card(play.number, self.random.random()))
            case 2 if state.pile:
                state.pile.pop(self.random.randrange(len(state.pile)))
            case 3:
                state.notes.setdefault(play.about, []).append(play.number)
            case 4:
                state.notes.pop(play.about, None)
                self.random.shuffle(state.pile)
            case 5:
                state.leader = state.pile[-1] if state.pile else None
                self.properties["level"] += 1
                self.start()
            case 6:
                player.data.cards.append(Card(state.deck.pop() if state.deck else 0))
                player.send(Dealt([card.number for card in player.data.cards]))
            case _:
                player.data.score += play.number
                self.group(play.about or "all").add(player)
        self.broadcast(Played(play.number))


async def play_some(room: Any, random: Random, turns: int) -> None:
    """Send so many random moves, one after the other."""
    for _ in range(turns):
        await room.send(Play(random.randrange(1000), random.choice("abc")))


def operations_of(server: MemoryServer) -> RecordingOperations:
    """What operators do with the recordings of a server."""
    parts = server.parts
    return RecordingOperations(parts.context, parts.rooms, parts.lifecycle, parts.recordings)


def seen_of(room: Any) -> dict[str, Any]:
    """A room's state and its players' data, as plain data."""
    players = {seat.player_id: seat.player.data for seat in context_of(room).seats.occupied}
    seen: dict[str, Any] = msgspec.to_builtins({"state": room.state, "players": players}, str_keys=True)
    return seen
