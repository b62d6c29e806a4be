"""Tokens: what proves somebody, and the many things that prove nothing."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.identity import AuthContext, Jwt, NotAuthentic
from tests.cases import every_case
from tests.identity.issuer import AUDIENCE, ISSUER, NOW, SECRET, Signer, signer
from tests.identity.plain import Clock, enter, memory


async def door(
    *, keys: Any = None, algorithms: list[str] | None = None, wall_clock: Clock | None = None, **options: Any
) -> Jwt:
    """For tokens that are signed with the provider's first key."""
    store = options.pop("store", None) or memory(100)
    found = Jwt(
        **{
            "issuer": ISSUER,
            "audience": AUDIENCE,
            "algorithms": ["ES256"] if algorithms is None else algorithms,
            "keys": keys if keys is not None else signer("ES256").pem,
            **options,
        }
    )
    await found.prepare(AuthContext(wall_clock=wall_clock or Clock(NOW), store=store))
    return found


def token(claims: dict[str, Any] | None = None, **more: Any) -> str:
    return signer("ES256").token(claims, **more)


def by_hand(header: Any, claims: Any, signature: bytes = b"") -> str:
    """A token as no library would make it."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


# What proves somebody


@every_case("algorithm", ["RS256", "RS512", "PS256", "PS384", "ES256", "ES384", "EdDSA"])
async def test_a_token_that_is_signed_with_a_public_key_is_good(algorithm: str) -> None:
    issuer = signer(algorithm)
    found = await door(keys=issuer.pem, algorithms=[algorithm])

    identity = await enter(found, issuer.token())

    assert (identity.player_id, identity.roles, identity.issued_at) == ("ada", frozenset(), NOW)


async def test_a_token_that_is_signed_with_a_shared_secret_is_good() -> None:
    found = await door(keys=SECRET, algorithms=["HS256"])

    assert (await enter(found, Signer("HS256", SECRET).token())).player_id == "ada"


async def test_any_of_several_keys_is_good() -> None:
    first, second, third = (signer("ES256", number) for number in (1, 2, 3))
    found = await door(keys=[first.pem, second.pem.encode()])

    assert (await enter(found, first.token())).player_id == "ada"
    assert (await enter(found, second.token(kid="whatever"))).player_id == "ada"
    with pytest.raises(NotAuthentic, match="not signed with a key"):
        await enter(found, third.token())


async def test_another_claim_can_name_the_player_behind_a_prefix() -> None:
    found = await door(claim="uid", prefix="acme-")

    assert (await enter(found, token({"uid": "42"}))).player_id == "acme-42"


async def test_a_claim_can_name_roles() -> None:
    assert (await enter(await door(), token({"roles": ["gm", "dev"]}))).roles == {"gm", "dev"}
    assert (await enter(await door(roles_claim="groups"), token({"groups": ["gm"]}))).roles == {"gm"}


async def test_an_audience_may_be_one_of_several() -> None:
    assert (await enter(await door(), token({"aud": ["shop", AUDIENCE]}))).player_id == "ada"


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt"])
async def test_a_token_may_say_what_it_is(kind: str) -> None:
    assert (await enter(await door(), token(typ=kind))).player_id == "ada"


# Clocks


@every_case(
    ("times", "is_good"),
    [
        ({"exp": NOW - 29}, True),
        ({"exp": NOW - 30}, False),
        ({"nbf": NOW + 30}, True),
        ({"nbf": NOW + 31}, False),
        ({"iat": NOW + 30}, True),
        ({"iat": NOW + 31}, False),
        ({"exp": NOW + 0.5, "iat": NOW - 0.5}, True),
    ],
)
async def test_clocks_may_differ_by_the_leeway(times: dict[str, float], is_good: bool) -> None:
    found = await door(leeway_s=30)

    if is_good:
        assert (await enter(found, token(times))).player_id == "ada"
    else:
        with pytest.raises(NotAuthentic):
            await enter(found, token(times))


async def test_an_expired_token_is_told_so() -> None:
    wall_clock = Clock(NOW)
    found = await door(wall_clock=wall_clock)
    wall_clock.now += 3600

    with pytest.raises(NotAuthentic, match="has expired; get a new one"):
        await enter(found, token())


@every_case("name", ["exp", "iat", "nbf"])
@every_case(
    "value",
    [None, True, "soon", "1700000000", [], {}, -1, 10**400, float("nan"), float("inf"), 1e300],
    ids=lambda value: repr(value)[:12],
)
async def test_what_is_no_time_is_refused(name: str, value: Any) -> None:
    with pytest.raises(NotAuthentic):
        await enter(await door(), token({name: value}))


# What proves nothing


@pytest.mark.parametrize("claim", ["exp", "iat", "iss", "aud", "sub"])
async def test_a_token_that_does_not_say_everything_is_refused(claim: str) -> None:
    with pytest.raises(NotAuthentic):
        await enter(await door(), token(without=claim))


@every_case("issuer", [ISSUER.rstrip("/"), ISSUER.upper(), f"{ISSUER} ", "", [ISSUER], None])
async def test_another_issuer_is_refused_by_the_letter(issuer: Any) -> None:
    # PyJWT would not write some of these.
    claims = {"iss": issuer, "aud": AUDIENCE, "sub": "ada", "iat": NOW, "exp": NOW + 300}
    forged = jwt.api_jws.encode(json.dumps(claims).encode(), signer("ES256").private, "ES256")

    with pytest.raises(NotAuthentic):
        await enter(await door(), forged)


@every_case("audience", ["another-game", "my-game ", "MY-GAME", "", [], ["shop"], None, 5])
async def test_another_audience_is_refused(audience: Any) -> None:
    with pytest.raises(NotAuthentic):
        await enter(await door(), token({"aud": audience}))


@every_case(
    "subject", ["", "x" * 129, "two\nlines", "\ud800", 5, None, ["ada"], "guest-7Jm2", "agent:bot", "Agent:bot"]
)
async def test_a_subject_that_cannot_be_a_player_is_refused(subject: Any) -> None:
    with pytest.raises(NotAuthentic):
        await enter(await door(), token({"sub": subject}))


@every_case("roles", ["gm", 5, None, [5], [""], ["a\nb"], ["x" * 65], [str(each) for each in range(33)]])
async def test_roles_that_are_none_are_refused(roles: Any) -> None:
    with pytest.raises(NotAuthentic, match="roles"):
        await enter(await door(), token({"roles": roles}))


async def test_a_public_key_is_no_shared_secret() -> None:
    """Algorithm confusion: whoever knows the public key signs with it as if it were a secret."""
    issuer = signer("RS256")
    found = await door(keys=issuer.pem, algorithms=["RS256"])
    header, claims = {"alg": "HS256", "typ": "JWT"}, jwt.decode(issuer.token(), options={"verify_signature": False})
    unsigned = by_hand(header, claims).rpartition(".")[0]

    for secret in (issuer.pem.encode(), issuer.pem.strip().encode()):
        signature = hmac.digest(secret, unsigned.encode(), hashlib.sha256)
        forged = f"{unsigned}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
        with pytest.raises(NotAuthentic, match="an algorithm that is not accepted"):
            await enter(found, forged)


@every_case("algorithm", ["none", "None", "NONE", "", None, "HS256", "RS256", "ES384", ["ES256"], {}, 5], ids=repr)
async def test_no_other_algorithm_is_taken_whatever_the_token_says(algorithm: Any) -> None:
    claims = jwt.decode(token(), options={"verify_signature": False})

    for signature in (b"", b"x" * 64):
        with pytest.raises(NotAuthentic):
            await enter(await door(), by_hand({"alg": algorithm}, claims, signature))


async def test_a_token_cannot_bring_its_own_key() -> None:
    thief = signer("ES256", 9)
    own = thief.jwk("mine")

    for header in ({"jwk": own}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example/cert"}):
        with pytest.raises(NotAuthentic, match="not signed with a key"):
            await enter(await door(), thief.token(kid="mine", **header))


async def test_what_a_token_says_of_keys_does_not_matter_if_its_own_is_good() -> None:
    assert (await enter(await door(), token(jku="https://id.example.org/keys"))).player_id == "ada"


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"crit": []}, {"crit": ["b64"], "b64": True}, {"b64": True}])
async def test_a_token_that_demands_what_we_do_not_know_is_refused(header: dict[str, Any]) -> None:
    claims = jwt.decode(token(), options={"verify_signature": False})
    unsigned = by_hand({"alg": "ES256", **header}, claims).rpartition(".")[0]
    signature = jwt.get_algorithm_by_name("ES256").sign(unsigned.encode(), signer("ES256").private)

    with pytest.raises(NotAuthentic):
        await enter(await door(), f"{unsigned}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}")


@every_case("kind", ["logout+jwt", "dpop+jwt", "JOSE", "", 5, None, ["JWT"]])
async def test_a_token_for_something_else_is_refused(kind: Any) -> None:
    claims = jwt.decode(token(), options={"verify_signature": False})

    with pytest.raises(NotAuthentic, match="for something else"):
        await enter(await door(), by_hand({"alg": "ES256", "typ": kind}, claims, b"x" * 64))


async def test_a_token_that_was_changed_is_refused() -> None:
    found = await door()
    head, body, signature = token().split(".")
    _, other, _ = token({"sub": "eve"}).split(".")

    for forged in (
        f"{head}.{other}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}.{signature[::-1]}",
        f"{head}.{body}",
    ):
        with pytest.raises(NotAuthentic):
            await enter(found, forged)


async def test_a_token_of_8_kib_is_the_longest() -> None:
    found = await door()
    assert (await enter(found, token({"more": "x" * 5000}))).player_id == "ada"

    with pytest.raises(NotAuthentic, match="at most 8192"):
        await enter(found, token({"more": "x" * 8000}))


@every_case(
    "garbage",
    [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "\ud800.\ud800.\ud800",
        "🦑.🦑.🦑",
        by_hand("text", {}),
        by_hand([], {}),
        by_hand({"alg": "ES256", "kid": 5}, {}),
        by_hand({"alg": "ES256", "kid": {"a": "b"}}, {}),
        f"{base64.urlsafe_b64encode(b'[' * 4000).decode()}.e30.",
        f"{by_hand({'alg': 'ES256'}, {}).partition('.')[0]}.{base64.urlsafe_b64encode(b'[' * 4000).decode()}.AAAA",
    ],
    ids=range(13),
)
async def test_garbage_is_refused_and_nothing_worse_happens(garbage: str) -> None:
    with pytest.raises(NotAuthentic):
        await enter(await door(), garbage)


@every_case("payload", [b"", b"5", b"[]", b"\xff", b"{", b"[" * 3000, b'{"exp": 1' + b"0" * 4500 + b"}"])
async def test_what_is_signed_but_makes_no_sense_is_refused(payload: bytes) -> None:
    signed = jwt.api_jws.encode(payload, signer("ES256").private, "ES256")

    with pytest.raises(NotAuthentic):
        await enter(await door(), signed)


@given(st.text(st.characters()))
async def test_no_text_that_was_not_issued_is_accepted(credential: str) -> None:
    with pytest.raises(NotAuthentic):
        await enter(await door(), credential)


# Settings


@every_case(
    "wrong",
    [
        {"issuer": ""},
        {"audience": ""},
        {"leeway_s": 61},
        {"leeway_s": -1},
        {"algorithms": []},
        {"algorithms": ["none"]},
        {"algorithms": ["HS256"]},
        {"algorithms": ["RS256", "HS256"]},
        {"algorithms": ["RS256"]},
        {"keys": b"a secret that is long enough for it, but for HS256 alone"},
        {"keys": b"short", "algorithms": ["HS256"]},
        {"keys": SECRET, "algorithms": ["HS512"]},
        {"keys": SECRET, "algorithms": ["HS256", "ES256"]},
        {"keys": "a secret as text"},
        {"keys": []},
        {"keys": ["a secret as text"]},
        {"keys": [SECRET], "algorithms": ["HS256"]},
        {"keys": "http://id.example.org/keys"},
        {"keys": "https://"},
        {"keys": "file:///etc/passwd"},
        {"keys": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"},
    ],
    ids=range(21),
)
async def test_settings_that_could_let_somebody_in_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        await door(**wrong)


async def test_a_private_key_is_refused() -> None:
    with pytest.raises(ValueError, match="private key"):
        await door(keys=signer("ES256").private_pem)


async def test_a_weak_key_is_refused() -> None:
    weak = Signer("RS256", rsa.generate_private_key(65537, 1024))  # noqa: S505 - that it is refused is the claim

    with pytest.raises(ValueError, match="at least 2048 bits"):
        await door(keys=weak.pem, algorithms=["RS256"])


async def test_no_secret_is_shown() -> None:
    found = await door(keys=SECRET, algorithms=["HS256"])

    assert SECRET.decode() not in repr(vars(found)) + repr(found)
