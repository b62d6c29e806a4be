"""Records the turns of one room: why each was taken, what it changed, and what it sent.

Rooms that are not recorded have no recorder. What happens between two turns, as a player's drop, is part of what the
next turn changed.
"""

import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from holdfast.core.codec import DECODE_ERRORS, JSON, MSGPACK, Codec
from holdfast.core.errors import Refused
from holdfast.core.messages import OWN, STATE, Message
from holdfast.core.recording import Recording, RecordingSize, turn_record
from holdfast.core.room import Room
from holdfast.core.room_context import RoomContext
from holdfast.core.session import Member, Seat, SeatState, Session
from holdfast.logs import get_logger
from holdfast.observability.exposition import holdfast_version
from holdfast.schemas.recording import CauseKind, CauseRecord, RecordingHead, SentRecord, TurnRecord
from holdfast.server.context import Context
from holdfast.server.messages import messages_of
from holdfast.server.rooms.persistence import Persistence
from holdfast.server.rooms.recorded_state import (
    NotedRoom,
    RecordedPlan,
    SeatView,
    engine_view,
    plain,
    recorded_plan,
    seat_keys,
)
from holdfast.server.rooms.recordings import Recordings
from holdfast.server.rooms.timer_arguments import noted_arguments
from holdfast.server.rooms.timers import RoomTimers

log = get_logger("holdfast.server")

_ERROR_CHARS_MAX = 500
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_NOTHING = Raw(b"\xc0")
# Turns of the engine's own that call a hook, by the name of the method.
_HOOKS = {
    "_joined": "on_join",
    "_leaving": "on_leave",
    "_arrived": "on_spectate",
    "_resync": "on_resync",
    "_ask": "on_destroy",
}
_SPECTATORS = {"_leaving": "on_unspectate"}


def is_recorded(room_type: type[Room[Any]]) -> bool:
    """Whether rooms of this type are recorded."""
    return room_type.record != "off" or room_type.record_s > 0


def new_recorder(
    room: Room[Any], room_context: RoomContext, context: Context, timers: RoomTimers, recordings: Recordings
) -> "Recorder | None":
    """The recorder of a new room; None if it is not recorded."""
    return Recorder(room, room_context, context, timers, recordings) if is_recorded(type(room)) else None


def kept_arguments(
    room_type: type[Room[Any]], persistence: Persistence
) -> Callable[[str, tuple[Any, ...]], list[tuple[str, Any]]]:
    """What is kept of the arguments of a room's timers: they are recorded also where they are not saved."""
    if room_type.durability != "memory" or not is_recorded(room_type):
        return persistence.timer_arguments
    return lambda _method, args: noted_arguments(args)


class Recorder:
    """Fills the recording of one room. It is told of the beginning and the end of each turn."""

    def __init__(
        self, room: Room[Any], room_context: RoomContext, context: Context, timers: RoomTimers, recordings: Recordings
    ) -> None:
        limits, clock = context.limits, context.clock
        self._room = room
        self._context = room_context
        self._limits = limits
        self._clock = clock
        self._counters = context.counters
        self._timers = timers
        self._recordings = recordings
        head = RecordingHead(room.id, room.kind, clock.now(), clock.wall_clock(), holdfast_version())
        seconds = {} if room.record == "game" else {"seconds": room.record_s}
        size = RecordingSize(limits.recording_bytes_max, limits.recording_turns_max, **seconds)
        self.recording = Recording(head, size)
        recordings.begin(self.recording)
        self._plan = recorded_plan(type(room))
        self._seen: NotedRoom | None = None
        # Of the turn that is being taken.
        self._cause: CauseRecord | None = None
        self._began_at = 0.0
        self._sent: list[_Sent] = []
        messages = messages_of(type(room))
        answers = (each for answer in messages.answers.values() for each in answer.types)
        # What a codec needs that has no names in its bodies.
        self._types = {each.wire_name: each for each in (*OWN, *messages.to_client, *answers, *messages.to_server)}

    # Turns

    def begin(self, run: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """A turn begins."""
        if self.recording.stopped:
            return
        self._began_at = self._clock.now()
        self._cause = self._cause_of(run, args)
        self._sent.clear()
        if self._seen is None:
            # Not before: a room that is restored was filled meanwhile.
            try:
                self._seen = self._first_seen()
            except Exception as failure:  # noqa: BLE001 - the game's values may be anything
                self._stop(f"its state cannot be recorded: {failure}")

    def end(self, error: Exception | None) -> None:
        """The turn is over, and what it was for is done."""
        cause, self._cause = self._cause, None
        if cause is None:
            return
        if cause.kind == "tick":
            cause = CauseRecord("tick", cause.name, body=_encode([self._timers.dt_s]))
        try:
            keyframe, patch = self._changed()
        except Exception as failure:  # noqa: BLE001 - the game's values may be anything
            self._stop(f"its state cannot be recorded: {failure}")
            return
        if cause.kind == "engine" and patch is None and not self._sent:
            return
        recording = self.recording
        if max(len(patch or b""), len(keyframe)) > self._limits.recorded_state_bytes_max:
            self._stop("its state is larger than Limits.recorded_state_bytes_max")
            return
        if keyframe:
            recording.begin_block(keyframe)
        code, text = _error(error)
        turn = TurnRecord(
            recording.last + 1,
            self._began_at,
            self._clock.now() - self._began_at,
            cause,
            _NOTHING,
            code,
            text,
            [each.record(self._limits.recorded_body_bytes_max) for each in self._sent],
        )
        recording.append(turn_record(turn, patch))
        self._counters.turns_recorded += 1
        if recording.wants_keyframe:
            self._recordings.grew(recording)

    def _changed(self) -> tuple[bytes, bytes | None]:
        """The state before the turn, if it is wanted, and what the turn changed."""
        values = self._values()
        try:
            return self._compared(values)
        except Exception:  # noqa: BLE001 - the game's values may be anything
            # What was noted before is of another kind, so the next block begins with what there is now.
            self._seen = self._seen_whole(values)
            return self._plan.whole(self._seen), None

    def _first_seen(self) -> NotedRoom:
        values = self._values()
        try:
            return self._plan.take(values)
        except Exception:  # noqa: BLE001 - the game's values may be anything
            return self._seen_whole(values)

    def _seen_whole(self, values: Mapping[str, Any]) -> NotedRoom:
        """A value is not of its type, or is one that JSON does not have: from now on, these are recorded whole."""
        self._plan = RecordedPlan(type(self._room), is_typed=False)
        return self._plan.take(values)

    def _compared(self, values: Mapping[str, Any]) -> tuple[bytes, bytes | None]:
        assert self._seen is not None
        seen = self._plan.take(values)
        keyframe = self._plan.whole(self._seen) if self.recording.wants_keyframe else b""
        patch = self._plan.diff(self._seen, seen)
        self._seen = seen
        return keyframe, patch

    def _values(self) -> dict[str, Any]:
        room, context = self._room, self._context
        # As they are saved: a newcomer's seat is one once the room has heard of them.
        keys = seat_keys([seat for seat in context.seats.occupied if not seat.is_joining])
        return {
            "state": self._snapshot(),
            "players": {key: seat.player.data for seat, key in keys.items()},
            "seats": {
                key: SeatView(seat.player_id, seat.number, _state(seat), seat.name, seat.agent, seat.options)
                for seat, key in keys.items()
            },
            "room": engine_view(room, context, self._timers.pending, keys),
        }

    def _snapshot(self) -> Any:
        try:
            return self._room.snapshot()
        except Exception as error:  # noqa: BLE001 - the game's code: a room that is being created may have no state yet
            return {"snapshot() raised": f"{type(error).__name__}: {error}"}

    def _stop(self, why: str) -> None:
        self.recording.close_block()
        self.recording.stopped = why
        self._cause = self._seen = None
        self._sent.clear()
        log.error("a room is no longer recorded", room=self._room.id, kind=self._room.kind, why=why)

    # Causes

    def of_message(
        self, run: Callable[..., Any], kind: CauseKind, seat: Seat, name: str, body: bytes | object, codec: Codec | None
    ) -> Callable[..., Any]:
        """What to run instead for a player's message: it says what the turn is for when it begins."""
        return partial(self._run_message, run, kind, seat.player_id, name, body, codec)

    def _run_message(
        self,
        run: Callable[..., Any],
        kind: CauseKind,
        player_id: str,
        name: str,
        body: Any,
        codec: Codec | None,
        *args: Any,
    ) -> Any:
        if not self.recording.stopped:
            # Encoded before the handler can change it.
            packed = _packed(body, codec, self._types.get(name)) if codec is not None else _encoded(body)
            self._cause = CauseRecord(kind, name, player_id, packed)
        return run(*args)

    def _cause_of(self, run: Callable[..., Any], args: tuple[Any, ...]) -> CauseRecord:
        name = getattr(run, "__name__", type(run).__name__)
        of = getattr(run, "__self__", None)
        if of is self._timers:
            if name == "_run_tick":
                # How much time has passed is known when it has begun.
                return CauseRecord("tick", "on_tick")
            timer = args[0]
            if timer.is_cancelled:
                return CauseRecord("engine", "cancelled timer")
            return CauseRecord("timer", timer.method, body=_encode([timer.number, timer.arguments]))
        seats = [each for each in args if isinstance(each, Seat)]
        player_id = seats[0].player_id if seats else next((each.id for each in args if isinstance(each, Member)), "")
        rest = [each for each in args if not isinstance(each, Seat | Member)]
        if of is self._room and hasattr(Room, name):
            return CauseRecord("hook", name, player_id, self._arguments(rest))
        # A compiled method does not know its module, but its object does.
        module = getattr(run, "__module__", None) or type(of).__module__
        if of is not self._room and module.startswith("holdfast."):
            hooks = _SPECTATORS | _HOOKS if not seats or seats[0].purpose == "seat" else _HOOKS | _SPECTATORS
            if name in hooks:
                return CauseRecord("hook", hooks[name], player_id, self._arguments(rest))
            return CauseRecord("engine", name.strip("_").replace("_", " "), player_id)
        return CauseRecord("result", name, player_id, self._arguments(rest))

    def _arguments(self, values: list[Any]) -> bytes:
        packed = _encoded(values) if values else b""
        return packed if len(packed) <= self._limits.recorded_body_bytes_max else b""

    # What is sent

    def listener(self, session: Session) -> Callable[[str, bytes, bool], None]:
        """What to call with each message to a session: its name, its body, and whether it is unreliable."""
        return partial(self._said, session.player_id, session.codec or MSGPACK)

    def _said(self, player_id: str, codec: Codec, name: str, body: bytes, is_latest: bool) -> None:
        # Outside of a turn, what a turn has said is written, and states are.
        if self._cause is None or name == STATE:
            return
        last = self._sent[-1] if self._sent else None
        if last is not None and last.is_same(name, body, codec):
            last.players.append(player_id)
        else:
            self._sent.append(_Sent(name, player_id, body, codec, self._types.get(name), is_latest=is_latest))

    def undo(self) -> None:
        """What the turn has said was taken back."""
        self._sent.clear()


class _Sent:
    """A message of the turn that is being taken."""

    __slots__ = ("_body", "_codec", "_is_latest", "_name", "_type", "players")

    def __init__(
        self, name: str, player_id: str, body: bytes, codec: Codec, kind: type[Message] | None, *, is_latest: bool
    ) -> None:
        self._type = kind
        self._name = name
        self._body = body
        self._codec = codec
        self._is_latest = is_latest
        self.players = [player_id]

    def is_same(self, name: str, body: bytes, codec: Codec) -> bool:
        """Whether this is the same message to another player: broadcasts are encoded once for each codec."""
        return name == self._name and codec is self._codec and body == self._body

    def record(self, bytes_max: int) -> SentRecord:
        size = len(self._body)
        body = _packed(self._body, self._codec, self._type) if size <= bytes_max else b""
        return SentRecord(self._name, self.players, size, body, self._is_latest)


def _packed(body: bytes, codec: Codec, kind: type[Message] | None) -> bytes:
    """A body of a message as MessagePack; empty if it cannot be read."""
    try:
        if codec.has_opaque_bodies:
            return b"" if kind is None else _encode(codec.body_decoder(kind).decode(body))
        if codec is JSON:
            return _encode(msgspec.json.decode(body))
        _decode(body)
    except DECODE_ERRORS:
        return b""
    return bytes(body)


def _state(seat: Seat) -> str:
    """The state of a seat, as the game sees it: it does not hear of a connection that changes to another node."""
    return (SeatState.TAKEN if seat.is_connected else seat.state).value


def _encoded(value: Any) -> bytes:
    """A value as MessagePack, or as text if that cannot be."""
    try:
        return _encode(plain(value))
    except Exception:  # noqa: BLE001 - whatever a game calls its own methods with
        return _encode([repr(each)[:_ERROR_CHARS_MAX] for each in value] if isinstance(value, list) else repr(value))


def _error(error: Exception | None) -> tuple[str, str]:
    """The code and the text of a turn's error; empty if there was none."""
    if error is None:
        return "", ""
    if isinstance(error, Refused):
        return error.code, str(error)[:_ERROR_CHARS_MAX]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    return "failed", f"{type(error).__name__}: {error}"[:_ERROR_CHARS_MAX] + where
