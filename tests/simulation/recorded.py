"""REC: what is recorded of a room, replayed, is the room as it is, whatever happened to its server and its store."""

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.recording import Recording
from holdfast.core.room import Room
from tests.simulation.game import Ledger
from tests.simulation.mirrors import difference
from tests.state.follow import plain, visible

if TYPE_CHECKING:
    from tests.simulation.world import World

_strict = msgspec.msgpack.Encoder(order="deterministic").encode


def check_recordings(world: "World") -> None:
    """Compare all rooms that are recorded and between two turns."""
    for server in world.running:
        for room in server.rooms:
            runner = server.rooms.runner(room.id)
            if runner.recorder is not None and runner.turns.is_at_rest and not runner.turns.in_turn:
                _check(world, room, server.parts.recordings.get(room.id))


def _check(world: "World", room: Room[Any], recording: Recording) -> None:
    assert isinstance(room, Ledger)
    checker = world.checker
    checker.expect("REC", not recording.stopped, f"{room.id} is recorded no more: {recording.stopped}")
    if not recording.last:
        return
    checker.count("recordings replayed")
    replayed = recording.reader().state_at(recording.last)
    _compare(world, room, "state", replayed["state"], image(room))
    data = {player.id: plain(player.data) for player in room.players if player.id in replayed["players"]}
    # Who left between two turns is there until the next.
    known = {player: each for player, each in replayed["players"].items() if player in data}
    _compare(world, room, "data", known, data)
    _compare(world, room, "chance", replayed["room"]["random"], hex(room.random.getstate()[0]))


def image(room: Ledger) -> Any:
    """All of its state, as plain data."""
    board = {name: getattr(room.state, name) for name in room.state.__struct_fields__}
    # To look at one marks it for saving.
    counts = {name: room.state.counts.peek(name) for name in room.state.counts}
    return plain({**board, "counts": counts})


def _compare(world: "World", room: Room[Any], what: str, replayed: Any, right: Any) -> None:
    # With the defaults that are left out where a value is saved.
    replayed, right = visible(replayed, ()), visible(right, ())
    is_same = _strict(replayed) == _strict(right)
    world.checker.expect("REC", is_same, f"the {what} of {room.id} was recorded as {difference(replayed, right)}")
