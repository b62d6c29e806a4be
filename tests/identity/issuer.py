"""An identity provider: keys, tokens and a set of keys, made once for all tests."""

import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://id.example.org/"
AUDIENCE = "my-game"
NOW = 1_700_000_000.0
SECRET = b"a shared secret of 32 bytes or so"

CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": int(NOW), "exp": int(NOW) + 300}


class Signer:
    """One key of the provider."""

    def __init__(self, algorithm: str, private: Any) -> None:
        self.algorithm = algorithm
        self.private = private

    def token(self, claims: dict[str, Any] | None = None, *, without: str = "", kid: str = "", **header: Any) -> str:
        """A token with these claims beside the usual ones."""
        said = {name: value for name, value in {**CLAIMS, **(claims or {})}.items() if name != without}
        return jwt.encode(said, self.private, self.algorithm, headers={**({"kid": kid} if kid else {}), **header})

    @property
    def pem(self) -> str:
        public = self.private.public_key()
        return str(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())

    @property
    def private_pem(self) -> str:
        return str(self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())

    def jwk(self, kid: str = "", *, is_private: bool = False, **more: Any) -> dict[str, Any]:
        """The key as it stands in a set."""
        kinds: dict[str, Any] = {"RS": RSAAlgorithm, "PS": RSAAlgorithm, "ES": ECAlgorithm, "Ed": OKPAlgorithm}
        key = self.private if is_private else self.private.public_key()
        data = json.loads(kinds[self.algorithm[:2]].to_jwk(key))
        return {**data, **({"kid": kid} if kid else {}), **more}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


@cache
def signer(algorithm: str, number: int = 1) -> Signer:
    """The provider's key for an algorithm; it may have several."""
    del number
    match algorithm:
        case "ES256":
            return Signer(algorithm, ec.generate_private_key(ec.SECP256R1()))
        case "ES384":
            return Signer(algorithm, ec.generate_private_key(ec.SECP384R1()))
        case "EdDSA":
            return Signer(algorithm, ed25519.Ed25519PrivateKey.generate())
        case _:
            return Signer(algorithm, rsa.generate_private_key(65537, 2048))
