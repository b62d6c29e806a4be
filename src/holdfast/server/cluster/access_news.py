"""Bans, sign-outs and roles hold on all nodes: the store has them, and news of them come at once.

What may have been missed is read in the store again; news that come while it is read are done after it.
"""

import asyncio
from collections import deque
from contextlib import suppress

from holdfast.core.limits import Limits
from holdfast.schemas.shared import AccessChanged
from holdfast.server.admission.access import Access
from holdfast.server.cluster.news import News
from holdfast.server.context import Faults
from holdfast.stores.port import StoreError

_ACCESS = "access"


class AccessNews:
    """Does here what other nodes have done, in their order."""

    def __init__(self, news: News, access: Access, limits: Limits, faults: Faults) -> None:
        self._access = access
        self._limits = limits
        self._faults = faults
        self._loop = asyncio.get_running_loop()
        self._heard: deque[AccessChanged] = deque()
        self._must_read = False
        self._doing: asyncio.Task[None] | None = None
        self._is_stopped = False
        access.records.tell = lambda changed: news.tell(_ACCESS, changed)
        news.hear(_ACCESS, AccessChanged, self._changed)
        news.on_missed.append(self._missed)

    def stop(self) -> None:
        self._is_stopped = True
        if self._doing is not None:
            self._doing.cancel()

    def _changed(self, changed: AccessChanged) -> None:
        if len(self._heard) >= self._limits.news_waiting_max:
            self._heard.clear()
            self._must_read = True
        self._heard.append(changed)
        self._begin()

    def _missed(self) -> None:
        self._must_read = True
        self._begin()

    def _begin(self) -> None:
        if self._doing is None and not self._is_stopped:
            self._doing = self._loop.create_task(self._do_all())

    async def _do_all(self) -> None:
        try:
            while self._heard or self._must_read:
                while self._heard:
                    await self._access.heard(self._heard.popleft())
                if self._must_read:
                    self._must_read = False
                    with suppress(StoreError):
                        await self._access.read_again()
                        continue
                    self._must_read = True
                    await asyncio.sleep(self._limits.store_retry_s)
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted; the next news begin again
            self._faults.report("a ban, a sign-out or a role of another node", error)
        finally:
            self._doing = None
