"""Roles that operators granted and revoked, as data: the same fields in an answer and in the store."""

from msgspec import Struct


class RoleInfo(Struct, frozen=True, omit_defaults=True):
    """How operators changed the roles of a player, whatever the authenticator says of them."""

    player: str
    granted: list[str] = []
    """Roles that the player has in any case."""
    revoked: list[str] = []
    """Roles that the player never has."""


class RoleRecord(RoleInfo, frozen=True, array_like=True):
    """The same as it is saved."""


class RolePage(Struct, frozen=True, omit_defaults=True):
    """One page of them, by player; the cursor fetches the next page, and is empty on the last."""

    roles: list[RoleInfo]
    cursor: str = ""
