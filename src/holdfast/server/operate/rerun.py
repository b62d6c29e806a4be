"""Takes the turns of a recording again, on today's code, and finds the first one that ends otherwise.

The game runs in a room of its own, on a server without players. There nothing happens by itself: messages, drops,
ticks, timers and results of `spawn` come from the recording, in its order. What a turn sets off (`on_start`, the
`on_leave` of a player who was kicked) follows it as always. Nothing leaves: effects, spawned work and agents do
nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, get_type_hints

import msgspec

from holdfast.core.codec import MSGPACK
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.reasons import Reason
from holdfast.core.recording import Recording, RecordingReader, RecordingSize, Replayed
from holdfast.core.room import Room, player_data_type, room_handlers
from holdfast.core.room_file import to_json
from holdfast.core.session import Seat, SeatState, SeatStep, Session
from holdfast.schemas.player import NO_OPTIONS, SeatRecord
from holdfast.schemas.recording import CauseRecord, Difference, RecordingHead, RerunInfo, TurnRecord
from holdfast.server.directory.directory import Directory
from holdfast.server.operate.recordings import turn_info
from holdfast.server.rooms.forking import fill_room, read_recorded, set_timers, take_seats
from holdfast.server.rooms.recorded_state import SeatView
from holdfast.server.rooms.recorder import is_recorded
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.turns import nothing
from holdfast.server.sessions import SessionLifecycle
from holdfast.state import apply

_DIFFERENCES_MAX = 20
_SEAT_S = 3600.0
# Of the engine's half, what the game decides and what does not depend on the clock.
_COMPARED = ("phase", "is_locked", "max_players", "host", "successor", "properties", "owners", "groups", "random")
# Refusals of messages that the game may not have seen.
_UNSEEN = frozenset({"throttled", "not_allowed", "not_found", "invalid"})
# Turns that end a room: there is nothing to compare behind them.
_ENDS = frozenset({"on_destroy", "on_destroyed"})

_decode = msgspec.msgpack.Decoder().decode
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class CannotRepeat(Exception):
    """The recording does not say enough of what caused a turn."""


class _Taken(Recording):
    """The turns that are taken now: of each its record, and the room at its end."""

    def __init__(self, head: RecordingHead) -> None:
        super().__init__(head, RecordingSize(0, 0))
        self.turns: list[tuple[TurnRecord, dict[str, Any]]] = []
        self._state: dict[str, Any] | None = None

    @property
    def wants_keyframe(self) -> bool:
        return self._state is None

    def begin_block(self, keyframe: bytes) -> None:
        self._state = {}
        apply(self._state, _decode(keyframe))

    def append(self, turn: TurnRecord) -> None:
        self.last = turn.number
        assert self._state is not None
        if (node := _decode(turn.patch)) is not None:
            apply(self._state, node)
        if not _is_silent(turn):
            self.turns.append((turn, _comparable(self._state)))


class Rerun:
    """Takes the turns of one recording again."""

    def __init__(
        self, reader: RecordingReader, room_type: type[Room[Any]], directory: Directory, lifecycle: SessionLifecycle
    ) -> None:
        if not is_recorded(room_type):
            raise Invalid(f"{room_type.__name__} is not recorded any more: set record or record_s, as it had")
        self._reader = reader
        self._type = room_type
        self._directory = directory
        self._lifecycle = lifecycle
        self._runner: RoomRunner | None = None
        self._taken = _Taken(reader.head)
        # How many of the turns taken in this room were compared.
        self._compared = 0
        # The seats that are held at the end of the last turn, as it was recorded.
        self._held: set[str] = set()

    async def run(self, first: int, last: int) -> RerunInfo:
        """Take these turns again, up to the first one that differs."""
        repeated, skipped = 0, list[int]()
        coming = list(self._reader.turns(first, last))
        for replayed in self._reader.replay(first, last):
            turn = replayed.turn
            if turn.cause.name in _ENDS:
                break
            if _is_silent(turn):
                continue
            if turn.error_code in _UNSEEN and _decode(turn.patch) is None:
                skipped.append(turn.number)
                continue
            try:
                mine = await self._repeated(turn, coming[turn.number - first + 1 :], replayed.state)
            except CannotRepeat:
                self._drop_room()
                skipped.append(turn.number)
                continue
            finally:
                self._held = _held(replayed.state)
            repeated += 1
            problem, differences = _compare(replayed, *mine)
            if problem or differences:
                info = turn_info(self._reader.head, replayed)
                self._drop_room()
                return RerunInfo(first, turn.number, repeated, skipped, info, problem, differences)
        self._drop_room()
        return RerunInfo(first, last, repeated, skipped)

    # The room

    async def _repeated(
        self, turn: TurnRecord, later: list[TurnRecord], state: dict[str, Any]
    ) -> tuple[TurnRecord, dict[str, Any]]:
        """The turn as it is now: one that was set off by those before it, or one that is taken for the same cause."""
        if self._runner is None:
            self._runner = self._begin(turn.number - 1, turn.at)
        runner, taken = self._runner, self._taken.turns
        if self._compared == len(taken):
            # A spectator who was given a seat: their client was there.
            take_seats(runner, self._held)
            inputs = _Inputs(runner, self._stand_in, later, state)
            try:
                await inputs.give(turn.cause, turn.error_code)
            except (HoldfastError, msgspec.MsgspecError, AttributeError, KeyError, ValueError) as error:
                raise CannotRepeat(str(error)) from error
        if self._compared == len(taken):
            raise CannotRepeat("nothing happened")
        self._compared += 1
        return taken[self._compared - 1]

    def _begin(self, number: int, clock: float) -> RoomRunner:
        """A room that is as it was at the end of a turn."""
        states = dict(self._reader.states(number, number))
        recorded = read_recorded(self._type, states[number], clock)
        self._held = _held(states[number])

        def fill(runner: RoomRunner) -> None:
            runner.timers.hold()
            fill_room(runner, recorded, self._stand_in)
            take_seats(runner, self._held)
            for spectator in recorded.engine.spectators:
                runner.spectators.restore(self._stand_in(SeatView(spectator, 0, "")), _place_of(spectator))

        runner = self._directory.adopt(self._type, fill)
        assert runner.recorder is not None
        self._taken = runner.recorder.recording = _Taken(self._reader.head)
        self._compared = 0
        runner.context.replace_commands(
            spawn=_close, effect=_ignore, open_agent=partial(_open_idle, runner.context.commands.open_agent)
        )
        set_timers(runner, recorded)
        return runner

    def _drop_room(self) -> None:
        if self._runner is not None:
            self._runner.abandon()
            self._runner = None

    def _stand_in(self, view: SeatView) -> Session:
        return self._lifecycle.stand_in(view.player, view.name, grace_s=_SEAT_S, by_player=False)


class _Inputs:
    """Gives a room the cause of a recorded turn."""

    def __init__(
        self,
        runner: RoomRunner,
        stand_in: Callable[[SeatView], Session],
        later: list[TurnRecord],
        state: dict[str, Any],
    ) -> None:
        self._runner = runner
        self._room = runner.room
        self._stand_in = stand_in
        self._later = later
        self._state = state
        """What was recorded at the end of the turn."""

    async def give(self, cause: CauseRecord, error_code: str) -> None:
        """Take a turn for this cause, with all that follows from it."""
        args = _decode(cause.body) if cause.body else []
        match cause.kind:
            case "message" | "ask" | "latest":
                self._message(cause)
            case "tick":
                self._runner.timers.tick(args[0])
            case "timer":
                self._timer(cause.name, args)
            case "result":
                self._call(cause.name, args)
            case "engine" if cause.name == "free":
                self._runner.turns.take(self._runner.free, (self._seat(cause.player), self._reason_of(cause.player)))
            case "hook":
                self._hook(cause, args)
            case _:
                raise CannotRepeat(cause.name)
        await self._at_rest()
        if cause.kind == "hook" and cause.name == "on_join":
            self._joined(cause.player, has_failed=bool(error_code))
            await self._at_rest()

    def _joined(self, player_id: str, *, has_failed: bool) -> None:
        """What follows when a player has joined, or was turned away."""
        if not has_failed:
            self._runner.follow(self._runner.entry.check_host)
        elif (seat := self._runner.seats.of(player_id)) is not None:
            # In a transactional room there is no `on_leave`: it has never heard of them.
            seat.is_joining = self._room.transactional
            self._runner.free(seat, Reason.JOIN_FAILED)

    async def _at_rest(self) -> None:
        with suppress(HoldfastError):
            await self._runner.call(nothing)

    def _take(self, run: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._runner.turns.take(run, args, _ended)

    # Causes

    def _message(self, cause: CauseRecord) -> None:
        handler = room_handlers(type(self._room)).get(cause.name)
        if handler is None:
            raise CannotRepeat(f"there is no handler of {cause.name!r}")
        seat, message = self._seat(cause.player), handler.decoders[MSGPACK].decode(cause.body)
        assert self._runner.recorder is not None
        run = self._runner.recorder.of_message(
            handler.method,
            cause.kind,
            seat,
            cause.name,
            cause.body,
            MSGPACK,
        )
        self._take(run, (self._room, seat.member, message))

    def _timer(self, method_name: str, noted: list[Any]) -> None:
        _, arguments = noted
        wanted = _encode(arguments)
        timers = self._runner.timers
        found = [each for each in timers.pending if each.method == method_name and _encode(each.arguments) == wanted]
        if not found:
            raise CannotRepeat(f"there is no timer of {method_name}")
        timers.ring(min(found, key=lambda each: each.due_at))

    def _call(self, method_name: str, args: list[Any]) -> None:
        method = getattr(self._room, method_name)
        hints = [kind for name, kind in get_type_hints(method).items() if name != "return"]
        kinds = hints if len(hints) == len(args) else [Any] * len(args)
        self._take(
            method, tuple(msgspec.convert(each, kind, str_keys=True) for each, kind in zip(args, kinds, strict=True))
        )

    def _hook(self, cause: CauseRecord, args: list[Any]) -> None:
        runner, player_id = self._runner, cause.player
        match cause.name:
            case "on_join":
                self._take(self._room.on_join, (self._newcomer(player_id).player,))
            case "on_spectate":
                session = self._stand_in(SeatView(player_id, 0, ""))
                runner.spectators.restore(session, _place_of(player_id))
                assert session.place is not None
                session.place.happened(SeatStep.RETURNED)
                self._take(self._room.on_spectate, (session.place.spectator,))
            case "on_drop":
                runner.dropped(self._seat(player_id))
            case "on_rejoin" | "on_resync":
                seat = self._seat(player_id)
                returned = runner.returned if seat.purpose == "seat" else runner.spectators.returned
                returned(seat, cause.name == "on_resync")
            case "on_leave":
                runner.free(self._seat(player_id), Reason(args[0]))
            case "on_unspectate":
                runner.spectators.free(self._seat(player_id), Reason(args[0]))
            case _ if not player_id:
                self._call(cause.name, args)
            case _:
                raise CannotRepeat(cause.name)

    def _newcomer(self, player_id: str) -> Seat:
        """A seat for who joins in this turn, as it was recorded."""
        runner, room_type = self._runner, type(self._room)
        known = {seat.number for seat in runner.seats}
        found = next(
            (
                each
                for each in read_recorded(room_type, self._state, 0.0).seats
                if each.view.player == player_id and each.view.number not in known
            ),
            None,
        )
        view = found.view if found is not None else SeatView(player_id, 0, "")
        session = self._stand_in(view)
        saved = SeatRecord(player_id, "", NO_OPTIONS, view.number, name=view.name)
        options = found.options if found is not None else None
        runner.restore_seat(session, player_data_type(room_type)(), options, saved)
        assert session.seat is not None
        session.seat.happened(SeatStep.RETURNED)
        runner.was_joined = True
        return session.seat

    def _seat(self, player_id: str) -> Seat:
        context = self._runner.context
        seat = context.seats.occupied_by(player_id) or (context.spectators and context.spectators.of(player_id))
        if not seat:
            raise CannotRepeat(f"{player_id} is not in the room")
        return seat

    def _reason_of(self, player_id: str) -> Reason:
        """Why a player leaves, which the hook that follows is told."""
        for turn in self._later:
            if turn.cause.name == "on_leave" and turn.cause.player == player_id and turn.cause.body:
                return Reason(_decode(turn.cause.body)[0])
        return Reason.LEFT


def _place_of(player_id: str) -> SeatRecord:
    return SeatRecord(player_id, "", NO_OPTIONS, 0)


def _ended(error: Exception | None, result: Any) -> None:
    """What came of it is in its record."""


def _close(work: Coroutine[Any, Any, Any], then: object) -> None:
    work.close()


def _ignore(*_: Any) -> None: ...


def _open_idle(open_agent: Callable[..., Any], name: str, _: object, *args: Any) -> Any:
    return open_agent(name, _idle, *args)


async def _idle(_: object) -> None:
    await asyncio.get_running_loop().create_future()


# What is compared


def _held(state: dict[str, Any]) -> set[str]:
    """The keys of the seats that wait for their players."""
    return {key for key, seat in state["seats"].items() if seat["state"] == SeatState.HELD.value}


def _is_silent(turn: TurnRecord) -> bool:
    """Whether the turn was the engine's and has changed nothing: there was something to wait for, or to tell."""
    return turn.cause.kind == "engine" and (turn.cause.name == "nothing" or _decode(turn.patch) is None)


def _comparable(state: dict[str, Any]) -> dict[str, Any]:
    """Of a recorded state, what is the same whenever and wherever the turn is taken; a copy."""
    engine = state["room"]
    timers = [[each[name] for name in ("method", "name", "every_s", "arguments")] for each in engine["timers"].values()]
    kept = {
        "state": state["state"],
        "players": state["players"],
        "room": {name: engine[name] for name in _COMPARED} | {"timers": sorted(timers, key=_encode)},
    }
    copy: dict[str, Any] = _decode(_encode(kept))
    return copy


def _compare(replayed: Replayed, turn: TurnRecord, now: dict[str, Any]) -> tuple[str, list[Difference]]:
    """How a turn differs from the recorded one: in words, and by values."""
    was = replayed.turn
    if _name_of(was.cause) != _name_of(turn.cause):
        return f"it was {_name_of(was.cause)}, and is {_name_of(turn.cause)}", []
    problem = ""
    if was.error_code != turn.error_code:
        problem = f"it {_ending(was)}, and {_ending(turn)} now"
    recorded = _comparable(replayed.state)
    # Others may have come or gone while an `async def` turn waited.
    both = recorded["players"].keys() & now["players"].keys()
    for each in (recorded, now):
        each["players"] = {key: data for key, data in each["players"].items() if key in both}
    found = [
        Difference(".".join(map(str, path)), to_json(old), to_json(new))
        for (path, old, new), _ in zip(_differing(recorded, now, ()), range(_DIFFERENCES_MAX), strict=False)
    ]
    return problem, found


def _name_of(cause: CauseRecord) -> str:
    return " ".join(filter(None, (cause.kind, cause.name, f"of {cause.player}" if cause.player else "")))


def _ending(turn: TurnRecord) -> str:
    if not turn.error_code:
        return "succeeded"
    return f"failed with {turn.error}" if turn.error_code == "failed" else f"was refused with {turn.error!r}"


def _differing(old: Any, new: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _differing(old.get(key), new.get(key), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from _differing(before, now, (*path, place))
    elif old != new:
        yield path, old, new
