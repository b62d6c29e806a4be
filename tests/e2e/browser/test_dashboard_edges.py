"""The dashboard where things are odd or too many: it says so, and goes on."""

import pytest
from playwright.async_api import Page, expect

from holdfast import Limits
from holdfast.http.static import Site
from holdfast.schemas.requests import Ban
from tests.e2e.browser.stage import SOON_MS, staged

pytestmark = [
    pytest.mark.skipif(not Site().is_built, reason="the dashboard is not built: run make web"),
    pytest.mark.asyncio(loop_scope="module"),  # they share a browser
]


async def test_an_address_that_means_nothing_is_told(page: Page) -> None:
    async with staged() as stage:
        for path in ("players/%", "constructor", "nothing"):
            await stage.open(page, path)
            await expect(page.get_by_text("Page not found.")).to_be_visible()
        await stage.open(page, "rooms/..")
        await expect(page.get_by_text("This id cannot be part of a URL")).to_be_visible()
        await stage.open(page, "players/..")
        await expect(page.get_by_text("This id cannot be part of a URL").first).to_be_visible()


async def test_a_state_that_is_too_large_hides_nothing_else(page: Page) -> None:
    async with staged(limits=Limits(state_shown_bytes_max=1)) as stage:
        session, room = await stage.joins()

        await stage.open(page, f"rooms/{room.id}")

        await expect(page.get_by_role("region", name="Seats").get_by_text(session.player_id)).to_be_visible()
        await expect(page.get_by_text("raise Limits.state_shown_bytes_max")).to_be_visible(timeout=SOON_MS)


async def test_bans_are_shown_beyond_the_first_page(page: Page) -> None:
    async with staged() as stage:
        for number in range(150):
            await stage.server.parts.access.ban(Ban(player=f"player-{number:03}"))

        await stage.open(page, "bans")

        await expect(page.get_by_role("region", name="Bans").get_by_role("button", name="Lift")).to_have_count(150)
