"""Accounts and tickets as data."""

from msgspec import Struct

from holdfast.schemas.frames import HidesSecrets


class AccountInfo(Struct, frozen=True, omit_defaults=True):
    """An account with a name and a password."""

    name: str
    """As it is compared: in lower case."""
    player: str = ""
    """The player who signs in with it; empty until it is first used."""
    roles: list[str] = []
    created_at: float = 0.0


class TicketInfo(HidesSecrets, Struct, frozen=True, omit_defaults=True):
    """A ticket, to be handed to its player: its bearer signs in with it, once."""

    shown = ("player", "expires_at")
    ticket: str
    player: str
    expires_at: float


class LinkInfo(HidesSecrets, Struct, frozen=True, omit_defaults=True):
    """The answer to a guest who was linked to an account."""

    shown = ("player", "roles")
    player: str
    """The same as before."""
    roles: list[str] = []
    token: str = ""
    """The secret for the next resume; empty if a welcome has brought a newer one. Store it, then confirm."""
