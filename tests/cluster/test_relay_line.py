"""The line between two nodes, by its rules alone: whatever is lost, nothing is taken after a hole."""

from collections import deque
from itertools import count
from typing import NamedTuple

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.strategies import booleans, integers

from holdfast.cluster.relay.line import Judgement, Line

WINDOW = 10


class Message(NamedTuple):
    line: int
    number: int
    to: int
    heard: int
    past: int
    word: int


class Node:
    """One end: what it took on the line that it hears, and what is on its way to it."""

    def __init__(self) -> None:
        self.line = Line(count(1).__next__, WINDOW)
        self.taken: list[int] = []
        self.inbound: deque[Message] = deque()


class LineMachine(RuleBasedStateMachine):
    """Two nodes that say words to each other over a bus that loses what it likes, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = {name: Node() for name in "ab"}
        self.word = 0
        self.said: dict[tuple[str, int], list[int]] = {}
        """All that was ever said on each line."""

    def other(self, name: str) -> str:
        return "b" if name == "a" else "a"

    def say(self, name: str, *, is_lost: bool) -> None:
        line = self.nodes[name].line
        has_frames = line.has_room
        self.word += 1
        message = Message(line.mine, line.next_number(), line.theirs, line.heard, line.past, self.word)
        if has_frames:
            line.note_sent(1)
        self.said.setdefault((name, line.mine), []).append(self.word)
        if not is_lost:
            self.nodes[self.other(name)].inbound.append(message)

    def hear(self, name: str) -> None:
        node = self.nodes[name]
        message = node.inbound.popleft()
        judgement = node.line.judge(message.line, message.number, to=message.to, heard=message.heard, past=message.past)
        if judgement.is_taken:
            node.taken = [*(node.taken if message.number > 1 else []), message.word]
        if judgement.drops_links or judgement.is_stale:
            self.say(name, is_lost=False)

    def give_up(self, name: str) -> None:
        self.nodes[name].line.give_up()
        self.say(name, is_lost=False)

    @rule(is_a=booleans(), is_lost=booleans())
    def one_speaks(self, is_a: bool, is_lost: bool) -> None:
        self.say("a" if is_a else "b", is_lost=is_lost)

    @rule(is_a=booleans(), count=integers(1, 5))
    def one_hears(self, is_a: bool, count: int) -> None:
        name = "a" if is_a else "b"
        for _ in range(min(count, len(self.nodes[name].inbound))):
            self.hear(name)

    @rule(is_a=booleans())
    def one_gives_up(self, is_a: bool) -> None:
        self.give_up("a" if is_a else "b")

    @invariant()
    def what_is_taken_has_no_hole(self) -> None:
        for name, node in self.nodes.items():
            if node.line.theirs:
                said = self.said[self.other(name), node.line.theirs]
                assert node.taken == said[: len(node.taken)]
                assert len(node.taken) == node.line.heard

    @invariant()
    def what_is_on_its_way_is_bounded(self) -> None:
        assert all(node.line.unheard_bytes <= WINDOW for node in self.nodes.values())

    def teardown(self) -> None:
        """Once nothing is lost any more, and silence has been noticed, both hear each other again, and are at rest."""
        for _ in range(4):
            for name in "ab":
                self.say(name, is_lost=False)
            for _ in range(100):
                for name in "ab":
                    if self.nodes[name].inbound:
                        self.hear(name)
        a, b = self.nodes["a"].line, self.nodes["b"].line
        assert (a.theirs, b.theirs) == (b.mine, a.mine)
        assert not any(node.inbound for node in self.nodes.values())


LineMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestLine = LineMachine.TestCase


def test_what_comes_late_on_a_line_that_was_given_up_drops_nothing_and_asks_for_a_new_line() -> None:
    line = Line(count(1).__next__, WINDOW)
    line.judge(1, 1, to=0, heard=0, past=0)
    assert line.judge(1, 3, to=0, heard=0, past=0) == Judgement(is_taken=False, drops_links=True)

    late = line.judge(1, 4, to=0, heard=0, past=0)
    anew = line.judge(2, 1, to=0, heard=0, past=0)

    assert late == Judgement(is_taken=False, is_stale=True)
    assert anew == Judgement(is_taken=True)
