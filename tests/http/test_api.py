"""The API as a server is given it: opened and closed. `tests/test_imports.py` shows that importing it is cheap."""

import inspect

import httpx
import pytest

from holdfast import PlayerData, Room
from holdfast.http.api import ApiKey, HttpApi
from holdfast.server.operations import OperatorApi
from holdfast.testing import MemoryServer
from tests.http.backend import CALLS, FakeBackend


class Lounge(Room[PlayerData]):
    """A room that nobody enters."""


async def test_it_answers_from_open_to_close(world: object) -> None:
    api: OperatorApi = HttpApi(port=0)

    host, port = await api.open(FakeBackend().operations)
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"http://{host}:{port}/livez")
        await api.close()
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://{host}:{port}/livez")
    await api.close()

    assert answer.json() == {"status": "live"}


async def test_a_port_that_is_taken_leaves_nothing_behind() -> None:
    first, second = HttpApi(port=0), HttpApi(port=0)
    taken = await first.open(FakeBackend().operations)
    second = HttpApi(*taken)

    with pytest.raises(OSError, match="in use"):
        await second.open(FakeBackend().operations)
    await second.close()
    await first.close()
    assert await second.open(FakeBackend().operations) == taken
    await second.close()


def test_it_is_not_open_to_everybody_by_mistake() -> None:
    with pytest.raises(ValueError, match="API key"):
        HttpApi("0.0.0.0")  # noqa: S104 - that is the mistake

    HttpApi("0.0.0.0", keys=[ApiKey("0123456789abcdef", ["read"])])  # noqa: S104 - and this is how it is meant


async def test_the_fake_server_of_these_tests_can_be_called_like_a_real_one() -> None:
    async with MemoryServer([Lounge]) as server:
        # Only a node of a cluster has anything elsewhere.
        parts = {name: type(part) for name, part in vars(server.operate).items() if part is not None}

    assert parts.keys() == CALLS.keys()
    for part, calls in CALLS.items():
        for name, fake in calls.items():
            if name == "settings":
                continue  # given to the overview as a callable
            real = inspect.signature(getattr(parts[part], name)).parameters
            assert inspect.signature(getattr(FakeBackend, fake)).parameters.keys() <= real.keys(), (part, name)
