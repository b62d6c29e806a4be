"""What a session can ask of the server's directory: rooms to find, to make, to join and to wait for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import count
from typing import Any, Unpack

from holdfast.client.exchange import Exchange, read
from holdfast.client.line import Line
from holdfast.client.placement import Placement
from holdfast.client.protocol import RESET
from holdfast.client.room import Changes, ClientRoom, several, update_of
from holdfast.client.seats import Seats
from holdfast.client.subscriptions import News
from holdfast.client.watch import RoomWatch
from holdfast.core.errors import Expired, NotFound, Refused, RoomFull
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.player import ReservationInfo
from holdfast.schemas.requests import (
    Create,
    Join,
    JoinOrCreate,
    Mine,
    PlacedPlayer,
    Release,
    Reserve,
    Search,
    StartPlacement,
    Wait,
    Watch,
)
from holdfast.schemas.room import RoomInfo, RoomPage, Visibility

PAGE_MAX = 100
"""The most rooms that one page of a search can have."""


class RoomList(list[RoomInfo]):
    """One page of a search. The cursor gets the next one; it is empty after the last."""

    def __init__(self, page: RoomPage) -> None:
        super().__init__(page.rooms)
        self.cursor = page.cursor


class Directory:
    """The calls of a session that are about rooms. A refusal is raised as what it is: `RoomFull`, `NotFound` …"""

    def __init__(self, exchange: Exchange, seats: Seats) -> None:
        self._exchange = exchange
        self._seats = seats
        self._news = News(exchange)
        self._watch_numbers = count(1)

    # To find and to make

    async def create(
        self,
        kind: str,
        *,
        properties: Mapping[str, Any] | None = None,
        max_players: int | None = None,
        name: str = "",
        visibility: Visibility = "public",
        password: str = "",
        idempotency_key: str = "",
        message_version: str = "",
    ) -> RoomInfo:
        """Make a room. Joining it is another call. The same key with the same request gives the same room."""
        request = Create(
            kind,
            properties=dict(properties or {}),
            max_players=max_players,
            name=name,
            visibility=visibility,
            password=password,
            idempotency_key=idempotency_key,
            message_version=message_version,
        )
        return await self._exchange.ask(request, RoomInfo)

    async def search(
        self,
        kind: str | None = None,
        *,
        where: str = "open_seats > 0",
        order_by: str | Iterable[str] = (),
        limit: int = 20,
        cursor: str = "",
    ) -> RoomList:
        """One page of the rooms for which `where` holds, oldest first unless `order_by` says otherwise."""
        request = Search(kind, where=where, order_by=several(order_by), limit=limit, cursor=cursor)
        return RoomList(await self._exchange.ask(request, RoomPage))

    async def search_all(
        self, kind: str | None = None, *, where: str = "open_seats > 0", order_by: str | Iterable[str] = ()
    ) -> AsyncIterator[RoomInfo]:
        """All of them, page after page as they are asked for."""
        order_by = several(order_by)
        page = await self.search(kind, where=where, order_by=order_by, limit=PAGE_MAX)
        while True:
            for info in page:
                yield info
            if not page.cursor:
                return
            page = await self.search(kind, where=where, order_by=order_by, limit=PAGE_MAX, cursor=page.cursor)

    def watch(self, kind: str | None = None, *, where: str = "open_seats > 0", limit: int = 100) -> RoomWatch:
        """A search that goes on: `async with session.watch("arena") as watch:`, then iterate over it."""
        request = Watch(f"w{next(self._watch_numbers)}", kind, where=where, limit=limit)
        return RoomWatch(self._exchange, self._news, request)

    async def update_room(self, room_id: str, **changes: Unpack[Changes]) -> RoomInfo:
        """Change a room's entry in the directory, as `ClientRoom.update` does from within."""
        return await self._exchange.ask(update_of(room_id, changes), RoomInfo)

    # To join

    async def join(
        self, room_id: str = "", *, code: str = "", password: str = "", message_version: str = ""
    ) -> ClientRoom:
        """Take a seat: by the room's id, or by its code. For `message_version` see `join_or_create`."""
        return await self._exchange.request(Join(room_id, code, password, message_version), self._seated)

    async def join_or_create(
        self,
        kind: str,
        *,
        where: str = "",
        properties: Mapping[str, Any] | None = None,
        max_players: int | None = None,
        name: str = "",
        visibility: Visibility = "public",
        password: str = "",
        message_version: str = "",
    ) -> ClientRoom:
        """Take a seat in the oldest open room of a kind for which `where` holds, or in a new room.

        `message_version` is what `holdfast types` wrote: `OtherVersion` if the room's messages are not those any more.
        """
        request = JoinOrCreate(
            kind,
            where=where,
            properties=dict(properties or {}),
            max_players=max_players,
            name=name,
            visibility=visibility,
            password=password,
            message_version=message_version,
        )
        return await self._exchange.request(request, self._seated)

    async def my_rooms(self) -> list[RoomInfo]:
        """The rooms in which this player has a seat or a reserved one, from whichever device."""
        return await self._exchange.ask(Mine(), list[RoomInfo])

    async def rejoin(self) -> ClientRoom:
        """Take the seat that this player has, in the newest room if there are several; `NotFound` if there is none."""
        if self._seats.room is not None:
            return self._seats.room
        # Not where one is only reserved: anybody in that room may have done that.
        rooms = await self._exchange.ask(Mine(seated=True), list[RoomInfo])
        if not rooms:
            raise NotFound("you have no seat in any room")
        return await self.join(max(rooms, key=lambda info: info.created_at).id)

    def _seated(self, answer: Any) -> ClientRoom:
        return self._seats.room_of(read(answer, RoomInfo, "answer to a join"))

    # To keep seats, and to wait for one

    async def reserve(
        self,
        room_id: str = "",
        *,
        code: str = "",
        password: str = "",
        players: str | Iterable[str] = (),
        ttl_s: float | None = None,
    ) -> ReservationInfo:
        """Keep seats for a party, all or none; without `players` one for yourself. Asking again extends.

        In a room that you made or have a seat in. Your reservations end with your session.
        """
        request = Reserve(room_id, code=code, password=password, players=several(players), ttl_s=ttl_s)
        return await self._exchange.ask(request, ReservationInfo)

    async def release(self, room_id: str, players: str | Iterable[str] = ()) -> None:
        """Give reserved seats back; without `players` your own. Host and creator may give back anybody's."""
        await self._exchange.ask(Release(room_id, several(players)), object)

    async def wait_for_seat(
        self,
        room_id: str,
        *,
        password: str = "",
        timeout_s: float | None = None,
        on_position: Callable[[int], None] | None = None,
    ) -> ClientRoom:
        """Stand in line for a seat, and take it when it is our turn; `TimeoutError` after so many seconds in line.

        `on_position` is told where we stand, 1 being next. Whoever is cancelled or runs out of time leaves the line.
        """
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit, Line(self._exchange, self._news, Wait(room_id, password)) as line:
                while True:
                    await line.offered(on_position)
                    ends_at = limit.when()
                    # The seat is ours: not too late any more.
                    limit.reschedule(None)
                    try:
                        room = await self.join(room_id, password=password)
                    except Refused as refusal:
                        if not isinstance(refusal, RoomFull | Expired) and refusal.code != RESET:
                            raise
                        # It was kept for so long only, and we were away.
                        line.stand_again()
                        limit.reschedule(ends_at)
                    else:
                        line.leave_seated()
                        return room
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"no seat in room {room_id} within {timeout_s:g} s") from None

    # To have a room made

    async def place(
        self,
        queue: str,
        kind: str,
        *,
        players: str | Iterable[str | PlacedPlayer] = (),
        id: str = "",  # noqa: A002 - the word of the wire
        name: str = "",
        properties: Mapping[str, Any] | None = None,
        max_players: int | None = None,
        visibility: Visibility = "public",
    ) -> Placement:
        """Have a room made on the best node of a queue, with seats for these players. The same id is one placement."""
        party = [players] if isinstance(players, str) else players
        request = StartPlacement(
            queue,
            kind,
            players=[PlacedPlayer(each) if isinstance(each, str) else each for each in party],
            id=id,
            name=name,
            properties=dict(properties or {}),
            max_players=max_players,
            visibility=visibility,
        )
        return await self._exchange.request(request, self._placed)

    def _placed(self, answer: Any) -> Placement:
        return Placement(self._exchange, self._news, read(answer, PlacementInfo, "answer to 'start_placement'"))
