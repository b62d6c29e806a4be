"""The seats of a room: see them, keep them for players, give them back, and free them."""

from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from holdfast.http.bodies import NewReservation, ReasonQuery, SeatList
from holdfast.http.keys import Scope
from holdfast.http.operations import Node, PlayerPath, RoomPath, needs
from holdfast.schemas.player import ReservationInfo
from holdfast.schemas.requests import Release, Reserve

_PATH = "/v1/rooms/{room_id:str}"
_TAGS = ["seats"]
_PARTY = {"players": ["guest-7Jm2", "guest-Xa40"], "ttl_s": 60}


@get(f"{_PATH}/seats", tags=_TAGS, summary="See who has a seat", opt=needs(Scope.READ, "not_found"))
async def list_seats(backend: Node, room_id: RoomPath) -> SeatList:
    """Seats that are taken, held for a player who dropped, or reserved."""
    return SeatList(backend.seats_of(room_id))


@post(
    f"{_PATH}/reservations",
    tags=_TAGS,
    summary="Reserve seats",
    opt=needs(
        Scope.ROOMS,
        *("not_found", "refused", "room_full", "room_locked", "already_seated", "duplicate", "throttled", "failed"),
        example=_PARTY,
    ),
)
async def reserve_seats(backend: Node, room_id: RoomPath, data: JSONBody[NewReservation]) -> ReservationInfo:
    """For a party, all or none. Asking again extends."""
    return await backend.reserve(Reserve(room=room_id, players=data.players, ttl_s=data.ttl_s))


@delete(
    f"{_PATH}/reservations/{{player_id:str}}",
    tags=_TAGS,
    summary="Give a reserved seat back",
    opt=needs(Scope.ROOMS, "not_found", "expired", "throttled"),
)
async def release_seat(backend: Node, room_id: RoomPath, player_id: PlayerPath) -> None:
    """A seat that its player has taken stays taken."""
    await backend.release(Release(room=room_id, players=[player_id]))


@delete(
    f"{_PATH}/seats/{{player_id:str}}",
    tags=_TAGS,
    summary="Kick a player",
    opt=needs(Scope.ADMIN, "not_found", "not_seated", "throttled", example={"reason": "be nice"}),
)
async def kick_player(
    backend: Node, room_id: RoomPath, player_id: PlayerPath, asked: NamedDependency[ReasonQuery]
) -> None:
    """The seat is freed, and the player is told why."""
    await backend.kick(room_id, player_id, asked.reason)
