"""A guest gets an account and stays the same player, on the same seat, in the same session."""

import asyncio

import pytest

from holdfast import Auth, Conflict, Invalid, Limits, NotAllowed, NotFound, Reason, SessionEnded, Throttled
from holdfast.identity import Busy, Guest, Jwt, Password
from holdfast.schemas.events import Authenticated, SignInFailed
from holdfast.server.context import Environment
from holdfast.sync import connect as connect_blocking
from tests.identity.issuer import AUDIENCE, ISSUER, Signer
from tests.identity.plain import PlainHashing
from tests.server.identity.authenticators import SECRET, SlowLink, doors
from tests.server.world import Hero, Say, World, chat, player_in, server_side, texts_until

ADA = Auth.password("Ada", SECRET)


async def test_a_guest_registers_and_keeps_id_seat_and_data(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    player_in(server, room, session).data.hp = 7
    before = (session.id, session.player_id)

    await session.link(ADA)

    assert (session.id, session.player_id) == before
    assert player_in(server, room, session).data == Hero(hp=7)
    await room.send(Say("still me"))
    assert await texts_until(room, "still me") == ["still me"]


async def test_the_account_signs_in_as_the_same_player_and_the_guest_does_not_any_more(world: World) -> None:
    server = await world.serve(chat(grace_s=60.0), auth=doors())
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    guest = Auth("guest", session.credential)
    await session.link(ADA)

    phone = await world.connect(server, auth=Auth.password("ADA", SECRET))
    with pytest.raises(SessionEnded, match="has an account now") as ended:
        await world.connect(server, auth=guest)

    assert phone.player_id == session.player_id
    assert [info.id for info in await phone.my_rooms()] == [room.id]
    assert ended.value.reason == Reason.AUTH_FAILED


async def test_a_guest_takes_an_account_that_waits_for_a_player_with_its_roles(world: World) -> None:
    auth = doors(register=False)
    server = await world.serve(chat(), auth=auth)
    await auth[1].create_account("ada", SECRET, roles=["gm"])
    session = await world.connect(server)
    told: list[Authenticated] = []
    server.on(Authenticated, told.append)

    await session.link(ADA)

    assert server_side(server, session).roles == {"gm"}
    (event,) = told
    assert (event.session, event.player, event.scheme, event.roles) == (
        session.id,
        session.player_id,
        "password",
        ["gm"],
    )


async def test_a_guest_is_linked_to_a_token_of_an_identity_provider(world: World) -> None:
    key = bytes(range(32))
    jwt = Jwt(issuer=ISSUER, audience=AUDIENCE, algorithms=["HS256"], keys=key)
    server = await world.serve(chat(), auth=doors(jwt), _environment=Environment(wall_clock=lambda: 1_700_000_000.0))
    session = await world.connect(server)
    token = Auth("jwt", Signer("HS256", key).token())

    await session.link(token)

    assert (await world.connect(server, auth=token)).player_id == session.player_id


async def test_an_account_with_a_player_is_refused_and_the_guest_stays_a_guest(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    ada, bob = await world.connect(server), await world.connect(server)
    await ada.link(ADA)

    with pytest.raises(Conflict, match="sign in with it instead"):
        await bob.link(ADA)

    assert (await world.connect(server, auth=Auth("guest", bob.credential))).player_id == bob.player_id


async def test_only_a_guest_can_be_linked_and_only_once(world: World) -> None:
    auth = doors()
    server = await world.serve(chat(), auth=auth)
    await auth[1].create_account("bob", SECRET)
    bob = await world.connect(server, auth=Auth.password("bob", SECRET))
    ada = await world.connect(server)
    await ada.link(ADA)

    with pytest.raises(Conflict, match="only a guest"):
        await bob.link(Auth.password("cleo", SECRET))
    with pytest.raises(Conflict, match="has an account already"):
        await ada.link(Auth.password("cleo", SECRET))


async def test_other_sessions_of_the_guest_end(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    session = await world.connect(server)
    other = await world.connect(server, auth=Auth("guest", session.credential))

    await session.link(ADA)

    # It cannot come back as the guest either.
    with pytest.raises(SessionEnded, match="has an account now"):
        await other.search("chat")
    assert [each.id for each in server.sessions] == [session.id]


async def test_what_cannot_be_linked_is_refused_with_a_reason(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    session = await world.connect(server)

    with pytest.raises(NotFound, match="this server has: guest, password"):
        await session.link(Auth("steam", "x"))
    with pytest.raises(Invalid, match="cannot be linked with the scheme 'guest'"):
        await session.link(Auth("guest", session.credential))
    with pytest.raises(Invalid, match="8 to 256"):
        await session.link(Auth.password("ada", "short"))

    assert session.credential


async def test_guesses_are_counted_told_and_come_to_an_end(world: World) -> None:
    auth = doors()
    server = await world.serve(chat(), auth=auth, limits=Limits(wrong_guesses_max=3))
    await auth[1].create_account("ada", SECRET)
    session = await world.connect(server)
    told: list[SignInFailed] = []
    server.on(SignInFailed, told.append)

    for _ in range(3):
        with pytest.raises(NotAllowed, match="do not belong together"):
            await session.link(Auth.password("ada", "wrong horse"))
    with pytest.raises(Throttled):
        await session.link(ADA)

    assert [(event.scheme, event.reason) for event in told] == [("password", Reason.AUTH_FAILED)] * 3


async def test_who_cannot_be_checked_now_is_told_to_ask_again(world: World) -> None:
    class Full(PlainHashing):
        async def hash(self, password: bytes) -> str:
            raise Busy("too many passwords are being checked at the moment", 2.0)

    server = await world.serve(chat(), auth=[Guest(), Password(register=True, hashing=Full())])
    session = await world.connect(server)

    with pytest.raises(Throttled, match="too many passwords"):
        await session.link(ADA)


async def test_one_who_never_answers_is_not_waited_for(world: World) -> None:
    server = await world.serve(chat(), auth=doors(SlowLink()), limits=Limits(auth_s=0.05))
    session = await world.connect(server)

    with pytest.raises(Throttled, match="took too long"):
        await session.link(Auth("slow", "gm"))


async def test_an_authenticator_that_fails_is_contained(world: World) -> None:
    class Broken(SlowLink):
        async def link(self, *_: object) -> None:  # type: ignore[override]  # broken as it is
            raise ValueError("a bug")

    server = await world.serve(chat(), auth=doors(Broken()))
    session = await world.connect(server)

    with pytest.raises(Exception, match="the server failed"):
        await session.link(Auth("slow", "gm"))

    assert server.counters.internal_errors == 1
    assert session.connected


async def test_after_a_reset_the_client_signs_in_with_its_account(world: World) -> None:
    server = await world.serve(chat(), auth=doors())
    session = await world.connect(server)
    await session.link(ADA)
    before = session.id

    # As after a crash without a store, but for the accounts.
    told = asyncio.Event()
    session.on_resume(lambda _: told.set())
    server.parts.sessions.end(server_side(server, session), Reason.EXPIRED)
    session.cut()
    await told.wait()

    assert session.id != before
    assert session.outcome is not None
    assert session.outcome.kind == "reset"
    assert (await world.connect(server, auth=ADA)).player_id == session.player_id


async def test_the_blocking_client_links_too(world: World) -> None:
    server = await world.serve(chat(), auth=doors())

    def play() -> tuple[str, str]:
        with connect_blocking(server.url) as guest:
            guest.link(ADA)
            player_id = guest.player_id
        with connect_blocking(server.url, auth=ADA) as ada:
            return player_id, ada.player_id

    before, after = await asyncio.to_thread(play)

    assert before == after
