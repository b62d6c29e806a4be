"""`holdfast demo` in a browser: the plug, the lag, the crash, the refresh; and the numbers that must stay 0."""

import asyncio
import re
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from holdfast.cli.demo.page import Page as DemoPage
from tests.deadlines import DEADLINE_S
from tests.e2e.browser.stage import SOON_MS
from tests.e2e.serving import holdfast_process, read_until

pytestmark = pytest.mark.asyncio(loop_scope="module")  # they share a browser

# Another demo may run at this moment.
ANY_PORTS = ("--port", "0", "--http-port", "0")
# Each way.
LAG_MS = 150

if not DemoPage.is_built():
    pytest.skip("the pages are not built: `make web`", allow_module_level=True)


class Demo(NamedTuple):
    """One that runs."""

    process: Process
    url: str


@asynccontextmanager
async def a_demo() -> AsyncIterator[Demo]:
    async with holdfast_process("demo", "--plain", *ANY_PORTS, "--bots", "3", "--cut-every", "0") as process:
        seen = await read_until(process, r"^Play: http")
        found = re.search(r"http://[\d.:]+", seen)
        assert found is not None
        yield Demo(process, found[0])
        if process.returncode is None:
            process.terminate()
        await process.communicate()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def demo() -> AsyncIterator[Demo]:
    """One demo, on which each test is a player of its own."""
    async with a_demo() as demo:
        yield demo


@pytest_asyncio.fixture(loop_scope="module")
async def game(page: Page, demo: Demo) -> Page:
    """Somebody plays."""
    page.set_default_timeout(SOON_MS)
    expect.set_options(timeout=SOON_MS)
    await page.goto(demo.url)
    await sails(page, "ArrowRight")
    return page


async def sails(page: Page, key: str, commands: int = 10) -> None:
    """Hold a key until some commands more are sent."""
    before = await number(page, "sent")
    await page.keyboard.down(key)
    await until(page, "sent", lambda sent: sent > before + commands)
    await page.keyboard.up(key)


async def until(page: Page, name: str, is_met: Callable[[int], bool]) -> None:
    """Wait for a figure. (Not within the page: its policy allows no code but its own.)"""
    async with asyncio.timeout(DEADLINE_S):
        while not is_met(await number(page, name)):  # noqa: ASYNC110 - the page cannot tell us
            await asyncio.sleep(0.05)


async def number(page: Page, name: str) -> int:
    """One of the figures, as a whole number."""
    found = re.match(r"[\d,]+", await page.inner_text(f"#{name}"))
    return int(found[0].replace(",", "")) if found is not None else 0


async def nothing_is_wrong(page: Page) -> None:
    """The room has answered everything, and both ends have counted."""
    await expect(page.locator("#notice")).to_be_empty()
    await expect(page.locator("#ships .own")).to_have_count(1)
    assert (await number(page, "lost"), await number(page, "duplicated")) == (0, 0)


async def test_a_ship_sails_and_comes_by_its_coins(game: Page) -> None:
    await expect(game.locator("#ships li:not(.disconnected)")).to_have_count(4)
    await nothing_is_wrong(game)


async def test_the_plug_is_pulled_and_what_was_done_meanwhile_arrives(game: Page) -> None:
    await game.click("#plug")
    await expect(game.locator("#notice")).to_contain_text("Unplugged")
    await sails(game, "ArrowDown", commands=60)  # until the bots have found a coin
    await game.click("#plug")

    await expect(game.locator("#log li").first).to_contain_text("0 lost, 0 duplicated")
    await expect(game.locator("#replayed")).not_to_have_text("0")
    await expect(game.locator("#drops")).to_have_text("1")
    await nothing_is_wrong(game)


async def test_the_server_is_killed_while_playing(game: Page) -> None:
    await game.click("#crash")
    await sails(game, "ArrowLeft")

    await expect(game.locator("#log")).to_contain_text("The server is up again")
    await expect(game.locator("#log")).to_contain_text(re.compile("Back after .* 0 lost, 0 duplicated"))
    await sails(game, "ArrowUp")
    await nothing_is_wrong(game)


async def test_a_page_that_is_loaded_again_has_the_same_ship(game: Page) -> None:
    ship = await game.inner_text("#ships .own .name")
    sent = await number(game, "sent")
    await game.reload()

    await expect(game.locator("#log")).to_contain_text("reloaded: same ship")
    await sails(game, "ArrowLeft")
    assert await game.inner_text("#ships .own .name") == ship
    assert await number(game, "sent") > sent
    await nothing_is_wrong(game)


async def test_lag_is_felt_and_goes_again(game: Page) -> None:
    await game.click("#lag")
    await until(game, "rtt", lambda ms: ms >= LAG_MS)
    await game.click("#lag")
    await until(game, "rtt", lambda ms: ms < LAG_MS)
    await nothing_is_wrong(game)


async def test_another_player_is_another_one(game: Page) -> None:
    async with game.context.expect_page() as opened:
        await game.click("#another")
    other = await opened.value

    await expect(other.locator("#ships .own")).to_have_count(1)
    assert await other.inner_text("#ships .own .name") != await game.inner_text("#ships .own .name")
    await other.close()


async def test_a_demo_that_has_ended_says_so(page: Page) -> None:
    async with a_demo() as demo:
        await page.goto(demo.url)
        await expect(page.locator("#ships .own")).to_have_count(1, timeout=SOON_MS)

        demo.process.terminate()

        await expect(page.locator("#notice")).to_contain_text("The demo has ended", timeout=SOON_MS)


async def test_it_fits_a_phone(game: Page) -> None:
    await game.set_viewport_size({"width": 390, "height": 844})

    assert await game.evaluate("document.documentElement.scrollWidth") == 390
    for name in ("plug", "lag", "crash", "another"):
        await expect(game.locator(f"#{name}")).to_be_visible()
