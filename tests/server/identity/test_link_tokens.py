"""The token of a linked session: the old one is good until the new one is confirmed, and neither is kept anywhere."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

import holdfast
from holdfast import Auth, PlayerData, Reason, Room, Server
from holdfast.client.saved import SavedState
from holdfast.schemas.account import LinkInfo
from holdfast.schemas.events import Authenticated, Dropped
from holdfast.schemas.frames import Hello, Reply, Request, Resume, Welcome
from holdfast.testing import FaultyStore, MemoryServer, MemoryStorage, run
from tests.server.identity.authenticators import SECRET, SlowLink, doors
from tests.server.raw_client import RawClient
from tests.server.world import NoJitter, World, chat, server_side, until_resumed, url_of

ADA = Auth.password("ada", SECRET)


async def linked(client: RawClient) -> LinkInfo:
    """Link the guest of this connection."""
    reply = await client.request("link", scheme=ADA.scheme, credential=ADA.credential)
    assert reply.problem is None
    return msgspec.convert(reply.result, LinkInfo)


async def comes_back(world: World, server: Server, welcome: Welcome, token: str) -> RawClient:
    """A new connection that presents this token."""
    client = await world.raw(server)
    client.say(Hello(None, Resume(welcome.session, token)))
    return client


async def test_the_answer_brings_a_new_token(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    client = await world.raw(server)
    welcome = await client.sign_in()

    info = await linked(client)

    assert info.player == welcome.player
    assert len(info.token) == 43
    assert info.token != welcome.token


@pytest.mark.parametrize("which", ["old", "new"])
async def test_until_it_is_confirmed_the_old_and_the_new_one_are_good(world: World, which: str) -> None:
    server = await world.serve(chat(), auth=doors())
    client = await world.raw(server)
    welcome = await client.sign_in()
    info = await linked(client)
    client.cut()

    back = await comes_back(world, server, welcome, welcome.token if which == "old" else info.token)

    again = await back.hear(Welcome)
    assert (again.session, again.player) == (welcome.session, welcome.player)


async def test_once_it_is_confirmed_the_old_one_is_dead_and_its_use_revokes_the_session(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    client = await world.raw(server)
    welcome = await client.sign_in()
    info = await linked(client)
    assert (await client.request("confirm")).problem is None

    thief = await comes_back(world, server, welcome, welcome.token)

    assert (await thief.closed()).reason == Reason.TOKEN_REUSED
    assert (await client.closed()).reason == Reason.TOKEN_REUSED
    owner = await comes_back(world, server, welcome, info.token)
    assert (await owner.closed()).reason == Reason.EXPIRED


async def test_the_new_one_is_good_once_it_is_confirmed(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    client = await world.raw(server)
    welcome = await client.sign_in()
    info = await linked(client)
    await client.request("confirm")
    client.cut()

    back = await comes_back(world, server, welcome, info.token)

    assert (await back.hear(Welcome)).session == welcome.session


async def test_the_old_one_is_dead_too_when_the_new_one_was_used(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    client = await world.raw(server)
    welcome = await client.sign_in()
    info = await linked(client)
    client.cut()
    back = await comes_back(world, server, welcome, info.token)
    await back.hear(Welcome)

    thief = await comes_back(world, server, welcome, welcome.token)

    assert (await thief.closed()).reason == Reason.TOKEN_REUSED


async def test_an_answer_that_was_lost_is_repeated_without_a_token(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    client = await world.raw(server)
    welcome = await client.sign_in()
    await linked(client)
    client.cut()
    back = await world.raw(server)
    again = await back.resume(welcome)

    # It never heard of it, and asks again.
    back.say(_link_request(1))
    reply = await back.hear(Reply)

    assert msgspec.convert(reply.result, LinkInfo) == LinkInfo(welcome.player, [], "")
    # The token of the welcome is the one to come back with.
    back.cut()
    third = await comes_back(world, server, welcome, again.token)
    assert (await third.hear(Welcome)).session == welcome.session


def _link_request(number: int) -> Request:
    arguments = msgspec.msgpack.encode({"scheme": ADA.scheme, "credential": ADA.credential})
    return Request(number, "link", msgspec.Raw(arguments))


async def test_a_confirmation_of_nothing_changes_nothing(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    client = await world.raw(server)
    welcome = await client.sign_in()

    for _ in range(3):
        assert (await client.request("confirm")).problem is None
    client.cut()

    back = await comes_back(world, server, welcome, welcome.token)
    assert (await back.hear(Welcome)).session == welcome.session


# The client's own


async def test_the_client_comes_back_after_linking_and_after_many_drops(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await session.link(ADA)

    for _ in range(3):
        assert (await until_resumed(session, session.cut)).kind == "resumed"
    assert session.room is room


async def test_a_drop_while_the_answer_is_on_its_way_costs_nothing(world: World) -> None:
    slow = SlowLink()
    server = await world.serve(chat(), auth=doors(slow))
    session = await world.connect(server)
    linking = asyncio.create_task(session.link(Auth("slow", "gm")))
    await slow.asked.wait()

    outcome = await until_resumed(session, session.cut)
    slow.may_go_on.set()
    await linking

    assert outcome.kind == "resumed"
    assert server_side(server, session).roles == {"gm"}
    for _ in range(2):
        assert (await until_resumed(session, session.cut)).kind == "resumed"


async def test_a_link_that_is_done_while_nobody_is_there_costs_nothing(world: World) -> None:
    slow = SlowLink()
    server = await world.serve(chat(), auth=doors(slow))
    client = await world.raw(server)
    welcome = await client.sign_in()
    client.ask("link", scheme="slow", credential="gm")
    await slow.asked.wait()
    dropped, done = asyncio.Event(), asyncio.Event()
    server.on(Dropped, lambda _: dropped.set())
    server.on(Authenticated, lambda _: done.set())
    client.cut()
    await dropped.wait()
    slow.may_go_on.set()
    await done.wait()

    # The one it has is still the right one.
    back = await comes_back(world, server, welcome, welcome.token)
    again = await back.hear(Welcome)
    assert again.session == welcome.session
    assert again.requests == 1


async def test_a_link_that_is_done_before_a_new_welcome_was_heard_does_not_spoil_it(world: World) -> None:
    slow = SlowLink()
    server = await world.serve(chat(), auth=doors(slow))
    client = await world.raw(server)
    welcome = await client.sign_in()
    client.ask("link", scheme="slow", credential="gm")
    await slow.asked.wait()
    # A new connection, whose welcome the client has not answered: it may have been lost.
    deaf = await world.raw(server)
    again = await deaf.resume(welcome)
    slow.may_go_on.set()
    reply = await deaf.hear(Reply)
    deaf.cut()

    assert msgspec.convert(reply.result, LinkInfo).token == ""
    # Whether it has the welcome or not, it comes back.
    second = await comes_back(world, server, welcome, welcome.token)
    newest = await second.hear(Welcome)
    assert newest.session == again.session
    assert slow.links == 1


async def test_a_saved_state_goes_on_with_the_new_token(world: World) -> None:
    server = await world.serve(chat(grace_s=60.0), auth=doors())
    storage = MemoryStorage()
    session = await holdfast.connect(url_of(server), saved=storage, random=NoJitter())
    before = SavedState.read(session.protocol.save())

    await session.link(ADA)
    after = SavedState.read(session.protocol.save())
    kept = MemoryStorage(storage.written)
    await session.suspend()

    assert after.token != before.token
    # Its guest's credential is dead, and its password is not written anywhere.
    assert (after.scheme, after.credential) == ("password", "")
    assert SECRET.encode() not in kept.written
    async with holdfast.connect(url_of(server), saved=kept, random=NoJitter()) as again:
        assert (again.id, again.player_id) == (session.id, session.player_id)


class FullStorage(MemoryStorage):
    """A disk without room."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.refused = asyncio.Event()

    def replace(self, state: bytes) -> None:
        if self.is_full:
            self.refused.set()
            raise OSError("the disk is full")
        super().replace(state)


async def test_a_state_that_could_not_be_kept_leaves_the_old_one_good(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    storage = FullStorage()
    session = await world.connect(server, saved=storage)
    await session.join_or_create("chat")
    storage.is_full = True

    linking = asyncio.create_task(session.link(ADA))
    await storage.refused.wait()
    session.cut()
    linking.cancel()

    async with holdfast.connect(url_of(server), saved=MemoryStorage(storage.written), random=NoJitter()) as again:
        assert again.id == session.id


# What is kept of it


async def test_no_token_is_in_a_kept_answer(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    client = await world.raw(server)
    welcome = await client.sign_in()
    info = await linked(client)
    side = server.sessions.get(welcome.session)
    assert side is not None

    assert info.token not in repr([bytes(reply.result) for reply in side.replies])
    assert info.token not in repr(info)


async def test_neither_the_token_nor_the_password_is_in_the_store(world: World, tmp_path: Path) -> None:
    kind = chat(durability="commit")
    server = await world.serve(kind, auth=doors(), store=f"sqlite:{tmp_path / 'game.db'}")
    client = await world.raw(server)
    welcome = await client.sign_in()
    await client.join()

    info = await linked(client)
    await server.stop()

    written = _bytes_in(tmp_path)
    assert welcome.player.encode() in written
    for secret in (info.token, welcome.token, SECRET):
        assert secret.encode() not in written


def _bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


class Saved(Room[PlayerData]):
    """Lasts."""

    kind = "saved"
    durability = "commit"
    grace_s = 60.0


class FatefulStorage(MemoryStorage):
    """Something happens the next time that a session is stored as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.replaced: Callable[[], object] | None = None
        self.told = asyncio.Event()

    def replace(self, state: bytes) -> None:
        super().replace(state)
        if self.replaced is not None:
            happens, self.replaced = self.replaced, None
            happens()
            self.told.set()


@pytest.mark.parametrize("seed", range(5))
def test_after_a_crash_the_new_token_is_good_for_it_was_saved_before_it_was_told(seed: int) -> None:
    async def play() -> None:
        store = FaultyStore(latency_s=0.05, jitter_s=0.05, random=Random(seed))
        async with MemoryServer([Saved], auth=doors(), store=store, seed=seed) as server:
            storage = FatefulStorage()
            client = await server.connect(auth=Auth(), saved=storage)
            room = await client.join_or_create("saved")
            storage.replaced = server.crash
            linking = asyncio.create_task(client.link(ADA))
            await storage.told.wait()
            await server.start()
            await linking

            assert client.outcome is not None
            assert client.outcome.kind == "resumed"
            assert client.room is room
            assert (await server.connect(auth=ADA)).player_id == client.player_id

    run(play())


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_at_any_moment_of_a_link_leaves_it_done_or_not_begun(seed: int) -> None:
    async def play() -> None:
        store = FaultyStore(latency_s=0.05, jitter_s=0.05, random=Random(seed))
        async with MemoryServer([Saved], auth=doors(), store=store, seed=seed) as server:
            client = await server.connect(auth=Auth())
            await client.join_or_create("saved")
            linking = asyncio.create_task(client.link(ADA))
            await asyncio.sleep(Random(seed).uniform(0.0, 0.5))
            server.crash()
            await server.start()
            # It is asked again by itself, and done once.
            await linking

            assert client.outcome is None or client.outcome.kind in {"new", "resumed"}
            assert (await server.connect(auth=ADA)).player_id == client.player_id

    run(play())
