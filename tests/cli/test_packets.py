"""`holdfast packets`, against a real node."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

import holdfast
from holdfast import PlayerData, Room, Server, WebSocket
from holdfast.cli.main import main
from holdfast.http.api import HttpApi


class Hall(Room[PlayerData]):
    kind = "hall"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server([Hall], listen=[WebSocket(port=0)], http=HttpApi(port=0)) as server:
        yield server


async def say(server: Server, *words: str) -> Result:
    """Run a command in a thread: the node answers on this loop."""
    host, port = server.addresses["http"]
    environment = {"HOLDFAST_URL": f"http://{host}:{port}"}
    return await asyncio.to_thread(CliRunner().invoke, main, ["packets", *words], env=environment)


async def told(server: Server, *words: str) -> Any:
    result = await say(server, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def test_packets_of_a_session_are_switched_on_shown_and_off(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with holdfast.connect(server.url) as session:
        on = await say(server, "on", session.id, "--for", "110")
        listed = await told(server, "list")
        table = await say(server, "list")
        await session.create("hall", password="open-sesame")
        off = await say(server, "off", session.id)
        gone = await say(server, "list")

    assert on.stdout == f"Logging the packets of {session.id} for 2 min.\n"
    assert [(target["target"], target["kind"]) for target in listed] == [(session.id, "session")]
    assert session.id in table.stdout
    assert off.stdout == f"No longer logging the packets of {session.id}.\n"
    assert gone.stdout == "No packets are being logged.\n"
    assert 'operation="create"' in caplog.text
    assert "open-sesame" not in caplog.text


async def test_packets_of_a_range_of_addresses_are_switched_by_its_name(server: Server) -> None:
    on = await told(server, "on", "203.0.113.9/24")
    again = await told(server, "off", "203.0.113.0/24")

    assert (on["target"], on["kind"], round(on["ends_in_s"], -2)) == ("203.0.113.0/24", "address", 600.0)
    assert again == {"stopped": "203.0.113.0/24"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("on", "nobody"), "there is no session 'nobody'"),
        (("on", "203.0.113.999"), "is neither an address like 203.0.113.7"),
        (("off", "203.0.113.7"), "are not logged"),
        (("on", "203.0.113.7", "--for", "100000"), "86400 s at most"),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_line(server: Server, words: tuple[str, ...], why: str) -> None:
    result = await say(server, *words)

    assert result.exit_code == 1
    assert why in result.stderr
    assert len(result.stderr.splitlines()) == 1
