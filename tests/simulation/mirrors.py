"""What a room shared at the end of each of its turns, and whether clients have exactly that.

Turns have numbers that no other turn has, in no room and in no life of a server. The number is part of what is shared,
and of each message that a turn says: who handles such a message must have the state of the end of that turn. What is
expected is made here of plain values: it knows nothing of the library's plans, shadows and changes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import ClientRoom, Player
from holdfast.core.session import seat_of
from tests.simulation.checker import Checker
from tests.state.follow import plain, visible

if TYPE_CHECKING:
    from tests.simulation.game import Ledger

# Of a room's state: what it keeps for itself.
NOT_SHARED = {"dice", "log", "counts"}

_strict = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Image:
    """What a room shared at the end of a turn: of its state, of all players, and with each of them alone."""

    state: bytes
    players: dict[str, bytes]
    own: dict[str, bytes]
    # Of who has taken a seat since.
    fresh: bytes
    fresh_own: bytes
    # Who of those in `own` had left: whoever takes a seat again has what is fresh there.
    left: frozenset[str]
    # Who was there then, and after each seat that was taken or freed before the next turn.
    present: set[frozenset[str]]

    def of(self, player: str) -> bytes:
        """What everybody sees of this player's data."""
        return self.players.get(player, self.fresh)

    def own_of(self, player: str, known: bytes) -> bytes:
        """What the player sees of it, who knows this."""
        if player in self.left and known == self.fresh_own:
            return known
        return self.own.get(player, self.fresh_own)


def image_of(room: "Ledger", also: Iterable[Player[Any]]) -> Image:
    """As it is now; those who have left in the turn see their own data to its end."""
    board = {name: getattr(room.state, name) for name in room.state.__struct_fields__ if name not in NOT_SHARED}
    marks = {player.id: plain(player.data) for player in room.players}
    left = {player.id: plain(player.data) for player in also if player.id not in marks}
    fresh = plain(room.fresh())
    return Image(
        _strict(visible(plain(board), ("secret_",))),
        {player: _strict(visible(mark, ("secret_", "own_"))) for player, mark in marks.items()},
        {player: _strict(visible(mark, ("secret_",))) for player, mark in (left | marks).items()},
        _strict(visible(fresh, ("secret_", "own_"))),
        _strict(visible(fresh, ("secret_",))),
        frozenset(left),
        {heard_of(room)},
    )


def heard_of(room: "Ledger") -> frozenset[str]:
    """Who is there: a newcomer is from their `on_join` on."""
    return frozenset(player.id for player in room.players if not seat_of(player).is_joining)


class Looker:
    """Looks at what one client has of one room, again and again."""

    def __init__(self, who: str, room: ClientRoom, player_id: str, checker: Checker, *, may_be_lost: bool) -> None:
        self._who = who
        self._room = room
        self._player_id = player_id
        self._checker = checker
        self._may_be_lost = may_be_lost
        """Whether the mirror of an earlier process is gone, and the whole view has not come yet."""
        room.on_change(self._changed)

    def look(self, turn: int, when: str) -> None:
        """A message of this turn is dealt with."""
        state = self._room.state
        if state is None:
            self._checker.expect("P8", self._may_be_lost, f"{self._who} has no state {when}")
            self._checker.count("states to come")
            return
        self._checker.count("states seen")
        self._compare(turn, when)

    def look_at_last(self, turn: int) -> None:
        """All is quiet: the client has what the room had at the end of its last turn."""
        if self._room.state is None:
            self._checker.fail("P8", f"{self._who} never had the state of {self._room}")
            return
        self._compare(turn, "at the end")

    def _changed(self, paths: list[list[str | int]]) -> None:
        self._may_be_lost = False
        self._checker.count("changes of states")
        self._compare(self._room.state["turn"], "after a change")

    def _compare(self, turn: int, when: str) -> None:
        room, image = self._room, self._checker.images.get(turn)
        if image is None:
            self._checker.fail("P9", f"{self._who} has heard of turn {turn}, which has failed")
            return
        at = f"of turn {room.state['turn']} {when} of turn {turn}"
        self._expect(_strict(room.state) == image.state, "state", at, room.state, image.state)
        players: Mapping[str, Any] = room.players
        self._expect(frozenset(players) in image.present, "players", at, list(players), image.present)
        for player, data in players.items():
            known = image.of(player)
            self._expect(_strict(data) == known, f"data of {player}", at, data, known)
        own = image.own_of(self._player_id, _strict(room.mine))
        if room.is_spectator:
            # Whoever has just been given a seat sees what everybody does.
            own = image.of(self._player_id) if self._player_id in players else _strict(None)
        self._expect(_strict(room.mine) == own, "own data", at, room.mine, own)

    def _expect(self, holds: bool, what: str, at: str, found: Any, right: Any) -> None:
        if not holds:
            right = msgspec.msgpack.decode(right) if isinstance(right, bytes) and right else right
            self._checker.fail("P8", f"{self._who} has another {what} {at}: {difference(found, right)}")


def difference(found: Any, right: Any) -> str:
    """In which fields these differ."""
    if isinstance(found, dict) and isinstance(right, dict):
        names = [name for name in {**found, **right} if _strict(found.get(name)) != _strict(right.get(name))]
        return ", ".join(f"{name}: {found.get(name)!r}, not {right.get(name)!r}" for name in names)
    return f"{found!r}, not {right!r}"
