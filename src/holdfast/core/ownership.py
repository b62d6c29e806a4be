"""The owners of a room's objects. Players keep theirs through a drop; a policy decides what follows when they leave."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar
from zlib import crc32

from holdfast.core.errors import Throttled
from holdfast.core.limits import Limits
from holdfast.core.messages import PlayerData
from holdfast.core.session import Player, SeatState, seat_of

D = TypeVar("D", bound=PlayerData)

Orphans = Literal["destroy", "server", "heir"]

# A durable room saves the buckets in which something changed; in a full room, each has a few kilobytes.
_BUCKETS = 64


class Objects(Mapping[str, Player[D] | None]):
    """The objects of a room by id, each with its owner: None is the server. A game reads it; `Room.own` changes it."""

    __slots__ = ("_owners",)

    def __init__(self, owners: Mapping[str, Player[D] | None]) -> None:
        self._owners = owners

    def __getitem__(self, object_id: str) -> Player[D] | None:
        return self._owners[object_id]

    def __iter__(self) -> Iterator[str]:
        """A copy: the game may disown what it finds."""
        return iter(tuple(self._owners))

    def __len__(self) -> int:
        return len(self._owners)


class Ownership(Generic[D]):
    """The engine's half: changes owners, and knows what has changed since the room was last saved."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.owners: dict[str, Player[D] | None] = {}
        self._buckets: dict[int, dict[str, None]] = {}
        self._versions: dict[int, int] = {}

    def own(self, player: Player[D] | None, object_id: str) -> None:
        """Make the player (or the server) the object's one owner."""
        if not isinstance(object_id, str):
            raise TypeError(f"objects are named by text; got {object_id!r}")
        if not isinstance(player, Player | None):
            raise TypeError(
                f"own(player, object_id) takes a player of the room, or None for the server; got {player!r}: "
                "self.player(player_id) finds one by id"
            )
        if player is not None and seat_of(player).state is SeatState.FREED:
            raise ValueError(f"{player.id} has left the room and can own nothing in it")
        self._check_limits(player, object_id)
        self.give(player, object_id)

    def _check_limits(self, player: Player[D] | None, object_id: str) -> None:
        limits = self._limits
        if object_id not in self.owners:
            if len(self.owners) >= limits.objects_max:
                raise Throttled(
                    f"this room has {len(self.owners)} objects; disown() what is gone, or raise Limits.objects_max"
                )
            size = len(object_id.encode())
            if size > limits.object_id_bytes_max:
                raise ValueError(f"an object's id of {size} bytes is too long: see Limits.object_id_bytes_max")
        if player is not None and object_id not in player.owned and len(player.owned) >= limits.owned_per_player_max:
            raise Throttled(
                f"player {player.id} owns {len(player.owned)} objects; disown() what is gone, or raise"
                " Limits.owned_per_player_max"
            )

    def give(self, player: Player[D] | None, object_id: str) -> None:
        """The same without limits: what is restored or inherited was within them once."""
        if (former := self.owners.get(object_id)) is not None:
            _disown(former, object_id)
        self.owners[object_id] = player
        if player is not None:
            _own(player, object_id)
        self._touch(object_id)[object_id] = None

    def destroy(self, object_id: str) -> None:
        if object_id not in self.owners:
            return
        if (former := self.owners.pop(object_id)) is not None:
            _disown(former, object_id)
        del self._touch(object_id)[object_id]

    def orphan(self, player: Player[D], policy: Orphans, heir: Callable[[Player[D], str], Player[Any] | None]) -> None:
        """The player has left for good: what they still own goes where the policy says."""
        try:
            for object_id in sorted(player.owned):
                match policy:
                    case "destroy":
                        self.destroy(object_id)
                    case "heir":
                        self._inherit(heir(player, object_id), object_id)
                    case "server":
                        self.give(None, object_id)
        finally:
            # `heir` is the game's code: it may raise, or name the player who left.
            for object_id in sorted(player.owned):
                self.destroy(object_id)

    def _inherit(self, heir: Player[D] | None, object_id: str) -> None:
        if heir is None or seat_of(heir).state is SeatState.FREED:
            self.destroy(object_id)
        else:
            self.give(heir, object_id)

    def note(self) -> Callable[[], None]:
        """What makes the owners those of now again, in this order."""
        owners, versions = self.owners.copy(), self._versions.copy()
        buckets = {number: bucket.copy() for number, bucket in self._buckets.items()}

        def restore() -> None:
            for player in filter(None, {*owners.values(), *self.owners.values()}):
                seat_of(player).owned = frozenset()
            # In place: the game may hold what `Room.objects` has returned.
            self.owners.clear()
            self.owners.update(owners)
            self._versions, self._buckets = versions, buckets
            for object_id, owner in owners.items():
                if owner is not None:
                    _own(owner, object_id)

        return restore

    # For saving

    @property
    def buckets(self) -> Iterator[tuple[int, int]]:
        """The numbers of all buckets that have objects, each with a version that grows when something in it changes."""
        return ((number, self._versions[number]) for number, bucket in self._buckets.items() if bucket)

    def owners_in(self, bucket: int) -> dict[str, Player[D] | None]:
        """The objects of a bucket and their owners."""
        return {object_id: self.owners[object_id] for object_id in self._buckets[bucket]}

    def _touch(self, object_id: str) -> dict[str, None]:
        """The object's bucket, whose version grows. The same on every node, unlike hash()."""
        number = crc32(object_id.encode()) % _BUCKETS
        self._versions[number] = self._versions.get(number, 0) + 1
        return self._buckets.setdefault(number, {})


def _own(player: Player[Any], object_id: str) -> None:
    seat = seat_of(player)
    if isinstance(seat.owned, set):
        seat.owned.add(object_id)
    else:
        seat.owned = {object_id}


def _disown(player: Player[Any], object_id: str) -> None:
    owned = seat_of(player).owned
    if isinstance(owned, set):
        owned.discard(object_id)
