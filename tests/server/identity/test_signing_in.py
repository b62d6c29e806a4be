"""Several ways to sign in at once, and what a client hears who is not let in."""

import asyncio
import logging
from pathlib import Path

import pytest

from holdfast import Auth, Limits, Reason, Refused, Server, SessionEnded
from holdfast.identity import Approach, Argon2Settings, Busy, Guest, Hook, Identity, NotAuthentic, Password, Tickets
from holdfast.schemas.frames import Hello, Welcome
from tests.server.identity.authenticators import SECRET, doors, hook
from tests.server.world import World, chat, server_side


async def test_without_any_other_way_everybody_is_a_guest(world: World) -> None:
    server = await world.serve(chat())

    assert (await world.connect(server)).player_id.startswith("guest-")
    with pytest.raises(SessionEnded, match="this server has: guest") as ended:
        await world.connect(server, auth=Auth.password("ada", SECRET))
    assert ended.value.reason == Reason.AUTH_FAILED


async def test_several_ways_are_open_at_once(world: World) -> None:
    tickets = Tickets()
    auth = doors(tickets, Hook(lambda credential, _: f"hooked-{credential}"))
    server = await world.serve(chat(), auth=auth)
    await auth[1].create_account("ada", SECRET, player_id="ada-1", roles=["gm"])

    guest = await world.connect(server)
    by_password = await world.connect(server, auth=Auth.password("Ada", SECRET))
    by_hook = await world.connect(server, auth=Auth("hook", "bob"))
    by_ticket = await world.connect(server, auth=Auth("ticket", tickets.issue("cleo", ["dev"])))

    assert guest.player_id.startswith("guest-")
    assert [each.player_id for each in (by_password, by_hook, by_ticket)] == ["ada-1", "hooked-bob", "cleo"]
    assert server_side(server, by_password).roles == {"gm"}
    assert server_side(server, by_ticket).roles == {"dev"}


def test_two_authenticators_of_one_scheme_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="each scheme has one authenticator; got guest, hook, guest"):
        Server([], auth=[Guest(), Hook(lambda *_: "x"), Guest()])


async def test_a_guest_without_a_key_is_known_after_a_restart_if_there_is_a_store(world: World, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'game.db'}"
    first = await world.serve(chat(), auth=[Guest()], store=store)
    before = await world.connect(first)
    await first.stop()

    second = await world.serve(chat(), auth=[Guest()], store=store)
    after = await world.connect(second, auth=Auth("guest", before.credential))

    assert after.player_id == before.player_id


async def test_accounts_are_there_after_a_restart_with_real_hashes_in_a_real_store(
    world: World, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path / 'game.db'}"
    password = Password(settings=Argon2Settings(memory_kib=64, passes=1))
    first = await world.serve(chat(), auth=[password], store=store)
    await password.create_account("ada", SECRET)
    before = await world.connect(first, auth=Auth.password("ada", SECRET))
    await first.stop()

    second = await world.serve(chat(), auth=[Password(settings=Argon2Settings(memory_kib=128))], store=store)
    after = await world.connect(second, auth=Auth.password("ADA", SECRET))
    with pytest.raises(SessionEnded) as ended:
        await world.connect(second, auth=Auth.password("ada", "wrong horse"))

    assert after.player_id == before.player_id
    assert ended.value.reason == Reason.AUTH_FAILED
    assert SECRET.encode() not in (tmp_path / "game.db").read_bytes()


async def test_the_same_server_starts_again_with_the_same_authenticators(world: World) -> None:
    password = Password(settings=Argon2Settings(memory_kib=64, passes=1))
    server = await world.serve(chat(), auth=[password])
    await server.stop()

    await server.start()
    # Without a store it begins anew.
    await password.create_account("ada", SECRET)

    assert (await world.connect(server, auth=Auth.password("ada", SECRET))).player_id


# Who is not let in


class MembersOnly(Refused):
    """Of the game."""

    code = "members_only"


async def test_a_refusal_of_the_game_reaches_the_client_with_its_code_and_its_words(world: World) -> None:
    server = await world.serve(chat(), auth=[hook(MembersOnly("come back with a membership"))])

    with pytest.raises(SessionEnded, match="come back with a membership") as ended:
        await world.connect(server, auth=Auth("hook", "{}"))

    assert (ended.value.reason, ended.value.problem) == (Reason.REFUSED, "members_only")


async def test_a_plain_refusal_has_a_code_too(world: World) -> None:
    server = await world.serve(chat(), auth=[hook(Refused("members only"))])

    with pytest.raises(SessionEnded) as ended:
        await world.connect(server, auth=Auth("hook", "{}"))

    assert (ended.value.reason, ended.value.problem) == (Reason.REFUSED, "refused")


async def test_a_credential_that_proves_nothing_is_another_thing(world: World) -> None:
    server = await world.serve(chat(), auth=[hook(NotAuthentic("this is no membership"))])

    with pytest.raises(SessionEnded, match="no membership") as ended:
        await world.connect(server, auth=Auth("hook", "{}"))

    assert (ended.value.reason, ended.value.problem) == (Reason.AUTH_FAILED, "")


@pytest.mark.parametrize("is_plain", [True, False])
async def test_a_hook_that_fails_harms_nobody_and_its_credential_is_not_logged(
    world: World, caplog: pytest.LogCaptureFixture, is_plain: bool
) -> None:
    caplog.set_level(logging.DEBUG)

    def fail(credential: str, approach: Approach) -> Identity:
        raise ValueError(f"cannot parse {credential}")

    async def fail_later(credential: str, approach: Approach) -> Identity:
        return fail(credential, approach)

    server = await world.serve(chat(), auth=[Guest(), Hook(fail if is_plain else fail_later)])
    client = await world.raw(server)
    client.say(Hello(Auth("hook", "a-credential-of-somebody")))

    close = await client.closed()

    assert (close.reason, close.message) == (Reason.INTERNAL, "")
    assert server.counters.internal_errors == 1
    assert "cannot parse" in caplog.text
    assert "a-credential-of-somebody" not in caplog.text
    assert (await world.connect(server)).connected


async def test_who_cannot_be_checked_now_is_told_when_to_come_back(world: World) -> None:
    server = await world.serve(chat(), auth=[hook(Busy("too many at once", 7.5))])
    client = await world.raw(server)
    client.say(Hello(Auth("hook", "{}")))

    close = await client.closed()

    assert (close.reason, close.message, close.retry_after_s) == (Reason.BUSY, "too many at once", 7.5)


async def test_a_client_that_was_told_to_come_back_does_so_by_itself(world: World) -> None:
    answers: list[Exception | str] = [Busy("too many at once", 0.01), Busy("too many at once", 0.01), "ada"]

    def approve(credential: str, approach: Approach) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    server = await world.serve(chat(), auth=[Hook(approve)])

    assert (await world.connect(server, auth=Auth("hook", "{}"))).player_id == "ada"


async def test_a_hook_has_its_time_and_no_more(world: World) -> None:
    began, never = asyncio.Event(), asyncio.Event()

    async def approve(credential: str, approach: Approach) -> str:
        began.set()
        await never.wait()
        return "ada"

    server = await world.serve(chat(), auth=[Hook(approve)], limits=Limits(auth_s=0.05))
    client = await world.raw(server)
    client.say(Hello(Auth("hook", "{}")))
    await began.wait()

    close = await client.closed()

    assert close.reason == Reason.BUSY
    assert client.all_heard(Welcome) == []


async def test_what_the_hook_says_of_a_player_is_in_the_session_from_the_start(world: World) -> None:
    def approve(credential: str, approach: Approach) -> Identity:
        return Identity("ada", frozenset({"beta"}), data={"said": credential, "by": approach.transport})

    server = await world.serve(chat(), auth=[Hook(approve)])
    session = await world.connect(server, auth=Auth("hook", '{"team": 2}'))

    side = server_side(server, session)
    assert side.data == {"said": '{"team": 2}', "by": "websocket"}
    assert side.roles == {"beta"}


async def test_a_used_ticket_is_refused(world: World) -> None:
    tickets = Tickets()
    server = await world.serve(chat(), auth=[tickets])
    auth = Auth("ticket", tickets.issue("ada"))
    await world.connect(server, auth=auth)

    with pytest.raises(SessionEnded, match="get a new one") as ended:
        await world.connect(server, auth=auth)

    assert ended.value.reason == Reason.AUTH_FAILED


async def test_tickets_from_before_a_sign_out_do_not_count(world: World) -> None:
    tickets = Tickets()
    server = await world.serve(chat(), auth=[tickets])
    before = tickets.issue("ada")

    await server.sign_out("ada")

    with pytest.raises(SessionEnded):
        await world.connect(server, auth=Auth("ticket", before))
    assert (await world.connect(server, auth=Auth("ticket", tickets.issue("ada")))).player_id == "ada"
