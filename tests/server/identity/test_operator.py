"""Accounts and tickets of a running server, over HTTP as a backend asks for them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from holdfast import Auth, ClientSession, Reason, Server, SessionEnded
from holdfast.http.api import HttpApi
from holdfast.identity import Busy, Guest, Password, Tickets
from tests.identity.plain import PlainHashing
from tests.server.identity.authenticators import SECRET, doors
from tests.server.world import World, chat

ADA = {"name": "Ada", "password": SECRET}


class Backend:
    """Opens servers with an API, and asks it."""

    def __init__(self, world: World, stack: AsyncExitStack) -> None:
        self._world = world
        self._stack = stack

    async def serve(self, *auth: Any) -> tuple[Server, httpx.AsyncClient]:
        server = await self._world.serve(chat(), auth=auth, http=HttpApi(port=0))
        host, port = server.addresses["http"]
        # There is no TLS here, and reading all certificates for nothing takes longer than a test.
        client = httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False, verify=False)  # noqa: S501
        return server, await self._stack.enter_async_context(client)


@pytest.fixture
async def backend(world: World) -> AsyncIterator[Backend]:
    async with AsyncExitStack() as stack:
        yield Backend(world, stack)


async def ended(session: ClientSession) -> SessionEnded:
    """How a session ends that is about to."""
    while True:
        try:
            await session.search("chat")
        except SessionEnded as end:
            return end


async def test_an_account_that_a_backend_makes_can_be_signed_in_with(world: World, backend: Backend) -> None:
    server, api = await backend.serve(*doors())

    made = await api.post("/v1/accounts", json={**ADA, "player": "ada-1", "roles": ["gm"]})
    session = await world.connect(server, auth=Auth.password("ada", SECRET))

    assert made.status_code == 201
    assert session.player_id == "ada-1"
    shown = (await api.get("/v1/accounts/ADA")).json()
    assert (shown["name"], shown["player"], shown["roles"]) == ("ada", "ada-1", ["gm"])


async def test_a_changed_password_signs_the_player_out_everywhere(world: World, backend: Backend) -> None:
    server, api = await backend.serve(*doors())
    await api.post("/v1/accounts", json=ADA)
    sessions = [await world.connect(server, auth=Auth.password("ada", SECRET)) for _ in range(2)]

    changed = await api.put("/v1/accounts/ada/password", json={"password": "another horse"})

    assert changed.status_code == 204
    for session in sessions:
        # The client tries its old password once more, and that is wrong now.
        assert (await ended(session)).reason == Reason.AUTH_FAILED
    again = await world.connect(server, auth=Auth.password("ada", "another horse"))
    assert again.player_id == sessions[0].player_id


async def test_a_deleted_account_is_signed_out_and_gone(world: World, backend: Backend) -> None:
    server, api = await backend.serve(*doors())
    await api.post("/v1/accounts", json=ADA)
    session = await world.connect(server, auth=Auth.password("ada", SECRET))

    deleted = await api.delete("/v1/accounts/ada")

    assert deleted.status_code == 204
    assert (await ended(session)).reason == Reason.AUTH_FAILED
    assert (await api.delete("/v1/accounts/ada")).status_code == 404


async def test_a_ticket_that_a_backend_gets_is_good_once(world: World, backend: Backend) -> None:
    server, api = await backend.serve(Tickets())

    issued = (await api.post("/v1/tickets", json={"player": "ada", "roles": ["gm"]})).json()
    session = await world.connect(server, auth=Auth("ticket", issued["ticket"]))

    assert session.player_id == issued["player"] == "ada"
    with pytest.raises(SessionEnded):
        await world.connect(server, auth=Auth("ticket", issued["ticket"]))
    refused = await api.post("/v1/tickets", json={"player": "ada", "ttl_s": 3600})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid")


async def test_a_server_without_accounts_or_tickets_says_how_to_have_them(backend: Backend) -> None:
    _, api = await backend.serve(Guest())

    for answer, hint in (
        (await api.post("/v1/accounts", json=ADA), "Password()"),
        (await api.get("/v1/accounts/ada"), "Password()"),
        (await api.post("/v1/tickets", json={"player": "ada"}), "Tickets()"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert hint in answer.json()["detail"]


async def test_a_backend_is_told_to_come_back_while_too_many_passwords_are_checked(backend: Backend) -> None:
    class Full(PlainHashing):
        async def hash(self, password: bytes) -> str:
            raise Busy("too many passwords are being checked at the moment", 2.0)

    _, api = await backend.serve(Password(hashing=Full()))

    answer = await api.post("/v1/accounts", json=ADA)

    assert (answer.status_code, answer.json()["code"]) == (429, "throttled")
