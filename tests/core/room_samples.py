"""A room with a runner that only writes down what it is asked for."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from holdfast.core.limits import Limits
from holdfast.core.player import Player, Seat, SeatStep, seat_of
from holdfast.core.reasons import Reason
from holdfast.core.room import Room, context_of
from holdfast.core.room_context import RoomContext
from holdfast.core.session import PlayerId
from holdfast.schemas.requests import Update
from tests.core.samples import Hero, Mailbox, Places, a_player


class Bomb:
    """A pending `after`."""

    def __init__(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.seconds, self.method, self.args = seconds, method, args

    def cancel(self) -> None:
        raise NotImplementedError


class Desk(Places):
    """A `Runner` that writes down what it is asked for, and frees seats at once."""

    def __init__(self) -> None:
        super().__init__()
        self.followed: list[str] = []
        self.freed: list[tuple[str, Reason, str]] = []
        self.timers: list[Bomb] = []
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

    def after(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> Bomb:
        self.timers.append(Bomb(seconds, method, args))
        return self.timers[-1]

    def spawn(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        self.spawned.append((work, then))

    def effect(self, name: str, payload: Any) -> None:
        raise NotImplementedError

    def started(self) -> None:
        self.starts += 1

    @property
    def limits(self) -> Limits:
        return Limits()

    def listed(self) -> None:
        self.listings += 1

    def update(self, wish: Update) -> None:
        self.updates.append(wish)

    def name_host(self, player: Player[Any] | None) -> None:
        context_of(self.room).host = player

    def close(self) -> None:
        self.closed += 1


class Arena(Room[Hero]):
    max_players = 3

    def explode(self, where: str) -> None: ...


R = TypeVar("R", bound=Room[Any])


def hosted(room_type: type[R]) -> tuple[R, Desk]:
    desk = Desk()
    room = room_type(RoomContext("r-1", desk, Random(1)))
    desk.room = room
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
    context_of(room).check_open(PlayerId(player_id))
    player = a_player(player_id)
    seat_of(player).outlet = Mailbox(player_id)
    context_of(room).seats.add(seat_of(player))
    return player


def ids(players: tuple[Player[Hero], ...]) -> list[str]:
    return [player.id for player in players]
