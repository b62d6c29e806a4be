"""Limits for some: by role, and for one session; at the start, at run time, across drops and crashes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Auth, Invalid, Limits, Reason, RoleLimits, Throttled
from holdfast.core.limits import MIB
from holdfast.events import LimitExceeded
from holdfast.identity import Approach, Identity
from holdfast.schemas.frames import Close, Welcome
from holdfast.testing import FaultyStore, MemoryServer, Named
from tests.server.durability.bench import in_virtual_time, until
from tests.server.limits.street import Guest, Hall, Say, Town, later, patient
from tests.server.limits.test_flooding import FEW, acknowledged, refusals

GM = RoleLimits(messages_burst=1000, messages_per_s=1000.0)
TIGHT = {**FEW, "violations_warned_max": 0}


class Saved(Hall):
    kind = "hall"
    durability = "commit"
    grace_s = 600.0


class Badges(Named):
    """A name, and roles after it: "ada+gm"."""

    def authenticate(self, credential: str, approach: Approach) -> Identity:
        name, *roles = credential.split("+")
        return Identity(name, frozenset(roles))


@asynccontextmanager
async def town(*rooms: Any, store: Any = None, **limits: Any) -> AsyncIterator[Town]:
    server = Town(patient(**limits), rooms or (Hall,), auth=[Badges()], store=store)
    async with server:
        yield server


def session_of(server: Town, guest: Guest) -> Any:
    session = server.sessions.get(guest.welcome.session)
    assert session is not None
    return session


@in_virtual_time
async def test_a_role_has_a_rate_of_its_own_and_others_keep_the_servers() -> None:
    async with town(**TIGHT, by_role={"gm": GM}) as server:
        gm, eve = await server.seated("ada+gm"), await server.seated("eve")

        gm.say(200)
        eve.say(12)
        await until(lambda: acknowledged(gm) == 200 and acknowledged(eve) == 12)

        assert refusals(gm) == []
        assert refusals(eve) == [(11, "throttled"), (12, "throttled")]
        assert session_of(server, gm).limits.messages_per_s == 1000.0
        assert session_of(server, eve).limits is server.limits
        assert {each.player for each in server.told} == {"eve"}


@in_virtual_time
async def test_a_session_with_several_roles_has_the_most_generous_value_of_each() -> None:
    by_role = {
        "gm": RoleLimits(messages_per_s=500.0, idle_s=0.0),
        "bot": RoleLimits(messages_per_s=50.0, requests_per_s=70.0, idle_s=60.0),
        "guest": RoleLimits(messages_per_s=2.0),
    }
    async with town(messages_per_s=200.0, idle_s=30.0, by_role=by_role) as server:
        both, bot, slow = await server.guest("a+gm+bot"), await server.guest("b+bot+x"), await server.guest("c+guest")

        limits = session_of(server, both).limits
        assert (limits.messages_per_s, limits.requests_per_s, limits.idle_s) == (500.0, 70.0, 0.0)
        assert session_of(server, bot).limits.messages_per_s == 50.0
        # A role may also have less than others.
        assert session_of(server, slow).limits.messages_per_s == 2.0
        assert session_of(server, slow).limits.idle_s == 30.0
        # Sessions with the same limits share them.
        again = await server.guest("d+bot")
        assert session_of(server, again).limits is session_of(server, bot).limits


@in_virtual_time
async def test_a_role_that_is_granted_or_revoked_changes_the_limits_of_open_connections_at_once() -> None:
    async with town(**TIGHT, by_role={"gm": GM}) as server:
        ada = await server.seated("ada")
        ada.say(10)
        await until(lambda: acknowledged(ada) == 10)

        await server.operate.players.grant("ada", "gm")
        ada.say(100)
        await until(lambda: acknowledged(ada) == 110)
        assert refusals(ada) == []

        await server.operate.players.revoke("ada", "gm")
        ada.say(1)
        await until(lambda: acknowledged(ada) == 111)
        # What was said before counts.
        assert refusals(ada) == [(111, "throttled")]
        await later(20.0)
        ada.say(10)
        await until(lambda: acknowledged(ada) == 121)
        assert refusals(ada) == [(111, "throttled")]


@in_virtual_time
async def test_a_limit_of_one_session_wins_over_its_roles_and_is_undone_with_none() -> None:
    async with town(**TIGHT, by_role={"gm": GM}) as server:
        gm, other = await server.seated("ada+gm"), await server.seated("bob+gm")

        shown = server.operate.sessions.limit(gm.welcome.session, messages_burst=3, messages_per_s=1)
        gm.say(5)
        other.say(5)
        await until(lambda: acknowledged(gm) == 5 and acknowledged(other) == 5)

        assert shown.limits == {"messages_burst": 3, "messages_per_s": 1}
        assert refusals(gm) == [(4, "throttled"), (5, "throttled")]
        assert refusals(other) == []
        undone = server.operate.sessions.limit(gm.welcome.session, messages_burst=None, messages_per_s=None)
        assert undone.limits == {"messages_burst": 1000, "messages_per_s": 1000.0}
        gm.say(50)
        await until(lambda: acknowledged(gm) == 55)
        assert len(refusals(gm)) == 2


@in_virtual_time
async def test_a_limit_of_one_session_survives_drops_and_goes_with_the_session() -> None:
    async with town(**TIGHT) as server:
        ada = await server.seated("ada")
        server.operate.sessions.limit(ada.welcome.session, messages_burst=500, messages_per_s=500.0)
        ada.client.cut()
        await until(lambda: session_of(server, ada).connection is None)
        # Long enough for its allowances to be forgotten.
        await later(20.0)

        back = await ada.come_back()
        await back.hear(Welcome)
        ada.client = back
        ada.say(100)
        await until(lambda: acknowledged(ada) == 100)

        assert refusals(ada) == []
        new = await server.guest("ada")
        assert session_of(server, new).limits is server.limits


@in_virtual_time
async def test_limits_of_roles_and_of_sessions_survive_a_crash_with_a_saved_session() -> None:
    by_role = {"gm": RoleLimits(requests_per_s=77.0), "vip": RoleLimits(bytes_burst=3 * MIB)}
    async with town(Saved, store=FaultyStore(), by_role=by_role) as server:
        ada = await server.seated("ada+gm")
        await server.operate.players.grant("ada", "vip")
        server.operate.sessions.limit(ada.welcome.session, messages_burst=123, idle_s=7)
        await later(1.0)

        server.crash()
        await server.start()

        shown = server.operate.sessions.get(ada.welcome.session)
        limits = session_of(server, ada).limits
        assert (limits.requests_per_s, limits.bytes_burst, limits.messages_burst, limits.idle_s) == (
            *(77.0, 3 * MIB, 123, 7.0),
        )
        assert shown.limits == {"requests_per_s": 77.0, "bytes_burst": 3 * MIB, "messages_burst": 123, "idle_s": 7.0}
        assert server.operate.sessions.limit(ada.welcome.session, messages_burst=None, idle_s=None).limits == {
            "requests_per_s": 77.0,
            "bytes_burst": 3 * MIB,
        }


@in_virtual_time
async def test_a_game_changes_the_limits_of_a_session_itself() -> None:
    async with town() as server:
        ada = await server.seated("ada")
        (player,) = server.hall().players

        player.session.limit(requests_burst=2, requests_per_s=0.001)

        assert player.session.limits.requests_burst == 2
        for _ in range(3):
            await ada.client.request("search")
        assert ("requests_per_s", "warned") in server.limits_told()


# Spectators and agents


class Show(Hall):
    kind = "hall"
    max_spectators = 10


@in_virtual_time
async def test_who_only_watches_has_the_limits_of_spectators_until_they_sit_down() -> None:
    by_role = {"spectator": RoleLimits(messages_per_s=2.0, idle_s=0.0), "gm": RoleLimits(messages_per_s=500.0)}
    async with MemoryServer([Show], limits=patient(by_role=by_role), auth=[Badges()]) as server:
        room = await server.create_room("hall")
        ada = await server.connect(auth=Auth(Badges.scheme, "ada"))
        gm = await server.connect(auth=Auth(Badges.scheme, "eve+gm"))
        theirs, gms = server.sessions.get(ada.id), server.sessions.get(gm.id)
        assert theirs is not None
        assert gms is not None
        assert theirs.limits is server.limits

        watched = await ada.spectate(room.id)
        await gm.spectate(room.id)
        assert (theirs.limits.messages_per_s, theirs.limits.idle_s) == (2.0, 0.0)
        assert (gms.limits.messages_per_s, gms.limits.idle_s) == (500.0, 0.0)

        await watched.leave()
        assert theirs.limits is server.limits
        await ada.spectate(room.id)
        assert theirs.limits.messages_per_s == 2.0
        await ada.join(room.id)
        assert theirs.limits is server.limits


@in_virtual_time
async def test_agents_have_no_limits_unless_their_role_or_one_of_theirs_has() -> None:
    by_role = {"agent": RoleLimits(messages_burst=3, messages_per_s=1.0, idle_s=1.0), "fast": GM}
    async with town(**TIGHT, by_role=by_role) as server, town(**TIGHT) as other:
        room, free = await server.create_room("hall"), await other.create_room("hall")
        slow = await server.open_agent("slow").join(room.id)
        quick = await server.open_agent("quick", roles=["fast"]).join(room.id)
        unlimited = await other.open_agent("slow").join(free.id)

        for number in range(3):
            await slow.send(Say(number))
        with pytest.raises(Throttled, match="this agent sends too many messages at once"):
            await slow.send(Say(3))
        for number in range(100):
            await quick.send(Say(number))
            await unlimited.send(Say(number))

        # An agent is never idle: nobody has to come back for it.
        await later(60.0)
        await slow.send(Say(4))


@in_virtual_time
async def test_a_session_of_an_agent_is_limited_like_any_other_also_after_it_was_away() -> None:
    async with town() as server:
        room = await server.create_room("hall")
        agent = server.open_agent("bot")
        seat = await agent.join(room.id)

        agent.session.limit(messages_burst=2, messages_per_s=0.01)
        agent.session.disconnect()
        agent.resume()
        await seat.send(Say(1))
        await seat.send(Say(2))
        with pytest.raises(Throttled):
            await seat.send(Say(3))
        agent.session.limit(messages_burst=None, messages_per_s=None)

        for number in range(50):
            await seat.send(Say(number))


# Idle and age


@in_virtual_time
async def test_a_role_may_be_idle_for_ever_and_another_only_for_a_moment() -> None:
    by_role = {"gm": RoleLimits(idle_s=0.0), "guest": RoleLimits(idle_s=10.0)}
    async with town(idle_s=60.0, by_role=by_role) as server:
        gm, guest, ada = await server.guest("g+gm"), await server.guest("v+guest"), await server.guest("ada")

        await later(15.0)
        assert (await guest.client.closed()).reason == Reason.IDLE
        await later(50.0)
        assert (await ada.client.closed()).reason == Reason.IDLE
        await later(2000.0)

        assert [session.player_id for session in server.sessions] == ["g"]
        assert not gm.client.all_heard(Close)


@pytest.mark.parametrize("idle_s", [0.0, 1800.0])
@in_virtual_time
async def test_a_shorter_idle_time_ends_an_open_session_though_it_had_no_or_a_later_timer(idle_s: float) -> None:
    async with town(idle_s=idle_s) as server:
        ada = await server.guest("ada")
        await later(100.0)

        server.operate.sessions.limit(ada.welcome.session, idle_s=300)
        await later(199.0)
        assert len(server.sessions) == 1
        await later(2.0)

        assert (await ada.client.closed()).reason == Reason.IDLE


@in_virtual_time
async def test_a_longer_idle_time_and_a_highest_age_hold_for_one_session() -> None:
    async with town(idle_s=60.0) as server:
        ada, bob = await server.guest("ada"), await server.guest("bob")
        server.operate.sessions.limit(ada.welcome.session, idle_s=0, session_age_max_s=1000)

        await later(999.0)
        assert (await bob.client.closed()).reason == Reason.IDLE
        assert len(server.sessions) == 1
        await later(2.0)

        assert (await ada.client.closed()).reason == Reason.TOO_OLD


# How many sessions


@in_virtual_time
async def test_a_role_may_have_more_sessions_than_others_also_one_that_was_granted() -> None:
    by_role = {"gm": RoleLimits(sessions_per_player_max=5)}
    async with town(sessions_per_player_max=2, sessions_policy="refuse", by_role=by_role) as server:
        await server.operate.players.grant("zoe", "gm")
        for _ in range(5):
            await server.guest("ada+gm")
            await server.guest("zoe")
        for _ in range(2):
            await server.guest("bob")

        assert "already has 5 sessions" in (await (await server.call("ada+gm")).closed()).message
        assert "already has 5 sessions" in (await (await server.call("zoe")).closed()).message
        assert "already has 2 sessions" in (await (await server.call("bob")).closed()).message


# How many rooms


@in_virtual_time
async def test_a_role_may_have_more_rooms_than_others_or_fewer_also_one_that_was_granted() -> None:
    by_role = {"gm": RoleLimits(rooms_per_player_max=3), "new": RoleLimits(rooms_per_player_max=0)}
    async with MemoryServer([Hall], limits=Limits(rooms_per_player_max=1, by_role=by_role)) as server:
        ada, bob = await server.connect("ada", name="Ada"), await server.connect("bob", name="Bob")
        await server.operate.players.grant("ada", "gm")
        await server.operate.players.grant("bob", "new")

        heard: list[LimitExceeded] = []
        server.on(LimitExceeded)(heard.append)

        for _ in range(3):
            await ada.create("hall")

        with pytest.raises(Throttled, match="you have created 3 rooms"):
            await ada.create("hall")
        with pytest.raises(Throttled, match="you may not create rooms"):
            await bob.join_or_create("hall", where="properties.level = 1", properties={"level": 1})
        await server.operate.players.reset_roles("bob")
        await bob.create("hall")
        assert [(each.limit, each.player, each.player_name) for each in heard] == [
            ("rooms_per_player_max", "ada", "Ada"),
            ("rooms_per_player_max", "bob", "Bob"),
        ]


# Mistakes


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"mesages_per_s": 5}, "cannot be set for a role or a session; these can: messages_burst, messages_per_s"),
        ({"rooms_max": 5}, "`rooms_max` cannot be set for a role or a session; these can: messages_burst"),
        ({"cls": 5, "self": 6, "session_id": 7}, "cannot be set for a role or a session"),
        ({"rooms_max": None}, "cannot be set for a role or a session"),
        ({"messages_per_s": 0}, "messages_per_s must be above 0; got 0"),
        ({"idle_s": -1}, "idle_s must be 0 or more; got -1"),
        ({"messages_burst": 2.5}, "messages_burst must be a whole number; got 2.5"),
        ({"idle_s": "soon"}, "idle_s must be a number; got 'soon'"),
        ({"sessions_per_player_max": 5}, "counts the sessions of a player: set it for a role"),
        ({"rooms_per_player_max": 5}, "counts the rooms of a player: set it for a role"),
    ],
)
@in_virtual_time
async def test_a_limit_that_cannot_be_set_is_refused_and_nothing_changes(limits: dict[str, Any], why: str) -> None:
    async with town() as server:
        ada = await server.guest("ada")

        with pytest.raises(Invalid, match=why):
            server.operate.sessions.limit(ada.welcome.session, **{"requests_burst": 7, **limits})

        assert session_of(server, ada).limits is server.limits
        assert server.operate.sessions.get(ada.welcome.session).limits == {}


@in_virtual_time
async def test_the_settings_show_the_limits_of_roles_beside_those_of_everybody() -> None:
    async with town(by_role={"gm": GM}) as server:
        shown = {each.name: (each.value, each.default) for each in server.operate.node.settings().limits}

        assert shown["gm.messages_per_s"] == (1000.0, 200.0)
        assert "by_role" not in shown
