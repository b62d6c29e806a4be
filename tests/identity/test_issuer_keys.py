"""Sets of keys: fetched in time, not as often as strangers like; and what was good stays good when a fetch fails."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast import Limits
from holdfast.identity import AuthContext, Busy, Jwt, NotAuthentic
from holdfast.identity.issuer_keys import FetchedKeys, Key, keys_in
from tests.identity.issuer import AUDIENCE, ISSUER, NOW, key_set, signer
from tests.identity.plain import Clock, enter, memory

LIMITS = Limits()
PAUSE_S = LIMITS.issuer_keys_pause_s


class Slow:
    """One letter after the other, until that is enough."""

    def __init__(self) -> None:
        self.is_enough = False
        self.is_over = asyncio.Event()

    async def drip(self, writer: asyncio.StreamWriter) -> None:
        while not self.is_enough:
            writer.write(b"x")
            await asyncio.sleep(0.01)
        writer.close()
        self.is_over.set()


class Site:
    """Where a provider shows its keys: a real socket, on this machine."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.asked = 0
        self.keys = key_set(signer("ES256").jwk("k1"))
        self.gate: asyncio.Event | None = None
        self.slow: Slow | None = None
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        if self.slow is not None:
            await self.slow.drip(writer)
            return
        if self.gate is not None:
            await self.gate.wait()
        writer.write(self.answers.pop(0) if self.answers else found(self.keys))
        await writer.drain()
        writer.close()


def found(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    here = Site()
    server = await asyncio.start_server(here.handle, "127.0.0.1", 0)
    here.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
    async with server:
        yield here


class Door:
    """A `Jwt` and its clock."""

    def __init__(self, keys: Any, **limits: Any) -> None:
        self.jwt = Jwt(issuer=ISSUER, audience=AUDIENCE, algorithms=["ES256", "RS256"], keys=keys)
        self.now = Clock()
        self._limits = replace(LIMITS, **limits)

    async def open(self) -> "Door":
        context = AuthContext(now=self.now, wall_clock=Clock(NOW), store=memory(100), limits=self._limits)
        await self.jwt.prepare(context)
        return self

    async def takes(self, token: str) -> bool:
        try:
            return (await enter(self.jwt, token)).player_id == "ada"
        except NotAuthentic:
            return False


async def test_keys_are_fetched_at_the_start_and_not_for_every_token(site: Site) -> None:
    door = await Door(site.url).open()

    assert all([await door.takes(signer("ES256").token(kid="k1")) for _ in range(5)])
    assert site.asked == 1


async def test_a_token_that_names_no_key_is_checked_with_all_that_fit(site: Site) -> None:
    site.keys = key_set(signer("RS256").jwk("r1"), signer("ES256", 2).jwk("k2"), signer("ES256").jwk("k1"))
    door = await Door(site.url).open()

    assert await door.takes(signer("ES256").token())
    assert not await door.takes(signer("ES256", 3).token())


async def test_a_key_is_good_for_the_token_that_names_it_only(site: Site) -> None:
    site.keys = key_set(signer("ES256").jwk("k1"), signer("ES256", 2).jwk("k2"))
    door = await Door(site.url).open()

    assert not await door.takes(signer("ES256").token(kid="k2"))


async def test_a_new_key_is_fetched_when_a_token_names_it(site: Site) -> None:
    door = await Door(site.url).open()
    site.keys = key_set(signer("ES256", 2).jwk("k2"))
    door.now.now += PAUSE_S

    assert await door.takes(signer("ES256", 2).token(kid="k2"))
    # The provider has taken it away.
    assert not await door.takes(signer("ES256").token(kid="k1"))
    assert site.asked == 2


async def test_keys_that_do_not_exist_are_not_looked_for_again_and_again(site: Site) -> None:
    door = await Door(site.url).open()
    for step in range(4):
        for number in range(25):
            assert not await door.takes(signer("ES256").token(kid=f"made up {step} {number}"))
        door.now.now += PAUSE_S / 2

    # At the start, and then once in each pause.
    assert site.asked == 2
    assert await door.takes(signer("ES256").token(kid="k1"))


async def test_those_who_wait_for_a_new_key_share_one_fetch(site: Site) -> None:
    door = await Door(site.url).open()
    site.keys = key_set(signer("ES256", 2).jwk("k2"))
    site.gate = asyncio.Event()
    door.now.now += PAUSE_S

    waiting = [asyncio.create_task(door.takes(signer("ES256", 2).token(kid="k2"))) for _ in range(10)]
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    # Meanwhile others are served with what is known.
    assert await door.takes(signer("ES256").token(kid="k1"))
    site.gate.set()

    assert all(await asyncio.gather(*waiting[1:]))
    assert site.asked == 2


async def test_old_keys_are_fetched_again_without_keeping_anybody_waiting(site: Site) -> None:
    door = await Door(site.url).open()
    site.keys = key_set(signer("ES256", 2).jwk("k2"))
    site.gate = asyncio.Event()
    door.now.now += LIMITS.issuer_keys_s

    assert await door.takes(signer("ES256").token(kid="k1"))
    site.gate.set()
    assert await door.takes(signer("ES256", 2).token(kid="k2"))

    assert not await door.takes(signer("ES256").token(kid="k1"))
    assert site.asked == 2


@pytest.mark.parametrize(
    "answer",
    [
        found(b"", "500 Internal Server Error"),
        found(b"", "404 Not Found"),
        found(b"no json"),
        found(b"[]"),
        found(b'{"keys": 5}'),
        found(b'{"keys": []}'),
        found(b"\xff\xfe"),
        found(b"x" * (LIMITS.issuer_keys_bytes_max + 1)),
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
    ],
    ids=range(10),
)
async def test_what_was_good_stays_good_when_a_fetch_fails(
    site: Site, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    door = await Door(site.url).open()
    site.answers = [answer]
    door.now.now += LIMITS.issuer_keys_s

    assert not await door.takes(signer("ES256", 2).token(kid="k2"))

    assert await door.takes(signer("ES256").token(kid="k1"))
    assert site.asked == 2
    assert "of an issuer" in caplog.text or "no key that is of use" in caplog.text


async def test_nobody_is_sent_elsewhere_for_keys(site: Site) -> None:
    site.answers = [found(b"", "302 Found", f"Location: {site.url}/elsewhere")]
    door = await Door(site.url).open()

    with pytest.raises(Busy):
        await door.takes(signer("ES256").token(kid="k1"))
    assert site.asked == 1


async def test_a_server_starts_without_its_issuer_and_tells_players_to_come_back(site: Site) -> None:
    site.answers = [found(b"", "503 Service Unavailable")]
    door = await Door(site.url).open()

    with pytest.raises(Busy) as busy:
        await door.takes(signer("ES256").token(kid="k1"))
    door.now.now += busy.value.retry_after_s

    assert await door.takes(signer("ES256").token(kid="k1"))


async def test_a_site_that_does_not_answer_is_given_up(site: Site) -> None:
    site.gate = asyncio.Event()
    door = await Door(site.url, issuer_keys_timeout_s=0.2).open()

    with pytest.raises(Busy):
        await door.takes(signer("ES256").token(kid="k1"))
    site.gate.set()


async def test_a_site_that_answers_letter_by_letter_keeps_nobody_waiting(site: Site) -> None:
    """Neither the start of a server, nor who waits for a new key, nor the end of the process."""
    site.slow = Slow()
    door = await Door(site.url, issuer_keys_timeout_s=0.2).open()

    for _ in range(2):
        with pytest.raises(Busy):
            await enter(door.jwt, signer("ES256").token(kid="k1"))
        door.now.now += PAUSE_S

    assert site.asked == 1
    fetching = [thread for thread in threading.enumerate() if site.url in thread.name]
    assert [thread.daemon for thread in fetching] == [True]
    site.slow.is_enough = True
    await site.slow.is_over.wait()


async def test_what_is_on_this_machine_is_not_asked_of_a_proxy(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be asked in the clear, and could answer what it likes."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    door = await Door(site.url).open()

    assert await door.takes(signer("ES256").token(kid="k1"))


async def test_what_is_secret_in_an_address_is_in_no_log(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.answers = [found(b"", "404 Not Found")]

    await Door(f"{site.url}?api_key=hush").open()

    assert site.url in caplog.text
    assert "hush" not in caplog.text
    with pytest.raises(ValueError, match="must not contain a user name"):
        Door("https://ada:hush@id.example.org/keys")


async def test_keys_in_a_file_are_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(signer("ES256").jwk("k1")))
    door = await Door(file).open()
    assert await door.takes(signer("ES256").token(kid="k1"))

    file.write_bytes(key_set(signer("ES256", 2).jwk("k2")))
    door.now.now += PAUSE_S

    assert await door.takes(signer("ES256", 2).token(kid="k2"))


async def test_a_file_that_is_missing_or_too_large_is_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(b" " * 1001)

    for path in (file, tmp_path / "none.json"):
        door = await Door(path, issuer_keys_bytes_max=1000).open()
        with pytest.raises(Busy):
            await door.takes(signer("ES256").token(kid="k1"))

    assert "more than 1000 bytes" in caplog.text
    assert "none.json" in caplog.text


# What is in a set

ALGORITHMS = ["ES256", "RS256"]


def test_only_public_keys_that_are_of_use_are_taken_from_a_set() -> None:
    good = [signer("ES256").jwk("k1", use="sig", alg="ES256"), signer("RS256").jwk("k2", key_ops=["verify"])]
    others = [
        signer("ES256").jwk("k3", is_private=True),
        {"kty": "oct", "k": "AAAA", "kid": "k4"},
        signer("ES256").jwk("k5", use="enc"),
        signer("ES384").jwk("k6"),
        signer("EdDSA").jwk("k7"),
        signer("ES256").jwk("k8", alg="ES384"),
        signer("ES256").jwk(kid=5),  # type: ignore[arg-type]  # that is the point
        {"kty": "EC"},
        {"kty": "EC", "crv": "P-256", "x": 5, "y": []},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": ["RSA"]},
        {},
        "text",
        None,
        5,
    ]

    keys = keys_in(json.dumps({"keys": [*good, *others]}).encode(), ALGORITHMS, LIMITS)

    assert [key.kid for key in keys] == ["k1", "k2"]


def test_not_endlessly_many_keys_are_taken_from_a_set() -> None:
    many = key_set(*(signer("ES256").jwk(f"k{number}") for number in range(200)))

    assert len(keys_in(many, ALGORITHMS, LIMITS)) == LIMITS.issuer_keys_max


async def test_keys_are_not_fetched_any_more_after_the_end() -> None:
    # The thread may still be on its way when the test and its loop are gone: it waits for nothing of theirs.
    began, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def load(limits: Limits) -> list[Key]:
        loop.call_soon_threadsafe(began.set)
        may_end.wait(10)
        return keys_in(key_set(signer("ES256").jwk("k1")), ALGORITHMS, limits)

    keys = FetchedKeys("a test", load)
    starting = asyncio.create_task(keys.prepare(AuthContext()))
    await began.wait()

    keys.close()
    await starting
    may_end.set()

    with pytest.raises(Busy):
        await keys.find("", "ES256")
