"""The part of a store that sessions use. Without a store, these functions do nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.core.session import Session


def _nothing(_: object) -> None:
    """There is no store."""


def _no(_: object) -> bool:
    return False


async def _at_once(_: object) -> None:
    """There is nothing to wait for."""


@dataclass(slots=True, kw_only=True)
class StoredSessions:
    """Filled where the server is composed."""

    restore: Callable[[str], None] = _nothing
    """Restore the session with this id, if the store has it."""
    restore_of_player: Callable[[str], None] = _nothing
    """Restore all sessions of a player."""
    hold: Callable[[Session], None] = _nothing
    """The session changed, and its client may be notified only once that is saved."""
    moved: Callable[[Session], None] = _nothing
    """The session took or left a seat, or its streams restart: saved together with its room."""
    changed: Callable[[Session], None] = _nothing
    """Save the session with the next commit."""
    is_saved: Callable[[Session], bool] = _no
    """Whether the session outlives this process."""
    is_stuck: Callable[[Session], bool] = _no
    """Whether the session outlives this process while the store fails."""
    is_elsewhere: Callable[[str], bool] = _no
    """Whether another server has taken over the session with this id."""
    saved_without: Callable[[Session], Awaitable[None]] = _at_once
    """Wait until the room that the session has just left is saved without it."""
    end_saved: Callable[[Session], Callable[[], Awaitable[None]] | None] = _nothing
    """The wait until the end of a session is saved; None if the session is not saved at all."""
