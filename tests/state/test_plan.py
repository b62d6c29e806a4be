"""What is noted, compared and written of each type; what is refused; and who sees what."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
import pytest

from holdfast import PlayerData
from holdfast.state import (
    F32,
    Audience,
    Hidden,
    Private,
    SharedPlan,
    Tracker,
    Unshareable,
    encode_json,
    encode_msgpack,
    has_private,
    has_secrets,
)
from tests.cases import every_case

T = TypeVar("T")


class Card(msgspec.Struct):
    rank: int = 0
    suit: str = "s"


class Seat(PlayerData):
    score: int = 0
    hand: Private[list[Card]] = msgspec.field(default_factory=list)
    skill: Hidden[float] = 0.5


class Table(msgspec.Struct):
    turn: int = 0
    pile: list[Card] = []
    deck: Hidden[list[Card]] = []
    names: dict[str, str] = {}
    numbers: list[int] = []
    cards: dict[int, Card] = {}
    best: Card | None = None
    speed: float = 0.0


class Color(Enum):
    RED = "red"


class Pair(msgspec.Struct, Generic[T]):
    one: T
    other: T


class Tree(msgspec.Struct):
    pair: Pair[int]
    trees: list["Tree"] = []


def tracked(value: Any, kind: Any = None) -> Tracker:
    return Tracker(SharedPlan({"state": kind or type(value)}), value)


def shown(node: Any) -> Any:
    """A node as a client reads it."""
    return msgspec.json.decode(encode_json(node))


def inner(node: Any) -> Any:
    """What changed in the state."""
    (sets, (name, found)) = shown(node)
    assert (sets, name) == ([], "state")
    return found


# Structs


def test_the_whole_view_is_a_node_that_sets_the_roots() -> None:
    plan = SharedPlan({"state": Table, "players": dict[str, Seat]})

    whole = plan.whole(plan.take(Table(turn=3), {"ada": Seat(score=7)}))

    (sets,) = shown(whole)
    assert sets[0::2] == ["state", "players"]
    assert sets[1]["turn"] == 3
    assert sets[3] == {"ada": {"score": 7}}


def test_nothing_changed_is_no_node() -> None:
    table = Table(pile=[Card(1)], cards={1: Card(2)})
    tracker = tracked(table)

    assert tracker.diff(table) is None


def test_fields_that_changed_are_set_and_nothing_else() -> None:
    table = Table(pile=[Card(1), Card(2)])
    tracker = tracked(table)

    table.turn, table.pile[1].suit = 2, "h"

    assert inner(tracker.diff(table)) == [["turn", 2], ["pile", [[], [1, [["suit", "h"]]]]]]
    assert tracker.diff(table) is None


def test_names_are_those_on_the_wire() -> None:
    class Point(msgspec.Struct, rename={"x": "the x"}, tag="point"):
        x: int = 0
        top_left: int = msgspec.field(default=0, name="tl")

    point = Point()
    tracker = tracked(point)
    assert shown(tracker.whole()) == [["state", {"type": "point", "the x": 0, "tl": 0}]]

    point.x, point.top_left = 1, 2

    assert inner(tracker.diff(point)) == [["the x", 1, "tl", 2]]


def test_defaults_are_sent_though_they_are_left_out_when_saved() -> None:
    class Short(msgspec.Struct, omit_defaults=True):
        x: int = 0
        y: int = 0

    assert shown(tracked(Short(x=1)).whole()) == [["state", {"x": 1, "y": 0}]]


def test_a_field_that_becomes_unset_is_gone_and_comes_back() -> None:
    class Maybe(msgspec.Struct):
        x: int | msgspec.UnsetType = msgspec.UNSET
        deep: list[int] | msgspec.UnsetType = msgspec.UNSET

    value = Maybe(deep=[1])
    tracker = tracked(value)
    assert shown(tracker.whole()) == [["state", {"deep": [1]}]]

    value.x, value.deep = 5, msgspec.UNSET
    assert inner(tracker.diff(value)) == [["x", 5], [], ["deep"]]

    value.x, value.deep = msgspec.UNSET, [2]
    assert inner(tracker.diff(value)) == [["deep", [2]], [], ["x"]]


def test_a_frozen_struct_that_is_replaced_by_an_equal_one_is_no_change() -> None:
    class Point(msgspec.Struct, frozen=True):
        x: int = 0
        y: int = 0

    class Path(msgspec.Struct):
        points: list[Point] = []
        at: Point = Point()

    path = Path([Point(1), Point(2), Point(3)])
    tracker = tracked(path)

    path.points, path.at = [Point(1), Point(2), Point(3)], Point()
    assert tracker.diff(path) is None

    path.points = [Point(1), Point(2, 9), Point(3)]
    assert inner(tracker.diff(path)) == [[], ["points", [[], [1, [["y", 9]]]]]]


def test_generic_structs_and_types_that_contain_themselves_are_followed() -> None:
    tree = Tree(Pair(1, 2), [Tree(Pair(3, 4))])
    tracker = tracked(tree)

    tree.trees[0].pair.other = 5

    assert inner(tracker.diff(tree)) == [[], ["trees", [[], [0, [[], ["pair", [["other", 5]]]]]]]]


# Lists


@every_case(
    ("before", "after", "change"),
    [
        ([5], [5, 5], [[], [], [], [1, 0, [5]]]),
        ([1, 2, 3], [1, 3], [[], [], [], [1, 1, []]]),
        ([1, 2, 3], [9, 1, 2, 3], [[], [], [], [0, 0, [9]]]),
        ([1, 2, 3], [], [[], [], [], [0, 3, []]]),
        ([], [1, 2], [[], [], [], [0, 0, [1, 2]]]),
        ([1, 2, 3, 4], [1, 9, 3, 4], [[1, 9]]),
        ([1, 2, 3, 4], [9, 9, 9, 4], [[], [], [], [0, 3, [9, 9, 9]]]),
        ([0] * 1000, [0] * 500 + [7] + [0] * 499, [[500, 7]]),
        ([0] * 3000, [1] + [0] * 2998 + [2], [[0, 1, 2999, 2]]),
    ],
)
def test_a_list_of_scalars(before: list[int], after: list[int], change: Any) -> None:
    table = Table(numbers=before)
    tracker = tracked(table)

    table.numbers = after

    assert inner(tracker.diff(table)) == [[], ["numbers", change]]


def test_a_card_played_and_one_drawn_are_two_splices() -> None:
    table = Table(pile=[Card(rank) for rank in range(7)])
    tracker = tracked(table)

    table.pile.pop(2)
    table.pile.append(Card(9))

    change = [[], [], [], [2, 1, [], 6, 0, [{"rank": 9, "suit": "s"}]]]
    assert inner(tracker.diff(table)) == [[], ["pile", change]]


def test_an_entry_that_goes_while_all_the_others_change_is_one_splice_and_the_changes() -> None:
    table = Table(pile=[Card(rank) for rank in range(4)])
    tracker = tracked(table)

    for card in table.pile:
        card.rank += 10
    table.pile.pop(1)

    into = [0, [["rank", 10]], 1, [["rank", 12]], 2, [["rank", 13]]]
    assert inner(tracker.diff(table)) == [[], ["pile", [[], into, [], [1, 1, []]]]]


def test_the_same_object_twice_changes_twice() -> None:
    card = Card(1)
    table = Table(pile=[card, card], best=card)
    tracker = tracked(table)

    card.rank = 2

    node = [[], ["pile", [[], [0, [["rank", 2]], 1, [["rank", 2]]]], "best", [["rank", 2]]]]
    assert inner(tracker.diff(table)) == node


def test_an_object_that_moves_to_another_list_is_there_with_its_later_changes() -> None:
    class Two(msgspec.Struct):
        one: list[Card] = []
        other: list[Card] = []

    two = Two([Card(1), Card(2)], [Card(3)])
    tracker = tracked(two)

    moved = two.one.pop(0)
    two.other.append(moved)
    moved.rank = 7

    node = [[], ["one", [[], [], [], [0, 1, []]], "other", [[], [], [], [1, 0, [{"rank": 7, "suit": "s"}]]]]]
    assert inner(tracker.diff(two)) == node


def test_defaults_that_instances_share_are_no_trap() -> None:
    class Owner(msgspec.Struct):
        tags: list[str] = []

    class Owners(msgspec.Struct):
        owners: list[Owner] = []

    owners = Owners([Owner(), Owner()])
    tracker = tracked(owners)

    owners.owners[0].tags.append("a")

    assert inner(tracker.diff(owners)) == [[], ["owners", [[], [0, [[], ["tags", [[], [], [], [0, 0, ["a"]]]]]]]]]


# Dicts


def test_keys_come_and_go_and_their_order_is_not_seen() -> None:
    table = Table(names={"a": "A", "b": "B"}, cards={1: Card(1), 2: Card(2)})
    tracker = tracked(table)

    table.names = {"b": "B", "a": "A"}
    assert tracker.diff(table) is None

    table.names["c"] = table.names.pop("a")
    table.cards[2].rank = 5
    del table.cards[1]
    table.cards[3] = Card(3)

    names = [["c", "A"], [], ["a"]]
    cards = [[3, {"rank": 3, "suit": "s"}], [2, [["rank", 5]]], [1]]
    assert inner(tracker.diff(table)) == [[], ["names", names, "cards", cards]]


def test_keys_that_are_numbers_are_text_in_both_codecs_and_numbers_in_changes() -> None:
    tracker = tracked({1: 2, -3: 4}, dict[int, int])

    assert msgspec.msgpack.decode(encode_msgpack(tracker.whole())) == [["state", {"1": 2, "-3": 4}]]
    assert shown(tracker.diff({1: 5, -3: 4})) == [[], ["state", [[1, 5]]]]


def test_a_key_that_is_a_number_too_large_for_javascript_is_text_in_changes_too() -> None:
    tracker = tracked({2**53: 1, 2**53 - 1: 1}, dict[int, int])

    assert shown(tracker.diff({2**53: 2, 2**53 - 1: 2})) == [[], ["state", [[str(2**53), 2, 2**53 - 1, 2]]]]
    assert shown(tracker.diff({})) == [[], ["state", [[], [], [str(2**53), 2**53 - 1]]]]


@every_case(
    ("kind", "right", "wrong", "complaint"),
    [
        (dict[str, int], "a", None, r"state(\[None\])?: its key is None, not text"),
        (dict[str, int], "a", 5, r"state(\[5\])?: its key is an int, not text"),
        (dict[int, int], 5, "card", r"state(\.card)?: its key is a str, not a whole number"),
        (dict[Color, int], Color.RED, "red", r"state(\.red)?: its key is a str, not of an Enum"),
    ],
)
def test_a_key_of_another_type_is_refused_in_whole_views_and_in_changes(
    kind: Any, right: Any, wrong: Any, complaint: str
) -> None:
    tracker = tracked({right: 1}, kind)

    for refused in (lambda: tracker.diff({right: 1, wrong: 2}), lambda: tracked({wrong: 2}, kind)):
        with pytest.raises(Unshareable, match=complaint):
            refused()
    assert shown(tracker.diff({})) == [[], ["state", [[], [], [getattr(right, "value", right)]]]]


def test_keys_that_are_neither_text_nor_numbers_make_a_dict_that_is_sent_whole() -> None:
    tracker = tracked({1.5: 2}, dict[float, int])

    assert shown(tracker.whole()) == [["state", {"1.5": 2}]]
    assert shown(tracker.diff({1.5: 3})) == [["state", {"1.5": 3}]]


# What == does not tell


def test_one_and_true_are_two_values_where_both_may_be() -> None:
    class Either(msgspec.Struct):
        x: int | bool = 1
        many: list[bool | int] = []
        pair: tuple[int | bool, int] = (1, 1)

    value = Either(many=[1, 1])
    tracker = tracked(value)

    value.x, value.many, value.pair = True, [True, 1], (True, 1)

    assert encode_json(tracker.diff(value)) == (b'[[],["state",[["x",true,"pair",[true,1]],["many",[[0,true]]]]]]')


def test_zero_and_minus_zero_are_one_value_and_so_are_one_and_one_point_zero() -> None:
    table = Table(speed=0.0)
    tracker = tracked(table)

    table.speed = -0.0
    assert tracker.diff(table) is None
    table.speed = 0
    assert tracker.diff(table) is None


@every_case("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_does_not_have_are_refused_by_their_path(value: float) -> None:
    class Numbers(msgspec.Struct):
        plain: float = 0.0
        small: F32 = 0.0
        many: list[float] = []
        pairs: dict[str, tuple[float, float]] = {}
        maybe: float | None = None
        anything: Any = None

    bad = {
        "state.plain": Numbers(plain=value),
        "state.small": Numbers(small=value),
        "state.many[1]": Numbers(many=[0.0, value]),
        "state.pairs.a[1]": Numbers(pairs={"a": (0.0, value)}),
        "state.maybe": Numbers(maybe=value),
        "state.anything.x[0]": Numbers(anything={"x": [value]}),
    }
    for path, numbers in bad.items():
        tracker = tracked(Numbers())
        before = tracker.shadow

        with pytest.raises(Unshareable) as first:
            tracked(numbers)
        with pytest.raises(Unshareable) as later:
            tracker.diff(numbers)

        assert str(first.value).startswith((f"{path}: ", path.rpartition("[")[0] + ": "))
        assert str(later.value).startswith((f"{path}: ", path.rpartition("[")[0] + ": "))
        assert tracker.shadow is before


def test_values_of_another_type_are_named_where_they_stand() -> None:
    table = Table(pile=[Card()])
    tracker = tracked(table)

    for value, complaint in (
        (None, "state.pile: None is not a list"),
        ([Card(), 3], "state.pile[1]: an int is not of the type Card"),
        ((), "state.pile: a tuple is not a list"),
    ):
        table.pile = value  # type: ignore[assignment]
        with pytest.raises(
            Unshareable, match="^" + complaint.replace("(", r"\(").replace(")", r"\)").replace("[", r"\[")
        ):
            tracker.diff(table)

    table.pile = [Card(2)]
    assert inner(tracker.diff(table)) == [[], ["pile", [[], [0, [["rank", 2]]]]]]


@every_case(
    ("name", "value"), [("turn", 2**70), ("names", {"a": "\ud800"}), ("numbers", [1, 2**65]), ("turn", object())]
)
def test_what_no_codec_can_encode_is_named_by_its_path(name: str, value: Any) -> None:
    table = Table()
    tracker = tracked(table)

    setattr(table, name, value)
    node = tracker.diff(table)

    with pytest.raises(Unshareable, match=rf"^state\.{name}"):
        encode_msgpack(node)


# Single precision


class Body(msgspec.Struct):
    x: F32 = 0.0
    way: list[F32] = []
    at: tuple[F32, F32] = (0.0, 0.0)
    aim: F32 | None = None


def test_an_empty_list_of_structs_with_f32_is_an_empty_list() -> None:
    class Spot(msgspec.Struct):
        x: F32 = 0.0
        y: float = 0.0

    class Way(msgspec.Struct):
        spots: list[Spot] = []

    assert shown(tracked(Way()).whole()) == [["state", {"spots": []}]]


def test_f32_is_the_same_number_in_both_codecs_in_whole_views_and_in_changes() -> None:
    body, small = Body(0.1, [0.1, 0.1], (0.1, 0.1), 0.1), 0.10000000149011612
    whole = {"x": small, "way": [small, small], "at": [small, small], "aim": small}
    tracker = tracked(body)
    assert shown(tracker.whole()) == [["state", whole]]
    assert msgspec.msgpack.decode(encode_msgpack(tracker.whole())) == [["state", whole]]

    body.x = 0.3
    node = tracker.diff(body)

    assert inner(node) == [["x", 0.30000001192092896]]
    assert encode_msgpack(node).endswith(b"\xa1x" + bytes.fromhex("ca3e99999a"))


def test_f32_that_is_too_large_is_refused() -> None:
    with pytest.raises(Unshareable, match=r"state\.x"):
        encode_msgpack(tracked(Body(1e300)).whole())


# What is sent whole


def test_other_types_are_compared_by_their_encoding_and_sent_whole() -> None:
    @dataclass
    class Point:
        x: int = 0

    class Row(msgspec.Struct, array_like=True):
        x: int = 0

    class Others(msgspec.Struct):
        when: datetime = datetime(2026, 1, 1, tzinfo=UTC)
        names: set[str] = set()
        raw: bytes = b""
        point: Point = msgspec.field(default_factory=Point)
        row: Row = msgspec.field(default_factory=Row)

    others = Others()
    tracker = Tracker(SharedPlan({"state": Others}), others)

    others.names.add("b")
    others.names.add("a")
    others.point.x = others.row.x = 1
    others.raw = b"\x00\xff"

    (sets,) = inner(tracker.diff(others))
    changed = dict(zip(sets[::2], sets[1::2], strict=True))
    assert changed == {"names": ["a", "b"], "point": {"x": 1}, "row": [1], "raw": "AP8="}
    assert tracker.diff(others) is None


def test_a_union_of_structs_changes_inside_and_is_replaced_by_another() -> None:
    class Sword(msgspec.Struct, tag=True):
        damage: int = 0

    class Shield(msgspec.Struct, tag=True):
        armour: int = 0

    class Hero(msgspec.Struct):
        item: Sword | Shield | None = None

    hero = Hero(Sword(1))
    tracker = tracked(hero)

    hero.item = Sword(2)
    assert inner(tracker.diff(hero)) == [[], ["item", [["damage", 2]]]]
    hero.item = Shield(2)
    assert inner(tracker.diff(hero)) == [["item", {"type": "Shield", "armour": 2}]]
    hero.item = None
    assert inner(tracker.diff(hero)) == [["item", None]]


# Secrets


def test_everybody_sees_neither_private_nor_hidden_fields() -> None:
    seat = Seat(1, [Card(77)], 0.9)
    tracker = tracked(seat)
    assert shown(tracker.whole()) == [["state", {"score": 1}]]

    seat.hand.append(Card(78))
    seat.skill = 1.5

    assert tracker.diff(seat) is None


def test_a_player_sees_all_of_their_data_but_what_is_hidden() -> None:
    class Mark(msgspec.Struct):
        text: str = ""
        cheat: Hidden[str] = ""
        mine: Private[int] = 0

    class Desk(msgspec.Struct):
        drawer: Private[list[Mark]] = []
        top: str = ""

    class Owner(PlayerData):
        desk: Desk = msgspec.field(default_factory=Desk)
        score: int = 0
        marks: dict[str, Mark] = msgspec.field(default_factory=dict)
        purse: Private[int] = 3

    owner = Owner(Desk([Mark("a", "x", 1)], "top"), 5, {"m": Mark("b", "y", 2)})
    plan = SharedPlan({"mine": Owner}, Audience.OWNER)
    shadow = plan.take(owner)

    desk = {"drawer": [{"text": "a", "mine": 1}], "top": "top"}
    marks = {"m": {"text": "b", "mine": 2}}
    assert shown(plan.whole(shadow)) == [["mine", {"desk": desk, "score": 5, "marks": marks, "purse": 3}]]

    owner.desk.drawer[0].mine, owner.desk.drawer[0].cheat = 9, "z"
    node = shown(plan.diff(shadow, plan.take(owner)))
    assert node == [[], ["mine", [[], ["desk", [[], ["drawer", [[], [0, [["mine", 9]]]]]]]]]]


def test_a_type_without_private_fields_has_nothing_for_its_owner() -> None:
    assert SharedPlan({"mine": Card}, Audience.OWNER).is_empty
    assert not SharedPlan({"mine": Seat}, Audience.OWNER).is_empty
    assert (has_private(Seat), has_private(Table), has_secrets(Table), has_secrets(Card)) == (True, False, True, False)


def test_a_recording_has_everything() -> None:
    plan = SharedPlan({"state": Seat}, Audience.RECORDING)

    assert shown(plan.whole(plan.take(Seat(1, [Card(2)], 0.5)))) == [
        ["state", {"score": 1, "hand": [{"rank": 2, "suit": "s"}], "skill": 0.5}]
    ]


def test_a_struct_with_secrets_does_not_leave_through_a_field_typed_any() -> None:
    class Loose(msgspec.Struct):
        anything: Any = None

    tracker = tracked(Loose())

    for value in (Seat(), [Seat()], {"a": [Seat()]}):
        with pytest.raises(Unshareable, match="a Seat has private or hidden fields"):
            tracker.diff(Loose(value))
    with pytest.raises(Unshareable, match="an object cannot be shared"):
        tracker.diff(Loose(object()))
    assert inner(tracker.diff(Loose([Card(1)]))) == [["anything", [{"rank": 1, "suit": "s"}]]]


def test_a_subclass_with_more_fields_does_not_leave_as_its_base() -> None:
    class Marked(Card):
        mark: str = "secret"

    table = Table(pile=[Card()])
    tracker = tracked(table)

    table.pile.append(Marked())

    with pytest.raises(Unshareable, match=r"^state\.pile\[1\]: a Marked is not of the type Card"):
        tracker.diff(table)


class Suit(Enum):
    ODD = 1.5


@every_case(
    ("hint", "complaint"),
    [
        (Private[int], "needs a default"),
        (Hidden[list[Card]], "needs a default"),
        (list[Private[int]], "whole type of a Struct's field"),
        (dict[str, Hidden[int]], "whole type of a Struct's field"),
        (Private[int] | None, "whole type of a Struct's field"),
        (Private[Hidden[int]], "Private or Hidden, not both"),
        (complex, "complex cannot be shared"),
        (dict[tuple[int, int], int], "the keys of a dict must be text or numbers"),
        (list[dict[bytes | None, int]], "the keys of a dict must be text or numbers"),
        (msgspec.Raw, "cannot be shared"),
    ],
)
def test_types_that_cannot_be_shared_are_refused_with_the_field(hint: Any, complaint: str) -> None:
    kind = msgspec.defstruct("Odd", [("fine", int), ("odd", hint)])

    with pytest.raises(Unshareable, match=complaint) as refused:
        SharedPlan({"state": kind})

    assert refused.value.path[:2] == ("state", "odd")


def test_secrets_inside_what_is_sent_whole_are_refused() -> None:
    class Row(msgspec.Struct, array_like=True):
        x: int = 0
        y: Hidden[int] = 0

    class Odd(msgspec.Struct):
        row: Row = msgspec.field(default_factory=Row)

    with pytest.raises(Unshareable, match=r"state\.row: Private and Hidden work in Structs"):
        SharedPlan({"state": Odd})


def test_a_state_that_is_nested_too_deep_is_refused() -> None:
    class Loose(msgspec.Struct):
        anything: Any = None

    deep: Any = 0
    for _ in range(40):
        deep = [deep]

    with pytest.raises(Unshareable, match="more than 32 levels"):
        tracked(Loose(deep))
    ring = Tree(Pair(1, 2))
    tracker = tracked(ring)
    ring.trees.append(ring)
    with pytest.raises(Unshareable, match="or in itself"):
        tracker.diff(ring)
    kind: Any = int
    for _ in range(40):
        kind = list[kind]
    with pytest.raises(Unshareable, match="more than 32 levels"):
        SharedPlan({"state": kind})


def test_markers_go_along_with_constraints_and_with_each_other() -> None:
    class Odd(msgspec.Struct):
        near: Private[F32] = 0.0
        level: Annotated[int, msgspec.Meta(ge=0)] = 0
        mode: Literal["a", "b"] = "a"

    plan = SharedPlan({"mine": Odd}, Audience.OWNER)

    assert shown(plan.whole(plan.take(Odd(0.1)))) == [["mine", {"near": 0.10000000149011612, "level": 0, "mode": "a"}]]
    assert shown(tracked(Odd()).whole()) == [["state", {"level": 0, "mode": "a"}]]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(Odd(0.5)), type=Odd) == Odd(0.5)
