import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import uvloop

from tests.deadlines import set_deadline
from tests.http.backend import FakeBackend
from tests.http.world import World

# Where sockets are cut and waited for, what holds on uvloop must hold on Python's own loop too.
_ON_BOTH_LOOPS = {"test_connections.py", "test_serving.py", "test_streams.py", "test_tls.py"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop}
    if item.path.name in _ON_BOTH_LOOPS:
        factories["asyncio"] = asyncio.new_event_loop
    return factories


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    set_deadline(items, Path(__file__).parent)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Servers and clients for one test; what it opened is closed after it."""
    async with AsyncExitStack() as stack:
        yield World(stack, FakeBackend())
