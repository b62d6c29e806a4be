"""What rooms of the simulation share beside what they need themselves: values of many types, changed at random."""

from typing import Any

import msgspec

from holdfast.state import F32, Hidden, Private
from tests.state.worlds import (
    FIELDS,
    Box,
    Card,
    Editor,
    Make,
    Shield,
    Suit,
    Sword,
    card,
    dict_of,
    list_of,
    number,
    small_real,
    word,
)

SEALED = "known to nobody"
"""The text that no client may ever be sent."""
# Beyond this, lists and dicts are emptied: clients have small windows.
BYTES_MAX = 1_000
# The part of the changes that are made in a Struct that is shared already.
INSIDE = 0.4


class Sketch(msgspec.Struct):
    """Of a room: with values that nobody sees."""

    cards: list[Card] = []
    by_name: dict[str, Card] = {}
    by_number: dict[int, int] = {}
    hands: dict[str, list[Card]] = {}
    numbers: list[int] = []
    grid: list[list[int]] = []
    weapon: Sword | Shield | None = None
    weapons: list[Sword | Shield] = []
    either: int | bool = 0
    either_many: list[int | bool | None] = []
    anything: Any = None
    place: tuple[int, float] = (0, 0.0)
    names: set[str] = set()
    suit: Suit = Suit.CLUBS
    best: Card | None = None
    f32: F32 = 0.0
    secret_deck: Hidden[list[Card]] = []
    secret_word: Hidden[str] = SEALED


class Pocket(msgspec.Struct):
    """Of a player: with values that nobody else sees."""

    coins: dict[str, int] = {}
    marks: list[int] = []
    f32: F32 = 0.0
    own_cards: Private[list[Card]] = []
    own_word: Private[str] = ""
    secret_cards: Hidden[list[Card]] = []
    secret_word: Hidden[str] = SEALED


_BOX = FIELDS[Box]
_SKETCH: dict[str, Make] = {name: _BOX[name] for name in Sketch.__struct_fields__ if name in _BOX} | {
    "cards": list_of(card)
}
_POCKET: dict[str, Make] = {
    "coins": dict_of(word, number),
    "marks": list_of(number),
    "f32": small_real,
    "own_cards": list_of(card),
    "secret_cards": list_of(card),
}


def own_word(player_id: str) -> str:
    """The text that nobody but this player may be sent."""
    return f"known to {player_id} alone"


class Pencil(Editor):
    """Changes what rooms share."""

    def draw(self, sketch: Sketch | Pocket) -> None:
        """Change a value or two, or none."""
        for _ in range(self.random.randrange(3)):
            self._change(sketch)
        while len(msgspec.msgpack.encode(sketch)) > BYTES_MAX:
            self._rub_out(sketch)

    def _change(self, sketch: Sketch | Pocket) -> None:
        if isinstance(sketch, Pocket):
            self.edit(sketch, _POCKET)
            return
        inside = [*sketch.cards, *sketch.by_name.values(), *sketch.weapons, *sketch.secret_deck]
        if inside and self.random.random() < INSIDE:
            found = self.random.choice(inside)
            self.edit(found, FIELDS[type(found)])
        else:
            self.edit(sketch, _SKETCH)

    def _rub_out(self, sketch: Sketch | Pocket) -> None:
        """Empty the largest."""
        values = [getattr(sketch, name) for name in sketch.__struct_fields__]
        largest = max((value for value in values if isinstance(value, list | dict)), key=_size)
        largest.clear()


def _size(value: Any) -> int:
    return len(msgspec.msgpack.encode(value))
