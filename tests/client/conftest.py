from collections.abc import AsyncIterator

import pytest

from holdfast import Server
from holdfast.core.codec import JSON, MSGPACK, Codec
from tests.client.game import serve
from tests.client.script import Script


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serve() as server:
        yield server


@pytest.fixture(params=[MSGPACK, JSON], ids=["msgpack", "json"])
def codec(request: pytest.FixtureRequest) -> Codec:
    assert isinstance(request.param, Codec)
    return request.param


@pytest.fixture
def seated(codec: Codec) -> Script:
    """A client that was welcomed and has a seat on channel 1."""
    script = Script(codec)
    script.welcome(credential="ada.secret")
    script.seat()
    return script
