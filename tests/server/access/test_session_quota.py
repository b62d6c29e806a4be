"""How many sessions one player may have at a time, and what happens to one more (ASVS 7.1.2)."""

from holdfast import Reason
from holdfast.schemas.events import LimitExceeded
from holdfast.testing import FaultyStore
from tests.server.access.kit import back, hall, lose, refused, seated, serving, sign_in, turned_away
from tests.server.directory.seats import patient
from tests.server.durability.bench import a_moment, in_virtual_time

TWO = patient(sessions_per_player_max=2)
TWO_REFUSED = patient(sessions_per_player_max=2, sessions_policy="refuse")


# Replace


@in_virtual_time
async def test_as_many_sessions_as_the_limit_live_side_by_side() -> None:
    async with serving(limits=TWO) as server:
        first, second = await sign_in(server, "ada"), await sign_in(server, "ada")
        await sign_in(server, "bob")

        for caller in (first, second):
            assert (await caller.client.request("mine")).problem is None
        assert len(server.sessions.of_player("ada")) == 2


@in_virtual_time
async def test_one_more_ends_the_oldest() -> None:
    async with serving(limits=TWO) as server:
        first, second = await seated(server, "ada"), await sign_in(server, "ada")

        third = await sign_in(server, "ada")

        close = await first.client.closed()
        assert (close.code, close.reason) == (4209, Reason.SUPERSEDED)
        assert [session.id for session in server.sessions] == [second.welcome.session, third.welcome.session]
        assert (await refused(server, first.welcome)).reason == Reason.EXPIRED


@in_virtual_time
async def test_one_more_ends_the_one_that_is_away_longest_before_any_other() -> None:
    async with serving(limits=patient(sessions_per_player_max=3)) as server:
        callers = [await sign_in(server, "ada") for _ in range(3)]
        await lose(server, callers[2])
        await a_moment(1.0)
        await lose(server, callers[1])

        fourth = await sign_in(server, "ada")

        left = [callers[0], callers[1], fourth]
        assert [session.id for session in server.sessions] == [caller.welcome.session for caller in left]
        assert (await refused(server, callers[2].welcome)).reason == Reason.EXPIRED
        assert (await back(server, callers[1].welcome)).outcome.kind == "resumed"


@in_virtual_time
async def test_who_came_back_counts_as_there() -> None:
    async with serving(limits=TWO) as server:
        first, second = await sign_in(server, "ada"), await sign_in(server, "ada")
        await lose(server, second)
        await back(server, second.welcome)
        await lose(server, first)

        await sign_in(server, "ada")

        assert (await refused(server, first.welcome)).reason == Reason.EXPIRED


@in_virtual_time
async def test_more_than_one_ends_if_the_limit_is_lower_after_a_restart() -> None:
    store = FaultyStore()
    async with serving(hall(duplicate="allow"), store=store, limits=patient(sessions_per_player_max=4)) as server:
        for _ in range(4):
            await seated(server, "ada")

    async with serving(hall(duplicate="allow"), store=FaultyStore(store.disk), limits=TWO) as server:
        assert len(server.sessions.of_player("ada")) == 4
        await sign_in(server, "ada")

        assert len(server.sessions.of_player("ada")) == 2


@in_virtual_time
async def test_a_session_that_still_lies_in_the_store_counts_and_ends() -> None:
    async with serving(hall(max_players=1), recovery="lazy", limits=patient(sessions_per_player_max=1)) as server:
        ada, *_ = [await seated(server, name) for name in ("ada", *(f"p{number}" for number in range(9)))]
        server.crash()
        await server.start()
        assert server.sessions.of_player("ada") == []

        await sign_in(server, "ada")

        assert (await refused(server, ada.welcome)).reason == Reason.EXPIRED
        assert len(server.sessions.of_player("ada")) == 1


@in_virtual_time
async def test_agents_are_not_counted() -> None:
    async with serving(limits=TWO) as server:
        agents = [server.open_agent("ada") for _ in range(3)]
        callers = [await sign_in(server, "ada") for _ in range(2)]

        assert all(agent.session.status == "connected" for agent in agents)
        assert all(server.sessions.get(caller.welcome.session) is not None for caller in callers)


# Refuse


@in_virtual_time
async def test_one_more_is_refused_and_the_others_notice_nothing() -> None:
    async with serving(limits=TWO_REFUSED) as server:
        told: list[LimitExceeded] = []
        server.on(LimitExceeded, told.append)
        first, second = await seated(server, "ada"), await sign_in(server, "ada")

        close = await turned_away(server, "ada")

        assert (close.code, close.reason, close.problem) == (4102, Reason.REFUSED, "throttled")
        assert close.message == "this player already has 2 sessions; end one first"
        for caller in (first, second):
            assert (await caller.client.request("mine")).problem is None
        await a_moment()
        assert [(each.limit, each.action, each.player) for each in told] == [
            ("sessions_per_player_max", "refused", "ada")
        ]
        await sign_in(server, "bob")


@in_virtual_time
async def test_a_session_that_still_lies_in_the_store_keeps_its_place() -> None:
    one = patient(sessions_per_player_max=1, sessions_policy="refuse")
    async with serving(hall(), recovery="lazy", limits=one) as server:
        left = await seated(server, "ada")
        await left.tell("leave")
        for number in range(9):
            await seated(server, f"p{number}")
        server.crash()
        await server.start()
        assert server.sessions.of_player("ada") == []

        assert (await turned_away(server, "ada")).reason == Reason.REFUSED

        assert (await back(server, left.welcome)).outcome.kind == "resumed"


@in_virtual_time
async def test_there_is_space_again_when_a_session_has_ended() -> None:
    async with serving(limits=TWO_REFUSED) as server:
        first, _ = await sign_in(server, "ada"), await sign_in(server, "ada")
        assert (await turned_away(server, "ada")).reason == Reason.REFUSED

        server.machine.call(server.sessions.of_player("ada")[0].end, "")
        await first.client.closed()

        await sign_in(server, "ada")
        assert (await turned_away(server, "ada")).reason == Reason.REFUSED


@in_virtual_time
async def test_a_session_that_is_away_counts_until_its_grace_is_over() -> None:
    limits = patient(sessions_per_player_max=1, sessions_policy="refuse")
    async with serving(limits=limits, grace_s=30.0) as server:
        first = await sign_in(server, "ada")
        await lose(server, first)

        assert (await turned_away(server, "ada")).reason == Reason.REFUSED
        assert (await back(server, first.welcome)).outcome.kind == "resumed"
        for link in server.links:
            link.cut()
        await a_moment(31.0)

        await sign_in(server, "ada")


@in_virtual_time
async def test_a_seat_whose_session_was_lost_in_a_crash_does_not_keep_its_player_out() -> None:
    store = FaultyStore()
    limits = patient(sessions_per_player_max=1, sessions_policy="refuse")
    async with serving(store=store, limits=limits) as server:
        ada = await seated(server, "ada")
        server.crash()
        del store.disk.entries[f"session/{ada.welcome.session}"]
        await server.start()

        again = await seated(server, "ada")

        assert [seat.session.id for room in server.rooms for seat in room.players] == [again.welcome.session]
