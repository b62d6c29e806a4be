import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.server.world import World

# No test of this folder takes longer, however it fails: a client that waits for ever is a failure, not a hang.
_TEST_S = 30.0


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
        yield World(stack)
