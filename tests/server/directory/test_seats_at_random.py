"""Everything that can happen to seats, at random: whatever the order, the counts of the node agree with its rooms."""

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random

import pytest

from holdfast import Limits, Player, PlayerData, Room, SessionEnded
from holdfast.core.errors import Refused
from holdfast.core.room import context_of
from holdfast.schemas.player import ReservationInfo, WaitInfo
from holdfast.schemas.room import RoomInfo
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.directory.seats import PATIENT, Caller, arena, call, served
from tests.server.durability.bench import a_moment, in_virtual_time

PLAYERS = [f"p{number}" for number in range(10)]
SEATS = 3
STEPS = 150


class Moody(Room[PlayerData]):
    """Takes its time, and turns some away, now before and now after they sat down."""

    max_players = SEATS
    waiting_max = 3
    grace_s = 8.0
    empty_ttl_s = 15.0
    reservation_s = 6.0

    async def admit(self, player: Player[PlayerData]) -> None:
        await asyncio.sleep(self.random.choice([0.0, 0.0, 0.5, 3.0]))
        if self.random.random() < 0.2:
            raise Refused("not today")

    async def on_join(self, player: Player[PlayerData]) -> None:
        await asyncio.sleep(self.random.choice([0.0, 0.3]))
        if self.random.random() < 0.1:
            raise Refused("not you")

    async def on_leave(self, player: Player[PlayerData], reason: str) -> None:
        await asyncio.sleep(self.random.choice([0.0, 0.4]))


class Crowd:
    """Players who do whatever comes to their mind, each one thing at a time."""

    def __init__(self, server: MemoryServer, random: Random) -> None:
        self._server = server
        self._random = random
        self._callers: dict[str, list[Caller]] = {name: [] for name in PLAYERS}
        self._busy: dict[Caller, asyncio.Task[None]] = {}

    async def step(self) -> None:
        name = self._random.choice(PLAYERS)
        callers = self._callers[name]
        if not callers or (len(callers) == 1 and self._random.random() < 0.1):
            callers.append(await call(self._server, name))
            return
        caller = self._random.choice(callers)
        if self._random.random() < 0.12:
            callers.remove(caller)
            await caller.client.close()
        elif caller not in self._busy or self._busy[caller].done():
            self._busy[caller] = asyncio.create_task(self._ask(caller))

    async def _ask(self, caller: Caller) -> None:
        # A refusal is an answer; a caller who is gone, or whose seat was taken over, gets none.
        with suppress(Refused, SessionEnded, AssertionError, TimeoutError):
            await self._act(caller)

    async def _act(self, caller: Caller) -> None:
        random = self._random
        rooms = [room.id for room in self._server.rooms]
        if not rooms or random.random() < 0.2:
            await caller.join_or_create()
            return
        room = random.choice(rooms)
        match random.randrange(8):
            case 0 | 1:
                await caller.ask("join", RoomInfo, room=room)
            case 2:
                await caller.tell("leave")
            case 3:
                party = random.sample(PLAYERS, random.randrange(3))
                await caller.ask("reserve", ReservationInfo, room=room, players=party, ttl_s=random.uniform(1.0, 9.0))
            case 4:
                await caller.tell("release", room=room, players=random.sample(PLAYERS, random.randrange(4)))
            case 5 | 6:
                await caller.ask("wait", WaitInfo, room=room)
            case _:
                await caller.tell("stop_waiting", room=room)

    async def go(self) -> None:
        """Everybody goes home."""
        for callers in self._callers.values():
            for caller in callers:
                await caller.client.close()
        for task in self._busy.values():
            task.cancel()
        await asyncio.gather(*self._busy.values(), return_exceptions=True)


def _meddle(server: MemoryServer, random: Random) -> None:
    """What games and operators do."""
    room = random.choice(list(server.rooms))
    deed = random.choice([room.lock, room.unlock, room.unlock, room.close])
    if random.random() < 0.3:
        server.machine.call(deed)


def _check_books(server: MemoryServer) -> None:
    """What the node knows of seats is what its rooms say."""
    directory = server.rooms
    by: Counter[str] = Counter()
    where: dict[str, set[str]] = {}
    for runner in directory.runners():
        room = runner.room
        assert runner.seats.used <= SEATS, f"a seat of {room} was sold twice"
        heads = Counter(seat.player_id for seat in runner.seats)
        assert not heads or max(heads.values()) == 1
        sitting = {seat.id for seat in room.players}
        assert not any(runner.seats.is_awaited(each) for each in sitting)
        by.update(kept.by for kept in runner.seats.reservations.values() if kept.by)
        for player_id in (*sitting, *runner.seats.reservations):
            where.setdefault(player_id, set()).add(room.id)
    assert {each: directory.reserved.count(each) for each in PLAYERS} == {each: by[each] for each in PLAYERS}
    assert {each: {runner.room.id for runner in directory.rooms_of(each)} for each in directory.players()} == where
    for session in server.sessions:
        assert session.seat is None or session.seat in directory.runner(session.room_id).seats


def _check_makers(server: MemoryServer) -> None:
    """Nobody's reservation outlives their last session, and only those in a room and its creator have some in it."""
    for room in server.rooms:
        for player_id, kept in context_of(room).seats.reservations.items():
            assert server.sessions.of_player(kept.by), f"the maker of a reservation in {room} is gone"
            own = {player_id, context_of(room).listing.creator, *(player.id for player in room.players)}
            assert kept.by in own, f"{kept.by} has reserved a seat in {room}, and has none"


def _reserved(server: MemoryServer) -> int:
    return sum(server.rooms.reserved.count(each) for each in PLAYERS)


def _limits() -> Limits:
    return Limits(
        ping_s=PATIENT.ping_s, silence_s=PATIENT.silence_s, reservations_per_player_max=3, unjoined_s=20.0, admit_s=2.0
    )


@pytest.mark.parametrize("duplicate", ["takeover", "reject"])
@pytest.mark.parametrize("seed", range(8))
@in_virtual_time
async def test_the_counts_agree_and_nothing_is_left_when_everybody_has_gone(seed: int, duplicate: str) -> None:
    random = Random(f"{seed}/{duplicate}")
    async with served(arena(Moody, duplicate=duplicate), seed=seed, limits=_limits(), grace_s=10.0) as server:
        crowd = Crowd(server, random)
        for _ in range(STEPS):
            await crowd.step()
            if len(server.rooms) and random.random() < 0.1:
                _meddle(server, random)
            await a_moment(random.choice([0.0, 0.01, 0.5, 2.0]))
            _check_books(server)
            _check_makers(server)

        await crowd.go()
        await a_moment(120.0)

        assert (len(server.rooms), server.rooms.players(), _reserved(server)) == (0, [], 0)


@pytest.mark.parametrize("seed", range(6))
@in_virtual_time
async def test_the_counts_agree_across_crashes(seed: int) -> None:
    random = Random(f"{seed}/crashes")
    store = FaultyStore(latency_s=0.05, jitter_s=0.1, random=Random(seed))
    kind = arena(Moody, durability="commit")
    async with served(kind, seed=seed, limits=_limits(), grace_s=10.0, store=store) as server:
        crowd = Crowd(server, random)
        for _ in range(STEPS):
            await crowd.step()
            if random.random() < 0.04:
                server.crash()
                await crowd.go()
                await server.start()
                crowd = Crowd(server, random)
            await a_moment(random.choice([0.0, 0.01, 0.5, 2.0]))
            _check_books(server)

        await crowd.go()
        await a_moment(120.0)

        assert (len(server.rooms), server.rooms.players(), _reserved(server)) == (0, [], 0)
