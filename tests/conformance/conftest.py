"""Transports are run on both event loops; nothing else cares which one it is. Stores are run with two handles."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from holdfast.stores import Store
from tests.stores.harness import ADAPTERS, Place


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.name == "test_transports.py":
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture(params=ADAPTERS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(request.param, tmp_path)
    yield place
    await place.close()


@pytest.fixture
async def store(place: Place) -> Store:
    return await place.open()


@pytest.fixture
async def other(place: Place) -> Store:
    """A second handle of the same store."""
    return await place.open()
