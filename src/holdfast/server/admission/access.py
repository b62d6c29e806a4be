"""Bans, sign-outs and roles: which players and addresses may enter, which sessions and credentials are still valid, and
which roles operators have changed.

Sign-outs are numbered, and a session stores the number of the last one before its start: that alone decides whether a
later sign-out has ended it, whatever the clock did, and even if its record outlived its end in a crash. A ban of a
player counts as a sign-out, so that none of their sessions becomes valid again when the ban ends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from holdfast.core.addresses import Range, read_address
from holdfast.core.connection import Connection
from holdfast.core.errors import Invalid, Throttled
from holdfast.core.reasons import Reason
from holdfast.core.records import Unreadable, decode_ban, decode_role, decode_standing, encode
from holdfast.core.session import Session
from holdfast.identity.port import Identity, NotAuthentic
from holdfast.logs import get_logger
from holdfast.schemas.ban import BanInfo
from holdfast.schemas.requests import Ban
from holdfast.schemas.session import StandingRecord
from holdfast.schemas.shared import AccessChanged
from holdfast.server.admission.access_records import AccessRecords
from holdfast.server.admission.bans import Bans, ban_message, banned_range, check_player_id, key_for
from holdfast.server.admission.roles import Roles
from holdfast.server.context import Context
from holdfast.server.sessions import SessionLifecycle, StoredSessions
from holdfast.stores.port import ABSENT, Broken, Entry, Store

log = get_logger("holdfast.server")

_Wait = Callable[[], Awaitable[None]]

_EVERYBODY = ""
_SIGNED_OUT = "signed out everywhere"
# Sessions that a ban of addresses checks together.
_SESSIONS_AT_ONCE = 500


class Access:
    """Bans, sign-outs and roles; saved in the store, if there is one."""

    def __init__(
        self,
        context: Context,
        store: Store | None,
        *,
        lifecycle: SessionLifecycle,
        stored: StoredSessions,
        unauthenticated: Callable[[], Iterable[Connection]],
        fatal: Callable[[Broken], None],
    ) -> None:
        """`unauthenticated` returns the connections before sign-in; `fatal` is called when the store is broken."""
        self._clock = context.clock
        self._limits = context.limits
        self._lifecycle = lifecycle
        self._stored = stored
        self._unauthenticated = unauthenticated
        self.records = self._records = AccessRecords(context, store, fatal)
        self.bans = Bans(context, self._records)
        self.roles = Roles(context, self._records, lifecycle.registry)
        # By player, oldest sign-out first.
        self._signed_out: dict[str, StandingRecord] = {}
        self._everybody = StandingRecord(_EVERYBODY, 0, 0.0)
        self.sign_outs = 0

    async def load(self) -> None:
        """Load the records of the store, before anybody can enter."""
        await self.bans.load()
        await self.roles.load()
        found: list[StandingRecord] = []
        for entry in await self._records.read("standing"):
            try:
                found.append(decode_standing(entry.value))
            except Unreadable as error:
                log.error("invalid record ignored", key=entry.key, why=error)  # noqa: TRY400 - the message is enough
        for access in sorted(found, key=lambda each: each.sign_out):
            self.sign_outs = max(self.sign_outs, access.sign_out)
            if access.player == _EVERYBODY:
                self._everybody = access
            else:
                self._signed_out[access.player] = access

    async def stop(self, within_s: float) -> None:
        """Save what is in force, as far as time allows."""
        self.bans.stop()
        await self._records.stop(within_s)

    # Checks

    def check(self, identity: Identity, began: int) -> None:
        """Refuse a credential that was issued before its player was signed out everywhere: `NotAuthentic`.

        Also one whose check began before that (`began` is the number of the last sign-out at that time): the password
        may have been changed since.
        """
        if began < self._sign_out_of(identity.player_id):
            raise NotAuthentic("you were signed out everywhere; sign in again")
        if identity.issued_at is not None and identity.issued_at < self.not_before(identity.player_id):
            raise NotAuthentic("this credential was issued before you were signed out everywhere; get a new one")

    def not_before(self, player_id: str) -> float:
        """Credentials of the player that were issued before this time are invalid."""
        known = self._signed_out.get(player_id, self._everybody)
        return max(known.not_before, self._everybody.not_before)

    def session_restored(self, session: Session) -> None:
        """A session was restored from the store: end it at once if a ban or sign-out applies."""
        # A sign-out that was not saved before a crash may be the last it saw: the next one gets a higher number.
        self.sign_outs = max(self.sign_outs, session.sign_outs)
        ban = self.bans.of(session.player_id, session.address)
        if ban is not None:
            self._lifecycle.end_session(session, Reason.BANNED, ban_message(ban))
        elif session.sign_outs < self._sign_out_of(session.player_id):
            self._lifecycle.end_session(session, Reason.SIGNED_OUT, _SIGNED_OUT)

    def _sign_out_of(self, player_id: str) -> int:
        known = self._signed_out.get(player_id)
        return known.sign_out if known is not None else 0

    # Bans

    async def ban(self, request: Ban) -> BanInfo:
        """Ban a player or a range of addresses, and end their sessions."""
        ban = self.bans.put(request)
        ended: list[_Wait] = []
        if request.player:
            # Their credentials become valid again when the ban ends.
            self._end_sessions(request.player, self.not_before(request.player), Reason.BANNED, ban_message(ban))
        else:
            ended = await self._end_sessions_from(banned_range(request.address), ban_message(ban))
        await self._saved(*ended)
        return ban

    async def unban(self, subject: str) -> None:
        """Lift a ban, as in "player:ann"; `NotFound` if there is none."""
        self.bans.lift(subject)
        await self._saved()

    # Roles

    async def grant(self, player_id: str, role: str, *, by: str = "") -> None:
        """Give a player a role, in all of their sessions, now and later."""
        self.roles.grant(player_id, role, by)
        await self._saved()

    async def revoke(self, player_id: str, role: str, *, by: str = "") -> None:
        """Take a role from a player, in all of their sessions, now and later."""
        self.roles.revoke(player_id, role, by)
        await self._saved()

    async def reset_roles(self, player_id: str, *, by: str = "") -> None:
        """Undo what was granted to a player and revoked from them."""
        self.roles.reset(player_id, by)
        await self._saved()

    # Sign-outs

    async def sign_out(self, player_id: str, why: str = "") -> None:
        """End all sessions of a player; credentials issued before now become invalid."""
        check_player_id(player_id)
        self._end_sessions(player_id, self._clock.wall_clock(), Reason.SIGNED_OUT, why or _SIGNED_OUT)
        await self._saved()

    def _number(self, player_id: str, not_before: float, why: str) -> None:
        """Number a sign-out: it ends the sessions that began before it."""
        self.sign_outs += 1
        access = StandingRecord(player_id, self.sign_outs, not_before)
        # At the end: it is the newest.
        self._signed_out.pop(player_id, None)
        self._signed_out[player_id] = access
        self._records.want(key_for("standing/", player_id), encode(access), player_id, why)
        while len(self._signed_out) > self._limits.sign_outs_max:
            self._forget(self._signed_out.pop(next(iter(self._signed_out))))

    def _forget(self, oldest: StandingRecord) -> None:
        """Too many are remembered: the limit on one player's credentials now applies to everybody's."""
        self._records.want(key_for("standing/", oldest.player), None)
        if oldest.not_before > self._everybody.not_before:
            self._everybody = StandingRecord(_EVERYBODY, oldest.sign_out, oldest.not_before)
            self._records.want(key_for("standing/", _EVERYBODY), encode(self._everybody))

    # What other nodes of a cluster have done

    async def heard(self, changed: AccessChanged) -> None:
        """Another node has changed a record, or its change was read in the store: the same holds here."""
        if changed.revision == ABSENT and changed.value is not None:
            self._records.unsaved[changed.key] = changed
        else:
            self._records.unsaved.pop(changed.key, None)
        if not self._records.heard(changed.key, changed.revision):
            return
        try:
            match changed.key.partition("/")[0]:
                case "ban":
                    await self._heard_ban(changed.subject, changed.value)
                case "roles":
                    record = decode_role(changed.value) if changed.value is not None else None
                    self.roles.heard(changed.subject, record)
                case "standing" if changed.value is not None:
                    self._heard_sign_out(decode_standing(changed.value), changed.why)
        except (Unreadable, Invalid) as error:
            log.error("invalid record ignored", key=changed.key, why=error)  # noqa: TRY400 - the message is enough

    async def _heard_ban(self, subject: str, value: bytes | None) -> None:
        ban = self.bans.heard(subject, decode_ban(value) if value is not None else None)
        if ban is None:
            return
        kind, _, name = subject.partition(":")
        if kind == "player":
            self._end_sessions_of(name, Reason.BANNED, ban_message(ban))
        else:
            await self._end_sessions_from(banned_range(name), ban_message(ban))

    def _heard_sign_out(self, record: StandingRecord, why: str) -> None:
        self.sign_outs = max(self.sign_outs, record.sign_out)
        if record.player == _EVERYBODY:
            if record.not_before > self._everybody.not_before:
                self._everybody = record
            return
        known = self._signed_out.get(record.player)
        if known is not None and known.sign_out >= record.sign_out:
            return
        self._signed_out.pop(record.player, None)
        self._signed_out[record.player] = record
        if len(self._signed_out) > self._limits.sign_outs_max:
            # The node that signed somebody out forgets the oldest in the store, too.
            del self._signed_out[next(iter(self._signed_out))]
        self._end_sessions_of(record.player, Reason.SIGNED_OUT, why or _SIGNED_OUT)

    async def read_again(self) -> None:
        """Do what other nodes have saved and this one has not heard of; save what a node could only tell before it
        died."""
        # What is heard while the store is read is newer.
        before = {
            key: (subject, self._records.revision_of(key))
            for key, subject in (
                *((key_for("ban/", ban.subject), ban.subject) for ban in self.bans.all()),
                *((key_for("roles/", player_id), player_id) for player_id in self.roles.players()),
            )
            if key not in self._records.unsaved
        }
        entries = [*await self._records.read_again("ban"), *await self._records.read_again("roles")]
        found = {entry.key for entry in entries}
        for entry in [*entries, *await self._records.read_again("standing")]:
            subject = _subject_of(entry)
            if subject is not None:
                await self.heard(AccessChanged(entry.key, subject, entry.value, entry.revision))
        for key, (subject, revision) in before.items():
            if key not in found and revision == self._records.revision_of(key) and not self._records.is_pending(key):
                await self.heard(AccessChanged(key, subject, None, ABSENT))
        for changed in list(self._records.unsaved.values()):
            if changed.value is not None and await self._records.save(changed.key, changed.value, changed.subject):
                self._records.unsaved.pop(changed.key, None)

    # Ending sessions

    def _end_sessions_of(self, player_id: str, reason: Reason, message: str) -> None:
        # Sessions that are only in the store end too, and their seats are freed.
        self._stored.restore_of_player(player_id)
        for session in self._lifecycle.registry.of_player(player_id):
            self._lifecycle.end_session(session, reason, message)

    def _end_sessions(self, player_id: str, not_before: float, reason: Reason, message: str) -> None:
        self._stored.restore_of_player(player_id)
        self._number(player_id, not_before, message if reason is Reason.SIGNED_OUT else "")
        self._end_sessions_of(player_id, reason, message)

    async def _end_sessions_from(self, network: Range, message: str) -> list[_Wait]:
        """Includes disconnected sessions that were last connected from there, and connections that have not signed
        in."""
        ended: list[_Wait] = []
        for number, session in enumerate(self._lifecycle.registry, start=1):
            if number % _SESSIONS_AT_ONCE == 0:
                # Otherwise the event loop would be blocked.
                await asyncio.sleep(0)
            if _is_in(network, session.address):
                end_saved = self._stored.end_saved(session)
                self._lifecycle.end_session(session, Reason.BANNED, message)
                if end_saved is not None:
                    ended.append(end_saved)
        for connection in self._unauthenticated():
            if _is_in(network, connection.address):
                connection.close(Reason.BANNED, message)
        return ended

    async def _saved(self, *ended: _Wait) -> None:
        """Wait until all of it is saved: the records in force, and the ends of these sessions."""
        limits = self._limits
        # A session's end is saved only after its room's present turn.
        within_s = limits.commit_timeout_s + (limits.turn_s if ended else 0.0)
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(self._records.saved(), *(wait() for wait in ended))
        except TimeoutError:
            raise Throttled("it is in force, but the store cannot save it at the moment") from None


def _subject_of(entry: Entry) -> str | None:
    """Whose record this is; None if it cannot be read."""
    try:
        match entry.key.partition("/")[0]:
            case "ban":
                return decode_ban(entry.value).subject
            case "roles":
                return decode_role(entry.value).player
            case _:
                return decode_standing(entry.value).player
    except Unreadable:
        return None


def _is_in(network: Range, address: str) -> bool:
    known = read_address(address)
    return known is not None and known in network
