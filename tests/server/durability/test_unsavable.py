"""What the log says of a room that cannot be saved names the field, as the game would write it."""

from typing import Any

import msgspec
import pytest

from holdfast import PlayerData, Room
from holdfast.core.saved_types import unsavable_field
from holdfast.testing import MemoryServer
from tests.server.durability.bench import in_virtual_time


class Hero(PlayerData):
    hp: int = 100


class Card(msgspec.Struct):
    rank: int
    note: Any = None


class Board(msgspec.Struct):
    cards: list[Card]
    seats: dict[str, Any]
    round: int = 0


class Table(Room[Hero]):
    state: Board

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board([Card(1), Card(2)], {})


def nothing(room: Room[Hero]) -> None: ...


def an_object_deep_inside(room: Room[Hero]) -> None:
    room.state.cards[1].note = {"by": [object()]}


def a_wrong_type(room: Room[Hero]) -> None:
    room.state.round = "first"


def a_wrong_type_in_a_list(room: Room[Hero]) -> None:
    room.state.cards[0].rank = 1.5


def a_players_data(room: Room[Hero]) -> None:
    room.players[0].data.hp = "all"  # type: ignore[assignment] # what is wrong with it


def itself(room: Room[Hero]) -> None:
    room.state.seats["ada"] = room.state.seats


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (nothing, ""),
        (an_object_deep_inside, "state.cards[1].note['by'][0]"),
        (a_wrong_type, "state.round"),
        (a_wrong_type_in_a_list, "state.cards["),
        (a_players_data, "player('ada').data.hp"),
        (itself, "state.seats['ada']"),
    ],
)
@in_virtual_time
async def test_the_field_is_named(spoil: Any, field: str) -> None:
    async with MemoryServer([Table]) as server:
        room = await server.create_room("table")
        ada = await server.connect("ada")
        await ada.join(room.id)

        spoil(room)

        assert unsavable_field(room).startswith(field)
        assert bool(unsavable_field(room)) == bool(field)
