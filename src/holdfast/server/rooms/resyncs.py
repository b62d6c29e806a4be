"""Streams that begin anew: a returning player for whom messages could not be kept is sent the state first."""

from collections.abc import Callable
from typing import Any

from holdfast.core.messages import RoomUpdated
from holdfast.core.player import Player
from holdfast.core.room import Room
from holdfast.schemas.room import RoomInfo
from holdfast.server.rooms.turns import Turns


class Resyncs:
    """Runs `on_resync` for the players of one room. Their stream is mute until then, so the state arrives first."""

    def __init__(
        self,
        room: Room[Any],
        turns: Turns,
        *,
        info: Callable[[], RoomInfo],
        failed: Callable[[Exception, str, str], None],
    ) -> None:
        self._room = room
        self._turns = turns
        self._info = info
        self._failed = failed
        # How many turns of `on_resync` wait for each player.
        self._waiting: dict[Player[Any], int] = {}

    def __contains__(self, player: Player[Any]) -> bool:
        """Whether a player was told that their stream begins anew, and was not sent the state yet."""
        return player in self._waiting

    def begin(self, player: Player[Any]) -> None:
        """The player's stream begins anew."""
        self._waiting[player] = self._waiting.get(player, 0) + 1
        if player.session.channel is not None:
            player.session.channel.mute()
        self._turns.take(self._resync, (player,), self._resynced, (player,))

    def end(self, player: Player[Any]) -> None:
        """There is no state to come any more."""
        self.unmute(player)
        self._waiting.pop(player, None)

    def unmute(self, player: Player[Any]) -> None:
        """What is said to the player is written again."""
        if player in self._waiting and player.session.channel is not None:
            player.session.channel.unmute()

    def _resync(self, player: Player[Any]) -> Any:
        if self._waiting.get(player, 0) > 1:
            # Their stream began anew once more, and is mute until the turn that belongs to that.
            return None
        self.unmute(player)
        return self._room.on_resync(player)

    def _resynced(self, error: Exception | None, _: Any, player: Player[Any]) -> None:
        if error is not None:
            self._failed(error, "on_resync", player.id)
        # What was said about the room itself may be among what could not be kept.
        player.outlet.send(RoomUpdated(self._info()))
        left = self._waiting.get(player, 0) - 1
        if left > 0:
            self._waiting[player] = left
        else:
            self._waiting.pop(player, None)
