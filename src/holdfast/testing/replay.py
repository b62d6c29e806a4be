"""A recording as a test: the recorded room on a server in memory, and what its players did from a turn on."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from holdfast.client.room import ClientRoom
from holdfast.core.recording import RecordingReader
from holdfast.core.recording_file import from_bytes
from holdfast.core.room import Room
from holdfast.core.session import is_agent
from holdfast.schemas.recording import TurnRecord
from holdfast.server.operate.recordings import RecordingOperations
from holdfast.server.operate.rooms import untyped_message
from holdfast.testing.server import MemoryServer

# Between two messages: each is applied before the next one is sent.
_STEP_S = 0.001
_MESSAGES = ("message", "ask", "latest")


def replay(path: str | Path) -> "Replay":
    """Open a recording, as `holdfast rooms recording` has written it; `NotARecording` if it is something else."""
    return Replay(from_bytes(Path(path).read_bytes()))


class Replay:
    """A recording of a room, to be restored and played again in tests."""

    def __init__(self, reader: RecordingReader) -> None:
        self._reader = reader

    @property
    def first(self) -> int:
        """The number of its first turn."""
        return self._reader.first

    @property
    def last(self) -> int:
        """The number of its last turn."""
        return self._reader.last

    def state_at(self, turn: int) -> dict[str, Any]:
        """What was recorded of the room at the end of a turn, as plain data."""
        return self._reader.state_at(turn)

    async def restore(self, server: MemoryServer, turn: int) -> Room[Any]:
        """The room as it was at the end of a turn, as a new room of this server: its seats are held."""
        parts = server.parts
        operations = RecordingOperations(parts.context, parts.rooms, parts.lifecycle, parts.recordings)
        info = await server.machine.do(operations.fork_from(self._reader, turn))
        return parts.rooms.runner(info.id).room

    async def run(self, server: MemoryServer, turn: int, until: int | None = None) -> Room[Any]:
        """Restore the room, and send what its players sent after that turn, at the same times: they join and leave as
        they did. Timers and ticks come by themselves. Errors of the game fail the test when the server stops.
        """
        room = await self.restore(server, turn)
        players: dict[str, ClientRoom] = {}
        for seat in self._reader.state_at(turn)["seats"].values():
            if not is_agent(seat["player"]):
                await self._join(server, room, seat["player"], players)
        now = self._reader.turn(turn).at
        for replayed in self._reader.replay(turn + 1, self.last if until is None else until):
            recorded = replayed.turn
            await asyncio.sleep(max(_STEP_S, recorded.at - now))
            now = max(now, recorded.at)
            await self._repeat(server, room, recorded, players)
        await asyncio.sleep(_STEP_S)
        return room

    async def _join(self, server: MemoryServer, room: Room[Any], player: str, players: dict[str, ClientRoom]) -> None:
        client = await server.connect(player)
        players[player] = await client.join(room.id)

    async def _repeat(
        self, server: MemoryServer, room: Room[Any], recorded: TurnRecord, players: dict[str, ClientRoom]
    ) -> None:
        cause = recorded.cause
        if cause.kind in _MESSAGES and cause.player in players:
            message = untyped_message(cause.name, msgspec.msgpack.decode(cause.body) if cause.body else {})
            if cause.kind == "latest":
                players[cause.player].send_latest(message)
            else:
                await players[cause.player].send(message)
        elif cause.name == "on_join" and cause.player not in players and not is_agent(cause.player):
            await self._join(server, room, cause.player, players)
        elif cause.name == "on_leave" and cause.player in players:
            await players.pop(cause.player).leave()
