"""The turns of messages whose sender asks for an answer, in transactional rooms: they fail if it cannot be sent."""

import weakref
from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any

from holdfast.core.asks import answer_to, no_answer, unanswerable
from holdfast.core.messages import Message
from holdfast.core.outlet import Outlet


def answering(check: Callable[[Any], None], run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The turn of an ask in a transactional room: it fails if the answer cannot be sent."""
    result = run(*args)
    if type(result) is CoroutineType:
        around = _answering_later(check, result)
        # If this is never awaited, neither is the game's coroutine: close it, so that Python does not warn.
        weakref.finalize(around, result.close)
        return around
    check(result)
    return result


async def _answering_later(check: Callable[[Any], None], work: Coroutine[Any, Any, Any]) -> Any:
    result = await work
    check(result)
    return result


def check_answer(outlet: Outlet, seq: int, name: str, result: Any) -> None:
    """Raise if this cannot be sent as the answer."""
    try:
        outlet.prepare(answer_to(seq, name, result), {})
    except Exception as failure:
        raise unanswerable(name, failure) from failure


def check_native(name: str, result: Any) -> None:
    """The same for an agent, which is given the object."""
    if result is not None and not isinstance(result, Message):
        raise no_answer(name, result)
