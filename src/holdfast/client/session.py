"""The client's session: one object that stays while connections come and go underneath it."""

import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from random import Random, SystemRandom
from typing import Any, NamedTuple, TypeVar

import msgspec

from holdfast.client.connector import Reach
from holdfast.client.events import Arrived, ChannelGone, LatestArrived, Restarted, SeatEvent, SeatTaken, Welcomed
from holdfast.client.exchange import Exchange
from holdfast.client.inbox import Inbox
from holdfast.client.link import Dial, dial
from holdfast.client.protocol import ClientProtocol
from holdfast.client.room import ClientRoom
from holdfast.client.saved import SavedState
from holdfast.client.vocabulary import Vocabulary
from holdfast.core.codec import CODECS, MSGPACK, Codec
from holdfast.core.errors import Invalid, NotSeated, ProtocolError
from holdfast.core.frames import Auth, Outcome
from holdfast.core.infos import RoomInfo
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, SeatLeft
from holdfast.core.reasons import Reason
from holdfast.transports.port import GOING_AWAY, NORMAL

log = logging.getLogger("holdfast.client")

T = TypeVar("T")


class _Seat(NamedTuple):
    room: ClientRoom
    inbox: Inbox


class ClientSession:
    """A player's presence on a server. Reconnects and resumes by itself; made by `holdfast.connect`."""

    def __init__(self, protocol: ClientProtocol, reach: Reach, messages: Iterable[type[Message]]) -> None:
        self.protocol = protocol
        """The session without its sockets, for tests and tools."""
        self.outcome: Outcome | None = None
        """What became of the session at the last welcome: "new", "resumed", "resynced" or "reset"."""
        self.drops = 0
        """How often a connection was lost."""
        self.on_drop: Callable[[], None] | None = None
        """Called when the connection is lost; the session goes on and tries to come back."""
        self.on_resume: Callable[[Outcome], None] | None = None
        """Called when the session is back, with what became of it."""
        self._latest_max = reach.limits.latest_kept_max
        self._vocabulary = Vocabulary(protocol.codec, messages)
        self._exchange = Exchange(protocol, reach, happened=self._happened, dropped=self._dropped)
        self._seats: dict[int, _Seat] = {}
        for event in protocol.channels.seats():
            self._happened(event)

    # Who and where

    @property
    def id(self) -> str:
        """The session's public id."""
        return self.protocol.session_id

    @property
    def player_id(self) -> str:
        """Who we are."""
        return self.protocol.player_id

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
    def room(self) -> ClientRoom | None:
        """The room we have a seat in; after `resume=` this is how to get it back."""
        return next((seat.room for seat in reversed(self._seats.values()) if seat.inbox.left is None), None)

    # What to ask for

    async def create(
        self, kind: str, *, properties: Mapping[str, Any] | None = None, max_players: int | None = None
    ) -> RoomInfo:
        """Make a room. Joining it is another call."""
        return await self._request("create", _wish(kind, properties, max_players), RoomInfo)

    async def search(self, kind: str | None = None, *, limit: int = 20) -> list[RoomInfo]:
        """Rooms with a free seat, oldest first."""
        return await self._request("search", {"kind": kind, "limit": limit}, list[RoomInfo])

    async def join(self, room_id: str) -> ClientRoom:
        """Take a seat in a room."""
        return self._room_of(await self._request("join", {"room": room_id}, RoomInfo))

    async def join_or_create(
        self, kind: str, *, properties: Mapping[str, Any] | None = None, max_players: int | None = None
    ) -> ClientRoom:
        """Take a seat in any open room of a kind, or in a new one."""
        return self._room_of(await self._request("join_or_create", _wish(kind, properties, max_players), RoomInfo))

    async def _request(self, operation: str, arguments: dict[str, Any], answer: type[T]) -> T:
        result = await self._exchange.request(operation, arguments)
        try:
            return msgspec.convert(result, answer)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"the answer to {operation!r} makes no sense: {error}") from None

    def _room_of(self, info: RoomInfo) -> ClientRoom:
        for seat in reversed(self._seats.values()):
            if seat.room.id == info.id:
                return seat.room
        raise NotSeated("the seat was gone before we heard of it; join again")

    # Life

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

    async def suspend(self) -> bytes:
        """Go away without ending the session; the result goes on with it: `connect(url, resume=…)`.

        Messages that were read count as processed; those that were not will be sent again.
        """
        self._exchange.check()
        for seat in self._seats.values():
            seat.inbox.acknowledge()
        self._exchange.flush(with_acks=True)
        state = self.save()
        await self._exchange.close(GOING_AWAY, "suspended", "suspended by this client")
        return state

    def save(self) -> bytes:
        """What `connect(url, resume=…)` needs to go on from here if this process dies. It holds secrets.

        A resume uses up the state before it: save again in `on_resume`.
        """
        self._exchange.check()
        return self.protocol.save()

    def cut(self) -> None:
        """Break the connection, as a bad network would; the session resumes by itself. For tests and demos."""
        self._exchange.cut()

    # From the exchange

    def _happened(self, event: Welcomed | SeatEvent) -> None:
        match event:
            case Arrived():
                self._arrived(event)
            case LatestArrived():
                if (seat := self._seats.get(event.channel)) is not None:
                    seat.inbox.put_latest(self._vocabulary.message(event.name, event.body))
            case SeatTaken():
                self._seated(event)
            case Restarted():
                if (seat := self._seats.get(event.channel)) is not None:
                    seat.inbox.restart(self.protocol.restart_of(event))
            case ChannelGone():
                if (seat := self._seats.pop(event.channel, None)) is not None:
                    seat.inbox.end(SeatLeft(event.reason))
            case Welcomed():
                self._welcomed(event.outcome)

    def _arrived(self, event: Arrived) -> None:
        seat = self._seats.get(event.channel)
        if seat is None:
            # Of a seat that was gone before we heard of it: nobody will ever read this.
            self._exchange.processed(event)
            return
        message = self._vocabulary.message(event.name, event.body)
        seat.inbox.put(event, message)
        if isinstance(message, SeatLeft) and message.reason == Reason.JOIN_FAILED:
            # `join` raises, so nobody gets to see this room.
            seat.inbox.discard(message)

    def _seated(self, event: SeatTaken) -> None:
        open_channels = {channel.number for channel in self.protocol.channels}
        self._seats = {number: seat for number, seat in self._seats.items() if number in open_channels}
        inbox = Inbox(self._exchange.processed, latest_max=self._latest_max)
        room = ClientRoom(self._exchange, inbox, channel=event.channel, room_id=event.room, kind=event.kind)
        self._seats[event.channel] = _Seat(room, inbox)

    def _dropped(self) -> None:
        self.drops += 1
        if self.on_drop is not None:
            self._call(self.on_drop)

    def _welcomed(self, outcome: Outcome) -> None:
        self.outcome = outcome
        if outcome.kind != "new" and self.on_resume is not None:
            self._call(self.on_resume, outcome)

    def _call(self, callback: Callable[..., None], *args: Any) -> None:
        try:
            callback(*args)
        except Exception:
            log.exception("a callback of the session failed")

    def __repr__(self) -> str:
        return f"<ClientSession {self.id} of {self.player_id} {'connected' if self.connected else 'disconnected'}>"


def _wish(kind: str, properties: Mapping[str, Any] | None, max_players: int | None) -> dict[str, Any]:
    return {"kind": kind, "properties": dict(properties or {}), "max_players": max_players}


def _codec(dialect: str) -> Codec:
    if dialect not in CODECS:
        raise Invalid(f"no dialect is called {dialect!r}; there is {', '.join(CODECS)}")
    return CODECS[dialect]


class connect:  # noqa: N801 - reads as a verb: `async with holdfast.connect(url) as session:`
    """Connect to a server, and stay connected: `async with holdfast.connect("ws://127.0.0.1:7777") as session:`.

    Leaving the block ends the session. `session = await connect(url)` does the same without a block; then call
    `session.close()` yourself. Raises `OSError` if nobody answers at the address, `SessionEnded` if the server does not
    want us. A connection that is lost later is replaced, and the session resumed, without a word; see `on_drop`.

    - `messages`: the types that rooms send; others arrive as `Untyped`.
    - `auth`: how to sign in; a new guest if you say nothing, a known one with `Auth("guest", credential)`.
    - `resume`: go on with a saved session. If it is gone, sign in with `auth`, or as the same guest as before.
    - `dialect`: "holdfast.v1.msgpack" or "holdfast.v1.json"; a saved session keeps its own.
    - `give_up_s`: for how long to try to come back before the session counts as over.
    - `limits`, `random`, `dial`: replaced in tests.
    """

    def __init__(  # noqa: PLR0913 - settings, all by keyword
        self,
        url: str,
        *,
        messages: Iterable[type[Message]] = (),
        auth: Auth | None = None,
        resume: bytes | None = None,
        dialect: str = MSGPACK.name,
        give_up_s: float = 120.0,
        limits: Limits | None = None,
        random: Random | None = None,
        dial: Dial = dial,
    ) -> None:
        limits = limits or Limits()
        if resume is None:
            protocol = ClientProtocol(_codec(dialect), auth or Auth(), limits)
        else:
            saved = SavedState.read(resume)
            protocol = ClientProtocol(_codec(saved.dialect), auth, limits)
            protocol.load(saved)
        reach = Reach(url=url, dial=dial, give_up_s=give_up_s, random=random or SystemRandom(), limits=limits)
        self._session = ClientSession(protocol, reach, messages)

    @property
    def session(self) -> ClientSession:
        """The session, also before it is open: set its `on_resume` here to `save` before a `resume=` is used up."""
        return self._session

    async def __aenter__(self) -> ClientSession:
        await self._session.open()
        return self._session

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def __await__(self) -> Generator[Any, None, ClientSession]:
        return self.__aenter__().__await__()
