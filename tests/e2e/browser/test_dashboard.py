"""The dashboard in a real browser, against a real server: what an operator does with it."""

from collections.abc import AsyncIterator
from dataclasses import fields

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from holdfast import Announcement, RoleLimits
from holdfast.http.api import ApiKey
from holdfast.http.static import Site
from tests.e2e.browser.stage import SOON_MS, Draw, Notice, Said, Say, Stage, heard, staged

pytestmark = [
    pytest.mark.skipif(not Site().is_built, reason="the dashboard is not built: run make web"),
    pytest.mark.asyncio(loop_scope="module"),  # they share a browser
    pytest.mark.usefixtures("refusals"),
]

KEY = "a-key-for-operators"
LISTS = ("", "sessions", "rooms", "players", "placements", "limits", "bans", "settings", "playground")


@pytest_asyncio.fixture(loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with staged() as stage:
        yield stage


async def test_who_has_a_key_signs_in_and_out(page: Page) -> None:
    async with staged([ApiKey(KEY, ["admin"])]) as stage:
        await stage.open(page)
        field = page.get_by_label("API key")

        await field.fill("a-key-of-somebody-else")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_have_text("This API key is not valid.")
        await field.fill(KEY)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()

        assert KEY not in page.url
        assert await page.context.cookies() == []
        assert KEY not in await page.evaluate("JSON.stringify(localStorage)")
        await page.get_by_role("button", name="Sign out").click()
        await expect(field).to_be_visible()
        assert KEY not in await page.evaluate("JSON.stringify(sessionStorage)")


async def test_a_key_that_may_only_read_is_told_what_it_may_not(page: Page) -> None:
    async with staged([ApiKey(KEY, ["read"])]) as stage:
        session, _ = await stage.joins()
        await stage.open(page)
        await page.get_by_label("API key").fill(KEY)
        await page.get_by_role("button", name="Sign in").click()
        await page.goto(f"{stage.url}#/sessions/{session.id}")

        await page.get_by_role("button", name="End session").click()
        await page.get_by_role("dialog").get_by_role("button", name="End session").click()

        await expect(page.get_by_text("a key with the scope admin is required", exact=False)).to_be_visible()
        assert session.connected


async def test_the_numbers_of_the_overview_move(page: Page, stage: Stage) -> None:
    await stage.open(page)
    online = page.locator(".number").filter(has_text="Players online").locator("strong")
    drops = page.locator(".number").filter(has_text="Drops").locator("strong")
    await expect(online).to_have_text("0")

    session, room = await stage.joins()
    await expect(online).to_have_text("1", timeout=SOON_MS)
    await room.send(Say("hello"))
    session.cut()

    await expect(drops).to_have_text("1", timeout=SOON_MS)
    await expect(page.get_by_text("session resumed")).to_be_visible(timeout=SOON_MS)
    await expect(page.locator(".outcome").first).to_contain_text("resumed1", timeout=SOON_MS)
    assert await page.locator(".chart canvas").count() == 6


async def test_everybody_is_sent_a_message(page: Page, stage: Stage) -> None:
    session, _ = await stage.joins()
    await stage.open(page)

    await page.get_by_role("button", name="Message everybody").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Text").fill("The server restarts in 5 minutes.")
    await dialog.get_by_role("button", name="Send").click()

    await expect(page.get_by_text("Sent to 1 session.")).to_be_visible()
    assert await session.receive() == Announcement("The server restarts in 5 minutes.")


async def test_a_session_is_found_explained_and_its_connection_dropped(page: Page, stage: Stage) -> None:
    session, _ = await stage.joins()
    await stage.joins()
    await stage.open(page, "sessions")
    await expect(page.locator(".row")).to_have_count(2, timeout=SOON_MS)

    await page.get_by_label("Search sessions").fill(session.player_id)
    await expect(page.locator(".row")).to_have_count(1, timeout=SOON_MS)
    await page.locator(".row").click()
    await expect(page.locator(".verdict")).to_contain_text("has been connected since")
    await expect(page.locator(".timeline")).to_contain_text("took a seat in room")
    await page.get_by_role("button", name="Drop connection").click()
    await page.get_by_role("dialog").get_by_role("button", name="Drop connection").click()

    await expect(page.locator(".timeline")).to_contain_text("came back after", timeout=SOON_MS)
    await page.get_by_role("button", name="Log packets").click()
    await expect(page.get_by_role("button", name="Stop packet log")).to_be_visible(timeout=SOON_MS)
    assert stage.server.parts.packets.targets()[0].target == session.id


async def test_roles_of_a_session_are_shown_granted_and_revoked(page: Page, stage: Stage) -> None:
    session, room = await stage.joins()
    kept = stage.server.sessions.get(session.id)
    assert kept is not None
    await room.send(Say("hello"))
    await stage.open(page, f"sessions/{session.id}")
    facts = page.locator(".facts").first
    await expect(facts).to_contain_text("127.0.0.1", timeout=SOON_MS)
    await expect(facts).to_contain_text("holdfast.v1.msgpack")
    await expect(facts).to_contain_text("1 message,", timeout=SOON_MS)
    await expect(page.get_by_role("button", name="Revoke role")).to_have_count(0)

    await page.get_by_role("button", name="Grant role").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Role").fill("game master")
    await dialog.get_by_role("button", name="Grant role").click()
    await expect(page.get_by_text(f"{session.player_id} has the role game master.")).to_be_visible()
    await expect(facts).to_contain_text("game master", timeout=SOON_MS)
    assert kept.roles == {"game master"}

    await page.get_by_role("button", name="Revoke role").click()
    await dialog.get_by_label("Role").select_option("game master")
    await dialog.get_by_role("button", name="Revoke role").click()
    await expect(facts).not_to_contain_text("game master", timeout=SOON_MS)
    assert kept.roles == frozenset()

    await page.goto(f"{stage.url}#/players/{session.player_id}")
    await expect(page.locator(".facts").first).to_contain_text("Revokedgame master", timeout=SOON_MS)
    await page.get_by_role("button", name="Reset roles").click()
    await dialog.get_by_role("button", name="Reset roles").click()
    await expect(page.locator(".facts").first).to_contain_text("Revoked–", timeout=SOON_MS)
    await expect(page.get_by_role("button", name="Reset roles")).to_have_count(0)


async def test_a_limit_of_a_session_is_changed_and_is_the_usual_one_again(page: Page, stage: Stage) -> None:
    session, _ = await stage.joins()
    kept = stage.server.sessions.get(session.id)
    assert kept is not None
    usual = kept.limits.messages_per_s
    await stage.open(page, f"sessions/{session.id}")
    facts = page.locator(".facts").first
    dialog = page.get_by_role("dialog")

    await page.get_by_role("button", name="Change limit").click()
    assert set(await dialog.locator("option").all_text_contents()) == limits_of_one_session()
    await dialog.get_by_label("Limit").select_option("messages_per_s")
    await dialog.get_by_label("Value").fill("7")
    await dialog.get_by_role("button", name="Change limit").click()
    await expect(facts).to_contain_text("messages_per_s 7", timeout=SOON_MS)
    assert kept.limits.messages_per_s == 7

    await page.get_by_role("button", name="Change limit").click()
    await dialog.get_by_role("button", name="Change limit").click()
    await expect(facts).not_to_contain_text("messages_per_s", timeout=SOON_MS)
    assert kept.limits.messages_per_s == usual


def limits_of_one_session() -> set[str]:
    return {each.name for each in fields(RoleLimits) if not each.name.endswith("_per_player_max")}


async def test_a_kick_asks_first_and_escape_is_no(page: Page, stage: Stage) -> None:
    session, room = await stage.joins()
    await stage.open(page, f"rooms/{room.id}")
    kick = page.locator(".seats").get_by_role("button", name="Kick")

    await kick.click()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert len(stage.server.parts.rooms.runner(room.id).room.players) == 1
    await kick.click()
    await page.get_by_role("dialog").get_by_label("Reason").fill("be nice")
    await page.get_by_role("dialog").get_by_role("button", name="Kick").click()

    await expect(page.get_by_text(f"{session.player_id} was kicked.")).to_be_visible()
    async for _ in room:
        pass
    assert room.left is not None
    assert (room.left.reason, room.left.message) == ("kicked", "be nice")
    await expect(page.get_by_text("No players.")).to_be_visible(timeout=SOON_MS)


async def test_a_room_is_watched_and_spoken_to(page: Page, stage: Stage) -> None:
    session, room = await stage.joins()
    await stage.open(page, f"rooms/{room.id}")
    tree = page.locator(".tree")
    await expect(tree).to_contain_text('topic"weather"')
    await page.get_by_role("button", name="Watch messages").click()
    await expect(page.get_by_role("button", name="Stop watching")).to_be_visible()

    # What players write is text here, whatever it looks like. The stream may begin a moment after the click.
    lines = page.locator(".lines")
    for number in range(1, 100):
        await room.send(Say(f"<img src=x onerror=alert({number})>"))
        await heard(room, Said)
        if await lines.get_by_text("said").count():
            break
    await expect(lines.get_by_text(f'"who":"{session.player_id}"').first).to_be_visible(timeout=SOON_MS)
    await expect(tree).to_contain_text(f"lines{number}", timeout=SOON_MS)
    await expect(page.locator(".lines img")).to_have_count(0)

    await page.get_by_role("button", name="Broadcast").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Body").fill('{"text": "five minutes left"}')
    await dialog.get_by_role("button", name="Send to everybody").click()
    assert await heard(room, Notice) == Notice("five minutes left")

    await page.get_by_role("button", name="Lock", exact=True).click()
    await expect(page.get_by_role("button", name="Unlock")).to_be_visible(timeout=SOON_MS)
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Export").click()
    assert (await saved.value).suggested_filename == f"{room.id}.json"
    await page.get_by_role("button", name="Stop watching").click()
    await expect(page.get_by_text("Stopped.")).to_be_visible()


async def test_rooms_are_filtered_by_the_grammar_and_a_mistake_is_told(page: Page, stage: Stage) -> None:
    await stage.joins()
    await stage.open(page, "rooms")
    await expect(page.locator(".row")).to_have_count(1, timeout=SOON_MS)

    await page.get_by_label("Where").fill("players > 1")
    await expect(page.get_by_text("No matching rooms.")).to_be_visible(timeout=SOON_MS)
    await page.get_by_label("Where").fill("players >")

    await expect(page.locator(".problem")).to_contain_text("column", timeout=SOON_MS)


async def test_a_test_player_joins_sends_drops_and_is_back(page: Page, stage: Stage) -> None:
    _, room = await stage.joins()
    await stage.open(page, f"playground/{room.id}")

    await page.get_by_role("button", name="Join as a test player").click()
    player = page.locator(".test-player")
    await player.get_by_label("text").fill("from the playground")
    await player.get_by_role("button", name="Send", exact=True).click()
    said = await heard(room, Said)
    assert isinstance(said, Said)
    assert said.text == "from the playground"
    await expect(player.locator(".lines .out").first).to_contain_text("from the playground", timeout=SOON_MS)

    await player.get_by_label("Latency, each way").fill("50")
    await player.get_by_role("button", name="Drop").click()
    await expect(player.locator(".happened")).to_contain_text("Back: resumed", timeout=SOON_MS)
    await player.get_by_role("button", name="Send", exact=True).click()
    assert await heard(room, Said) == said

    # It plays on while another page is looked at.
    await page.get_by_role("link", name="Sessions").click()
    await expect(page.locator(".row")).to_have_count(2, timeout=SOON_MS)
    await page.get_by_role("link", name="Playground").click()
    await page.locator(".test-player").get_by_role("button", name="Leave").click()
    await expect(page.get_by_text("No test players yet.")).to_be_visible()


async def test_a_test_player_sees_what_clients_see_and_the_room_page_marks_what_they_do_not(
    page: Page, stage: Stage
) -> None:
    room = await stage.server.create_room("table")
    await stage.open(page, f"playground/{room.id}")
    await page.get_by_role("button", name="Join as a test player").click()
    mirror = page.locator(".test-player .tree")

    await page.locator(".test-player").get_by_role("button", name="Send", exact=True).click()

    await expect(mirror.locator(".leaf", has_text="drawn")).to_contain_text("1", timeout=SOON_MS)
    await expect(mirror.locator("summary", has_text="mine")).to_be_visible()
    assert "deck" not in await mirror.inner_text()
    await page.goto(f"{stage.url}#/rooms/{room.id}")
    deck = page.locator(".tree summary", has_text="deck")
    await expect(deck).to_contain_text("hidden", timeout=SOON_MS)
    await page.locator(".tree summary", has_text="guest-").click()
    await expect(page.locator(".tree summary", has_text="cards")).to_contain_text("private")
    await expect(page.get_by_text("Clients see state and players; you see everything.")).to_be_visible()


async def test_where_other_pages_only_may_connect_the_playground_says_what_to_do(page: Page) -> None:
    async with staged(origins=["https://game.example"]) as stage:
        await stage.open(page, "playground")

        await page.get_by_role("button", name="Join as a test player").click()

        await expect(page.locator(".problem")).to_contain_text(f"--origin {stage.url.rstrip('/')}", timeout=SOON_MS)


async def test_of_five_thousand_sessions_a_few_are_in_the_page(page: Page, stage: Stage) -> None:
    for number in range(5_000):
        stage.server.open_agent(f"npc-{number:04}")
    await stage.open(page, "sessions")
    await expect(page.get_by_text("5,000 in total")).to_be_visible(timeout=SOON_MS)
    view = page.get_by_role("region", name="Sessions")

    await expect(page.locator(".row").first).to_be_visible(timeout=SOON_MS)
    first = await page.locator(".row").first.inner_text()
    for _ in range(5):
        await view.evaluate("(each) => { each.scrollTop = each.scrollHeight; }")
        await page.wait_for_function("document.querySelector('.list-view').scrollHeight > 0")
    await expect(page.locator(".row").first).not_to_have_text(first, timeout=SOON_MS)

    assert await page.locator(".row").count() < 60
    await page.get_by_label("Search sessions").fill("npc-4999")
    await expect(page.locator(".row")).to_have_count(1, timeout=SOON_MS)


async def test_no_page_is_wider_than_a_phone(page: Page, stage: Stage) -> None:
    session, room = await stage.joins()
    await page.set_viewport_size({"width": 390, "height": 844})
    for path in (*LISTS, f"sessions/{session.id}", f"rooms/{room.id}", f"players/{session.player_id}"):
        await stage.open(page, path)
        await expect(page.locator("h1")).to_be_visible()
        await expect(page.locator(".loading")).to_have_count(0, timeout=SOON_MS)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path

    await page.get_by_role("button", name="Menu").click()
    await page.get_by_role("link", name="Rooms").click()
    await expect(page.get_by_role("heading", name="Rooms")).to_be_visible()


async def test_it_is_dark_where_the_browser_is_and_light_elsewhere(page: Page, stage: Stage) -> None:
    await stage.open(page)

    async def brightness() -> int:
        ground = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return sum(map(int, ground.removeprefix("rgb(").removesuffix(")").split(",")))

    await page.emulate_media(color_scheme="light")
    assert await brightness() > 384
    await page.emulate_media(color_scheme="dark")
    assert await brightness() <= 384
    await page.emulate_media(color_scheme="null")


async def test_everything_is_reached_with_the_keyboard(page: Page, stage: Stage) -> None:
    await stage.joins()
    await stage.open(page, "sessions")
    await expect(page.locator(".row")).to_have_count(1, timeout=SOON_MS)

    await page.get_by_role("region", name="Sessions").focus()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator(".verdict")).to_be_visible()
    await page.get_by_role("button", name="End session").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")

    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("button", name="End session")).to_be_focused()


async def test_a_server_that_is_gone_is_told_and_found_again(page: Page) -> None:
    lost = page.get_by_text("Connection to the server lost, retrying")
    async with staged() as stage:
        await stage.open(page)
        await expect(page.locator(".number").first).to_be_visible(timeout=SOON_MS)
        await expect(lost).to_be_hidden()
        port = stage.server.addresses["http"][1]

    await expect(lost).to_be_visible(timeout=SOON_MS)
    async with staged(port=port):
        await expect(lost).to_be_hidden(timeout=SOON_MS)


async def test_the_seats_of_a_room_fit_their_card_and_show_the_session(page: Page, stage: Stage) -> None:
    session, room = await stage.joins()
    await page.goto(f"{stage.url}#/rooms/{room.id}")
    seats = page.get_by_role("region", name="Seats")
    await expect(seats.get_by_text(session.id)).to_be_visible(timeout=SOON_MS)

    for width in (1280, 900, 380):
        await page.set_viewport_size({"width": width, "height": 800})

        assert await seats.evaluate("table => table.scrollWidth - table.clientWidth") <= 0, width
        await expect(seats.get_by_text(session.id)).to_be_visible()


async def test_the_list_of_sessions_shows_their_ids(page: Page, stage: Stage) -> None:
    session, _ = await stage.joins()

    await page.goto(f"{stage.url}#/sessions")

    await expect(page.get_by_text(session.id)).to_be_visible(timeout=SOON_MS)


async def test_every_page_has_an_icon(page: Page, stage: Stage) -> None:
    for path in ("", "docs"):
        await page.goto(f"{stage.url}{path}")

        icon = await page.locator("link[rel=icon]").get_attribute("href")

        assert icon is not None
        assert icon.startswith("data:image/svg+xml,")


async def test_a_recording_is_scrubbed_downloaded_and_forked_from(page: Page, stage: Stage) -> None:
    session, _ = await stage.joins()
    assert session.room is not None
    await session.room.leave()
    room = await session.join_or_create("recorded_table")
    for _ in range(3):
        await room.send(Draw())
    await stage.open(page, f"rooms/{room.id}")

    # on_create, on_created, on_join, and three cards.
    card = page.locator("section.card", has=page.get_by_role("heading", name="Recording", exact=True))
    await expect(card).to_contain_text("turn 6 of 6", timeout=SOON_MS)
    await expect(card.locator(".cause")).to_contain_text("draw")
    await expect(card.locator(".changed")).to_contain_text("state.drawn 3")
    await expect(card.locator(".changed")).to_contain_text("state.deck")
    await card.get_by_role("slider").fill("4")
    await expect(card).to_contain_text("turn 4 of 6")
    await expect(card.locator(".changed")).to_contain_text("state.drawn 1", timeout=SOON_MS)
    await card.get_by_role("button", name="Previous turn").click()
    await expect(card.locator(".cause")).to_contain_text("on_join", timeout=SOON_MS)
    await card.get_by_role("button", name="Next turn").click()
    async with page.expect_download() as saved:
        await card.get_by_role("button", name="Download").click()
    assert (await saved.value).suggested_filename == f"{room.id}.recording"

    await card.get_by_role("button", name="Fork from here").click()
    await page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    await page.wait_for_function("id => location.hash !== `#/rooms/${id}`", arg=room.id, timeout=SOON_MS)
    forked = page.url.rpartition("/")[2]
    assert stage.server.rooms.runner(forked).room.state.drawn == 1
    await expect(page.locator(".tree").first).to_contain_text("drawn1", timeout=SOON_MS)
