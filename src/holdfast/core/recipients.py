"""Who of a room receives a message, and how an unreliable one is sent to many: to all of them or to nobody."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CoroutineType
from typing import Any, TypeVar

from holdfast.core.codec import Codec
from holdfast.core.messages import Message, check_message
from holdfast.core.room_context import RoomContext, SeatRegistry
from holdfast.core.session import Member, Player, Seat, SeatState, seat_of

T = TypeVar("T")


def choose(
    context: RoomContext,
    exclude: Iterable[Member],
    *,
    to: Iterable[Member] | None,
    where: Callable[[Player[Any]], object] | None,
    role: str,
    spectators: bool,
) -> tuple[Seat, ...]:
    """The seats of the players, and the places of the spectators, that fulfil every condition, each once.

    `where` is a question about players: it leaves out spectators.
    """
    chosen: Iterable[Seat]
    if to is not None:
        chosen = _named(context.seats, context.spectators if spectators else None, to)
    else:
        chosen = context.everybody if spectators else context.seats.occupied
    if role:
        if not isinstance(role, str):
            raise TypeError(f"role= takes one role, as text; got {role!r}")
        chosen = [seat for seat in chosen if role in seat.session.roles]
    if left_out := frozenset(_checked("exclude", exclude)):
        chosen = [seat for seat in chosen if seat.member not in left_out]
    if where is not None:
        chosen = [seat for seat in chosen if isinstance(seat.member, Player) and is_wanted(where, seat.member)]
    return tuple(chosen)


def is_wanted(where: Callable[[T], object], player: T) -> bool:
    """Whether a message is for this player, or session, as a function says."""
    answer = where(player)
    if isinstance(answer, CoroutineType):
        # It would count as true, and everybody would hear a secret.
        answer.close()
        raise TypeError("where= takes a plain function, not an `async def`")
    return bool(answer)


def _named(seats: SeatRegistry, places: SeatRegistry | None, members: Iterable[Member]) -> Iterable[Seat]:
    """The seats of these players; those who have left, or are in another room, receive nothing."""
    found: dict[Seat, None] = {}
    for member in _checked("to", members):
        seat = seat_of(member)
        is_here = seat in seats or (places is not None and seat in places)
        if is_here and seat.state is not SeatState.RESERVED:
            found[seat] = None
    return found


def _checked(argument: str, members: Iterable[Member]) -> Iterator[Member]:
    """The same, or `TypeError`: an id in their place would be nobody's, and a secret would reach the wrong players."""
    if isinstance(members, Member):
        raise TypeError(f"{argument}= takes several players: write {argument}=[player]")
    for member in members:
        if not isinstance(member, Member):
            raise TypeError(f"{argument}= takes players of this room; got {member!r}: self.player(id) finds one by id")
        yield member


def send_latest_to(seats: Sequence[Seat], message: Message, key: str) -> None:
    """Send unreliably to all of them."""
    bodies = _prepared(seats, message)
    for seat in seats:
        seat.outlet.send_latest_shared(message, key, bodies)


def _prepared(seats: Sequence[Seat], message: Message) -> dict[Codec, bytes]:
    check_message(message)
    bodies: dict[Codec, bytes] = {}
    # For every codec before anybody is sent to: what one of them cannot carry reaches nobody, not some.
    for seat in {seat.session.codec: seat for seat in seats}.values():
        seat.outlet.prepare(message, bodies)
    return bodies
