"""The client's session: one object that stays while connections come and go underneath it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any, TypeVar, Unpack, overload

from msgspec import Struct

from holdfast.client.connector import DialOptions
from holdfast.client.exchange import Exchange, read
from holdfast.client.journal import SessionJournal
from holdfast.client.listeners import Drop, Listenable, ListenerList
from holdfast.client.protocol import ClientProtocol, Event, Welcomed
from holdfast.client.room import Changes, ClientRoom, SessionSeats, several, update_of
from holdfast.client.session_inbox import SessionInbox
from holdfast.client.shared import SharedTypes
from holdfast.client.subscriptions import Placement, RoomWatch, Subscriptions, WaitlistPlace
from holdfast.core.errors import Expired, NotFound, Reset, RoomFull, SessionEnded
from holdfast.core.messages import Message
from holdfast.core.reasons import Reason
from holdfast.logs import get_logger
from holdfast.schemas.account import LinkInfo
from holdfast.schemas.frames import Auth, Close, Notice, Outcome, Reply
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.player import ReservationInfo
from holdfast.schemas.requests import (
    Confirm,
    Create,
    CreateOptions,
    Join,
    JoinOrCreate,
    LinkAccount,
    Mine,
    PlacedPlayer,
    Release,
    Rename,
    Reserve,
    RoomOptions,
    Search,
    Spectate,
    StartPlacement,
    Wait,
    Watch,
    fields_of,
)
from holdfast.schemas.room import RoomInfo, RoomPage
from holdfast.schemas.session import NameInfo, Stopping
from holdfast.transports.port import GOING_AWAY, NORMAL

log = get_logger("holdfast.client")

M = TypeVar("M", bound=Message)

PAGE_MAX = 100
"""The most rooms that one page of a search can have."""


class RoomList(list[RoomInfo]):
    """One page of a search. The cursor gets the next one; it is empty after the last.

    `hint` says why nothing was found, if the search compares a property with a type that it has in no room.
    """

    def __init__(self, page: RoomPage) -> None:
        super().__init__(page.rooms)
        self.cursor = page.cursor
        self.hint = page.hint


class ClientSession:
    """A player's presence on a server. Reconnects and resumes by itself; made by `holdfast.connect`.

    A refusal is raised as what it is: `RoomFull`, `NotFound` … To hear of its events, call them with a function, as in
    `session.on_drop(show)`; each can have several listeners.
    """

    on_drop = Listenable[Drop]()
    """The connection is lost; the session goes on and tries to come back."""
    on_reconnecting = Listenable[Drop]()
    """Another attempt to connect follows: the first one after a drop, and every one after that."""
    on_resume = Listenable[Outcome]()
    """The session is back; this is what became of it."""
    on_stopping = Listenable[float]()
    """The server stops within so many seconds; the session may come back after that."""
    on_close = Listenable[SessionEnded]()
    """The session is over, and will not come back by itself."""

    def __init__(
        self,
        protocol: ClientProtocol,
        options: DialOptions,
        messages: Iterable[type[Message]],
        journal: SessionJournal | None = None,
        shared: SharedTypes | None = None,
    ) -> None:
        self.protocol = protocol
        """The session without its sockets, for tests and tools."""
        self.outcome: Outcome | None = None
        """What became of the session at the last welcome: "new", "resumed", "resynced" or "reset"."""
        self.drops = 0
        """How often a connection was lost."""
        self._exchange = Exchange(
            protocol,
            options,
            journal=journal,
            happened=self._happened,
            dropped=self._dropped,
            waiting=self._waiting,
            closed=self._ended,
        )
        self._seats = SessionSeats(self._exchange, messages, shared or {}, latest_max=options.limits.latest_kept_max)
        self._inbox = SessionInbox(self._exchange, self._seats.types)
        self._subscriptions = Subscriptions(self._exchange)
        self._watch_numbers = count(1)

    # State

    @property
    def id(self) -> str:
        """The session's public id."""
        return self.protocol.session_id

    @property
    def player_id(self) -> str:
        """The player's id."""
        return self.protocol.player_id

    @property
    def name(self) -> str:
        """The player's display name, as the server has accepted it; empty if they have none. See `rename`."""
        return self.protocol.name

    @property
    def credential(self) -> str:
        """The secret with which this guest can sign in again; keep it like a password."""
        return self.protocol.credential

    @property
    def latency_ms(self) -> float:
        """The round-trip time, as the server measures it."""
        return self.protocol.latency_ms

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self.protocol.is_welcome

    @property
    def transport(self) -> str:
        """How we are connected: "websocket", "tcp" or "enet"; empty while there is no connection."""
        return self._exchange.transport_kind

    @property
    def latest_transport(self) -> str:
        """How `send_latest` travels now: "udp" where the server offers it beside the connection and it gets through,
        else as everything else does; empty while there is no connection."""
        return self._exchange.latest_transport

    @property
    def room(self) -> ClientRoom | None:
        """The room we have a seat in; after `saved=` this is how to get it back."""
        return self._seats.room()

    @property
    def spectating(self) -> ClientRoom | None:
        """The room that we watch without a seat; after `saved=` this is how to get it back."""
        return self._seats.room(is_spectator=True)

    async def rename(self, name: str) -> str:
        """Change the display name; the one that the server has accepted. `NameNotAllowed`: choose another."""
        return await self._exchange.ask_then(Rename(name), NameInfo, lambda answer: self.protocol.renamed(answer.name))

    # Messages to the session itself, as opposed to its seat

    @property
    def on_message(self) -> ListenerList[Message]:
        """A message to the session itself, with or without a seat; acknowledged when the listeners have returned."""
        return self._inbox.listeners

    @overload
    async def receive(self) -> Message: ...
    @overload
    async def receive(self, message_type: type[M]) -> M: ...
    async def receive(self, message_type: type[Message] = Message) -> Message:
        """The next message to the session itself, or the next of one type; `SessionEnded` when there can be none.

        It counts as processed, and is acknowledged, when the next one is asked for. A `Resynced` among them means that
        some could not be kept. While `on_message` has listeners, these get all of them.
        """
        return await self._inbox.receive(message_type)

    async def link(self, auth: Auth) -> None:
        """Give this guest an account, and stay the same player: id, data and seat. Sign in with `auth` from now on.

        `Conflict` if the account has a player already (sign in with it instead), or the player is not a guest;
        `NotAllowed` if `auth` proves nothing. The guest's credential does not sign in any more, and other sessions of
        the guest end.
        """
        request = LinkAccount(auth.scheme, auth.credential)
        await self._exchange.ask_then(request, LinkInfo, lambda answer: self.protocol.linked(auth, answer.token))
        # A saved session is stored with its new token before this is written, which makes the old one worthless.
        await self._exchange.ask(Confirm(), object)

    # Open and close

    async def open(self) -> None:
        """Connect for the first time; `connect` does this."""
        await self._exchange.open()

    async def close(self) -> None:
        """End the session on purpose: the seat is given back now, or when its grace ends if there is no connection.

        What was sent goes out first. Closing what is closed does nothing.
        """
        if not self._exchange.is_over:
            self._exchange.say_bye()
        await self._exchange.close(NORMAL, Reason.BYE, "closed by this client")

    async def suspend(self) -> None:
        """Go away without ending the session: the next `connect` with the same `saved=` goes on with it.

        Messages that were read count as processed; those that were not will be sent again.
        """
        self._exchange.check()
        self._seats.acknowledge()
        self._inbox.acknowledge()
        self._exchange.keep()
        self._exchange.flush(with_acks=True)
        await self._exchange.close(GOING_AWAY, "suspended", "suspended by this client")

    def cut(self) -> None:
        """Break the connection, as a bad network would; the session resumes by itself. For tests and demos."""
        self._exchange.cut()

    # Find and create rooms

    async def create(self, kind: str, **options: Unpack[CreateOptions]) -> RoomInfo:
        """Make a room. Joining it is another call. The same key with the same request gives the same room."""
        return await self._exchange.ask(Create(kind, **fields_of(options)), RoomInfo)

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
        page = await self._exchange.ask(request, RoomPage)
        if page.hint:
            log.warning("a search found nothing", hint=page.hint)
        return RoomList(page)

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
        return RoomWatch(self._exchange, self._subscriptions, request)

    async def update_room(self, room_id: str, **changes: Unpack[Changes]) -> RoomInfo:
        """Change a room's entry in the directory, as `ClientRoom.update` does from within."""
        return await self._exchange.ask(update_of(room_id, changes), RoomInfo)

    # Join

    async def join(
        self,
        room_id: str = "",
        *,
        code: str = "",
        password: str = "",
        message_version: str = "",
        options: Struct | Mapping[str, Any] | None = None,
        **shared: Unpack[SharedTypes],
    ) -> ClientRoom:
        """Take a seat: by the room's id, or by its code. For the other options see `join_or_create`."""
        request = Join(room_id, code, password, message_version, options)
        return await self._exchange.ask_then(request, RoomInfo, partial(self._seats.room_of, shared=shared))

    async def join_or_create(
        self,
        kind: str,
        *,
        where: str = "",
        options: Struct | Mapping[str, Any] | None = None,
        state: Any = None,
        data: Any = None,
        **room: Unpack[CreateOptions],
    ) -> ClientRoom:
        """Take a seat in the oldest open room of a kind for which `where` holds, or in a new room.

        `options` is what the room's `join_options` asks for: its Struct, or a dict. `message_version` is what `holdfast
        types` wrote: `OtherVersion` if the room's messages are not those any more. `state` and `data` are the types of
        `ClientRoom.state`, and of each player's data in `players` and `mine`.
        """
        request = JoinOrCreate(kind, where=where, options=options, **fields_of(room))
        taken = partial(self._seats.room_of, shared=SharedTypes(state=state, data=data))
        return await self._exchange.ask_then(request, RoomInfo, taken)

    async def my_rooms(self) -> list[RoomInfo]:
        """The rooms in which this player has a seat or a reserved one, from whichever device."""
        return await self._exchange.ask(Mine(), list[RoomInfo])

    async def rejoin(self, **shared: Unpack[SharedTypes]) -> ClientRoom:
        """Take the seat that this player has, in the newest room if there are several; `NotFound` if there is none."""
        if self.room is not None:
            return self.room
        # Not where one is only reserved: anybody in that room may have done that.
        rooms = await self._exchange.ask(Mine(seated=True), list[RoomInfo])
        if not rooms:
            raise NotFound("you have no seat in any room")
        return await self.join(max(rooms, key=lambda info: info.created_at).id, **shared)

    # Spectate

    async def spectate(
        self,
        room_id: str = "",
        *,
        code: str = "",
        password: str = "",
        message_version: str = "",
        **shared: Unpack[SharedTypes],
    ) -> ClientRoom:
        """Watch a room without a seat: by its id, or by its code. One room at a time; `leave` it, or `join` it."""
        request = Spectate(room_id, code, password, message_version)
        taken = partial(self._seats.room_of, is_spectator=True, shared=shared)
        return await self._exchange.ask_then(request, RoomInfo, taken)

    # Reserve seats, and wait for one

    async def reserve(
        self,
        room_id: str = "",
        *,
        code: str = "",
        password: str = "",
        players: str | Iterable[str] = (),
        ttl_s: float | None = None,
        options: Struct | Mapping[str, Any] | None = None,
    ) -> ReservationInfo:
        """Keep seats for a party, all or none; without `players` one for yourself. Asking again extends.

        In a room that you made or have a seat in. Your reservations end with your session. `options` is what each of
        them joins with, unless they say otherwise.
        """
        request = Reserve(room_id, code=code, password=password, players=several(players), ttl_s=ttl_s, options=options)
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
        options: Struct | Mapping[str, Any] | None = None,
        **shared: Unpack[SharedTypes],
    ) -> ClientRoom:
        """Wait for a seat in a full room, and take it; `TimeoutError` after so many seconds.

        `on_position` is called with our position, 1 being next. Cancelling or a timeout leaves the waitlist.
        """
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit, WaitlistPlace(self._exchange, self._subscriptions, Wait(room_id, password)) as place:
                while True:
                    await place.offered(on_position)
                    ends_at = limit.when()
                    # The seat is ours: not too late any more.
                    limit.reschedule(None)
                    try:
                        room = await self.join(room_id, password=password, options=options, **shared)
                    except (RoomFull, Expired, Reset):
                        # It was kept for so long only, and we were away.
                        place.wait_again()
                        limit.reschedule(ends_at)
                    else:
                        place.unsubscribe = None  # there is no place to give up any more
                        return room
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"no seat in room {room_id} within {timeout_s:g} s") from None

    # Placements

    async def place(
        self,
        queue: str,
        kind: str,
        *,
        players: str | Iterable[str | PlacedPlayer] = (),
        id: str = "",  # noqa: A002 - the word of the wire
        **options: Unpack[RoomOptions],
    ) -> Placement:
        """Place a room on the best node of a queue, with seats for these players. The same id is one placement."""
        party = [players] if isinstance(players, str) else players
        request = StartPlacement(
            queue,
            kind,
            players=[PlacedPlayer(each) if isinstance(each, str) else each for each in party],
            id=id,
            **fields_of(options),
        )
        made = partial(Placement, self._exchange, self._subscriptions)
        return await self._exchange.ask_then(request, PlacementInfo, made)

    # From the exchange

    def _happened(self, event: Event) -> None:
        match event:
            case Welcomed():
                self.outcome = event.outcome
                self._seats.welcomed()
                if event.outcome.kind != "new":
                    self._subscriptions.welcomed()
                    if not event.is_moved or event.outcome.kind != "resumed":
                        self.on_resume.tell(event.outcome)
            case Notice(topic="stopping"):
                self.on_stopping.tell(read(event.body, Stopping, "notice of the end").deadline_s)
            case Notice():
                self._subscriptions.noticed(event)
            case Reply() | Close():
                pass  # for the exchange and the connector
            case _:
                if not self._inbox.happened(event):
                    self._seats.happened(event)

    def _dropped(self, drop: Drop) -> None:
        if not self._exchange.is_over:
            self.drops += 1
            self.on_drop.tell(drop)

    def _waiting(self, drop: Drop) -> None:
        if not self._exchange.is_over:
            self.on_reconnecting.tell(drop)

    def _ended(self, error: SessionEnded) -> None:
        self._seats.ended(error)
        self.on_close.tell(error)

    def __repr__(self) -> str:
        return f"<ClientSession {self.id} of {self.player_id} {'connected' if self.connected else 'disconnected'}>"
