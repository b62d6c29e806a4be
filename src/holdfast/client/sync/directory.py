"""What a session can ask of the server's directory, for programs without an event loop."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Unpack

from holdfast.client import directory as asynchronous
from holdfast.client.background import Background
from holdfast.client.directory import PAGE_MAX, RoomList
from holdfast.client.room import Changes, several
from holdfast.client.sync.placement import Placement
from holdfast.client.sync.room import ClientRoom
from holdfast.client.sync.watch import RoomWatch
from holdfast.schemas.player import ReservationInfo
from holdfast.schemas.requests import PlacedPlayer
from holdfast.schemas.room import RoomInfo, Visibility


class Directory:
    """The calls of a session that are about rooms. A refusal is raised as what it is: `RoomFull`, `NotFound` …"""

    def __init__(self, background: Background, directory: asynchronous.Directory) -> None:
        self._background = background
        self._directory = directory

    # To find and to make

    def create(
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
        return self._background.run(
            lambda: self._directory.create(
                kind,
                properties=properties,
                max_players=max_players,
                name=name,
                visibility=visibility,
                password=password,
                idempotency_key=idempotency_key,
                message_version=message_version,
            )
        )

    def search(
        self,
        kind: str | None = None,
        *,
        where: str = "open_seats > 0",
        order_by: str | Iterable[str] = (),
        limit: int = 20,
        cursor: str = "",
    ) -> RoomList:
        """One page of the rooms for which `where` holds, oldest first unless `order_by` says otherwise."""
        return self._background.run(
            lambda: self._directory.search(kind, where=where, order_by=order_by, limit=limit, cursor=cursor)
        )

    def search_all(
        self, kind: str | None = None, *, where: str = "open_seats > 0", order_by: str | Iterable[str] = ()
    ) -> Iterator[RoomInfo]:
        """All of them, page after page as they are asked for."""
        order_by = several(order_by)
        page = self.search(kind, where=where, order_by=order_by, limit=PAGE_MAX)
        while True:
            yield from page
            if not page.cursor:
                return
            page = self.search(kind, where=where, order_by=order_by, limit=PAGE_MAX, cursor=page.cursor)

    def watch(self, kind: str | None = None, *, where: str = "open_seats > 0", limit: int = 100) -> RoomWatch:
        """A search that goes on: `with session.watch("arena") as watch:`, then iterate over it or poll it."""
        watch = self._directory.watch(kind, where=where, limit=limit)
        return RoomWatch(self._background, self._background.run(watch.__aenter__))

    def update_room(self, room_id: str, **changes: Unpack[Changes]) -> RoomInfo:
        """Change a room's entry in the directory, as `ClientRoom.update` does from within."""
        return self._background.run(lambda: self._directory.update_room(room_id, **changes))

    # To join

    def join(self, room_id: str = "", *, code: str = "", password: str = "", message_version: str = "") -> ClientRoom:
        """Take a seat: by the room's id, or by its code. For `message_version` see `join_or_create`."""
        room = self._background.run(
            lambda: self._directory.join(room_id, code=code, password=password, message_version=message_version)
        )
        return ClientRoom(self._background, room)

    def join_or_create(
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
        room = self._background.run(
            lambda: self._directory.join_or_create(
                kind,
                where=where,
                properties=properties,
                max_players=max_players,
                name=name,
                visibility=visibility,
                password=password,
                message_version=message_version,
            )
        )
        return ClientRoom(self._background, room)

    def my_rooms(self) -> list[RoomInfo]:
        """The rooms in which this player has a seat or a reserved one, from whichever device."""
        return self._background.run(self._directory.my_rooms)

    def rejoin(self) -> ClientRoom:
        """Take the seat that this player has, in the newest room if there are several; `NotFound` if there is none."""
        return ClientRoom(self._background, self._background.run(self._directory.rejoin))

    # To keep seats, and to wait for one

    def reserve(
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
        return self._background.run(
            lambda: self._directory.reserve(room_id, code=code, password=password, players=players, ttl_s=ttl_s)
        )

    def release(self, room_id: str, players: str | Iterable[str] = ()) -> None:
        """Give reserved seats back; without `players` your own. Host and creator may give back anybody's."""
        self._background.run(lambda: self._directory.release(room_id, players))

    def wait_for_seat(
        self,
        room_id: str,
        *,
        password: str = "",
        timeout_s: float | None = None,
        on_position: Callable[[int], None] | None = None,
    ) -> ClientRoom:
        """Stand in line for a seat, and take it when it is our turn; `TimeoutError` after so many seconds in line.

        `on_position` is told where we stand, 1 being next, in the session's own thread: set a flag and return. Whoever
        is interrupted or runs out of time leaves the line.
        """
        room = self._background.run(
            lambda: self._directory.wait_for_seat(
                room_id, password=password, timeout_s=timeout_s, on_position=on_position
            )
        )
        return ClientRoom(self._background, room)

    # To have a room made

    def place(
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
        placement = self._background.run(
            lambda: self._directory.place(
                queue,
                kind,
                players=players,
                id=id,
                name=name,
                properties=properties,
                max_players=max_players,
                visibility=visibility,
            )
        )
        return Placement(self._background, placement)
