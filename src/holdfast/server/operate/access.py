"""The half of a node's operator that decides who is welcome."""

from typing import TYPE_CHECKING

from holdfast.schemas.ban import BanInfo, BanPage
from holdfast.schemas.requests import Ban

if TYPE_CHECKING:
    from holdfast.server.node import Node


class AccessOperator:
    """See `holdfast.http.port.Backend`: bans and sign-outs."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    def list_bans(self, *, limit: int, cursor: str) -> BanPage:
        """Who is kept out, by subject."""
        return self._node.access.ban_page(limit, cursor)

    async def ban(self, request: Ban) -> BanInfo:
        """Keep a player or a range of addresses out, and end their sessions: at once, and also after a crash."""
        return await self._node.access.ban(request)

    async def unban(self, subject: str) -> None:
        """Lift a ban."""
        await self._node.access.unban(subject)

    async def sign_out(self, player_id: str, why: str) -> None:
        """End all sessions of a player, and let credentials count that are issued from now on."""
        await self._node.access.sign_out(player_id, why)
