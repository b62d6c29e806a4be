"""The dashboard's files: served as they were built, strictly, and missed politely."""

from pathlib import Path

import pytest

from tests.http.world import KEYS, SITE, World, problem_in

# What a page of ours must never be allowed.
FORBIDDEN = ("unsafe-inline", "unsafe-eval", "https:", "http:", "*")


async def test_the_page_and_its_files_need_no_key(world: World) -> None:
    client = await world.client(await world.serve(KEYS))

    page = await client.get("/")
    script = await client.get("/assets/dashboard.js")
    style = await client.get("/assets/dashboard.css")

    assert (page.text, page.headers["content-type"]) == ((SITE / "index.html").read_text(), "text/html; charset=utf-8")
    assert (script.text, script.headers["content-type"]) == ("export {};\n", "text/javascript; charset=utf-8")
    assert (style.text, style.headers["content-type"]) == ("body {}\n", "text/css; charset=utf-8")


@pytest.mark.parametrize("path", ["/", "/assets/dashboard.js"])
async def test_nothing_foreign_may_run_in_the_page_and_no_page_may_frame_it(world: World, path: str) -> None:
    client = await world.client()

    headers = (await client.get(path)).headers
    policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))

    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert not [word for word in FORBIDDEN if word in headers["content-security-policy"]]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "name", ["notes.txt", "missing.js", "..%2Findex.html", "..%2f..%2fworld.py", "%2Fetc%2Fpasswd", "%2E%2E", "%00"]
)
async def test_only_what_was_built_is_served(world: World, name: str) -> None:
    client = await world.client()

    problem_in(await client.get(f"/assets/{name}"), 404, "not_found")


async def test_a_server_without_the_built_files_runs_and_says_how_to_get_them(world: World, tmp_path: Path) -> None:
    world.site = tmp_path / "nothing"
    client = await world.client()

    page = await client.get("/")

    assert page.status_code == 200
    assert "make web" in page.text
    assert "install the wheel" in page.text
    assert 'href="/docs"' in page.text
    assert "<style" not in page.text
    problem_in(await client.get("/assets/dashboard.js"), 404, "not_found")
    assert (await client.get("/v1/node")).status_code == 200


async def test_a_page_whose_name_was_made_to_point_here_gets_no_dashboard(world: World) -> None:
    client = await world.client()

    problem_in(await client.get("/", headers={"Host": "evil.example"}), 403, "not_allowed")
