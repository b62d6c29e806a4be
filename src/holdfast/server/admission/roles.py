"""Roles that operators grant and revoke while the server runs.

    the roles of a session = those that its authenticator proved + granted − revoked

A change applies to all sessions of the player, present and later ones, whichever way they sign in.
"""

from collections.abc import Callable, Iterable

from holdfast.core.errors import Invalid, Throttled
from holdfast.core.records import Unreadable, decode_role, encode
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import Session
from holdfast.identity.port import ROLE_CHARS_MAX, ROLES_MAX, are_roles
from holdfast.logs import get_logger
from holdfast.schemas.events import RoleGranted, RoleRevoked
from holdfast.schemas.player import AGENT_PREFIX
from holdfast.schemas.projection import project
from holdfast.schemas.role import RoleInfo, RolePage, RoleRecord
from holdfast.server.admission.access_records import AccessRecords
from holdfast.server.admission.bans import check_player_id, key_for
from holdfast.server.context import Context, page_of

log = get_logger("holdfast.server")


class Roles:
    """The roles of players, as far as operators changed them; `apply` sets those of a session."""

    def __init__(self, context: Context, records: AccessRecords, sessions: SessionRegistry) -> None:
        self._limits = context.limits
        self._publish = context.publish
        self._records = records
        self._sessions = sessions
        self._name = sessions.name_of
        self._changed: dict[str, RoleInfo] = {}
        self.on_change: list[Callable[[Session], None]] = []
        """The roles of a session were set: what depends on them follows."""

    async def load(self) -> None:
        """Load the changes from the store."""
        for entry in await self._records.read("roles"):
            try:
                changes = project(decode_role(entry.value), RoleInfo)
            except Unreadable as error:
                log.error("invalid record ignored", key=entry.key, why=error)  # noqa: TRY400 - the message is enough
            else:
                self._changed[changes.player] = changes

    def of(self, player_id: str, proven: frozenset[str]) -> frozenset[str]:
        """The roles of a player who proved these."""
        changes = self._changed.get(player_id)
        return proven if changes is None else proven.union(changes.granted).difference(changes.revoked)

    def apply(self, session: Session) -> None:
        """Give a session its roles: they were proven, or operators have changed them."""
        session.roles = self.of(session.player_id, session.proven_roles)
        for heard in self.on_change:
            heard(session)

    def changes(self, player_id: str) -> RoleInfo:
        """What operators changed for a player; empty if they changed nothing."""
        return self._changed.get(player_id) or RoleInfo(player_id)

    def page(self, limit: int, cursor: str) -> RolePage:
        """A page of all changes, by player."""
        page, more = page_of(self._changed, limit, cursor)
        return RolePage([self._changed[player_id] for player_id in page], more)

    # Changes take effect at once, and are saved in the background.

    def grant(self, player_id: str, role: str, by: str) -> None:
        """Give a player a role, whatever the authenticator says; `by` names who did it, for the event."""
        before = self._checked(player_id, role)
        if role not in before.granted:
            self._change(player_id, {*before.granted, role}, {*before.revoked} - {role})
            self._publish(RoleGranted(player=player_id, player_name=self._name(player_id), role=role, by=by))

    def revoke(self, player_id: str, role: str, by: str) -> None:
        """Take a role from a player, whatever the authenticator says."""
        before = self._checked(player_id, role)
        if role not in before.revoked:
            self._change(player_id, {*before.granted} - {role}, {*before.revoked, role})
            self._publish(RoleRevoked(player=player_id, player_name=self._name(player_id), role=role, by=by))

    def reset(self, player_id: str, by: str) -> None:
        """Undo all changes: the player has the roles that the authenticator says."""
        check_player_id(player_id)
        before, name = self.changes(player_id), self._name(player_id)
        self._change(player_id, (), ())
        for role in before.granted:
            self._publish(RoleRevoked(player=player_id, player_name=name, role=role, by=by, is_reset=True))
        for role in before.revoked:
            self._publish(RoleGranted(player=player_id, player_name=name, role=role, by=by, is_reset=True))

    def _checked(self, player_id: str, role: str) -> RoleInfo:
        check_player_id(player_id)
        # A path of the HTTP API may contain the role, and in paths "." and ".." are folded away.
        if not are_roles([role]) or role in {".", ".."}:
            raise Invalid(f"role: a word of 1 to {ROLE_CHARS_MAX} printable characters; got {role[:80]!r}")
        before = self.changes(player_id)
        most = self._limits.role_changes_max
        if player_id not in self._changed and len(self._changed) >= most:
            raise Throttled(f"the roles of {most} players are changed, which is the limit: reset those of some")
        if len({*before.granted, *before.revoked, role}) > ROLES_MAX:
            raise Throttled(f"at most {ROLES_MAX} roles of one player can be changed: reset them first")
        return before

    def _change(self, player_id: str, granted: Iterable[str], revoked: Iterable[str]) -> None:
        changes = RoleInfo(player_id, sorted(granted), sorted(revoked))
        is_changed = bool(changes.granted or changes.revoked)
        if is_changed:
            self._changed[player_id] = changes
        elif self._changed.pop(player_id, None) is None:
            return
        stored = encode(project(changes, RoleRecord)) if is_changed else None
        self._records.want(key_for("roles/", player_id), stored, player_id)
        self._apply_all(player_id)

    def heard(self, player_id: str, record: RoleRecord | None) -> None:
        """Another node has changed the roles of a player."""
        changes = project(record, RoleInfo) if record is not None else None
        if changes == self._changed.get(player_id):
            return
        if changes is not None:
            self._changed[player_id] = changes
        else:
            del self._changed[player_id]
        self._apply_all(player_id)

    def players(self) -> list[str]:
        """Those whose roles were changed."""
        return list(self._changed)

    def _apply_all(self, player_id: str) -> None:
        # Agents of different rooms may have the same id: they are not found by it.
        sessions = self._sessions if player_id.startswith(AGENT_PREFIX) else self._sessions.of_player(player_id)
        for session in sessions:
            if session.player_id == player_id:
                self.apply(session)
