from collections.abc import AsyncIterator

import pytest

from holdfast import Server
from tests.client.game import serve


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serve() as server:
        yield server
