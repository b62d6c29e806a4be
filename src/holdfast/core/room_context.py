"""What a room asks of the server it runs on."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from holdfast.core.limits import Limits
from holdfast.core.player import Player
from holdfast.core.reasons import Reason
from holdfast.schemas.requests import Update


class Timer(Protocol):
    """A pending `after`."""

    def cancel(self) -> None:
        """Do not call it any more."""


class Host(Protocol):
    """What a room asks of the server it runs on."""

    @property
    def limits(self) -> Limits:
        """The server's."""

    def follow(self, hook: Callable[..., Any], *args: Any) -> None:
        """Run a hook as a turn of its own, right after the current one."""

    def free(self, player: Player[Any], reason: Reason, message: str = "") -> None:
        """Free a seat, with all that follows."""

    def after(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> Timer:
        """Call a method of the room later, as a turn."""

    def spawn(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        """Run outside work beside the room; its result comes back as a turn."""

    def effect(self, name: str, payload: Any) -> None:
        """Have something done outside after the current turn."""

    def started(self) -> None:
        """A round has begun."""

    def close(self) -> None:
        """End the room after the current turn."""

    def listed(self) -> None:
        """What the directory shows of the room has changed."""

    def update(self, request: Update) -> None:
        """Change the room's entry in the directory."""

    def name_host(self, player: Player[Any] | None) -> None:
        """Make a player the host."""
