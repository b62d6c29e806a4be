"""Whatever touches sockets is run on both event loops."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from holdfast.transports import websocket
from tests.transports.harness import Harness, SocketAdapter


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness(SocketAdapter(websocket, "ws"))
    yield harness
    await harness.finish()
