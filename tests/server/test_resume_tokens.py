import logging

import pytest

from holdfast import Auth, Limits, Outcome, Reason
from holdfast.client.saved import SavedState
from holdfast.core.reasons import CLOSE_CODES
from holdfast.schemas.frames import Data, Hello, Position, Resume
from tests.server.world import Say, World, chat, until_resumed


async def test_a_hello_that_a_newer_connection_has_overtaken_does_not_revoke_the_session(world: World) -> None:
    server = await world.serve(chat())
    first = await world.raw(server)
    welcome = await first.sign_in()
    held_up = await world.raw(server)
    newer = await world.raw(server)
    await newer.resume(welcome)
    # It has used up the token of the first welcome.
    await newer.request("search")

    held_up.ask_to_resume(welcome)

    assert (await held_up.closed()).reason == Reason.SUPERSEDED
    assert (await newer.request("search")).problem is None


async def test_a_used_token_revokes_the_session_and_both_ends_are_told(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    first = await world.raw(server)
    stolen = await first.sign_in()
    await first.join()
    owner = await world.raw(server)
    await owner.resume(stolen, Position(1, 1, 0))
    await owner.request("search")

    thief = await world.raw(server)
    thief.ask_to_resume(stolen, auth=Auth())

    for client in (thief, owner):
        close = await client.closed()
        assert (close.code, close.reason) == (CLOSE_CODES[Reason.TOKEN_REUSED], Reason.TOKEN_REUSED)
    assert kind.story.lines[-1] == ("on_leave", stolen.player, Reason.TOKEN_REUSED)
    assert len(server.sessions) == 0
    assert server.counters.tokens_reused == 1


async def test_a_token_that_was_never_issued_opens_nothing_and_harms_nobody(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    owner = await world.raw(server)
    welcome = await owner.sign_in()
    await owner.join()

    guesser = await world.raw(server)
    guesser.say(Hello(None, Resume(welcome.session, "A" * 43)))
    close = await guesser.closed()

    assert close.reason == Reason.EXPIRED
    owner.send(1, Say("still me"))
    await owner.hear(Data)
    assert kind.story.of("on_drop") == []


async def test_a_welcome_that_was_lost_does_not_cost_the_session(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    client = await world.raw(server)
    welcome = await client.sign_in()
    await client.join()
    client.cut()
    await kind.story.has("on_drop")
    attempts = Limits().retired_tokens_max + 4

    for attempt in range(attempts):
        deaf = await world.raw(server)
        deaf.link.pause_reading()
        deaf.ask_to_resume(welcome)
        await kind.story.has("on_rejoin", times=attempt + 1)
        deaf.cut()
        await kind.story.has("on_drop", times=attempt + 2)
    back = await world.raw(server)
    second = await back.resume(welcome, Position(1, 1, 0))

    assert second.outcome == Outcome("resumed")
    assert second.session == welcome.session


async def test_no_secret_is_in_any_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    kind = chat(grace_s=0.0)
    server = await world.serve(kind)
    first = await world.raw(server)
    signed_in = await first.sign_in()
    second = await world.raw(server)
    resumed = await second.resume(signed_in)
    await second.join()
    thief = await world.raw(server)
    thief.ask_to_resume(signed_in, auth=Auth("guest", signed_in.credential))
    await thief.closed()
    wrong = await world.raw(server)
    wrong.say(Hello(Auth("guest", signed_in.credential + "x")))
    await wrong.closed()
    session = await world.connect(server)
    await session.join_or_create("chat")
    await until_resumed(session, session.cut)
    saved = SavedState.read(session.protocol.save())

    secrets = {signed_in.token, resumed.token, signed_in.credential, session.credential, saved.token}

    assert f"token.reused session={signed_in.session}" in caplog.text
    assert [secret for secret in secrets if secret and secret in caplog.text] == []


async def test_no_secret_is_in_any_repr(world: World) -> None:
    server = await world.serve(chat())
    client = await world.raw(server)
    welcome = await client.sign_in()
    session = await world.connect(server)
    saved = SavedState.read(session.protocol.save())
    auth = Auth("guest", welcome.credential)
    resume = Resume(welcome.session, welcome.token)

    shown = repr(
        [welcome, auth, resume, Hello(auth, resume), saved, session, session.protocol, *server.sessions, server.parts]
    )
    secrets = {welcome.token, welcome.credential, session.credential, saved.token}

    assert [secret for secret in secrets if secret in shown] == []
