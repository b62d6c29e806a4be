"""Streams that begin anew: a returning player for whom messages could not be kept is sent the state first."""

from collections.abc import Callable
from typing import Any

from holdfast.core.messages import RoomUpdated
from holdfast.core.room import Room
from holdfast.core.session import Seat
from holdfast.schemas.room import RoomInfo
from holdfast.server.rooms.turns import Turns


class Resyncs:
    """Runs `on_resync` for the players of one room. Their stream is mute until then, so the state arrives first."""

    def __init__(
        self,
        room: Room[Any],
        turns: Turns,
        *,
        info: Callable[[], RoomInfo],
        failed: Callable[[Exception, str, str], None],
    ) -> None:
        self._room = room
        self._turns = turns
        self._info = info
        self._failed = failed
        # How many turns of `on_resync` wait for each seat.
        self._waiting: dict[Seat, int] = {}

    def __contains__(self, seat: Seat) -> bool:
        """Whether a player was told that their stream begins anew, and was not sent the state yet."""
        return seat in self._waiting

    def begin(self, seat: Seat) -> None:
        """The player's stream begins anew."""
        self._waiting[seat] = self._waiting.get(seat, 0) + 1
        if seat.session.channel is not None:
            # Nothing is kept until the state is sent: it has all that was said before.
            seat.session.channel.overflowed = True
        self._turns.take(self._resync, (seat,), self._resynced, (seat,))

    def end(self, seat: Seat) -> None:
        """There is no state to come any more."""
        self.unmute(seat)
        self._waiting.pop(seat, None)

    def unmute(self, seat: Seat) -> None:
        """What is said to the player is written again."""
        if seat in self._waiting and seat.session.channel is not None:
            seat.session.channel.overflowed = False

    def _resync(self, seat: Seat) -> Any:
        if self._waiting.get(seat, 0) > 1:
            # Their stream began anew once more, and is mute until the turn that belongs to that.
            return None
        self.unmute(seat)
        return self._room.on_resync(seat.player)

    def _resynced(self, error: Exception | None, _: Any, seat: Seat) -> None:
        if error is not None:
            self._failed(error, "on_resync", seat.player_id)
        # What was said about the room itself may be among what could not be kept.
        seat.outlet.send(RoomUpdated(self._info()))
        left = self._waiting.get(seat, 0) - 1
        if left > 0:
            self._waiting[seat] = left
        else:
            self._waiting.pop(seat, None)
