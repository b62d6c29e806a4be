"""A state with everything that can be shared, and random changes of it: also those that trackers of changes miss."""

import copy
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any

import msgspec

from holdfast.state import F32, Hidden, Private


class Suit(Enum):
    CLUBS = "clubs"
    HEARTS = "hearts"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Card(msgspec.Struct):
    rank: int = 0
    suit: str = "clubs"
    weight: float = 0.0
    is_open: bool = False
    note: str | None = None
    f32: F32 = 0.0
    secret_mark: Hidden[int] = 0


class Sword(msgspec.Struct, tag="sword"):
    damage: int = 1
    runes: list[str] = []
    secret_curse: Hidden[str] = ""


class Shield(msgspec.Struct, tag="shield", omit_defaults=True):
    armour: int = 1
    worn: bool = False


class Box(msgspec.Struct, rename="camel"):
    """All kinds of fields; a box may contain boxes."""

    all_cards: list[Card] = []
    by_name: dict[str, Card] = {}
    by_number: dict[int, int] = {}
    by_level: dict[Level, list[int]] = {}
    by_suit: dict[Suit, str] = {}
    numbers: list[int] = []
    tiles: list[int] = []
    words: list[str] = []
    grid: list[list[int]] = []
    crowd: dict[str, Card] = {}
    hands: dict[str, list[Card]] = {}
    weapon: Sword | Shield | None = None
    weapons: list[Sword | Shield] = []
    either: int | bool = 0
    either_many: list[int | bool | None] = []
    anything: Any = None
    place: tuple[int, float] = (0, 0.0)
    places: list[tuple[int, int]] = []
    names: set[str] = set()
    suit: Suit = Suit.CLUBS
    best: Card | None = None
    score: int | msgspec.UnsetType = msgspec.UNSET
    f32: F32 = 0.0
    boxes: list["Box"] = []
    secret_deck: Hidden[list[Card]] = []
    own_hand: Private[list[Card]] = []


Make = Callable[[Random], Any]

_WORDS = ["", "a", "b", "ab", "ä", "__proto__", "0", "1"]
_NAMES = ["ada", "bob", "Cy", "10", "9", "dora", "_", "", "eve", "😀"]


def number(random: Random) -> int:
    return random.choice([0, 0, 1, 1, 2, 3, -1, 127, 128, 2**31, -(2**40), 2**53])


def tiles(random: Random) -> list[int]:
    """So many that they are compared in blocks."""
    return [random.randrange(3)] * random.choice([300, 300, 300, 1100])


def word(random: Random) -> str:
    return random.choice(_WORDS)


def name(random: Random) -> str:
    """Nearly always ASCII, so that keys are counted."""
    return random.choice(_NAMES[: 10 if random.random() < 0.02 else 9])


def real(random: Random) -> float:
    return random.choice([0.0, 1.0, 0.5, -2.25, 0.1, 1e300])


def small_real(random: Random) -> float:
    return random.choice([0.0, 1.0, 0.5, 0.1, 1e-3, 123456.789])


def truth(random: Random) -> bool:
    return random.random() < 0.5


def whatever(random: Random) -> Any:
    return random.choice([number, truth, word, real, list_of(number), dict_of(word, truth), constant(None)])(random)


def list_of(make: Make, most: int = 4) -> Make:
    return lambda random: [make(random) for _ in range(random.randrange(most))]


def dict_of(make_key: Make, make: Make, most: int = 4) -> Make:
    return lambda random: {make_key(random): make(random) for _ in range(random.randrange(most))}


def one_of(*makes: Make) -> Make:
    return lambda random: random.choice(makes)(random)


def constant(value: Any) -> Make:
    return lambda _: value


def made(kind: type, **makes: Make) -> Make:
    """A Struct, some of whose fields have their defaults."""

    def make(random: Random) -> Any:
        return kind(**{name: value(random) for name, value in makes.items() if random.random() < 0.7})

    return make


FIELDS: dict[type, dict[str, Make]] = {
    Card: {
        "rank": number,
        "suit": word,
        "weight": real,
        "is_open": truth,
        "note": one_of(word, constant(None)),
        "f32": small_real,
        "secret_mark": number,
    },
    Sword: {"damage": number, "runes": list_of(word), "secret_curse": word},
    Shield: {"armour": number, "worn": truth},
}
card, sword, shield = (made(kind, **fields) for kind, fields in FIELDS.items())


def suits(random: Random) -> Suit:
    return random.choice([Suit.CLUBS, Suit.HEARTS])


def levels(random: Random) -> Level:
    return random.choice([Level.LOW, Level.HIGH])


def place(random: Random) -> tuple[int, int]:
    return random.randrange(3), random.randrange(3)


FIELDS[Box] = {
    "all_cards": list_of(card, 6),
    "by_name": dict_of(word, card),
    "by_number": dict_of(number, number),
    "by_level": dict_of(levels, list_of(number)),
    "by_suit": dict_of(suits, word),
    "numbers": list_of(number, 8),
    "tiles": tiles,
    "words": list_of(word),
    "grid": list_of(list_of(number)),
    "crowd": dict_of(name, card, 12),
    "hands": dict_of(word, list_of(card)),
    "weapon": one_of(sword, shield, constant(None)),
    "weapons": list_of(one_of(sword, shield)),
    "either": one_of(truth, lambda random: random.randrange(2)),
    "either_many": list_of(one_of(truth, lambda random: random.randrange(2), constant(None))),
    "anything": whatever,
    "place": lambda random: (number(random), real(random)),
    "places": list_of(place),
    "names": lambda random: {word(random) for _ in range(3)},
    "suit": suits,
    "best": one_of(card, constant(None)),
    "score": one_of(number, constant(msgspec.UNSET)),
    "f32": small_real,
    "secret_deck": list_of(card),
    "own_hand": list_of(card),
}
box = made(Box, **FIELDS[Box])
FIELDS[Box]["boxes"] = list_of(box, 2)


# Lists do not grow without end.
_LONG = 40


class Editor:
    """Ways to change what a Struct has."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._shelf: list[Any] = []

    def edit(self, target: Any, fields: dict[str, Make]) -> None:
        """One change of one of these fields."""
        name = self.random.choice(list(fields))
        make = fields[name]
        value, fresh = getattr(target, name), make(self.random)
        if type(value) is type(fresh) in (list, dict, set) and self.random.random() < 0.8:
            self._change_inside(value, fresh)
        else:
            setattr(target, name, fresh)

    def _change_inside(self, value: Any, fresh: Any) -> None:
        if isinstance(value, list):
            self.random.choice(_LIST_EDITS if len(value) < _LONG else [Editor.scatter, Editor.remove])(
                self, value, fresh
            )
        elif isinstance(value, dict):
            self.random.choice(_DICT_EDITS)(self, value, fresh)
        elif truth(self.random):
            value |= fresh
        else:
            value.clear()

    # Edits of lists

    def push(self, value: list[Any], fresh: list[Any]) -> None:
        value += fresh

    def unshift(self, value: list[Any], fresh: list[Any]) -> None:
        value[:0] = fresh

    def insert(self, value: list[Any], fresh: list[Any]) -> None:
        at = self.random.randrange(len(value) + 1)
        value[at:at] = fresh

    def remove(self, value: list[Any], _: list[Any]) -> None:
        if value:
            self._shelf.append(value.pop(self.random.randrange(len(value))))

    def cycle(self, value: list[Any], _: list[Any]) -> None:
        if value:
            value.append(value.pop(0))

    def set(self, value: list[Any], fresh: list[Any]) -> None:
        if value and fresh:
            value[self.random.randrange(len(value))] = fresh[0]

    def scatter(self, value: list[Any], fresh: list[Any]) -> None:
        """Few places of many, far from each other."""
        for new in fresh[:4] if value else ():
            value[self.random.randrange(len(value))] = new

    def set_and_pop(self, value: list[Any], fresh: list[Any]) -> None:
        self.set(value, fresh)
        if value:
            value.pop()

    def shuffle(self, value: list[Any], _: list[Any]) -> None:
        self.random.shuffle(value)

    def reverse(self, value: list[Any], _: list[Any]) -> None:
        value.reverse()

    def clear(self, value: Any, _: Any) -> None:
        value.clear()

    def refill(self, value: list[Any], _: list[Any]) -> None:
        held = value.copy()
        value.clear()
        value += held

    def twice(self, value: list[Any], _: list[Any]) -> None:
        """The same object at two places."""
        if value and len(value) < 20:
            value.insert(self.random.randrange(len(value)), self.random.choice(value))

    def equal_copies(self, value: list[Any], _: list[Any]) -> None:
        value[:] = copy.deepcopy(value)

    def put_back(self, value: list[Any], _: list[Any]) -> None:
        """What was taken out of some list comes back, perhaps in this one."""
        fitting = [each for each in self._shelf if value and type(each) is type(value[0])]
        if fitting:
            value.append(fitting[-1])
            self._shelf.clear()

    def swap_slices(self, value: list[Any], fresh: list[Any]) -> None:
        at, end = sorted(self.random.randrange(len(value) + 1) for _ in range(2))
        value[at:end] = fresh

    def many(self, value: list[Any], fresh: list[Any]) -> None:
        for _ in range(3):
            self.random.choice(_LIST_EDITS[:9])(self, value, fresh)

    # Edits of dicts

    def update(self, value: dict[Any, Any], fresh: dict[Any, Any]) -> None:
        value.update(fresh)

    def drop(self, value: dict[Any, Any], _: dict[Any, Any]) -> None:
        if value:
            del value[self.random.choice(list(value))]

    def reorder(self, value: dict[Any, Any], _: dict[Any, Any]) -> None:
        if value:
            key = self.random.choice(list(value))
            value[key] = value.pop(key)

    def deal(self, value: dict[Any, Any], _: dict[Any, Any]) -> None:
        """Many values change in themselves."""
        for each in value.values():
            if isinstance(each, Card) and self.random.random() < 0.9:
                each.rank += 1

    def drift(self, value: dict[Any, Any], _: dict[Any, Any]) -> None:
        """Many values move, and some of them change in another way."""
        chance = self.random.choice([0.8, 0.95, 1.0])
        for each in value.values():
            if isinstance(each, Card):
                each.weight += 0.5 if self.random.random() < chance else 0.0
                each.f32 += 0.3 if self.random.random() < chance else 0.0
                each.rank += self.random.random() > chance

    def rename(self, value: dict[Any, Any], fresh: dict[Any, Any]) -> None:
        if value and fresh:
            key = next(iter(fresh))
            value[key] = value.pop(self.random.choice(list(value)))

    def replace_all(self, value: dict[Any, Any], fresh: dict[Any, Any]) -> None:
        value.clear()
        value.update(fresh)


_LIST_EDITS: list[Callable[[Editor, list[Any], list[Any]], None]] = [
    Editor.push,
    Editor.unshift,
    Editor.insert,
    Editor.remove,
    Editor.cycle,
    Editor.set,
    Editor.scatter,
    Editor.set_and_pop,
    Editor.shuffle,
    Editor.reverse,
    Editor.clear,
    Editor.refill,
    Editor.twice,
    Editor.equal_copies,
    Editor.put_back,
    Editor.swap_slices,
    Editor.many,
]
_DICT_EDITS: list[Callable[[Editor, dict[Any, Any], dict[Any, Any]], None]] = [
    Editor.update,
    Editor.drop,
    Editor.reorder,
    Editor.rename,
    Editor.clear,
    Editor.replace_all,
    Editor.deal,
    Editor.deal,
    Editor.drift,
    Editor.drift,
]


class World(Editor):
    """A box that is changed."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.box: Box = box(random)

    def step(self) -> None:
        """One change, somewhere."""
        self.edit(*self._somewhere(self.box))

    def _somewhere(self, target: Box) -> tuple[Any, dict[str, Make]]:
        """A Struct in this box."""
        inside = [
            *target.all_cards,
            *target.by_name.values(),
            *target.crowd.values(),
            *(each for hand in target.hands.values() for each in hand),
            *target.weapons,
            *(each for each in (target.weapon, target.best) if each is not None),
            *target.boxes,
        ]
        if not inside or self.random.random() < 0.5:
            return target, FIELDS[Box]
        found = self.random.choice(inside)
        return self._somewhere(found) if isinstance(found, Box) else (found, FIELDS[type(found)])
