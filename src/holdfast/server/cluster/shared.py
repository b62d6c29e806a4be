"""One directory on all nodes: composes what tells of rooms, finds them, and decides who has what."""

from collections.abc import Awaitable, Callable

from holdfast.core.addresses import AddressShares
from holdfast.core.errors import NotFound, Throttled
from holdfast.core.room_listing import spelled
from holdfast.core.session import PlayerId, Session
from holdfast.identity.port import AuthNews
from holdfast.schemas.requests import Join, JoinOrCreate
from holdfast.schemas.room import RoomInfo
from holdfast.schemas.shared import NewsItem, SeatHere
from holdfast.server.admission.access import Access
from holdfast.server.cluster.access_news import AccessNews
from holdfast.server.cluster.asking import Asking, Repeats
from holdfast.server.cluster.claims import StoredClaims
from holdfast.server.cluster.fleet import ClusterFleet
from holdfast.server.cluster.news import News
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.cluster.notices import SharedNotices
from holdfast.server.cluster.placements import SharedPlacements
from holdfast.server.cluster.players import Players
from holdfast.server.cluster.quick_seats import QuickSeats
from holdfast.server.cluster.remote_requests import RemoteRequests
from holdfast.server.cluster.rows import RowListener, RowTeller
from holdfast.server.cluster.sign_ins import SharedSignIns
from holdfast.server.cluster.takeover import Takeover
from holdfast.server.cluster.visitors import Visitors
from holdfast.server.context import Context
from holdfast.server.directory.directory import Directory
from holdfast.server.directory.operations import DirectoryOperations
from holdfast.server.placement import OwnFleet, Placements
from holdfast.server.presence import Presence
from holdfast.server.sessions import Notices, SessionLifecycle
from holdfast.stores.port import Store

_AUTH, _WRONG_CODE = "auth", "wrong_code"


class SharedDirectory:
    """This node's part of it; the requests of players use it as `OtherNodes`."""

    def __init__(  # noqa: PLR0913 - what it needs of the server, all by keyword
        self,
        context: Context,
        node: ClusterNode,
        takeover: Takeover,
        store: Store,
        *,
        rooms: Directory,
        lifecycle: SessionLifecycle,
        access: Access,
        notices: Notices,
        presence: Presence,
        shares: AddressShares,
        grace_s: float,
        find: Callable[[NotFound], Awaitable[str]],
        has_come: Callable[[Session], bool],
    ) -> None:
        """`find` returns the life of the node that has a missing room; `has_come` says whether a session was handed
        over for its present request."""
        self._limits, self._random = limits, random = context.limits, context.random
        self._rooms = rooms
        self._node = node
        self._clock = context.clock
        self._find = find
        self.has_come = has_come
        self.asking = Asking(node, limits)
        self.teller = RowTeller(node, rooms.index, limits)
        self.listener = RowListener(node, rooms.index, limits)
        self.news = News(node, limits)
        self.access = AccessNews(self.news, access, limits, context.faults)
        self.players = Players(node, context.clock, rooms, lifecycle)
        self.claims = StoredClaims(node, self.asking, store, context.clock, limits, rooms=rooms, find=takeover.room)
        self.sign_ins = SharedSignIns(self.asking, self.players, limits, random, lifecycle)
        self.repeats = Repeats(shares, kept_s=limits.activation_s, kept_max=limits.questions_kept_max)
        self.notices = SharedNotices(node, self.asking, limits, notices)
        self.visitors = Visitors(
            node,
            self.asking,
            limits,
            lifecycle=lifecycle,
            presence=presence,
            is_interested=rooms.reserved.is_interested,
            grace_s=grace_s,
        )
        self.remote = RemoteRequests(self.asking, self.visitors, self.repeats, context.clock, limits, find=find)
        self.quick = QuickSeats(
            node,
            self.asking,
            self.players,
            self.repeats,
            clock=context.clock,
            limits=limits,
            random=random,
            rooms=rooms,
            teller=self.teller,
            listener=self.listener,
        )
        self.claims.list_room = self.quick.list_room
        # Of rooms that two nodes have made at once: both may have drawn the same.
        self.listener.on_row.append(lambda remote: rooms.code_is_used(remote.row.code, remote.info))
        rooms.claims = self.claims
        rooms.names.is_code_elsewhere = lambda code: rooms.index.remote.of_code(spelled(code)) is not None

    def fleet(self, own: OwnFleet) -> ClusterFleet:
        """The nodes among which placements choose."""
        return ClusterFleet(self._node, self.asking, own, self.repeats, self._limits, self._random)

    def placements(self, own: Placements) -> SharedPlacements:
        """The placements of the other nodes."""
        return SharedPlacements(self._node, self.asking, own, self._limits)

    def share(self, auth_news: AuthNews) -> None:
        """Let the authenticators of all nodes hear each other."""
        auth_news.send = lambda name, body: self.news.tell(_AUTH, NewsItem(name, body))
        self.news.hear(_AUTH, NewsItem, lambda item: auth_news.heard(item.name, item.body))

    def share_guesses(self, operations: DirectoryOperations) -> None:
        """Count wrong guesses of codes on all nodes. Those of a room's password are made on its node."""
        now = self._clock.now
        operations.on_wrong_code = lambda address: self.news.tell(_WRONG_CODE, address)
        self.news.hear(_WRONG_CODE, str, lambda address: operations.guesses.heard_wrong_code(address, now()))

    async def start(self) -> None:
        """Hear of the rooms of the other nodes. The bus is open already."""
        await self.listener.start()
        await self.news.start()

    def begin(self) -> None:
        """This node writes from now on."""
        self.claims.start()

    def stop(self) -> None:
        self.repeats.stop()
        self.notices.stop()
        self.visitors.stop()
        self.quick.stop()
        self.access.stop()
        self.news.stop()
        self.claims.stop()
        self.players.stop()
        self.teller.stop()
        self.listener.stop()

    # `OtherNodes`

    async def seats(self, player_id: PlayerId) -> list[SeatHere]:
        elsewhere = await self.players.elsewhere(player_id, seats=True)
        if elsewhere.missing:
            names = ", ".join(self._node.name_of(life) for life in elsewhere.missing)
            raise Throttled(f"a node of the cluster does not answer ({names}); try again in a moment")
        return elsewhere.seats

    async def own_seat(self, player_id: PlayerId, kind: str) -> str:
        return await self.quick.own(player_id, kind)

    async def find_seat(self, session: Session, request: JoinOrCreate) -> str:
        return await self.quick.find(session, request)

    async def show(self, player_id: PlayerId, room_id: str) -> RoomInfo | None:
        remote = self._rooms.index.remote.get(room_id)
        return remote.shown(sees_code=remote.knows(player_id)) if remote is not None else None

    async def has_code(self, code: str) -> bool:
        if self._rooms.index.remote.of_code(spelled(code)) is not None:
            return True
        try:
            await self._find(NotFound(room_code=code))
        except NotFound:
            return False
        return True

    async def enter(self, session: Session, request: Join, missing: NotFound) -> None:
        # This is the request that is being carried out.
        await self.remote.ask(session, session.last_request + 1, "enter", request, missing)
