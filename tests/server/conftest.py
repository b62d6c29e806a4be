import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import uvloop

from tests.deadlines import set_deadline
from tests.server.world import World

# Where time is of the essence, what holds on uvloop, which `holdfast.run` takes, must hold on Python's own loop too.
_ON_BOTH_LOOPS = {
    "test_listeners.py",
    "test_latency.py",
    "test_outside_work.py",
    "test_resume.py",
    "test_resume_grace.py",
    "test_resume_newest.py",
    "test_resume_tokens.py",
    "test_ticks.py",
    "test_timers.py",
    "test_tls.py",
}
_ON_PYTHONS_LOOP = {
    "test_arrival.py",
    "test_bad_messages.py",
    "test_bad_payloads.py",
    "test_bad_requests.py",
    "test_comebacks.py",
    "test_vandals.py",
}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {}
    if item.path.name not in _ON_PYTHONS_LOOP:
        factories["uvloop"] = uvloop.new_event_loop
    if item.path.name in _ON_BOTH_LOOPS | _ON_PYTHONS_LOOP:
        factories["asyncio"] = asyncio.new_event_loop
    return factories


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    set_deadline(items, Path(__file__).parent)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Servers and clients for one test; what it opened is closed after it."""
    async with AsyncExitStack() as stack:
        yield World(stack)
