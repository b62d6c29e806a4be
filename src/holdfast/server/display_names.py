"""What players are called: checked by our rules, then by the game's own."""

import inspect
from collections.abc import Callable

from holdfast.core.errors import Failed, NameNotAllowed, Refused
from holdfast.core.names import checked_name
from holdfast.core.session import Session
from holdfast.identity.port import Identity
from holdfast.server.context import Context

CheckName = Callable[[str, Identity], str | None]
"""A game's own check of a display name, which is empty if the player gave none, and of who wants it.

It raises `Refused` to say no, returns another name to be used instead, or None to accept.
"""


class DisplayNames:
    """Decides about the names of one node's players."""

    def __init__(self, context: Context, check: CheckName | None) -> None:
        self._chars_max = context.limits.name_chars_max
        self._faults = context.faults
        self._check = check

    def checked(self, text: str, identity: Identity) -> str:
        """The name as it is kept; `NameNotAllowed` if the player may not have it, `Failed` if the check failed."""
        name = checked_name(text, self._chars_max)
        if self._check is None:
            return name
        try:
            changed: object = self._check(name, identity)
            if changed is None:
                return name
            if not isinstance(changed, str):
                if inspect.iscoroutine(changed):
                    changed.close()
                raise TypeError(f"check_name must return a name or None, or raise Refused; got {changed!r}")
            return checked_name(changed, self._chars_max)
        except Refused as refusal:
            raise NameNotAllowed(str(refusal)) from None
        except Exception as error:  # noqa: BLE001 - the game's code
            self._faults.report("check_name", error, player=identity.player_id)
            raise Failed("check_name failed") from None

    def of_session(self, text: str, session: Session) -> str:
        """The same for a player who is here."""
        return self.checked(text, Identity(session.player_id, session.roles, data=session.data))
