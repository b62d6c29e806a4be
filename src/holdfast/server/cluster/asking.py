"""Questions that must not be answered by two nodes: whoever was asked is asked again, until it answers or is dead."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from inspect import isawaitable
from typing import Any, TypeVar

from holdfast.cluster.port import BusError, NobodyThere
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


class Repeats:
    """Work that is begun once for each id, however often it is asked for."""

    def __init__(self, kept_s: float, kept_max: int) -> None:
        self._kept_s = kept_s
        self._kept_max = kept_max
        self._loop = asyncio.get_running_loop()
        self._known: dict[str, asyncio.Task[Any]] = {}

    def stop(self) -> None:
        for task in self._known.values():
            task.cancel()

    async def once(self, work_id: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of this work: begun now, or before."""
        task = self._known.get(work_id)
        if task is None:
            if len(self._known) >= self._kept_max:
                raise Throttled("this node has too much to do for others; try again in a moment")
            task = self._known[work_id] = self._loop.create_task(work())
            task.add_done_callback(lambda done: self._done(work_id, done))
        # Whoever asked may have given up: the work goes on for the next time.
        return await asyncio.shield(task)

    def _done(self, work_id: str, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # whoever asked may have gone
        self._loop.call_later(self._kept_s, self._known.pop, work_id, None)
