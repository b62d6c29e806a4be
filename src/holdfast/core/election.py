"""Who is the host of a room, if it has one: the same players give the same host, on every node and after a crash."""

from collections.abc import Sequence
from typing import Any, Literal

from holdfast.core.player import Player

Election = Literal["none", "oldest", "latency"]
"""none: no host unless the game names one. oldest: who joined first. latency: who has the shortest round trip."""


def elect(players: Sequence[Player[Any]], election: Election, successor: str) -> Player[Any] | None:
    """The next host: the named successor if they are here, else as the room's rule says. Players come as they joined.

    Who is connected goes before who is away; in a tie, who joined first.
    """
    named = next((player for player in players if player.id == successor), None)
    if named is not None:
        return named
    if election == "none" or not players:
        return None
    present = [player for player in players if player.connected] or list(players)
    if election == "latency":
        # One that was not measured yet is no candidate for having the shortest.
        return min(present, key=lambda player: player.latency_ms or float("inf"))
    return present[0]
