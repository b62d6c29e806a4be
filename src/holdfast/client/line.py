"""A place in the line for a seat of a room that is full."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.client.exchange import Exchange, read
from holdfast.client.subscriptions import News, Subscription
from holdfast.core.errors import AlreadySeated, Refused
from holdfast.schemas.player import WaitInfo
from holdfast.schemas.requests import StopWaiting, Wait

# How often to ask how far the line has moved, and whether the room is still there: only an offer is told unasked.
QUESTION_S = 5.0


class Line(Subscription):
    """Our place in a line, for the length of a block."""

    topic = "offer"

    def __init__(self, exchange: Exchange, news: News, request: Wait) -> None:
        super().__init__(request.room, request, StopWaiting(request.room))
        self._exchange = exchange
        self._news = news
        self._info: WaitInfo | None = None

    async def offered(self, on_position: Callable[[int], None] | None) -> None:
        """Wait until a seat is kept for us; tell the position whenever it is another."""
        position = None
        while (info := self._info) is None or info.position > 0:
            if info is not None and info.position != position:
                position = info.position
                if on_position is not None:
                    on_position(position)
            await self._next(info)

    async def _next(self, known: WaitInfo | None) -> None:
        try:
            async with asyncio.timeout(QUESTION_S):
                await self._exchange.until(lambda: self._info is not known or self.refusal is not None)
        except TimeoutError:
            if not self.is_asked:
                self._news.ask(self)
        if self.refusal is not None:
            raise self.refusal

    def stand_again(self) -> None:
        """The seat that was kept for us is not any more: back to the line."""
        self._info = None
        self._news.ask(self)

    def leave_seated(self) -> None:
        """We have the seat, and nothing is to be given up."""
        self.farewell = None

    def told(self, content: Any) -> None:
        """Where we stand, or that a seat is kept for us."""
        self._info = read(content, WaitInfo, "place in a line")

    def refused(self, refusal: Refused) -> None:
        """Who has a seat in the room already needs no other."""
        if isinstance(refusal, AlreadySeated):
            self._info = WaitInfo(self.key, 0)
            self.is_told = True
        else:
            super().refused(refusal)

    async def __aenter__(self) -> "Line":
        await self._news.begin(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._news.end(self)
