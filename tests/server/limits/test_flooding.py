"""After the hello: what one session may say, and what becomes of what is beyond it."""

import asyncio

import pytest
from msgspec import Raw

from holdfast import MessageRefused, Reason
from holdfast.core.codec import MSGPACK
from holdfast.core.rates import PAYLOAD_OVERHEAD_BYTES
from holdfast.schemas.frames import Ack, Data, Position, Reply, Request, Welcome
from tests.server.durability.bench import in_virtual_time, until
from tests.server.limits.street import Guest, Say, Town, later, refused, town

# Few, so that a test is short; hours to forgive, so that nothing is forgiven in it.
FEW = {
    "messages_burst": 10,
    "messages_per_s": 1.0,
    "violations_warned_max": 2,
    "violations_max": 5,
    "violations_per_s": 0.001,
    "flood_pause_s": 0.01,
}


def refusals(guest: Guest) -> list[tuple[int, str]]:
    """Which messages were refused in the stream, and the codes."""
    decoder = MSGPACK.body_decoder(MessageRefused)
    frames = [frame for frame in guest.client.all_heard(Data) if frame.type == MessageRefused.wire_name]
    return [(refused.seq, refused.code) for refused in map(decoder.decode, (frame.body for frame in frames))]


def acknowledged(guest: Guest) -> int:
    """How far the server has got."""
    return max((frame.ack for frame in guest.client.heard if isinstance(frame, Ack | Data)), default=0)


# Reliable messages


@in_virtual_time
async def test_the_first_beyond_the_allowance_are_carried_out_and_told_of() -> None:
    async with town(**FEW) as server:
        ada = await server.seated()

        ada.say(12)
        await until(lambda: server.hall().heard == list(range(1, 13)))

        assert server.limits_told() == [("messages_per_s", "warned")]
        assert refusals(ada) == []


@in_virtual_time
async def test_the_next_are_refused_in_the_stream_and_not_applied_and_everything_is_acknowledged() -> None:
    async with town(**FEW) as server:
        ada = await server.seated()

        ada.say(15)
        await until(lambda: acknowledged(ada) == 15)

        heard = server.hall().heard
        assert heard[:12] == list(range(1, 13))
        assert refusals(ada) == [(seq, "throttled") for seq in range(1, 16) if seq not in heard]
        assert server.counters.messages_throttled == len(refusals(ada)) > 0
        assert set(server.limits_told()) == {("messages_per_s", "warned"), ("messages_per_s", "dropped")}


@in_virtual_time
async def test_in_the_end_the_connection_is_closed_and_may_come_back_later() -> None:
    async with town(**FEW, retry_after_max_s=10.0) as server:
        ada = await server.seated()

        ada.say_at_once(100)

        close = await refused(ada.client, Reason.FLOODING)
        assert close.retry_after_s == 10.0
        assert server.counters.floods == 1
        event = next(event for event in server.told if event.action == "disconnected")
        assert (event.session, event.player, event.address) == (ada.welcome.session, "ada", "203.0.113.7")
        too_soon = await refused(await ada.come_back(), Reason.FLOODING)
        assert too_soon.retry_after_s == pytest.approx(10.0, abs=0.1)
        await later(too_soon.retry_after_s)
        back = await ada.come_back()
        assert (await back.hear(Welcome)).outcome.kind == "resumed"


@in_virtual_time
async def test_what_was_accepted_before_the_end_was_refused_too_and_the_stream_goes_on() -> None:
    async with town(**FEW, retry_after_max_s=10.0) as server:
        ada = await server.seated()
        ada.say_at_once(100)
        await refused(ada.client, Reason.FLOODING)
        await later(15.0)

        client = await server.knock()
        welcome = await client.resume(ada.welcome, Position(1, 1, 0))
        (channel,) = welcome.channels
        client.send(channel.applied + 1, Say(channel.applied + 1))
        await until(lambda: channel.applied + 1 in server.hall().heard)

        assert channel.accepted in {0, channel.applied}


@in_virtual_time
async def test_a_message_that_comes_twice_counts_once() -> None:
    async with town(**FEW) as server:
        ada = await server.seated()
        ada.say(10)
        await later()

        for _ in range(100):
            ada.client.send(10, Say(10))
        await until(lambda: server.counters.duplicates_ignored == 100)

        assert server.told == []


@in_virtual_time
async def test_a_new_connection_does_not_refill_the_allowance() -> None:
    async with town(**FEW) as server:
        ada = await server.seated()
        ada.say(10)
        await until(lambda: len(server.hall().heard) == 10)
        ada.client.cut()
        await later()

        client = await server.knock()
        await client.resume(ada.welcome, Position(1, 1, 0))
        ada.client = client
        ada.say(3)
        await until(lambda: acknowledged(ada) == 13)

        assert server.limits_told() == [("messages_per_s", "warned"), ("messages_per_s", "dropped")]


@in_virtual_time
async def test_a_window_that_is_sent_again_after_a_drop_is_not_held_against_its_client() -> None:
    async with town() as server:
        ada = await server.connect("ada")
        room = await ada.join_or_create("hall")
        for n in range(400):
            await room.send(Say(n))
        await until(lambda: room.accepted == 400)
        dialer = server.dialer(ada)
        dialer.is_down = True
        dialer.link.cut()
        for n in range(400, 1400):
            await room.send(Say(n))
        await later(5.0)
        dialer.is_down = False

        await until(lambda: len(server.hall().heard) == 1400)

        assert server.hall().heard == list(range(1400))
        assert server.told == []


@in_virtual_time
async def test_a_flood_of_thousands_a_second_is_slowed_down_to_what_is_allowed_and_ends() -> None:
    async with town() as server:
        ada = await server.seated()
        loop = asyncio.get_running_loop()
        began_at, limits = loop.time(), server.limits

        while ada.client.link.buffered_bytes < 1_000_000 and not server.counters.floods:
            ada.say(130)
            await later(0.01)
            assert loop.time() - began_at < 600.0
        seconds = loop.time() - began_at

        allowed = limits.messages_burst + limits.messages_per_s * seconds
        violations = limits.violations_max + limits.violations_per_s * seconds
        assert len(server.hall().heard) <= allowed + violations + 10


@in_virtual_time
async def test_who_sends_sixty_a_second_and_sometimes_many_at_once_is_never_told_anything() -> None:
    async with town() as server:
        ada = await server.seated()

        for frame in range(1200):
            ada.say(2)
            ada.send_latest()
            if frame % 300 == 0:
                ada.say(200)
            await later(1 / 60)
        await until(lambda: len(server.hall().heard) == ada.said + 1200)

        assert server.told == []


# The other classes


@in_virtual_time
async def test_unreliable_messages_beyond_the_allowance_are_dropped_and_counted() -> None:
    async with town(latest_burst=10, latest_per_s=1.0, violations_warned_max=2, violations_per_s=0.001) as server:
        ada = await server.seated()

        ada.send_latest(15)
        await later(0.05)

        assert len(server.hall().heard) == 12
        await until(lambda: server.counters.latest_throttled == 3)
        assert set(server.limits_told()) == {("latest_per_s", "warned"), ("latest_per_s", "dropped")}
        assert refusals(ada) == []


@in_virtual_time
async def test_requests_beyond_the_allowance_are_answered_in_order_with_throttled() -> None:
    async with town(requests_burst=5, requests_per_s=0.1, violations_warned_max=1, violations_per_s=0.001) as server:
        ada = await server.guest()

        for _ in range(8):
            ada.client.ask("create", kind="hall")
        replies = [await ada.client.hear(Reply) for _ in range(8)]

        assert [reply.id for reply in replies] == list(range(1, 9))
        problems = [reply.problem.code if reply.problem is not None else "" for reply in replies]
        assert problems == [""] * 6 + ["throttled"] * 2
        assert len(server.rooms) == 6
        assert server.counters.requests_throttled == 2


@in_virtual_time
async def test_a_throttled_answer_is_the_same_when_it_is_asked_for_again() -> None:
    async with town(requests_burst=1, requests_per_s=0.1, violations_warned_max=0, violations_per_s=0.001) as server:
        ada = await server.guest()
        await ada.client.request("create", kind="hall")
        first = await ada.client.request("create", kind="hall")
        assert first.problem is not None
        assert first.problem.code == "throttled"
        ada.client.cut()
        await later(20.0)

        back = await server.knock()
        await back.resume(ada.welcome)
        back.say(Request(2, "create", Raw(MSGPACK.encode({"kind": "hall"}))))

        assert await back.hear(Reply) == first
        assert len(server.rooms) == 1


@in_virtual_time
async def test_bytes_beyond_the_allowance_slow_a_client_down() -> None:
    async with town(
        bytes_burst=20_000, bytes_per_s=1_000.0, violations_warned_max=1, violations_per_s=0.001, flood_pause_s=0.1
    ) as server:
        ada = await server.guest()
        began_at = asyncio.get_running_loop().time()

        for _ in range(30):
            ada.client.link.send(MSGPACK.encode([["ack", 1, 0, "x" * 1_000]]))
        await ada.client.request("search")

        assert asyncio.get_running_loop().time() - began_at > 1.0
        assert {("bytes_per_s", "warned"), ("bytes_per_s", "dropped")} <= set(server.limits_told())


@in_virtual_time
async def test_many_empty_payloads_are_as_bad_as_few_large_ones() -> None:
    async with town() as server:
        ada = await server.guest()
        limits, before = server.limits, server.counters.bytes_received

        for _ in range(100):
            for _ in range(500):
                ada.client.say()
            await later(0.1)

        # Each has one byte.
        heard = server.counters.bytes_received - before
        assert heard <= (limits.bytes_burst + limits.bytes_per_s * 10.0) / PAYLOAD_OVERHEAD_BYTES


# Policies


async def flooded(server: Town) -> Guest:
    ada = await server.seated()
    ada.say_at_once(60)
    await until(lambda: acknowledged(ada) == 60 or server.counters.floods)
    return ada


@in_virtual_time
async def test_the_policy_warn_only_tells() -> None:
    async with town(**FEW, flood_policy="warn") as server:
        ada = await flooded(server)

        assert server.hall().heard == list(range(1, 61))
        assert refusals(ada) == []
        assert set(server.limits_told()) == {("messages_per_s", "warned")}


@in_virtual_time
async def test_the_policy_drop_never_closes() -> None:
    async with town(**FEW, flood_policy="drop") as server:
        ada = await flooded(server)

        assert ada.client.all_heard(Reply)
        assert len(server.hall().heard) + len(refusals(ada)) == 60
        assert server.counters.floods == 0


# Whom it does not concern


@in_virtual_time
async def test_agents_may_say_anything() -> None:
    async with town(**FEW) as server:
        room = await server.create_room("hall")

        async def talk() -> None:
            seat = await server.open_agent("npc").join(room.id)
            for n in range(500):
                await seat.send(Say(n))

        await server.machine.do(talk())
        await until(lambda: len(server.hall().heard) == 500)

        assert server.told == []


@in_virtual_time
async def test_one_who_floods_costs_another_nothing() -> None:
    async with town(**FEW) as server:
        ada, bob = await server.seated("ada"), await server.seated("bob")
        ada.say_at_once(100)

        bob.say(5)
        await until(lambda: acknowledged(bob) == 5)

        assert refusals(bob) == []


@in_virtual_time
async def test_whoever_watches_hears_at_most_once_a_second_of_the_same_and_how_often_it_was() -> None:
    async with town(**FEW, flood_policy="warn") as server:
        ada = await server.seated()

        for _ in range(50):
            ada.say(20)
            await later(0.1)
        await later(2.0)

        assert len(server.told) <= 8
        assert sum(event.times for event in server.told) == pytest.approx(1000 - 10, abs=10)


@in_virtual_time
async def test_who_flooded_keeps_the_address_from_signing_in_anew_when_it_happens_again_and_again() -> None:
    async with town(**FEW, failures_per_address_burst=2) as server:
        for number in range(3):
            flooder = await server.seated(f"flooder {number}")
            flooder.say_at_once(100)
            await refused(flooder.client, Reason.FLOODING)

        await refused(await server.call("flooder 4"), Reason.THROTTLED)
