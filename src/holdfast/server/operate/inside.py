"""The half of a node's operator that looks into rooms, listens in, and speaks to their players."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from holdfast.core.errors import Failed, Invalid, NotFound, Refused, Throttled
from holdfast.core.messages import RESERVED, Message
from holdfast.core.parts import Parts
from holdfast.core.room import Room
from holdfast.logs import get_logger
from holdfast.schemas.node import EventInfo
from holdfast.schemas.player import PlayerState
from holdfast.schemas.room import RoomState

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.rooms.runner import RoomRunner

log = get_logger("holdfast.server")

_TEXT_CHARS_MAX = 200
# A look that takes longer holds up the games: then nobody looks into that room again for so many times as long. So
# looks take at most a fiftieth of the time, however many ask.
_LOOK_S = 0.02
_REST = 50
# What Holdfast keeps on a room, and shows elsewhere.
_OURS = frozenset(
    {
        *("id", "state", "host", "successor", "phase", "random", "objects", "max_players"),
        *("listing", "reservations", "is_locked", "is_closing"),
    }
)


class InsideOperator:
    """See `holdfast.http.port.Backend`."""

    _node: "Node"
    # Until when nobody looks into a room again.
    _rests: "WeakKeyDictionary[RoomRunner, float]"

    def room_state(self, room_id: str) -> RoomState:
        """What is inside a room as it is now, which may be in the middle of a turn."""
        runner, began = self._runner(room_id), self._node.now()
        rest_s = self._rests.get(runner, began) - began
        if rest_s > 0:
            raise Throttled(f"a look into this room holds up the games: the next is in {rest_s:.1f} s")
        is_shown = False
        try:
            shown = self._look_into(runner.room)
            is_shown = True
        finally:
            ended = self._node.now()
            if not is_shown or ended - began > _LOOK_S:
                self._rests[runner] = ended + _REST * (ended - began)
        return shown

    def _look_into(self, room: Room[Any]) -> RoomState:
        picture = _Picture(self._node.limits.state_shown_bytes_max)
        return RoomState(
            room=room.id,
            state=picture.of(self._snapshot(room)),
            attributes={name: picture.of(value) for name, value in vars(room).items() if _is_the_games(name)},
            players=[
                PlayerState(
                    player.id,
                    player.seat.value,
                    picture.of(player.data),
                    [str(picture.of(name)) for name in sorted(player.owned)],
                )
                for player in room.players
            ],
        )

    def _snapshot(self, room: Room[Any]) -> Any:
        try:
            return room.snapshot()
        except Exception as error:
            self._node.faults.on_error(error, f"snapshot of {room.kind} {room.id}")
            log.warning("the game's code failed", where="snapshot", room=room.id, kind=room.kind, exc_info=error)
            raise Failed("snapshot() raised; the node's log has the details") from None

    def room_messages(self, room_id: str) -> AsyncIterator[EventInfo]:
        """What its players and the room say to each other from now on."""
        return self._node.messages.read(self._runner(room_id).room.id)

    async def broadcast(self, room_id: str, message_type: str, body: Mapping[str, Any]) -> int:
        """Say something to all players of a room, as the game would: a turn of the room. How many there are."""
        runner = self._runner(room_id)
        message = _message(message_type, body)
        await runner.call(runner.room.broadcast, message)
        await runner.persistence.saved()
        return len(runner.room.players)

    def _runner(self, room_id: str) -> "RoomRunner":
        runner = self._node.rooms.runner(room_id)
        if runner.room.listing.is_over:
            raise NotFound(f"room {room_id!r} has ended")
        return runner

    def drop_session(self, session_id: str, reason: str) -> None:
        """Close its connection; the player may come back."""
        session = self._node.sessions.get(session_id)
        if session is None:
            raise NotFound(f"there is no session {session_id!r}; it may have ended")
        self._node.lifecycle.disconnect(session, reason or "an operator closed this connection")


def _is_the_games(name: str) -> bool:
    return not name.startswith("_") and name not in _OURS


class _Picture:
    """A game's values as plain data, as long as they are not too large together."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0

    def of(self, value: Any) -> Any:
        """One value; if it cannot be read, it fails alone."""
        try:
            shown = msgspec.to_builtins(value, str_keys=True, enc_hook=_as_text)
            self._bytes += len(msgspec.json.encode(shown))
        except Exception:  # noqa: BLE001 - whatever a game puts there: a key of an odd type, a loop, half a character
            return f"({type(value).__name__}: cannot be shown)"
        if self._bytes > self._bytes_max:
            raise Refused(
                f"the state has more than {self._bytes} bytes, and at most {self._bytes_max} are shown: "
                "raise Limits.state_shown_bytes_max"
            )
        return shown


def _as_text(value: Any) -> Any:
    if isinstance(value, Parts):
        # `peek`: a look must not have everything saved anew.
        return {name: value.peek(name) for name in value}
    return repr(value)[:_TEXT_CHARS_MAX]


def _message(name: str, body: Mapping[str, Any]) -> Message:
    """A message of any type, without a class of the game for it."""
    if name.startswith(RESERVED):
        raise Invalid(f"type: names that begin with {RESERVED!r} are Holdfast's own")
    names = {f"field_{number}": each for number, each in enumerate(body)}
    fields = [(each, Any) for each in names]
    try:
        made = msgspec.defstruct("Broadcast", fields, bases=(Message,), namespace={"wire_name": name}, rename=names)
    except ValueError:
        raise Invalid("body: a field's name may not have quotes, backslashes or control characters") from None
    message = made(*body.values())
    assert isinstance(message, Message)
    return message
