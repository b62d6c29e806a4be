"""A share of every pool for each address: nobody with one or two of them takes what all players need.

Each attack is scaled down by the limits. Two addresses take what they can get, and a third still gets in.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import fields
from functools import partial
from typing import Any

import pytest

from holdfast import Limits, PlayerData, Queue, Reason, Room, Throttled
from holdfast.core.errors import refusal
from holdfast.schemas.frames import Close, Welcome
from tests.server.durability.bench import in_virtual_time
from tests.server.limits.street import ELSEWHERE, HOME, Guest, Hall, Town, later, patient

THIRD = "192.0.2.55"
HOMES = (HOME, ELSEWHERE)


class Narrow(Room[PlayerData]):
    """One seat, and a line."""

    max_players = 1
    waiting_max = 8


async def ask(guest: Guest, operation: str, **arguments: Any) -> None:
    """Ask for something; a refusal is raised."""
    reply = await guest.client.request(operation, **arguments)
    if reply.problem is not None:
        raise refusal(reply.problem.code, reply.problem.message)


async def taken(attempt: Callable[[], Awaitable[Any]], attempts: int) -> int:
    """How often it worked before it was refused."""
    for number in range(attempts):
        try:
            await attempt()
        except Throttled:
            return number
    return attempts


class Attack:
    """Takes of one pool from one address what it can get; every guest is another player."""

    def __init__(self, server: Town, address: str) -> None:
        self.server = server
        self.address = address
        self.guests: list[Guest] = []

    async def guest(self) -> Guest:
        guest = await self.server.guest(f"{self.address}/{len(self.guests)}", self.address)
        self.guests.append(guest)
        return guest

    async def make_room(self) -> None:
        await ask(await self.guest(), "create", kind="hall")

    async def quick_join(self) -> None:
        await ask(await self.guest(), "join_or_create", kind="narrow")

    async def watch(self) -> None:
        await ask(await self.guest(), "watch", id="w", kind="hall")

    async def wait(self) -> None:
        (room,) = self.server.rooms
        await ask(await self.guest(), "wait", room=room.id)

    async def spectate(self) -> None:
        (room,) = self.server.rooms
        await ask(await self.guest(), "spectate", room=room.id)

    async def place(self) -> None:
        await ask(await self.guest(), "start_placement", queue="never", kind="hall", players=[])


@asynccontextmanager
async def square(*rooms: type[Room[Any]], options: dict[str, Any] | None = None, **limits: Any) -> AsyncIterator[Town]:
    """A town with these rooms and limits."""
    server = Town(patient(**limits), rooms or (Hall,), **options or {})
    async with server:
        yield server


@pytest.mark.parametrize(
    ("deed", "limits", "share"),
    [
        (Attack.make_room, {"rooms_max": 40}, 10),
        (Attack.quick_join, {"rooms_max": 40}, 10),
        (Attack.watch, {"watches_max": 20}, 5),
    ],
)
@in_virtual_time
async def test_two_addresses_take_their_shares_and_a_third_gets_in(
    deed: Callable[[Attack], Awaitable[None]], limits: dict[str, Any], share: int
) -> None:
    async with square(Hall, Narrow, **limits) as server:
        attacks = [Attack(server, home) for home in HOMES]

        got = [await taken(partial(deed, attack), 100) for attack in attacks]

        assert got == [share, share]
        assert ("address_share", "refused") in server.limits_told()
        assert {event.address for event in server.told} == set(HOMES)
        await deed(Attack(server, THIRD))


@in_virtual_time
async def test_a_waitlist_is_not_filled_from_two_addresses() -> None:
    async with square(Narrow) as server:
        await ask(await server.guest("ada", THIRD), "join_or_create", kind="narrow")
        attacks = [Attack(server, home) for home in HOMES]

        got = [await taken(attack.wait, 100) for attack in attacks]

        assert got == [2, 2]
        await Attack(server, THIRD).wait()
        await ask(attacks[0].guests[0], "stop_waiting", room=next(iter(server.rooms)).id)
        await attacks[0].wait()


@in_virtual_time
async def test_as_many_as_a_room_seats_may_wait_in_its_waitlist_from_one_address() -> None:
    class Small(Room[PlayerData]):
        max_players = 4
        waiting_max = 8

    async with square(Small) as server:
        (room,) = [await server.create_room("small")]
        for number in range(4):
            await ask(await server.guest(f"seated-{number}", THIRD), "join", room=room.id)

        assert await taken(Attack(server, HOME).wait, 8) == 4


@in_virtual_time
async def test_places_for_spectators_are_shared_too_and_are_free_again_when_somebody_goes() -> None:
    class Show(Room[PlayerData]):
        max_players = 1
        max_spectators = 8

    async with square(Show) as server:
        room = await server.create_room("show")
        attacks = [Attack(server, home) for home in HOMES]

        got = [await taken(attack.spectate, 100) for attack in attacks]

        assert got == [2, 2]
        assert ("address_share", "refused") in server.limits_told()
        await Attack(server, THIRD).spectate()
        # From elsewhere, a player takes over a place that they have already.
        again = await server.guest(attacks[1].guests[0].welcome.player, HOME)
        await ask(again, "spectate", room=room.id)
        await ask(attacks[0].guests[0], "unspectate")
        await ask(again, "unspectate")
        await attacks[0].spectate()
        await attacks[1].spectate()


@in_virtual_time
async def test_placements_are_shared_too() -> None:
    never = Queue("never", ("nowhere",), timeout_s=3600.0)
    async with square(options={"queues": [never]}) as server:
        got = [await taken(Attack(server, home).place, 300) for home in HOMES]

        assert got == [250, 250]
        await Attack(server, THIRD).place()


@in_virtual_time
async def test_sessions_of_one_address_are_a_share_of_all_and_held_ones_count() -> None:
    async with square(sessions_max=20) as server:
        for home in HOMES:
            guests = [await server.guest(f"{home}/{number}", home) for number in range(5)]
            for guest in guests:
                await guest.client.close()
            late = await server.call(f"{home}/late", home)
            close = await late.hear(Close)
            assert (close.reason, close.retry_after_s > 0) == (Reason.THROTTLED, True)

        assert len(server.sessions) == 10
        await server.guest("zoe", THIRD)
        await later(60.0)
        assert [session.player_id for session in server.sessions] == ["zoe"]
        await server.guest("again", HOME)


@pytest.mark.parametrize("sessions_max", [20, 6], ids=["the address is full", "the node is full"])
@in_virtual_time
async def test_who_is_not_let_in_keeps_the_session_that_would_have_ended_for_it(sessions_max: int) -> None:
    share = {20: 0.25, 6: 1.0}[sessions_max]
    async with square(sessions_max=sessions_max, sessions_per_player_max=1, address_share=share) as server:
        guests = [await server.seated(f"player-{number}") for number in range({20: 5, 6: 6}[sessions_max])]

        close = await (await server.call("player-0")).hear(Close)

        assert close.reason in {Reason.THROTTLED, Reason.BUSY}
        assert server.ended == []
        assert len(server.hall().players) == len(guests)


@in_virtual_time
async def test_connections_of_one_address_are_a_share_of_all() -> None:
    async with square(connections_max=40, resume_reserve=0.0) as server:
        for home in HOMES:
            guests = [await server.guest(f"{home}/{number}", home) for number in range(10)]
            late = await server.knock(home)
            close = await late.hear(Close)
            assert (close.reason, close.retry_after_s > 0) == (Reason.THROTTLED, True)
            # Its place is free again when one has gone.
            await guests[0].client.close()
            await server.guest(f"{home}/next", home)

        await server.guest("zoe", THIRD)
        assert server.limits_told() == [("address_share", "refused")] * 2


@in_virtual_time
async def test_a_network_that_the_operator_names_has_the_whole_pool() -> None:
    async with square(full_share=("203.0.113.0/24",), rooms_max=8, watches_max=8, connections_max=20) as server:
        attack = Attack(server, HOME)

        assert await taken(attack.make_room, 8) == 8
        assert await taken(attack.watch, 8) == 8
        assert await taken(Attack(server, ELSEWHERE).make_room, 8) == 0, "the pool itself is full"


@in_virtual_time
async def test_a_room_counts_for_its_makers_address_until_it_ends() -> None:
    async with square(rooms_max=4, unjoined_s=30.0) as server:
        attack = Attack(server, HOME)
        await attack.make_room()
        await server.create_room("hall")
        with pytest.raises(Throttled, match="from your address"):
            await attack.make_room()

        await later(31.0)

        await attack.make_room()


@in_virtual_time
async def test_a_room_that_is_refused_by_its_game_counts_for_nobody() -> None:
    class Never(Room[PlayerData]):
        def on_create(self, config: dict[str, Any]) -> None:
            raise refusal("refused", "never")

    async with square(Hall, Never, rooms_max=4) as server:
        attack = Attack(server, HOME)
        for _ in range(3):
            reply = await (await attack.guest()).client.request("create", kind="never")
            assert reply.problem is not None
            assert reply.problem.code == "refused"

        await attack.make_room()


# Who returns goes before who is new


@in_virtual_time
async def test_a_node_that_is_full_of_new_players_takes_back_those_whom_it_has() -> None:
    async with square(connections_max=20, address_share=1.0) as server:
        held = [await server.guest(f"held-{number}", f"192.0.2.{number}") for number in range(2)]
        for guest in held:
            guest.client.cut()
        await later(1.0)
        news = [await server.guest(f"new-{number}", f"198.51.100.{number}") for number in range(18)]

        late = await (await server.call("late", HOME)).hear(Close)
        back = [await (await guest.come_back("192.0.2.200")).hear(Welcome) for guest in held]

        assert len(news) == 18
        assert (late.reason, late.retry_after_s > 0) == (Reason.THROTTLED, True)
        assert [welcome.outcome.kind for welcome in back] == ["resumed"] * 2
        assert len(server.parts.connections) == 20


@in_virtual_time
async def test_an_address_that_is_full_of_new_players_takes_back_those_who_were_there() -> None:
    async with square(connections_max=80) as server:
        held = [await server.guest(f"held-{number}") for number in range(2)]
        for guest in held:
            guest.client.cut()
        await later(1.0)
        for number in range(18):
            await server.guest(f"new-{number}")

        late = await (await server.call("late")).hear(Close)
        back = [await (await guest.come_back()).hear(Welcome) for guest in held]

        assert late.reason == Reason.THROTTLED
        assert [welcome.outcome.kind for welcome in back] == ["resumed"] * 2


# Every pool


SHARED = {"unopened_max", "connections_max", "sessions_max", "rooms_max", "watches_max"}
"""Pools of the node that strangers draw from: one address has a share."""

COUNTED_BY_ADDRESS = {
    "unauthenticated_max": "unauthenticated_per_address_max",
    "password_checks_waiting_max": "password_checks_per_address_max",
}
"""Those with a limit of their own for each address."""

GIVES_WAY = {
    *("addresses_max", "ended_kept_max", "timelines_kept_max", "events_kept_max", "lockouts_max", "sign_outs_max"),
    *("closing_channels_max", "retired_tokens_max", "replies_kept_max", "forks_kept_max", "guess_counters_max"),
    *("recording_turns_max", "recordings_kept_max", "news_waiting_max"),
}
"""What is remembered: the oldest gives way, or it is forgotten with time. Nobody is refused for want of it."""

OF_OPERATORS = {
    *("bans_max", "broadcasts_max", "packet_targets_max", "records_in_memory_max", "role_changes_max"),
    *("tickets_used_max", "nodes_max", "forwarded_max"),
}
"""What operators fill, or players with an account or a ticket that an operator gave them."""

OF_OTHER_NODES = {"remote_rooms_max", "row_members_max", "questions_kept_max"}
"""What other nodes fill, where the shares and rates of the players come before."""


def test_every_limit_of_a_node_is_shared_or_cannot_be_taken_by_one_address() -> None:
    names = {limit.name for limit in fields(Limits) if limit.name.endswith("_max")}
    of_one = {name for name in names if is_of_one(name)}

    unclassified = names - SHARED - set(COUNTED_BY_ADDRESS) - GIVES_WAY - OF_OPERATORS - OF_OTHER_NODES - of_one

    assert unclassified == set(), "say whose it is: a pool that strangers draw from needs a share for each address"
    assert {limit.name for limit in fields(Limits)} >= set(COUNTED_BY_ADDRESS.values())


def is_of_one(name: str) -> bool:
    """Whether it limits one message, connection, session, player, room or search, or one piece of the node's work."""
    return any(part in name for part in ("_bytes_", "_per_", "_s_max", "bytes_max")) or name in {
        *("asks_max", "groups_max", "group_members_max", "notices_kept_max"),
        *("fragments_max", "nesting_max", "window_messages_max", "kept_messages_max", "latest_kept_max"),
        *(
            "violations_warned_max",
            "violations_max",
            "fair_queue_frames_max",
            "fair_queue_portion_max",
            "name_chars_max",
            "requests_in_flight_max",
        ),
        *("wrong_guesses_max", "wrong_passwords_max", "wrong_passwords_elsewhere_max", "watch_rooms_max"),
        *(
            "turns_waiting_max",
            "timers_max",
            "objects_max",
            "spawned_max",
            "agents_max",
            "effects_max",
            "timeline_max",
            "events_waiting_max",
            "unpolled_events_max",
        ),
        *(
            "commit_turns_max",
            "commit_batches_max",
            "nats_batch_writes_max",
            "nats_reads_max",
            "search_slice_max",
            "search_examined_max",
            "indexed_properties_max",
        ),
        *("password_checks_max", "issuer_keys_max", "packet_frames_max", "packet_read_frames_max"),
    }
