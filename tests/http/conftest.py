import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.http.backend import FakeBackend
from tests.http.world import World

# No test of this folder takes longer, however it fails.
_TEST_S = 60.0
# Where sockets are cut and waited for, what holds on uvloop must hold on Python's own loop too.
_ON_BOTH_LOOPS = {"test_events.py", "test_serving.py"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop}
    if item.path.name in _ON_BOTH_LOOPS:
        factories["asyncio"] = asyncio.new_event_loop
    return factories


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _with_deadline(item.obj)


def _with_deadline(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def run(**fixtures: Any) -> None:
        async with asyncio.timeout(_TEST_S):
            await test(**fixtures)

    return run


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Servers and clients for one test; what it opened is closed after it."""
    async with AsyncExitStack() as stack:
        yield World(stack, FakeBackend())
