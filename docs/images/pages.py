"""Makes the pictures of the pages, from a real run of the demo in a real Chromium.

Run it from the repository, after `make web`: .venv/bin/python docs/images/pages.py
"""

import asyncio
import re
import shutil
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from playwright.async_api import Page, ViewportSize, async_playwright

HERE = Path(__file__).parent
WIDE = ViewportSize(width=1280, height=760)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Long enough for the charts to have something to show.
PLAY_S = 20.0


async def main() -> None:
    """Run the demo, play it, and look at everything."""
    if CHROMIUM is None:
        raise SystemExit("There is no Chromium here: `make browser` installs one where it may.")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "demo", "--plain", "--port", "0", "--seed", "7"), stdout=PIPE
    )
    assert process.stdout is not None
    announced = (await process.stdout.readline()).decode()
    game, dashboard = re.findall(r"http://[\d.:]+", announced)
    drained = asyncio.create_task(process.stdout.read())
    try:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            player = await browser.new_page(viewport=WIDE, color_scheme="dark")
            await player.goto(game)
            await play(player)
            operator = await browser.new_page(viewport=WIDE, color_scheme="dark")
            await operator.goto(dashboard)
            for _ in range(int(PLAY_S / 4)):
                await sail(player, 4.0)
            await look(operator, "dashboard")
            await operator.goto(f"{dashboard}/#/sessions")
            await operator.locator("a[href^='#/sessions/']").first.click()
            await look(operator, "session")
            await operator.goto(f"{dashboard}/#/rooms")
            await operator.locator("a[href^='#/rooms/']").first.click()
            await look(operator, "room")
            await browser.close()
    finally:
        process.terminate()
        await process.wait()
        await drained


async def play(page: Page) -> None:
    """Sail, pull the plug, come back, crash the server, come back."""
    await sail(page, 3.0)
    await page.click("#plug")
    await sail(page, 2.0)
    await page.click("#plug")
    await page.locator("#log", has_text="Back after").wait_for()
    await sail(page, 1.0)
    await page.click("#crash")
    await page.locator("#log", has_text="The server is up again").wait_for()
    await page.locator("#notice:empty").wait_for(state="attached")
    await sail(page, 2.0)
    await look(page, "demo")


async def sail(page: Page, seconds: float) -> None:
    """Here and there."""
    for number in range(int(seconds)):
        key = ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp")[number % 4]
        await page.keyboard.down(key)
        await asyncio.sleep(1.0)
        await page.keyboard.up(key)


async def look(page: Page, name: str) -> None:
    """Keep what is there, once it has settled."""
    await asyncio.sleep(2.0)
    await page.screenshot(path=HERE / f"{name}.png")


if __name__ == "__main__":
    asyncio.run(main())
