"""The unread messages of one seat, and the changes of the room's state between them."""

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast

from holdfast.client.channels import Arrived
from holdfast.core.messages import RESERVED, Message, SeatLeft

M = TypeVar("M", bound=Message)


class Resynced(Message):
    """Messages could not be kept. In a room's stream the current state follows; in a session's own, what came since."""


class _Unread(NamedTuple):
    place: int
    message: Message
    arrived: Arrived | None = None


class _Change(NamedTuple):
    place: int
    body: Any
    arrived: Arrived


def _first(kept: Iterable[_Unread], message_type: type[Message]) -> _Unread | None:
    for unread in kept:
        if isinstance(unread.message, message_type):
            return unread
    return None


def _is_restart(arrived: Arrived | None) -> bool:
    """Whether it is no message, but the beginning of a stream: what changes after it need not wait for its reader."""
    return arrived is not None and not arrived.seq


class RoomInbox:
    """The unread messages of one seat: what was read counts as processed when more is asked for, or by `acknowledge`.

    Reliable messages are bounded by the server's window, which moves only when they are processed. Of the unreliable
    ones only the newest are kept. Both are read in the order in which they came, or one type before the others.

    Changes of the state are applied in their order among the messages: the reader of one sees the state of its turn,
    until more is asked for. A change with nothing unread before it is applied when it comes.
    """

    def __init__(
        self,
        processed: Callable[[Arrived], None],
        *,
        latest_max: int,
        received: int = 0,
        apply: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self.left: SeatLeft | None = None
        """Why there is nothing more to come, known before everything has been read."""
        self.received = received
        """The number of the last reliable message that was read."""
        self.holds_changes = False
        """Whether changes wait until something is read or acknowledged, however little there is before them."""
        self._processed = processed
        self._apply = apply
        self._reliable: deque[_Unread] = deque()
        self._latest: deque[_Unread] = deque(maxlen=latest_max)
        self._changes: deque[_Change] = deque()
        self._place = 0
        self._has_reader = False
        self._in_hand: Arrived | None = None
        # Processed before others that came earlier. An acknowledgement stands for all messages up to its number, so
        # these wait, in a heap by that.
        self._ahead: list[tuple[int, Arrived]] = []
        self._farewell: Arrived | None = None
        self._is_discarding = False

    @property
    def waiting_changes(self) -> int:
        """How many changes of the state wait for messages before them."""
        return len(self._changes)

    # For the reader

    def is_ready(self, message_type: type[Message]) -> bool:
        """Whether a reader has something to learn: a message of this type, or that there will be none."""
        return self.left is not None or any(_first(kept, message_type) for kept in (self._reliable, self._latest))

    def next(self, message_type: type[M]) -> M | None:
        """The oldest message of this type; the others stay."""
        self._has_reader = True
        self.acknowledge()
        reliable, latest = _first(self._reliable, message_type), _first(self._latest, message_type)
        if latest is not None and (reliable is None or latest.place < reliable.place):
            self._latest.remove(latest)
            return cast("M", latest.message)
        if reliable is None:
            return None
        self._reliable.remove(reliable)
        self._hold(reliable)
        return cast("M", reliable.message)

    def take(self) -> list[Message]:
        """Everything that is unread."""
        self.acknowledge()
        return self._take(inf)

    def take_turn(self) -> tuple[list[Message], bool]:
        """What is unread and comes before the next change of the state; and whether there is more."""
        self.acknowledge()
        messages = self._take(self._changes[0].place if self._changes else inf)
        return messages, bool(self._reliable or self._latest)

    def _take(self, before: float) -> list[Message]:
        self._has_reader = True
        entries = sorted([*self._reliable, *self._latest], key=attrgetter("place"))
        entries = [entry for entry in entries if entry.place < before]
        reliable = [entry for entry in entries if entry.arrived is not None]
        self._reliable = deque(entry for entry in self._reliable if entry.place >= before)
        self._latest = deque((entry for entry in self._latest if entry.place >= before), self._latest.maxlen)
        if reliable:
            if reliable[0] is not reliable[-1] and _is_restart(reliable[0].arrived):
                # In its own right: the number of the last stands for messages only.
                heappush(self._ahead, (0, cast("Arrived", reliable[0].arrived)))
            self._hold(reliable[-1])
        return [entry.message for entry in entries]

    def _hold(self, unread: _Unread) -> None:
        assert unread.arrived is not None
        self._in_hand = unread.arrived
        self.received = unread.arrived.seq
        self._apply_before(unread.place)

    def acknowledge(self) -> None:
        """What was read has been dealt with."""
        if self._in_hand is not None:
            arrived, self._in_hand = self._in_hand, None
            heappush(self._ahead, (arrived.seq, arrived))
        if self._changes:
            self._apply_due()
        if self._ahead:
            self._process()
        if self._farewell is not None and not self._reliable:
            arrived, self._farewell = self._farewell, None
            self._processed(arrived)

    def _process(self) -> None:
        """Process what has nothing unread before it."""
        # Nothing waits for a reader who may never come to hear of a restart.
        kept = (each.arrived for each in self._reliable if self._has_reader or not _is_restart(each.arrived))
        waiting = [next(kept, None), self._changes[0].arrived if self._changes else None]
        unread = min((arrived.seq for arrived in waiting if arrived is not None), default=inf)
        last: Arrived | None = None
        while self._ahead and self._ahead[0][0] < unread:
            _, last = heappop(self._ahead)
            if _is_restart(last):
                self._processed(last)
        if last is not None and not _is_restart(last):
            self._processed(last)

    def _apply_due(self) -> None:
        """Apply the changes that have nothing unread before them."""
        self._apply_before(next((each.place for each in self._reliable if not _is_restart(each.arrived)), inf))

    def _apply_before(self, place: float) -> None:
        while self._changes and self._changes[0].place < place:
            # Taken first: a listener may read messages.
            change = self._changes.popleft()
            heappush(self._ahead, (change.arrived.seq, change.arrived))
            self._apply(change.body)

    def discard(self, left: SeatLeft) -> None:
        """Stop reading: everything unread, and everything still to come, counts as processed."""
        self.end(left)
        self._is_discarding = True
        for change in self._changes:
            heappush(self._ahead, (change.arrived.seq, change.arrived))
        self._changes.clear()
        self.take()
        self.acknowledge()

    # For the session

    def put(self, arrived: Arrived, message: Message) -> None:
        if isinstance(message, SeatLeft):
            self.end(message)
            self._farewell = arrived
            if self._in_hand is None and not (self.holds_changes and self._changes):
                self.acknowledge()
        elif self._is_discarding:
            self._processed(arrived)
        else:
            self._place += 1
            self._reliable.append(_Unread(self._place, message, arrived))

    def put_change(self, arrived: Arrived, body: Any) -> None:
        """A change of the state came."""
        if self._is_discarding:
            self._processed(arrived)
            return
        self._place += 1
        self._changes.append(_Change(self._place, body, arrived))
        if not self._has_reader:
            self._let_news_wait()
        if not self.holds_changes and (self._in_hand is None or _is_restart(self._in_hand)):
            self._apply_due()
            if self._in_hand is None:
                self._process()

    def _let_news_wait(self) -> None:
        """Holdfast's own messages, which nobody reads, must not stop the state: the newest are kept.

        Not so the word that messages could not be kept: it waits for its reader, in this process or the next.
        """
        restart = [each for each in self._reliable if _is_restart(each.arrived)]
        while len(self._reliable) > len(restart):
            arrived = self._reliable[len(restart)].arrived
            if arrived is None or not arrived.name.startswith(RESERVED):
                return
            news = self._reliable[len(restart)]
            del self._reliable[len(restart)]
            heappush(self._ahead, (arrived.seq, arrived))
            self._latest.append(_Unread(news.place, news.message))

    def pass_over(self, arrived: Arrived) -> None:
        """A reliable message came that nobody has to read: processed when those before it are."""
        heappush(self._ahead, (arrived.seq, arrived))
        if self._in_hand is None:
            self._process()

    def put_latest(self, message: Message) -> None:
        """An unreliable message came; the oldest gives way."""
        if not self._is_discarding:
            self._place += 1
            self._latest.append(_Unread(self._place, message))

    def restart(self, arrived: Arrived) -> None:
        """The stream was restarted: unread messages are out of date, and the reader is told."""
        self._in_hand = None
        self._ahead.clear()
        self._reliable.clear()
        self._latest.clear()
        self._changes.clear()
        if not self._is_discarding:
            self._place += 1
            self._reliable.append(_Unread(self._place, Resynced(), arrived))
        else:
            self._processed(arrived)

    def end(self, left: SeatLeft) -> None:
        """The seat is gone; what came before can still be read."""
        if self.left is None:
            self.left = left
