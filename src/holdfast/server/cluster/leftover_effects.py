"""Effects of rooms that have ended: the node that had the room carries them out, and if it goes, another one does.

An effect that two nodes carry out for a moment has the same key for both, as one that is tried twice.
"""

from collections.abc import Callable, Container

from holdfast.server.cluster.node import ClusterNode
from holdfast.server.durability.saved_room import room_id_of
from holdfast.stores.port import Entry, Store

_CARRIED = "carried_out"
_ASKED_MAX = 500


class LeftoverEffects:
    """Takes those of which nobody says that it carries them out."""

    def __init__(
        self,
        node: ClusterNode,
        store: Store,
        *,
        is_carried: Callable[[str], bool],
        has_room: Callable[[str], bool],
        carry_out: Callable[[list[Entry]], None],
    ) -> None:
        """`is_carried` says whether this node carries out an effect."""
        self._node = node
        self._store = store
        self._is_carried = is_carried
        self._has_room = has_room
        self._carry_out = carry_out
        node.questions.answer(_CARRIED, list[str], lambda keys: list(filter(is_carried, keys)))

    async def take(self, rooms: Container[str]) -> None:
        """Carry out this node's share of the effects of rooms that are not among these, which the store has."""
        left = {entry.key: entry for entry in await self._store.list("effect") if self._is_left(entry, rooms)}
        keys = list(left)
        for start in range(0, len(keys), _ASKED_MAX):
            asked = keys[start : start + _ASKED_MAX]
            replies = await self._node.questions.ask_all(_CARRIED, asked, list[str])
            if replies.missing:
                # The next look finds them again: nobody waits for them as players wait for a room.
                return
            carried = {key for reply in replies.by_life.values() for key in reply}
            self._carry_out([left[key] for key in asked if key not in carried and not self._is_carried(key)])

    def _is_left(self, entry: Entry, rooms: Container[str]) -> bool:
        room_id = room_id_of(entry)
        is_free = room_id not in rooms and not self._has_room(room_id) and not self._is_carried(entry.key)
        return is_free and self._node.next_taker(room_id) == self._node.life
