"""What a node's metrics say after a game, in virtual time: to the number."""

import asyncio
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest

from holdfast import ClientRoom, ClientSession, Limits, Message, Player, PlayerData, Refused, Room, on
from holdfast.core.reasons import CLOSE_CODES
from holdfast.observability.exposition import PLAIN
from holdfast.observability.metrics import TURNS_PER_SAMPLE, Counters, TurnMeter, spread_of
from holdfast.schemas.events import LimitExceeded, SignInFailed
from holdfast.schemas.frames import Auth
from holdfast.schemas.requests import Reserve
from holdfast.server.rooms.turns import Turns
from holdfast.testing import FaultyStore, MemoryServer
from tests.observability.look import Look, in_virtual_time, look_at


class Say(Message):
    text: str


class Table(Room[PlayerData]):
    """Repeats what is said; says no to "no"."""

    max_players = 4
    grace_s = 20.0

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> Any:
        if say.text == "no":
            raise Refused("no")
        self.broadcast(say)


class Vault(Table):
    durability = "commit"


async def sit_down(server: MemoryServer, name: str, kind: str = "table") -> tuple[ClientSession, ClientRoom]:
    session = await server.connect(name, messages=[Say])
    return session, await session.join_or_create(kind)


async def say(room: ClientRoom, *texts: str) -> None:
    """Say something, and wait until the room has."""
    for text in texts:
        await room.send(Say(text))
    while (await room.receive()) != Say(texts[-1]):
        pass


async def lose(server: MemoryServer, session: ClientSession) -> None:
    """Cut a client off, and keep it away."""
    server.dialer(session).is_down = True
    server.link(session).cut()
    await asyncio.sleep(0.5)


async def until_back(server: MemoryServer, session: ClientSession) -> None:
    back = asyncio.Event()
    session.on_resume(lambda _: back.set())
    server.dialer(session).is_down = False
    await back.wait()


# What is there


@in_virtual_time
async def test_sessions_connections_rooms_and_seats_are_counted_as_they_are_now() -> None:
    async with MemoryServer([Table, Vault], store="memory:") as server:
        ada, room = await sit_down(server, "ada")
        await sit_down(server, "bob")
        await server.connect("cleo")
        here = server.rooms.get(room.id)
        assert here is not None
        server.machine.call(here.start)
        await server.machine.do(server.operate.rooms.reserve(Reserve(room.id, players=["dora"])))

        full = await look_at(server)
        await lose(server, ada)
        dropped = await look_at(server)

    assert full.value("sessions", "connected") == 3
    assert full.value("connections", "memory", "in_game") == 2
    assert full.value("connections", "memory", "connected") == 1
    assert full.that_happened("rooms") == {("table", "playing"): 1}
    assert full.that_happened("seats") == {("table", "taken"): 2, ("table", "reserved"): 1}
    assert (dropped.value("sessions", "connected"), dropped.value("sessions", "disconnected")) == (2, 1)
    seats = {("table", "taken"): 1, ("table", "held"): 1, ("table", "reserved"): 1}
    assert dropped.that_happened("seats") == seats
    # A kind that nobody plays is there all the same, at zero.
    assert full.value("rooms", "vault", "lobby") == 0
    assert full.value("turns_total", "vault") == 0
    assert full.spread("turn_seconds", "vault").sum == 0


@in_virtual_time
async def test_many_are_counted_as_well_as_few() -> None:
    async with MemoryServer([Table]) as server:
        for number in range(1_234):
            server.open_agent(f"agent {number}")
        look = await look_at(server)

    assert look.that_happened("sessions") == {("connected",): 1_234}


@in_virtual_time
async def test_the_node_says_what_it_is_and_whether_it_is_well() -> None:
    store = FaultyStore()
    async with MemoryServer([Vault], store=store, name="eu-1", region="eu", limits=Limits(rooms_max=7)) as server:
        _, room = await sit_down(server, "ada", "vault")
        well = await look_at(server)
        store.is_full = True
        await room.send(Say("this is not saved"))
        await asyncio.sleep(server.limits.store_patience_s + 1.0)
        failing = await look_at(server)
        store.is_full = False

    ((name, region, version),) = well.values("node_info")
    assert (name, region) == ("eu-1", "eu")
    assert version[0].isdigit()
    assert well.value("capacity", "rooms") == 7
    assert [well.value(each) for each in ("node_ready", "node_healthy", "store_failing")] == [1, 1, 0]
    assert [failing.value(each) for each in ("node_ready", "node_healthy", "store_failing")] == [1, 0, 1]
    assert failing.value("commits_refused_total") == 1


# What happened


@in_virtual_time
async def test_drops_and_resumes_are_counted_with_the_time_that_players_were_away() -> None:
    async with MemoryServer([Table]) as server:
        ada, room = await sit_down(server, "ada")
        await say(room, "before")

        await lose(server, ada)
        await asyncio.sleep(6.5)
        await until_back(server, ada)
        look = await look_at(server)

    away = look.spread("resume_away_seconds")
    assert look.that_happened("drops_total") == {("dropped",): 1}
    assert look.that_happened("resumes_total") == {("resumed",): 1}
    assert away.counts[-1] == 1
    assert 6.5 <= away.sum < 20.0
    # One hello of each kind, answered at once.
    assert look.spread("welcome_seconds").counts[-1] == 2


@in_virtual_time
async def test_a_resume_that_comes_too_late_is_a_reset() -> None:
    async with MemoryServer([Table]) as server:
        ada, _ = await sit_down(server, "ada")

        await lose(server, ada)
        await asyncio.sleep(60.0)
        await until_back(server, ada)
        look = await look_at(server)

    assert look.that_happened("resumes_total") == {("reset",): 1}
    assert look.that_happened("sessions_ended_total") == {("grace_ended",): 1}
    assert look.value("sessions_opened_total") == 2


@in_virtual_time
async def test_ends_and_closes_are_told_apart_by_their_reason() -> None:
    async with MemoryServer([Table]) as server:
        ada, _ = await sit_down(server, "ada")
        bob, _ = await sit_down(server, "bob")
        there = server.sessions.get(bob.id)
        assert there is not None

        await ada.close()
        server.machine.call(there.end, "cheating")
        await asyncio.sleep(5.0)
        look = await look_at(server)

    assert look.that_happened("sessions_ended_total") == {("bye",): 1, ("kicked",): 1}
    assert look.that_happened("connections_closed_total") == {("bye",): 1, ("kicked",): 1}
    assert look.that_happened("connections_opened_total") == {("memory",): 2}


@in_virtual_time
async def test_every_reason_is_there_before_it_happens_so_that_the_first_time_is_seen_too() -> None:
    async with MemoryServer([Table]) as server:
        look = await look_at(server)

    reasons = {(reason.value,) for reason in CLOSE_CODES}
    for name in ("sessions_ended", "drops", "connections_closed"):
        assert look.values(f"{name}_total").keys() >= reasons


@in_virtual_time
async def test_sign_ins_are_counted_by_their_scheme_and_what_unauthenticated_clients_call_it_is_not_repeated() -> None:
    async with MemoryServer([Table]) as server:
        await server.connect("ada")
        with pytest.raises(Exception, match="name is needed"):
            await server.connect(auth=Auth("name", ""))
        server.machine.call(server.parts.context.publish, SignInFailed(scheme="robert'); drop", reason="auth_failed"))
        look = await look_at(server)

    assert look.that_happened("sign_ins_total") == {("name",): 1}
    assert look.that_happened("sign_ins_failed_total") == {("name", "auth_failed"): 1, ("other", "auth_failed"): 1}


@in_virtual_time
async def test_limits_are_counted_as_often_as_they_were_reached() -> None:
    async with MemoryServer([Table]) as server:
        once = LimitExceeded(limit="messages_per_s", action="warned", session="s", player="p")
        again = LimitExceeded(limit="messages_per_s", action="warned", session="s", player="p", times=41)
        server.machine.call(server.parts.context.publish, once)
        server.machine.call(server.parts.context.publish, again)
        look = await look_at(server)

    assert look.that_happened("limits_exceeded_total") == {("messages_per_s", "warned"): 42}


@in_virtual_time
async def test_frames_and_bytes_are_counted_both_ways() -> None:
    async with MemoryServer([Table]) as server:
        _, room = await sit_down(server, "ada")
        before = await look_at(server)
        await say(room, "x" * 1000)
        after = await look_at(server)

    for direction in ("received", "sent"):
        # The message itself, and perhaps an acknowledgement or a ping beside it.
        assert 1 <= after.value("frames_total", direction) - before.value("frames_total", direction) <= 4
        size = after.value("payload_bytes_total", direction) - before.value("payload_bytes_total", direction)
        assert 1000 < size < 1200


@in_virtual_time
async def test_messages_that_the_game_refuses_are_counted() -> None:
    async with MemoryServer([Table]) as server:
        _, room = await sit_down(server, "ada")
        await say(room, "no", "yes")
        look = await look_at(server)

    assert (look.value("messages_applied_total"), look.value("messages_refused_total")) == (2, 1)


# How long it took


@in_virtual_time
async def test_as_many_turns_are_counted_as_were_taken() -> None:
    loop = asyncio.get_running_loop()
    timed: list[float] = []
    meter = TurnMeter(loop.time, timed.append)
    turns = Turns(loop, meter, turn_s=1.0)
    counted = []

    for _ in range(TURNS_PER_SAMPLE * 2 + 3):
        counted.append(meter.taken)
        turns.take(lambda: None, ())

    assert counted == list(range(TURNS_PER_SAMPLE * 2 + 3))
    assert len(timed) == 3


@in_virtual_time
async def test_every_turn_is_counted_and_some_are_timed() -> None:
    async with MemoryServer([Table]) as server:
        _, room = await sit_down(server, "ada")
        before = (await look_at(server)).value("turns_total", "table")
        for _ in range(TURNS_PER_SAMPLE * 2):
            await say(room, "x")
        look = await look_at(server)

    turns = look.value("turns_total", "table")
    assert turns == before + TURNS_PER_SAMPLE * 2
    assert look.spread("turn_seconds", "table").counts[-1] == 1 + (turns - 1) // TURNS_PER_SAMPLE


class Slow(Table):
    """Thinks for a while about everything."""

    @on(Say)
    async def said(self, player: Player[PlayerData], say: Say) -> Any:
        await asyncio.sleep(0.3)
        self.broadcast(say)


@in_virtual_time
async def test_a_turn_that_waits_is_timed_to_its_end() -> None:
    async with MemoryServer([Slow]) as server:
        _, room = await sit_down(server, "ada", "slow")
        for _ in range(TURNS_PER_SAMPLE):
            await say(room, "x")
        look = await look_at(server)

    assert look.spread("turn_seconds", "slow").sum == pytest.approx(0.3)


@in_virtual_time
async def test_commits_and_the_wait_at_the_gate_are_timed() -> None:
    async with MemoryServer([Vault], store=FaultyStore(latency_s=0.04)) as server:
        _, room = await sit_down(server, "ada", "vault")
        before = await look_at(server)
        await say(room, "x")
        after = await look_at(server)

    commits = after.value("commits_total") - before.value("commits_total")
    taken_s = after.spread("commit_seconds").sum - before.spread("commit_seconds").sum
    assert commits >= 1
    assert taken_s == pytest.approx(0.04 * commits)
    assert after.spread("commit_batches").sum - before.spread("commit_batches").sum == commits
    waited = after.spread("gate_wait_seconds")
    assert waited.counts[-1] - before.spread("gate_wait_seconds").counts[-1] == 1
    assert waited.sum - before.spread("gate_wait_seconds").sum == pytest.approx(0.04)


@in_virtual_time
async def test_round_trips_are_measured_with_every_ping() -> None:
    async with MemoryServer([Table]) as server:
        ada = await server.connect("ada")
        server.link(ada).latency_s = 0.03
        await asyncio.sleep(server.limits.ping_s * 3)
        look = await look_at(server)

    trips = look.spread("round_trip_seconds")
    assert trips.counts[-1] >= 2
    assert trips.sum == pytest.approx(0.06 * trips.counts[-1])


@in_virtual_time
async def test_a_loop_that_hangs_is_seen_and_one_that_does_not_is_not() -> None:
    async with MemoryServer([Table]) as server:
        await asyncio.sleep(10.0)
        calm = await look_at(server)
        server.pause()
        await asyncio.sleep(3.0)
        server.wake()
        await asyncio.sleep(1.0)
        hung = await look_at(server)

    assert calm.spread("loop_lag_seconds").counts[-1] >= 39
    assert calm.spread("loop_lag_seconds").sum == pytest.approx(0.0)
    assert 2.5 < hung.spread("loop_lag_seconds").sum <= 3.0


@in_virtual_time
async def test_a_node_that_has_stopped_looks_at_its_loop_no_more() -> None:
    async with MemoryServer([Table]) as server:
        await asyncio.sleep(1.0)
        lag = server.parts.metrics.loop_lag
    looks = spread_of(lag)

    await asyncio.sleep(10.0)

    assert spread_of(lag) == looks


# Totals


@in_virtual_time
async def test_no_total_ever_gets_smaller_however_many_players_leave() -> None:
    looks: list[Look] = []
    async with MemoryServer([Table, Vault], store="memory:") as server:
        for number in range(6):
            session, room = await sit_down(server, f"player {number}", ("table", "vault")[number % 2])
            await say(room, "hello", "no", "bye")
            looks.append(await look_at(server))
            if number == 2:
                await lose(server, session)
                await until_back(server, session)
        looks.append(await look_at(server))
        for session in server.clients:
            await session.close()
            looks.append(await look_at(server))
        await asyncio.sleep(200.0)
        looks.append(await look_at(server))

    assert looks[-1].that_happened("sessions") == {}
    assert looks[-1].that_happened("rooms") == {}
    assert looks[-1].value("messages_applied_total") == 18
    for before, after in pairwise(looks):
        totals = after.totals()
        assert {name: totals[name] for name, value in before.totals().items() if totals[name] < value} == {}


@in_virtual_time
async def test_counts_by_label_add_up_to_the_counters_of_the_node() -> None:
    async with MemoryServer([Table]) as server:
        ada, _ = await sit_down(server, "ada")
        await sit_down(server, "bob")
        await lose(server, ada)
        await until_back(server, ada)
        await ada.close()
        await asyncio.sleep(5.0)
        look, counters = await look_at(server), replace(server.counters)

    assert sum(look.that_happened("connections_opened_total").values()) == counters.connections == 3
    assert sum(look.that_happened("sessions_ended_total").values()) == counters.sessions_ended == 1
    assert sum(look.that_happened("drops_total").values()) == counters.drops == 1
    assert sum(look.that_happened("rooms_created_total").values()) == counters.rooms_created == 1


SHOWN_OTHERWISE = {
    *("connections", "sessions_ended", "drops", "rooms_created"),
    *("sessions", "resumed", "resynced", "reset"),
    *("bytes_received", "bytes_sent", "frames_received", "frames_sent"),
    *("hellos_throttled", "messages_throttled", "latest_throttled", "requests_throttled"),
    *("effects_done", "effects_failed"),
    *("datagrams_unknown", "datagrams_forged", "datagrams_late"),
}


def test_every_counter_of_the_node_is_shown() -> None:
    assert {field.name for field in fields(Counters)} - SHOWN_OTHERWISE == set(PLAIN)


@in_virtual_time
async def test_two_servers_in_one_process_count_for_themselves() -> None:
    async with MemoryServer([Table]) as one, MemoryServer([Table], seed=1) as other:
        await sit_down(one, "ada")
        busy, idle = await look_at(one), await look_at(other)

    assert (busy.value("sessions_opened_total"), idle.value("sessions_opened_total")) == (1, 0)
    assert (busy.value("rooms", "table", "lobby"), idle.value("rooms", "table", "lobby")) == (1, 0)


# Labels


@in_virtual_time
async def test_nothing_of_a_single_player_is_shown_unless_it_is_asked_for() -> None:
    async with MemoryServer([Table]) as server:
        ada, room = await sit_down(server, "ada")
        text = str((await look_at(server)).families)

    assert not any(secret in text for secret in (ada.id, "ada", room.id))


@in_virtual_time
async def test_a_sample_of_sessions_is_as_large_as_was_asked_for_and_stays_the_same() -> None:
    async with MemoryServer([Table]) as server:
        sessions = [await server.connect(f"player {number}") for number in range(5)]
        first, second = await look_at(server, sessions_max=3), await look_at(server, sessions_max=3)
        everybody = await look_at(server, sessions_max=100)

    name = "session_latency_seconds"
    assert len(first.values(name)) == 3
    assert first.values(name).keys() == second.values(name).keys()
    assert everybody.values(name).keys() == {(session.id,) for session in sessions}


@in_virtual_time
async def test_a_session_in_the_sample_shows_how_its_connection_is() -> None:
    async with MemoryServer([Table]) as server:
        ada, room = await sit_down(server, "ada")
        server.link(ada).latency_s = 0.05
        await asyncio.sleep(server.limits.ping_s * 3)
        await lose(server, ada)
        await until_back(server, ada)
        there = server.rooms.get(room.id)
        assert there is not None
        server.machine.call(there.broadcast, Say("x" * 500))
        look = await look_at(server, sessions_max=1)

    assert look.value("session_latency_seconds", ada.id) == pytest.approx(0.1, rel=0.2)
    assert look.value("session_drops_total", ada.id) == 1
    assert look.value("session_resumes_total", ada.id) == 1
    assert look.value("session_kept_bytes", ada.id) > 500
