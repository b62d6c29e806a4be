"""What went wrong elsewhere, and must not here. (Tokens that outlive a kick: test_tokens.py.)

- Boss Room 6.6: the player's id is claimed by the client.
- Boss Room 6.7: any refusal removes the player whose id was named.
- Evennia #2055: a session is handed to another player, because ids begin at 1 again after a restart.
"""

import pytest
from msgspec import structs

import holdfast
from holdfast import Auth, Duplicate, Reason, RoomFull
from holdfast.schemas.frames import Close, Hello, Resume, Welcome
from holdfast.server.durability.recovery import Pace
from tests.server.access.kit import back, hall, refused, seated, seats, serving, sign_in, turned_away
from tests.server.durability.bench import in_virtual_time
from tests.server.world import Say, World, chat, texts_until


async def test_naming_a_player_is_not_being_them(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")

    for credential in (ada.player_id, f"{ada.player_id}.", f"{ada.player_id}.wrong", f".{ada.player_id}"):
        stranger = await world.raw(server)
        stranger.say(Hello(Auth("guest", credential)))
        assert (await stranger.closed()).reason == Reason.AUTH_FAILED

    await room.send(Say("still here"))
    assert await texts_until(room, "still here") == ["still here"]
    assert [player.id for player in server.rooms.get(room.id).players] == [ada.player_id]  # type: ignore[union-attr]
    assert kind.story.of("on_drop") == kind.story.of("on_leave") == []


@pytest.mark.parametrize(
    "why", ["wrong token", "this session has ended", "banned player", "too many sessions", "full room", "duplicate"]
)
@in_virtual_time
async def test_a_refusal_takes_nothing_from_the_player_whose_name_was_used(why: str) -> None:
    limits = holdfast.Limits(sessions_per_player_max=2, sessions_policy="refuse", ping_s=3600.0, silence_s=7200.0)
    kind = hall(max_players=1, duplicate="reject")
    async with serving(kind, limits=limits) as server:
        ada = await seated(server, "ada")
        (room,) = server.rooms
        session, token = ada.welcome.session, ada.welcome.token

        match why:
            case "wrong token":
                assert (await refused(server, _forged(ada.welcome, session, "x" * 43))).reason == Reason.EXPIRED
            case "this session has ended":
                assert (await refused(server, _forged(ada.welcome, "x" * 16, token))).reason == Reason.EXPIRED
            case "banned player":
                await server.ban(player="eve")
                assert (await turned_away(server, "eve")).reason == Reason.BANNED
            case "too many sessions":
                await sign_in(server, "ada")
                assert (await turned_away(server, "ada")).reason == Reason.REFUSED
            case "full room":
                bob = await sign_in(server, "bob")
                with pytest.raises(RoomFull):
                    await bob.join(room.id)
            case _:
                twin = await sign_in(server, "ada")
                with pytest.raises(Duplicate):
                    await twin.join(room.id)

        assert seats(server) == ["ada"]
        assert ada.client.all_heard(Close) == []
        assert (await ada.client.request("mine")).problem is None


def _forged(welcome: Welcome, session: str, token: str) -> Welcome:
    return structs.replace(welcome, session=session, token=token)


@pytest.mark.parametrize("recovery", ["eager", "lazy"])
@in_virtual_time
async def test_a_session_of_before_a_restart_is_never_somebody_else_s_afterwards(recovery: Pace) -> None:
    async with serving(hall(durability="memory"), recovery=recovery) as server:
        before = [await seated(server, name) for name in ("ada", "bob", "cleo")]
        server.crash()
        await server.start()
        after = [await seated(server, name) for name in ("zoe", "yan", "xia")]

        ids = [caller.welcome.session for caller in (*before, *after)]
        assert len(set(ids)) == len(ids)
        for caller in before:
            assert (await refused(server, caller.welcome)).reason == Reason.EXPIRED
            again = await back(server, caller.welcome, auth=Auth("badge", caller.welcome.player))
            assert (again.player, again.outcome.kind) == (caller.welcome.player, "reset")
        for caller in after:
            assert (await caller.client.request("mine")).problem is None


async def test_sessions_and_connections_of_two_starts_have_nothing_in_common(world: World) -> None:
    ids: list[str] = []
    for _ in range(2):
        async with holdfast.Server([chat()], listen=[holdfast.WebSocket(port=0)]) as server:
            for _ in range(3):
                client = await world.raw(server)
                welcome = await client.sign_in()
                session = server.sessions.get(welcome.session)
                assert session is not None
                assert session.connection is not None
                ids += [welcome.session, session.connection.id]
                await client.close()

    assert len(set(ids)) == len(ids) == 12


async def test_one_player_s_id_with_another_s_token_opens_nothing(world: World) -> None:
    server = await world.serve(chat())
    ada, eve = await world.raw(server), await world.raw(server)
    hers, other = await ada.sign_in(), await eve.sign_in()

    thief = await world.raw(server)
    thief.say(Hello(None, Resume(hers.session, other.token, [])))

    assert (await thief.closed()).reason == Reason.EXPIRED
    assert {str(session.player_id) for session in server.sessions} == {hers.player, other.player}
    assert ada.all_heard(Close) == eve.all_heard(Close) == []
