"""Which players have a session: here, or on another node of the cluster. Seats that they have reserved, and their
places on waitlists, end with the last one."""

from collections.abc import Callable

from holdfast.core.registry import SessionRegistry


class Presence:
    """Without a cluster, the sessions of this server are all there are."""

    def __init__(self, sessions: SessionRegistry) -> None:
        self._sessions = sessions
        self.is_elsewhere: Callable[[str], bool] = lambda _: False
        """Whether the player has a session on another node, as far as is known."""
        self.look: Callable[[str], None] | None = None
        """In a cluster: asks the other nodes for a player without a session here, and calls `on_gone` if none has
        one."""
        self.on_gone: list[Callable[[str], None]] = []
        """A player has no session any more."""

    def has(self, player_id: str) -> bool:
        """Whether the player has a session."""
        return bool(self._sessions.of_player(player_id)) or self.is_elsewhere(player_id)

    def check(self, player_id: str) -> None:
        """The player may have no session any more: if so, that is told, in a cluster once all nodes have said so."""
        if self.has(player_id):
            return
        if self.look is not None:
            self.look(player_id)
            return
        for gone in self.on_gone:
            gone(player_id)
