"""What can go wrong, and whose fault it is. Errors have primitive fields; this module imports only `reasons`.

    HoldfastError
    ├── Refused              refused by the rules; the session lives and the client is told (code, message)
    │   ├── NotFound             no such room, kind or message
    │   ├── RoomFull             every seat is taken, held or reserved
    │   ├── RoomLocked           the room accepts no new players
    │   ├── WrongPassword        the room has a password, and a different one was given
    │   ├── NameTaken            another room of this kind has this name
    │   ├── NameNotAllowed       a player may not have this display name; choose another
    │   ├── Conflict             somebody else changed it first, or the key was used for a different request
    │   ├── Expired              it no longer exists: a room that has ended, a closed watch
    │   ├── NotAllowed           this player may not do it
    │   ├── AlreadySeated        this session has a seat; leave it first
    │   ├── AlreadySpectating    this session watches a room; leave that first
    │   ├── Duplicate            this player is already in the room, which allows one seat each
    │   ├── NotSeated            the session has no seat
    │   ├── OtherVersion         the client was built for other messages than the room's
    │   ├── Invalid              an argument or a message body is not valid
    │   ├── Throttled            a limit was reached; try later
    │   └── Failed               a hook or handler of the game raised
    ├── Reset                the answer is lost with its session or stream; nobody knows whether it was carried out
    ├── ProtocolError        broken by the peer; the connection closes with its reason
    ├── NotAuthentic         a credential is not valid; the client may sign in again (identity/port.py)
    ├── Busy                 a credential cannot be checked now; the client is told when to come back (identity/port.py)
    ├── IllegalTransition    not in the table of states; nothing changed (tables.py)
    └── SessionEnded         the session is over, on the client's side of the wire (reason, message, problem)

Anything else that is raised is a bug of ours or of the game: logged once, counted, contained.
"""

from holdfast.core.reasons import Reason


class HoldfastError(Exception):
    """The root of all errors that Holdfast raises on purpose."""


class Refused(HoldfastError):
    """A rule refused the call; nothing changed. Games raise it too: `raise holdfast.Refused("no such map")`."""

    code: str = "refused"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.code.replace("_", " "))


class NotFound(Refused):
    """No such room, kind or message."""

    code = "not_found"

    def __init__(self, message: str = "", *, room_id: str = "", room_code: str = "") -> None:
        super().__init__(message)
        self.room_id = room_id
        """The room that is not here; the other nodes of a cluster may have it."""
        self.room_code = room_code
        """The code of one, if it was asked for by that."""


class RoomFull(Refused):
    """Every seat is taken, held for a dropped player, or reserved."""

    code = "room_full"


class RoomLocked(Refused):
    """The room is locked or closing: it accepts no new players."""

    code = "room_locked"


class WrongPassword(Refused):
    """The room has a password, and a different one was given."""

    code = "wrong_password"


class NameTaken(Refused):
    """Another room of this kind has this name, and names of the kind are unique."""

    code = "name_taken"


class NameNotAllowed(Refused):
    """A player may not have this display name: choose another one."""

    code = "name_not_allowed"


class Conflict(Refused):
    """Somebody else changed it first, or an idempotency key was used for a different request."""

    code = "conflict"


class Expired(Refused):
    """It no longer exists: the room created with an idempotency key has ended, or a watch is closed."""

    code = "expired"


class NotAllowed(Refused):
    """This player may not do it."""

    code = "not_allowed"


class AlreadySeated(Refused):
    """The session already has a seat; leave it first."""

    code = "already_seated"


class AlreadySpectating(Refused):
    """The session already watches a room as a spectator; leave that first."""

    code = "already_spectating"


class Duplicate(Refused):
    """This player is already in the room, and the room's policy is to keep the first seat."""

    code = "duplicate"


class NotSeated(Refused):
    """The session has no seat: never joined, left, or removed."""

    code = "not_seated"


class OtherVersion(Refused):
    """The client was built for other messages than the room's: generate its types again and rebuild it."""

    code = "other_version"


class Invalid(Refused):
    """An argument or a message body is not valid."""

    code = "invalid"


class Throttled(Refused):
    """A limit was reached; the same call may succeed later."""

    code = "throttled"


class Failed(Refused):
    """A hook or handler of the game raised; the server's log has the details."""

    code = "failed"


_KINDS: list[type[Refused]] = [Refused, *Refused.__subclasses__()]
_BY_CODE = {kind.code: kind for kind in _KINDS}


def refusal(code: str, message: str) -> Refused:
    """The typed error for a code from the wire; an unknown code becomes a plain `Refused` with that code."""
    error = _BY_CODE.get(code, Refused)(message)
    error.code = code
    return error


class Reset(HoldfastError):
    """The answer is lost: the session was reset, or the room's stream resynced. It was carried out, or it was not."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the answer was lost ({reason or 'reset'}): it is not known whether this was carried out")
        self.reason = reason
        """As in `Outcome.reason`; "resynced" if only messages were lost."""


class ProtocolError(HoldfastError):
    """The peer broke the protocol; its connection closes with this reason."""

    def __init__(self, message: str, reason: Reason = Reason.PROTOCOL) -> None:
        super().__init__(message)
        self.reason = reason


class SessionEnded(HoldfastError):
    """The session has ended: it will not resume."""

    def __init__(self, reason: str, message: str = "", problem: str = "") -> None:
        super().__init__(f"the session ended: {message or reason}")
        self.reason = reason
        self.problem = problem
        """For "refused": the code with which the game refused, as in `Refused.code`."""
