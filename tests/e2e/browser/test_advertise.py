"""A page whose session is on another node goes to that node's own address, in a real browser, and sees no drop."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from holdfast import Server
from tests.deadlines import DEADLINE_S
from tests.e2e.browser.test_sdk import site
from tests.nats_server import NatsServer
from tests.ports import free_ports
from tests.server.cluster.nodes import Table
from tests.server.cluster.test_on_nats import client, node

__all__ = ["site"]
pytestmark = pytest.mark.asyncio(loop_scope="module")  # they share a browser

_TALK = """async ([url, id]) => {
  const { connect } = await import("/holdfast.js");
  const session = await connect(url, { auth: { scheme: "name", credential: "bob" } });
  const told = [], heard = [];
  for (const event of ["drop", "resume", "reconnecting", "close"]) session.on(event, () => told.push(event));
  const room = await session.join(id);
  room.on("said", ({ text }) => heard.push(text));
  let said = 0;
  const talking = setInterval(() => room.send("say", { text: String(said++) }), 5);
  Object.assign(window, { session, told, heard, stop: () => (clearInterval(talking), said) });
}"""


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    (tmp_path / "nats").mkdir()
    server = NatsServer(tmp_path / "nats")
    server.start()
    yield server
    server.kill()


def is_direct(server: Server, player: str) -> bool:
    session = next((each for each in server.sessions if each.player_id == player), None)
    return session is not None and session.connection is not None and session.connection.transport_kind == "websocket"


@pytest.mark.parametrize("reaches", [True, False])
async def test_a_page_goes_to_the_node_of_its_room_if_it_can(
    browser: Browser,
    site: str,
    nats: NatsServer,
    *,
    reaches: bool,
) -> None:
    port, nobody = free_ports(2)
    address = f"ws://127.0.0.1:{port if reaches else nobody}"
    page = await browser.new_page()
    async with node("a", nats.url, port=port, advertise=address) as a, node("b", nats.url) as b:
        ann = await client("ann", a)
        room = await ann.join((await ann.create("table")).id)
        await page.goto(f"{site}/holdfast.js")
        await page.evaluate(_TALK, [b.url, room.id])
        async with asyncio.timeout(DEADLINE_S):
            while is_direct(a, "bob") != reaches:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
        await page.wait_for_function("() => window.heard.length > 200", timeout=DEADLINE_S * 1000)
        said = await page.evaluate("() => window.stop()")
        await page.wait_for_function(f"() => window.heard.length >= {said}", timeout=DEADLINE_S * 1000)

        expected = [f"bob:{number}" for number in range(said)]
        assert await page.evaluate("() => window.heard") == expected
        assert await page.evaluate("() => window.told") == []
        assert is_direct(a, "bob") == reaches
        assert (len(b.parts.connections) == 0) == reaches
        table = a.rooms.get(room.id)
        assert isinstance(table, Table)
        assert table.state.said == expected
        await page.evaluate("() => window.session.close()")
        await ann.close()
    await page.close()
