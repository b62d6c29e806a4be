"""Whatever touches sockets is run on both event loops."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.cluster.passing.machine import Machine


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    async with Machine(tmp_path) as machine:
        yield machine
