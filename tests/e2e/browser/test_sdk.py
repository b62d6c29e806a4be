"""The JavaScript client in a real browser: refreshes, networks that go, second tabs, and a server that is killed.

The page counts with the room, both ways; in the end both must have every number, once and in order.
"""

import shutil
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page

from tests.deadlines import DEADLINE_S
from tests.e2e.serving import ANY_PORTS, end_of, holdfast_process, read_until, websocket_address

pytestmark = pytest.mark.asyncio(loop_scope="module")  # they share a browser

HERE = Path(__file__).parent
SDK = HERE.parents[2] / "clients" / "js" / "dist" / "index.js"
TOTAL = 80

if not SDK.is_file():
    pytest.skip("the JavaScript client is not built: `make web`", allow_module_level=True)


class Served:
    """A server in a process of its own, that can be killed and started again where it was."""

    def __init__(self, folder: Path, site: str) -> None:
        self._store = f"sqlite:{folder / 'count.db'}"
        self.site = site
        self._stack = AsyncExitStack()
        self._process: Process | None = None
        self.url = ""

    async def start(self) -> None:
        """Listen where it listened before, if it did."""
        port = ("--port", self.url.rpartition(":")[2]) if self.url else ()
        options = (*ANY_PORTS, *port, "--store", self._store, "--origin", self.site)
        self._process = await self._stack.enter_async_context(
            holdfast_process("serve", str(HERE / "durable_counting.py"), *options)
        )
        host, number = websocket_address(await read_until(self._process, "Press Ctrl-C to stop"))
        self.url = f"ws://{host}:{number}"

    async def kill(self) -> None:
        """No program can catch this."""
        assert self._process is not None
        await end_of(self._process, by=signal.SIGKILL)

    async def close(self) -> None:
        """End it, whatever state it is in."""
        await self._stack.aclose()


class Files(SimpleHTTPRequestHandler):
    """Says nothing of what it is asked for."""

    def log_message(self, *_: object) -> None:
        """Not a word."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The page's site, on this machine as the server is: a browser lets no other page come near to it."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text('<!doctype html><script type="module" src="/counting.js"></script>')
    for script in ("counting.js", "worker.js"):
        shutil.copy(HERE / script, folder)
    shutil.copy(SDK, folder / "holdfast.js")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder))) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest_asyncio.fixture(loop_scope="module")
async def served(tmp_path: Path, site: str) -> AsyncIterator[Served]:
    """A server."""
    served = Served(tmp_path, site)
    await served.start()
    yield served
    await served.close()


@pytest_asyncio.fixture(loop_scope="module")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser of its own."""
    context = await browser.new_context()
    yield context
    await context.close()


async def counting_page(context: BrowserContext, served: Served, **options: str) -> Page:
    """A page that has begun to count."""
    page = await context.new_page()
    wishes = urlencode({"server": served.url, "total": TOTAL, **options})
    await page.goto(f"{served.site}/?{wishes}")
    await until(page, "() => window.count?.heard > 5 && window.count.sent > 5")
    return page


async def until(page: Page, condition: str) -> None:
    """Wait for something to become true in the page."""
    await page.wait_for_function(condition, timeout=DEADLINE_S * 1_000, polling=50)


async def told(page: Page) -> dict[str, Any]:
    """What the page was told of its session."""
    found: dict[str, Any] = await page.evaluate("() => window.told")
    return found


async def counts_to_the_end(page: Page) -> None:
    """All numbers both ways, each once, in order."""
    await until(page, "() => Boolean(window.report)")
    count, report = await page.evaluate("() => [window.count, window.report]")
    assert count == {"sent": TOTAL, "heard": TOTAL, "lost": 0, "duplicated": 0}
    assert (report["received"], report["wrong"]) == (TOTAL, [])


async def test_a_refresh_resumes(context: BrowserContext, served: Served) -> None:
    page = await counting_page(context, served)
    before = await page.evaluate("() => window.session.id")
    for _ in range(3):
        await page.reload()
        await until(page, "() => Boolean(window.session)")

    assert await page.evaluate("() => window.session.id") == before
    assert (await told(page))["outcome"] == "resumed"
    await counts_to_the_end(page)


async def test_a_network_that_goes_and_comes_back(context: BrowserContext, served: Served) -> None:
    page = await counting_page(context, served)
    await context.set_offline(offline=True)
    await until(page, "() => window.told.drops === 1")
    sent = await page.evaluate("() => window.count.sent")
    await until(page, f"() => window.count.sent > {sent} + 5")
    assert not await page.evaluate("() => window.session.connected")
    await context.set_offline(offline=False)

    await until(page, "() => window.session.connected")
    assert (await told(page))["outcome"] == "resumed"
    assert (await told(page))["replayed"] > 0
    await counts_to_the_end(page)


async def test_the_server_is_killed_while_the_page_counts(context: BrowserContext, served: Served) -> None:
    page = await counting_page(context, served)
    for _ in range(2):
        await served.kill()
        await served.start()
        await until(page, "() => window.session.connected")

    assert (await told(page))["outcome"] == "resumed"
    await counts_to_the_end(page)


async def duplicate(page: Page) -> Page:
    """The same page in another tab, with a copy of all that the first one has stored."""
    async with page.expect_popup() as opened:
        await page.evaluate("() => { window.open(location.href) }")
    other = await opened.value
    await until(other, "() => Boolean(window.session)")
    return other


async def test_a_second_tab_is_another_player(context: BrowserContext, served: Served) -> None:
    page = await counting_page(context, served)
    other = await duplicate(page)

    assert await other.evaluate("() => window.session.id") != await page.evaluate("() => window.session.id")
    assert (await told(page))["closed"] == ""
    await counts_to_the_end(page)


async def test_a_second_tab_takes_over_if_that_is_wished(context: BrowserContext, served: Served) -> None:
    page = await counting_page(context, served, tabs="takeover")
    before = await page.evaluate("() => window.session.id")
    other = await duplicate(page)

    await until(page, "() => window.told.closed === 'superseded'")
    assert await other.evaluate("() => window.session.id") == before
    # And it stays there: the tabs do not take it from each other for ever.
    await until(other, "() => window.count.sent === window.count.heard || Boolean(window.report)")
    assert (await told(page))["closed"] == "superseded"
    assert (await told(other))["closed"] == ""


async def test_a_worker_plays_and_resumes_without_a_page(context: BrowserContext, served: Served) -> None:
    page = await context.new_page()
    await page.goto(f"{served.site}/worker.js")
    report = await page.evaluate(
        """url => new Promise((done, fail) => {
            const worker = new Worker(url, { type: "module" });
            worker.onmessage = ({ data }) => done(data);
            worker.onerror = ({ message }) => fail(new Error(message));
        })""",
        f"{served.site}/worker.js?{urlencode({'server': served.url})}",
    )

    assert (report["received"], report["wrong"], report["rejoins"]) == (1, [], 1)
