"""Signing a player out everywhere: since when credentials count, and how many sign-outs are remembered."""

import asyncio
from collections.abc import Awaitable

import pytest

from holdfast import Auth, Invalid, Reason
from holdfast.identity import Password
from holdfast.identity.port import Approach, Identity
from holdfast.schemas.frames import Hello, Welcome
from holdfast.testing import FaultyStore, MemoryServer
from tests.identity.plain import PlainHashing
from tests.server.access.kit import dialed, hall, operator, serving, sign_in, turned_away
from tests.server.directory.seats import patient
from tests.server.durability.bench import a_moment, in_virtual_time


@in_virtual_time
async def test_a_credential_that_was_issued_before_the_sign_out_does_not_count_any_more() -> None:
    async with serving() as server:
        await a_moment(1000.0)
        await server.sign_out("ada")
        moment = server.parts.clock.wall_clock()

        close = await turned_away(server, f"ada@{moment - 0.001}")

        assert close.reason == Reason.AUTH_FAILED
        assert "signed out everywhere; get a new one" in close.message
        await sign_in(server, f"ada@{moment}")
        await sign_in(server, f"ada@{moment + 10}")
        await sign_in(server, "bob@5")


@in_virtual_time
async def test_who_has_a_password_or_is_a_guest_may_sign_in_again() -> None:
    # Their credentials do not say when they were issued.
    async with serving() as server:
        await server.sign_out("ada")

        await sign_in(server, "ada")


@in_virtual_time
async def test_a_clock_that_was_ahead_at_a_sign_out_keeps_no_password_out() -> None:
    password = Password(hashing=PlainHashing())
    async with serving(auth=(password,)) as server:
        await password.create_account("ada", "correct horse", player_id="ada")
        right = server.parts.clock.wall_clock
        server.parts.clock.wall_clock = lambda: right() + 3600.0
        await server.sign_out("ada")
        server.parts.clock.wall_clock = right

        client = await dialed(server)
        client.say(Hello(Auth.password("ada", "correct horse")))

        assert (await client.hear(Welcome)).player == "ada"


@in_virtual_time
async def test_a_password_that_is_changed_while_it_is_checked_is_not_good_any_more() -> None:
    """A new one signs its player out, and whoever was about to come in with the old one too."""
    checked, may_go_on = asyncio.Event(), asyncio.Event()

    class Slow(PlainHashing):
        async def verify(self, known: str, password: bytes) -> bool:
            is_right = await super().verify(known, password)
            checked.set()
            await may_go_on.wait()
            return is_right

    password = Password(hashing=Slow())
    async with serving(auth=(password,)) as server:
        await password.create_account("ada", "correct horse", player_id="ada")
        client = await dialed(server)
        client.say(Hello(Auth.password("ada", "correct horse")))
        await checked.wait()

        await operator(server).accounts.set_password("ada", "another horse")
        may_go_on.set()

        assert (await client.closed()).reason == Reason.AUTH_FAILED


@in_virtual_time
async def test_a_credential_of_before_is_refused_after_a_crash_too() -> None:
    async with serving() as server:
        await a_moment(1000.0)
        await server.sign_out("ada")
        moment = server.parts.clock.wall_clock()

        server.crash()
        await server.start()

        assert (await turned_away(server, f"ada@{moment - 1}")).reason == Reason.AUTH_FAILED
        await sign_in(server, f"ada@{moment}")


@in_virtual_time
async def test_a_ban_that_is_over_has_not_touched_the_credentials() -> None:
    async with serving() as server:
        await a_moment(1000.0)
        await server.sign_out("bob")
        moment = server.parts.clock.wall_clock()
        for name in ("ada", "bob"):
            await server.ban(player=name)
            await server.unban(player=name)

        await sign_in(server, "ada@5")

        assert (await turned_away(server, f"bob@{moment - 1}")).reason == Reason.AUTH_FAILED
        await sign_in(server, f"bob@{moment}")


@pytest.mark.parametrize("player", ["", "a" * 129, "\ud800"])
@in_virtual_time
async def test_nobody_is_signed_out_who_cannot_be_called_so(player: str) -> None:
    async with serving() as server:
        with pytest.raises(Invalid, match="player"):
            await server.sign_out(player)

        assert server.parts.access.sign_outs == 0


# While somebody signs in


class Slow:
    """Looks at a password at once, and lets in when the door opens."""

    scheme = "slow"

    def __init__(self) -> None:
        self.door = asyncio.Event()

    def authenticate(self, credential: str, approach: Approach) -> Awaitable[Identity]:
        async def authenticated() -> Identity:
            await self.door.wait()
            return Identity(credential)

        return authenticated()


@in_virtual_time
async def test_a_sign_in_that_had_begun_before_the_sign_out_does_not_slip_through() -> None:
    slow = Slow()
    async with serving(auth=(slow,)) as server:
        ada, bob = await dialed(server), await dialed(server)
        ada.say(Hello(Auth("slow", "ada")))
        bob.say(Hello(Auth("slow", "bob")))
        await a_moment()

        await server.sign_out("ada", "your password was changed")
        slow.door.set()

        close = await ada.closed()
        assert (close.reason, "sign in again" in close.message) == (Reason.AUTH_FAILED, True)
        await bob.hear(Welcome)
        again = await dialed(server)
        again.say(Hello(Auth("slow", "ada")))
        await again.hear(Welcome)


@in_virtual_time
async def test_a_sign_in_that_had_begun_before_the_ban_does_not_slip_through() -> None:
    slow = Slow()
    async with serving(auth=(slow,)) as server:
        ada = await dialed(server)
        ada.say(Hello(Auth("slow", "ada")))
        await a_moment()

        await server.ban(player="ada")
        slow.door.set()

        assert (await ada.closed()).reason == Reason.BANNED


# How many


def _records(server: MemoryServer) -> int:
    store = server.parts.committer.store if server.parts.committer is not None else None
    assert isinstance(store, FaultyStore)
    return sum(key.startswith("standing/") for key in store.disk.entries)


@pytest.mark.parametrize("crashes", [False, True], ids=["live", "after a crash"])
@in_virtual_time
async def test_with_one_more_than_the_limit_the_oldest_counts_for_everybody(*, crashes: bool) -> None:
    async with serving(limits=patient(sign_outs_max=2)) as server:
        moments = []
        for name in ("ada", "bob", "cleo"):
            await a_moment(1000.0)
            await server.sign_out(name)
            moments.append(server.parts.clock.wall_clock())
        if crashes:
            server.crash()
            await server.start()

        # Ada's is forgotten, and nobody gets in with a credential that is older than that.
        assert _records(server) == 3
        for name in ("ada", "bob", "cleo", "zoe"):
            assert (await turned_away(server, f"{name}@{moments[0] - 1}")).reason == Reason.AUTH_FAILED
        await sign_in(server, f"ada@{moments[0]}")
        await sign_in(server, f"zoe@{moments[0]}")
        assert (await turned_away(server, f"bob@{moments[1] - 1}")).reason == Reason.AUTH_FAILED
        await sign_in(server, f"bob@{moments[1]}")


@in_virtual_time
async def test_signing_the_same_player_out_again_takes_no_more_space() -> None:
    async with serving(limits=patient(sign_outs_max=2)) as server:
        await a_moment(1000.0)
        await server.sign_out("ada")
        for _ in range(5):
            await server.sign_out("bob")

        assert _records(server) == 2
        await sign_in(server, "zoe@1")


@in_virtual_time
async def test_without_a_store_sign_outs_are_known_while_the_server_runs() -> None:
    async with serving(hall(durability="memory"), store=None) as server:
        await a_moment(1000.0)
        ada = await sign_in(server, "ada")

        await server.sign_out("ada")

        assert (await ada.client.closed()).reason == Reason.SIGNED_OUT
        assert (await turned_away(server, "ada@5")).reason == Reason.AUTH_FAILED
