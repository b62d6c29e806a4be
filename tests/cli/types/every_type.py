"""A game whose messages have every type that a message can have, to be written in another language."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from holdfast import Message, PlayerData, Room, on

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Point(Struct):
    x: float
    y: float = 0.0


class Place(Struct, array_like=True):
    x: int
    y: int
    z: int = 0


class Box(Struct, Generic[T]):
    content: T
    within: "Box[T] | None" = None


class Tree(Struct):
    """A tree, and what grows on it."""

    name: str
    children: list["Tree"] = []


class Circle(Struct, tag="circle"):
    radius: float


class Square(Struct, tag="square", tag_field="type"):
    side: float


class Step(Struct, tag=True, array_like=True):
    dx: int


class Date(Struct):
    """Called like JavaScript's own."""

    day: int


@dataclass
class Data:
    a: int
    b: str = ""


class Options(TypedDict):
    loud: bool
    speed: NotRequired[float]


class Pair(NamedTuple):
    left: int
    right: str = ""


class Everything(Message):
    """All of it.

    With a comment of several lines that cannot be ended early: */
    """

    a_bool: bool
    a_float: float
    a_str: str
    an_int: int
    nothing: None
    some_bytes: bytes
    anything: Any
    raw: Raw
    maybe: int | None
    number: int | float
    text_or_numbers: str | list[int] | None
    literal: Literal["a", 1, None]
    color: Color
    level: Level
    numbers: list[int]
    unions: list[int | None]
    fixed: tuple[int, str]
    varied: tuple[int, ...]
    a_set: set[str]
    frozen: frozenset[int]
    sequence: Sequence[str]
    by_name: dict[str, Point]
    by_color: dict[Color, int]
    by_id: dict[UUID, int]
    point: Point
    place: Place
    box_of_int: Box[int]
    box_of_list: Box[list[str]]
    tree: Tree
    shape: Circle | Square
    step: Step
    date: Date
    data: Data
    options: Options
    pair: Pair
    when: datetime.datetime
    when_zoned: Annotated[datetime.datetime, Meta(tz=True)]
    when_naive: Annotated[datetime.datetime, Meta(tz=False)]
    day: datetime.date
    time: datetime.time
    lasts: datetime.timedelta
    id: UUID
    price: Decimal
    renamed: int = msgspec.field(name="odd-name", default=1)
    unset: int | UnsetType = UNSET
    by_default: list[str] = []  # noqa: RUF012 - of a Struct, each has its own


def everything() -> Everything:
    """One of it, with something in every field that has to be there."""
    now = datetime.datetime(2026, 5, 4, 3, 2, 1, tzinfo=datetime.UTC)
    return Everything(
        a_bool=True,
        a_float=1.5,
        a_str="text",
        an_int=7,
        nothing=None,
        some_bytes=b"\x00\xff",
        anything={"a": [1]},
        raw=Raw(b"\x01"),
        maybe=None,
        number=2.5,
        text_or_numbers=[1, 2],
        literal="a",
        color=Color.RED,
        level=Level.HIGH,
        numbers=[1],
        unions=[1, None],
        fixed=(1, "one"),
        varied=(1, 2, 3),
        a_set={"a"},
        frozen=frozenset({1}),
        sequence=["a"],
        by_name={"a": Point(1.0)},
        by_color={Color.BLUE: 1},
        by_id={UUID(int=1): 1},
        point=Point(1.0, 2.0),
        place=Place(1, 2),
        box_of_int=Box(1, Box(2)),
        box_of_list=Box(["a"]),
        tree=Tree("root", [Tree("leaf")]),
        shape=Square(1.0),
        step=Step(1),
        date=Date(1),
        data=Data(1),
        options={"loud": True},
        pair=Pair(1, "one"),
        when=now,
        when_zoned=now,
        when_naive=now.replace(tzinfo=None),
        day=now.date(),
        time=now.time(),
        lasts=datetime.timedelta(seconds=90),
        id=UUID(int=2),
        price=Decimal("1.50"),
    )


class Ping(Message):
    pass


class Quiet(Message, omit_defaults=True, rename="camel"):
    how_much: int = 0


class Said(Message):
    wire_name = "said.loudly"

    text: str


class Loadout(msgspec.Struct):
    """What a player comes with."""

    weapon: Literal["bow", "sword"]
    level: int = 1
    place: Place | None = None


class Pong(Message):
    """Only an answer."""

    at: datetime.datetime | None = None


class Hall(Room[PlayerData]):
    sends = (Everything, Quiet, Said)
    join_options = Loadout

    @on(Everything)
    def everything(self, player: Any, message: Everything) -> None: ...

    @on(Ping)
    def ping(self, player: Any, message: Ping) -> "Pong | Quiet | None": ...


class Silent(Room[PlayerData]):
    sends = ()
