"""No secret is told to anybody but its owner: a whole run with every kind of secret, then a search everywhere else.

The server is a process of its own with everything on that writes something down: its log at its loudest, in either
format, the packet log, traces, metrics, events, timelines. Others have failed here: Moongate's packet log prints
passwords, and Phoenix had tokens in URLs (its issue 5778).
"""

import asyncio
import logging
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import holdfast
from holdfast import Auth, ClientSession, Message, MessageRefused, WrongPassword
from holdfast.client.saved import SavedState
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.schemas.frames import Hello, Welcome
from tests.deadlines import DEADLINE_S
from tests.e2e.leaks import leaks_in
from tests.e2e.serving import end_of, holdfast_process, read_until, websocket_address
from tests.server.raw_client import RawClient

VAULT = Path(__file__).with_name("vault.py")
RUN_S = 150.0


class Unlock(Message):
    password: str


class Knock(Message):
    pass


class Secrets:
    """Every secret of a run, by what it is for. New ones are long: no two look alike by chance."""

    def __init__(self) -> None:
        self.by_name: dict[str, str] = {}

    def new(self, name: str) -> str:
        return self.add(name, secrets.token_urlsafe(32))

    def add(self, name: str, secret: str) -> str:
        assert len(secret) > 20, f"there is no {name}"
        self.by_name[f"{name} ({len(self.by_name)})"] = secret
        return secret

    def welcomed(self, welcome: Welcome) -> Welcome:
        self.add("token", welcome.token)
        if welcome.credential:
            self.guest(welcome.credential)
        return welcome

    def guest(self, credential: str) -> None:
        # Before the last full stop stands who it is for, and everybody may know that.
        self.add("guest's credential", credential.rpartition(".")[2])

    def held_by(self, session: ClientSession) -> None:
        self.add("token", SavedState.read(session.protocol.save()).token)


class Relay:
    """Passes everything on to the server, and writes down what clients say."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self.heard: list[bytearray] = []
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Relay"]:
        door = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        async with door:
            self.url = "ws://{}:{}".format(*door.sockets[0].getsockname())
            yield self

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(*self._server)
        record = bytearray()
        self.heard.append(record)
        with suppress(ConnectionError):
            await asyncio.gather(_copy(reader, to_there, record), _copy(there, writer, None))

    @property
    def upgrades(self) -> list[bytes]:
        """The HTTP requests that opened a WebSocket."""
        return [bytes(record).partition(b"\r\n\r\n")[0] for record in self.heard]


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, record: bytearray | None) -> None:
    try:
        while data := await source.read(65536):
            if record is not None:
                record += data
            target.write(data)
    finally:
        target.close()


class Run:
    """One server process, those who use it, and everything that was told along the way."""

    def __init__(self, folder: Path, pid: int, announcement: str, api_key: str, told: Secrets) -> None:
        self.folder = folder
        self.secrets = told
        self.places: dict[str, bytes] = {}
        argv = Path(f"/proc/{pid}/cmdline")
        if argv.exists():
            self.places["argv"] = argv.read_bytes()
        self.host, self.port = websocket_address(announcement)
        words = announcement.split()
        self.tcp_url = next(word for word in words if word.startswith("tcp://"))
        self.api_url = next(word for word in words if word.startswith("http://")).removesuffix("/docs")
        self.headers = {"Authorization": f"Bearer {api_key}"}
        self._clients: list[RawClient] = []

    async def raw(self, codec: Codec = MSGPACK, *, tcp: bool = False) -> RawClient:
        client = await RawClient.dial(self.tcp_url if tcp else f"ws://{self.host}:{self.port}", codec)
        self._clients.append(client)
        return client

    async def refused(self, auth: Auth, codec: Codec = MSGPACK) -> None:
        """Somebody who does not get in."""
        client = await self.raw(codec)
        client.say(Hello(auth))
        await client.closed()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def ask(self, api: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
        """Ask the API, and write down what it says."""
        answer = await api.request(method, path, json=body)
        self.note(f"{method} {path}", answer)
        return answer.json() if answer.content and "json" in answer.headers["content-type"] else None

    def note(self, name: str, answer: httpx.Response) -> None:
        heads = "\n".join(f"{key}: {value}" for key, value in answer.headers.items())
        self.places[f"the answer to {name} ({len(self.places)})"] = heads.encode() + b"\n\n" + answer.content

    def read_files(self, *names: str) -> None:
        for name in names:
            self.places[name] = (self.folder / name).read_bytes()


async def play(run: Run, relay: Relay) -> tuple[str, str]:
    """Guests with a room that has a password: made, mistaken, found; a game that fails; a drop."""
    told = run.secrets
    password = told.new("room's password")
    async with AsyncExitStack() as stack:
        ada, bob = [await stack.enter_async_context(holdfast.connect(relay.url, messages=[Knock])) for _ in range(2)]
        for session in (ada, bob):
            told.guest(session.credential)
            told.held_by(session)
        room_id = (await ada.create("vault", password=password)).id
        with pytest.raises(WrongPassword):
            await bob.join(room_id, password=told.new("wrong password of a room"))
        room = await bob.join(room_id, password=password)
        await room.send(Unlock(told.new("password in a message")))
        refused = await room.receive()
        assert isinstance(refused, MessageRefused)
        back = asyncio.Event()
        bob.on_resume(lambda _: back.set())
        bob.cut()
        async with asyncio.timeout(DEADLINE_S):
            await back.wait()
        await room.send(Knock())
        assert isinstance(await room.receive(), Knock)
        told.held_by(bob)
        return bob.id, bob.player_id


async def sign_in(run: Run, api: httpx.AsyncClient) -> None:
    """Every way to sign in, and every way to fail at it."""
    told = run.secrets
    for codec, tcp in ((MSGPACK, False), (JSON, True)):
        first = await run.raw(codec, tcp=tcp)
        welcome = told.welcomed(await first.sign_in())
        second = await run.raw(codec, tcp=tcp)
        told.welcomed(await second.resume(welcome))
        await second.request("search", kind="vault")
        thief = await run.raw(codec, tcp=tcp)
        thief.ask_to_resume(welcome)
        await thief.closed()
        again = await run.raw(codec, tcp=tcp)
        told.welcomed(await again.sign_in(welcome.credential))
        await run.refused(Auth("guest", f"{welcome.player}.{told.new('wrong credential of a guest')}"), codec)
        # A stranger that never gets its hello right.
        malformed = await run.raw(codec, tcp=tcp)
        malformed.link.send(codec.payload(Hello(Auth("guest", told.new("malformed hello's credential"))))[:-3])
        await malformed.closed()
        odd = await run.raw(codec, tcp=tcp)
        odd.link.send(codec.encode([[told.new("token in the place of a frame's name")]]))
        await odd.closed()

    account = told.new("account's password")
    await run.ask(api, "POST", "/v1/accounts", {"name": "ada", "password": account})
    client = await run.raw()
    client.say(Hello(Auth.password("ada", account)))
    told.welcomed(await client.hear(Welcome))
    await run.refused(Auth.password("ada", told.new("wrong password of an account")))
    guest = await run.raw()
    told.welcomed(await guest.sign_in())
    reply = await guest.request("link", scheme="password", credential=f"ada:{told.new('wrong password of a link')}")
    assert reply.problem is not None

    # The answer that issues it is the one that may tell it.
    answer = await api.post("/v1/tickets", json={"player": "ada"})
    ticket = told.add("ticket", answer.json()["ticket"])
    holder = await run.raw()
    holder.say(Hello(Auth("ticket", ticket)))
    told.welcomed(await holder.hear(Welcome))
    await run.refused(Auth("ticket", ticket))

    await run.refused(Auth("hook", told.new("hook's credential")))
    async with httpx.AsyncClient(base_url=run.api_url) as stranger:
        key = told.new("wrong API key")
        run.note("a wrong key", await stranger.get("/v1/rooms", headers={"Authorization": f"Bearer {key}"}))


async def look_around(run: Run, api: httpx.AsyncClient, session_id: str, player_id: str) -> None:
    """Everything that the API shows."""
    for path in (
        *("/v1/rooms", "/v1/sessions", "/v1/players", "/v1/node", "/v1/packet-log", "/v1/bans", "/v1/accounts/ada"),
        *(f"/v1/sessions/{session_id}/timeline", f"/v1/players/{player_id}/timeline", "/v1/sessions/nobody"),
        *("/metrics", "/openapi.json", "/docs", "/livez", "/readyz"),
    ):
        await run.ask(api, "GET", path)


async def read_events(api: httpx.AsyncClient, heard: bytearray, began: asyncio.Event) -> None:
    """What happens on the node, until it ends."""
    with suppress(httpx.HTTPError):
        async with api.stream("GET", "/v1/events", timeout=None) as stream:
            async for chunk in stream.aiter_bytes():
                heard += chunk
                began.set()


async def full_run(folder: Path, form: str, environment: dict[str, str]) -> tuple[Run, Relay]:
    """A server from its first to its last line."""
    async with asyncio.timeout(RUN_S):
        return await _full_run(folder, form, environment)


async def _full_run(folder: Path, form: str, environment: dict[str, str]) -> tuple[Run, Relay]:
    told = Secrets()
    api_key = told.new("API key")
    environment = {"VAULT_API_KEY": api_key, "VAULT_SECRET": told.new("guests' key"), **environment}
    options = ("-vv", "--log-format", form, "--packet-log", "packets.log")
    async with holdfast_process("serve", str(VAULT), *options, cwd=folder, environment=environment) as process:
        run = Run(folder, process.pid, await read_until(process, "Press Ctrl-C to stop"), api_key, told)
        relay = Relay(run.host, run.port)
        events = bytearray()
        began = asyncio.Event()
        async with relay.open(), httpx.AsyncClient(base_url=run.api_url, headers=run.headers) as api:
            reader = asyncio.create_task(read_events(api, events, began))
            await began.wait()
            await run.ask(api, "PUT", "/v1/packet-log/127.0.0.1")
            session_id, player_id = await play(run, relay)
            await sign_in(run, api)
            await look_around(run, api, session_id, player_id)
            await run.close()
            result = await end_of(process, by=signal.SIGTERM)
            await reader
    assert result.exit_code == 0, result.stderr
    run.places |= {"stdout": result.stdout.encode(), "stderr": result.stderr.encode(), "events": bytes(events)}
    run.places |= {f"upgrade {number}": upgrade for number, upgrade in enumerate(relay.upgrades)}
    run.read_files("packets.log", "spans.txt", "vault.db")
    return run, relay


@pytest.mark.parametrize("form", ["console", "json"])
async def test_no_secret_is_told_to_anybody_but_its_owner(
    form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    run, relay = await full_run(tmp_path, form, {})
    run.places["the clients' log"] = caplog.text.encode()

    # There is something to search, and all of it happened.
    log, packets = run.places["stderr"].decode(), run.places["packets.log"].decode()
    for line in (
        *("session.opened", "session.resumed", "token.reused", "sign_in.failed", "the vault is stuck"),
        *("internal error", "LookupError: no row", "the game's code failed"),
    ):
        assert line in log, line
    for line in ("hello auth=", "welcome session=", "request id=", "(not a payload of frames)", "***"):
        assert line in packets, line
    assert b"session.dropped" in run.places["events"]
    assert b"holdfast.turn" in run.places["spans.txt"]
    assert len(run.secrets.by_name) > 25
    assert leaks_in(run.places, run.secrets.by_name) == []
    # Phoenix 5778: what opens a link says nothing of who opens it.
    assert {upgrade.splitlines()[0] for upgrade in relay.upgrades} == {b"GET / HTTP/1.1"}


async def test_a_game_that_tells_a_secret_is_found_out(tmp_path: Path) -> None:
    run, _ = await full_run(tmp_path, "console", {"VAULT_LEAKS": "1"})

    found = leaks_in(run.places, run.secrets.by_name)

    assert [leak.partition(" (")[0] for leak in found] == ["password in a message"]
    assert found[0].endswith("in stderr, in base64")
