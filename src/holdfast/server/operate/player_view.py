"""What one player sees of a recorded state: what the room shares with everybody, and their own data."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.room import Room, player_data_type
from holdfast.server.rooms.forking import read_state, read_value
from holdfast.server.rooms.shared_plan import plan_of
from holdfast.state import Audience, SharedPlan, apply, encode_msgpack

_PATHS_MAX = 200


def player_view(room_type: type[Room[Any]], recorded: dict[str, Any], player_id: str) -> dict[str, Any]:
    """What a client of this player has of the state; empty if the room shares none, or they are not there.

    What the game's own code decides is left out: the `state` of rooms with a `view`, the entries of `Areas`.
    """
    plan = plan_of(room_type)
    if plan is None:
        return {}
    data_type = player_data_type(room_type)
    # The newest of several seats of a player, as clients have it.
    players = {
        seat["player"]: read_value(recorded["players"][key], data_type, f"the data of {seat['player']}")
        for key, seat in recorded["seats"].items()
    }
    if player_id not in players and player_id not in recorded["room"]["spectators"]:
        return {}
    values = {"state": read_state(room_type, recorded["state"]), "players": players}
    if "state" in plan.roots and values["state"] is None:
        # The game has not set it up yet.
        return {}
    view: dict[str, Any] = {}
    _add(view, plan.common, *(values[root] for root in plan.roots))
    if "players" in plan.roots and player_id in players:
        _add(view, SharedPlan({"mine": data_type}, Audience.OWNER), players[player_id])
    return view


def _add(view: dict[str, Any], plan: SharedPlan, *values: Any) -> None:
    apply(view, msgspec.msgpack.decode(encode_msgpack(plan.whole(plan.take(*values)))))


def differing_paths(old: Any, new: Any) -> list[str]:
    """Where two values of plain data differ, as in `players.ada.score`; so many of them."""
    return [".".join(path) for path, _ in zip(_differing(old, new, ()), range(_PATHS_MAX), strict=False)]


def _differing(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            if key not in old or key not in new:
                yield (*path, str(key))
            elif old[key] != new[key]:
                yield from _differing(old[key], new[key], (*path, str(key)))
    else:
        yield path
