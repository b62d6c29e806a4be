"""The dashboard of one node of a cluster, in a real browser: it shows all nodes, and drains and moves."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

import holdfast
from holdfast import PlayerData, Room, Server, WebSocket
from holdfast.http.api import HttpApi
from holdfast.http.static import Site
from tests.e2e.browser.stage import SOON_MS
from tests.nats_server import shared_server

pytestmark = [
    pytest.mark.skipif(not Site().is_built, reason="the dashboard is not built: run make web"),
    pytest.mark.asyncio(loop_scope="module"),  # they share a browser
]


class Match(Room[PlayerData]):
    durability = "commit"
    max_players = 4


@pytest_asyncio.fixture(loop_scope="module")
async def servers() -> AsyncIterator[dict[str, Server]]:
    place = f"{shared_server().url}/dashboard-{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:
        made = {
            name: Server([Match], cluster=place, name=name, listen=[WebSocket(port=0)], http=HttpApi(port=0))
            for name in "abc"
        }
        await asyncio.gather(*map(stack.enter_async_context, made.values()))
        yield made


async def opened(page: Page, server: Server, path: str) -> None:
    host, port = server.addresses["http"]
    page.set_default_timeout(SOON_MS)
    await page.goto(f"http://{host}:{port}/#/{path}")


async def shot(page: Page, name: str) -> None:
    """A picture for people who want to look, if they say where."""
    if folder := os.environ.get("HOLDFAST_SHOTS"):
        await page.screenshot(path=Path(folder) / f"{name}.png")


async def test_a_node_is_drained_and_a_room_is_moved_by_hand_while_nobody_drops(
    page: Page, servers: dict[str, Server]
) -> None:
    async with holdfast.connect(servers["a"].url) as session:
        drops: list[object] = []
        session.on_drop(drops.append)
        room = await session.join_or_create("match")
        row = page.get_by_role("row")
        await opened(page, servers["c"], "nodes")
        for name in "abc":
            await expect(row.filter(has_text=name).filter(has_text="alive").first).to_be_visible()
        await shot(page, "nodes")

        await row.filter(has=page.locator("b", has_text="a")).get_by_role("button", name="Drain").click()
        await page.get_by_role("dialog").get_by_role("button", name="Drain").click()
        await expect(page.get_by_text("drained", exact=True)).to_be_visible()
        await shot(page, "drained")

        [now] = [name for name, server in servers.items() if server.rooms.get(room.id) is not None]
        other = next(name for name in "bc" if name != now)
        await opened(page, servers["a"], f"rooms/{room.id}")
        await page.get_by_role("button", name="Move").click()
        await page.get_by_label("To").select_option(label=other)
        await page.get_by_role("dialog").get_by_role("button", name="Move").click()
        await expect(page.get_by_text(f"It is on {other} now.")).to_be_visible()
        await shot(page, "room")
        await opened(page, servers[now], f"sessions/{session.id}")
        await expect(page.get_by_text(f"came from the node {now} with its connection", exact=False)).to_be_visible()
        await shot(page, "session")
        await opened(page, servers[now], "sessions")
        await expect(page.get_by_role("link").filter(has_text=session.id)).to_contain_text(other)
        await shot(page, "sessions")

        assert servers[other].rooms.get(room.id) is not None
        assert drops == []


async def test_the_overview_and_the_events_are_of_all_nodes(page: Page, servers: dict[str, Server]) -> None:
    await opened(page, servers["a"], "")
    await expect(page.get_by_role("heading", name="Overview of 3 nodes")).to_be_visible()
    async with holdfast.connect(servers["b"].url) as one, holdfast.connect(servers["c"].url) as other:
        room = await one.create("match")
        await one.join(room.id)
        await other.join_or_create("match")
        row = page.get_by_role("region", name="Nodes").get_by_role("row")
        for name in "abc":
            await expect(row.filter(has=page.locator("b", has_text=name)).filter(has_text="ready")).to_be_visible()
        await expect(page.locator(".number", has_text="Players online")).to_contain_text("2")
        events = page.get_by_role("list", name="Latest events").get_by_role("listitem")
        joined = events.filter(has_text=one.player_id).filter(has_text="player joined")
        await expect(joined.locator(".event-node")).to_have_text("b")
        await shot(page, "overview")
        await page.set_viewport_size({"width": 390, "height": 844})
        await shot(page, "overview_narrow")


async def test_a_node_that_does_not_answer_is_named_in_the_overview(page: Page, servers: dict[str, Server]) -> None:
    cluster = servers["b"].parts.cluster
    assert cluster is not None
    for question in ("overview", "events"):
        # As if it had another version.
        cluster.node.questions._handlers.pop(question)  # noqa: SLF001 - there is no other way not to answer

    await opened(page, servers["a"], "")

    await expect(page.get_by_role("alert").filter(has_text="b does not answer")).to_be_visible()
    await expect(
        page.get_by_role("region", name="Nodes").get_by_role("row").filter(has_text="no answer")
    ).to_be_visible()
    await shot(page, "overview_missing")
    await opened(page, servers["a"], "limits")
    await expect(page.get_by_role("alert").filter(has_text="b does not answer")).to_be_visible()
    await shot(page, "limits")


async def test_the_settings_of_each_node_can_be_chosen(page: Page, servers: dict[str, Server]) -> None:
    await opened(page, servers["a"], "settings")
    await expect(page.get_by_text(servers["a"].url)).to_be_visible()

    await page.get_by_label("Node", exact=True).select_option(label="c")

    await expect(page.get_by_text(servers["c"].url)).to_be_visible()
    await shot(page, "settings")


async def test_a_node_that_does_not_answer_is_named_above_the_page(page: Page, servers: dict[str, Server]) -> None:
    cluster = servers["b"].parts.cluster
    assert cluster is not None
    # As if it had another version.
    cluster.node.questions._handlers.pop("list_sessions")  # noqa: SLF001 - there is no other way not to answer

    await opened(page, servers["a"], "sessions")

    await expect(page.get_by_role("alert").filter(has_text="b did not answer")).to_be_visible()
    await shot(page, "missing")


async def test_a_server_that_is_alone_says_so(page: Page) -> None:
    async with Server([Match], listen=[], http=HttpApi(port=0), store="memory:") as server:
        await opened(page, server, "nodes")

        await expect(page.get_by_text("This server is not a node of a cluster.")).to_be_visible()
        await expect(page.get_by_role("button", name="Drain")).to_have_count(0)
