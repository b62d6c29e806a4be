"""Players and their sessions: the session rules alone, for a server that has sockets of its own.

    event                    in the lobby                           in the game, from start() to end()
    connect, unknown         known, with the data passed            the same
    connect, dropped         as unknown: a drop was forgotten (1)   returned: the kept data wins over the data passed
    connect, connected       Duplicate, and nothing changes (2)     the same
    disconnect               forgotten (1)                          kept, until the purge (3) or end()
    set, disconnect, late    False, and nothing changes             the same
    set_by_player            replaced; False if unknown             replaced, also if dropped
    end                      the dropped are forgotten, the connected reset, and the lobby begins
    clear                    everyone is forgotten, and the lobby begins

(1) keep_before_start=True keeps a player dropped in the lobby too.
(2) duplicate="takeover": the newest connection holds the player at once and the old one goes stale.
(3) purge_s after the drop. Only advance(now) moves time, and a drop is timed by the advance that follows it: nobody is
    purged early, whatever the rhythm. Call it right after disconnect to be exact.

Once dropped or taken over, a connection id is stale: it finds nobody, changes nothing, and connecting with it again is
refused (the latest 1,024 are remembered). Player ids must be proven before they come here.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Generic, Literal, TypeVar, get_args

from holdfast.core.errors import Duplicate, Invalid, Throttled
from holdfast.core.limits import Limits

T = TypeVar("T")

DuplicatePolicy = Literal["reject", "takeover"]

# Stale connection ids kept to refuse their reuse. Enough to outlast a late callback, and few because a server may use
# its socket objects as ids: these are kept alive.
_STALE_MAX = 1024


@dataclass(frozen=True, slots=True)
class Connected(Generic[T]):
    """What `connect` found: the player's data, whether it was kept, and the connection to close after a takeover."""

    data: T
    returned: bool
    replaced: Hashable | None = None


class Sessions(Generic[T]):
    """The players of one game and their data of type T, which outlives their connections.

    If T has a method `reset()`, `end()` calls it: it changes the data in place, or returns the data that replaces it.
    Other data stays as it is.
    """

    def __init__(
        self,
        *,
        purge_s: float | None = None,
        duplicate: DuplicatePolicy = "reject",
        keep_before_start: bool = False,
        players_max: int = Limits().sessions_max,
    ) -> None:
        if purge_s is not None and not 0 <= purge_s < inf:
            raise ValueError(f"purge_s is {purge_s}: give seconds, or None to keep dropped players until end()")
        if duplicate not in get_args(DuplicatePolicy):
            raise ValueError(f"duplicate is {duplicate!r}: give 'reject' or 'takeover'")
        if players_max < 1:
            raise ValueError(f"players_max is {players_max}: give at least 1")
        self._purge_s = purge_s
        self._duplicate = duplicate
        self._keep_before_start = keep_before_start
        self._players_max = players_max
        self._started = False
        self._now = -inf
        self._data: dict[Hashable, T] = {}  # every player known: those in _connection_of and those in _purge_at
        self._connection_of: dict[Hashable, Hashable] = {}
        self._player_of: dict[Hashable, Hashable] = {}
        self._purge_at: OrderedDict[Hashable, float] = OrderedDict()  # oldest drop first; inf: not timed yet
        self._stale: OrderedDict[Hashable, None] = OrderedDict()

    def connect(self, connection_id: Hashable, player_id: Hashable, data: T) -> Connected[T]:
        """Make this the player's connection; kept data wins. Raises Duplicate, Throttled (full) or Invalid (an id)."""
        if connection_id is None or player_id is None:
            raise Invalid("None identifies nobody: connection and player need an id")
        if connection_id in self._player_of or connection_id in self._stale:
            raise Invalid(f"connection id {connection_id!r} was used before: give every connection an id of its own")
        replaced = self._connection_of.get(player_id)
        if replaced is not None and self._duplicate == "reject":
            raise Duplicate("this player is connected already: close that connection first")
        returned = player_id in self._data
        if not returned and len(self._data) >= self._players_max:
            raise Throttled(f"all {self._players_max} places are taken or kept for dropped players: try later")

        if replaced is not None:
            self._retire(replaced)
        self._purge_at.pop(player_id, None)
        self._player_of[connection_id] = player_id
        self._connection_of[player_id] = connection_id
        return Connected(self._data.setdefault(player_id, data), returned, replaced)

    def disconnect(self, connection_id: Hashable) -> bool:
        """Drop the player who holds this connection; False if nobody does, as after a takeover or a refusal."""
        if connection_id not in self._player_of:
            return False
        player_id = self._retire(connection_id)
        del self._connection_of[player_id]
        if self._started or self._keep_before_start:
            self._purge_at[player_id] = inf
        else:
            del self._data[player_id]
        return True

    def is_connected(self, player_id: Hashable) -> bool:
        """Whether the player has a connection now."""
        return player_id in self._connection_of

    def player_id_of(self, connection_id: Hashable) -> Hashable | None:
        """The player who holds this connection now, or None."""
        return self._player_of.get(connection_id)

    def connection_of(self, player_id: Hashable) -> Hashable | None:
        """The player's connection now, or None."""
        return self._connection_of.get(player_id)

    def get(self, player_id: Hashable) -> T | None:
        """The player's data, connected or dropped; None if the player is unknown."""
        return self._data.get(player_id)

    def get_by_connection(self, connection_id: Hashable) -> T | None:
        """The data of the player who holds this connection now, or None."""
        return self._data.get(self._player_of.get(connection_id))

    def set(self, connection_id: Hashable, data: T) -> bool:
        """Replace the data of the player who holds this connection; False, with nothing changed, if nobody does."""
        if connection_id not in self._player_of:
            return False
        self._data[self._player_of[connection_id]] = data
        return True

    def set_by_player(self, player_id: Hashable, data: T) -> bool:
        """Replace the data of a player, connected or dropped; False, with nothing changed, if the player is unknown."""
        if player_id not in self._data:
            return False
        self._data[player_id] = data
        return True

    def start(self) -> None:
        """Begin the game: from now on a drop keeps the player."""
        self._started = True

    def end(self) -> None:
        """Return to the lobby: forget the dropped and reset the connected, all of them even if one `reset` raises."""
        self._started = False
        for player_id in self._purge_at:
            del self._data[player_id]
        self._purge_at.clear()
        failures: list[Exception] = []
        for player_id, data in list(self._data.items()):
            reset = getattr(data, "reset", None)
            try:
                fresh = reset() if callable(reset) else None
                if fresh is not None:
                    self.set_by_player(player_id, fresh)
            except Exception as failure:  # noqa: BLE001 - one player's data must not keep the others from their reset
                failures.append(failure)
        if failures:
            raise ExceptionGroup("the game ended, but reset() raised", failures)

    def clear(self) -> None:
        """Forget every player and connection and return to the lobby: the server ends."""
        self._started = False
        self._data.clear()
        self._connection_of.clear()
        self._player_of.clear()
        self._purge_at.clear()
        self._stale.clear()

    def advance(self, now: float) -> dict[Hashable, T]:
        """Move time to `now`, in seconds, and forget the players who were away for purge_s; returns them."""
        if not self._now <= now < inf:
            raise ValueError(f"time cannot move from {self._now} to {now}: take `now` from a monotonic clock")
        self._now = now
        purged: dict[Hashable, T] = {}
        if self._purge_s is None:
            return purged
        for player_id in reversed(self._purge_at):
            if self._purge_at[player_id] < inf:
                break
            self._purge_at[player_id] = now + self._purge_s
        while self._purge_at and next(iter(self._purge_at.values())) <= now:
            player_id, _ = self._purge_at.popitem(last=False)
            purged[player_id] = self._data.pop(player_id)
        return purged

    def __contains__(self, player_id: object) -> bool:
        return player_id in self._data

    def __iter__(self) -> Iterator[Hashable]:
        """The ids of all players known, connected or dropped; the loop may connect and disconnect."""
        return iter(list(self._data))

    def __len__(self) -> int:
        return len(self._data)

    def _retire(self, connection_id: Hashable) -> Hashable:
        self._stale[connection_id] = None
        if len(self._stale) > _STALE_MAX:
            self._stale.popitem(last=False)
        return self._player_of.pop(connection_id)
