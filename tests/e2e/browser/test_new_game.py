"""The page of `holdfast new`, in a real browser: it draws, comes back after a drop, and after a refresh."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from holdfast.http.static import CLIENT_FILE
from tests.e2e.browser.stage import SOON_MS
from tests.e2e.serving import ANY_PORTS, holdfast_process, http_address, read_until, result_of

pytestmark = pytest.mark.asyncio(loop_scope="module")  # they share a browser

DOTS = """() => {
    const canvas = document.querySelector("canvas");
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return pixels.some((part) => part > 0);
}"""


@pytest.mark.skipif(not CLIENT_FILE.is_file(), reason="the JavaScript client is not built: run make web")
async def test_the_page_of_a_new_game_plays(page: Page, tmp_path: Path) -> None:
    assert (await result_of("new", "dots", cwd=tmp_path)).exit_code == 0
    arguments = ("serve", "game.py", "--web", "web", "--store", "sqlite:dots.db", *ANY_PORTS)
    async with asyncio.timeout(120), holdfast_process(*arguments, cwd=tmp_path / "dots") as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
        # Both ports are others than usual: the page asks for the game's.
        await page.goto("http://{}:{}/play/".format(*http_address(announcement)))
        status = page.locator("#status")
        await expect(status).to_contain_text("You are guest-", timeout=SOON_MS)

        await page.locator("canvas").click(position={"x": 100, "y": 100})
        await page.wait_for_function(DOTS, timeout=SOON_MS)
        await page.locator("#cut").click()
        await expect(status).to_contain_text("Back (resumed)", timeout=SOON_MS)
        await page.reload()

        # The room sends its board to a page that has forgotten it.
        await page.wait_for_function(DOTS, timeout=SOON_MS)
        await expect(status).to_contain_text("guest-", timeout=SOON_MS)
