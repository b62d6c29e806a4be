"""Subscriptions: what the server tells without being asked each time, of watched rooms, waitlists and placements.

Notices are not repeated after a drop. So each subscription has a request, which is sent again after every resume and
every reset; its answer replaces what was missed.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

from msgspec import Struct

from holdfast.client.exchange import Exchange, read
from holdfast.core.errors import AlreadySeated, Expired, HoldfastError, Refused
from holdfast.logs import get_logger
from holdfast.schemas.frames import Notice
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.player import WaitInfo
from holdfast.schemas.requests import GetPlacement, StopPlacement, StopWaiting, Unwatch, Wait, Watch
from holdfast.schemas.room import RoomInfo, RoomPage, RoomsChanged

log = get_logger("holdfast.client")

# How often to ask for our position, and whether the room is still there: only an offer comes unasked.
POSITION_S = 5.0
PENDING = "pending"


class Subscription(ABC):
    """Something on the server that the client is told about."""

    topic: ClassVar[str]

    def __init__(self, key: str, request: Struct, unsubscribe: Struct | None = None) -> None:
        self.key = key
        self.request = request
        """The question: how is it now?"""
        self.unsubscribe = unsubscribe
        """The request that ends the subscription, if there is one."""
        self.is_asked = False
        self.is_told = False
        self.refusal: Refused | None = None
        """Why nothing more will be known of it."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be known of it."""
        return self.refusal is not None

    @abstractmethod
    def told(self, content: Any) -> None:
        """How it is now: the answer to the question."""

    def noticed(self, content: Any) -> None:
        """What has become of it, as a notice says; most of them say the same as the answer would."""
        self.told(content)

    def refused(self, refusal: Refused) -> None:
        """The question was refused, which ends the subscription unless a subclass knows better."""
        self.refusal = refusal


class Subscriptions:
    """The subscriptions of a session."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._subscriptions: list[Subscription] = []

    async def begin(self, subscription: Subscription) -> None:
        """Subscribe, and wait for the first answer; a refusal is raised."""
        await self._exchange.until(lambda: self._exchange.protocol.may_request)
        self._exchange.check()
        self.add(subscription)
        try:
            self.ask(subscription)
            await self._exchange.until(lambda: subscription.is_told or subscription.is_over)
            if subscription.refusal is not None:
                raise subscription.refusal
        except BaseException:
            self.end(subscription)
            raise

    def add(self, subscription: Subscription) -> None:
        """Subscribe to something whose state is known already."""
        if not subscription.is_over:
            self._subscriptions.append(subscription)

    def ask(self, subscription: Subscription) -> None:
        """Ask how it is now; the answer comes in its own time."""

        def answered(result: Any, error: HoldfastError | None) -> None:
            subscription.is_asked = False
            if subscription not in self._subscriptions:
                return
            if error is None:
                subscription.told(result)
                subscription.is_told = True
            elif isinstance(error, Refused):
                # After a reset the welcome follows at once, and with it the same question.
                subscription.refused(error)
            self._drop_what_is_over()

        subscription.is_asked = True
        self._exchange.post(subscription.request, subscription, answered)

    def end(self, subscription: Subscription) -> None:
        """Unsubscribe, and tell the server unless another subscription needs the same."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            if subscription.unsubscribe is not None and not self._matching(subscription.topic, subscription.key):
                self._exchange.post(subscription.unsubscribe, subscription)

    # From the session

    def welcomed(self) -> None:
        """The session is back: what would have been noticed in the meantime is lost."""
        self._drop_what_is_over()
        for subscription in self._subscriptions:
            self.ask(subscription)

    def noticed(self, event: Notice) -> None:
        """A notice came; it is ignored if there is no subscription for it any more."""
        for subscription in self._matching(event.topic, event.key):
            subscription.noticed(event.body)
        self._drop_what_is_over()

    def _matching(self, topic: str, key: str) -> list[Subscription]:
        return [each for each in self._subscriptions if (each.topic, each.key) == (topic, key)]

    def _drop_what_is_over(self) -> None:
        self._subscriptions = [each for each in self._subscriptions if not each.is_over]


# A place in a waitlist


class WaitlistPlace(Subscription):
    """A place in the waitlist of a full room, for the length of a block."""

    topic = "offer"

    def __init__(self, exchange: Exchange, subscriptions: Subscriptions, request: Wait) -> None:
        super().__init__(request.room, request, StopWaiting(request.room))
        self._exchange = exchange
        self._subscriptions = subscriptions
        self._info: WaitInfo | None = None

    async def offered(self, on_position: Callable[[int], None] | None) -> None:
        """Wait until a seat is kept for us; tell the position whenever it is another."""
        position = None
        while (info := self._info) is None or info.position > 0:
            if info is not None and info.position != position:
                position = info.position
                if on_position is not None:
                    on_position(position)
            try:
                async with asyncio.timeout(POSITION_S):
                    await self._exchange.until(partial(self._is_news, info))
            except TimeoutError:
                if not self.is_asked:
                    self._subscriptions.ask(self)
            if self.refusal is not None:
                raise self.refusal

    def _is_news(self, known: WaitInfo | None) -> bool:
        return self._info is not known or self.is_over

    def wait_again(self) -> None:
        """The seat that was kept for us is gone: return to the waitlist."""
        self._info = None
        self._subscriptions.ask(self)

    def told(self, content: Any) -> None:
        self._info = read(content, WaitInfo, "place in a waitlist")

    def refused(self, refusal: Refused) -> None:
        """A player who is seated in the room already needs no other seat."""
        if isinstance(refusal, AlreadySeated):
            self._info = WaitInfo(self.key, 0)
            self.is_told = True
        else:
            super().refused(refusal)

    async def __aenter__(self) -> "WaitlistPlace":
        await self._subscriptions.begin(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._subscriptions.end(self)


# A placement


class PlacementProgress(Subscription):
    """How far a placement is."""

    topic = "placement"

    def __init__(self, info: PlacementInfo) -> None:
        super().__init__(info.id, GetPlacement(info.id))
        self.info = info

    @property
    def is_over(self) -> bool:
        return self.info.status != PENDING or super().is_over

    def told(self, content: Any) -> None:
        self.moved(read(content, PlacementInfo, "state of a placement"))

    def moved(self, info: PlacementInfo) -> None:
        if self.info.status == PENDING:
            self.info = info


class Placement:
    """One placement; made by `ClientSession.place`."""

    def __init__(self, exchange: Exchange, subscriptions: Subscriptions, info: PlacementInfo) -> None:
        self.id = info.id
        self._exchange = exchange
        self._progress = PlacementProgress(info)
        subscriptions.add(self._progress)

    @property
    def info(self) -> PlacementInfo:
        """Its state, as last told by the server."""
        return self._progress.info

    async def done(self) -> PlacementInfo:
        """Wait until it is fulfilled, cancelled, timed out or failed: `status` says which, and `reason` why."""
        progress = self._progress
        await self._exchange.until(lambda: progress.is_over)
        if progress.refusal is not None:
            raise progress.refusal
        return progress.info

    async def stop(self) -> PlacementInfo:
        """Give it up, if it is still pending."""
        await self._exchange.ask_then(StopPlacement(self.id), PlacementInfo, self._progress.moved)
        return self.info

    def __repr__(self) -> str:
        return f"<Placement {self.id} {self.info.status}>"


# A watch


class WatchedRooms(Subscription):
    """The rooms as they are, and as the reader knows them.

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
        page = read(content, RoomPage, "answer to 'watch'")
        if page.hint:
            log.warning("a watch found nothing", hint=page.hint)
        # The same object: a reader may hold a view of it.
        self.rooms.clear()
        self.rooms.update((info.id, info) for info in page.rooms)
        self.is_touched = True

    def noticed(self, content: Any) -> None:
        changes = read(content, RoomsChanged, "notice of rooms")
        self.rooms.update((info.id, info) for info in changes.changed)
        for room_id in changes.removed:
            self.rooms.pop(room_id, None)
        self.is_touched = True


class RoomWatch:
    """A search that goes on: `async with session.watch("arena") as watch:`, or `watch = await session.watch("arena")`.

    Iterate over it: all rooms that were found come first, then what changes. A slow reader, or one that was away,
    gets all changes since as one. One task should read.
    """

    def __init__(self, exchange: Exchange, subscriptions: Subscriptions, request: Watch) -> None:
        self.is_closed = False
        """Whether it was closed by this program."""
        self._exchange = exchange
        self._subscriptions = subscriptions
        self._watched = WatchedRooms(request)

    @property
    def rooms(self) -> Mapping[str, RoomInfo]:
        """The rooms by id, as they are now."""
        return MappingProxyType(self._watched.rooms)

    async def receive(self) -> RoomsChanged:
        """What has changed, as soon as something has; `Expired` when the watch is closed."""
        watched = self._watched
        while (changes := watched.take()) is None:
            self._check()
            await self._exchange.until(lambda: watched.is_touched or self.is_closed or watched.is_over)
        return changes

    def poll(self) -> RoomsChanged | None:
        """What has changed, if something has; raises like `receive` when there can be no more."""
        changes = self._watched.take()
        if changes is None:
            self._check()
            self._exchange.check()
        return changes

    async def close(self) -> None:
        """End the search. `rooms` stays as it was."""
        self.is_closed = True
        self._subscriptions.end(self._watched)
        self._exchange.changed()

    def _check(self) -> None:
        if self._watched.refusal is not None:
            raise self._watched.refusal
        if self.is_closed:
            raise Expired("this watch is closed")
        if not self._watched.is_told:
            raise RuntimeError('open the watch first: `async with session.watch("arena") as watch:`')

    async def __aenter__(self) -> "RoomWatch":
        if not self._watched.is_told:
            await self._subscriptions.begin(self._watched)
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
        return f"<RoomWatch {self._watched.key}: {len(self.rooms)} rooms{' closed' if self.is_closed else ''}>"
