"""What clients received: every stay in a room is a stream without gaps, and all of them tell the same story."""

from array import array
from collections.abc import Callable, Iterable

from holdfast.server.rooms.splitmix64 import SplitMix64
from tests.storm.game import Event, dice_of, linked

Fail = Callable[[str, str], None]
_UNKNOWN = -1


class Room:
    """The story of a room, as far as anybody was told: the chain after each event, and when each thing happened."""

    def __init__(self, name: str, fail: Fail, *, first: int | None = None) -> None:
        self.name = name
        self.fail = fail
        self._random = SplitMix64(first) if first is not None else None
        self._dice = array("Q", [0])
        self._chains = array("q", [0])
        self._end: tuple[int, int] | None = None
        self.events: dict[tuple[str, str, int], int] = {}
        """The number of each operation and each ring."""
        self.seats_max = 0
        self._seats: dict[int, int] = {}
        """By the numbers of events: one more seat is taken, or one less."""

    def end(self, n: int, chain: int) -> None:
        """What the store holds in the end."""
        self._end = (n, chain)

    def told(self, who: str, n: int, chain: int) -> None:
        """A client was told event n."""
        missing = n + 1 - len(self._chains)
        if missing > 0:
            self._chains.extend([_UNKNOWN] * missing)
        known = self._chains[n]
        if known == _UNKNOWN:
            self._chains[n] = chain
            if self._end is not None and (n > self._end[0] or (n == self._end[0] and chain != self._end[1])):
                self.fail("forked", f"{who} was told event {n} of {self.name}, which the store does not have")
        elif known != chain:
            self.fail("forked", f"{who} was told another event {n} of {self.name} than others")

    def chain(self, n: int) -> int | None:
        """The chain after event n, if anybody was told."""
        known = self._chains[n] if n < len(self._chains) else _UNKNOWN
        return known if known != _UNKNOWN else None

    def happened(self, kind: str, who: str, seq: int, n: int) -> None:
        """An operation was applied, or a timer rang."""
        if self.events.setdefault((kind, who, seq), n) != n:
            self.fail("duplicated", f"{kind} {who} {seq} is event {self.events[kind, who, seq]} and {n} of {self.name}")

    def seated(self, n: int, change: int) -> None:
        """A seat was taken or left."""
        self._seats[n] = change

    def check_seats(self) -> None:
        """Never more were taken than there are, as far as anybody was told of it."""
        taken = 0
        for n in range(1, len(self._chains)):
            # What nobody was told is that the last one left.
            taken = max(0, taken - 1) if self._chains[n] == _UNKNOWN else taken + self._seats.get(n, 0)
            if 0 < self.seats_max < taken:
                self.fail("overfull", f"{self.name} has {taken} players after event {n}, and {self.seats_max} seats")

    def dice(self, n: int) -> int | None:
        """What the room must have drawn for event n."""
        if self._random is None:
            return None
        while len(self._dice) <= n:
            self._dice.append(dice_of(self._random))
        return self._dice[n]

    @staticmethod
    def check_events(rooms: Iterable["Room"], fail: Fail) -> None:
        """Nothing happened in two rooms."""
        seen: dict[tuple[str, str, int], str] = {}
        for room in rooms:
            for event in room.events:
                if seen.setdefault(event, room.name) != room.name:
                    fail("duplicated", f"{' '.join(map(str, event))} happened in {seen[event]} and in {room.name}")


class Stay:
    """One client's time in a room."""

    def __init__(self, who: str, room: Room) -> None:
        self.room = room
        self.n = 0
        self._who = who
        self._chain: int | None = None
        self._last: dict[str, int] = {}
        self._missing: set[int] = set()

    def got(self, event: Event) -> None:
        """The next event came."""
        room, n, chain = self.room, event.n, event.chain
        if self.n and n != self.n + 1:
            room.fail(self._trouble(n), f"{self._who} got event {n} of {room.name} after {self.n}")
            self._chain = room.chain(n - 1)
        before = self._chain if self._chain is not None else room.chain(n - 1)
        if before is not None and linked(before, n, event.kind, event.who, event.seq, event.dice) != chain:
            room.fail("forked", f"{self._who}: event {n} of {room.name} does not follow from what came before")
        self.n, self._chain = n, chain
        room.told(self._who, n, chain)
        if room.dice(n) not in {None, event.dice}:
            room.fail("forked", f"event {n} of {room.name}: the room's chance gave {event.dice}, not {room.dice(n)}")
        if event.kind in {"joined", "left"}:
            room.seated(n, 1 if event.kind == "joined" else -1)
        if event.kind in {"op", "ring"}:
            room.happened(event.kind, event.who, event.seq, n)
        if event.kind == "op":
            last = self._last.get(event.who, 0)
            if event.seq <= last:
                room.fail("reordered", f"{event.who}'s {event.seq} is event {n} of {room.name}, after {last}")
            self._last[event.who] = event.seq

    def _trouble(self, n: int) -> str:
        if n > self.n:
            self._missing.update(range(self.n + 1, n))
            return "lost"
        if n in self._missing:
            self._missing.discard(n)
            return "reordered"
        return "duplicated"
