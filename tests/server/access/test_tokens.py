"""A token is dead as soon as its session was ended: live, while its player is away, and after a restart.

Nakama #1014 and GHSA-xv59-gc3r-rf92: a kick or a logout that leaves tokens alive is no kick and no logout.
"""

from collections.abc import Awaitable, Callable

import pytest

from holdfast import Auth, Reason, Session
from holdfast.schemas.frames import Welcome
from holdfast.server.durability.recovery import Pace
from holdfast.stores import Batch
from holdfast.testing import Crashed, FaultyStore, MemoryServer
from tests.server.access.kit import Badge, back, hall, lose, operator, refused, seated, seats, serving, sign_in
from tests.server.directory.seats import Caller
from tests.server.durability.bench import a_moment, in_virtual_time

End = Callable[[MemoryServer, Session], Awaitable[None]]


async def _kick(server: MemoryServer, session: Session) -> None:
    """The game ends the session, as `player.session.end("…")` does."""
    server.machine.call(session.end, "go")
    # It is saved with the next commit; the others wait for that.
    await a_moment()


async def _revoke(server: MemoryServer, session: Session) -> None:
    await server.machine.do(operator(server).sessions.end(session.id, "go"))


async def _ban(server: MemoryServer, session: Session) -> None:
    await server.ban(player=session.player_id, why="go")


async def _sign_out(server: MemoryServer, session: Session) -> None:
    await server.sign_out(session.player_id, "go")


ENDS: dict[str, tuple[End, Reason]] = {
    "kick": (_kick, Reason.KICKED),
    "revoke": (_revoke, Reason.KICKED),
    "ban": (_ban, Reason.BANNED),
    "sign-out": (_sign_out, Reason.SIGNED_OUT),
}
each_end = pytest.mark.parametrize(("end", "reason"), ENDS.values(), ids=ENDS)
each_pace = pytest.mark.parametrize("recovery", ["eager", "lazy"])
each_durability = pytest.mark.parametrize("durability", ["memory", "commit"])


def _session(server: MemoryServer, caller: Caller) -> Session:
    session = server.sessions.get(caller.welcome.session)
    assert session is not None
    return session


async def _is_dead(server: MemoryServer, welcome: Welcome, reason: Reason) -> None:
    """Neither the token alone gets anybody in, nor the token and the credential together to the old session."""
    assert (await refused(server, welcome)).reason == Reason.EXPIRED
    auth = Auth(Badge.scheme, welcome.player)
    if reason is Reason.BANNED:
        assert (await refused(server, welcome, auth=auth)).reason == Reason.BANNED
    else:
        again = await back(server, welcome, auth=auth)
        assert again.outcome.kind == "reset"
        assert again.session != welcome.session


@each_end
@each_durability
@in_virtual_time
async def test_the_token_of_a_session_that_was_ended_is_dead_at_once(end: End, reason: Reason, durability: str) -> None:
    async with serving(hall(durability=durability)) as server:
        ada, bob = await seated(server, "ada"), await seated(server, "bob")

        await end(server, _session(server, ada))
        close = await ada.client.closed()

        assert close.reason == reason
        assert "go" in close.message
        assert seats(server) == ["bob"]
        await _is_dead(server, ada.welcome, reason)
        assert bob.client.all_heard(type(close)) == []


@each_end
@each_durability
@in_virtual_time
async def test_the_token_of_a_player_who_is_away_is_dead_too(end: End, reason: Reason, durability: str) -> None:
    async with serving(hall(durability=durability)) as server:
        ada = await seated(server, "ada")
        await lose(server, ada)
        assert seats(server) == ["ada"]

        await end(server, _session(server, ada))

        assert seats(server) == []
        await _is_dead(server, ada.welcome, reason)


@each_end
@each_pace
@in_virtual_time
async def test_the_token_is_dead_after_a_crash_too(end: End, reason: Reason, recovery: Pace) -> None:
    async with serving(recovery=recovery) as server:
        ada, bob = await seated(server, "ada"), await seated(server, "bob")
        await end(server, _session(server, ada))

        server.crash()
        await server.start()

        await _is_dead(server, ada.welcome, reason)
        assert (await back(server, bob.welcome)).outcome.kind == "resumed"


@each_end
@in_virtual_time
async def test_the_token_is_dead_after_an_orderly_restart_too(end: End, reason: Reason) -> None:
    async with serving() as server:
        ada = await seated(server, "ada")
        await lose(server, ada)
        await end(server, _session(server, ada))

        await server.stop()
        await server.start()

        await _is_dead(server, ada.welcome, reason)


# What a crash leaves behind


async def _crash_between(server: MemoryServer, store: FaultyStore, end: End, session: Session) -> None:
    """End a session and crash when the store has heard of that, but not yet of the session's own end."""

    def crash(batch: Batch, _: FaultyStore) -> None:
        if any(write.key.startswith("standing/") for write in batch):
            server.crash()

    store.disk.on_written = crash
    with pytest.raises(Crashed):
        await end(server, session)
    assert f"session/{session.id}" in store.disk.entries, "the record of the session must have outlived it"


@pytest.mark.parametrize("seat", ["taken", "left"])
@each_pace
@pytest.mark.parametrize(("end", "reason"), [ENDS["ban"], ENDS["sign-out"]], ids=["ban", "sign-out"])
@in_virtual_time
async def test_a_record_that_outlived_its_session_in_a_crash_brings_nobody_back(
    end: End, reason: Reason, recovery: Pace, seat: str
) -> None:
    store = FaultyStore()
    async with serving(store=store, recovery=recovery) as server:
        ada = await seated(server, "ada")
        if seat == "left":
            await ada.tell("leave")
        await _crash_between(server, store, end, _session(server, ada))

        await server.start()

        await _is_dead(server, ada.welcome, reason)
        await a_moment()
        assert seats(server) == []
        assert f"session/{ada.welcome.session}" not in store.disk.entries


@each_pace
@in_virtual_time
async def test_a_ban_that_is_over_leaves_no_token_alive(recovery: Pace) -> None:
    store = FaultyStore()

    async def ban(server: MemoryServer, session: Session) -> None:
        await server.ban(player=session.player_id, until=server.parts.clock.wall_clock() + 5.0)

    async with serving(store=store, recovery=recovery) as server:
        ada = await seated(server, "ada")
        await _crash_between(server, store, ban, _session(server, ada))
        await a_moment(10.0)

        await server.start()

        await _is_dead(server, ada.welcome, Reason.SIGNED_OUT)


@in_virtual_time
async def test_sessions_that_still_lie_in_the_store_end_with_the_others() -> None:
    async with serving(recovery="lazy") as server:
        seat, none = await seated(server, "ada"), await seated(server, "ada")
        await none.tell("leave")
        bob = await seated(server, "bob")
        server.crash()
        await server.start()
        assert len(server.sessions) < 3

        await server.sign_out("ada")

        assert seats(server) == ["bob"]
        for caller in (seat, none):
            await _is_dead(server, caller.welcome, Reason.SIGNED_OUT)
        assert (await back(server, bob.welcome)).outcome.kind == "resumed"


@in_virtual_time
async def test_a_seat_of_a_room_that_still_lies_in_the_store_is_free_at_once() -> None:
    async with serving(hall(max_players=1), recovery="lazy") as server:
        for name in ("ada", *(f"p{number}" for number in range(9))):
            await seated(server, name)
        server.crash()
        await server.start()
        assert server.sessions.of_player("ada") == []

        await server.sign_out("ada")

        assert [line for room in server.rooms for line in room.state] == ["ada signed_out"]


@in_virtual_time
async def test_an_operator_revokes_a_session_that_still_lies_in_the_store() -> None:
    async with serving(hall(max_players=1), recovery="lazy") as server:
        ada, *_ = [await seated(server, name) for name in ("ada", *(f"p{number}" for number in range(9)))]
        server.crash()
        await server.start()
        assert server.sessions.get(ada.welcome.session) is None

        await server.machine.do(operator(server).sessions.end(ada.welcome.session, "go"))

        await _is_dead(server, ada.welcome, Reason.KICKED)


@each_pace
@in_virtual_time
async def test_a_sign_out_that_a_crash_has_undone_does_not_spoil_the_next_one(recovery: Pace) -> None:
    """They are numbered, and a session remembers a number that the store has never heard of."""
    store = FaultyStore()
    async with serving(store=store, recovery=recovery) as server:
        await server.sign_out("zoe")
        ada = await seated(server, "ada")
        server.crash()
        for key in [key for key in store.disk.entries if key.startswith("standing/")]:
            del store.disk.entries[key]
        await server.start()

        welcome = await back(server, ada.welcome)
        await _crash_between(server, store, _sign_out, _session(server, ada))
        store.disk.on_written = lambda *_: None
        await server.start()

        await _is_dead(server, welcome, Reason.SIGNED_OUT)


# Who comes again is welcome


@in_virtual_time
async def test_a_session_that_began_after_a_sign_out_outlives_a_crash() -> None:
    async with serving() as server:
        await server.sign_out("ada")
        ada = await seated(server, "ada")

        server.crash()
        await server.start()

        assert (await back(server, ada.welcome)).outcome.kind == "resumed"
        assert seats(server) == ["ada"]


@in_virtual_time
async def test_only_the_sessions_of_that_player_end() -> None:
    async with serving() as server:
        phone, tablet, bob = await sign_in(server, "ada"), await sign_in(server, "ada"), await sign_in(server, "bob")

        await server.sign_out("ada", "your password was changed")

        for caller in (phone, tablet):
            close = await caller.client.closed()
            assert (close.reason, close.message) == (Reason.SIGNED_OUT, "your password was changed")
        assert [session.player_id for session in server.sessions] == ["bob"]
        assert (await bob.client.request("mine")).problem is None


@in_virtual_time
async def test_a_seat_whose_session_is_lost_is_kept_for_a_player_who_was_once_signed_out() -> None:
    store = FaultyStore()
    async with serving(store=store) as server:
        await server.sign_out("ada")
        ada = await seated(server, "ada")
        server.crash()
        del store.disk.entries[f"session/{ada.welcome.session}"]

        await server.start()

        assert seats(server) == ["ada"]
        await server.ban(player="ada")
        assert seats(server) == []
