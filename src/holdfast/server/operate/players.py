"""Players as operators see them: everybody with a session, a seat or a reservation."""

from itertools import chain

from holdfast.core.errors import NotFound
from holdfast.core.registry import SessionRegistry
from holdfast.schemas.player import PlayerInfo, PlayerPage
from holdfast.server.directory.directory import Directory
from holdfast.server.pages import page_of


class PlayerOperations:
    """The players of one node."""

    def __init__(self, sessions: SessionRegistry, directory: Directory) -> None:
        self._sessions = sessions
        self._directory = directory

    def list(self, *, search: str = "", limit: int, cursor: str) -> PlayerPage:
        """The players with `search` in their id, in the order of their ids."""
        with_session = (session.player_id for session in self._sessions)
        found = (each for each in chain(with_session, self._directory.players()) if search in each)
        page, more = page_of(found, limit, cursor)
        return PlayerPage([self._info(each) for each in page], more)

    def get(self, player_id: str) -> PlayerInfo:
        info = self._info(player_id)
        if not info.sessions and not info.rooms:
            raise NotFound(f"player {player_id!r} has no session, seat or reservation on this node")
        return info

    def _info(self, player_id: str) -> PlayerInfo:
        sessions = [str(session.id) for session in self._sessions.of_player(player_id)]
        return PlayerInfo(player_id, sessions, [runner.room.id for runner in self._directory.rooms_of(player_id)])
