"""The keys of an issuer of JSON Web Tokens, and the check of a token's signature with them.

Keys are given from the start, or fetched. Anybody can send a token that names a key which does not exist: an unknown
key causes a fetch only once in a while, one at a time, in a thread; if that fails, the known keys stay valid. A site
that answers byte by byte blocks that thread only: neither those who sign in nor the end of the process.

PyJWT checks the signature, the issuer and the audience; `Jwt` checks the times, by the server's clock. What a token
itself says about keys (`jku`, `x5u`, `jwk`, `x5c`) is never looked at. Importing this module imports cryptography and
urllib, which takes a while.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from http.client import HTTPException, HTTPMessage
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from holdfast.core.limits import Limits
from holdfast.core.tokens import TOKEN_BYTES
from holdfast.identity.port import AuthContext, Busy, NotAuthentic
from holdfast.logs import get_logger

log = get_logger("holdfast.identity")

_CHUNK_BYTES = 16 * 1024
PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey
KeySource = bytes | str | Path | Sequence[bytes | str]
"""A shared secret (bytes), public keys in PEM, the address of a JSON Web Key Set, or the path of a file with one."""

RSA_BITS_MIN = 2048
SHARED = "HS256"
"""The one algorithm for a shared secret."""
PUBLIC = frozenset(["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"])

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


class TokenChecker:
    """Checks tokens of one issuer for one audience, signed in one of these ways with one of its keys."""

    def __init__(self, *, issuer: str, audience: str, algorithms: Sequence[str], keys: KeySource) -> None:
        self._issuer = issuer
        self._audience = audience
        self._algorithms = algorithms
        is_shared = isinstance(keys, bytes) and not _is_pem(keys)
        if is_shared and list(algorithms) != [SHARED]:
            raise ValueError(f"a shared secret is for {SHARED} alone: algorithms=[{SHARED!r}]")
        if not is_shared and (not algorithms or not PUBLIC.issuperset(algorithms)):
            raise ValueError(f"public keys are for some of {', '.join(sorted(PUBLIC))}; got {list(algorithms)}")
        self._keys: list[Key] = []
        self._fetched: FetchedKeys | None = None
        match keys:
            case Path():
                self._fetched = FetchedKeys(
                    str(keys), lambda limits: keys_in(read_file(keys, limits), algorithms, limits)
                )
            case str() if keys.startswith(("https://", "http://")):
                check_url(keys)
                # What follows the path may be secret: it is not logged.
                self._fetched = FetchedKeys(
                    keys.partition("?")[0], lambda limits: keys_in(fetch_url(keys, limits), algorithms, limits)
                )
            case bytes() if is_shared:
                if len(keys) < TOKEN_BYTES:
                    raise ValueError(f"a shared secret needs at least {TOKEN_BYTES} bytes; got {len(keys)}")
                self._keys = [Key(keys)]
            case _:
                self._keys = _given_keys([keys] if isinstance(keys, bytes | str) else keys, algorithms)

    async def prepare(self, context: AuthContext) -> None:
        if self._fetched is not None:
            await self._fetched.prepare(context)

    def close(self) -> None:
        if self._fetched is not None:
            self._fetched.close()

    async def claims_of(self, token: str) -> dict[str, Any]:
        """What a token claims, if one of the keys proves it; its times are not looked at yet."""
        algorithm, kid = self._header_of(token)
        if self._fetched is not None:
            keys = await self._fetched.find(kid, algorithm)
        else:
            # Given keys have no names.
            keys = [key for key in self._keys if key.fits(algorithm)]
        for key in keys:
            try:
                return jwt.decode(
                    token,
                    key.public,
                    algorithms=[algorithm],
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

    def _header_of(self, token: str) -> tuple[str, str]:
        """The algorithm and the key that a token names: anybody can name any. `NotAuthentic` if it cannot be valid."""
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
        return algorithm, header.get("kid", "")


# Reading keys


def _is_pem(key: bytes) -> bool:
    return key.lstrip().startswith(b"-----BEGIN ")


def _given_keys(keys: Sequence[bytes | str], algorithms: Sequence[str]) -> list[Key]:
    pems = [key.encode() if isinstance(key, str) else key for key in keys]
    if not pems or not all(map(_is_pem, pems)):
        raise ValueError("keys: a secret is bytes, public keys are PEM, a set is an https:// address or a Path")
    found = [_pem_key(pem) for pem in pems]
    for key in found:
        if not any(key.fits(algorithm) for algorithm in algorithms):
            raise ValueError(f"a key does not fit {', '.join(algorithms)}")
    return found


def keys_in(document: bytes, algorithms: Sequence[str], limits: Limits) -> list[Key]:
    """The public keys of a JSON Web Key Set that are of use here, or `ValueError` if it is none."""
    try:
        found = msgspec.json.decode(document, type=dict[str, Any]).get("keys")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"this is not a JSON Web Key Set: {error}") from None
    if not isinstance(found, list):
        raise ValueError('this is not a JSON Web Key Set: it has no "keys"')  # noqa: TRY004 - a wrong document
    keys = [key for each in found[: limits.issuer_keys_max] if (key := _jwk(each)) is not None]
    return [key for key in keys if any(key.fits(algorithm) for algorithm in algorithms)]


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


class FetchedKeys:
    """Keys that are read from somewhere else, which may change."""

    def __init__(self, where: str, load: Callable[[Limits], list[Key]]) -> None:
        self._where = where
        self._load = load
        self._reset(AuthContext())

    def _reset(self, context: AuthContext) -> None:
        self._context = context
        self._keys: list[Key] = []
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._fetch: asyncio.Task[None] | None = None

    async def prepare(self, context: AuthContext) -> None:
        """Fetch them once. If that fails, the server starts all the same."""
        self.close()
        self._reset(context)
        await self._refresh()

    def close(self) -> None:
        """Fetch no more."""
        if self._fetch is not None:
            self._fetch.cancel()
            self._fetch = None

    async def find(self, kid: str, algorithm: str) -> list[Key]:
        """The known keys that fit, with this name unless it is empty; if there are none, those after another fetch."""
        found = self._fitting(kid, algorithm)
        if found:
            if self._fetched_at is None or (
                self._context.now() - self._fetched_at >= self._context.limits.issuer_keys_s
            ):
                self._begin()
            return found
        await self._refresh()
        if self._fetched_at is None:
            raise Busy("the keys of the issuer are not known at the moment", self._context.limits.issuer_keys_pause_s)
        return self._fitting(kid, algorithm)

    def _fitting(self, kid: str, algorithm: str) -> list[Key]:
        return [key for key in self._keys if key.fits(algorithm) and (not kid or kid == key.kid)]

    async def _refresh(self) -> None:
        fetch = self._begin()
        if fetch is not None:
            # It is for all who wait, and goes on if one of them does not any more.
            await asyncio.wait([fetch], timeout=self._context.limits.issuer_keys_timeout_s)

    def _begin(self) -> asyncio.Task[None] | None:
        """The fetch that is under way, or a new one; None if the last was a short while ago."""
        if self._fetch is not None and not self._fetch.done():
            return self._fetch
        now = self._context.now()
        if self._tried_at is not None and now - self._tried_at < self._context.limits.issuer_keys_pause_s:
            return None
        self._tried_at = now
        self._fetch = asyncio.create_task(self._fetch_once(), name=f"keys from {self._where}")
        return self._fetch

    async def _fetch_once(self) -> None:
        loaded: asyncio.Future[list[Key]] = asyncio.get_running_loop().create_future()
        Thread(target=self._load_into, args=(loaded,), name=f"keys from {self._where}", daemon=True).start()
        try:
            keys = await loaded
        except (OSError, ValueError, HTTPException) as error:
            log.warning("the keys of an issuer could not be fetched", where=self._where, error=error)
            return
        if not keys:
            log.warning("an issuer has no key that is of use", where=self._where)
            return
        self._keys = keys
        self._fetched_at = self._context.now()

    def _load_into(self, loaded: asyncio.Future[list[Key]]) -> None:
        """In the thread. The caller may be gone when it is done, and the event loop too."""
        set_it: Callable[[], None]
        try:
            set_it = partial(loaded.set_result, self._load(self._context.limits))
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            set_it = partial(loaded.set_exception, error)
        with suppress(RuntimeError):
            loaded.get_loop().call_soon_threadsafe(lambda: None if loaded.done() else set_it())


def check_url(url: str) -> None:
    """`ValueError` unless keys are fetched over https, or from this machine."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError(f"{url!r} is not a URL of keys")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL of keys must not contain a user name or a password")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname)):
        raise ValueError(f"keys are fetched over https, or from this machine: {url!r}")


def _is_loopback(hostname: str) -> bool:
    try:
        return ip_address(hostname).is_loopback
    except ValueError:
        return hostname == "localhost"


class _StayHere(HTTPRedirectHandler):
    """Follows no redirects: another URL would have to be checked like the first."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def fetch_url(url: str, limits: Limits) -> bytes:
    """What is at an address, within a time and a size; `OSError`, `HTTPException` or `ValueError` otherwise."""
    ends_at = time.monotonic() + limits.issuer_keys_timeout_s
    # Unencrypted requests stay on this machine: no proxy may see or change them.
    opener = build_opener(_StayHere, *([] if url.startswith("https:") else [ProxyHandler({})]))
    request = Request(url, headers={"Accept": "application/json"})  # noqa: S310 - see `check_url`
    try:
        with opener.open(request, timeout=limits.issuer_keys_timeout_s) as response:
            document = b""
            while chunk := response.read1(_CHUNK_BYTES):
                document += chunk
                _check_size(document, limits)
                if time.monotonic() > ends_at:
                    raise TimeoutError(f"not all of it came within {limits.issuer_keys_timeout_s:g} s")
            return document
    except HTTPError as error:
        error.close()
        raise


def read_file(path: Path, limits: Limits) -> bytes:
    """What is in a file."""
    with path.open("rb") as file:
        document = file.read(limits.issuer_keys_bytes_max + 1)
    _check_size(document, limits)
    return document


def _check_size(document: bytes, limits: Limits) -> None:
    if len(document) > limits.issuer_keys_bytes_max:
        raise ValueError(f"there are more than {limits.issuer_keys_bytes_max} bytes")
