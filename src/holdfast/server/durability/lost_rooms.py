"""What another server has taken over, and the way back: when it is asked for here and nobody has it any more."""

import asyncio
from typing import TYPE_CHECKING

from holdfast.stores.port import Broken, StoreError

if TYPE_CHECKING:
    from holdfast.server.durability.committer import Committer
    from holdfast.server.durability.recovery import Recovery


class LostRooms:
    """The rooms and sessions that went on elsewhere; the oldest are forgotten if there are too many."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, committer: "Committer", recovery: "Recovery", *, sessions_max: int
    ) -> None:
        self._loop = loop
        self._committer = committer
        self._recovery = recovery
        self._most = sessions_max
        self._lost: dict[str, None] = {}
        self._asking: asyncio.Task[None] | None = None

    def add(self, lost: str) -> None:
        """Another server has this room or session, by its id."""
        self._lost[lost] = None
        while len(self._lost) > self._most:
            del self._lost[next(iter(self._lost))]

    def discard(self, found: str) -> None:
        """It is here again."""
        self._lost.pop(found, None)

    def asked_for(self, wanted: str) -> bool:
        """Whether another server has it, as far as we know; we look whether that is still so, for the next time."""
        if wanted not in self._lost:
            return False
        if self._asking is None or self._asking.done():
            self._asking = self._loop.create_task(self._take_back())
        return True

    def stop(self) -> None:
        """Take nothing back any more."""
        if self._asking is not None:
            self._asking.cancel()

    async def _take_back(self) -> None:
        try:
            if await self._recovery.take_back():
                self._lost.clear()
        except Broken as error:
            self._committer.broken(error)
        except StoreError:
            # Whoever asks next has us try again.
            return
