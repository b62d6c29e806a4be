"""Tickets: short-lived, signed, single-use credentials that a backend issues.

    ticket = base64url(payload) "." base64url(HMAC-SHA256 of the payload)
    payload = MessagePack of [key id, nonce, player, roles, issued at, expires at]

A ticket is verified without a look-up, on any node that has the key. A server alone remembers its use until it expires;
one that has just started refuses tickets issued before its start, because it cannot know which of them were used. The
nodes of a cluster have a record for each use in their store, which only the first of them can create.
"""

import asyncio
import hashlib
import hmac
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from heapq import heappop, heappush

import msgspec
from msgspec import Struct

from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import Invalid
from holdfast.core.tokens import TOKEN_BYTES, printable
from holdfast.identity.port import Approach, AuthContext, Busy, Identity, NotAuthentic, are_roles, is_player_id
from holdfast.schemas.account import TicketInfo
from holdfast.schemas.frames import CREDENTIAL_CHARS_MAX
from holdfast.stores.port import ABSENT, RevisionConflict, StoreError, Unknown, Write

_NONCE_BYTES = 12
_KEY_ID_BYTES = 4
# Nothing else that is signed with the same key can be taken for a ticket.
_PURPOSE = b"holdfast ticket 1\0"
# How far the issuer's clock may be ahead of ours.
_AHEAD_MAX_S = 60.0
# Records of uses are deleted in batches, so often.
_FORGET_S = 10.0
_FORGOTTEN_AT_ONCE = 500
_USES = "ticket"
_INVALID = "this ticket is not valid: it was used, has expired, or was not issued for here; get a new one"


class _Payload(Struct, array_like=True, frozen=True):
    key: bytes
    nonce: bytes
    player: str
    roles: list[str]
    issued_at: float
    expires_at: float


class _Use(Struct, array_like=True, frozen=True):
    """A used ticket, in the store of a cluster."""

    by: bytes
    """Drawn for each use."""
    expires_at: float


_encode = msgspec.msgpack.Encoder().encode
_decode_use = msgspec.msgpack.Decoder(_Use).decode
_decode = msgspec.msgpack.Decoder(_Payload).decode


class Tickets:
    """The authenticator for tickets: `Auth("ticket", ticket)` on the client's side.

    A backend gets them over HTTP (`POST /v1/tickets`), or makes them itself, in a process of its own that has the same
    keys: `Tickets(keys=[secret]).issue("ada")`. The first of `keys` (each at least 32 bytes) signs, the others are
    former ones and still valid; without any, the server's own secret is used. `ttl_s` is how long a ticket is valid.
    """

    scheme = "ticket"

    def __init__(self, keys: bytes | Sequence[bytes] = (), *, ttl_s: float = 30.0) -> None:
        keys = [keys] if isinstance(keys, bytes) else keys
        if any(len(key) < TOKEN_BYTES for key in keys):
            raise ValueError(f"a key for tickets needs at least {TOKEN_BYTES} bytes")
        if not ttl_s > 0:
            raise ValueError(f"ttl_s is more than 0; got {ttl_s}")
        self._own_keys = tuple(keys)
        self._ttl_s = ttl_s
        self._forgetting: asyncio.Task[None] | None = None
        self._use(AuthContext())

    def _use(self, context: AuthContext) -> None:
        if self._ttl_s > context.limits.ticket_max_s:
            raise ValueError(f"ttl_s is at most {context.limits.ticket_max_s:g} (Limits.ticket_max_s)")
        self._context = context
        derived = [hmac.digest(context.secret, _PURPOSE, hashlib.sha256)] if context.secret else []
        self._keys = {_key_id(key): key for key in self._own_keys or derived}
        self._used: set[bytes] = set()
        self._ends: list[tuple[float, bytes]] = []
        self._uses: list[tuple[float, str, int]] = []
        """In a cluster: the records of this node's uses, each with the time when its ticket expires."""
        # Of those that end by then, some were forgotten: the clock may be set back.
        self._forgotten_to = 0.0
        self._started_at, self._started_wall = context.now(), context.wall_clock()

    async def prepare(self, context: AuthContext) -> None:
        if self._forgetting is not None:
            # Of a start that had no end.
            self._forgetting.cancel()
            self._forgetting = None
        self._use(context)
        if context.is_shared:
            await self._forget_old(context)

    async def close(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
            await asyncio.wait([self._forgetting])
            self._forgetting = None

    # Issuing

    def issue(self, player_id: str, roles: Iterable[str] = (), *, ttl_s: float | None = None) -> str:
        """A ticket with which this player signs in, once, within `ttl_s`."""
        return self.issue_ticket(player_id, roles=roles, ttl_s=ttl_s).ticket

    def issue_ticket(self, player_id: str, *, roles: Iterable[str] = (), ttl_s: float | None = None) -> TicketInfo:
        """The same, with what there is to know about it."""
        if not self._keys:
            raise RuntimeError("tickets need a key: Tickets(keys=[secret]), or a server, which has its own")
        longest_s = self._context.limits.ticket_max_s
        ttl_s = self._ttl_s if ttl_s is None else ttl_s
        if not 0 < ttl_s <= longest_s:
            raise Invalid(f"ttl_s: a ticket is valid for more than 0 and at most {longest_s:g} s")
        roles = sorted(set(roles))
        if not is_player_id(player_id) or not are_roles(roles):
            raise Invalid(
                "player and roles are printable text: 128 characters at most, and 32 roles of 64; "
                "ids that begin with 'agent:' are those of agents"
            )
        now = self._context.wall_clock()
        key_id, key = next(iter(self._keys.items()))
        nonce = self._context.random.randbytes(_NONCE_BYTES)
        payload = _encode(_Payload(key_id, nonce, player_id, roles, now, now + ttl_s))
        return TicketInfo(f"{printable(payload)}.{printable(_signature(key, payload))}", player_id, now + ttl_s)

    # Taking

    def authenticate(self, credential: str, approach: Approach) -> Identity | Awaitable[Identity]:
        """The player for whom the ticket was issued."""
        payload = self._verified(credential)
        now = self._context.wall_clock()
        # The issuer may be another program with the key: a ticket without an end could be used forever.
        is_short = payload.expires_at <= payload.issued_at + self._context.limits.ticket_max_s
        is_good = is_short and now < payload.expires_at and payload.issued_at <= now + _AHEAD_MAX_S
        identity = Identity(payload.player, frozenset(payload.roles), issued_at=payload.issued_at)
        if is_good and self._context.is_shared:
            return self._used_once(payload, identity)
        if not is_good or self._may_be_used(payload):
            raise NotAuthentic(_INVALID)
        self._mark_used(payload, now)
        return identity

    def _verified(self, credential: str) -> _Payload:
        encoded, _, signature = credential.partition(".")
        try:
            stored = _decoded(encoded)
            payload = _decode(stored)
            is_signed = hmac.compare_digest(_decoded(signature), _signature(self._keys[payload.key], stored))
        except (*DECODE_ERRORS, LookupError):
            raise NotAuthentic(_INVALID) from None
        if not is_signed or not is_player_id(payload.player) or not are_roles(payload.roles):
            raise NotAuthentic(_INVALID)
        return payload

    def _may_be_used(self, payload: _Payload) -> bool:
        """Whether it was used, or may have been."""
        if payload.nonce in self._used or payload.expires_at <= self._forgotten_to:
            return True
        # Not longer than such a ticket lives: the clock may have been wrong at the start.
        is_young = self._context.now() - self._started_at < self._context.limits.ticket_max_s
        return is_young and payload.issued_at < self._started_wall

    def _mark_used(self, payload: _Payload, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            self._forgotten_to, nonce = heappop(self._ends)
            self._used.discard(nonce)
        if len(self._used) >= self._context.limits.tickets_used_max:
            raise Busy("too many tickets were used in a short while", self._ttl_s)
        self._used.add(payload.nonce)
        heappush(self._ends, (payload.expires_at, payload.nonce))

    # In a cluster

    async def _used_once(self, payload: _Payload, identity: Identity) -> Identity:
        """The identity, if this is the first use on any node."""
        store, key = self._context.store, f"{_USES}/{printable(payload.nonce)}"
        use = _encode(_Use(self._context.random.randbytes(_NONCE_BYTES), payload.expires_at))
        if len(self._uses) >= self._context.limits.tickets_used_max:
            raise Busy("too many tickets were used in a short while", self._ttl_s)
        try:
            revision = await store.put(key, use, ABSENT)
        except RevisionConflict:
            raise NotAuthentic(_INVALID) from None
        except Unknown:
            # It may be written: the record says by whom.
            entry = await store.get(key)
            if entry is None or entry.value != use:
                raise NotAuthentic(_INVALID) from None
            revision = entry.revision
        heappush(self._uses, (payload.expires_at, key, revision))
        if self._forgetting is None or self._forgetting.done():
            self._forgetting = asyncio.get_running_loop().create_task(self._forget_uses())
        return identity

    async def _forget_uses(self) -> None:
        """Delete the records of tickets that have expired, until there are none."""
        context = self._context
        while self._uses:
            await asyncio.sleep(_FORGET_S)
            past = context.wall_clock() - _AHEAD_MAX_S
            batch: list[tuple[float, str, int]] = []
            while self._uses and self._uses[0][0] <= past and len(batch) < _FORGOTTEN_AT_ONCE:
                batch.append(heappop(self._uses))
            if batch:
                with suppress(StoreError):  # the next start of a node deletes them
                    await context.store.commit([[Write(key, None, revision)] for _, key, revision in batch])

    async def _forget_old(self, context: AuthContext) -> None:
        """Delete what nodes have left that ended before they could."""
        past = context.wall_clock() - context.limits.ticket_max_s
        for entry in await context.store.list(_USES):
            if _decode_use(entry.value).expires_at <= past:
                with suppress(StoreError):  # another node was quicker
                    await context.store.delete(entry.key, entry.revision)

    def __repr__(self) -> str:
        return f"Tickets(ttl_s={self._ttl_s:g}, {len(self._keys)} keys)"


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"holdfast key id\0" + key).digest()[:_KEY_ID_BYTES]


def _signature(key: bytes, payload: bytes) -> bytes:
    return hmac.digest(key, _PURPOSE + payload, hashlib.sha256)


def _decoded(text: str) -> bytes:
    """The bytes that `printable` wrote; strictly, so that a ticket can be written in one way only."""
    if len(text) > CREDENTIAL_CHARS_MAX or not text.isascii():
        raise ValueError("too long, or no base64url")
    decoded = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if printable(decoded) != text:
        raise ValueError("there is another way to write this")
    return decoded
