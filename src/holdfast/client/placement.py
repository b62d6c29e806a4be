"""A placement: a room that is being made on the best node of a queue."""

from typing import Any

from holdfast.client.exchange import Exchange, read
from holdfast.client.subscriptions import News, Subscription
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.requests import GetPlacement, StopPlacement

PENDING = "pending"


class Progress(Subscription):
    """How far a placement is. Pure: who waits, waits elsewhere."""

    topic = "placement"

    def __init__(self, info: PlacementInfo) -> None:
        super().__init__(info.id, GetPlacement(info.id))
        self.info = info

    @property
    def is_over(self) -> bool:
        """Whether it will stay as it is."""
        return self.info.status != PENDING

    def told(self, content: Any) -> None:
        """How far it is now."""
        info = read(content, PlacementInfo, "state of a placement")
        if not self.is_over:
            self.info = info


class Placement:
    """One placement; made by `ClientSession.place`."""

    def __init__(self, exchange: Exchange, news: News, info: PlacementInfo) -> None:
        self.id = info.id
        self._exchange = exchange
        self._progress = Progress(info)
        news.add(self._progress)

    @property
    def info(self) -> PlacementInfo:
        """How far it is, as far as we have heard."""
        return self._progress.info

    async def done(self) -> PlacementInfo:
        """Wait until it is fulfilled, cancelled, timed out or failed: `status` says which, and `reason` why."""
        progress = self._progress
        await self._exchange.until(lambda: progress.is_over or progress.refusal is not None)
        if progress.refusal is not None:
            raise progress.refusal
        return progress.info

    async def stop(self) -> PlacementInfo:
        """Give it up, if it is still pending."""
        await self._exchange.request(StopPlacement(self.id), self._progress.told)
        return self.info

    def __repr__(self) -> str:
        return f"<Placement {self.id} {self.info.status}>"
