"""What operators see of all nodes of a cluster at once: each node answers for itself, and the answers are merged.

A node that does not answer in time is named: what is missing is never left out silently.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.cluster.membership import MemberState
from holdfast.cluster.questions import Questions
from holdfast.core.errors import NotFound
from holdfast.core.limits import Limits
from holdfast.schemas.cluster import Broadcast, PlayersWanted, SessionsWanted
from holdfast.schemas.node import NodeBroadcastInfo
from holdfast.schemas.player import PlayerInfo, PlayerPage
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Search
from holdfast.schemas.room import RoomInfo, RoomOnNode, RoomsFound
from holdfast.schemas.session import SessionPage
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.context import Context
from holdfast.server.operate.rooms import RoomOperations
from holdfast.server.operate.sessions import PlayerOperations, SessionOperations

T = TypeVar("T")
Row = TypeVar("Row")

_SESSIONS, _PLAYERS, _PLAYER, _BROADCAST = "list_sessions", "list_players", "player", "broadcast"


class Everywhere:
    """Lists and messages that are about all nodes. Without a cluster, there is one."""

    def __init__(
        self,
        context: Context,
        node: ClusterNode | None,
        name: str,
        *,
        rooms: RoomOperations,
        sessions: SessionOperations,
        players: PlayerOperations,
    ) -> None:
        self._limits: Limits = context.limits
        self._node = node
        self.name = name
        """What this node is called among the others; empty without a cluster."""
        self._rooms = rooms
        self._sessions = sessions
        self._players = players
        if node is not None:
            self._answer(node.questions)

    def _answer(self, questions: Questions) -> None:
        questions.answer(_SESSIONS, SessionsWanted, self._sessions_here)
        questions.answer(_PLAYERS, PlayersWanted, self._players_here)
        questions.answer(_PLAYER, str, self._players.look)
        questions.answer(_BROADCAST, Broadcast, self._broadcast_here)

    # Lists

    async def sessions(self, wanted: SessionsWanted) -> SessionPage:
        """The sessions of all nodes that match, in the order of their ids."""
        pages, missing = await self._ask(_SESSIONS, wanted, SessionPage, self._sessions_here(wanted))
        rows, cursor = _merged([(page.sessions, page.cursor) for page in pages], wanted.limit)
        return SessionPage(rows, cursor, missing)

    def _sessions_here(self, wanted: SessionsWanted) -> SessionPage:
        return self._sessions.list(
            player=wanted.player,
            status=wanted.status,
            search=wanted.search,
            limit=wanted.limit,
            cursor=wanted.cursor,
        )

    async def players(self, wanted: PlayersWanted) -> PlayerPage:
        """The players on all nodes; one who is on several is listed once."""
        pages, missing = await self._ask(_PLAYERS, wanted, PlayerPage, self._players_here(wanted))
        rows, cursor = _merged([(page.players, page.cursor) for page in pages], wanted.limit, _one_player)
        return PlayerPage(rows, cursor, missing)

    def _players_here(self, wanted: PlayersWanted) -> PlayerPage:
        return self._players.list(search=wanted.search, limit=wanted.limit, cursor=wanted.cursor)

    async def player(self, player_id: str) -> PlayerInfo:
        """What all nodes have of a player."""
        found, missing = await self._ask(_PLAYER, player_id, PlayerInfo, self._players.look(player_id))
        player = replace(_one_player(found), missing=missing)
        if not (player.sessions or player.rooms or player.granted or player.revoked):
            unsure = f"; {', '.join(missing)} did not answer" if missing else ""
            raise NotFound(f"player {player_id!r} has no session, seat or reservation{unsure}")
        return player

    async def rooms(self, request: Search) -> RoomsFound:
        """The rooms of all nodes that match, as this node lists them; those of a silent node may have changed."""
        page = await self._rooms.search(request)
        return RoomsFound([self.placed(each) for each in page.rooms], page.cursor, page.hint, self._silent)

    @property
    def _silent(self) -> list[str]:
        members = self._node.watch.membership.members if self._node is not None else {}
        return sorted(each.beat.name or life for life, each in members.items() if each.state is MemberState.SUSPECT)

    def placed(self, room: RoomInfo) -> RoomOnNode:
        """A room as operators see it."""
        life = self._rooms.life_of(room.id)
        return project(
            room, RoomOnNode, node=self._node.name_of(life) if self._node is not None and life else self.name
        )

    # To everybody

    async def broadcast(
        self, *, text: str, message_type: str, body: Mapping[str, Any] | None, role: str, kind: str, by: str
    ) -> NodeBroadcastInfo:
        """Send a text or a message to all sessions of all nodes, or to those with a role or in a kind of room."""
        wanted = Broadcast(text, message_type, msgspec.msgpack.encode(body or {}), role, kind, by)
        # Here first: what is wrong with it is raised before anybody is told.
        sent, missing = await self._ask(_BROADCAST, wanted, int, self._broadcast_here(wanted))
        return NodeBroadcastInfo(sum(sent), missing)

    def _broadcast_here(self, wanted: Broadcast) -> int:
        return self._sessions.broadcast(
            text=wanted.text,
            message_type=wanted.type,
            body=msgspec.msgpack.decode(wanted.body, type=dict[str, Any]),
            role=wanted.role,
            kind=wanted.kind,
            by=wanted.by,
        )

    async def _ask(self, question: str, body: Any, kind: type[T], own: T) -> tuple[list[T], list[str]]:
        """The answers of all nodes, this one's first, and the names of those that did not answer."""
        if self._node is None:
            return [own], []
        replies = await self._node.questions.ask_all(question, body, kind, self._limits.operator_answer_s)
        return [own, *replies.by_life.values()], sorted(map(self._node.name_of, replies.missing))


def _merged(
    pages: Sequence[tuple[Sequence[Row], str]], limit: int, one: Callable[[Sequence[Row]], Row] | None = None
) -> tuple[list[Row], str]:
    """One page of several, by id, and its cursor; `one` joins rows with the same id, of which otherwise one stays."""
    ends = [cursor for _, cursor in pages if cursor]
    by_id: dict[str, list[Row]] = {}
    for rows, _ in pages:
        for row in rows:
            row_id: str = _id(row)
            # A node that has more says nothing of what comes after its page.
            if not ends or row_id <= min(ends):
                by_id.setdefault(row_id, []).append(row)
    ids = sorted(by_id)
    page = [one(by_id[each]) if one is not None else by_id[each][0] for each in ids[:limit]]
    has_more = bool(ends) or len(ids) > limit
    return page, ids[:limit][-1] if has_more and ids else ""


_id = attrgetter("id")


def _one_player(found: Sequence[PlayerInfo]) -> PlayerInfo:
    """What several nodes know of one player."""
    first = found[0]
    if len(found) == 1:
        return first

    def together(lists: Iterable[list[str]]) -> list[str]:
        return list(dict.fromkeys(each for some in lists for each in some))

    return replace(
        first,
        sessions=together(each.sessions for each in found),
        rooms=together(each.rooms for each in found),
        account=next((each.account for each in found if each.account), ""),
        roles=sorted({role for each in found for role in each.roles}),
        granted=sorted({role for each in found for role in each.granted}),
        revoked=sorted({role for each in found for role in each.revoked}),
        name=next((each.name for each in found if each.name), ""),
        nodes=together(each.nodes for each in found),
    )
