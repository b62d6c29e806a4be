"""Repeated and named timers, in virtual time: they keep their schedule, and nothing is made up for."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import Limits, Message, Player, PlayerData, Room, Throttled, on
from holdfast.core.room_context import Timer
from holdfast.testing import MemoryServer, run


class Wait(Message):
    """A turn that takes this long."""

    seconds: float


class Tower(Room[PlayerData]):
    """A bell tower that writes down when it rings, counted from its creation."""

    def on_create(self, config: dict[str, Any]) -> None:
        self.began_at = asyncio.get_running_loop().time()
        self.rung: list[tuple[float, str]] = []
        self.bell: Timer | None = None

    def now(self) -> float:
        return round(asyncio.get_running_loop().time() - self.began_at, 6)

    def ring(self, bell: str = "") -> None:
        self.rung.append((self.now(), bell))

    async def ring_slowly(self, seconds: float) -> None:
        self.ring()
        await asyncio.sleep(seconds)

    def ring_and_fail(self) -> None:
        self.ring()
        raise ZeroDivisionError("a bug of the game")

    def ring_twice(self) -> None:
        self.ring()
        if len(self.rung) == 2:
            assert self.bell is not None
            self.bell.cancel()

    def ring_again(self) -> None:
        self.rung.append((self.now(), str(self.remaining("bell"))))
        if len(self.rung) < 3:
            self.after(2.0, self.ring_again, name="bell")

    def look(self) -> None:
        self.rung.append((self.now(), str(self.remaining("bell"))))

    @on(Wait)
    async def wait(self, player: Player[PlayerData], wait: Wait) -> None:
        await asyncio.sleep(wait.seconds)

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.rung]


def in_a_tower(test: Callable[[MemoryServer, Tower], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test with a room on a server in virtual time, where it is at 0 seconds."""

    def plain() -> None:
        async def main() -> None:
            async with MemoryServer([Tower], limits=Limits(timers_max=4, unjoined_s=1e6)) as server:
                room = await server.create_room("tower")
                assert isinstance(room, Tower)
                await server.machine.do(test(server, room))

        run(main())

    plain.__name__ = test.__name__
    return plain


async def at(room: Tower, seconds: float) -> None:
    """Wait until the room is this old."""
    await asyncio.sleep(seconds - room.now())


# Repeated calls


@in_a_tower
async def test_a_repeated_call_keeps_its_schedule(server: MemoryServer, room: Tower) -> None:
    room.every(1.5, room.ring, "low")

    await at(room, 6.5)

    assert room.rung == [(1.5, "low"), (3.0, "low"), (4.5, "low"), (6.0, "low")]


@in_a_tower
async def test_calls_that_fall_into_a_slow_turn_are_one_call_after_it(server: MemoryServer, room: Tower) -> None:
    room.every(1.0, room.ring)
    room.after(1.5, room.ring_slowly, 3.7)

    await at(room, 7.5)

    # 1.5 is the slow turn's own. Due at 2, called at 5.2; 3, 4 and 5 are left out.
    assert room.times == [1.0, 1.5, 5.2, 6.0, 7.0]


@in_a_tower
async def test_a_repeated_call_that_is_slow_itself_never_overlaps_and_never_piles_up(
    server: MemoryServer, room: Tower
) -> None:
    slow = room.every(1.0, room.ring_slowly, 2.5)

    await at(room, 9.0)
    slow.cancel()
    await at(room, 20.0)

    # Each late call is followed by the next one of the schedule: 2 at 3.5, 4 at 6, 7 at 8.5.
    assert room.times == [1.0, 3.5, 6.0, 8.5]
    assert server.rooms.runner(room.id).turns.is_at_rest


@in_a_tower
async def test_calls_that_fall_into_a_frozen_room_are_one_call_after_it(server: MemoryServer, room: Tower) -> None:
    room.every(1.0, room.ring)
    turns = server.rooms.runner(room.id).turns
    await at(room, 2.5)

    turns.freeze()
    await at(room, 100.25)
    assert len(turns) == 1
    turns.thaw()
    await at(room, 102.5)

    assert room.times == [1.0, 2.0, 100.25, 101.0, 102.0]


def test_calls_that_fall_into_a_pause_of_the_server_are_one_call_after_it() -> None:
    async def main() -> None:
        async with MemoryServer([Tower], limits=Limits(unjoined_s=1e6)) as server:
            room = await server.create_room("tower")
            assert isinstance(room, Tower)
            server.machine.call(room.every, 1.0, room.ring)
            await at(room, 1.5)

            server.pause()
            await at(room, 3600.25)
            server.wake()
            await at(room, 3602.5)

            assert room.times == [1.0, 3600.25, 3601.0, 3602.0]

    run(main())


def test_a_repeated_call_that_raises_is_called_again() -> None:
    async def main() -> None:
        async with MemoryServer([Tower], allow_errors=ZeroDivisionError) as server:
            room = await server.create_room("tower")
            assert isinstance(room, Tower)

            server.machine.call(room.every, 1.0, room.ring_and_fail)
            await at(room, 3.5)

            assert room.times == [1.0, 2.0, 3.0]
            assert len(server.failures.errors) == 3

    run(main())


@in_a_tower
async def test_a_repeated_call_can_be_cancelled_by_itself(server: MemoryServer, room: Tower) -> None:
    room.bell = room.every(1.0, room.ring_twice)

    await at(room, 10.0)

    assert room.times == [1.0, 2.0]
    assert server.rooms.runner(room.id).timers.pending == []


@in_a_tower
async def test_a_repeated_call_that_waits_for_its_turn_can_be_cancelled(server: MemoryServer, room: Tower) -> None:
    bell = room.every(1.0, room.ring)
    turns = server.rooms.runner(room.id).turns
    turns.freeze()
    await at(room, 1.5)

    bell.cancel()
    turns.thaw()
    await at(room, 10.0)

    assert room.times == []


def test_repeated_calls_end_with_their_room() -> None:
    async def main() -> None:
        async with MemoryServer([Tower]) as server:
            room = await server.create_room("tower")
            assert isinstance(room, Tower)
            server.machine.call(room.every, 1.0, room.ring)
            await at(room, 1.5)

            server.machine.call(room.close)
            await at(room, 10.0)

            assert room.times == [1.0]

    run(main())


# Names


@in_a_tower
async def test_a_named_timer_replaces_the_one_of_that_name(server: MemoryServer, room: Tower) -> None:
    first = room.after(1.0, room.ring, "first", name="bell")
    room.after(2.0, room.ring, "second", name="bell")
    room.after(1.5, room.ring, "another", name="other bell")
    room.after(1.75, room.ring, "nameless")

    await at(room, 10.0)

    assert room.rung == [(1.5, "another"), (1.75, "nameless"), (2.0, "second")]
    assert first.is_cancelled


@in_a_tower
async def test_a_repeated_call_and_a_single_one_share_their_names(server: MemoryServer, room: Tower) -> None:
    room.every(1.0, room.ring, "again", name="bell")
    await at(room, 2.5)

    room.after(1.0, room.ring, "once", name="bell")
    await at(room, 10.0)

    assert room.rung == [(1.0, "again"), (2.0, "again"), (3.5, "once")]


@in_a_tower
async def test_cancelling_a_timer_that_was_replaced_does_not_cancel_the_one_that_replaced_it(
    server: MemoryServer, room: Tower
) -> None:
    first = room.after(1.0, room.ring, "first", name="bell")
    room.after(2.0, room.ring, "second", name="bell")

    first.cancel()

    assert room.remaining("bell") == pytest.approx(2.0)
    await at(room, 10.0)
    assert room.rung == [(2.0, "second")]


@in_a_tower
async def test_a_timer_is_cancelled_by_its_name(server: MemoryServer, room: Tower) -> None:
    room.every(1.0, room.ring, name="bell")
    await at(room, 1.5)

    was_there = room.cancel("bell")
    await at(room, 10.0)

    assert was_there
    assert not room.cancel("bell")
    assert room.times == [1.0]
    assert room.remaining("bell") is None


@in_a_tower
async def test_a_timer_that_has_rung_is_gone_in_its_own_call_which_may_set_it_again(
    server: MemoryServer, room: Tower
) -> None:
    room.after(1.0, room.ring_again, name="bell")

    await at(room, 10.0)

    assert room.rung == [(1.0, "None"), (3.0, "None"), (5.0, "None")]


@in_a_tower
async def test_what_remains_of_a_repeated_call_is_the_time_until_the_next_one(
    server: MemoryServer, room: Tower
) -> None:
    room.every(4.0, room.look, name="bell")
    await at(room, 3.0)

    before = room.remaining("bell")
    await at(room, 4.5)

    assert before == pytest.approx(1.0)
    assert room.rung == [(4.0, "4.0")]
    assert room.remaining("bell") == pytest.approx(3.5)


@in_a_tower
async def test_nothing_remains_of_a_timer_that_waits_for_its_turn(server: MemoryServer, room: Tower) -> None:
    room.after(1.0, room.ring, name="bell")
    turns = server.rooms.runner(room.id).turns
    turns.freeze()

    await at(room, 5.0)

    assert room.remaining("bell") == 0.0
    turns.thaw()
    assert room.remaining("bell") is None


@in_a_tower
async def test_a_timer_that_replaces_another_needs_no_place_of_its_own(server: MemoryServer, room: Tower) -> None:
    for number in range(3):
        room.after(60.0, room.ring, name=f"bell {number}")
    room.every(60.0, room.ring)

    room.every(30.0, room.ring, name="bell 2")
    with pytest.raises(Throttled, match="timers_max"):
        room.every(60.0, room.ring, name="bell 3")

    assert room.remaining("bell 2") == pytest.approx(30.0)
    assert room.remaining("bell 3") is None


@in_a_tower
async def test_a_name_is_text_of_a_limited_length_and_a_refused_timer_replaces_nothing(
    server: MemoryServer, room: Tower
) -> None:
    name = "ü" * 128
    room.after(1.0, room.ring, name=name)

    with pytest.raises(ValueError, match="timer_name_bytes_max is 256"):
        room.after(2.0, room.ring, name=f"{name}!")
    with pytest.raises(TypeError, match="named by text; got 5"):
        room.every(2.0, room.ring, name=5)  # type: ignore[arg-type]  # what is tested

    assert len(server.rooms.runner(room.id).timers.pending) == 1


# For operators


@in_a_tower
async def test_an_operator_sees_the_timers_of_a_room(server: MemoryServer, room: Tower) -> None:
    room.after(8.0, room.ring, "low", name="turn")
    room.every(2.5, room.look)
    await at(room, 1.0)

    shown = server.operate.rooms.state(room.id).timers

    assert [(each.method, each.name, each.due_in_s, each.every_s) for each in shown] == [
        ("ring", "turn", 7.0, 0.0),
        ("look", "", 1.5, 2.5),
    ]
