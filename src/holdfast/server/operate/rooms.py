"""Rooms as operators see them: create, find, change and end them, look inside, and speak to their players."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from holdfast.core.errors import Failed, Invalid, NotFound, Refused, Throttled
from holdfast.core.join_options import packed_options
from holdfast.core.limits import Limits
from holdfast.core.messages import RESERVED, Message
from holdfast.core.reasons import Reason
from holdfast.core.records import describe_player, describe_spectator, seconds_until
from holdfast.core.room import Room, player_data_type
from holdfast.core.session import PlayerId, SeatState
from holdfast.schemas.node import EventInfo
from holdfast.schemas.player import PlayerState, ReservationInfo, SeatInfo, SpectatorPage
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Create, Release, Reserve, Search, Update
from holdfast.schemas.room import RoomInfo, RoomPage, RoomState, SharedParts, TimerInfo
from holdfast.server.context import Context, page_of
from holdfast.server.directory.directory import Directory
from holdfast.server.rooms.runner import RoomRunner
from holdfast.state import Parts, marked_paths

_TEXT_CHARS_MAX = 200
# Reading a state that takes longer than this holds up the games. That room's state is then not read again for this
# many times as long, so that reading takes at most a fiftieth of the time, however often it is asked for.
_READ_S = 0.02
_PAUSE = 50
# Attributes of a room that belong to Holdfast, and are shown elsewhere.
_OURS = frozenset({"state", "max_players"})


class RoomOperations:
    """The rooms of one node."""

    def __init__(
        self,
        context: Context,
        directory: Directory,
        read_messages: Callable[[str], AsyncIterator[EventInfo]],
    ) -> None:
        """`read_messages` follows the messages of a room."""
        self._directory = directory
        self._now = context.clock.now
        self._limits = context.limits
        self._faults = context.faults
        self._read_messages = read_messages
        # The time before which a room's state is not read again.
        self._pauses: WeakKeyDictionary[RoomRunner, float] = WeakKeyDictionary()

    async def create(self, request: Create) -> RoomInfo:
        try:
            return _info(await self._directory.create(request))
        except NotFound as missing:
            # Another node has made it, by the same key.
            remote = self._directory.index.remote.get(missing.room_id)
            if remote is None:
                raise
            return remote.shown(sees_code=True)

    async def search(self, request: Search) -> RoomPage:
        """Find rooms, private ones too."""
        return await self._directory.index.search(request, None)

    def life_of(self, room_id: str) -> str:
        """The life of the other node that lists a room; empty if it is here."""
        remote = self._directory.index.remote.get(room_id)
        return remote.life if remote is not None and self._directory.get(room_id) is None else ""

    def get(self, room_id: str) -> RoomInfo:
        """One room, or one that ended recently."""
        ended = self._directory.names.ended(room_id)
        return ended if ended is not None else _info(self._directory.runner(room_id))

    async def update(self, request: Update) -> RoomInfo:
        """Change a room's listing."""
        runner = self._directory.runner(request.room)
        password = await self._directory.passwords.keep(request.password or "")
        async with self._directory.renaming(runner, request.name):
            await runner.call(runner.apply_update, request, password)
        await runner.persistence.saved()
        return _info(runner)

    async def end(self, room_id: str, reason: str) -> RoomInfo:
        """End a room: all players leave. Returns once a crash cannot bring a durable room back."""
        runner = self._directory.runner(room_id)
        runner.end(reason or "ended_by_operator")
        await until_saved(runner.persistence.forgotten(), self._limits)
        return _info(runner)

    # Seats

    def seats(self, room_id: str) -> list[SeatInfo]:
        """The players with a seat or a reservation in a room."""
        runner, now = self._directory.runner(room_id), self._now()
        seats, host = runner.seats, runner.context.host
        taken = [project(describe_player(seat, now, is_host=seat.player is host), SeatInfo) for seat in seats]
        reserved = [
            SeatInfo(
                player_id,
                SeatState.RESERVED.value,
                expires_in_s=seconds_until(kept.until, now),
                name=self._directory.name_of(player_id),
            )
            for player_id, kept in seats.reservations.items()
            if seats.is_awaited(player_id)
        ]
        return taken + reserved

    async def reserve(self, request: Reserve) -> ReservationInfo:
        """Reserve seats for players."""
        runner = self._directory.find(request.room, request.code)
        players = [PlayerId(each) for each in request.players]
        options = packed_options(type(runner.room), request.options, self._limits.options_bytes_max)
        reserved: ReservationInfo = await runner.call(
            runner.reservations.reserve, players, request.ttl_s, "", dict.fromkeys(players, options)
        )
        await runner.persistence.saved()
        return reserved

    async def release(self, request: Release) -> None:
        """Free reserved seats."""
        runner = self._directory.runner(request.room)
        for player_id in request.players:
            if player_id not in runner.seats.reservations:
                raise NotFound(f"no seat is reserved for player {player_id}")
        await runner.call(runner.reservations.release, [PlayerId(each) for each in request.players])
        await runner.persistence.saved()

    async def kick(self, room_id: str, player_id: str, message: str) -> None:
        runner = self._directory.runner(room_id)
        seat = runner.seats.occupied_by(player_id)
        if seat is None:
            raise NotFound(f"player {player_id} has no seat in this room")
        await runner.call(runner.free, seat, Reason.KICKED, message)
        await runner.persistence.saved()

    # Spectators

    def spectators(self, room_id: str, *, limit: int, cursor: str) -> SpectatorPage:
        """Those who watch a room, in the order of their ids."""
        places, now = self._directory.runner(room_id).context.spectators, self._now()
        if places is None:
            return SpectatorPage([])
        page, more = page_of((place.player_id for place in places), limit, cursor)
        return SpectatorPage([describe_spectator(place, now) for each in page for place in places.all_of(each)], more)

    async def kick_spectator(self, room_id: str, player_id: str, message: str) -> None:
        runner = self._directory.runner(room_id)
        places = runner.context.spectators
        found = places.all_of(player_id) if places is not None else ()
        if not found:
            raise NotFound(f"player {player_id} does not watch this room")
        for place in found:
            await runner.call(runner.spectators.free, place, Reason.KICKED, message)
        await runner.persistence.saved()

    # Inside a room

    def state(self, room_id: str) -> RoomState:
        """A room's state as it is now, which may be in the middle of a turn."""
        runner, began = self._running(room_id), self._now()
        pause_s = self._pauses.get(runner, began) - began
        if pause_s > 0:
            raise Throttled(f"reading the state of this room blocks the server: try again in {pause_s:.1f} s")
        is_read = False
        try:
            state = self._read_state(runner)
            is_read = True
        finally:
            ended = self._now()
            if not is_read or ended - began > _READ_S:
                self._pauses[runner] = ended + _PAUSE * (ended - began)
        return state

    def _read_state(self, runner: RoomRunner) -> RoomState:
        values = _Values(self._limits.state_shown_bytes_max)
        room, context = runner.room, runner.context
        groups_of = context.grouping.groups_by_seat() if context.grouping is not None else {}
        return RoomState(
            room=room.id,
            state=values.plain(self._snapshot(room)),
            attributes={
                name: values.plain(value)
                for name, value in vars(room).items()
                if not name.startswith("_") and name not in _OURS
            },
            players=[
                project(
                    described,
                    PlayerState,
                    data=values.plain(described.data),
                    options=values.plain(described.options),
                    owned=[str(values.plain(name)) for name in described.owned],
                )
                for seat in context.seats.occupied
                for described in [
                    describe_player(
                        seat, self._now(), is_host=seat.player is context.host, groups=groups_of.get(seat, ())
                    )
                ]
            ],
            timers=[
                TimerInfo(each.method, seconds_until(each.due_at, self._now()), each.name, each.every_s)
                for each in runner.timers.pending
            ],
            shared=_shared(runner),
        )

    def _snapshot(self, room: Room[Any]) -> Any:
        try:
            return room.snapshot()
        except Exception as error:  # noqa: BLE001 - the game's code
            self._faults.report_game(error, "snapshot", kind=room.kind, room=room.id)
            raise Failed("snapshot() raised; the node's log has the details") from None

    def messages(self, room_id: str) -> AsyncIterator[EventInfo]:
        """The messages between a room and its players from now on."""
        return self._read_messages(self._running(room_id).room.id)

    async def broadcast(self, room_id: str, message_type: str, body: Mapping[str, Any]) -> int:
        """Send a message to all players of a room, as a turn of the room; returns the number of players."""
        runner = self._running(room_id)
        message = untyped_message(message_type, body)
        await runner.call(runner.room.broadcast, message)
        await runner.persistence.saved()
        return len(runner.seats.occupied)

    def _running(self, room_id: str) -> RoomRunner:
        runner = self._directory.runner(room_id)
        if runner.context.listing.is_over:
            raise NotFound(f"room {room_id!r} has ended")
        return runner


def _shared(runner: RoomRunner) -> SharedParts | None:
    """What clients see of a room and what not, and what is kept for those that are behind."""
    if runner.sharing is None:
        return None
    behind, kept_bytes = runner.sharing.behind()
    return msgspec.structs.replace(_shared_parts(type(runner.room)), behind=behind, kept_bytes=kept_bytes)


def _shared_parts(room_type: type[Room[Any]]) -> SharedParts:
    if room_type not in _parts_of:
        kinds = {"state": (get_type_hints(room_type).get("state", Any),), "players": (player_data_type(room_type), "*")}
        marked = [marked_paths(kinds[root][0], root, *kinds[root][1:]) for root in room_type.shares]
        private, hidden = ([".".join(path) for paths in both for path in paths] for both in zip(*marked, strict=True))
        _parts_of[room_type] = SharedParts(
            list(room_type.shares), private, hidden, has_view=room_type.view is not Room.view
        )
    return _parts_of[room_type]


_parts_of: WeakKeyDictionary[type[Room[Any]], SharedParts] = WeakKeyDictionary()


def _info(runner: RoomRunner) -> RoomInfo:
    return runner.entry.info(sees_code=True)


async def until_saved(end: Awaitable[None], limits: Limits) -> None:
    """Wait until the store has saved that something ended."""
    try:
        # The end is saved only after the room's present turn.
        async with asyncio.timeout(limits.turn_s + limits.commit_timeout_s):
            await end
    except TimeoutError:
        raise Throttled("it has ended, but the store cannot save that at the moment") from None


class _Values:
    """A game's values as plain data, up to a total size."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0

    def plain(self, value: Any) -> Any:
        """One value; an unreadable value is replaced by a note, and the others are still shown."""
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
        # `peek`: reading must not mark every part for saving.
        return {name: value.peek(name) for name in value}
    return repr(value)[:_TEXT_CHARS_MAX]


def untyped_message(name: str, body: Mapping[str, Any]) -> Message:
    """A message of any type, without a class for it."""
    if name.startswith(RESERVED):
        raise Invalid(f"type: names that begin with {RESERVED!r} are reserved")
    names = {f"field_{number}": each for number, each in enumerate(body)}
    fields = [(each, Any) for each in names]
    try:
        made = msgspec.defstruct("Broadcast", fields, bases=(Message,), namespace={"wire_name": name}, rename=names)
    except ValueError:
        raise Invalid("body: field names may not contain quotes, backslashes or control characters") from None
    message = made(*body.values())
    assert isinstance(message, Message)
    return message
