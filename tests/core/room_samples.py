"""A room with a host that only writes down what it is asked for."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from holdfast.core.limits import Limits
from holdfast.core.player import Player, SeatEvent
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.session import PlayerId
from holdfast.schemas.requests import Update
from tests.core.samples import Hero, Mailbox, a_player


class Bomb:
    """A pending `after`."""

    def __init__(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.seconds, self.method, self.args = seconds, method, args

    def cancel(self) -> None:
        raise NotImplementedError


class Desk:
    """A `Host` that writes down what it is asked for, and frees seats at once as a host does."""

    room: Room[Any]

    def __init__(self) -> None:
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

    def free(self, player: Player[Any], reason: Reason, message: str = "") -> None:
        self.freed.append((player.id, reason, message))
        player.happened(SeatEvent.FREED)
        self.room.remove_seat(player)

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
        self.room.host = player

    def close(self) -> None:
        self.closed += 1


class Arena(Room[Hero]):
    max_players = 3

    def explode(self, where: str) -> None: ...


R = TypeVar("R", bound=Room[Any])


def hosted(room_type: type[R]) -> tuple[R, Desk]:
    desk = Desk()
    room = room_type("r-1", desk, Random(1))
    desk.room = room
    return room, desk


def an_arena() -> tuple[Arena, Desk]:
    return hosted(Arena)


def seated(room: Room[Hero], player_id: str) -> Player[Hero]:
    """A newcomer who passed the rules and took the seat."""
    player = reserved(room, player_id)
    player.happened(SeatEvent.TAKEN)
    room.seats_changed()
    return player


def reserved(room: Room[Hero], player_id: str) -> Player[Hero]:
    room.check_open(PlayerId(player_id))
    player = a_player(player_id)
    player.outlet = Mailbox(player_id)
    room.add_seat(player)
    return player


def ids(players: tuple[Player[Hero], ...]) -> list[str]:
    return [player.id for player in players]
