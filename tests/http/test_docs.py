"""The page for people: everything is on it, and nothing comes from elsewhere."""

import re
import shlex
from html.parser import HTMLParser

import pytest

from holdfast.http.api import ApiKey, Scope
from holdfast.http.app import App, document
from holdfast.http.errors import KINDS
from tests.http.backend import FakeBackend
from tests.http.routes import ROUTES
from tests.http.world import KEYS, SECRETS, World, url_of

VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "src", "action", "srcset", "data", "poster"}:
                self.addresses.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


async def test_the_page_loads_nothing_from_elsewhere(world: World) -> None:
    server = await world.serve()
    client = await world.client(server)

    answer = await client.get("/docs")
    page = Page(answer.text)

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    elsewhere = {address for address in page.addresses if not address.startswith(("#", "data:image/svg+xml,"))}
    assert elsewhere == {"/openapi.json"}
    # The name of SVG's namespace is no address that anybody asks.
    named = set(re.findall(r"https?://[^/\s]+", answer.text.replace("http://www.w3.org/2000/svg", "")))
    assert named == {url_of(server)}
    assert not {"script", "iframe", "img", "object", "form"} & set(page.tags)
    assert "@import" not in answer.text
    assert "url(" not in answer.text


@pytest.mark.parametrize("keys", [KEYS, []], ids=["with keys", "without"])
async def test_the_page_is_well_formed_and_its_links_lead_somewhere(world: World, keys: list[ApiKey]) -> None:
    client = await world.client(await world.serve(keys))

    page = Page((await client.get("/docs")).text)

    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {address.removeprefix("#") for address in page.addresses if address.startswith("#")} <= set(page.ids)
    assert {f"problem-{code}" for code in KINDS} <= set(page.ids)


def test_every_route_is_on_the_page_with_all_there_is_to_know() -> None:
    text = App(FakeBackend().operations, KEYS).context.docs("http://localhost")
    for route in ROUTES:
        operation = document(has_keys=True)["paths"][route.path][route.method.lower()]

        article = Page(article_in(text, operation["operationId"])).text

        assert f"{route.method} {route.path}" in article
        assert operation["summary"] in article
        assert "curl" in article
        for parameter in operation["parameters"]:
            assert f"{parameter['name']}{parameter['in']}" in article
        for status in operation["responses"]:
            assert status in article
        if route.scope:
            assert f"needs a key with the scope {route.scope.value}" in article


async def test_the_examples_work_as_they_stand(world: World) -> None:
    world.backend.stop()
    server = await world.serve(KEYS)
    client = await world.client(server)
    paths = (await client.get("/openapi.json")).json()["paths"]
    text = (await client.get("/docs")).text

    for route in ROUTES:
        article = article_in(text, paths[route.path][route.method.lower()]["operationId"])
        example = "".join(Page(article[article.index("<pre>") : article.index("</pre>") + 6]).words)
        method, url, headers, body = as_request(example.replace("$HOLDFAST_API_KEY", SECRETS[Scope.ADMIN]))
        answer = await client.request(method, url, headers=headers, content=body)
        assert (method, url.startswith(url_of(server))) == (route.method, True)
        # Whatever it is about need not exist; but the request is understood.
        assert answer.status_code in {200, 201, 202, 204, 404}, answer.text


def article_in(text: str, operation_id: str) -> str:
    """What the page says about one operation."""
    return text.partition(f'<article id="{operation_id}">')[2].partition("</article>")[0]


def as_request(command: str) -> tuple[str, str, dict[str, str], str | None]:
    """What curl would make of a line."""
    words = shlex.split(command.replace("\\\n", ""))
    assert words.pop(0) == "curl"
    method, url, headers, body = "GET", "", {}, None
    while words:
        word = words.pop(0)
        if word == "-X":
            method = words.pop(0)
        elif word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = words.pop(0)
        elif word != "-N":
            url = word
    return method, url, headers, body


async def test_the_page_does_not_show_a_host_that_anybody_may_write(world: World) -> None:
    client = await world.client(await world.serve(KEYS))

    answer = await client.get("/docs", headers={"Host": "evil.example"})

    assert answer.status_code == 200
    assert "evil" not in answer.text
