"""Who owns which object of a room. Objects stay with a player through a drop; what follows a real leave is a policy."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, TypeVar

from holdfast.core.messages import PlayerData
from holdfast.core.player import Player, SeatState

D = TypeVar("D", bound=PlayerData)

Orphans = Literal["server", "destroy", "heir"]


class Ownership(Generic[D]):
    """Object ids and their owners; None means that the object belongs to the server."""

    def __init__(self) -> None:
        self._owners: dict[str, Player[D] | None] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._owners))

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, object_id: str) -> bool:
        return object_id in self._owners

    def own(self, player: Player[D] | None, object_id: str) -> None:
        """Make the player (or the server) the object's one owner."""
        if not isinstance(object_id, str):
            raise TypeError(f"objects are named by text; got {object_id!r}")
        if not isinstance(player, Player | None):
            raise TypeError(
                f"own(player, object_id) takes a player of the room, or None for the server; got {player!r}: "
                "self.player(player_id) finds one by id"
            )
        if player is not None and player.seat is SeatState.FREED:
            raise ValueError(f"{player.id} has left the room and can own nothing in it")
        former = self._owners.get(object_id)
        if former is not None:
            former.owned.discard(object_id)
        self._owners[object_id] = player
        if player is not None:
            player.owned.add(object_id)

    def owner_of(self, object_id: str) -> Player[D] | None:
        """The owner, or None if it is the server's or unknown."""
        return self._owners.get(object_id)

    def destroy(self, object_id: str) -> None:
        """Forget the object."""
        former = self._owners.pop(object_id, None)
        if former is not None:
            former.owned.discard(object_id)

    def orphan(self, player: Player[D], policy: Orphans, heir: Callable[[Player[D], str], Player[Any] | None]) -> None:
        """The player has really left: what they still own goes where the policy says."""
        try:
            for object_id in sorted(player.owned):
                match policy:
                    case "destroy":
                        self.destroy(object_id)
                    case "heir":
                        self.own(heir(player, object_id), object_id)
                    case "server":
                        self.own(None, object_id)
        finally:
            # `heir` is the game's code: if it raises or names the one who left, no ghost stays the owner.
            for object_id in sorted(player.owned):
                self.own(None, object_id)
