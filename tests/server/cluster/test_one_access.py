"""Bans, sign-outs, roles, tickets, lockouts and the number of sessions hold on all nodes within a second."""

import asyncio
from dataclasses import replace

import pytest

from holdfast import Auth
from holdfast.client.session import ClientSession
from holdfast.core.errors import NotFound, SessionEnded, Throttled
from holdfast.core.reasons import Reason
from holdfast.identity import Tickets
from holdfast.identity.password import Password
from holdfast.schemas.events import Ended
from holdfast.schemas.requests import Ban
from holdfast.server.admission.access import Access
from holdfast.testing.server import Named, generous
from tests.identity.plain import PlainHashing
from tests.server.cluster.nodes import Nodes, in_virtual_time, store_of

WITHIN_S = 1.0


def access(nodes: Nodes, name: str) -> Access:
    return nodes.servers[name].parts.access


async def end_of(session: ClientSession, within_s: float = WITHIN_S) -> SessionEnded:
    async with asyncio.timeout(within_s):
        with pytest.raises(SessionEnded) as ended:
            await session.receive()
    return ended.value


async def ended(session: ClientSession, within_s: float = WITHIN_S) -> str:
    return (await end_of(session, within_s)).reason


def is_on(nodes: Nodes, session: ClientSession) -> bool:
    return bool(nodes.where_session(session.id))


@in_virtual_time
async def test_a_ban_ends_the_players_sessions_on_all_nodes_and_keeps_them_out() -> None:
    async with Nodes("abc") as nodes:
        sessions = [await nodes.connect("ann", name) for name in "abc"]

        await nodes.a.ban(player="ann", why="cheating")

        assert [await ended(each) for each in sessions] == [Reason.BANNED] * 3
        for name in "abc":
            with pytest.raises(SessionEnded, match="cheating"):
                await nodes.connect("ann", name)
        await nodes.b.unban(player="ann")
        await asyncio.sleep(WITHIN_S)
        for name in "abc":
            await nodes.connect("ann", name)
        assert [access(nodes, name).bans.all() for name in "abc"] == [[], [], []]


@in_virtual_time
async def test_a_ban_of_addresses_holds_on_all_nodes() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "b")
        [session] = nodes.b.sessions
        session.address = "203.0.113.7"
        await nodes.a.ban(address="203.0.113.0/24")
        assert await ended(ann) == Reason.BANNED


@in_virtual_time
async def test_a_ban_ends_on_all_nodes_and_a_new_one_stays() -> None:
    async with Nodes("abc") as nodes:
        await access(nodes, "a").ban(Ban("ann", "", 0.0, 5.0, ""))
        await asyncio.sleep(4.999)
        await access(nodes, "b").ban(Ban("ann", "", 0.0, 50.0, "again"))
        await asyncio.sleep(10.0)

        assert [[ban.why for ban in access(nodes, name).bans.all()] for name in "abc"] == [["again"]] * 3
        late = nodes.servers["d"] = nodes.server("d")
        await late.start()
        assert [ban.why for ban in access(nodes, "d").bans.all()] == ["again"]
        await asyncio.sleep(50.0)
        assert [access(nodes, name).bans.all() for name in "abcd"] == [[]] * 4
        assert await nodes.a.parts.access.records.read_again("ban") == []


@in_virtual_time
async def test_a_sign_out_ends_the_sessions_of_all_nodes() -> None:
    async with Nodes("abc") as nodes:
        sessions = [await nodes.connect("ann", name) for name in "abc"]
        ids = [each.id for each in sessions]
        ends: list[tuple[str, str]] = []

        def note(name: str) -> None:
            nodes.servers[name].on(Ended)(lambda event: ends.append((name, event.reason)))

        for name in "abc":
            note(name)
        other = await nodes.connect("bob", "b")

        await nodes.c.sign_out("ann")
        await asyncio.sleep(WITHIN_S)

        assert sorted(ends) == [(name, Reason.SIGNED_OUT) for name in "abc"]
        assert [nodes.where_session(each) for each in ids] == [[]] * 3
        assert is_on(nodes, other)


@in_virtual_time
async def test_what_was_done_while_a_node_had_no_link_holds_there_once_it_is_back() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "b"), await nodes.connect("bob", "b")
        bobs = bob.id
        await nodes.a.ban(player="eve")
        await asyncio.sleep(WITHIN_S)
        bus = nodes.bus("b")
        nodes.buses.cut(bus)
        await nodes.a.ban(player="ann")
        await nodes.a.sign_out("bob")
        await nodes.a.unban(player="eve")
        await access(nodes, "a").grant("cat", "admin")
        await asyncio.sleep(0.3)
        assert is_on(nodes, ann)
        nodes.buses.mend(bus)

        assert await ended(ann) == Reason.BANNED
        assert not is_on(nodes, bob) or bob.id != bobs
        assert [ban.subject for ban in access(nodes, "b").bans.all()] == ["player:ann"]
        assert access(nodes, "b").roles.changes("cat").granted == ["admin"]


@in_virtual_time
async def test_what_was_done_while_the_link_of_its_node_was_cut_holds_on_the_others_within_a_second_after() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "b")
        bus = nodes.bus("a")
        nodes.buses.cut(bus)
        await nodes.a.ban(player="ann")
        await asyncio.sleep(0.3)
        assert is_on(nodes, ann)
        nodes.buses.mend(bus)
        assert await ended(ann) == Reason.BANNED


@in_virtual_time
async def test_what_a_node_has_saved_before_it_died_holds_although_it_told_nobody() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "b")
        nodes.buses.cut(nodes.bus("a"))
        await nodes.a.ban(player="ann")
        nodes.a.crash()
        assert await ended(ann, within_s=5.0) == Reason.BANNED


@in_virtual_time
async def test_a_ban_by_a_node_that_was_cut_off_from_everything_holds_on_all_nodes_once_it_is_back() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "b")
        bus, store = nodes.bus("a"), store_of(nodes, "a")
        nodes.buses.cut(bus)
        store.silence_s = 0.5
        with pytest.raises(Throttled, match="in force"):
            await nodes.a.ban(player="ann", why="cheating")
        await asyncio.sleep(5.0)
        assert is_on(nodes, ann)

        store.silence_s = None
        nodes.buses.mend(bus)

        assert await ended(ann, within_s=WITHIN_S + nodes.limits.store_retry_s) == Reason.BANNED
        await asyncio.sleep(WITHIN_S)
        for name in "abc":
            assert [ban.why for ban in access(nodes, name).bans.all()] == ["cheating"]
        assert len(await access(nodes, "c").records.read_again("ban")) == 1


@in_virtual_time
async def test_a_ban_that_its_node_could_only_tell_the_others_is_saved_by_them_when_it_dies() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "b")
        store_of(nodes, "a").is_full = True
        with pytest.raises(Throttled, match="in force"):
            await nodes.a.ban(player="ann", why="cheating")
        assert await ended(ann) == Reason.BANNED
        assert await access(nodes, "c").records.read_again("ban") == []

        nodes.a.crash()
        await asyncio.sleep(5.0)

        assert len(await access(nodes, "c").records.read_again("ban")) == 1
        late = nodes.servers["d"] = nodes.server("d")
        await late.start()
        with pytest.raises(SessionEnded, match="cheating"):
            await nodes.connect("ann", "d")
        # It is lifted everywhere, as any other.
        await nodes.b.unban(player="ann")
        await asyncio.sleep(WITHIN_S)
        assert [access(nodes, name).bans.all() for name in "bcd"] == [[]] * 3
        assert await access(nodes, "c").records.read_again("ban") == []


@in_virtual_time
async def test_an_unban_is_not_undone_by_a_node_that_saves_what_a_dead_one_has_told() -> None:
    async with Nodes("abc") as nodes:
        store_of(nodes, "a").is_full = True
        with pytest.raises(Throttled, match="in force"):
            await nodes.a.ban(player="ann")
        await nodes.b.unban(player="ann")
        nodes.a.crash()
        await asyncio.sleep(10.0)
        assert [access(nodes, name).bans.all() for name in "bc"] == [[]] * 2
        assert await access(nodes, "c").records.read_again("ban") == []


@in_virtual_time
async def test_a_durable_session_that_is_taken_over_does_not_survive_a_sign_out_of_before() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        await ann.join_or_create("table")
        old = ann.id
        nodes.a.crash()
        await nodes.b.sign_out("ann")
        await asyncio.sleep(10.0)
        assert nodes.where_session(old) == []


@in_virtual_time
async def test_roles_hold_on_all_nodes() -> None:
    async with Nodes("ab") as nodes:
        await nodes.connect("ann", "b")
        await access(nodes, "a").grant("ann", "admin")
        await asyncio.sleep(WITHIN_S)
        assert [session.roles for session in nodes.b.sessions] == [frozenset({"admin"})]
        await access(nodes, "b").reset_roles("ann")
        await asyncio.sleep(WITHIN_S)
        assert access(nodes, "a").roles.changes("ann").granted == []


# Sessions of a player


def limited(policy: str, most: int = 1) -> Nodes:
    limits = replace(generous(), sessions_per_player_max=most, sessions_policy=policy)  # type: ignore[arg-type]
    return Nodes("abc", limits=limits)


async def try_to_connect(nodes: Nodes, player: str, name: str) -> ClientSession | None:
    try:
        return await nodes.connect(player, name)
    except SessionEnded:
        return None


def sessions_of(nodes: Nodes, player: str) -> int:
    return sum(len(server.sessions.of_player(player)) for server in nodes.servers.values() if server.is_running)


@in_virtual_time
async def test_a_player_who_signs_in_on_another_node_takes_over() -> None:
    async with limited("replace") as nodes:
        first = await nodes.connect("ann", "a")
        await nodes.connect("ann", "b")
        assert await ended(first) == Reason.SUPERSEDED
        assert sessions_of(nodes, "ann") == 1


@in_virtual_time
async def test_a_player_with_a_session_on_another_node_is_refused_if_that_is_the_policy() -> None:
    async with limited("refuse") as nodes:
        first = await nodes.connect("ann", "a")
        with pytest.raises(SessionEnded, match="already has 1 sessions"):
            await nodes.connect("ann", "b")
        await first.close()
        await asyncio.sleep(0.1)
        await nodes.connect("ann", "b")


@in_virtual_time
@pytest.mark.parametrize("policy", ["replace", "refuse"])
async def test_a_player_who_signs_in_on_all_nodes_at_once_has_as_many_sessions_as_allowed(policy: str) -> None:
    for most in (1, 2):
        async with limited(policy, most) as nodes:
            for _ in range(5):
                await asyncio.gather(*(try_to_connect(nodes, "ann", name) for name in "abcabc"))
                await asyncio.sleep(0.1)
                assert 1 <= sessions_of(nodes, "ann") <= most


@in_virtual_time
async def test_a_node_that_dies_does_not_keep_its_players_from_signing_in_elsewhere() -> None:
    async with limited("refuse") as nodes:
        await nodes.connect("ann", "a")
        nodes.a.crash()
        await asyncio.sleep(3.0)
        assert await try_to_connect(nodes, "ann", "b") is not None


# Guesses of codes


@in_virtual_time
async def test_wrong_codes_of_an_address_count_on_all_nodes_and_right_ones_nowhere() -> None:
    limits = replace(generous(), guesses_per_address_burst=6, guesses_per_address_per_s=0.001, guess_wait_max_s=0.1)
    async with Nodes("abc", limits=limits) as nodes:
        room = await (await nodes.connect("host", "c")).create("lounge", visibility="private")

        async def guess(name: str, number: int, code: str) -> str:
            session = await nodes.connect(f"player {name} {number}", name)
            for each in nodes.servers[name].sessions:
                each.address = "203.0.113.7"
            try:
                await session.join(code=code)
            except (NotFound, Throttled) as refusal:
                return refusal.code
            return "joined"

        assert [await guess("a", n, room.code) for n in range(8)] == ["joined"] * 8
        wrong = []
        for n in range(9):
            wrong.append(await guess("abc"[n % 3], 100 + n, "BCDFGH"))
            await asyncio.sleep(0.1)
        assert wrong == ["not_found"] * 6 + ["throttled"] * 3


# Tickets and lockouts


@in_virtual_time
async def test_a_ticket_opens_once_on_whichever_node() -> None:
    async with Nodes("abc", auth=lambda: [Named(), Tickets()]) as nodes:
        ticket = nodes.a.operate.accounts.issue_ticket("ann", roles=(), ttl_s=None).ticket

        async def enter(name: str) -> bool:
            try:
                await nodes.servers[name].connect("", auth=Auth("ticket", ticket), url=nodes.servers[name].address)
            except SessionEnded:
                return False
            return True

        assert sum(await asyncio.gather(*(enter(name) for name in "abcabc"))) == 1
        nodes.a.crash()
        nodes.b.crash()
        await nodes.b.start()
        assert not await enter("b")
        assert not await enter("c")


@in_virtual_time
async def test_the_records_of_used_tickets_are_deleted_once_they_have_expired() -> None:
    async with Nodes("ab", auth=lambda: [Named(), Tickets()]) as nodes:
        for number in range(3):
            ticket = nodes.a.operate.accounts.issue_ticket(f"player {number}", roles=(), ttl_s=None).ticket
            await nodes.b.connect("", auth=Auth("ticket", ticket), url=nodes.b.address)
        assert len(await nodes.a.parts.access.records.read_again("ticket")) == 3
        await asyncio.sleep(120.0)
        assert await nodes.a.parts.access.records.read_again("ticket") == []


@in_virtual_time
async def test_wrong_passwords_count_on_all_nodes() -> None:
    limits = replace(generous(), wrong_passwords_max=3)
    async with Nodes("abc", limits=limits, auth=lambda: [Named(), Password(hashing=PlainHashing())]) as nodes:
        await nodes.a.operate.accounts.create("ann", "correct horse", player="", roles=())

        async def enter(name: str, password: str) -> bool:
            auth = Auth.password("ann", password)
            try:
                await nodes.servers[name].connect("", auth=auth, url=nodes.servers[name].address)
            except SessionEnded:
                return False
            return True

        for name in "abc":
            assert not await enter(name, "wrong horse")
        await asyncio.sleep(0.5)
        # It is locked now, everywhere: also the right one is not tried.
        assert [await enter(name, "correct horse") for name in "abc"] == [False] * 3
        await asyncio.sleep(limits.lockout_max_s)
        assert await enter("b", "correct horse")
