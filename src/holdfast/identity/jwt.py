"""JSON Web Tokens of an identity provider: signed, from one issuer, for one audience, and not expired."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import Invalid
from holdfast.identity.accounts import GuestLinks
from holdfast.identity.port import Approach, AuthContext, Identity, NotAuthentic, are_roles, is_generated, is_player_id
from holdfast.schemas.frames import CREDENTIAL_CHARS_MAX

if TYPE_CHECKING:
    from holdfast.identity.issuer_keys import KeySource, TokenChecker

LEEWAY_MAX_S = 60.0
# Some 35,000 years: no clock shows later times.
_TIME_MAX = 2.0**40


class Jwt:
    """The authenticator for tokens: `Auth("jwt", token)` on the client's side.

    A token must be signed with one of `keys`, in one of the `algorithms`, by exactly this `issuer` for exactly this
    `audience`, and say when it was issued (`iat`) and when it expires (`exp`); clocks may differ by `leeway_s`. Its
    `claim` is the player's id, behind `prefix`; its `roles_claim`, if it has one, a list of roles.

    `keys` is a shared secret of at least 32 bytes (for HS256 only), one or several public keys in PEM, the address of a
    JSON Web Key Set ("https://…") or a `Path` to a file with one. Sets are fetched again periodically, and when a
    token names an unknown key.

    A `linkable` one remembers every player who has signed in, so that guests can be linked to those who have not; that
    is one read of the store for each sign-in.
    """

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        algorithms: Sequence[str],
        keys: "KeySource",
        scheme: str = "jwt",
        claim: str = "sub",
        prefix: str = "",
        roles_claim: str = "roles",
        leeway_s: float = 30.0,
        linkable: bool = True,
    ) -> None:
        if not issuer or not audience:
            raise ValueError("say exactly which issuer is trusted, and for which audience its tokens must be")
        if not 0 <= leeway_s <= LEEWAY_MAX_S:
            raise ValueError(f"leeway_s is 0 to {LEEWAY_MAX_S:g}; got {leeway_s}")
        algorithms = [algorithms] if isinstance(algorithms, str) else list(algorithms)
        # By name, because it is to be imported now and not with this module: most programs never see a token.
        self._checker: TokenChecker = import_module("holdfast.identity.issuer_keys").TokenChecker(
            issuer=issuer, audience=audience, algorithms=algorithms, keys=keys
        )
        self.scheme = scheme
        """The name clients ask for it by."""
        self._issuer = issuer
        self._claim = claim
        self._prefix = prefix
        self._roles_claim = roles_claim
        self._leeway_s = leeway_s
        self._is_linkable = linkable
        self._context = AuthContext()
        self._links = GuestLinks(self._context.store)

    async def prepare(self, context: AuthContext) -> None:
        self._context = context
        self._links = GuestLinks(context.store)
        await self._checker.prepare(context)

    async def close(self) -> None:
        self._checker.close()

    async def authenticate(self, credential: str, approach: Approach) -> Identity:
        """The player that the token names."""
        claims = await self._proven(credential)
        subject, player_id = self._subject(claims)
        if self._is_linkable:
            player_id = await self._links.player_of(self.scheme, subject, player_id)
        return self._identity(player_id, claims)

    async def link(self, credential: str, approach: Approach, player_id: str) -> Identity:
        """The guest is who the token names, if that has never signed in."""
        if not self._is_linkable:
            raise Invalid(f"credentials of {self.scheme!r} cannot be linked here")
        claims = await self._proven(credential)
        identity = self._identity(player_id, claims)
        await self._links.link(self.scheme, self._subject(claims)[0], player_id)
        return identity

    async def _proven(self, token: str) -> dict[str, Any]:
        if len(token) > CREDENTIAL_CHARS_MAX:
            raise NotAuthentic(f"a token has at most {CREDENTIAL_CHARS_MAX} characters")
        claims = await self._checker.claims_of(token)
        now = self._context.wall_clock()
        # Written so that NaN fails both comparisons.
        if not now - self._leeway_s < _time(claims, "exp"):
            raise NotAuthentic("this token has expired; get a new one")
        if not max(_time(claims, "iat"), _time(claims, "nbf", 0.0)) <= now + self._leeway_s:
            raise NotAuthentic("this token is not valid yet")
        return claims

    def _subject(self, claims: dict[str, Any]) -> tuple[str, str]:
        """The subject as it is linked, and the player's id if it is not."""
        subject = claims.get(self._claim)
        if isinstance(subject, str) and subject:
            player_id = self._prefix + subject
            if is_player_id(player_id) and not is_generated(player_id):
                # Another issuer's subjects are other people, even if it takes the place of this one some day.
                return f"{self._issuer} {subject}", player_id
        raise NotAuthentic(f"the {self._claim} of this token cannot be a player's id")

    def _identity(self, player_id: str, claims: dict[str, Any]) -> Identity:
        roles = claims.get(self._roles_claim, [])
        if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles) or not are_roles(roles):
            raise NotAuthentic(f"the {self._roles_claim} of this token cannot be a player's roles")
        return Identity(player_id, frozenset(roles), issued_at=_time(claims, "iat"))

    def __repr__(self) -> str:
        return f"Jwt(scheme={self.scheme!r}, issuer={self._issuer!r})"


def _time(claims: dict[str, Any], name: str, otherwise: float | None = None) -> float:
    value = claims.get(name, otherwise)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _TIME_MAX:
        raise NotAuthentic(f"the {name} of this token is not a time")
    return float(value)
