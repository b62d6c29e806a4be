"""Limits on connections before they have signed in.

Everything is counted by address (an IPv6 network of 64 bits is one). A connection costs its address one of its hellos;
a resume with a good token gives it back, so that hundreds of players behind one address can return at once. Connections
of an address that has no hello left, or too many failures, are read late: trying again and again costs the peer time
and the server little. Refused clients are told when to return, each at a different time.
"""

from collections.abc import Callable
from functools import partial

from holdfast.core.addresses import AddressQuota, AddressShares, address_group, share_of
from holdfast.core.connection import Connection
from holdfast.core.rates import AddressTable, AdmissionRate
from holdfast.core.reasons import Reason
from holdfast.core.session import Session
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Context


class ConnectionLimiter:
    """Counts unauthenticated connections, hellos and failures, by address and in total; spreads reconnect storms over
    time."""

    def __init__(
        self,
        context: Context,
        shares: AddressShares,
        *,
        open_count: Callable[[], int],
        pause: Callable[[LiveConnection, float], None],
    ) -> None:
        """`open_count` is how many connections are open; `pause` stops reading one for a while."""
        self._now = context.clock.now
        self._limits = limits = context.limits
        self._counters = context.counters
        self._alarms = context.alarms
        self._shares = shares
        self._open_count = open_count
        self._pause = pause
        self._addresses = AddressTable(limits)
        self._rate = AdmissionRate(limits)
        # Unauthenticated connections, each with its address and whether that was charged a hello.
        self._unauthenticated: dict[LiveConnection, tuple[str, bool]] = {}
        self._quota: AddressQuota[LiveConnection] = AddressQuota(shares)
        self._refused: set[LiveConnection] = set()

    def turned_away(self, limit: str, address: str) -> None:
        """A listener rejected a connection before it was open; `limit` is empty if its data was invalid."""
        self._counters.connections_refused += 1
        if limit:
            self._alarms.report(limit, "refused", address=address)

    def admit(self, connection: LiveConnection) -> bool:
        """Whether a new connection may stay; if not, it is told why and closed."""
        limits = self._limits
        now = self._now()
        name = address_group(connection.address)
        activity = self._addresses.activity(name)
        if self._open_count() >= limits.connections_max:
            wait_s = limits.hello_s + self._rate.refused_retry_s(now)
            self._refuse(connection, "connections_max", Reason.BUSY, wait_s)
            return False
        if self._quota.is_full(connection.address, limits.connections_max):
            self._refuse(connection, "address_share", Reason.THROTTLED, activity.retry_after_s(now))
            return False
        if self._addresses.unauthenticated >= limits.unauthenticated_max:
            self._refuse(connection, "unauthenticated_max", Reason.BUSY, self._rate.refused_retry_s(now))
            return False
        if activity.unauthenticated >= limits.unauthenticated_per_address_max:
            self._refuse(connection, "unauthenticated_per_address_max", Reason.THROTTLED, activity.retry_after_s(now))
            return False
        self._quota.take(connection, connection.address)
        self._addresses.came(name)
        has_paid = activity.hellos.take(now)
        self._unauthenticated[connection] = (name, has_paid)
        if not has_paid or activity.blocked_s(now):
            self._pause(connection, limits.hello_delay_s)
        return True

    def _refuse(self, connection: LiveConnection, limit: str, reason: Reason, wait_s: float) -> None:
        self._counters.connections_refused += 1
        self._alarms.report(limit, "refused", address=connection.address)
        if len(self._refused) < self._limits.unauthenticated_max:
            self._refused.add(connection)
            connection.close(reason, "too many connections at once; come back later", retry_after_s=wait_s)
        else:
            # Even a refusal takes a while, and the file descriptors are needed.
            connection.cut(reason)

    def wait_s(self, connection: LiveConnection, *, is_resume: bool) -> float:
        """How long the sender of a hello has to wait before it is processed; 0 if it is processed at once."""
        now = self._now()
        if is_resume:
            limit, wait_s = "resumes_per_s", self._rate.resume_s(now)
        else:
            limit, wait_s = self._sign_in_wait(connection, now)
        if wait_s:
            self._counters.hellos_throttled += 1
            self._alarms.report(limit, "refused", address=connection.address)
        return wait_s

    def _sign_in_wait(self, connection: LiveConnection, now: float) -> tuple[str, float]:
        name, has_paid = self._unauthenticated[connection]
        activity = self._addresses.activity(name)
        blocked_s = activity.blocked_s(now)
        if blocked_s:
            return "failures_per_address_per_s", blocked_s + activity.retry_after_s(now)
        if not has_paid:
            return "hellos_per_address_per_s", activity.retry_after_s(now)
        most, part = self._limits.connections_max, self._limits.resume_reserve
        if self._open_count() > most - int(most * part):
            return "connections_max", self._limits.hello_s + self._rate.refused_retry_s(now)
        share = share_of(most, self._shares.share)
        if self._quota.count(connection.address) > share - int(share * part):
            return "address_share", activity.retry_after_s(now)
        return "sign_ins_per_s", self._rate.sign_in_s(now)

    def not_resumed(self) -> None:
        """A resume was admitted, and there was no session to resume: return its slot to those that have one."""
        self._rate.not_resumed()

    def failed(self, connection: Connection) -> None:
        """A credential was wrong, or the client flooded the node."""
        activity = self._addresses.activity(address_group(connection.address))
        activity.failed(self._now())
        if activity.blocked_s(self._now()):
            self._alarms.report("failures_per_address_burst", "refused", address=connection.address)

    def known(self, connection: LiveConnection, *, is_resumed: bool) -> None:
        """A connection has signed in. A resume with a valid token costs the address nothing."""
        entry = self._unauthenticated.pop(connection, None)
        if entry is not None:
            name, has_paid = entry
            self._addresses.went(name)
            if is_resumed and has_paid:
                self._addresses.activity(name).hellos.give_back()

    def relayed(self, connection: LiveConnection) -> Callable[[], None]:
        """The session of a hello is on another node, which counts its client from now on. Returns what is to be called
        once that node must have accepted it: until then the hello costs the address as much as any."""
        name, has_paid = self._unauthenticated.get(connection, ("", False))
        self.known(connection, is_resumed=False)
        return partial(self._was_resumed, connection, name) if has_paid else _nothing

    def _was_resumed(self, connection: LiveConnection, name: str) -> None:
        if connection.is_open:
            self._addresses.activity(name).hellos.give_back()

    def lost(self, connection: LiveConnection) -> None:
        self._quota.give_back(connection)

    def unlinked(self, connection: LiveConnection) -> None:
        self._refused.discard(connection)
        entry = self._unauthenticated.pop(connection, None)
        if entry is not None:
            self._addresses.went(entry[0])

    # Linking of accounts

    def may_guess(self, session: Session) -> bool:
        """Whether a client at this session's address may try another credential."""
        return not self._addresses.activity(address_group(session.address)).guesses.wait_s(self._now())

    def guessed_wrong(self, session: Session) -> None:
        """The credential was wrong."""
        self._addresses.activity(address_group(session.address)).guesses.take(self._now())


def _nothing() -> None:
    """The hello was over the limit already."""
