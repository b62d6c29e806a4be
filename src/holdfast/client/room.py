"""A client's seat in a room: messages to it and from it."""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

from msgspec import structs

from holdfast.client.events import SeatTaken
from holdfast.client.exchange import Exchange
from holdfast.client.inbox import Inbox
from holdfast.client.outbox import Outbox, Unconfirmed
from holdfast.core.errors import NotSeated, Refused
from holdfast.core.messages import Message, SeatLeft
from holdfast.core.reasons import Reason
from holdfast.schemas.requests import Leave, Update
from holdfast.schemas.room import JoinPolicy, RoomInfo, Visibility


class Changes(TypedDict, total=False):
    """What can be changed of a room's entry; what is not named, or None, stays as it is."""

    name: str | None
    set: Mapping[str, Any] | None
    """Properties to set."""
    remove: str | Iterable[str]
    """Properties to remove, by name."""
    max_players: int | None
    """Fewer than there are throws nobody out."""
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


class Entry:
    """A room's entry in the directory, as far as its members were told."""

    def __init__(self) -> None:
        self.info: RoomInfo | None = None
        self.host = ""

    def shown(self, info: RoomInfo) -> None:
        """It is this now."""
        self.info = info
        self.host = info.host

    def hosted(self, player_id: str) -> None:
        """Another player is the host."""
        self.host = player_id
        if self.info is not None:
            self.info = structs.replace(self.info, host=player_id)


class ClientRoom:
    """One seat. Iterate over it for the room's messages; it ends when the seat is gone, and `left` says why.

    A message counts as processed, and is acknowledged, when the next one is asked for. One task should read.
    """

    def __init__(self, exchange: Exchange, inbox: Inbox, entry: Entry, taken: SeatTaken, outbox: Outbox) -> None:
        self.id = taken.room
        self.kind = taken.kind
        self.channel = taken.channel
        self._exchange = exchange
        self._inbox = inbox
        self._entry = entry
        self._outbox = outbox

    @property
    def left(self) -> SeatLeft | None:
        """Why the seat is gone; None while it is ours. What came before it can still be read."""
        return self._inbox.left

    @property
    def info(self) -> RoomInfo | None:
        """The room's entry in the directory when it was last told; None after `saved=`, until it changes."""
        return self._entry.info

    @property
    def host(self) -> str:
        """The id of the player who is the host; empty if there is none, or nobody has told us yet."""
        return self._entry.host

    # What became of what was sent and received: the same after a restart with `saved=`

    @property
    def sent(self) -> int:
        """The number of the last message that was sent; the first of a seat is 1."""
        return self._outbox.sent

    @property
    def accepted(self) -> int:
        """The number of the last message that the server has applied, as far as it told us: with all before it."""
        return self._outbox.accepted

    @property
    def unconfirmed(self) -> list[Unconfirmed]:
        """The messages that were sent and not accepted yet, with their numbers. They are on their way by themselves."""
        return self._outbox.unconfirmed()

    @property
    def received(self) -> int:
        """The number of the last reliable message that was read; begins anew with a `Resynced`."""
        return self._inbox.received

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
        """Give the seat back. What was sent before arrives first; what was not read is dropped."""
        # The wire's request names no room: a seat that was taken later must not be left by mistake.
        if self.left is None and self._exchange.protocol.channels.is_newest(self.channel):
            try:
                await self._exchange.ask(Leave(), object)
            except NotSeated:
                pass
            except Refused:
                if self.left is None:
                    raise
        self._inbox.discard(SeatLeft(Reason.LEFT))
        self._exchange.changed()

    async def update(self, **changes: Unpack[Changes]) -> RoomInfo:
        """Change the room's entry in the directory: its host may, and its creator."""
        return await self._exchange.ask(update_of(self.id, changes), RoomInfo)

    # From the room

    async def receive(self) -> Message:
        """The next message; `NotSeated` when the seat is gone, `SessionEnded` when the session is."""
        while (message := self._inbox.next()) is None:
            self._check_seat()
            await self._exchange.until(lambda: self._inbox.is_ready)
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

    def _check_seat(self) -> None:
        if self.left is not None:
            raise NotSeated(f"the seat is gone: {self.left.message or self.left.reason}")

    def __repr__(self) -> str:
        player = self._exchange.protocol.player_id
        return f"<ClientRoom {self.id} {self.kind} of {player}{' left' if self.left else ''}>"
