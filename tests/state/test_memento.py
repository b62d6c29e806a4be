"""After a failed turn every object is what it was, and the same one."""

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.state import CannotUndo, Memento, Mementos, path_to
from tests.state.worlds import Box, Card, World

MEMENTOS = Mementos()


def objects_in(value: Any) -> list[int]:
    """The ids of everything that can change, in the order in which it is found."""
    found: list[int] = []
    todo: list[Any] = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, msgspec.Struct):
            found.append(id(each))
            todo += msgspec.structs.astuple(each)
        elif isinstance(each, list | dict | set):
            found.append(id(each))
            todo += each.values() if isinstance(each, dict) else each
        elif isinstance(each, tuple):
            todo += each
    return found


def exactly(value: Any) -> bytes:
    """Equal only if every value is, to the last bit."""
    return msgspec.msgpack.encode(msgspec.to_builtins(value, str_keys=True, order="deterministic"))


def roll_back(seed: int) -> None:
    """Change a random world, and undo it."""
    undo_changes(Random(seed), 12)


def undo_changes(random: Random, steps: int) -> None:
    world = World(random)
    for _ in range(3):
        world.step()
    before, objects = exactly(world.box), objects_in(world.box)
    memento = MEMENTOS.take(world.box)
    for _ in range(steps):
        world.step()

    memento.restore()

    assert exactly(world.box) == before
    assert objects_in(world.box) == objects


@given(st.randoms(use_true_random=False), st.integers(0, 12))
def test_every_object_is_what_it_was_and_the_same_one(random: Random, steps: int) -> None:
    undo_changes(random, steps)


def test_what_the_game_holds_elsewhere_is_still_part_of_the_state() -> None:
    boss = Card(13)
    box = Box(all_cards=[Card(1), boss], by_name={"boss": boss})
    memento = MEMENTOS.take(box)

    boss.rank = 1
    box.all_cards = [Card(5)]
    del box.by_name["boss"]
    memento.restore()

    assert box.all_cards[1] is box.by_name["boss"] is boss
    assert boss.rank == 13


def test_what_is_noted_again_later_is_restored_to_what_it_was_first() -> None:
    card, numbers = Card(1), [1]
    box = Box(all_cards=[card], numbers=numbers)
    memento = MEMENTOS.take(box)
    card.rank = 2
    numbers.append(2)

    MEMENTOS.add(memento, card, numbers, [card, Card(3)])
    card.rank = 4
    numbers.append(4)
    memento.restore()

    assert (card.rank, numbers) == (1, [1])


def test_a_memento_that_is_not_restored_changes_nothing() -> None:
    box = Box(numbers=[1])
    memento = MEMENTOS.take(box)

    box.numbers.append(2)
    del memento

    assert box.numbers == [1, 2]


def test_the_order_of_a_dict_is_restored() -> None:
    box = Box(by_number={1: 1, 2: 2, 3: 3})
    memento = MEMENTOS.take(box)

    box.by_number[1] = box.by_number.pop(1)
    memento.restore()

    assert list(box.by_number) == [1, 2, 3]


def test_one_that_became_true_is_one_again() -> None:
    box = Box(either=1, either_many=[1])
    memento = MEMENTOS.take(box)

    box.either = box.either_many[0] = True
    memento.restore()

    assert box.either is not True
    assert box.either_many[0] is not True


def test_frozen_structs_hold_what_they_held() -> None:
    class Frozen(msgspec.Struct, frozen=True):
        cards: list[Card] = []

    frozen = Frozen([Card(1)])
    memento = MEMENTOS.take([frozen])

    frozen.cards[0].rank = 2
    frozen.cards.append(Card(3))
    memento.restore()

    assert frozen.cards == [Card(1)]


def test_objects_that_hold_themselves_have_an_end() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    memento = MEMENTOS.take(ring)

    ring[0] = 2
    memento.restore()

    assert ring[0] == 1


def test_deques_sets_and_bytearrays_are_restored() -> None:
    queue, names, raw = deque([[1], [2]], maxlen=3), {"a"}, bytearray(b"ab")
    memento = MEMENTOS.take(queue, (names, {"raw": raw}))

    queue.popleft().append(9)
    queue[0].append(8)
    names.add("b")
    raw[0] = 0
    memento.restore()

    assert (list(queue), names, raw) == ([[1], [2]], {"a"}, bytearray(b"ab"))


def test_an_object_of_an_unknown_class_is_refused_unless_it_is_told_how() -> None:
    class Clock:
        def __init__(self, seconds: int) -> None:
            self.seconds = seconds

    def note(clock: Clock) -> Any:
        seconds = clock.seconds
        return lambda: setattr(clock, "seconds", seconds)

    clock = Clock(5)
    with pytest.raises(CannotUndo, match="a Clock cannot be restored"):
        MEMENTOS.take([clock])

    memento = Mementos({Clock: note}).take([clock])
    clock.seconds = 6
    memento.restore()

    assert clock.seconds == 5


def test_objects_that_cannot_be_restored_are_named_and_passed_over_if_that_is_asked_for() -> None:
    class Clock:
        pass

    unknown: list[Any] = []
    clock, numbers = Clock(), [1]
    state = {"a": [numbers], "b": ({"clock": [0, clock]},)}
    memento = Mementos(unknown=unknown.append).take(state)

    numbers.append(2)
    memento.restore()

    assert (unknown, numbers) == ([clock], [1])
    assert path_to(clock, {"state": state}) == "state['b'][0]['clock'][1]"
    assert path_to(object(), {"state": state}) == ""


def test_dataclasses_are_restored() -> None:
    @dataclass
    class Chest:
        gold: int
        cards: list[Card]

    chest = Chest(5, [Card(1)])
    memento = MEMENTOS.take({"chest": chest})

    chest.gold = 6
    chest.cards.pop().rank = 9
    memento.restore()

    assert chest == Chest(5, [Card(1)])


def test_a_memento_that_forgets_the_lists_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Memento.restore

    def restore(self: Memento) -> None:
        self.noted = [each for each in self.noted if not isinstance(each[1], list)]
        right(self)

    monkeypatch.setattr(Memento, "restore", restore)

    with pytest.raises(AssertionError):
        _roll_back_many()


def _roll_back_many() -> None:
    for seed in range(50):
        roll_back(seed)
