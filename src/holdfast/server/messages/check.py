"""Are the messages that a client was made for those of the room?"""

from typing import Any

from holdfast.core.errors import OtherVersion
from holdfast.core.room import Room
from holdfast.logs import get_logger
from holdfast.server.messages.spoken import spoken_in
from holdfast.server.messages.version import is_understood, name_of, version_of

log = get_logger("holdfast.server")

# Versions of which the log was told; a game has a few, and who makes them up must not fill the memory.
_TOLD_MAX = 64


class MessageVersions:
    """The versions of a node's kinds of rooms; each is worked out when the first client asks for it."""

    def __init__(self) -> None:
        self._own: dict[type[Room[Any]], str] = {}
        self._told: set[tuple[str, str]] = set()

    def check(self, room_type: type[Room[Any]], version: str) -> None:
        """Refuse a client that would be misunderstood; one that does not say what it was made for is let in."""
        if not version:
            return
        own = self._own.get(room_type)
        if own is None:
            own = self._own[room_type] = _version_of(room_type)
        if is_understood(version, by=own):
            return
        theirs, ours = name_of(version), name_of(own) or "none"
        if room_type.other_version == "refuse":
            raise OtherVersion(
                f"this client was made for version {theirs} of {room_type.kind}'s messages, the server has {ours}:"
                " run `holdfast types` and build the client again"
            )
        if len(self._told) < _TOLD_MAX and (room_type.kind, theirs) not in self._told:
            self._told.add((room_type.kind, theirs))
            log.warning(
                "clients were made for another version of messages", kind=room_type.kind, theirs=theirs, ours=ours
            )


def _version_of(room_type: type[Room[Any]]) -> str:
    try:
        return version_of(spoken_in(room_type))
    except (TypeError, NameError):
        # Of a type that msgspec does not know: no types were ever written, so whoever gives a version made it up.
        return ""
