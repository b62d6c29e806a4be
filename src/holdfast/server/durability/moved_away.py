"""Rooms and sessions that another server has taken over, and how they return: asked for here, and nobody has them."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.core.reasons import Reason
from holdfast.core.session import Session
from holdfast.server.context import Clock
from holdfast.server.sessions import SessionLifecycle
from holdfast.stores.port import Broken, StoreError


class MovedAway:
    """Ids of rooms and sessions that are on another server; the oldest are forgotten if there are too many."""

    def __init__(
        self,
        clock: Clock,
        *,
        lifecycle: SessionLifecycle,
        take_back: Callable[[], Awaitable[bool]],
        broken: Callable[[Broken], None],
        ids_max: int,
    ) -> None:
        """`take_back` restores what other servers have left in the store, unless one is still running."""
        self._loop = clock.loop
        self._lifecycle = lifecycle
        self._take_back = take_back
        self._broken = broken
        self._ids_max = ids_max
        self._ids: dict[str, None] = {}
        self._taking_back: asyncio.Task[None] | None = None

    def add(self, moved: str) -> None:
        """Another server has the room or session with this id."""
        self._ids[moved] = None
        while len(self._ids) > self._ids_max:
            del self._ids[next(iter(self._ids))]

    def lost(self, session: Session) -> None:
        """Another server has written the session, or its room: it continues there."""
        self.add(session.id)
        seat = session.seat
        self._lifecycle.release(session, Reason.MOVED)
        if seat is not None and not seat.room.is_saved:
            seat.room.free(seat, Reason.MOVED, "")

    def returned(self, session_id: str) -> None:
        """The session is on this server again."""
        self._ids.pop(session_id, None)

    def asked_for(self, wanted: str) -> bool:
        """Whether another server has this room or session, as far as is known; that is checked for the next time."""
        if wanted not in self._ids:
            return False
        if self._taking_back is None or self._taking_back.done():
            self._taking_back = self._loop.create_task(self._try_to_take_back())
        return True

    def stop(self) -> None:
        """Take nothing back any more."""
        if self._taking_back is not None:
            self._taking_back.cancel()

    async def _try_to_take_back(self) -> None:
        try:
            if await self._take_back():
                self._ids.clear()
        except Broken as error:
            self._broken(error)
        except StoreError:
            # The next request tries again.
            return
