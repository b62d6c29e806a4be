"""What can go wrong, or be made to, while somebody signs in or is linked."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from msgspec import Raw

from holdfast import Auth, Reason
from holdfast.core.codec import MSGPACK
from holdfast.identity import Approach, Guest, Hook, Identity
from holdfast.schemas.events import Authenticated
from holdfast.schemas.frames import Ack, Frame, Hello, Pong, Reply, Request, Welcome
from holdfast.testing import MemoryServer
from tests.server.access.kit import dialed, hall, refused, serving
from tests.server.durability.bench import a_moment, in_virtual_time
from tests.server.identity.authenticators import SECRET, SlowLink, doors
from tests.server.raw_client import RawClient


async def sign_in(server: MemoryServer, auth: Auth) -> tuple[RawClient, Welcome]:
    client = await dialed(server)
    client.say(Hello(auth))
    return client, await client.hear(Welcome)


# Authenticators that do not do what they should


class Careless:
    """An authenticator that somebody has written: it answers whatever the test likes."""

    scheme = "careless"

    def __init__(self, answer: Any, *, is_late: bool) -> None:
        self._answer = answer
        self._is_late = is_late

    def authenticate(self, credential: str, approach: Approach) -> Identity | Awaitable[Identity]:
        async def later() -> Any:
            await asyncio.sleep(0.1)
            return self._answer

        return later() if self._is_late else self._answer


NOBODY = {
    "nothing": None,
    "a name": "ada",
    "an empty id": Identity(""),
    "two lines": Identity("ada\nbob"),
    "too long": Identity("x" * 129),
    "no unicode": Identity("\ud800"),
    "no text": Identity(7),  # type: ignore[arg-type] # that it is refused is the claim
    "a role of two lines": Identity("ada", frozenset({"a\nb"})),
    "too many roles": Identity("ada", frozenset(map(str, range(33)))),
}


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("answer", NOBODY.values(), ids=NOBODY.keys())
@in_virtual_time
async def test_what_can_be_nobody_s_identity_gets_nobody_in(answer: Any, is_late: bool) -> None:
    async with serving(auth=(Guest(), Careless(answer, is_late=is_late)), allow_errors=Exception) as server:
        client = await dialed(server)

        client.say(Hello(Auth("careless", "hush")))

        assert (await client.closed()).reason == Reason.INTERNAL
        assert len(server.sessions) == 0
        await sign_in(server, Auth("guest"))
        assert server.counters.internal_errors == 1
        server.counters.internal_errors = 0


@in_virtual_time
async def test_a_hook_whose_own_work_was_cancelled_leaves_no_link_behind() -> None:
    async def approve(credential: str, approach: Approach) -> str:
        gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        gone.cancel()
        return await gone

    async with serving(auth=(Hook(approve),), allow_errors=Exception) as server:
        client = await dialed(server)

        client.say(Hello(Auth("hook", "ada")))

        assert (await client.closed()).reason == Reason.INTERNAL
        assert not server.parts.connections
        assert server.counters.internal_errors == 1
        server.counters.internal_errors = 0


# While it takes time


def slow_hook() -> tuple[Hook, asyncio.Event]:
    may_go_on = asyncio.Event()

    async def approve(credential: str, approach: Approach) -> str:
        await may_go_on.wait()
        return credential

    return Hook(approve), may_go_on


@pytest.mark.parametrize(
    "frame",
    [Hello(Auth("hook", "eve")), Request(1, "mine", Raw(MSGPACK.encode({}))), Ack(1, 1), Pong(1)],
    ids=lambda frame: frame.name,
)
@in_virtual_time
async def test_nothing_is_heard_while_it_is_found_out_who_this_is(frame: Frame) -> None:
    hook, may_go_on = slow_hook()
    async with serving(auth=(hook,)) as server:
        client = await dialed(server)
        client.say(Hello(Auth("hook", "ada")))
        await a_moment()

        client.say(frame)
        close = await client.closed()
        may_go_on.set()
        await a_moment()

        assert close.reason == Reason.PROTOCOL
        assert len(server.sessions) == 0


@in_virtual_time
async def test_who_is_known_only_when_the_server_drains_is_told_to_go_elsewhere() -> None:
    hook, may_go_on = slow_hook()
    async with serving(auth=(hook,)) as server:
        client = await dialed(server)
        client.say(Hello(Auth("hook", "ada")))
        await a_moment()

        draining = asyncio.create_task(server.drain())
        await a_moment(0.1)
        may_go_on.set()

        assert (await client.closed()).reason == Reason.STOPPING
        await draining


# Links


async def link(client: RawClient, scheme: str, credential: str) -> Reply:
    return await client.request("link", scheme=scheme, credential=credential)


@in_virtual_time
async def test_of_two_sessions_that_link_the_same_account_at_once_one_goes_on() -> None:
    slow = SlowLink()
    async with serving(auth=(Guest(), slow)) as server:
        first, welcome = await sign_in(server, Auth("guest"))
        second, _ = await sign_in(server, Auth("guest", welcome.credential))
        for client in (first, second):
            client.ask("link", scheme="slow", credential="")
        await a_moment()
        assert slow.links == 2

        slow.may_go_on.set()
        await a_moment()

        assert [session.id for session in server.sessions] == [welcome.session]
        assert (await second.closed()).reason == Reason.SIGNED_OUT
        assert (await first.request("mine")).problem is None


@pytest.mark.parametrize("end", ["kick", "ban", "sign out"])
@in_virtual_time
async def test_a_session_that_ends_while_it_is_linked_is_not_proven_anew(end: str) -> None:
    slow = SlowLink()
    async with serving(auth=(Guest(), slow)) as server:
        told: list[Authenticated] = []
        server.on(Authenticated, told.append)
        client, welcome = await sign_in(server, Auth("guest"))
        client.ask("link", scheme="slow", credential="gm")
        await a_moment()
        session = server.sessions.get(welcome.session)
        assert session is not None

        match end:
            case "kick":
                session.end("go")
            case "ban":
                await server.ban(player=welcome.player)
            case _:
                await server.sign_out(welcome.player)
        slow.may_go_on.set()
        await a_moment()

        assert [each.scheme for each in told] == ["guest"]
        assert not session.roles
        assert (await refused(server, welcome)).reason in {Reason.EXPIRED, Reason.BANNED}


@in_virtual_time
async def test_other_sessions_of_a_guest_end_too_that_still_lie_in_the_store() -> None:
    async with serving(hall(), recovery="lazy", auth=doors()) as server:
        seat, welcome = await sign_in(server, Auth("guest"))
        await seat.join("hall")
        left, left_welcome = await sign_in(server, Auth("guest", welcome.credential))
        await left.join("hall")
        await left.request("leave")
        mine, my_welcome = await sign_in(server, Auth("guest", welcome.credential))
        await mine.join("hall")
        await mine.request("leave")
        server.crash()
        await server.start()
        client = await dialed(server)
        await client.resume(my_welcome)

        assert (await link(client, "password", f"ada:{SECRET}")).problem is None

        for other in (welcome, left_welcome):
            assert (await refused(server, other)).reason == Reason.EXPIRED
        assert [session.id for session in server.sessions] == [my_welcome.session]
