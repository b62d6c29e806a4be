"""The steps of a move of a room from one node to another, in their order: to be killed at each of them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from holdfast.server.cluster.handovers import Handovers
from holdfast.server.cluster.migration import Migration
from holdfast.server.cluster.takeover import Takeover


class Step(NamedTuple):
    """One of them."""

    name: str
    part: type
    method: str


STEPS = (
    Step("the taker is asked whether it may", Migration, "_check_taker"),
    Step("connections and rooms come to rest", Migration, "_come_to_rest"),
    Step("the last record is saved", Migration, "_save"),
    Step("the taker is told to take them", Migration, "_offered"),
    Step("the taker reads and restores them", Takeover, "take_moved"),
    Step("the giver forgets them", Migration, "_gone"),
    Step("connections are told to follow", Migration, "_follow"),
    Step("a connection follows", Handovers, "follow_with"),
    Step("a connection has come", Handovers, "_attach"),
)
WHEN = ("before", "after")


@contextmanager
def once_at(step: Step, when: str, do: Callable[[], None]) -> Iterator[None]:
    """Do something the first time that a move comes to this step, before or after it."""
    right: Any = getattr(step.part, step.method)
    is_done = False

    def now(at: str) -> None:
        nonlocal is_done
        if at == when and not is_done:
            is_done = True
            do()

    async def awaited(part: Any, *arguments: Any, **named: Any) -> Any:
        now("before")
        await asyncio.sleep(0)  # whoever dies here goes no step further
        result = await right(part, *arguments, **named)
        now("after")
        await asyncio.sleep(0)
        return result

    def called(part: Any, *arguments: Any, **named: Any) -> Any:
        now("before")
        result = right(part, *arguments, **named)
        now("after")
        return result

    setattr(step.part, step.method, awaited if iscoroutinefunction(right) else called)
    try:
        yield
    finally:
        setattr(step.part, step.method, right)
