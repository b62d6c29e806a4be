"""Players whose connection changes to another node, with their room or without it: the room hears of no drop.

Their seats are held for a moment. If the connection does not come, that is a drop like any other.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Literal, assert_never

from holdfast.core.session import Seat, SeatState

Switch = Literal["expected", "came", "missed"]
"""What happens to a session whose connection changes to another node: it will come, has come, or does not come."""


class Switching:
    """The seats of one room whose players are about to come back by another way."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        within_s: float,
        came: Callable[[Seat], None],
        missed: Callable[[Seat], None],
    ) -> None:
        """`came` is called when the connection is there, `missed` when it has not come in time."""
        self._loop = loop
        self._within_s = within_s
        self._came = came
        self._missed = missed
        self._expected: dict[Seat, asyncio.TimerHandle] = {}
        self._dropped: list[Seat] | None = None

    def happened(self, seat: Seat, switch: Switch) -> None:
        match switch:
            case "expected":
                self.returned(seat)
                seat.is_switching = True
                self._expected[seat] = self._loop.call_later(self._within_s, self._give_up, seat)
            case "came":
                self.returned(seat)
                self._came(seat)
            case "missed":
                self._give_up(seat)
            case _:
                assert_never(switch)

    def returned(self, seat: Seat) -> bool:
        """The player is back: whether the room has not heard that they were away."""
        timer = self._expected.pop(seat, None)
        seat.is_switching = False
        if timer is not None:
            timer.cancel()
        return timer is not None

    def _give_up(self, seat: Seat) -> None:
        if self.returned(seat) and seat.state is SeatState.HELD:
            self._missed(seat)

    # While the room stands still, because it is about to go to another node

    def stand_still(self) -> None:
        """That node will hear of drops that happen from now on."""
        self._dropped = []

    def postpones(self, seat: Seat) -> bool:
        """Whether the room is not to hear of a drop now."""
        if self._dropped is None:
            return False
        self._dropped.append(seat)
        return True

    def go_on(self, dropped: Callable[[Seat], Any]) -> None:
        """The room stays: it hears of the drops now."""
        seats, self._dropped = self._dropped or [], None
        for seat in seats:
            if seat.session.connection is None:
                dropped(seat)

    def stop(self) -> None:
        for timer in self._expected.values():
            timer.cancel()
        self._expected.clear()
