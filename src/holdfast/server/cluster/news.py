"""What a node tells all others at once, with a number: whoever has missed something hears that, and reads the store.

Nothing here is the truth: what must not be lost is in the store, and news only make others look, or act sooner.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.cluster.membership import MemberChange, MemberState, dead
from holdfast.core.limits import Limits
from holdfast.logs import get_logger
from holdfast.schemas.shared import NewsItem, NewsTold
from holdfast.server.cluster.node import ClusterNode

log = get_logger("holdfast.cluster")

NEWS = "news"
"""The topic; the life of the node follows."""

_MESSAGE_BYTES_MAX = 32 * 1024

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(NewsTold)


class News:
    """This node's news, and those of the others."""

    def __init__(self, node: ClusterNode, limits: Limits) -> None:
        self._node = node
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self.number = 0
        """Of what was told last."""
        self.on_missed: list[Callable[[], None]] = []
        """Some news of another node may have been missed: read the store."""
        self.on_gone: list[Callable[[], None]] = []
        """Another node is gone, and with it what it had."""
        self._handlers: dict[str, tuple[msgspec.msgpack.Decoder[Any], Callable[[Any], None]]] = {}
        self._waiting: deque[NewsItem] = deque()
        self._telling: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        # What was heard of each life last, and those whose last beat was ahead of it: it may overtake the news.
        self._heard: dict[str, int] = {}
        self._ahead: set[str] = set()
        node.watch.on_change.append(self._member_changed)

    async def start(self) -> None:
        """Hear the others. The bus is open already."""
        await self._node.bus.listen(f"{NEWS}.*", self._told)
        self._node.bus.on_reconnect(self._missed)
        self._looking = self._loop.create_task(self._look())
        # What was told between the reading of the store and now.
        self._missed()

    def stop(self) -> None:
        for task in (self._telling, self._looking):
            if task is not None:
                task.cancel()

    # Telling

    def tell(self, name: str, body: Any) -> None:
        """Tell all other nodes, soon and in this order; one without a link hears only that it has missed something."""
        if len(self._waiting) >= self._limits.news_waiting_max:
            # A number without its news: the others notice.
            self._waiting.popleft()
            self.number += 1
        self._waiting.append(NewsItem(name, _encode(body)))
        if self._telling is None:
            self._telling = self._loop.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        try:
            while self._waiting:
                items: list[NewsItem] = []
                size = 0
                while self._waiting and size < _MESSAGE_BYTES_MAX:
                    item = self._waiting.popleft()
                    items.append(item)
                    size += len(item.body)
                self.number += 1
                told = NewsTold(self._node.life, self.number, items)
                await self._node.bus.tell(f"{NEWS}.{self._node.life}", _encode(told))
        finally:
            self._telling = None

    # Hearing

    def hear(self, name: str, kind: type[Any], heard: Callable[[Any], None]) -> None:
        """Call this with the news of this name of other nodes, whose bodies are of this type."""
        self._handlers[name] = (msgspec.msgpack.Decoder(kind), heard)

    def _told(self, _: str, payload: bytes) -> None:
        try:
            told = _decode.decode(payload)
            if told.life == self._node.life:
                return
            known = self._heard.get(told.life, told.number - 1)
            self._heard[told.life] = max(known, told.number)
            for item in told.items:
                if (handler := self._handlers.get(item.name)) is not None:
                    decoder, heard = handler
                    heard(decoder.decode(item.body))
        except msgspec.MsgspecError as error:
            log.warning("the news of another node cannot be read", error=str(error))
            self._missed()
            return
        if told.number > known + 1:
            self._missed()

    def _missed(self) -> None:
        for heard in self.on_missed:
            heard()

    async def _look(self) -> None:
        """Look whether the others have told more than was heard."""
        while True:
            await asyncio.sleep(self._limits.beat_s)
            for life, member in list(self._node.watch.membership.members.items()):
                if member.state is not MemberState.ALIVE:
                    continue
                known = self._heard.setdefault(life, member.beat.news)
                if member.beat.news <= known:
                    self._ahead.discard(life)
                elif life in self._ahead:
                    self._ahead.discard(life)
                    self._heard[life] = member.beat.news
                    self._missed()
                else:
                    self._ahead.add(life)

    def _member_changed(self, change: MemberChange) -> None:
        if dead([change]):
            self._heard.pop(change.life, None)
            self._ahead.discard(change.life)
            # It may have saved something that it could not tell any more.
            self._missed()
            for heard in self.on_gone:
                heard()
