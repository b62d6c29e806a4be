"""Rooms, as a client sees them: the messages of each seat, to and from its room, and the seats of a session."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from math import isinf
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack, overload

import msgspec
from msgspec import Raw, structs

from holdfast.client.asks import Asks, RawAnswer
from holdfast.client.channels import Arrived, ChannelGone, ChannelOpened, Restarted, SeatEvent
from holdfast.client.exchange import Exchange
from holdfast.client.inbox import Resynced, RoomInbox
from holdfast.client.shared import SharedState, SharedTypes
from holdfast.core.codec import DECODE_ERRORS, BodyDecoder, Codec
from holdfast.core.errors import Invalid, NotSeated, ProtocolError, Refused, Reset, SessionEnded
from holdfast.core.messages import (
    ASK,
    RESERVED,
    STATE,
    Announcement,
    HostChanged,
    Message,
    MessageAnswered,
    MessageRefused,
    RoomUpdated,
    SeatLeft,
    Untyped,
)
from holdfast.core.reasons import Reason
from holdfast.logs import get_logger
from holdfast.schemas.frames import Latest
from holdfast.schemas.requests import Leave, Unspectate, Update
from holdfast.schemas.room import JoinPolicy, RoomInfo, Visibility

log = get_logger("holdfast.client")

M = TypeVar("M", bound=Message)

# A server that makes names up must not fill the log.
_WARNED_MAX = 64


def _listed(message_types: Any) -> tuple[type[Message], ...]:
    """The types in `connect(url, messages=[…])`; `TypeError` if it lists anything else."""
    listed = tuple(message_types) if isinstance(message_types, Iterable) else (message_types,)
    for each in listed:
        if not _is_message_type(each):
            raise TypeError(f"`messages` lists Message classes, as in messages=[Moved]; got {each!r}")
    if not isinstance(message_types, Iterable):
        name = message_types.__name__
        raise TypeError(f"`messages` is a list: write messages=[{name}]")
    return listed


def _is_message_type(each: Any) -> bool:
    return isinstance(each, type) and issubclass(each, Message)


class MessageTypes:
    """The types of messages that a client was told about: a decoder for each, by its wire name."""

    def __init__(self, codec: Codec, message_types: Iterable[type[Message]]) -> None:
        self._decoders: dict[str, BodyDecoder] = {}
        listed = _listed(message_types)
        # A client that lists it means to read the others that way.
        self._warns = Untyped not in listed
        self._warned: set[str] = set()
        known: list[type[Message]] = [MessageRefused, SeatLeft, RoomUpdated, HostChanged, Announcement, *listed]
        self._known: tuple[type[Message], ...] = (Resynced, Untyped, *known)
        for kind in dict.fromkeys(known):
            if kind.wire_name in self._decoders:
                raise Invalid(f"two types of messages are called {kind.wire_name!r}: set `wire_name` on one of them")
            self._decoders[kind.wire_name] = codec.body_decoder(kind)
        self._any = codec.body_decoder(Any)
        self._changes = codec.for_state.body_decoder(Any)
        self._ask = codec.body_decoder(tuple[str, Raw])
        self._answer = codec.body_decoder(RawAnswer)

    def check(self, message_type: Any) -> None:
        """Refuse to wait for what never comes."""
        if not _is_message_type(message_type):
            raise TypeError(f"name a Message class, as in receive(Moved) or on(Moved); got {message_type!r}")
        if not any(issubclass(known, message_type) for known in self._known):
            name = message_type.__name__
            raise Invalid(f"{name} would never arrive: list it in connect(url, messages=[{name}])")

    def message(self, name: str, body: Raw) -> Message:
        """A message that came; `Untyped`, with a warning, if its type is not listed or its body does not fit it."""
        try:
            message, problem = self._decoded(name, body)
        except DECODE_ERRORS as error:
            raise ProtocolError(f"the body of a {name!r} cannot be read: {error}") from None
        if problem and self._warns:
            self._warn(name, problem)
        return message

    def _warn(self, name: str, problem: str) -> None:
        """Once for each type; names of Holdfast's own are a newer server's, and not the game's to list."""
        if not name.startswith(RESERVED) and name not in self._warned and len(self._warned) < _WARNED_MAX:
            self._warned.add(name)
            log.warning("a message arrives as Untyped", type=name, problem=problem)

    def change(self, body: Raw) -> Any:
        """A change of the state, as plain data."""
        try:
            return self._changes.decode(body)
        except DECODE_ERRORS as error:
            raise ProtocolError(f"a change of the state cannot be read: {error}") from None

    def answer(self, body: Raw) -> tuple[int, Message | None]:
        """The number of an ask, and the answer to it: None if it is empty."""
        try:
            answer: RawAnswer = self._answer.decode(body)
        except DECODE_ERRORS as error:
            raise ProtocolError(f"an answer cannot be read: {error}") from None
        return answer.seq, self.message(answer.type, answer.body) if answer.type else None

    def sent(self, name: str, body: Raw) -> Message:
        """A message of ours: typed if the room may send it, too."""
        if name == ASK:
            name, body = self._ask.decode(body)
        return self._decoded(name, body)[0]

    def _decoded(self, name: str, body: Raw) -> tuple[Message, str]:
        """The message, and why it is not typed."""
        decoder = self._decoders.get(name)
        problem = "its class is missing in connect(url, messages=[…])"
        if decoder is not None:
            try:
                return decoder.decode(body), ""
            except msgspec.ValidationError as error:
                if name.startswith(RESERVED):
                    raise
                problem = f"it does not fit its class: {error}"
        return Untyped(name, self._any.decode(body)), problem


class Unconfirmed(NamedTuple):
    """A message that the server has not acknowledged yet."""

    number: int
    message: Message
    """`Untyped`, unless its type is among the `messages` of `connect`."""


class Changes(TypedDict, total=False):
    """What can be changed of a room's entry; what is not named, or None, stays as it is."""

    name: str | None
    set: Mapping[str, Any] | None
    """Properties to set."""
    remove: str | Iterable[str]
    """Properties to remove, by name."""
    max_players: int | None
    """A lower number than there are players removes none."""
    join_policy: JoinPolicy | None
    locked: bool | None
    visibility: Visibility | None
    password: str | None
    """An empty one takes the password away."""
    host: str | None
    """The player who is the host from now on."""
    if_version: int | None
    """Change nothing unless this is still the entry's version: else `Conflict`."""


def update_of(room_id: str, changes: Changes) -> Update:
    """The request for these changes."""
    facts: dict[str, Any] = dict(changes)
    facts["set"] = dict(changes.get("set") or {})
    facts["remove"] = several(changes.get("remove", ()))
    return Update(room_id, **facts)


def several(names: str | Iterable[str]) -> list[str]:
    """Names as a list; a single one needs no brackets."""
    return [names] if isinstance(names, str) else list(names)


class ClientRoom:
    """One seat, or a spectator's place. Iterate over it for the room's messages; it ends when that is gone, and `left`
    says why.

    A message counts as processed, and is acknowledged, when the next one is asked for. One task should read.

    What the room shares is in `state`, `players` and `mine`. While you deal with a message, it is as at the end of that
    message's turn, else as it is now. Never change it.
    """

    def __init__(
        self,
        exchange: Exchange,
        opened: ChannelOpened,
        types: MessageTypes,
        inbox: RoomInbox,
        asks: Asks,
        shared: SharedState,
    ) -> None:
        self.id = opened.room
        self.kind = opened.kind
        self.channel = opened.channel
        self.is_spectator = opened.purpose == "spectator"
        """Whether we watch the room, without a seat. With `left.reason` "seated", `session.room` is our seat."""
        self.info: RoomInfo | None = None
        """The room's entry in the directory when it was last told; None after `saved=`, until it changes."""
        self.host = ""
        """The id of the player who is the host; empty if there is none, or it is not known yet."""
        self._exchange = exchange
        # Kept when it is over: it still knows what became of what was sent.
        self._stream = exchange.protocol.channels.seat(opened.channel)
        self._types = types
        self._inbox = inbox
        self._asks = asks
        self._shared = shared

    @property
    def left(self) -> SeatLeft | None:
        """Why the seat is gone; None while it is ours. What came before it can still be read."""
        return self._inbox.left

    # What became of what was sent and received: the same after a restart with `saved=`

    @property
    def sent(self) -> int:
        """The number of the last message that was sent; the first of a seat is 1."""
        return self._stream.last_seq

    @property
    def accepted(self) -> int:
        """The number of the last message that the server has acknowledged, with all before it."""
        return self._stream.acked

    @property
    def unconfirmed(self) -> list[Unconfirmed]:
        """The messages that were sent and not accepted yet, with their numbers. They are on their way by themselves."""
        kept = self._stream.kept_messages()
        numbered = enumerate(kept, self._stream.last_seq - len(kept) + 1)
        return [Unconfirmed(number, self._types.sent(name, Raw(body))) for number, (name, body) in numbered]

    @property
    def received(self) -> int:
        """The number of the last reliable message that was read; restarts with a `Resynced`."""
        return self._inbox.received

    # What the room shares

    @property
    def state(self) -> Any:
        """The room's state, of the type given as `state=`, else plain data. None until it has come.

        `Invalid` if it does not fit the type.
        """
        return self._shared.state

    @property
    def players(self) -> Mapping[str, Any]:
        """What is shared of each player's data, by the player's id; of the type given as `data=`, else plain data."""
        return self._shared.players

    @property
    def mine(self) -> Any:
        """This player's own data, with what only they may see; None before it has come, and for spectators."""
        return self._shared.mine

    @overload
    def on_change(self, path: str, listener: Callable[..., object], /) -> Callable[[], None]: ...
    @overload
    def on_change(self, listener: Callable[[list[list[str | int]]], object], /) -> Callable[[], None]: ...
    def on_change(
        self, path: str | Callable[..., object], listener: Callable[..., object] | None = None, /
    ) -> Callable[[], None]:
        """Call a plain function when what is shared has changed; the result ends that. What it raises is logged.

        With a path such as "state.pile" or "players.*", it is called with the value (None: gone) and the key for each
        `*`. Without one, with the list of all paths, once for each change.
        """
        if isinstance(path, str):
            return self._shared.on_change(path, listener)
        return self._shared.on_change("", path)

    # To the room

    async def send(self, message: Message) -> int:
        """Send reliably: exactly once, in order, across drops. Waits while too many are unacknowledged.

        The result is the message's number. With `saved=` both are stored by then, and before the first byte leaves; if
        that fails (`OSError`), or the caller is cancelled, nothing was sent.
        """
        protocol = self._exchange.protocol
        body = protocol.body(message)
        await self._exchange.until(lambda: self.left is not None or not protocol.is_full(self.channel))
        self._check_seat()
        self._exchange.check()
        return self._exchange.push(self.channel, message.wire_name, body)

    async def ask(self, message: Message, *, timeout_s: float | None = None) -> Any:
        """Send a message and wait for the answer: the message that its handler returns, None if it returns nothing.

        The message is sent reliably, and answered exactly once. A refusal is raised as what it is; `NotSeated` if the
        seat goes before the answer comes, `Reset` if the answer is lost. `TimeoutError` after `timeout_s` seconds
        (`Limits.ask_s` without it, `math.inf` for no limit): the message is not taken back, and its answer is dropped.
        """
        protocol = self._exchange.protocol
        body = protocol.ask(message)
        if timeout_s is None:
            timeout_s = protocol.limits.ask_s
        limit = asyncio.timeout(None if isinf(timeout_s) else timeout_s)
        try:
            async with limit:
                await self._exchange.until(lambda: self.left is not None or not protocol.is_full(self.channel))
                self._check_seat()
                self._exchange.check()
                self._asks.check()
                return await self._asks.answer_to(self._exchange.push(self.channel, ASK, body))
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"no answer to {message.wire_name!r} within {timeout_s:g} s") from None

    def send_latest(self, message: Message, key: str = "") -> None:
        """Send unreliably: now or never; a newer one with the same type and key takes its place."""
        body = self._exchange.protocol.body(message)
        self._check_seat()
        self._exchange.check()
        self._exchange.protocol.push_latest(self.channel, message.wire_name, body, key)
        self._exchange.wake()

    async def flush(self) -> None:
        """Wait until the server has applied everything that was sent; `NotSeated` if the seat goes first."""
        protocol = self._exchange.protocol
        await self._exchange.until(lambda: self.left is not None or not protocol.unacked(self.channel))
        self._check_seat()

    async def leave(self) -> None:
        """Give the seat back, or watch no more. What was sent before arrives first; what was not read is dropped."""
        # The wire's request names no room: a seat that was taken later must not be left by mistake.
        if self.left is None and self._exchange.protocol.channels.is_newest(self.channel):
            try:
                await self._exchange.ask(Unspectate() if self.is_spectator else Leave(), object)
            except NotSeated:
                pass
            except (Refused, Reset):
                if self.left is None:
                    raise
        self._inbox.discard(SeatLeft(Reason.LEFT))
        self._asks.end(_gone(SeatLeft(Reason.LEFT)))
        self._exchange.changed()

    async def update(self, **changes: Unpack[Changes]) -> RoomInfo:
        """Change the room's entry in the directory: its host may, and its creator."""
        return await self._exchange.ask(update_of(self.id, changes), RoomInfo)

    # From the room

    @overload
    async def receive(self) -> Message: ...
    @overload
    async def receive(self, message_type: type[M]) -> M: ...
    async def receive(self, message_type: type[Message] = Message) -> Message:
        """The next message, or the next of one type; `NotSeated` when the seat is gone, `SessionEnded` when the session
        is.

        Messages of other types stay where they are, for the next `receive`, iteration or `poll`. Until they are read,
        they count as unread, and so does everything after them: they fill the window.
        """
        self._types.check(message_type)
        while (message := self._inbox.next(message_type)) is None:
            self._check_seat()
            await self._exchange.until(lambda: self._inbox.is_ready(message_type))
        return message

    def poll(self) -> list[Message]:
        """The messages that are there now, without waiting; raises like `receive` when there can be no more."""
        messages = self._inbox.take()
        if not messages:
            self._check_seat()
            self._exchange.check()
        return messages

    def acknowledge(self) -> None:
        """Count what was read as processed now, not when more is asked for: it will not come again after a restart."""
        self._inbox.acknowledge()

    def __aiter__(self) -> "ClientRoom":
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except NotSeated:
            raise StopAsyncIteration from None

    # For a reader in another thread

    def _take_turn(self, *, is_first: bool) -> tuple[list[Message], bool]:
        """As `poll`, up to the next change of the state; and whether there are more."""
        messages, is_more = self._inbox.take_turn()
        if is_first and not messages:
            self._check_seat()
            self._exchange.check()
        return messages, is_more

    def _wait_for_reader(self) -> None:
        """Apply changes only when something is read, and leave their listeners to the reader."""
        self._inbox.holds_changes = True
        self._shared.wait_for_reader()

    def _check_seat(self) -> None:
        if self.left is not None:
            raise _gone(self.left, self.is_spectator)

    def __repr__(self) -> str:
        player = self._exchange.protocol.player_id
        return f"<ClientRoom {self.id} {self.kind} of {player}{' left' if self.left else ''}>"


def _gone(left: SeatLeft, is_spectator: bool = False) -> NotSeated:
    return NotSeated(f"the {'place' if is_spectator else 'seat'} is gone: {left.message or left.reason}")


class _Seated(NamedTuple):
    room: ClientRoom
    inbox: RoomInbox
    asks: Asks
    shared: SharedState


class SessionSeats:
    """The seats of a session and the rooms it watched, by channel, oldest first. Only the newest seat and the newest
    place of a spectator are taken, but the others can still be read."""

    def __init__(
        self, exchange: Exchange, messages: Iterable[type[Message]], shared: SharedTypes, *, latest_max: int
    ) -> None:
        self._exchange = exchange
        self._shared = shared
        self._latest_max = latest_max
        self.types = MessageTypes(exchange.protocol.codec, messages)
        self._seats: dict[int, _Seated] = {}
        for event in exchange.protocol.channels.seats():
            self.happened(event)

    def room(self, *, is_spectator: bool = False) -> ClientRoom | None:
        """The room we have a seat in, or the one that we watch."""
        # A copy: the blocking client asks from threads of the program.
        rooms = (seat.room for seat in reversed(list(self._seats.values())))
        return next((room for room in rooms if room.left is None and room.is_spectator == is_spectator), None)

    def room_of(self, info: RoomInfo, *, is_spectator: bool = False, shared: SharedTypes | None = None) -> ClientRoom:
        """The room in which a seat was just taken, or that we have just begun to watch; with the types of its state."""
        for room, _, _, state in reversed(self._seats.values()):
            if room.id == info.id and room.is_spectator == is_spectator:
                state.use(shared or {})
                if room.info is None:
                    # Else the room itself has told of a later one.
                    room.info, room.host = info, info.host
                return room
        raise NotSeated("the seat was gone before we heard of it; join again")

    def acknowledge(self) -> None:
        """What was read has been dealt with."""
        for seat in self._seats.values():
            seat.inbox.acknowledge()

    def welcomed(self) -> None:
        """There is a connection: get back what is not saved."""
        for seat in self._seats.values():
            seat.shared.ask_if_lost()

    def ended(self, error: SessionEnded) -> None:
        """The session is over: there will be no answers."""
        for seat in self._seats.values():
            seat.asks.end(error)

    def happened(self, event: SeatEvent) -> None:
        """Something came on a channel, or became of it."""
        if isinstance(event, ChannelOpened):
            if event.purpose in {"seat", "spectator"}:
                self._opened(event)
            return
        if event.channel not in self._seats:
            if isinstance(event, Arrived):
                # The seat was gone before we heard of it, so this will never be read.
                self._exchange.processed(event)
            return
        seat = self._seats[event.channel]
        match event:
            case Arrived():
                self._arrived(seat, event)
            case Latest():
                seat.inbox.put_latest(self.types.message(event.type, event.body))
            case Restarted():
                seat.inbox.restart(self._exchange.protocol.restart_of(event))
                seat.shared.restarted()
                seat.asks.lost(event.applied, event.accepted, event.reason or "resynced")
            case ChannelGone():
                del self._seats[event.channel]
                left = SeatLeft(event.reason)
                seat.inbox.end(left)
                seat.asks.end(Reset(event.reason) if event.is_reset else _gone(left))

    def _opened(self, event: ChannelOpened) -> None:
        channels = self._exchange.protocol.channels
        self._seats = {number: each for number, each in self._seats.items() if channels.get(number) is not None}
        # A spectator who gets a seat reads the same state.
        same = [each.shared.types for each in self._seats.values() if each.room.id == event.room]
        shared = SharedState(self._exchange, event, same[-1] if same else self._shared)
        received = channels.seat(event.channel).applied
        inbox = RoomInbox(
            self._exchange.processed, latest_max=self._latest_max, received=received, apply=shared.receive
        )
        asks = Asks(self._exchange.protocol.limits.asks_max)
        room = ClientRoom(self._exchange, event, self.types, inbox, asks, shared)
        self._seats[event.channel] = _Seated(room, inbox, asks, shared)

    def _arrived(self, seat: _Seated, arrived: Arrived) -> None:
        room, inbox, asks, shared = seat
        if arrived.name == STATE:
            inbox.put_change(arrived, self.types.change(arrived.body))
            shared.waits(inbox.waiting_changes)
            return
        if arrived.name == MessageAnswered.wire_name:
            number, answer = self.types.answer(arrived.body)
            if asks.answered(number, answer) or answer is None:
                inbox.pass_over(arrived)
                return
            # What an earlier process has asked: to this one it is a message like any other.
            message = answer
        else:
            message = self.types.message(arrived.name, arrived.body)
        if isinstance(message, MessageRefused) and asks.refused(message):
            inbox.pass_over(arrived)
            return
        if isinstance(message, RoomUpdated):
            room.info, room.host = message.room, message.room.host
        elif isinstance(message, HostChanged):
            room.host = message.player
            if room.info is not None:
                # The listing, with the name, follows.
                name = room.info.host_name if room.info.host == message.player else ""
                room.info = structs.replace(room.info, host=message.player, host_name=name)
        inbox.put(arrived, message)
        if isinstance(message, SeatLeft):
            asks.end(_gone(message))
            if message.reason == Reason.JOIN_FAILED:
                # `join` raises, so the application never sees this room.
                inbox.discard(message)
