"""`holdfast demo --nodes` in a browser: the node with the room is killed, the room is moved, a node is drained."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from holdfast.cli.demo.page import Page as DemoPage
from tests.deadlines import DEADLINE_S
from tests.e2e.browser.stage import SOON_MS
from tests.e2e.browser.test_demo import ANY_PORTS, nothing_is_wrong, number, sails
from tests.e2e.serving import holdfast_process, read_until

pytestmark = pytest.mark.asyncio(loop_scope="module")  # they share a browser

NODES = ("node-1", "node-2", "node-3")

if not DemoPage.is_built():
    pytest.skip("the pages are not built: `make web`", allow_module_level=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url() -> AsyncIterator[str]:
    """One demo of three nodes, on which each test is a player of its own."""
    options = ("--nodes", "3", "--plain", *ANY_PORTS, "--bots", "2", "--cut-every", "0")
    async with holdfast_process("demo", *options) as process:
        found = re.search(r"http://[\d.:]+", await read_until(process, r"^Play: http"))
        assert found is not None
        yield found[0]
        process.terminate()
        await process.communicate()


@pytest_asyncio.fixture(loop_scope="module")
async def game(page: Page, url: str, refusals: None) -> Page:
    """Somebody plays, and all nodes are alive."""
    page.set_default_timeout(SOON_MS)
    expect.set_options(timeout=SOON_MS)
    await page.goto(url)
    await sails(page, "ArrowRight")
    for name in NODES:
        await expect(row(page, name).locator(".state")).to_have_text("alive")
    return page


def row(page: Page, name: str) -> Locator:
    return page.locator(f"#nodes [data-node={name}]")


async def room_node(page: Page) -> str:
    """The node that has the room."""
    having = page.locator("#nodes li", has=page.get_by_text("room", exact=True))
    await expect(having).to_have_count(1)
    name = await having.get_attribute("data-node")
    assert name is not None
    return name


async def press(page: Page, node: str, button: str) -> None:
    await row(page, node).get_by_role("button", name=button, exact=True).click()


async def room_leaves(page: Page, node: str) -> str:
    """Wait until another node has the room and this page's session, and return it."""
    async with asyncio.timeout(DEADLINE_S):
        while (now := await room_node(page)) == node:  # noqa: ASYNC110 - the page cannot tell us
            await asyncio.sleep(0.05)
    await expect(row(page, now)).to_contain_text("your session")
    return now


async def bots_are_here(page: Page) -> None:
    """No bot is shown as disconnected, after many changes of the room."""
    await sails(page, "ArrowDown", commands=40)
    for name in ("Ada", "Bo"):
        await expect(page.locator("#ships li .name").get_by_text(name, exact=True)).to_have_count(1)


async def shot(page: Page, name: str) -> None:
    """A picture for people who want to look, if they say where."""
    if folder := os.environ.get("HOLDFAST_SHOTS"):
        await page.screenshot(path=Path(folder) / f"{name}.png")


async def test_the_page_shows_where_the_room_the_session_and_the_connection_are(game: Page) -> None:
    node = await room_node(game)

    await expect(row(game, node)).to_contain_text("your session")
    await expect(game.get_by_text("your connection", exact=True)).to_have_count(1)
    await expect(game.locator("#crash")).to_be_hidden()
    await shot(game, "demo-nodes")
    await nothing_is_wrong(game)


async def test_the_node_with_the_room_is_killed_and_another_one_goes_on_with_it(game: Page) -> None:
    node = await room_node(game)

    await press(game, node, "Kill")
    await expect(row(game, node).locator(".state")).to_have_text("dead")
    await sails(game, "ArrowLeft")
    await shot(game, "demo-nodes-killed")

    await room_leaves(game, node)
    await sails(game, "ArrowUp")
    await expect(row(game, node).locator(".state")).to_have_text("alive")
    await expect(game.locator("#log")).to_contain_text(f"{node} is started again")
    await shot(game, "demo-nodes-back")
    await nothing_is_wrong(game)


async def test_the_room_moves_and_nobody_drops(game: Page) -> None:
    node = await room_node(game)
    to = next(name for name in NODES if name != node)
    drops = await number(game, "drops")

    await press(game, to, "Move room here")

    assert await room_leaves(game, node) == to
    await bots_are_here(game)
    assert await number(game, "drops") == drops
    await nothing_is_wrong(game)


async def test_a_node_is_drained_and_taken_back_and_nobody_drops(game: Page) -> None:
    node = await room_node(game)
    drops = await number(game, "drops")

    await press(game, node, "Drain")
    await expect(row(game, node).locator(".state")).to_have_text("drained")
    await room_leaves(game, node)
    await bots_are_here(game)
    await shot(game, "demo-nodes-drained")
    await press(game, node, "End drain")

    await expect(row(game, node).locator(".state")).to_have_text("alive")
    assert await number(game, "drops") == drops
    await nothing_is_wrong(game)


async def test_a_page_that_is_loaded_again_has_the_same_ship_on_another_node(game: Page) -> None:
    ship = await game.inner_text("#ships .own .name")
    node = await room_node(game)
    await press(game, node, "Kill")
    await expect(row(game, node).locator(".state")).to_have_text("dead")
    await game.reload()

    await expect(game.locator("#log")).to_contain_text("reloaded: same ship")
    await sails(game, "ArrowLeft")
    assert await game.inner_text("#ships .own .name") == ship
    await nothing_is_wrong(game)


async def test_it_fits_a_phone(game: Page) -> None:
    await game.set_viewport_size({"width": 390, "height": 844})

    assert await game.evaluate("document.documentElement.scrollWidth") == 390
    for name in ("Move room here", "Drain", "Kill"):
        await expect(row(game, "node-2").get_by_role("button", name=name, exact=True)).to_be_visible()
    await shot(game, "demo-nodes-phone")
