"""The rooms that one player may see."""

from holdfast.core.session import PlayerId
from holdfast.schemas.room import RoomInfo
from holdfast.server.rooms.runner import RoomRunner


class Viewer:
    """What a player may find: public rooms, and those they created or have a seat in."""

    __slots__ = ("_player_id", "_runners")

    def __init__(self, runners: dict[str, RoomRunner], player_id: PlayerId) -> None:
        self._runners = runners
        self._player_id = player_id

    def __call__(self, row: RoomInfo) -> bool:
        runner = self._runners[row.id]
        return runner.context.listing.visibility == "public" or self.knows(runner)

    def knows(self, runner: RoomRunner) -> bool:
        """Whether the room is one of theirs: then its code is shown, too."""
        return (
            self._player_id == runner.context.listing.creator
            or runner.seats.of(self._player_id) is not None
            or runner.seats.is_reserved(self._player_id)
        )

    def show(self, runner: RoomRunner) -> RoomInfo:
        """The room as the player sees it."""
        return runner.entry.info(sees_code=self.knows(runner))

    def show_by_id(self, room_id: str) -> RoomInfo:
        return self.show(self._runners[room_id])
