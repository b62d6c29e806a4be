"""Roles: what a player may do beyond others. They are proven with the identity, and belong to the session."""

from collections.abc import Collection

from holdfast.core.errors import NotAllowed


def check_role(needed: str, roles: Collection[str], what: str) -> None:
    """Refuse a player without the needed role; an empty one is everybody's."""
    if needed and needed not in roles:
        raise NotAllowed(f"{what} requires the role {needed!r}")
