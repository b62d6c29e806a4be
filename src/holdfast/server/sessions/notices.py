"""Notices to a session outside of any room. They are not stored: after a drop, the client asks again."""

from typing import Any

from holdfast.core.registry import SessionRegistry
from holdfast.core.session import PlayerId, Session
from holdfast.schemas.frames import Notice
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.player import WaitInfo
from holdfast.schemas.room import RoomInfo


class Notices:
    """Sends notices to connected sessions."""

    def __init__(self, registry: SessionRegistry) -> None:
        self._registry = registry

    def rooms(self, session: Session, watch_id: str, changed: list[RoomInfo], removed: list[str]) -> None:
        """Changes in a watched search; they must fit in one payload."""
        self._send(session, "rooms", watch_id, {"changed": changed, "removed": removed})

    def offer(self, player_id: PlayerId, place: WaitInfo) -> None:
        """A seat is reserved for a player on the waitlist."""
        self._send_to(player_id, "offer", place.room, place)

    def placement(self, player_id: PlayerId, info: PlacementInfo) -> None:
        """The state of a placement changed."""
        self._send_to(player_id, "placement", info.id, info)

    def stopping(self, session: Session, deadline_s: float) -> None:
        """The server stops within `deadline_s` seconds."""
        self._send(session, "stopping", "", {"deadline_s": deadline_s})

    def _send_to(self, player_id: PlayerId, topic: str, key: str, body: Any) -> None:
        for session in self._registry.of_player(player_id):
            self._send(session, topic, key, body)

    def _send(self, session: Session, topic: str, key: str, body: Any) -> None:
        if session.connection is not None:
            session.connection.send(Notice(topic, key, body))
