"""What a client knows of a room's stream. The room numbers what it says, so every gap shows, whoever made it."""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import ClassVar

from holdfast import Message, MessageRefused, Resynced, RoomUpdated
from tests.simulation.checker import Checker, Op

IN_VAIN = -1
"""The number of what was said in a turn that failed."""


class Append(Message):
    """Please write this into your log; or please say no."""

    process: str
    n: int
    is_refused: bool
    ballast: str
    # Something to do beside writing: "timer", "bell", "effect", "own", "team", "close"; of a spectator: "promote".
    wish: str = ""


class Note(Message):
    """From an agent: please write a word of your own into your log."""


class Shown(Message):
    """The state: the numbers of the next entry and of the next word to this player."""

    room: str
    at: int
    told: int
    turn: int = 0


class Told(Message):
    """A word to one player: their operation is entry `at`; n is 0 for news."""

    number: int
    room: str
    at: int
    process: str
    n: int
    turn: int = 0


class Done(Message):
    """The answer to who asked: their operation is entry `at`."""

    room: str
    at: int
    process: str
    n: int


class Entered(Message):
    """A word to all: this is entry `at`."""

    at: int
    process: str
    n: int
    ballast: str
    turn: int = 0


class Underlined(Message):
    """A second word to all in the same turn, about entries with an odd number."""

    at: int


class Letter(Message):
    """A word of a room to a session, wherever it is: the room numbers those to each session. It tells of entry `at`."""

    number: int
    room: str
    at: int
    process: str
    n: int


class Cry(Message):
    """A word to every session on the server, numbered in each of its lives."""

    life: int
    number: int


MESSAGES = (Shown, Told, Entered, Underlined, Done, Letter, Cry)


@dataclass(slots=True)
class Mail:
    """What a client knows of the messages to its session."""

    process: str
    # By room, the number of the next letter.
    next: dict[str, int] = field(default_factory=dict)
    # The last cry.
    cry: Cry | None = None
    # Whether a gap was declared: numbers that are not known may be any.
    has_gap: bool = False

    def copy(self, process: str = "") -> "Mail":
        """The same, to be saved or gone on with."""
        return replace(self, next=dict(self.next), process=process or self.process)

    def lost(self) -> None:
        """A gap was declared."""
        self.next.clear()
        self.cry = None
        self.has_gap = True

    def heard(self, message: Message, session: str, checker: Checker) -> None:
        """The next message to this session, in the order the application sees it."""
        checker.note(self.process, "got", message)
        is_in_vain = isinstance(message, Letter) and message.at == IN_VAIN
        checker.expect("P9", not is_in_vain, f"{self.process} got what was sent in a turn that failed")
        checker.count("messages to sessions")
        match message:
            case Letter(number, room, at, by, n):
                known = self.next.get(room)
                in_order = number == (known or 0) or (known is None and self.has_gap) or room in checker.rewinds
                checker.expect("I1", in_order, f"{self.process} got {message} after {known}")
                checker.saw(room, at, Op(by, n))
                self.next[room] = number + 1
            case Cry(life, number):
                if self.cry is not None and self.cry.life == life:
                    checker.expect("I1", number > self.cry.number, f"{self.process} heard {message} after {self.cry}")
                    unheard = checker.unheard(session, life, range(self.cry.number + 1, number))
                    checker.expect("I1", not unheard, f"{self.process} heard {message}, and not {unheard}")
                self.cry = message
            case Resynced():
                checker.count("gaps in messages to sessions")
                self.lost()
            case _:
                checker.fail("I1", f"{self.process} got {message!r}, which nobody sends to sessions")


@dataclass(slots=True)
class View:
    """Where one client is in one stream. None: it cannot know yet, for it has just come, or was told of a gap."""

    NEWS: ClassVar[int] = 0

    process: str
    at: int | None = None
    told: int | None = None
    # Whether the state is still to come.
    is_blind: bool = True
    # What was sent and has no answer yet, and whether answers may have gone with a declared gap.
    awaited: deque[Op] = field(default_factory=deque)
    has_gap: bool = False
    # Whether the last that came was the word of a gap: the state must be next.
    is_at_gap: bool = False
    # Whether an earlier process may have sent what this one does not remember.
    has_past: bool = False
    room: str = ""
    # Whether the room outlives its server.
    is_saved: bool = False
    # The entries that were seen since the last declared gap.
    seen: dict[int, Op] = field(default_factory=dict)
    # The entry that is to be underlined next.
    due: int | None = None
    # Whether nothing has come yet.
    is_new: bool = True
    # Whether nothing is said to it alone: what it sent is answered by the word to all.
    is_spectator: bool = False

    def copy(self, **changes: object) -> "View":
        """The same, to be saved."""
        return replace(self, awaited=deque(self.awaited), seen=dict(self.seen), **changes)  # type: ignore[arg-type]  # its own fields

    def heard(self, message: Message, checker: Checker) -> None:
        """The next message of the stream, in the order the application sees it."""
        checker.note(self.process, "heard", message)
        is_in_vain = isinstance(message, Entered | Told) and message.at == IN_VAIN
        checker.expect("P9", not is_in_vain, f"{self.process} heard what was said in a turn that failed")
        checker.count("messages down")
        self._check_neighbours(message, checker)
        is_new, self.is_new = self.is_new, False
        match message:
            case Underlined(at):
                checker.expect("I1", self.at in (None, at + 1), f"{self.process} saw {message} after {self.at}")
            case Entered(at, by, number):
                self.due = at if at % 2 else None
                checker.expect("I1", self.at in (None, at), f"{self.process} saw entry {at} after {self.at}")
                self.at = at + 1
                self.seen[at] = Op(by, number)
                if self.room:
                    checker.saw(self.room, at, Op(by, number))
                if self.is_spectator and Op(by, number) in self.awaited:
                    self._answered(Op(by, number), checker)
            case Told():
                self._told(message, checker)
            case Shown(_, at, told):
                is_known = self.at in (None, at) and self.told in (None, told)
                checker.expect("I1", is_known, f"{self.process} was shown {at}, {told} at {self.at}, {self.told}")
                self.at, self.told, self.is_blind = at, told, False
            case Done(room, at, by, number):
                is_past = self.has_past and by != self.process
                checker.expect("I1", is_past, f"{self.process} saw {message!r}, which it had asked for")
                checker.answered(Op(by, number), room, at)
            case MessageRefused(message=words):
                if "holdfast.forgotten" in words and self.has_past:
                    # An earlier process had sent something there, nobody remembers what, and the server lost it too.
                    return
                process, n = words.split()
                op = Op(process, int(n))
                checker.refused(op)
                self._answered(op, checker)
            case Resynced():
                checker.count("resyncs seen")
                self.at = self.told = None
                self.seen.clear()
                self.is_blind = self.has_gap = self.is_at_gap = True
            case RoomUpdated():
                # Whoever is promoted is told of it first: no request of theirs was answered with it.
                is_due = not self.is_blind or is_new
                checker.expect("I12", is_due, f"{self.process} was told of the room before its state")
            case _:
                checker.fail("I1", f"{self.process} saw {message!r}, which no room sends")

    def _check_neighbours(self, message: Message, checker: Checker) -> None:
        """What must follow the message before."""
        if self.is_at_gap:
            is_state = isinstance(message, Shown | Resynced)
            checker.expect("I12", is_state, f"{self.process} was resynced, and heard {message!r} before the state")
        if self.due is not None:
            is_line = isinstance(message, Resynced) or message == Underlined(self.due)
            checker.expect("I1", is_line, f"{self.process} heard {message!r} between entry {self.due} and its line")
        self.is_at_gap, self.due = False, None

    def _told(self, told: Told, checker: Checker) -> None:
        in_order = self.told in (None, told.number) and self.at in (None, told.at)
        checker.expect("I1", in_order, f"{self.process} at {self.at}, {self.told} heard {told}")
        self.told = told.number + 1
        if told.n == self.NEWS:
            return
        op = Op(told.process, told.n)
        checker.answered(op, told.room, told.at)
        self._answered(op, checker)

    def _answered(self, op: Op, checker: Checker) -> None:
        if op not in self.awaited:
            # An earlier process sent it, after it had saved what this one remembers.
            is_past = self.has_past and op.process != self.process
            checker.expect("I1", is_past, f"{self.process} heard an answer to {op}, which it does not await")
            return
        is_next = self.awaited[0] == op
        checker.expect("I1", is_next or self.has_gap, f"{self.process} heard the answer to {op} too early")
        while self.awaited.popleft() != op:
            pass
