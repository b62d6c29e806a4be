"""Tickets: short-lived, signed, single-use credentials that a backend issues.

    ticket = base64url(payload) "." base64url(HMAC-SHA256 of the payload)
    payload = MessagePack of [key id, nonce, player, roles, issued at, expires at]

A ticket is verified without a look-up, on any node that has the key. The node that accepted it
remembers its use until it expires: single use is per node. A node that has just started refuses tickets issued before
its start, because it cannot know which of them were used.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

import msgspec
from msgspec import Struct

from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import Invalid
from holdfast.core.tokens import TOKEN_BYTES, printable
from holdfast.identity.port import Approach, AuthContext, Busy, Identity, NotAuthentic, are_roles, is_player_id
from holdfast.schemas.account import TicketInfo
from holdfast.schemas.frames import CREDENTIAL_CHARS_MAX

_NONCE_BYTES = 12
_KEY_ID_BYTES = 4
# Nothing else that is signed with the same key can be taken for a ticket.
_PURPOSE = b"holdfast ticket 1\0"
# How far the issuer's clock may be ahead of ours.
_AHEAD_MAX_S = 60.0
_INVALID = "this ticket is not valid: it was used, has expired, or was not issued for here; get a new one"


class _Payload(Struct, array_like=True, frozen=True):
    key: bytes
    nonce: bytes
    player: str
    roles: list[str]
    issued_at: float
    expires_at: float


_encode = msgspec.msgpack.Encoder().encode
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
        self._use(AuthContext())

    def _use(self, context: AuthContext) -> None:
        if self._ttl_s > context.limits.ticket_max_s:
            raise ValueError(f"ttl_s is at most {context.limits.ticket_max_s:g} (Limits.ticket_max_s)")
        self._context = context
        derived = [hmac.digest(context.secret, _PURPOSE, hashlib.sha256)] if context.secret else []
        self._keys = {_key_id(key): key for key in self._own_keys or derived}
        self._used: set[bytes] = set()
        self._ends: list[tuple[float, bytes]] = []
        # Of those that end by then, some were forgotten: the clock may be set back.
        self._forgotten_to = 0.0
        self._started_at, self._started_wall = context.now(), context.wall_clock()

    async def prepare(self, context: AuthContext) -> None:
        self._use(context)

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

    def authenticate(self, credential: str, approach: Approach) -> Identity:
        """The player for whom the ticket was issued."""
        payload = self._verified(credential)
        now = self._context.wall_clock()
        # The issuer may be another program with the key: a ticket without an end could be used forever.
        is_short = payload.expires_at <= payload.issued_at + self._context.limits.ticket_max_s
        is_good = is_short and now < payload.expires_at and payload.issued_at <= now + _AHEAD_MAX_S
        if not is_good or self._may_be_used(payload):
            raise NotAuthentic(_INVALID)
        self._mark_used(payload, now)
        return Identity(payload.player, frozenset(payload.roles), issued_at=payload.issued_at)

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
