"""What can be found: the index of a node's rooms, kept up to date, searched, and watched."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.core.codec import JSON
from holdfast.core.errors import Invalid, NotFound, Throttled
from holdfast.core.frames import FRAME_HEAD_BYTES
from holdfast.core.infos import RoomInfo, RoomPage
from holdfast.core.listing import RoomStatus, check_properties
from holdfast.core.query import Index, Query, Row, parse_query
from holdfast.core.session import PlayerId, Session
from holdfast.core.wishes import Search, Watch

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.room_host import RoomHost

log = logging.getLogger("holdfast")

Visible = Callable[[Row], bool]


class _Watch:
    """A search that goes on, and what its client knows of."""

    __slots__ = ("known", "query", "visible")

    def __init__(self, query: Query, visible: Visible) -> None:
        self.query = query
        self.visible = visible
        self.known: set[str] = set()


class Listings:
    """The searchable side of the rooms."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._limits = node.limits
        self._index = Index(columns_max=node.limits.indexed_properties_max)
        self._hosts: dict[str, RoomHost] = {}
        # Those whose row is out of date.
        self._stale: dict[RoomHost, None] = {}
        self._watches: dict[tuple[Session, str], _Watch] = {}
        # What watches have not been told of yet.
        self._news: dict[str, None] = {}
        self._telling: asyncio.TimerHandle | None = None

    # Rooms

    def add(self, host: "RoomHost") -> None:
        """A room can be found from now on."""
        self._hosts[host.room.id] = host
        self.touch(host)

    def touch(self, host: "RoomHost") -> None:
        """What is shown of a room has changed; looked at when somebody asks."""
        if host.room.id in self._hosts:
            self._stale[host] = None
            if self._watches:
                self._changed(host.room.id)

    def remove(self, host: "RoomHost") -> None:
        """A room cannot be found any more."""
        if self._hosts.pop(host.room.id, None) is not None:
            self._stale.pop(host, None)
            self._index.remove(host.room.id)
            if self._watches:
                self._changed(host.room.id)

    def info_of(self, host: "RoomHost", *, sees_code: bool) -> RoomInfo:
        """What is shown of a room; properties that a game has spoiled are left out, and said so in the log."""
        room = host.room
        listing = room.listing
        return RoomInfo(
            id=room.id,
            kind=room.kind,
            players=room.seats_used,
            max_players=room.max_players,
            phase=room.phase,
            properties=self._properties(host),
            name=listing.name,
            status=listing.status.value,
            reason=listing.reason,
            open_seats=self._open_seats(host),
            visibility=listing.visibility,
            join_policy=listing.join_policy,
            is_locked=room.is_locked,
            has_password=listing.password is not None,
            code=listing.code if sees_code else "",
            creator=listing.creator,
            host=room.host.id if room.host is not None else "",
            created_at=listing.created_at,
            version=listing.version,
        )

    @staticmethod
    def _open_seats(host: "RoomHost") -> int:
        return host.room.open_seats if host.room.listing.status is RoomStatus.ACTIVE else 0

    def _properties(self, host: "RoomHost") -> dict[str, Any]:
        room = host.room
        if host.checked_version != room.listing.version:
            host.checked_version = room.listing.version
            try:
                check_properties(room.properties, self._limits.properties_bytes_max)
                host.shown_properties = dict(room.properties)
            except Invalid as error:
                log.error("room %s (%s): %s", room.id, room.kind, error)  # noqa: TRY400 - the sentence says it all
                host.shown_properties = {}
        return host.shown_properties

    def _row(self, host: "RoomHost") -> Row:
        room = host.room
        listing = room.listing
        return Row(
            id=room.id,
            kind=room.kind,
            name=listing.name,
            players=room.seats_used,
            max_players=room.max_players,
            open_seats=self._open_seats(host),
            created_at=listing.created_at,
            phase=room.phase,
            properties=self._properties(host),
            creator=listing.creator,
            host=room.host.id if room.host is not None else "",
            is_locked=room.is_locked,
            has_password=listing.password is not None,
        )

    def _refresh(self) -> None:
        stale, self._stale = self._stale, {}
        for host in stale:
            self._index.put(self._row(host))

    # Searching

    def visible_to(self, player_id: PlayerId) -> Visible:
        """What a player may find: the public rooms, and those they made or have a seat in."""

        def visible(row: Row) -> bool:
            room = self._hosts[row.id].room
            listing = room.listing
            return listing.visibility == "public" or player_id == listing.creator or room.seat_of(player_id) is not None

        return visible

    async def search(self, wish: Search, visible: Visible | None, *, sees_code: bool = False) -> RoomPage:
        """Look in slices, so that no search keeps the games waiting."""
        query = parse_query(wish.where, wish.order_by, kind=wish.kind)
        rooms: list[RoomInfo] = []
        cursor, looked = wish.cursor, 0
        bytes_left = self._limits.payload_bytes_max - FRAME_HEAD_BYTES
        while True:
            self._refresh()
            found = self._index.search(
                query,
                now=self._node.wall(),
                limit=wish.limit - len(rooms),
                cursor=cursor,
                budget=self._limits.search_slice,
                visible=visible,
            )
            rooms += [self.info_of(self._hosts[row.id], sees_code=sees_code) for row in found.rows]
            cursor, looked = found.cursor, looked + found.looked
            if len(rooms) >= wish.limit or not cursor or looked >= self._limits.search_looked_max:
                break
            await asyncio.sleep(0)
        return self._fitting(query, rooms, cursor, bytes_left)

    def _fitting(self, query: Query, rooms: list[RoomInfo], cursor: str, bytes_left: int) -> RoomPage:
        """As many as an answer can carry; the cursor goes on from the last of them."""
        for number, info in enumerate(rooms):
            bytes_left -= _size(info)
            if bytes_left < 0 and number > 0:
                last = self._index.row(rooms[number - 1].id)
                return RoomPage(rooms[:number], query.cursor_after(last) if last is not None else cursor)
        return RoomPage(rooms, cursor)

    def first_open(self, kind: str, where: str) -> "list[RoomHost]":
        """Rooms that a newcomer might join without a password, oldest first: a few of them."""
        query = parse_query(where, (), kind=kind)
        self._refresh()

        def visible(row: Row) -> bool:
            room = self._hosts[row.id].room
            return row.open_seats > 0 and not row.has_password and room.listing.visibility == "public"

        found = self._index.search(
            query, now=self._node.wall(), limit=8, budget=self._limits.search_looked_max, visible=visible
        )
        return [self._hosts[row.id] for row in found.rows]

    # Watching

    async def watch(self, session: Session, wish: Watch) -> RoomPage:
        """Begin a search that goes on; what it finds now."""
        key = (session, wish.id)
        mine = sum(1 for each, _ in self._watches if each is session)
        if key not in self._watches:
            if mine >= self._limits.watches_per_session_max:
                raise Throttled(f"a session has {mine} searches going on at most: end one first")
            if len(self._watches) >= self._limits.watches_max:
                raise Throttled("this node has too many searches going on; try later")
        watch = _Watch(parse_query(wish.where, (), kind=wish.kind), self.visible_to(session.player_id))
        self._watches[key] = watch
        page = await self.search(Search(wish.kind, wish.where, [], wish.limit), watch.visible)
        watch.known.update(info.id for info in page.rooms)
        return page

    def unwatch(self, session: Session, watch_id: str) -> None:
        """End one."""
        if self._watches.pop((session, watch_id), None) is None:
            raise NotFound(f"no search called {watch_id!r} is going on")

    def dropped(self, session: Session) -> None:
        """Who is not there cannot be told: they begin again when they are back."""
        if self._watches:
            for key in [key for key in self._watches if key[0] is session]:
                del self._watches[key]

    def _changed(self, room_id: str) -> None:
        self._news[room_id] = None
        if self._telling is None:
            self._telling = self._loop.call_later(self._limits.watch_s, self._tell)

    def _tell(self) -> None:
        """Tell every watch what is news to it: so many rooms at a time that the games need not wait."""
        self._telling = None
        self._refresh()
        room_for = max(1, self._limits.search_slice // max(1, len(self._watches)))
        news = list(self._news)[:room_for]
        for room_id in news:
            del self._news[room_id]
        if self._news:
            self._telling = self._loop.call_later(self._limits.watch_s, self._tell)
        now = self._node.wall()
        for (session, watch_id), watch in self._watches.items():
            changed: list[RoomInfo] = []
            removed: list[str] = []
            for room_id in news:
                row = self._index.row(room_id)
                if row is not None and watch.query.matches(row, now) and watch.visible(row):
                    watch.known.add(room_id)
                    changed.append(self.info_of(self._hosts[room_id], sees_code=False))
                elif room_id in watch.known:
                    watch.known.discard(room_id)
                    removed.append(room_id)
            if changed or removed:
                self._node.notices.rooms(session, watch_id, changed, removed)


def _size(info: RoomInfo) -> int:
    # JSON is the longer dialect.
    return len(JSON.encode(info)) + 1
