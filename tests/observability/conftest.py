from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.deadlines import set_deadline
from tests.server.world import World


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    set_deadline(items, Path(__file__).parent)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Servers and clients for one test; what it opened is closed after it."""
    async with AsyncExitStack() as stack:
        yield World(stack)
