"""Sessions, connections and players as the core's tests need them: real objects, no server."""

from collections.abc import Callable
from typing import Any

from holdfast.core.block import Block
from holdfast.core.codec import Codec
from holdfast.core.connection import Connection, ConnectionId
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, PlayerData
from holdfast.core.outlet import Backlog
from holdfast.core.session import Player, PlayerId, RoomHandle, Seat, SeatDelivery, Session, SessionId


def a_session(
    session_id: str = "s-1",
    player_id: str = "ada",
    *,
    now: float = 0.0,
    grace_s: float = 30.0,
    limits: Limits | None = None,
    roles: frozenset[str] = frozenset(),
) -> Session:
    return Session(
        SessionId(session_id),
        PlayerId(player_id),
        limits=limits or Limits(),
        now=now,
        grace_s=grace_s,
        roles=roles,
    )


def a_connection(connection_id: str = "c-1", now: float = 0.0) -> Connection:
    return Connection(ConnectionId(connection_id), now)


class Hero(PlayerData):
    hp: int = 100
    name: str = ""

    def reset(self) -> None:
        self.hp = 100


class ARoom:
    """A room whose seats can be freed, which it notes, and in which nothing else can be done."""

    id = "r-1"
    kind = "arena"
    is_saved = False
    grace_s = 30.0

    def __init__(self) -> None:
        self.freed: list[tuple[Any, ...]] = []

    def free(self, *told: Any) -> None:
        self.freed.append(told)

    def later(self, act: Callable[..., Any], *args: Any) -> None:
        act(*args)

    @property
    def delivery(self) -> SeatDelivery:
        raise NotImplementedError

    def keep(self, *_: Any) -> None:
        raise NotImplementedError

    has_read = dropped = returned = switches = leave = keep


class Mailbox:
    """An `Outlet` that keeps what it is given; mailboxes that share `log` show the order among players."""

    codec: Codec | None = None
    is_following = False

    def __init__(self, owner: str = "", log: list[tuple[str, Message]] | None = None) -> None:
        self.owner = owner
        self.log: list[tuple[str, Message]] = [] if log is None else log
        self.latest: list[tuple[Message, str]] = []
        self.bodies_seen: list[dict[Codec, bytes]] = []
        self.waiting_bytes = self.latest_waiting_bytes = 0
        self.backlog: Backlog | None = None
        self.is_full = False

    def overflow(self) -> None:
        raise NotImplementedError

    mute = unmute = overflow

    def send(self, message: Message) -> None:
        self.log.append((self.owner, message))

    def prepare(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        pass

    def push_block(self, block: Block) -> None:
        raise NotImplementedError

    def send_latest(self, message: Message, key: str) -> None:
        self.latest.append((message, key))

    def send_latest_shared(self, message: Message, key: str, bodies: dict[Codec, bytes]) -> None:
        self.bodies_seen.append(bodies)
        self.send_latest(message, key)

    def finish(self, farewell: Message) -> None:
        self.send(farewell)

    def applied(self, seq: int) -> None:
        raise NotImplementedError

    def record(self) -> None:
        raise NotImplementedError

    def record_version(self) -> tuple[int, ...]:
        raise NotImplementedError


def a_player(player_id: str = "ada", *, room: RoomHandle | None = None) -> Player[Hero]:
    """A player whose seat is reserved."""
    return Seat(a_session(f"s-{player_id}", player_id), Hero(), room or ARoom()).player
