"""What only one room of a cluster may have: an idempotency key, and a name where names are unique."""

from typing import NamedTuple, Protocol

from holdfast.schemas.room import CreationKey
from holdfast.stores.port import Write


class Claimed(NamedTuple):
    """A key or a name that a new room has."""

    write: Write
    """To be repeated in the batch with which a durable room is created: if the claim is lost, so is the room."""


class SharedClaims(Protocol):
    """Decides which room has a key or a name, for all nodes."""

    async def claim_key(self, key: CreationKey, room_id: str) -> Claimed | str:
        """Let a new room have a key; or the id of the room that another node has made with it.

        `Conflict` if that was another request, `Expired` if that room has ended, or why it could not be made.
        """

    async def claim_name(self, kind: str, name: str, room_id: str) -> Claimed:
        """Let a room have a name, or `NameTaken`."""

    def release_key(self, key: CreationKey, room_id: str) -> None:
        """The room could not be made: the next request with this key makes another."""

    def room_ended(self, key: CreationKey, room_id: str) -> None:
        """The room with this key has ended, which is remembered for a while."""

    def release_name(self, kind: str, name: str, room_id: str) -> None:
        """The room has this name no more."""

    def settled(self, room_id: str) -> None:
        """The room is made, could not be made, or has its new name: nothing more is claimed for it now."""
