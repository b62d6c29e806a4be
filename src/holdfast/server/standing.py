"""Who is welcome: bans of players and of addresses, and since when a player's credentials count."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.core.infos import BanInfo
from holdfast.identity.port import Identity, NotAuthentic

if TYPE_CHECKING:
    from holdfast.server.node import Node


def ban_message(ban: BanInfo) -> str:
    """What somebody who is banned is told."""
    until = f" until {datetime.fromtimestamp(ban.until, UTC):%Y-%m-%d %H:%M} UTC" if ban.until else ""
    return f"banned{until}: {ban.why}" if ban.why else f"banned{until}"


class Standing:
    """What is held against players and addresses; kept in the store, if there is one."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    def ban_of(self, player_id: str, address: str) -> BanInfo | None:
        """The ban that keeps a player or an address out; None if they are welcome."""
        return None

    def check(self, identity: Identity) -> None:
        """Refuse a credential that was issued before its player was signed out everywhere: `NotAuthentic`."""
        if identity.issued_at is not None and identity.issued_at < self.not_before(identity.player_id):
            raise NotAuthentic("this credential was issued before you were signed out everywhere; get a new one")

    def not_before(self, player_id: str) -> float:
        """Credentials of the player that were issued before this do not count."""
        return 0.0
