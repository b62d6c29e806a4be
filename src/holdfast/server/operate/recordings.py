"""Recordings as operators see them: read turn by turn, download, and begin a new room from any turn.

They show everything, secrets too. What is shown for one player has nothing but what that player was sent.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec

from holdfast.core.errors import Failed, Invalid, NotFound
from holdfast.core.recording import NotARecording, RecordingReader, Replayed
from holdfast.core.recording_file import to_bytes
from holdfast.core.room import Room
from holdfast.core.room_file import to_json
from holdfast.core.session import Session
from holdfast.schemas.recording import (
    RecordingHead,
    RecordingInfo,
    SentInfo,
    SentRecord,
    TurnInfo,
    TurnPage,
    TurnState,
)
from holdfast.schemas.room import RoomInfo
from holdfast.server.context import Context
from holdfast.server.directory.directory import Directory
from holdfast.server.operate.player_view import differing_paths, player_view
from holdfast.server.rooms.forking import fill_room, read_recorded, set_timers
from holdfast.server.rooms.recorded_state import SeatView
from holdfast.server.rooms.recordings import Recordings
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.sessions import SessionLifecycle

TURNS_PER_PAGE = 100
T = TypeVar("T")

_decode = msgspec.msgpack.Decoder().decode
_OF_PLAYERS = ("message", "ask", "latest")


class RecordingOperations:
    """The recordings of one node."""

    def __init__(
        self, context: Context, directory: Directory, lifecycle: SessionLifecycle, recordings: Recordings
    ) -> None:
        self._now = context.clock.now
        self._limits = context.limits
        self._directory = directory
        self._lifecycle = lifecycle
        self._recordings = recordings
        self._reading = asyncio.Lock()

    async def _read_beside(self, room_id: str, read: Callable[[RecordingReader], T]) -> T:
        """Read in a thread, one recording at a time: it may take seconds, in which the games go on."""
        reader = self._recordings.get(room_id).reader()
        async with self._reading:
            return await asyncio.to_thread(read, reader)

    def get(self, room_id: str) -> RecordingInfo:
        """What is kept of a room's recording."""
        recording = self._recordings.get(room_id)
        return RecordingInfo(
            room=room_id,
            kind=recording.head.kind,
            first=recording.first,
            last=recording.last,
            began_at=recording.head.wall_clock,
            bytes=recording.size_bytes,
            is_live=self._recordings.is_live(room_id),
            stopped=recording.stopped,
        )

    def file(self, room_id: str) -> bytes:
        """The whole recording, as a file."""
        recording = self._recordings.get(room_id)
        return to_bytes(recording.head, recording.blocks(), recording.stopped)

    async def turns(self, room_id: str, *, first: int = 0, limit: int = TURNS_PER_PAGE, player: str = "") -> TurnPage:
        """Turns from a number on; the newest ones without it."""
        return await self._read_beside(room_id, partial(self.page, first=first, limit=limit, player=player))

    async def turn(self, room_id: str, number: int, *, player: str = "") -> TurnState:
        """A turn (0: the newest), and the room's state at its end."""
        return await self._read_beside(room_id, partial(self.state, number=number, player=player))

    def page(
        self, reader: RecordingReader, *, first: int = 0, limit: int = TURNS_PER_PAGE, player: str = ""
    ) -> TurnPage:
        """Turns of a recording, as `turns` does."""
        begin = max(first, reader.first) if first else max(reader.first, reader.last - limit + 1)
        end = min(begin + limit - 1, reader.last)
        if player:
            shown = [info for info, _ in self._for_player(reader, begin, end, player)]
        else:
            shown = [turn_info(reader.head, each) for each in reader.replay(begin, end)]
        return TurnPage(shown, reader.first, reader.last)

    def state(self, reader: RecordingReader, *, number: int, player: str = "") -> TurnState:
        """A turn of a recording, as `turn` does."""
        number = number or reader.last
        _check_number(reader, number)
        if player:
            for info, view in self._for_player(reader, number, number, player, skips=False):
                return TurnState(info, to_json(view))
        replayed = next(reader.replay(number, number))
        return TurnState(turn_info(reader.head, replayed), to_json(replayed.state))

    def _for_player(
        self, reader: RecordingReader, first: int, last: int, player: str, *, skips: bool = True
    ) -> Iterator[tuple[TurnInfo, dict[str, Any]]]:
        """Turns as this player knows of them, and what they see at the end of each."""
        room_type = self._type(reader.head)
        before: dict[str, Any] = {}
        for _, state in reader.states(first - 1, first - 1):
            before = player_view(room_type, state, player)
        for each in reader.replay(first, last):
            view = player_view(room_type, each.state, player)
            info = stripped(turn_info(reader.head, each), player, differing_paths(before, view))
            if not skips or info.changed or info.sent or info.name:
                yield info, view
            before = view

    def _type(self, head: RecordingHead) -> type[Room[Any]]:
        room_type = self._directory.types.get(head.kind)
        if room_type is None:
            raise NotFound(f"this server has no rooms of the kind {head.kind!r}")
        return room_type

    # Forks

    async def fork(self, room_id: str, number: int) -> RoomInfo:
        """A new, private room from the end of a turn. Its seats are held for their players, by id."""
        reader = self._recordings.get(room_id).reader()
        _check_number(reader, number)
        return await self.fork_from(reader, number)

    async def fork_from(self, reader: RecordingReader, number: int) -> RoomInfo:
        """The same from a recording that was read from a file."""
        try:
            turn, state = reader.turn(number), reader.state_at(number)
        except NotARecording as error:
            raise Invalid(str(error)) from None
        recorded = read_recorded(self._type(reader.head), state, turn.at + turn.took_s)

        def fill(runner: RoomRunner) -> None:
            fill_room(runner, recorded, self._stand_in)
            for seat in runner.seats:
                # Time to look at it, and for its players to join.
                seat.session.expires_at = self._now() + self._limits.fork_seat_s
                self._lifecycle.graces.begin(seat.session)

        runner = self._directory.adopt(recorded.room_type, fill)
        set_timers(runner, recorded)
        runner.recovered()
        await runner.persistence.saved()
        if runner.context.is_closing:
            raise Failed("the fork ended at once; see the node's log")
        return runner.entry.info(sees_code=True)

    def _stand_in(self, view: SeatView) -> Session:
        # Not found by its player: whoever plays elsewhere goes on there.
        return self._lifecycle.stand_in(view.player, view.name, grace_s=self._limits.fork_seat_s, by_player=False)


def _check_number(reader: RecordingReader, number: int) -> None:
    if number not in reader:
        kept = f"turns {reader.first} to {reader.last} are kept" if reader.last else "it has no turns yet"
        raise NotFound(f"the recording has no turn {number}: {kept}")


# Turns as they are shown


def turn_info(head: RecordingHead, replayed: Replayed) -> TurnInfo:
    """A turn as operators see it."""
    turn, cause = replayed.turn, replayed.turn.cause
    return TurnInfo(
        number=turn.number,
        at=round(head.wall_clock + turn.at - head.clock, 6),
        took_ms=round(turn.took_s * 1000.0, 3),
        kind=cause.kind,
        name=cause.name,
        player=cause.player,
        body=_shown(cause.body),
        changed=replayed.changed,
        sent=[_sent_info(each) for each in turn.sent],
        error_code=turn.error_code,
        error=turn.error,
    )


def _sent_info(sent: SentRecord) -> SentInfo:
    return SentInfo(sent.name, sent.players, sent.size, _shown(sent.body), sent.is_latest)


def _shown(body: bytes) -> Any:
    return to_json(_decode(body)) if body else None


def stripped(turn: TurnInfo, player: str, changed: list[str]) -> TurnInfo:
    """What a player knows of a turn: what they sent, what they were sent, and what changed in what they see."""
    is_theirs = turn.player == player and turn.kind in _OF_PLAYERS
    return TurnInfo(
        number=turn.number,
        at=turn.at,
        took_ms=0.0,
        kind=turn.kind if is_theirs else "",
        name=turn.name if is_theirs else "",
        player=player if is_theirs else "",
        body=turn.body if is_theirs else None,
        changed=changed,
        sent=[
            SentInfo(each.name, [player], each.bytes, each.body, each.is_latest)
            for each in turn.sent
            if player in each.players
        ],
        # Of failures they are told no more than that.
        error_code=turn.error_code if is_theirs else "",
        error=turn.error if is_theirs and turn.error_code != "failed" else "",
    )
