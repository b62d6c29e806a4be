"""A room with a runner that only writes down what it is asked for."""

import dataclasses
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from holdfast.core.limits import Limits
from holdfast.core.listed_room import check_open
from holdfast.core.reasons import Reason
from holdfast.core.room import Room, context_of
from holdfast.core.room_context import RoomCommands, RoomContext, Timer
from holdfast.core.room_listing import RoomStep
from holdfast.core.session import Player, PlayerId, Seat, SeatStep, Spectator, seat_of
from holdfast.schemas.requests import Update
from tests.core.samples import Hero, Mailbox, a_player


class Desk:
    """Carries out the commands of a room: it writes them down, and frees seats at once."""

    room: Room[Any]

    def __init__(self) -> None:
        self.followed: list[str] = []
        self.freed: list[tuple[str, Reason, str]] = []
        self.timers: list[Timer] = []
        self.now_s = 0.0
        self.spawned: list[Any] = []
        self.closed = 0
        self.listings = 0
        self.starts = 0
        self.updates: list[Update] = []

    def follow(self, hook: Callable[..., Any], *args: Any) -> None:
        self.followed.append(hook.__name__)

    def free(self, seat: Seat, reason: Reason, message: str = "") -> None:
        self.freed.append((seat.player_id, reason, message))
        seat.happened(SeatStep.FREED)
        context_of(self.room).seats.remove(seat)

    def set_timer(
        self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...], name: str, every_s: float
    ) -> Timer:
        number, due_at = len(self.timers), self.now_s + seconds
        timer = Timer(number, due_at, method.__name__, self.timers.remove, name=name, every_s=every_s)
        timer.arguments = [("value", each) for each in args]
        self.timers.append(timer)
        return timer

    def timer_named(self, name: str) -> Timer | None:
        return next((timer for timer in self.timers if timer.name == name), None)

    def now(self) -> float:
        return self.now_s

    def spawn(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        self.spawned.append((work, then))

    def effect(self, name: str, payload: Any) -> None:
        raise NotImplementedError

    def started(self) -> None:
        self.starts += 1

    def listed(self) -> None:
        self.listings += 1

    def update(self, wish: Update) -> None:
        self.updates.append(wish)

    def name_host(self, player: Player[Any] | None) -> None:
        context_of(self.room).host = player

    def open_agent(self, name: str, brain: Callable[..., Any], roles: frozenset[str]) -> Player[Any]:
        raise NotImplementedError

    def promote(self, spectator: Spectator, options: Any) -> Player[Any]:
        raise NotImplementedError

    def close(self) -> None:
        self.closed += 1
        context_of(self.room).listing.happened(RoomStep.CLOSED)


class Arena(Room[Hero]):
    max_players = 3

    def explode(self, where: str) -> None: ...


R = TypeVar("R", bound=Room[Any])


def hosted(room_type: type[R]) -> tuple[R, Desk]:
    desk = Desk()
    commands = RoomCommands(**{field.name: getattr(desk, field.name) for field in dataclasses.fields(RoomCommands)})
    context = RoomContext("r-1", Limits(), Random(1), listed=desk.listed, make_commands=lambda: commands)
    context.listing.happened(RoomStep.ACTIVATED)
    desk.room = room = room_type(context)
    return room, desk


def an_arena() -> tuple[Arena, Desk]:
    return hosted(Arena)


def seated(room: Room[Hero], player_id: str) -> Player[Hero]:
    """A newcomer who passed the rules and took the seat."""
    player = reserved(room, player_id)
    seat_of(player).happened(SeatStep.TAKEN)
    context_of(room).seats.occupation_changed()
    return player


def reserved(room: Room[Hero], player_id: str) -> Player[Hero]:
    check_open(room, PlayerId(player_id))
    player = a_player(player_id)
    seat_of(player).outlet = Mailbox(player_id)
    context_of(room).seats.add(seat_of(player))
    return player


def ids(players: tuple[Player[Hero], ...]) -> list[str]:
    return [player.id for player in players]
