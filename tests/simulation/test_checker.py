"""The checker against histories made by hand: what must pass passes, what must not is named by its promise."""

from collections import deque

import pytest

from holdfast import Message, MessageRefused, Resynced
from tests.simulation.checker import Checker, Op, Stream
from tests.simulation.view import Cry, Entered, Mail, Shown, Told, Underlined, View


def op(n: int) -> Op:
    return Op("ada#1", n)


def entered(at: int) -> Entered:
    return Entered(at, "", 0, "")


def news(number: int, at: int) -> Told:
    return Told(number, "room", at, "", View.NEWS)


class Story:
    """One player, one room, one stream."""

    def __init__(self) -> None:
        self.now = 0.0
        self.checker = Checker(lambda: self.now)
        self.stream = Stream("ada")

    def send(self, *numbers: int, is_refused: bool = False) -> None:
        for n in numbers:
            self.checker.sent(op(n), self.stream, is_refused=is_refused)

    def apply(self, *numbers: int, player: str = "ada") -> None:
        for n in numbers:
            self.checker.wrote("room", player, op(n))

    @property
    def broken(self) -> list[str]:
        return [violation.invariant for violation in self.checker.violations]


@pytest.fixture
def story() -> Story:
    return Story()


def test_what_is_sent_and_applied_once_in_order_breaks_nothing(story: Story) -> None:
    story.send(1, 2, 3)
    story.apply(1, 2, 3)
    story.checker.acked([op(1), op(2), op(3)])
    story.checker.answered(op(2), "room", 1)

    assert story.broken == []


@pytest.mark.parametrize("applied", [(1, 1), (2,), (1, 3), (2, 1), (9,)], ids=str)
def test_what_is_applied_twice_early_or_unsent_breaks_i4(story: Story, applied: tuple[int, ...]) -> None:
    story.send(1, 2, 3)
    story.apply(*applied)

    assert "I4" in story.broken


def test_an_acknowledgement_without_an_effect_breaks_i3(story: Story) -> None:
    story.send(1)
    story.checker.acked([op(1)])

    assert story.broken == ["I3"]


def test_an_answer_that_names_another_entry_breaks_i3(story: Story) -> None:
    story.send(1, 2)
    story.apply(1, 2)
    story.checker.answered(op(1), "room", 1)

    assert story.broken == ["I3"]


def test_what_was_refused_must_not_be_applied(story: Story) -> None:
    story.send(1, is_refused=True)
    story.apply(1)

    assert "I4" in story.broken


def test_what_one_player_sent_must_not_be_applied_for_another(story: Story) -> None:
    story.send(1)
    story.apply(1, player="bob")

    assert story.broken == ["P5"]


def test_what_was_saved_comes_before_what_the_next_process_sends(story: Story) -> None:
    story.send(1, 2)
    later = Stream("ada", after=story.stream, after_count=2)
    story.checker.sent(Op("ada#2", 1), later, is_refused=False)
    story.apply(1)
    story.checker.wrote("room", "ada", Op("ada#2", 1))

    assert story.broken == ["I4"]


@pytest.mark.parametrize(("sent_at", "broken"), [(4.0, []), (6.0, ["I7"])])
def test_who_was_taken_over_has_no_more_say(story: Story, sent_at: float, broken: list[str]) -> None:
    story.now = 5.0
    story.checker.took_over("ada#1", started_at=4.5)
    story.now = sent_at
    story.send(1)
    story.apply(1)

    assert story.broken == broken


def test_who_takes_the_session_back_has_a_say_again(story: Story) -> None:
    story.now = 5.0
    story.checker.took_over("ada#1", started_at=4.5)
    story.now = 6.0
    story.checker.welcomed("ada#1")
    story.send(1)
    story.apply(1)

    assert story.broken == []


@pytest.mark.parametrize(
    "hooks",
    [("on_drop",), ("on_join", "on_rejoin"), ("on_join", "on_leave", "on_drop"), ("on_join", "on_join")],
    ids=str,
)
def test_hooks_out_of_order_break_p6(story: Story, hooks: tuple[str, ...]) -> None:
    for hook in hooks:
        story.checker.hook(hook, "ada", 1)

    assert story.broken == ["P6"]


@pytest.mark.parametrize(("left_at", "broken"), [(15.0, []), (14.0, ["P3"])])
def test_a_seat_is_held_for_the_whole_grace(story: Story, left_at: float, broken: list[str]) -> None:
    story.checker.hook("on_join", "ada", 1)
    story.now = 10.0
    story.checker.hook("on_drop", "ada", 1)
    story.now = left_at
    story.checker.hook("on_leave", "ada", 1, reason="grace_ended", grace_s=5.0)

    assert story.broken == broken


def seen(story: Story, *messages: Message) -> list[str]:
    view = View("ada#1", awaited=deque([op(1), op(2)]))
    for message in messages:
        view.heard(message, story.checker)
        if view.due is not None:
            view.heard(Underlined(view.due), story.checker)
    return story.broken


def test_an_entry_without_its_line_breaks_i1(story: Story) -> None:
    view = View("ada#1")
    for message in (entered(7), entered(8)):
        view.heard(message, story.checker)

    assert story.broken == ["I1"]


def test_a_stream_without_gaps_breaks_nothing(story: Story) -> None:
    assert seen(story, Shown("room", 7, 0), entered(7), news(0, 8), entered(8), news(1, 9)) == []


def test_a_gap_that_was_declared_breaks_nothing(story: Story) -> None:
    assert seen(story, Shown("room", 7, 0), entered(7), Resynced(), Shown("room", 20, 5), entered(20)) == []


def test_what_comes_between_a_gap_and_the_state_breaks_i12(story: Story) -> None:
    assert seen(story, Shown("room", 7, 0), entered(7), Resynced(), entered(20), Shown("room", 21, 5)) == ["I12"]


@pytest.mark.parametrize(
    "second",
    [entered(9), entered(6), entered(7), news(2, 8), news(0, 9), Shown("room", 9, 0), Shown("room", 8, 1)],
    ids=repr,
)
def test_a_gap_or_a_double_in_a_stream_breaks_i1(story: Story, second: Message) -> None:
    assert seen(story, Shown("room", 7, 0), entered(7), second) == ["I1"]


def test_a_resync_is_no_excuse_for_a_state_that_does_not_fit(story: Story) -> None:
    assert seen(story, Resynced(), Shown("room", 20, 0), Shown("room", 30, 0)) == ["I1"]


def test_answers_come_in_the_order_of_what_was_sent(story: Story) -> None:
    story.send(1)
    story.send(2, is_refused=True)

    assert seen(story, MessageRefused(2, "append", "refused", "ada#1 2")) == ["I1"]


def test_equal_histories_have_equal_digests() -> None:
    first, second, third = Story(), Story(), Story()
    for story in (first, second):
        story.send(1)
    third.send(2)

    assert first.checker.digest == second.checker.digest
    assert first.checker.digest != third.checker.digest


@pytest.mark.parametrize(
    ("cried", "moved", "heard", "broken"),
    [
        ([1, 2, 3], False, [1, 2, 3], []),
        ([1, 2, 3], False, [1, 3], ["I1"]),
        ([1, 2, 3], True, [1, 3], []),
        ([1, 3], False, [1, 3], []),
        ([1, 2], False, [1, 1], ["I1"]),
        ([1, 2], True, [2, 1], ["I1"]),
    ],
    ids=["whole", "a gap", "lost to another server", "not on the node", "twice", "out of order"],
)
def test_what_a_server_says_to_a_session_that_stays_there_arrives_once_and_in_order(
    story: Story, cried: list[int], moved: bool, heard: list[int], broken: list[str]
) -> None:
    mail = Mail("ada#1")
    for number in cried:
        story.checker.cried("session", 0, number, lambda: moved)

    for number in heard:
        mail.heard(Cry(0, number), "session", story.checker)

    assert story.broken == broken
