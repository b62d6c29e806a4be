"""A hook: a function of the game decides whether a credential is accepted."""

import inspect
from collections.abc import Awaitable, Callable

from holdfast.identity.port import Approach, Identity, checked_identity

Approve = Callable[[str, Approach], Identity | str | Awaitable[Identity | str]]
"""Of the game: the identity, or only the player's id, that this credential proves."""


class Hook:
    """Asks a function of the game's: `async def approve(credential: str, approach: Approach) -> Identity | str`.

    The credential is whatever the client sent, up to the size of a hello (`Limits.hello_bytes_max`): a JSON text, for
    example. It raises `NotAuthentic` if that proves nothing, or `Refused` (or a kind of it with a `code` of its own) if
    the player may not enter; the client is told either way. It has `Limits.auth_s` to decide. A plain `def` must return
    at once, because it blocks the server.
    """

    def __init__(self, approve: Approve, *, scheme: str = "hook") -> None:
        self._approve = approve
        self.scheme = scheme
        """The name clients ask for it by."""

    async def authenticate(self, credential: str, approach: Approach) -> Identity:
        """What the game says."""
        answer = self._approve(credential, approach)
        found = await answer if inspect.isawaitable(answer) else answer
        return checked_identity(Identity(found) if isinstance(found, str) else found, self.scheme)

    def __repr__(self) -> str:
        return f"Hook(scheme={self.scheme!r})"
