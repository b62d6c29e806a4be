"""Roles that operators grant and revoke: in force at once, for present, absent and later sessions."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from holdfast import (
    Auth,
    Invalid,
    Message,
    MessageRefused,
    NotAllowed,
    NotFound,
    Player,
    PlayerData,
    Room,
    RoomAgent,
    Storage,
    Throttled,
    on,
)
from holdfast.events import RoleGranted, RoleRevoked
from holdfast.identity import Guest, Password
from holdfast.schemas.events import Authenticated
from holdfast.schemas.role import RoleInfo
from holdfast.stores import Unavailable
from holdfast.testing import FaultyStore, MemoryServer
from tests.identity.plain import PlainHashing
from tests.server.access.kit import Say, back, hall, lose, seated, serving, sign_in
from tests.server.access.test_roles import Smite, _heard, court
from tests.server.directory.seats import PATIENT
from tests.server.durability.bench import a_moment, in_virtual_time


class Wait(Message):
    """A turn that takes a second."""


def roles(server: MemoryServer, session_id: str) -> set[str]:
    session = server.sessions.get(session_id)
    assert session is not None
    return set(session.roles)


@in_virtual_time
async def test_a_granted_role_lets_a_seated_player_send_what_needs_it_until_it_is_revoked() -> None:
    async with serving(court()) as server:
        eve = await seated(server, "eve")
        players = server.operate.players

        eve.client.send(1, Smite("ada"))
        assert isinstance(await _heard(eve), MessageRefused)
        granted = await players.grant("eve", "gm")
        eve.client.send(2, Smite("ada"))
        assert not isinstance(await _heard(eve), MessageRefused)
        revoked = await players.revoke("eve", "gm")
        eve.client.send(3, Smite("ada"))
        assert isinstance(await _heard(eve), MessageRefused)

        assert (granted.roles, granted.granted, granted.revoked) == (["gm"], ["gm"], [])
        assert (revoked.roles, revoked.granted, revoked.revoked) == ([], [], ["gm"])


class Throne(Room[PlayerData]):
    """Where a turn may take its time."""

    def on_create(self, config: dict[str, Any]) -> None:
        self.smitten: list[str] = []

    @on
    async def wait(self, player: Player[PlayerData], wait: Wait) -> None:
        await asyncio.sleep(1.0)

    @on(role="gm")
    def smite(self, player: Player[PlayerData], smite: Smite) -> None:
        self.smitten.append(smite.who)


@in_virtual_time
async def test_messages_that_wait_for_their_turn_are_refused_if_the_role_is_revoked_meanwhile() -> None:
    async with MemoryServer([Throne]) as server:
        players = server.operate.players
        await players.grant("eve", "gm")
        ada, eve = await server.connect("ada"), await server.connect("eve")
        hers = await ada.join_or_create("throne")
        eves = await eve.join(hers.id)
        (throne,) = server.rooms
        assert isinstance(throne, Throne)

        await eves.ask(Smite("before"))
        await hers.send(Wait())
        await asyncio.sleep(0.1)
        asking = asyncio.create_task(eves.ask(Smite("asked")))
        await eves.send(Smite("sent"))
        eves.send_latest(Smite("unreliable"))
        await asyncio.sleep(0.1)
        await players.revoke("eve", "gm")

        with pytest.raises(NotAllowed, match="'smite' requires the role 'gm'"):
            await asking
        refused = await eves.receive(MessageRefused)
        assert (refused.type, refused.code) == ("smite", "not_allowed")
        assert throne.smitten == ["before"]


@in_virtual_time
async def test_roles_decide_at_once_who_may_join_and_create() -> None:
    async with serving(hall(durability="memory", join_role="vip")) as server:
        room = await server.create_room("hall")
        eve = await sign_in(server, "eve")
        with pytest.raises(NotAllowed):
            await eve.join(room.id)

        await server.operate.players.grant("eve", "vip")
        await eve.join(room.id)

        # A seat that is taken stays.
        await server.operate.players.revoke("eve", "vip")
        assert [player.id for player in room.players] == ["eve"]


@in_virtual_time
async def test_the_roles_of_a_session_are_the_proven_ones_and_the_granted_without_the_revoked() -> None:
    async with serving() as server:
        players = server.operate.players
        await players.grant("ada", "gm")
        await players.revoke("ada", "tester")

        ada = await sign_in(server, "ada+tester+vip")

        assert roles(server, ada.welcome.session) == {"gm", "vip"}
        assert server.operate.sessions.get(ada.welcome.session).roles == ["gm", "vip"]
        # What is undone is what the authenticator says.
        reset = await players.reset_roles("ada")
        assert roles(server, ada.welcome.session) == {"tester", "vip"}
        assert (reset.granted, reset.revoked) == ([], [])
        # What comes last counts.
        await players.revoke("ada", "vip")
        await players.grant("ada", "vip")
        assert players.look("ada").granted == ["vip"]
        assert roles(server, ada.welcome.session) == {"tester", "vip"}


@in_virtual_time
async def test_all_sessions_of_a_player_have_the_role_and_nobody_elses() -> None:
    async with serving() as server:
        one, two = await sign_in(server, "ada"), await sign_in(server, "ada+vip")
        bob = await sign_in(server, "bob")
        await lose(server, two)

        await server.operate.players.grant("ada", "gm")

        assert roles(server, one.welcome.session) == {"gm"}
        assert roles(server, two.welcome.session) == {"gm", "vip"}
        assert roles(server, bob.welcome.session) == set()


@pytest.mark.parametrize("recovery", ["eager", "lazy"])
@in_virtual_time
async def test_granted_and_revoked_roles_survive_a_crash_with_and_without_a_session(recovery: Any) -> None:
    seen: list[tuple[str, frozenset[str]]] = []

    class Remembering(hall()):  # type: ignore[misc]  # made for this test
        kind = "hall"

        def on_recover(self) -> None:
            seen.extend((player.id, player.roles) for player in self.players)

    async with serving(Remembering, store=Storage(FaultyStore(), recovery=recovery)) as server:
        ada = await seated(server, "ada+tester")
        await server.operate.players.grant("ada", "gm")
        await server.operate.players.revoke("ada", "tester")
        await server.operate.players.grant("zoe", "vip")
        await a_moment()

        server.crash()
        await server.start()

        # One who is away keeps the seat; it is recovered when it is asked for.
        again = await back(server, ada.welcome)
        assert again.session == ada.welcome.session
        assert roles(server, again.session) == {"gm"}
        # The first turn of the room knew it.
        assert seen == [("ada", frozenset({"gm"}))]
        zoe = await sign_in(server, "zoe")
        assert roles(server, zoe.welcome.session) == {"vip"}
        # What is undone after the crash: the session has kept what was proven.
        await server.operate.players.reset_roles("ada")
        assert roles(server, again.session) == {"tester"}


@in_virtual_time
async def test_a_role_granted_to_a_guest_stays_when_the_guest_gets_an_account() -> None:
    password = Password(hashing=PlainHashing(), register=True)
    async with MemoryServer([hall()], auth=[Guest(), password], store=FaultyStore()) as server:
        await password.create_account("bob", "correct horse", roles=["tester"])
        guest = await server.connect(auth=Auth("guest", ""))
        await server.operate.players.grant(guest.player_id, "gm")

        await guest.link(Auth.password("bob", "correct horse"))

        assert roles(server, guest.id) == {"gm", "tester"}


@in_virtual_time
async def test_a_change_is_in_force_before_it_is_saved_and_survives_a_store_that_fails_first() -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        ada = await sign_in(server, "ada")
        store.is_full = True

        with pytest.raises(Throttled, match="in force, but the store cannot save"):
            await server.operate.players.grant("ada", "gm")
        assert roles(server, ada.welcome.session) == {"gm"}
        store.is_full = False
        await a_moment(5.0)

        server.crash()
        await server.start()
        assert server.operate.players.look("ada").granted == ["gm"]
        store.fail(Unavailable("for a moment"))
        await server.operate.players.reset_roles("ada")
        server.crash()
        await server.start()
        with pytest.raises(NotFound):
            await server.operate.everywhere.player("ada")


@in_virtual_time
async def test_a_change_is_an_event_once_and_says_who_did_it() -> None:
    async with serving() as server:
        told: list[RoleGranted | RoleRevoked] = []
        server.on(RoleGranted, told.append)
        server.on(RoleRevoked, told.append)
        players = server.operate.players

        await players.grant("ada", "gm", by="ops")
        await players.grant("ada", "gm", by="ops")
        await players.revoke("ada", "gm")
        await players.reset_roles("ada", by="boss")
        await players.reset_roles("ada", by="boss")
        await a_moment()

        assert [(type(each).__name__, each.player, each.role, each.by, each.is_reset) for each in told] == [
            ("RoleGranted", "ada", "gm", "ops", False),
            ("RoleRevoked", "ada", "gm", "", False),
            ("RoleGranted", "ada", "gm", "boss", True),
        ]


@in_virtual_time
async def test_the_event_of_a_sign_in_has_the_roles_that_count() -> None:
    async with serving() as server:
        await server.operate.players.grant("ada", "gm")
        told: list[Authenticated] = []
        server.on(Authenticated, told.append)

        await sign_in(server, "ada+vip")
        await a_moment()

        assert told[0].roles == ["gm", "vip"]


@in_virtual_time
async def test_changes_are_listed_by_player_and_page() -> None:
    async with serving() as server:
        players = server.operate.players
        for name in ("cleo", "ada", "bob"):
            await players.grant(name, "gm")
        await players.revoke("bob", "vip")

        first = players.roles(limit=2, cursor="")
        second = players.roles(limit=2, cursor=first.cursor)

        assert first.roles == [RoleInfo("ada", ["gm"]), RoleInfo("bob", ["gm"], ["vip"])]
        assert second.roles == [RoleInfo("cleo", ["gm"])]
        assert second.cursor == ""


@in_virtual_time
async def test_players_with_changed_roles_and_their_roles_are_bounded() -> None:
    async with serving(limits=replace(PATIENT, role_changes_max=2)) as server:
        players = server.operate.players
        await players.grant("ada", "gm")
        await players.revoke("bob", "gm")

        with pytest.raises(Throttled, match="the roles of 2 players are changed, which is the limit"):
            await players.grant("cleo", "gm")
        for number in range(31):
            await players.grant("ada", f"role {number}")
        with pytest.raises(Throttled, match="at most 32 roles"):
            await players.revoke("ada", "one more")
        await players.revoke("ada", "gm")
        await players.reset_roles("bob")
        await players.grant("cleo", "gm")


@pytest.mark.parametrize("role", ["", "x" * 65, "a\nb", ".", ".."])
@in_virtual_time
async def test_what_cannot_be_a_role_is_refused(role: str) -> None:
    async with serving() as server:
        with pytest.raises(Invalid, match="role: a word of 1 to 64 printable characters"):
            await server.operate.players.grant("ada", role)
        with pytest.raises(Invalid, match="player: an id must have 1 to 128 characters"):
            await server.operate.players.revoke("", "gm")


@in_virtual_time
async def test_a_handler_may_wait_until_a_role_is_saved() -> None:
    class Election(Room[PlayerData]):
        kind = "hall"
        durability = "commit"

        async def on_join(self, player: Any) -> None:
            await server.operate.players.grant(player.id, "gm")
            self.broadcast(Say("elected"))

    async with serving(Election) as server:
        ada = await seated(server, "ada")
        async with asyncio.timeout(60.0):
            while not roles(server, ada.welcome.session):
                await a_moment()


@in_virtual_time
async def test_agents_of_a_room_are_granted_roles_by_their_id_and_keep_them_when_they_are_opened_again() -> None:
    class Stage(Room[PlayerData]):
        kind = "hall"
        grace_s = 600.0

        def on_join(self, player: Player[PlayerData]) -> None:
            if not player.is_agent:
                self.open_agent("bot", self.play, roles=["npc"])

        async def play(self, agent: RoomAgent[PlayerData]) -> None:
            await agent.receive()

    async with serving(Stage) as server:
        await seated(server, "ada")
        room = next(iter(server.rooms))
        assert isinstance(room, Stage)
        await a_moment()
        (bot,) = (player for player in room.players if player.is_agent)

        await server.operate.players.grant("agent:bot", "gm")

        assert bot.roles == {"gm", "npc"}
        bot.session.disconnect()
        await a_moment()
        await server.operate.players.revoke("agent:bot", "npc")
        server.machine.call(partial(room.open_agent, roles=["npc", "vip"]), "bot", room.play)
        await a_moment()
        assert bot.roles == {"gm", "vip"}


@in_virtual_time
async def test_a_session_s_timeline_tells_which_roles_its_player_was_given_and_lost_and_by_whom() -> None:
    async with MemoryServer([hall()], store=FaultyStore()) as server:
        eve, ada = await server.connect("eve", name="Eve"), await server.connect("ada")
        await server.operate.players.grant("eve", "gm", by="ops")
        await server.operate.players.reset_roles("eve", by="boss")

        told = await server.operate.timelines.of(eve.id)

        assert [entry.text for entry in told.entries][-2:] == [
            "was granted the role gm by ops",
            "lost the role gm by boss: roles were reset to those of the sign-in",
        ]
        assert told.entries[-2].body["player_name"] == "Eve"
        assert not any("role" in entry.text for entry in (await server.operate.timelines.of(ada.id)).entries)
