"""Notices to a player whose session may be on another node: offers of seats, placements.

What is told within a moment goes to each node in one question; a node that does not answer is asked again for a while.
"""

import asyncio
from collections import deque

import msgspec

from holdfast.core.errors import Refused
from holdfast.core.limits import Limits
from holdfast.core.session import PlayerId
from holdfast.logs import get_logger
from holdfast.schemas.frames import Notice
from holdfast.schemas.shared import PlayerNotice, PlayerNotices
from holdfast.server.cluster.asking import Asking, Gone
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.sessions import Notices

log = get_logger("holdfast.cluster")

_NOTICES = "player_notices"
_AT_ONCE = 200

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode


class SharedNotices:
    """Tells the other nodes what their sessions should hear, and hears it from them."""

    def __init__(self, node: ClusterNode, asking: Asking, limits: Limits, notices: Notices) -> None:
        self._node = node
        self._asking = asking
        self._limits = limits
        self._notices = notices
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[PlayerNotice] = deque()
        self._telling: asyncio.Task[None] | None = None
        self._repeating: set[asyncio.Task[None]] = set()
        notices.elsewhere = self._tell
        asking.answer(_NOTICES, PlayerNotices, self._told)

    def stop(self) -> None:
        for task in (*self._repeating, *([self._telling] if self._telling is not None else ())):
            task.cancel()

    def _tell(self, player_id: PlayerId, notice: Notice) -> None:
        if len(self._waiting) >= self._limits.news_waiting_max:
            self._waiting.popleft()
            log.warning("a notice to a player is lost: too many wait for other nodes")
        self._waiting.append(PlayerNotice(player_id, notice.topic, notice.key, _encode(notice.body)))
        if self._telling is None:
            self._telling = self._loop.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        try:
            while self._waiting:
                told = PlayerNotices([self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))])
                replies = await self._node.questions.ask_all(_NOTICES, told, bool)
                for life in replies.missing:
                    task = self._loop.create_task(self._tell_again(life, told))
                    self._repeating.add(task)
                    task.add_done_callback(self._repeating.discard)
        finally:
            self._telling = None

    async def _tell_again(self, life: str, told: PlayerNotices) -> None:
        try:
            await self._asking.ask(life, _NOTICES, told, bool, within_s=self._limits.handover_s)
        except (Gone, Refused):
            # Its clients drop, and ask again when they return.
            return

    def _told(self, told: PlayerNotices) -> bool:
        for each in told.notices:
            self._notices.send_here(PlayerId(each.player), Notice(each.topic, each.key, _decode(each.body)))
        return True
