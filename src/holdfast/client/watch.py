"""A search that goes on: the rooms as they are, and what has changed since somebody looked."""

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from holdfast.client.exchange import Exchange, read
from holdfast.client.subscriptions import News, Subscription
from holdfast.core.errors import Expired
from holdfast.schemas.requests import Unwatch, Watch
from holdfast.schemas.room import RoomInfo, RoomPage


class RoomsChanged(Struct, frozen=True):
    """What has changed since the last time: rooms that are new or other than they were, and the ids of those gone."""

    changed: list[RoomInfo] = []
    removed: list[str] = []


class Board(Subscription):
    """The rooms as they are, and as the reader knows them. Pure: who waits, waits elsewhere.

    Nothing but the rooms is kept, however much changes: what to tell is the difference between the two.
    """

    topic = "rooms"

    def __init__(self, request: Watch) -> None:
        super().__init__(request.id, request, Unwatch(request.id))
        self.rooms: dict[str, RoomInfo] = {}
        self.is_touched = False
        """Whether something was told since the reader looked."""
        self._known: dict[str, RoomInfo] | None = None

    def take(self) -> RoomsChanged | None:
        """What the reader does not know yet; the first time, all rooms that there are, or none."""
        if not self.is_touched:
            return None
        self.is_touched = False
        is_first, known = self._known is None, self._known or {}
        self._known = dict(self.rooms)
        changed = [info for room_id, info in self.rooms.items() if known.get(room_id) != info]
        removed = [room_id for room_id in known if room_id not in self.rooms]
        return RoomsChanged(changed, removed) if changed or removed or is_first else None

    def told(self, content: Any) -> None:
        """The rooms that are found now."""
        page = read(content, RoomPage, "answer to 'watch'")
        self.rooms.clear()
        self._change(page.rooms, [])

    def noticed(self, content: Any) -> None:
        """Rooms that have changed, and some that are not found any more."""
        changes = read(content, RoomsChanged, "notice of rooms")
        self._change(changes.changed, changes.removed)

    def _change(self, changed: list[RoomInfo], removed: list[str]) -> None:
        self.rooms.update((info.id, info) for info in changed)
        for room_id in removed:
            self.rooms.pop(room_id, None)
        self.is_touched = True


class RoomWatch:
    """A search that goes on: `async with session.watch("arena") as watch:`, or `watch = await session.watch("arena")`.

    Iterate over it: all rooms that were found come first, then what changes. Whoever reads slowly, or was away, gets
    all that has changed since as one. One task should read.
    """

    def __init__(self, exchange: Exchange, news: News, request: Watch) -> None:
        self.is_closed = False
        """Whether it was closed by this program."""
        self._exchange = exchange
        self._news = news
        self._board = Board(request)

    @property
    def rooms(self) -> Mapping[str, RoomInfo]:
        """The rooms by id, as they are now."""
        return MappingProxyType(self._board.rooms)

    async def receive(self) -> RoomsChanged:
        """What has changed, as soon as something has; `Expired` when the watch is closed."""
        board = self._board
        while (changes := board.take()) is None:
            self._check()
            await self._exchange.until(lambda: board.is_touched or self.is_closed or board.refusal is not None)
        return changes

    def poll(self) -> RoomsChanged | None:
        """What has changed, if something has; raises like `receive` when there can be no more."""
        changes = self._board.take()
        if changes is None:
            self._check()
            self._exchange.check()
        return changes

    async def close(self) -> None:
        """End the search. `rooms` stays as it was."""
        self.is_closed = True
        self._news.end(self._board)
        self._exchange.changed()

    def _check(self) -> None:
        if self._board.refusal is not None:
            raise self._board.refusal
        if self.is_closed:
            raise Expired("this watch is closed")
        if not self._board.is_told:
            raise RuntimeError('open the watch first: `async with session.watch("arena") as watch:`')

    async def __aenter__(self) -> "RoomWatch":
        if not self._board.is_told:
            await self._news.begin(self._board)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, None, "RoomWatch"]:
        return self.__aenter__().__await__()

    def __aiter__(self) -> "RoomWatch":
        return self

    async def __anext__(self) -> RoomsChanged:
        try:
            return await self.receive()
        except Expired:
            if not self.is_closed:
                raise
            raise StopAsyncIteration from None

    def __repr__(self) -> str:
        return f"<RoomWatch {self._board.key}: {len(self.rooms)} rooms{' closed' if self.is_closed else ''}>"
