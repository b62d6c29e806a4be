"""The pages of the example games, in a real browser: people, bots and spectators play."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from holdfast.http.static import CLIENT_FILE
from tests.e2e.browser.stage import SOON_MS
from tests.e2e.serving import ANY_PORTS, holdfast_process, http_address, read_until

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),  # they share a browser
    pytest.mark.skipif(not CLIENT_FILE.is_file(), reason="the JavaScript client is not built: run make web"),
]

EXAMPLES = Path(__file__).parents[3] / "examples"


@asynccontextmanager
async def served(name: str, folder: Path) -> AsyncIterator[str]:
    """An example as its docstring says to serve it; the address of its page."""
    game, web = EXAMPLES / name / "game.py", EXAMPLES / name / "web"
    arguments = ("serve", str(game), "--web", str(web), "--store", f"sqlite:{name}.db", *ANY_PORTS)
    async with asyncio.timeout(120), holdfast_process(*arguments, cwd=folder) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
        yield "http://{}:{}/play/".format(*http_address(announcement))


@asynccontextmanager
async def another_page(page: Page) -> AsyncIterator[Page]:
    """A page of somebody else, in the same browser."""
    browser = page.context.browser
    assert isinstance(browser, Browser)
    context = await browser.new_context()
    try:
        yield await context.new_page()
    finally:
        await context.close()


async def enter(page: Page, url: str, name: str) -> None:
    await page.goto(url)
    await page.locator("#enter input").fill(name)
    await page.locator("#enter button").click()


async def test_a_party_gets_ready_chats_and_starts(page: Page, tmp_path: Path) -> None:
    async with served("party", tmp_path) as url, another_page(page) as other:
        await enter(page, url, "A\u202eda")
        await expect(page.locator("#status")).to_contain_text("choose another name", timeout=SOON_MS)
        await page.reload()
        await page.locator("#enter input").fill("Ada")
        await page.locator("#enter button").click()
        await expect(page.locator("#teams")).to_contain_text("★ Ada (you)", timeout=SOON_MS)
        await page.locator("#bot").click()
        await expect(page.locator("#teams")).to_contain_text("Bot 1", timeout=SOON_MS)
        await enter(other, f"{url}?code={await page.locator('#code').inner_text()}", "Bob")
        await expect(page.locator("#teams")).to_contain_text("Bob", timeout=SOON_MS)

        await other.locator("#say input[name=text]").fill("hello")
        await other.locator("#say button").click()
        await other.locator("#cut").click()
        await other.locator("#ready").click()
        await page.locator("#ready").click()
        await expect(page.locator("#chat")).to_contain_text("Bob: hello", timeout=SOON_MS)
        await page.locator("#begin").click()

        await expect(other.locator("#status")).to_have_text("The game is on!", timeout=SOON_MS)


async def test_bots_fill_the_table_and_a_spectator_sees_no_hand(page: Page, tmp_path: Path) -> None:
    async with served("last_card", tmp_path) as url, another_page(page) as other:
        await enter(page, url, "Ada")
        await expect(page.locator("#players li")).to_have_count(4, timeout=SOON_MS)
        await expect(page.locator("#hand button")).not_to_have_count(0, timeout=SOON_MS)
        await other.goto(url + (await page.locator("#watch").get_attribute("href") or ""))
        await expect(other.locator("#players")).to_contain_text("Ada", timeout=SOON_MS)
        await expect(page.locator("#status")).to_contain_text("1 watching", timeout=SOON_MS)

        await expect(page.locator("#status")).to_contain_text("It is your turn", timeout=SOON_MS)
        cards = await page.locator("#hand button").count()
        await page.locator("#draw").click()

        await expect(page.locator("#hand button")).to_have_count(cards + 1, timeout=SOON_MS)
        assert await other.locator("#hand button").count() == 0
        await page.reload()
        await expect(page.locator("#hand button")).to_have_count(cards + 1, timeout=SOON_MS)
