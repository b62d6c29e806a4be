"""A real Chromium: the system's own, driven by Playwright."""

import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Error, Page, ViewportSize, async_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_DESKTOP = ViewportSize(width=1280, height=720)
# As on a slow machine: without a graphics card, painting sixty times a second is most of what a page costs.
_TEN_FRAMES_PER_SECOND = """
window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 100);
window.cancelAnimationFrame = clearTimeout;
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Headless, and one for all tests of a file; as root it runs without its sandbox, which needs another user."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: `make browser` installs one where it may")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(browser: Browser) -> AsyncIterator[Page]:
    """One tab for all tests of a file: a new one, with a process of its own, costs more than most of them."""
    tab = await browser.new_page(viewport=_DESKTOP)
    await tab.add_init_script(_TEN_FRAMES_PER_SECOND)
    yield tab
    await tab.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(tab: Page) -> AsyncIterator[Page]:
    """The tab, empty and without memory of other tests. Whatever goes wrong in its scripts is an error of the test."""
    errors: list[str] = []

    def failed(error: Error) -> None:
        errors.append(str(error))

    tab.on("pageerror", failed)
    yield tab
    tab.remove_listener("pageerror", failed)
    if tab.url.startswith("http"):
        await tab.evaluate("localStorage.clear(); sessionStorage.clear()")
    await tab.context.clear_cookies()
    await tab.goto("about:blank")
    await tab.set_viewport_size(_DESKTOP)
    assert errors == []


@pytest_asyncio.fixture(loop_scope="module")
async def refusals(page: Page) -> AsyncIterator[None]:
    """The browser blocks nothing of this page: its policy allows all that it does."""
    blocked: list[str] = []

    def told(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "Trusted" in message.text:
            blocked.append(message.text)

    page.on("console", told)
    yield
    page.remove_listener("console", told)
    assert blocked == []
