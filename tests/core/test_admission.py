from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from holdfast.core.limits import Limits
from holdfast.core.rates import AddressActivity, AddressTable, AdmissionRate

LIMITS = Limits()
CLOSE = 1e-6


# One address


def test_failures_up_to_the_burst_keep_nobody_out() -> None:
    activity = AddressActivity(LIMITS)

    for _ in range(LIMITS.failures_per_address_burst):
        activity.failed(100.0)

    assert activity.blocked_s(100.0) == 0.0


def test_each_failure_beyond_the_burst_doubles_the_wait_up_to_the_longest() -> None:
    limits = replace(LIMITS, failures_per_address_burst=2, failures_per_address_per_s=0.2, failure_wait_max_s=60.0)
    activity, now, waits = AddressActivity(limits), 0.0, []
    activity.failed(now)
    activity.failed(now)

    for _ in range(6):
        activity.failed(now)
        waits.append(activity.blocked_s(now))
        now += waits[-1]

    assert waits == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


def test_failures_are_forgiven_with_time_but_not_while_they_wait() -> None:
    limits = replace(LIMITS, failures_per_address_burst=2, failures_per_address_per_s=0.1)
    activity = AddressActivity(limits)
    for _ in range(3):
        activity.failed(0.0)
    assert activity.blocked_s(0.0) == 10.0

    activity.failed(10.0 + 20.0)

    # Two of three were forgiven in the twenty seconds after the wait: this is the second.
    assert activity.blocked_s(30.0) == 0.0


def test_any_number_of_failures_can_be_counted() -> None:
    activity = AddressActivity(LIMITS)

    for _ in range(10_000):
        activity.failed(0.0)

    assert activity.blocked_s(0.0) == LIMITS.failure_wait_max_s


@given(st.lists(st.floats(0, 600), min_size=1, max_size=100))
def test_attempts_get_through_at_most_at_the_rate_and_the_burst(pauses: list[float]) -> None:
    activity, now, attempts = AddressActivity(LIMITS), 0.0, 0

    for pause in pauses:
        now += pause
        if not activity.blocked_s(now):
            activity.failed(now)
            attempts += 1

    assert attempts <= LIMITS.failures_per_address_burst + 1 + now * LIMITS.failures_per_address_per_s + CLOSE


def test_those_who_are_one_too_many_are_told_different_times() -> None:
    activity = AddressActivity(LIMITS)

    waits = [activity.retry_after_s(0.0) for _ in range(100)]

    assert len(set(waits)) == 100
    assert waits == sorted(waits)


# The address book


def test_an_address_is_remembered() -> None:
    book = AddressTable(LIMITS)

    assert book.activity("a") is book.activity("a")
    assert book.activity("a") is not book.activity("b")


def test_the_one_that_was_heard_of_longest_ago_gives_way() -> None:
    book = AddressTable(replace(LIMITS, addresses_max=2))
    first, second = book.activity("a"), book.activity("b")
    book.activity("a")

    book.activity("c")

    assert len(book) == 2
    assert book.activity("a") is first
    assert book.activity("b") is not second


def test_one_with_unauthenticated_connections_never_gives_way() -> None:
    book = AddressTable(replace(LIMITS, addresses_max=2))
    book.came("a")
    activity = book.activity("a")
    for number in range(10):
        book.activity(f"other {number}")

    assert book.activity("a") is activity
    assert activity.unauthenticated == book.unauthenticated == 1

    book.went("a")

    assert activity.unauthenticated == book.unauthenticated == 0
    assert book.activity("a") is activity


class BookMachine(RuleBasedStateMachine):
    """Strangers come and go from a few addresses; the book is small."""

    ADDRESSES_MAX = 3
    waiting = Bundle("waiting")
    names = st.sampled_from("abcdefgh")

    def __init__(self) -> None:
        super().__init__()
        self.book = AddressTable(replace(LIMITS, addresses_max=self.ADDRESSES_MAX))
        self.strangers: dict[str, int] = {}
        self.known: dict[str, AddressActivity] = {}

    @rule(target=waiting, name=names)
    def comes(self, name: str) -> str:
        self.book.came(name)
        self.strangers[name] = self.strangers.get(name, 0) + 1
        self.known[name] = self.book.activity(name)
        return name

    @rule(name=consumes(waiting))
    def goes(self, name: str) -> None:
        self.book.went(name)
        self.strangers[name] -= 1

    @rule(name=names)
    def is_heard_of(self, name: str) -> None:
        self.book.activity(name)

    @invariant()
    def nobody_at_the_door_is_forgotten(self) -> None:
        for name, count in self.strangers.items():
            if count:
                assert self.book.activity(name) is self.known[name]
                assert self.book.activity(name).unauthenticated == count

    @invariant()
    def all_are_counted(self) -> None:
        assert self.book.unauthenticated == sum(self.strangers.values())

    @invariant()
    def it_is_bounded(self) -> None:
        at_the_door = sum(count > 0 for count in self.strangers.values())
        assert len(self.book) <= max(self.ADDRESSES_MAX, at_the_door + 1)


TestBookMachine = BookMachine.TestCase
TestBookMachine.settings = settings(max_examples=40, stateful_step_count=30)


# The storm governor

STORM = replace(LIMITS, resumes_per_s=100.0, sign_ins_per_s=20.0, retry_after_max_s=10.0)


def test_a_second_of_resumes_comes_in_at_once_and_the_rest_is_spread_over_time() -> None:
    rate = AdmissionRate(STORM)

    waits = [rate.resume_s(0.0) for _ in range(400)]

    assert waits[:100] == [0.0] * 100
    assert waits[100:] == pytest.approx([number / 100 for number in range(1, 301)])


def test_nobody_new_comes_in_while_somebody_who_comes_back_has_to_wait() -> None:
    rate = AdmissionRate(STORM)
    for _ in range(150):
        rate.resume_s(0.0)

    first, second = rate.sign_in_s(0.1), rate.sign_in_s(0.1)

    assert 0.1 + first == pytest.approx(0.5 + 0.05)
    assert second == pytest.approx(first + 0.05)
    assert rate.sign_in_s(1.0) == 0.0


def test_those_who_are_new_have_a_pace_of_their_own() -> None:
    rate = AdmissionRate(STORM)

    waits = [rate.sign_in_s(0.0) for _ in range(40)]

    assert waits[:20] == [0.0] * 20
    assert all(waits[20:])
    assert rate.resume_s(0.0) == 0.0


def test_those_who_are_new_get_what_those_who_come_back_leave() -> None:
    rate = AdmissionRate(STORM)
    for _ in range(95):
        assert rate.resume_s(0.0) == 0.0

    assert [bool(rate.sign_in_s(0.0)) for _ in range(10)] == [False] * 5 + [True] * 5


def test_a_resume_that_was_none_leaves_its_place_to_another() -> None:
    rate = AdmissionRate(STORM)
    for _ in range(100):
        rate.resume_s(0.0)

    rate.not_resumed()

    assert rate.resume_s(0.0) == 0.0
    assert rate.resume_s(0.0) > 0.0


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 0.2)), max_size=400))
def test_no_more_come_in_than_the_pace_whoever_they_are(arrivals: list[tuple[bool, float]]) -> None:
    rate, now, resumes, sign_ins = AdmissionRate(STORM), 0.0, 0, 0

    for is_resume, pause in arrivals:
        now += pause
        wait_s = rate.resume_s(now) if is_resume else rate.sign_in_s(now)
        assert 0.0 <= wait_s <= STORM.retry_after_max_s
        resumes += is_resume and not wait_s
        sign_ins += not is_resume and not wait_s

    assert resumes + sign_ins <= STORM.resumes_per_s * (1 + now) + 1
    assert sign_ins <= STORM.sign_ins_per_s * (1 + now) + 1


def test_everybody_in_a_storm_is_in_soon_if_they_come_when_they_are_told() -> None:
    rate = AdmissionRate(STORM)
    due = [(0.0, number) for number in range(1000)]
    came_in: list[float] = []

    while due:
        due.sort(reverse=True)
        now, number = due.pop()
        wait_s = rate.resume_s(now)
        if wait_s:
            due.append((now + wait_s, number))
        else:
            came_in.append(now)

    assert max(came_in) <= 1000 / STORM.resumes_per_s + 1
