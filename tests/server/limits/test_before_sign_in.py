"""Limits before sign-in: unauthenticated connections, hellos, failures, storms."""

import asyncio

from holdfast import Reason
from holdfast.schemas.frames import Auth, Hello, Resume, Welcome
from tests.server.durability.bench import in_virtual_time, until
from tests.server.limits.street import ELSEWHERE, HOME, later, refused, town

# Strangers


@in_virtual_time
async def test_from_one_address_only_so_many_may_be_unauthenticated() -> None:
    async with town(unauthenticated_per_address_max=3) as server:
        silent = [await server.knock() for _ in range(3)]

        await refused(await server.knock(), Reason.THROTTLED)

        assert server.counters.connections_refused == 1
        assert (await server.guest("bob", ELSEWHERE)).welcome.player == "bob"
        assert server.limits_told() == [("unauthenticated_per_address_max", "refused")]
        silent[0].cut()
        await later()
        assert (await server.guest("ada")).welcome.player == "ada"


@in_virtual_time
async def test_who_has_said_who_they_are_no_longer_counts_as_unauthenticated() -> None:
    async with town(unauthenticated_per_address_max=1) as server:
        for number in range(5):
            await server.guest(f"player {number}")


@in_virtual_time
async def test_a_network_of_ipv6_is_one_address() -> None:
    async with town(unauthenticated_per_address_max=2) as server:
        await server.knock("2001:db8:0:1::1")
        await server.knock("2001:db8:0:1:ffff::2")

        await refused(await server.knock("2001:db8:0:1::3"), Reason.THROTTLED)

        assert (await server.guest("bob", "2001:db8:0:2::1")).welcome.player == "bob"


@in_virtual_time
async def test_in_all_only_so_many_may_be_unauthenticated() -> None:
    async with town(unauthenticated_max=3) as server:
        for number in range(3):
            await server.knock(f"10.0.0.{number}")

        await refused(await server.knock("10.0.0.99"), Reason.BUSY)

        assert server.limits_told() == [("unauthenticated_max", "refused")]


@in_virtual_time
async def test_those_who_are_refused_are_cut_when_there_are_too_many_of_them_too() -> None:
    async with town(unauthenticated_max=2, close_s=60.0) as server:
        # As long as the answer is on its way, they hold on to their links.
        server.street.latency_s = 5.0
        for _ in range(2):
            await server.knock()
        told = [await server.knock() for _ in range(2)]

        cut = await server.knock()

        assert await cut.ended() == (1006, "")
        for client in told:
            await refused(client, Reason.BUSY)


# Hellos


@in_virtual_time
async def test_beyond_its_hellos_an_address_is_heard_late_and_told_when_to_come_back() -> None:
    async with town(hellos_per_address_burst=3, hellos_per_address_per_s=0.5, hello_delay_s=1.0) as server:
        for number in range(3):
            await server.guest(f"player {number}")
        began_at = asyncio.get_running_loop().time()

        close = await refused(await server.call("one too many"), Reason.THROTTLED)

        assert asyncio.get_running_loop().time() - began_at >= 1.0
        assert ("hellos_per_address_per_s", "refused") in server.limits_told()
        assert server.counters.hellos_throttled == 1
        await later(close.retry_after_s)
        assert (await server.guest("one too many")).welcome.player == "one too many"


@in_virtual_time
async def test_those_who_are_refused_are_told_different_times() -> None:
    async with town(hellos_per_address_burst=1, hellos_per_address_per_s=1.0) as server:
        await server.guest()
        refused_ones = [await server.call(f"player {number}") for number in range(5)]

        waits = [(await refused(client, Reason.THROTTLED)).retry_after_s for client in refused_ones]

        assert len(set(waits)) == 5


@in_virtual_time
async def test_another_address_is_not_held_up() -> None:
    async with town(hellos_per_address_burst=1, hellos_per_address_per_s=0.1) as server:
        await server.guest("ada")
        late = await server.call("late")
        began_at = asyncio.get_running_loop().time()

        await server.guest("bob", ELSEWHERE)

        assert asyncio.get_running_loop().time() == began_at
        await refused(late, Reason.THROTTLED)


@in_virtual_time
async def test_five_hundred_players_behind_one_address_come_back_after_a_cut() -> None:
    async with town(
        hellos_per_address_burst=100, hellos_per_address_per_s=100.0, unauthenticated_per_address_max=64
    ) as server:
        guests = []
        for number in range(500):
            guests.append(await server.guest(f"player {number}"))
            await later(0.01)
        for guest in guests:
            guest.client.cut()
        await later()

        began_at = asyncio.get_running_loop().time()
        for guest in guests:
            back = await guest.come_back()
            assert (await back.hear(Welcome)).outcome.kind == "resumed"

        assert server.counters.resumed == 500
        assert asyncio.get_running_loop().time() == began_at
        assert server.counters.hellos_throttled == server.counters.connections_refused == 0


@in_virtual_time
async def test_a_token_that_proves_nothing_costs_the_address_a_hello() -> None:
    async with town(hellos_per_address_burst=2, hellos_per_address_per_s=0.01) as server:
        for _ in range(2):
            stranger = await server.knock()
            stranger.say(Hello(Auth("name", "ada"), Resume("no-such-session", "no-such-token")))
            assert (await stranger.hear(Welcome)).outcome.kind == "reset"

        await refused(await server.call("bob"), Reason.THROTTLED)


@in_virtual_time
async def test_who_says_nothing_but_rubbish_uses_up_the_hellos_of_its_address() -> None:
    async with town(hellos_per_address_burst=3, hellos_per_address_per_s=0.01, hello_delay_s=1.0) as server:
        for _ in range(3):
            stranger = await server.knock()
            stranger.link.send(b"rubbish")
            assert (await stranger.closed()).reason == "protocol"
        began_at = asyncio.get_running_loop().time()

        stranger = await server.knock()
        stranger.link.send(b"rubbish")

        assert (await stranger.closed()).reason == "protocol"
        assert asyncio.get_running_loop().time() - began_at >= 1.0


@in_virtual_time
async def test_an_unauthenticated_client_who_says_more_than_a_hello_is_cut_off() -> None:
    async with town() as server:
        stranger = await server.knock()

        for _ in range(100):
            stranger.say()

        await refused(stranger, Reason.FLOODING)


# Failures


@in_virtual_time
async def test_wrong_credentials_keep_an_address_from_signing_in_for_longer_and_longer() -> None:
    async with town(failures_per_address_burst=2, failures_per_address_per_s=0.2, failure_wait_max_s=60.0) as server:
        waits = []
        for _ in range(3):
            wrong = await server.call("")
            assert (await wrong.closed()).reason == Reason.AUTH_FAILED
        for _ in range(3):
            close = await refused(await server.call("ada"), Reason.THROTTLED)
            waits.append(close.retry_after_s)
            await later(close.retry_after_s)
            wrong = await server.call("")
            assert (await wrong.closed()).reason == Reason.AUTH_FAILED

        assert 5.0 < waits[0] + 2.0 < waits[1] + 2.0 < waits[2] + 2.0
        assert waits[1] > 1.5 * waits[0]
        assert ("failures_per_address_per_s", "refused") in server.limits_told()


@in_virtual_time
async def test_the_right_credential_does_not_come_in_either_while_an_address_has_to_wait() -> None:
    async with town(failures_per_address_burst=1, failures_per_address_per_s=0.2) as server:
        for _ in range(2):
            await (await server.call("")).closed()

        close = await refused(await server.call("ada"), Reason.THROTTLED)

        await later(close.retry_after_s)
        assert (await server.guest("ada")).welcome.player == "ada"


@in_virtual_time
async def test_failures_keep_nobody_out_who_comes_back_and_nobody_elsewhere() -> None:
    async with town(failures_per_address_burst=1, failures_per_address_per_s=0.2) as server:
        ada = await server.guest("ada")
        ada.client.cut()
        for _ in range(2):
            await (await server.call("")).closed()

        back = await ada.come_back()

        assert (await back.hear(Welcome)).outcome.kind == "resumed"
        assert (await server.guest("bob", ELSEWHERE)).welcome.player == "bob"
        await refused(await server.call("zoe", HOME), Reason.THROTTLED)


# The storm governor


@in_virtual_time
async def test_in_a_storm_those_who_come_back_are_let_in_first_and_nobody_new() -> None:
    async with town(resumes_per_s=10.0, sign_ins_per_s=10.0) as server:
        guests = []
        for number in range(20):
            guests.append(await server.guest(f"player {number}"))
            await later(0.2)
        await later(2.0)
        for guest in guests:
            guest.client.cut()
        await later()

        returning = [await guest.come_back() for guest in guests]
        newcomer = await server.call("newcomer")

        close = await refused(newcomer, Reason.THROTTLED)
        assert server.counters.resumed == 10
        waits = [(await refused(client, Reason.THROTTLED)).retry_after_s for client in returning[10:]]
        assert waits == sorted(waits)
        assert len(set(waits)) == 10
        assert close.retry_after_s > max(waits)
        assert {("resumes_per_s", "refused"), ("sign_ins_per_s", "refused")} <= set(server.limits_told())


@in_virtual_time
async def test_a_storm_of_clients_that_come_when_they_are_told_is_over_soon() -> None:
    async with town(resumes_per_s=50.0, sign_ins_per_s=1000.0, unauthenticated_per_address_max=1000) as server:
        sessions = [await server.connect(f"player {number}") for number in range(200)]
        began_at = asyncio.get_running_loop().time()

        for session in sessions:
            server.link(session).cut()
        await later(0.001)
        await until(lambda: server.counters.resumed == 200)

        # Half of it is the clients' own jitter.
        assert asyncio.get_running_loop().time() - began_at < 2 * 200 / 50.0 + 2.0
        assert all(session.drops == 1 for session in sessions)
        assert server.counters.hellos_throttled > 0


@in_virtual_time
async def test_a_session_that_comes_back_again_and_again_has_to_wait() -> None:
    async with town(requests_burst=3, requests_per_s=0.5) as server:
        ada = await server.guest("ada")
        for _ in range(3):
            back = await ada.come_back()
            ada.welcome = await back.hear(Welcome)
            back.say()

        close = await refused(await ada.come_back(), Reason.THROTTLED)

        await later(close.retry_after_s)
        assert (await (await ada.come_back()).hear(Welcome)).outcome.kind == "resumed"
