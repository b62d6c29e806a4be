"""What can go wrong, and whose doing it is. A leaf: primitive fields, no imports of ours but the reasons.

    HoldfastError
    ├── Refused              refused by the rules; the session lives and the client is told (code, message)
    │   ├── NotFound             no such room, kind or message
    │   ├── RoomFull             every seat is taken, held or reserved
    │   ├── RoomLocked           the room takes nobody new
    │   ├── WrongPassword        the room has a password, and this is not it
    │   ├── NameTaken            another room of this kind has this name
    │   ├── Conflict             somebody else changed it first, or the key stands for a different request
    │   ├── Expired              it was kept for a while, and that is over
    │   ├── NotAllowed           not for this player to do
    │   ├── AlreadySeated        this session has a seat; leave it first
    │   ├── Duplicate            this player is in the room already and the room allows one
    │   ├── NotSeated            there is no seat to act from
    │   ├── OtherVersion         the client was built for other messages than the room's
    │   ├── Invalid              an argument or a message body does not fit
    │   ├── Throttled            a limit was reached; try later
    │   └── Failed               a hook or handler of the game raised
    ├── ProtocolError        broken by the peer; the connection closes with its reason
    ├── NotAuthentic         a credential proves nothing; the client may sign in again (identity/port.py)
    ├── Busy                 a credential cannot be checked now; the client is told when to come back (identity/port.py)
    ├── IllegalTransition    not in the table of states; nothing changed (tables.py)
    └── SessionEnded         the session is over, on the client's side of the wire (reason, message, problem)

Anything else that is raised is a bug of ours or of the game: logged once, counted, contained.
"""

from holdfast.core.reasons import Reason


class HoldfastError(Exception):
    """The root of all errors that Holdfast raises on purpose."""


class Refused(HoldfastError):
    """The rules say no; nothing changed. Games raise it too: `raise holdfast.Refused("no such map")`."""

    code: str = "refused"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.code.replace("_", " "))


class NotFound(Refused):
    """No such room, kind or message."""

    code = "not_found"


class RoomFull(Refused):
    """Every seat is taken, held for a dropped player, or reserved."""

    code = "room_full"


class RoomLocked(Refused):
    """The room is locked or closing: it takes nobody new."""

    code = "room_locked"


class WrongPassword(Refused):
    """The room has a password, and this is not it."""

    code = "wrong_password"


class NameTaken(Refused):
    """Another room of this kind has this name, and the kind allows one."""

    code = "name_taken"


class Conflict(Refused):
    """Somebody else changed it first, or an idempotency key was used before for another request."""

    code = "conflict"


class Expired(Refused):
    """It no longer exists: the room created with an idempotency key has ended, or a watch is closed."""

    code = "expired"


class NotAllowed(Refused):
    """Not for this player to do."""

    code = "not_allowed"


class AlreadySeated(Refused):
    """The session has a seat already; leave it first."""

    code = "already_seated"


class Duplicate(Refused):
    """This player is in the room already, and the room's policy is to keep the one it has."""

    code = "duplicate"


class NotSeated(Refused):
    """There is no seat to act from: never joined, left, or removed."""

    code = "not_seated"


class OtherVersion(Refused):
    """The client was built for other messages than those of the room: run `holdfast types` and build it again."""

    code = "other_version"


class Invalid(Refused):
    """An argument or a message body does not have the form it must have."""

    code = "invalid"


class Throttled(Refused):
    """A limit was reached; the same call may succeed later."""

    code = "throttled"


class Failed(Refused):
    """A hook or handler of the game raised; the details are in the server's log."""

    code = "failed"


_BY_CODE = {
    kind.code: kind
    for kind in (
        Refused,
        NotFound,
        RoomFull,
        RoomLocked,
        WrongPassword,
        NameTaken,
        Conflict,
        Expired,
        NotAllowed,
        AlreadySeated,
        Duplicate,
        NotSeated,
        OtherVersion,
        Invalid,
        Throttled,
        Failed,
    )
}


def refusal(code: str, message: str) -> Refused:
    """The typed error for a code that came over the wire; an unknown code is a plain `Refused` that carries it."""
    error = _BY_CODE.get(code, Refused)(message)
    error.code = code
    return error


class ProtocolError(HoldfastError):
    """The peer broke the protocol; its connection closes with this reason."""

    def __init__(self, message: str, reason: Reason = Reason.PROTOCOL) -> None:
        super().__init__(message)
        self.reason = reason


class SessionEnded(HoldfastError):
    """The session is over: it will not resume by itself."""

    def __init__(self, reason: str, message: str = "", problem: str = "") -> None:
        super().__init__(f"the session ended: {message or reason}")
        self.reason = reason
        self.problem = problem
        """Of "refused": the code with which the game refused, as in `Refused.code`."""
