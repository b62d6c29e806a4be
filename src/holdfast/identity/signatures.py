"""JSON Web Tokens and the keys that prove them. (Imported when it is needed: cryptography takes a while.)

PyJWT checks the signature, the issuer and the audience; `Jwt` checks the times, by the server's clock.
What a token itself says about keys (`jku`, `x5u`, `jwk`, `x5c`) is never looked at.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from holdfast.core.limits import Limits
from holdfast.identity.port import NotAuthentic

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey

RSA_BITS_MIN = 2048

# Kinds of public keys in a set. (A curve says by itself what it is for.)
_KINDS = {"RSA": "RS256", "EC": None, "OKP": "EdDSA"}
_CURVES = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}
# What a token may be: not, for example, a log-out notice of the same issuer.
_TYPES = frozenset({"jwt", "at+jwt"})
_OPTIONS: Any = {
    "require": ["exp", "iat", "iss", "aud"],
    **dict.fromkeys(("verify_exp", "verify_iat", "verify_nbf", "verify_sub", "verify_jti"), False),
}


class Key(NamedTuple):
    """A key that tokens may be signed with."""

    public: PublicKey | bytes
    """Bytes are a shared secret."""
    kid: str = ""
    """What tokens call it; empty if they do not."""
    algorithm: str = ""
    """The only one it is for; empty if any that fits will do."""

    def fits(self, algorithm: str) -> bool:
        """Whether a token that is signed this way can be checked with it."""
        if self.algorithm not in {"", algorithm}:
            return False
        match algorithm[:2]:
            case "HS":
                return isinstance(self.public, bytes)
            case "RS" | "PS":
                return isinstance(self.public, RSAPublicKey)
            case "ES":
                return isinstance(self.public, EllipticCurvePublicKey) and self.public.curve.name == _CURVES[algorithm]
            case _:
                return isinstance(self.public, Ed25519PublicKey | Ed448PublicKey)

    def __repr__(self) -> str:
        return f"Key(kid={self.kid!r}, algorithm={self.algorithm!r})"


class Header(NamedTuple):
    """What a token says about its signature. Anybody can say anything."""

    algorithm: str
    kid: str


class TokenChecker:
    """Checks tokens of one issuer for one audience, signed in one of these ways."""

    def __init__(self, algorithms: Sequence[str], issuer: str, audience: str) -> None:
        self._algorithms = algorithms
        self._issuer = issuer
        self._audience = audience

    # Keys

    def given_keys(self, keys: Sequence[bytes]) -> list[Key]:
        """A shared secret for HMAC algorithms, else public keys in PEM; `ValueError` if a key does not fit."""
        is_shared = all(algorithm.startswith("HS") for algorithm in self._algorithms)
        found = [Key(key) if is_shared else _pem_key(key) for key in keys]
        for key in found:
            if not any(key.fits(algorithm) for algorithm in self._algorithms):
                raise ValueError(f"a key does not fit {', '.join(self._algorithms)}")
        return found

    def keys_in(self, document: bytes, limits: Limits) -> list[Key]:
        """The public keys of a JSON Web Key Set that are of use here, or `ValueError` if it is none."""
        try:
            found = msgspec.json.decode(document, type=dict[str, Any]).get("keys")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"this is not a JSON Web Key Set: {error}") from None
        if not isinstance(found, list):
            raise ValueError('this is not a JSON Web Key Set: it has no "keys"')  # noqa: TRY004 - a wrong document
        keys = [key for each in found[: limits.issuer_keys_max] if (key := _jwk(each)) is not None]
        return [key for key in keys if any(key.fits(algorithm) for algorithm in self._algorithms)]

    # Tokens

    def header_of(self, token: str) -> Header:
        """Which key a token is to be checked with; `NotAuthentic` if it cannot be valid."""
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise NotAuthentic("this is not a token") from None
        algorithm, kind = header.get("alg"), header.get("typ", "JWT")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise NotAuthentic("this token is signed with an algorithm that is not accepted here")
        if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
            raise NotAuthentic("this token is for something else")
        if "crit" in header or "b64" in header:
            raise NotAuthentic("this token has critical extensions that are not supported here")
        return Header(algorithm, header.get("kid", ""))

    def claims_of(self, token: str, header: Header, keys: Iterable[Key]) -> dict[str, Any]:
        """What a token claims, if one of the keys proves it; its times are not looked at yet."""
        for key in keys:
            try:
                return jwt.decode(
                    token,
                    key.public,
                    algorithms=[header.algorithm],
                    issuer=self._issuer,
                    audience=self._audience,
                    options=_OPTIONS,
                )
            except jwt.InvalidSignatureError:
                continue
            except jwt.InvalidIssuerError:
                raise NotAuthentic("this token is from another issuer") from None
            except jwt.InvalidAudienceError:
                raise NotAuthentic("this token is for another audience") from None
            except jwt.MissingRequiredClaimError as error:
                raise NotAuthentic(f"this token does not say its {error.claim}") from None
            except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
                break
        raise NotAuthentic("this token is not signed with a key that is known here")


def _pem_key(pem: bytes) -> Key:
    if b"PRIVATE KEY" in pem:
        raise ValueError("this is a private key: a game server needs the public one only")
    try:
        return Key(_strong(load_pem_public_key(pem)))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"this is not a public key in PEM: {error}") from None


def _jwk(data: Any) -> Key | None:
    """One key of a set; None if it is of a kind that we do not use, or makes no sense."""
    if not isinstance(data, dict) or data.get("use", "sig") != "sig":
        return None
    kid, algorithm, kind = data.get("kid", ""), data.get("alg", ""), data.get("kty", "")
    if not all(isinstance(each, str) for each in (kid, algorithm, kind)) or kind not in _KINDS:
        return None
    try:
        # Its `alg` is compared by `fits`; here it would only say how to read the numbers.
        public = jwt.PyJWK({**data, "alg": None}, _KINDS[kind]).key
        return Key(_strong(public), kid, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _strong(public: Any) -> PublicKey:
    # A published private key is refused as well.
    if not isinstance(public, PublicKey):
        raise ValueError("it is of a kind that signs no tokens")  # noqa: TRY004 - a wrong key, not a wrong program
    if isinstance(public, RSAPublicKey) and public.key_size < RSA_BITS_MIN:
        raise ValueError(f"an RSA key has at least {RSA_BITS_MIN} bits; this one has {public.key_size}")
    return public
