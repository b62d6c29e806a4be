"""Sessions, connections and players as the core's tests need them: real objects, no server."""

from typing import Any

from holdfast.core.codec import Codec
from holdfast.core.connection import Connection, ConnectionId
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, PlayerData
from holdfast.core.outlet import Backlog
from holdfast.core.player import Player, Seat
from holdfast.core.reasons import Reason
from holdfast.core.session import PlayerId, Session, SessionId
from holdfast.schemas.frames import Data, Latest


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


class Places:
    """A `PlaceRunner` that writes down what it is asked for."""

    room: Any = None

    def __init__(self) -> None:
        self.kicked: list[tuple[Player[Any], str]] = []

    def kick(self, place: Seat, message: str) -> None:
        self.kicked.append((place.player, message))

    def deliver(self, place: Seat, frame: Data) -> None:
        raise NotImplementedError

    def refuse(self, place: Seat, frame: Data) -> None:
        raise NotImplementedError

    def has_read(self, place: Seat) -> None:
        raise NotImplementedError

    def deliver_latest(self, place: Seat, frame: Latest) -> None:
        raise NotImplementedError

    def let_finish(self, place: Seat) -> None:
        raise NotImplementedError

    def dropped(self, place: Seat) -> None:
        raise NotImplementedError

    def returned(self, place: Seat, *, is_resynced: bool) -> None:
        raise NotImplementedError

    def leave(self, place: Seat) -> None:
        raise NotImplementedError

    def free(self, seat: Seat, reason: Reason, message: str = "") -> None:
        raise NotImplementedError


class Mailbox:
    """An `Outlet` that keeps what it is given; mailboxes that share `log` show the order among players."""

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

    def send(self, message: Message) -> None:
        self.log.append((self.owner, message))

    def prepare(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        pass

    def send_shared(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        self.bodies_seen.append(bodies)
        self.send(message)

    def send_latest(self, message: Message, key: str) -> None:
        self.latest.append((message, key))

    def finish(self, farewell: Message) -> None:
        self.send(farewell)

    def applied(self, seq: int) -> None:
        raise NotImplementedError


def a_player(player_id: str = "ada", *, runner: Places | None = None) -> Player[Hero]:
    """A player whose seat is reserved."""
    return Seat(a_session(f"s-{player_id}", player_id), Hero(), runner or Places()).player
