"""The client's session: one object that stays while connections come and go underneath it."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from random import Random, SystemRandom
from typing import Any

import msgspec

from holdfast.client.connector import Connector
from holdfast.client.link import Dial, dial
from holdfast.client.protocol import (
    Arrived,
    ChannelGone,
    ClientProtocol,
    Closed,
    Event,
    LatestArrived,
    Replied,
    Restarted,
    SavedState,
    SeatTaken,
    Welcomed,
)
from holdfast.client.room import ClientRoom, Resynced, Vocabulary
from holdfast.core.codec import CODECS
from holdfast.core.errors import Invalid, NotFound, SessionEnded, refusal
from holdfast.core.frames import Auth, Outcome
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, SeatLeft
from holdfast.core.reasons import Reason
from holdfast.transports.port import GOING_AWAY, NORMAL

log = logging.getLogger("holdfast.client")


class RoomInfo(msgspec.Struct, frozen=True):
    """A room as the directory shows it."""

    id: str
    kind: str
    players: int
    max_players: int
    phase: str
    properties: dict[str, Any]


class ClientSession:
    """A player's presence on a server. Reconnects and resumes by itself; made by `holdfast.connect`."""

    def __init__(  # noqa: PLR0913 - settings, all by keyword; `connect` documents them
        self,
        url: str,
        *,
        auth: Auth | None = None,
        messages: Iterable[type[Message]] = (),
        dialect: str = "holdfast.v1.msgpack",
        resume: bytes | None = None,
        give_up_s: float = 120.0,
        limits: Limits | None = None,
        random: Random | None = None,
        dial: Dial = dial,
    ) -> None:
        saved = _read_saved(resume) if resume is not None else None
        codec = CODECS.get(saved.dialect if saved is not None else dialect)
        if codec is None:
            raise Invalid(f"no dialect is called {dialect!r}; there is {', '.join(CODECS)}")
        self.url = url
        self.outcome: Outcome | None = None
        self.on_drop: Callable[[], None] | None = None
        self.on_resume: Callable[[Outcome], None] | None = None
        self.drops = 0
        self.limits = limits or Limits()
        self.protocol = ClientProtocol(codec, auth or Auth(), self.limits)
        if saved is not None:
            self.protocol.load(saved)
        self._vocabulary = Vocabulary(codec, messages)
        self._connector = Connector(
            self,
            self.protocol,
            dial=dial,
            limits=self.limits,
            give_up_s=give_up_s,
            random=random or SystemRandom(),
        )
        self._rooms: dict[int, ClientRoom] = {}
        for seat in self.protocol.seats():
            self._seated(seat)
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._error: SessionEnded | None = None
        self._changed = asyncio.Event()
        self._flush_is_due = False
        self._ack_timer: asyncio.TimerHandle | None = None

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
        return next((room for room in reversed(self._rooms.values()) if room.left is None), None)

    # What to ask for

    async def create(self, kind: str, *, max_players: int | None = None, **properties: Any) -> RoomInfo:
        """Make a room. Joining it is another call."""
        wish = {"kind": kind, "properties": properties, "max_players": max_players}
        return msgspec.convert(await self.request("create", wish), RoomInfo)

    async def search(self, kind: str | None = None, *, limit: int = 20) -> list[RoomInfo]:
        """Rooms with a free seat, oldest first."""
        return msgspec.convert(await self.request("search", {"kind": kind, "limit": limit}), list[RoomInfo])

    async def join(self, room_id: str) -> ClientRoom:
        """Take a seat in a room."""
        return self._room_named(await self.request("join", {"room": room_id}))

    async def join_or_create(self, kind: str, *, max_players: int | None = None, **properties: Any) -> ClientRoom:
        """Take a seat in any open room of a kind, or in a new one."""
        wish = {"kind": kind, "properties": properties, "max_players": max_players}
        return self._room_named(await self.request("join_or_create", wish))

    async def request(self, operation: str, arguments: dict[str, Any]) -> Any:
        """Ask the server for something; asked again by itself after a resume, answered once."""
        await self.until(lambda: len(self._replies) < self._requests_max)
        request_id = self.protocol.request(operation, arguments)
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[request_id] = reply
        self.wake()
        try:
            return await reply
        finally:
            self._replies.pop(request_id, None)

    @property
    def _requests_max(self) -> int:
        terms = self.protocol.terms
        ours = self.limits.requests_in_flight_max
        return min(ours, terms.requests_in_flight_max) if terms is not None else ours

    def _room_named(self, info: dict[str, Any]) -> ClientRoom:
        for room in reversed(self._rooms.values()):
            if room.id == info["id"]:
                return room
        raise NotFound("the seat was gone before its room was known")

    # Messages

    async def send(self, room: ClientRoom, message: Message) -> None:
        """Send reliably; see `ClientRoom.send`."""
        body = self.protocol.codec.encode(message)
        if self.protocol.terms is not None and len(body) > self.protocol.terms.payload_bytes_max - 256:
            raise Invalid(f"a {message.wire_name!r} of {len(body)} bytes does not fit in a payload; send it in parts")
        self._check()
        if self.protocol.is_full(room.channel):
            await self.until(lambda: room.is_over or not self.protocol.is_full(room.channel))
        self.protocol.push(room.channel, message.wire_name, body)
        self.wake()

    def send_latest(self, room: ClientRoom, message: Message) -> None:
        """Send unreliably; see `ClientRoom.send_latest`."""
        self.protocol.push_latest(room.channel, message.wire_name, self.protocol.codec.encode(message))
        self.wake()

    def processed(self, arrived: Arrived) -> None:
        """A message was dealt with: acknowledge it soon."""
        self.protocol.processed(arrived)
        self.wake()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something is true of the session; `SessionEnded` if it ends first."""
        while not holds():
            self._check()
            self._changed.clear()
            await self._changed.wait()
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    # Writing: once per turn of the loop

    def wake(self) -> None:
        """Write what waits when this turn of the loop ends."""
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self, *, with_acks: bool = False) -> None:
        self._flush_is_due = False
        for payload in self.protocol.outgoing(with_acks=with_acks):
            self._connector.send(payload)
        if self._ack_timer is None and self.connected and self.protocol.owes_ack:
            self._ack_timer = asyncio.get_running_loop().call_later(self.limits.ack_s, self._flush_acks)

    def _flush_acks(self) -> None:
        self._ack_timer = None
        self._flush(with_acks=True)

    # Life

    async def open(self) -> None:
        """Connect for the first time: what fails here is raised, not retried."""
        await self._connector.open()

    async def close(self) -> None:
        """End the session on purpose: the seat is given back."""
        if self._error is None and self.connected:
            self._flush()
            self._connector.send(self.protocol.bye())
            self._connector.close(NORMAL, "bye")
        self.ended(SessionEnded(Reason.BYE, "closed by this client"))
        await self._stop()

    async def suspend(self) -> bytes:
        """Go away without ending the session; the result goes on with it: `connect(url, resume=…)`."""
        self._check()
        self._flush(with_acks=True)
        state = self.save()
        self._connector.close(GOING_AWAY, "suspended")
        self.ended(SessionEnded("suspended", "suspended by this client"))
        await self._stop()
        return state

    def save(self) -> bytes:
        """What `connect(url, resume=…)` needs to go on from here, in this process or another. It holds secrets."""
        return self.protocol.save()

    def cut(self) -> None:
        """Break the connection, as a bad network would; the session resumes by itself. For tests and demos."""
        self._connector.cut()

    async def _stop(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        await self._connector.stop()

    # From the connector

    def happened(self, event: Event) -> None:
        """The server said something."""
        match event:
            case Arrived():
                self._arrived(event.channel, event, event.name, event.body)
            case LatestArrived():
                self._arrived(event.channel, None, event.name, event.body)
            case Replied():
                self._replied(event)
            case SeatTaken():
                self._seated(event)
            case Restarted():
                self._rooms[event.channel].arrived(None, Resynced())
            case ChannelGone():
                room = self._rooms.pop(event.channel, None)
                if room is not None:
                    room.end(SeatLeft(event.reason))
            case Welcomed():
                self._welcomed(event.outcome)
            case Closed():
                pass

    def heard(self) -> None:
        """A payload has been dealt with: something may be true now that somebody waits for."""
        self._changed.set()
        self.wake()

    def dropped(self) -> None:
        """The connection is gone; another will follow."""
        self.drops += 1
        if self.on_drop is not None and self._error is None:
            self._call(self.on_drop)

    def ended(self, error: SessionEnded) -> None:
        """The session is over; everybody who waits for something is told."""
        if self._error is not None:
            return
        self._error = error
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(error)
        for room in self._rooms.values():
            room.fail(error)
        self._changed.set()

    def _arrived(self, channel: int, arrived: Arrived | None, name: str, body: msgspec.Raw) -> None:
        room = self._rooms.get(channel)
        if room is not None:
            room.arrived(arrived, self._vocabulary.message(name, body))
        elif arrived is not None:
            # The last words of a seat that was left: nobody will read them.
            self.processed(arrived)

    def _seated(self, seat: SeatTaken) -> None:
        over = [number for number, room in self._rooms.items() if room.left is not None]
        for number in over:
            del self._rooms[number]
        self._rooms[seat.channel] = ClientRoom(self, seat.channel, seat.room, seat.kind)

    def _replied(self, event: Replied) -> None:
        reply = self._replies.get(event.id)
        if reply is None or reply.done():
            return
        if event.problem is not None:
            reply.set_exception(refusal(event.problem.code, event.problem.message))
        else:
            reply.set_result(event.result)

    def _welcomed(self, outcome: Outcome) -> None:
        self.outcome = outcome
        if outcome.kind != "new" and self.on_resume is not None:
            self._call(self.on_resume, outcome)

    def _call(self, callback: Callable[..., None], *args: Any) -> None:
        try:
            callback(*args)
        except Exception:
            log.exception("a callback of the session failed")


class connect:  # noqa: N801 - reads as a verb: `async with holdfast.connect(url) as session:`
    """Connect to a server: `async with holdfast.connect("ws://127.0.0.1:7777") as session:`.

    `messages` are the types the room sends; others arrive as `Untyped`. `auth` signs in (default: as a new guest),
    `resume` goes on with a saved session. Leaving the block ends the session.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._url = url
        self._options = options
        self._session: ClientSession | None = None

    async def __aenter__(self) -> ClientSession:
        self._session = ClientSession(self._url, **self._options)
        await self._session.open()
        return self._session

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def __await__(self) -> Any:
        return self.__aenter__().__await__()


def _read_saved(state: bytes) -> SavedState:
    try:
        return msgspec.msgpack.decode(state, type=SavedState)
    except msgspec.MsgspecError as error:
        raise Invalid(f"this is not a saved session: {error}") from None
