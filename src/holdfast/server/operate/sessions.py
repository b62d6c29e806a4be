"""Sessions, players and accounts as operators see them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import chain
from typing import Any, TypeVar

from holdfast.core.errors import Invalid, NotFound, Throttled
from holdfast.core.messages import Announcement
from holdfast.core.names import skeleton
from holdfast.core.rates import Bucket, Rate
from holdfast.core.reasons import Reason
from holdfast.core.records import describe_session
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import Session, is_agent
from holdfast.identity.password import Password
from holdfast.identity.port import Authenticator, Busy
from holdfast.identity.tickets import Tickets
from holdfast.schemas.account import AccountInfo, TicketInfo
from holdfast.schemas.frames import sentence
from holdfast.schemas.player import PlayerInfo, PlayerPage
from holdfast.schemas.projection import project
from holdfast.schemas.role import RolePage
from holdfast.schemas.session import SessionInfo, SessionPage
from holdfast.server.admission.access import Access
from holdfast.server.admission.sign_in import store_busy
from holdfast.server.context import Context, page_of
from holdfast.server.directory.directory import Directory
from holdfast.server.operate.rooms import until_saved, untyped_message
from holdfast.server.session_messages import SessionMessages
from holdfast.server.sessions import SessionLifecycle, StoredSessions
from holdfast.stores.port import StoreError

T = TypeVar("T")


class SessionOperations:
    """The sessions of one node."""

    def __init__(
        self,
        context: Context,
        lifecycle: SessionLifecycle,
        stored: StoredSessions,
        *,
        saved_end: Callable[[Session], Awaitable[None] | None],
        messages: SessionMessages,
        node: str,
    ) -> None:
        """`saved_end` returns the wait until an end is saved, if it is saved at all; `node` is the name of this node of
        a cluster."""
        self._now = context.clock.now
        self._limits = context.limits
        self._lifecycle = lifecycle
        self._registry = lifecycle.registry
        self._stored = stored
        self._saved_end = saved_end
        self._messages = messages
        self._node = node
        self._broadcasts = Bucket(Rate(self._limits.broadcasts_burst, self._limits.broadcasts_per_s))

    def list(self, *, player: str = "", status: str = "", search: str = "", limit: int, cursor: str) -> SessionPage:
        """The sessions that match all filters, in the order of their ids; `search` matches a part of an id or name."""
        sessions: Iterable[Session] = self._registry.of_player(player) if player else self._registry
        if status:
            sessions = (each for each in sessions if each.state.value == status)
        if search:
            sessions = (each for each in sessions if _matches(each, search))
        page, more = page_of((each.id for each in sessions), limit, cursor)
        found = [session for each in page if (session := self._registry.get(each)) is not None]
        return SessionPage([self._info(session) for session in found], more)

    def get(self, session_id: str) -> SessionInfo:
        return self._info(self._find(session_id))

    async def end(self, session_id: str, reason: str) -> None:
        """End a session for good: its token stays invalid after a crash."""
        session = self._find(session_id)
        self._lifecycle.end_session(session, Reason.KICKED, reason)
        saved = self._saved_end(session)
        if saved is not None:
            await until_saved(saved, self._limits)

    def drop(self, session_id: str, reason: str) -> None:
        """Close a session's connection; the player may return."""
        session = self._registry.get(session_id)
        if session is None:
            raise NotFound(f"there is no session {session_id!r}; it may have ended")
        session.disconnect(reason or "an operator closed this connection")

    def limit(self, session_id: str, /, **limits: float | None) -> SessionInfo:
        """Change limits of a session alone, at once; None undoes a change. The names are those of `RoleLimits`."""
        session = self._find(session_id)
        try:
            session.limit(**limits)
        except (TypeError, ValueError) as error:
            raise Invalid(str(error)) from None
        return self._info(session)

    def broadcast(
        self,
        *,
        text: str = "",
        message_type: str = "",
        body: Mapping[str, Any] | None = None,
        role: str,
        kind: str,
        by: str = "",
    ) -> int:
        """Send a text or a message to all sessions, or to those with a role or in a kind of room; returns how many they
        are. `by` names who did it, for the event."""
        if bool(text.strip()) is bool(message_type):
            raise Invalid("give either a text, or the type of a message and its body")
        if body and not message_type:
            raise Invalid("body: a text has none; give the type of a message")
        message = untyped_message(message_type, body or {}) if message_type else Announcement(sentence(text))
        wait_s = self._broadcasts.wait_s(self._now())
        if wait_s > 0:
            raise Throttled(f"too many broadcasts: try again in {wait_s:.1f} s")
        sent = self._messages.broadcast(message, role=role, kind=kind, by=by)
        self._broadcasts.take(self._now())
        return sent

    def _find(self, session_id: str) -> Session:
        self._stored.restore(session_id)
        session = self._registry.get(session_id)
        if session is None:
            raise NotFound(f"there is no session {session_id!r}; it may have ended")
        return session

    def _info(self, session: Session) -> SessionInfo:
        return project(describe_session(session, self._now()), SessionInfo, node=self._node)


def _matches(session: Session, search: str) -> bool:
    if any(search in text for text in (session.id, session.player_id, session.room_id)):
        return True
    return is_in_name(search, session.name)


def is_in_name(search: str, name: str) -> bool:
    """Whether somebody who looks for a player means this one: in any case, and with letters that look alike."""
    return bool(name) and (search.casefold() in name.casefold() or skeleton(search) in skeleton(name))


class PlayerOperations:
    """The players of one node: everybody with a session, a seat or a reservation."""

    def __init__(self, sessions: SessionRegistry, directory: Directory, access: Access, node: str) -> None:
        """`node` is the name of this node of a cluster."""
        self._sessions = sessions
        self._node = node
        self._directory = directory
        self._access = access

    def list(self, *, search: str = "", limit: int, cursor: str) -> PlayerPage:
        """The players with `search` in their id or name, in the order of their ids."""
        with_session = (
            session.player_id
            for session in self._sessions
            # Not the agents of rooms: every room may have a "bot".
            if (session.seat is None or not session.seat.agent)
            and (search in session.player_id or is_in_name(search, session.name))
        )
        found = (each for each in self._directory.players() if search in each)
        page, more = page_of(chain(with_session, found), limit, cursor)
        return PlayerPage([self.look(each) for each in page], more)

    def look(self, player_id: str) -> PlayerInfo:
        """What this node has of a player, who may be unknown."""
        sessions, changes = self._sessions.of_player(player_id), self._access.roles.changes(player_id)
        rooms = [runner.room.id for runner in self._directory.rooms_of(player_id)]
        return PlayerInfo(
            id=player_id,
            sessions=[str(session.id) for session in sessions],
            rooms=rooms,
            account=next((session.account for session in sessions if session.account), ""),
            roles=sorted({role for session in sessions for role in session.roles}),
            granted=changes.granted,
            revoked=changes.revoked,
            name=self._directory.name_of(player_id),
            is_agent=is_agent(player_id),
            nodes=[self._node] if self._node and (sessions or rooms) else [],
        )

    # Roles. Each takes effect at once, also for players who are away, and returns once it is saved. `by` names who did
    # it, for the event.

    async def grant(self, player_id: str, role: str, *, by: str = "") -> PlayerInfo:
        """Give a player a role, whatever their authenticator says."""
        await self._access.grant(player_id, role, by=by)
        return self.look(player_id)

    async def revoke(self, player_id: str, role: str, *, by: str = "") -> PlayerInfo:
        """Take a role from a player, whatever their authenticator says."""
        await self._access.revoke(player_id, role, by=by)
        return self.look(player_id)

    async def reset_roles(self, player_id: str, *, by: str = "") -> PlayerInfo:
        """Undo what was granted and revoked: the player has the roles that their authenticator says."""
        await self._access.reset_roles(player_id, by=by)
        return self.look(player_id)

    def roles(self, *, limit: int, cursor: str) -> RolePage:
        """The players whose roles were changed, in the order of their ids."""
        return self._access.roles.page(limit, cursor)


class AccountOperations:
    """The accounts and tickets of one node's authenticators."""

    def __init__(
        self, authenticators: Mapping[str, Authenticator], sign_out: Callable[[str, str], Awaitable[None]]
    ) -> None:
        self._authenticators = authenticators
        self._sign_out_player = sign_out

    async def create(self, name: str, password: str, *, player: str, roles: Iterable[str]) -> AccountInfo:
        return await _unless_busy(self._accounts().create_account(name, password, player_id=player, roles=roles))

    async def get(self, name: str) -> AccountInfo:
        return await _unless_busy(self._accounts().get_account(name))

    async def set_password(self, name: str, password: str) -> None:
        """Change an account's password, and sign its player out."""
        account = await _unless_busy(self._accounts().set_password(name, password))
        await self._sign_out(account, "the password was changed; sign in again")

    async def delete(self, name: str) -> None:
        """Delete an account, and sign its player out."""
        account = await _unless_busy(self._accounts().delete_account(name))
        await self._sign_out(account, "this account was deleted")

    async def _sign_out(self, account: AccountInfo, why: str) -> None:
        if account.player:
            await self._sign_out_player(account.player, why)

    def issue_ticket(self, player: str, *, roles: Iterable[str], ttl_s: float | None) -> TicketInfo:
        """Issue a ticket with which a player signs in once."""
        for each in self._authenticators.values():
            if isinstance(each, Tickets):
                return each.issue_ticket(player, roles=roles, ttl_s=ttl_s)
        raise NotFound("this server does not accept tickets: enable them with Server(auth=[Tickets(), …])")

    def _accounts(self) -> Password:
        for each in self._authenticators.values():
            if isinstance(each, Password):
                return each
        raise NotFound("this server has no accounts: enable them with Server(auth=[Password(), …])")


async def _unless_busy(work: Awaitable[T]) -> T:
    try:
        return await work
    except Busy as error:
        raise Throttled(str(error)) from None
    except StoreError as error:
        raise Throttled(str(store_busy(error))) from None
