"""`holdfast packets`, against a real node."""

from collections.abc import AsyncIterator

import pytest

import holdfast
from holdfast import PlayerData, Room, Server, WebSocket
from holdfast.http.api import HttpApi
from tests.cases import every_case
from tests.cli.operator import Operator


class Hall(Room[PlayerData]):
    kind = "hall"


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    async with Server([Hall], listen=[WebSocket(port=0)], http=HttpApi(port=0)) as server:
        yield Operator(server)


async def test_packets_of_a_session_are_switched_on_shown_and_off(
    operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    async with holdfast.connect(operator.server.url) as session:
        on = await operator.run("packets", "on", session.id, "--for", "110")
        listed = await operator.json("packets", "list")
        table = await operator.run("packets", "list")
        await session.create("hall", password="open-sesame")
        off = await operator.run("packets", "off", session.id)
        gone = await operator.run("packets", "list")

    assert on.stdout == f"Logging the packets of {session.id} for 2 min.\n"
    assert [(target["target"], target["kind"]) for target in listed] == [(session.id, "session")]
    assert session.id in table.stdout
    assert off.stdout == f"No longer logging the packets of {session.id}.\n"
    assert gone.stdout == "No packets are being logged.\n"
    assert 'operation="create"' in caplog.text
    assert "open-sesame" not in caplog.text


async def test_packets_of_a_range_of_addresses_are_switched_by_its_name(operator: Operator) -> None:
    on = await operator.json("packets", "on", "203.0.113.9/24")
    again = await operator.json("packets", "off", "203.0.113.0/24")

    assert (on["target"], on["kind"], round(on["ends_in_s"], -2)) == ("203.0.113.0/24", "address", 600.0)
    assert again == {"stopped": "203.0.113.0/24"}


@every_case(
    ("words", "why"),
    [
        (("on", "nobody"), "'nobody' is neither a session nor an address"),
        (("on", "203.0.113.999"), "is neither an address like 203.0.113.7"),
        (("off", "203.0.113.7"), "are not logged"),
        (("on", "203.0.113.7", "--for", "100000"), "86400 s at most"),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_line(operator: Operator, words: tuple[str, ...], why: str) -> None:
    result = await operator.run("packets", *words)

    assert result.exit_code == 1
    assert why in result.stderr
    assert len(result.stderr.splitlines()) == 1
