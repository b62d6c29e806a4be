"""The line between two nodes, one direction each: numbers that show what was lost, and a bound for what is on its way.

A bus may lose messages with its link, but neither doubles nor reorders them. So a message with the wrong number means
that others are lost, and with them a piece of some client's stream: the line is given up with everything on it. Whoever
gives the other's line up says so in every message from then on, until the other begins a new one. Lines only count up,
so two nodes that give each other up at the same time agree again after one message each.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Judgement:
    """What to do with a message that has come."""

    is_taken: bool
    """Carry out its frames, after the links are dropped if they are."""
    drops_links: bool = False
    """What was open with the other node is gone; it has to be told, or to hear a new line."""
    is_stale: bool = False
    """The other node does not know yet that its line was given up."""


_IGNORED = Judgement(is_taken=False)


class Line:
    """What one node knows of its line with another."""

    def __init__(self, next_line: Callable[[], int], window_bytes: int) -> None:
        """`next_line` counts up, over all that this node ever began."""
        self.mine = next_line()
        self.theirs = 0
        """The line that is followed; 0: none."""
        self.past = 0
        """Their last line that was given up."""
        self.heard = 0
        """The number of the last message on the line that is followed."""
        self.sent = 0
        self.unheard_bytes = 0
        """Sent, and not heard by the other node yet."""
        self._next_line = next_line
        self._window_bytes = window_bytes
        self._unheard: deque[tuple[int, int]] = deque()

    @property
    def has_room(self) -> bool:
        return self.unheard_bytes < self._window_bytes

    def next_number(self) -> int:
        """The number of the message that is sent next; say afterwards how large it was."""
        self.sent += 1
        return self.sent

    def note_sent(self, size: int) -> None:
        """The last message had this size."""
        self._unheard.append((self.sent, size))
        self.unheard_bytes += size

    def give_up(self) -> None:
        """Follow their line no longer: what is missing will never come."""
        self.past = max(self.past, self.theirs)
        self.theirs = self.heard = 0

    def judge(self, line: int, number: int, *, to: int, heard: int, past: int) -> Judgement:
        """What to do with a message. `to` and `heard` are what they follow of ours, `past` what they gave up."""
        is_given_up = past >= self.mine
        if is_given_up:
            self.mine = self._next_line()
            self.sent = self.unheard_bytes = 0
            self._unheard.clear()
        if to == self.mine:
            while self._unheard and self._unheard[0][0] <= heard:
                self.unheard_bytes -= self._unheard.popleft()[1]
        followed = self._follow(line, number)
        if is_given_up and not followed.drops_links:
            return Judgement(followed.is_taken, drops_links=True)
        return followed

    def _follow(self, line: int, number: int) -> Judgement:
        if line <= self.past:
            return Judgement(is_taken=False, is_stale=True)
        if line < self.theirs or (line == self.theirs and number <= self.heard):
            return _IGNORED
        is_new = line > self.theirs
        is_restarted = is_new and self.theirs > 0
        if number != (1 if is_new else self.heard + 1):
            self.theirs = line
            self.give_up()
            return Judgement(is_taken=False, drops_links=True)
        self.theirs, self.heard = line, number
        return Judgement(is_taken=True, drops_links=is_restarted)
