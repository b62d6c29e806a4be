"""Questions that must not be answered by two nodes: whoever was asked is asked again, until it answers or is dead."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, TypeVar

from holdfast.cluster.port import BusError, NobodyThere
from holdfast.core.addresses import AddressShares, share_of
from holdfast.core.errors import Throttled
from holdfast.core.limits import Limits
from holdfast.server.cluster.node import ClusterNode

T = TypeVar("T")


class Gone(Exception):
    """The node that was asked is dead: whatever it has begun is over, or is known to others."""


class Asking:
    """This node's questions to others, and to itself."""

    def __init__(self, node: ClusterNode, limits: Limits) -> None:
        self._node = node
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._handlers: dict[str, Callable[[Any], Any]] = {}

    @property
    def life(self) -> str:
        """Of this node."""
        return self._node.life

    def answer(self, name: str, kind: type[Any], handler: Callable[[Any], Any | Awaitable[Any]]) -> None:
        """Answer questions of this name, also this node's own."""
        self._handlers[name] = handler
        self._node.questions.answer(name, kind, handler)

    async def ask(self, life: str, name: str, body: Any, kind: type[T], *, within_s: float) -> T:
        """What the node answers. `Gone` if it is dead, `Throttled` if it lives and does not answer in this time.

        It may hear the question several times: a question that changes something has an id.
        """
        if life == self._node.life:
            answer = self._handlers[name](body)
            return await answer if isawaitable(answer) else answer  # type: ignore[no-any-return]  # as it was promised
        deadline = self._loop.time() + within_s
        while True:
            left_s = deadline - self._loop.time()
            try:
                return await self._node.questions.ask(
                    life, name, body, kind, within_s=min(self._limits.answer_s, max(left_s, self._limits.probe_s))
                )
            except NobodyThere as error:
                if not self._node.may_live(life):
                    raise Gone(life) from error
            except BusError as error:
                if not self._node.may_live(life):
                    raise Gone(life) from error
            if self._loop.time() >= deadline:
                raise Throttled(f"the node {self._node.name_of(life)} does not answer; try again in a moment")
            await asyncio.sleep(self._limits.probe_s)


@dataclass(slots=True)
class _Share:
    """What one address, one player, or all of them have asked for."""

    known: dict[str, None] = field(default_factory=dict)
    finished: dict[str, None] = field(default_factory=dict)
    """Those whose result is kept, the oldest first."""


@dataclass(slots=True)
class _Work:
    task: asyncio.Task[Any]
    holders: tuple[str, ...]
    forgetting: asyncio.TimerHandle | None = None


_ALL = ""


class Repeats:
    """Work for players of other nodes: begun once for each id, however often it is asked for.

    Results are kept for repeated questions. All kinds of work share one pool, of which each address may hold a share,
    and each player as much as one address; whoever has no space left loses their own oldest result.
    """

    def __init__(self, shares: AddressShares, *, kept_s: float, kept_max: int) -> None:
        self._shares = shares
        self._kept_s = kept_s
        self._kept_max = kept_max
        self._share_max = share_of(kept_max, shares.share)
        self._loop = asyncio.get_running_loop()
        self._known: dict[str, _Work] = {}
        self._held: dict[str, _Share] = {}

    def __len__(self) -> int:
        return len(self._known)

    def stop(self) -> None:
        for work in list(self._known.values()):
            work.task.cancel()
            if work.forgetting is not None:
                work.forgetting.cancel()

    async def once(self, work_id: str, work: Callable[[], Coroutine[Any, Any, T]], *, player: str, address: str) -> T:
        """The result of this work for a player: begun now, or before."""
        known = self._known.get(work_id)
        if known is None:
            holders = self._holders(player, address)
            for holder in holders:
                self._make_space(holder)
            known = self._known[work_id] = _Work(self._loop.create_task(work()), holders)
            for holder in holders:
                self._held.setdefault(holder, _Share()).known[work_id] = None
            known.task.add_done_callback(lambda _: self._done(work_id))
        # Whoever asked may have given up: the work goes on for the next time.
        return await asyncio.shield(known.task)

    def _holders(self, player: str, address: str) -> tuple[str, ...]:
        # An operator is no player, and an agent has no address.
        counted = (("player", player), ("address", self._shares.holder_of(address)))
        return (_ALL, *(f"{kind} {name}" for kind, name in counted if name))

    def _make_space(self, holder: str) -> None:
        share = self._held.get(holder)
        if share is None or len(share.known) < (self._share_max if holder else self._kept_max):
            return
        if not share.finished:
            raise Throttled(
                "too much of what you, or others at your address, have asked of other nodes is being done; try again"
                if holder
                else "this node has too much to do for others; try again in a moment"
            )
        self._forget(next(iter(share.finished)))

    def _done(self, work_id: str) -> None:
        work = self._known[work_id]
        if not work.task.cancelled():
            work.task.exception()  # whoever asked may have gone
        for holder in work.holders:
            self._held[holder].finished[work_id] = None
        work.forgetting = self._loop.call_later(self._kept_s, self._forget, work_id)

    def _forget(self, work_id: str) -> None:
        work = self._known.pop(work_id)
        if work.forgetting is not None:
            work.forgetting.cancel()
        for holder in work.holders:
            share = self._held[holder]
            del share.known[work_id]
            share.finished.pop(work_id, None)
            if not share.known:
                del self._held[holder]
