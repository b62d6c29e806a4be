"""A room's chance: repeatable, resumable from one number, and fair enough for games."""

import copy
import math
import pickle
from random import Random
from statistics import fmean, pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.server.rooms.splitmix64 import SplitMix64
from tests.cases import every_case

seeds = st.integers(0, 2**64 - 1)

# One of each kind of question that a game can ask.
QUESTIONS: dict[str, Any] = {
    "random": lambda dice: dice.random(),
    "getrandbits": lambda dice: dice.getrandbits(100),
    "randbytes": lambda dice: dice.randbytes(9),
    "randrange": lambda dice: dice.randrange(10**30),
    "randint": lambda dice: dice.randint(1, 6),
    "choice": lambda dice: dice.choice("abcdef"),
    "choices": lambda dice: dice.choices("abc", weights=[1, 2, 3], k=5),
    "sample": lambda dice: dice.sample(range(100), 10),
    "shuffled": lambda dice: shuffled(dice, 10),
    "uniform": lambda dice: dice.uniform(-1, 1),
    "triangular": lambda dice: dice.triangular(0, 1, 0.5),
    "gauss": lambda dice: dice.gauss(0, 1),
    "normalvariate": lambda dice: dice.normalvariate(0, 1),
    "lognormvariate": lambda dice: dice.lognormvariate(0, 1),
    "expovariate": lambda dice: dice.expovariate(1),
    "betavariate": lambda dice: dice.betavariate(2, 3),
    "gammavariate": lambda dice: dice.gammavariate(2, 3),
    "vonmisesvariate": lambda dice: dice.vonmisesvariate(0, 4),
    "paretovariate": lambda dice: dice.paretovariate(3),
    "weibullvariate": lambda dice: dice.weibullvariate(1, 2),
}
each_question = every_case("question", QUESTIONS.values(), ids=QUESTIONS)


def shuffled(dice: Random, count: int) -> list[int]:
    cards = list(range(count))
    dice.shuffle(cards)
    return cards


def chi_square(counts: list[int]) -> float:
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 / expected for count in counts)


# Repeatable


def test_the_numbers_are_those_of_splitmix64() -> None:
    # The published test vector of the generator for the seed 1234567.
    dice = SplitMix64(1234567)

    assert [dice.getrandbits(64) for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@each_question
def test_the_same_seed_gives_the_same_answers(question: Any) -> None:
    one, other = SplitMix64(7), SplitMix64(7)

    assert [question(one) for _ in range(20)] == [question(other) for _ in range(20)]


def test_another_seed_gives_others() -> None:
    firsts = {SplitMix64(seed).random() for seed in range(1000)}

    assert len(firsts) == 1000


@each_question
@given(seed=seeds, rolls=st.integers(0, 5))
def test_a_generator_made_with_the_position_goes_on_from_there(question: Any, seed: int, rolls: int) -> None:
    dice = SplitMix64(seed)
    for _ in range(rolls):
        question(dice)

    later = SplitMix64(dice.position)

    assert [question(later) for _ in range(3)] == [question(dice) for _ in range(3)]
    assert later.position == dice.position


@given(seed=st.integers())
def test_a_position_fits_in_64_bits_whatever_the_seed(seed: int) -> None:
    dice = SplitMix64(seed)

    assert 0 <= dice.position < 2**64
    dice.random()
    assert 0 <= dice.position < 2**64


def test_to_look_at_the_position_moves_nothing() -> None:
    dice = SplitMix64(7)

    assert dice.position == dice.position == 7


@each_question
def test_nothing_is_remembered_but_the_position(question: Any) -> None:
    # Of two dice with different pasts at one position: whatever one remembers beside it would show.
    fresh, used = SplitMix64(0), SplitMix64(1)
    for ask in QUESTIONS.values():
        ask(used)
    position = used.position
    used.gauss(0, 1)
    used.setstate((position,))
    fresh.setstate((position,))

    assert [question(used) for _ in range(3)] == [question(fresh) for _ in range(3)]


def test_gauss_keeps_no_second_number() -> None:
    dice = SplitMix64(7)
    dice.gauss(0, 1)

    later = SplitMix64(dice.position)

    assert dice.gauss(0, 1) == later.gauss(0, 1)
    assert dice.gauss_next is None  # type: ignore[attr-defined]  # where Python's own keeps it


def test_a_state_can_be_taken_and_put_back() -> None:
    dice = SplitMix64(7)
    dice.random()
    state = dice.getstate()
    rolled = [dice.random() for _ in range(3)]

    dice.setstate(state)

    assert [dice.random() for _ in range(3)] == rolled


def pickled(dice: SplitMix64) -> Any:
    return pickle.loads(pickle.dumps(dice))  # noqa: S301 - our own


@pytest.mark.parametrize("another", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_rolls_the_same_and_on_its_own(another: Any) -> None:
    dice = SplitMix64(7)
    dice.random()

    twin = another(dice)

    assert type(twin) is SplitMix64
    assert [twin.random() for _ in range(3)] == [dice.random() for _ in range(3)]


@every_case("seed", [0, -1, 2**64 + 5, "a word", b"bytes", 1.5, None])
def test_a_generator_can_be_seeded_as_random_can(seed: Any) -> None:
    dice = SplitMix64(7)

    dice.seed(seed)

    position = dice.position
    assert 0 <= position < 2**64
    if seed is not None:
        dice.seed(seed)
        assert dice.position == position


# Fair


def test_random_is_from_0_up_to_but_not_1() -> None:
    dice = SplitMix64(7)

    assert all(0.0 <= dice.random() < 1.0 for _ in range(10_000))


@pytest.mark.parametrize(("bits", "expected"), [(0, 0.0), (2**64 - 1, 1.0 - 2**-53)])
def test_the_ends_of_random_are_where_they_should_be(
    bits: int, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SplitMix64, "_next", lambda _: bits)

    assert SplitMix64(0).random() == expected


# The seeds are fixed, so these either hold or do not. Of a million fair dice one passes a bound: they are those of the
# chi-square distribution with one degree of freedom fewer than there are sides.


@every_case("seed", [1, 2, 3, 2**63])
@every_case(("sides", "bound"), [(2, 23.93), (6, 35.89), (20, 63.68), (100, 180.79)])
def test_every_side_comes_up_about_as_often(seed: int, sides: int, bound: float) -> None:
    dice = SplitMix64(seed)
    counts = [0] * sides

    for _ in range(1000 * sides):
        counts[dice.randint(1, sides) - 1] += 1

    assert chi_square(counts) < bound


@pytest.mark.parametrize("seed", [1, 2, 3, 2**63])
def test_random_falls_everywhere_about_as_often(seed: int) -> None:
    dice = SplitMix64(seed)
    counts = [0] * 100

    for _ in range(50_000):
        counts[int(dice.random() * 100)] += 1

    assert chi_square(counts) < 180.79


def test_neighbouring_rolls_have_nothing_to_do_with_each_other() -> None:
    dice = SplitMix64(5)
    counts = [0] * 36

    for _ in range(36_000):
        counts[6 * dice.randrange(6) + dice.randrange(6)] += 1

    assert chi_square(counts) < 89.95


def test_rooms_that_were_made_one_after_the_other_do_not_roll_alike() -> None:
    counts = [0] * 6

    for seed in range(6000):
        counts[SplitMix64(seed).randrange(6)] += 1

    assert chi_square(counts) < 35.89


def test_every_order_of_cards_comes_up_about_as_often() -> None:
    dice = SplitMix64(3)
    counts: dict[tuple[int, ...], int] = {}

    for _ in range(24_000):
        order = tuple(shuffled(dice, 4))
        counts[order] = counts.get(order, 0) + 1

    assert len(counts) == 24
    assert chi_square(list(counts.values())) < 70.55


def test_gauss_has_the_mean_and_the_spread_it_is_asked_for() -> None:
    dice = SplitMix64(11)

    numbers = [dice.gauss(10, 3) for _ in range(20_000)]

    assert math.isclose(fmean(numbers), 10, abs_tol=0.1)
    assert math.isclose(pstdev(numbers), 3, abs_tol=0.1)
    within = sum(7 <= number <= 13 for number in numbers) / len(numbers)
    assert math.isclose(within, 0.6827, abs_tol=0.02)


# Bits


@every_case("k", range(201))
def test_so_many_bits_are_given_and_each_of_them_is_used(k: int) -> None:
    dice = SplitMix64(k)
    seen_set = seen_clear = 0

    for _ in range(64):
        bits = dice.getrandbits(k)
        assert 0 <= bits < 2**k
        seen_set |= bits
        seen_clear |= ~bits & (2**k - 1)

    assert seen_set == seen_clear == 2**k - 1


def test_fewer_than_no_bits_is_an_error_and_rolls_nothing() -> None:
    dice = SplitMix64(7)

    with pytest.raises(ValueError, match="non-negative"):
        dice.getrandbits(-1)

    assert dice.position == 7


# What games do with them


@given(seed=seeds, low=st.integers(-(10**6), 10**6), span=st.integers(0, 10**40))
def test_randint_is_between_its_ends(seed: int, low: int, span: int) -> None:
    assert low <= SplitMix64(seed).randint(low, low + span) <= low + span


@given(seed=seeds, count=st.integers(0, 60), data=st.data())
def test_a_sample_has_no_doubles_and_a_shuffle_loses_nothing(seed: int, count: int, data: st.DataObject) -> None:
    dice = SplitMix64(seed)

    sample = dice.sample(range(count), data.draw(st.integers(0, count)))

    assert len(set(sample)) == len(sample)
    assert set(sample) <= set(range(count))
    assert sorted(shuffled(dice, count)) == list(range(count))
