"""The effects that one room asks for."""

from typing import Any

from holdfast.core.room_context import RoomContext
from holdfast.server.rooms.outbox import Outbox, effect_record
from holdfast.server.rooms.persistence import Follow, Persistence


class RoomEffects:
    """The effects of one room."""

    def __init__(self, context: RoomContext, outbox: Outbox, persistence: Persistence, follow: Follow) -> None:
        self._context = context
        self._outbox = outbox
        self._persistence = persistence
        self._follow = follow

    def want(self, name: str, payload: Any) -> None:
        """Carry out an effect once the turn is over, and saved where the room is."""
        turn, room_id = self._context.transaction, self._context.room_id
        held = turn.marks.get(self._outbox, 0) if turn is not None else 0
        self._outbox.check(name, room_id, self._persistence.effects_waiting + held)
        record = effect_record(name, payload, room_id)
        if turn is not None:
            turn.mark(self._outbox)
        self._context.later(self._persistence.effect, record, self._follow)
