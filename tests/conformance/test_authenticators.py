"""One suite for every authenticator: what is no credential proves nothing, nothing secret shows, and many may ask."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.identity import (
    Approach,
    Argon2Settings,
    AuthContext,
    Authenticator,
    Closing,
    Guest,
    Hook,
    Identity,
    Jwt,
    NotAuthentic,
    Password,
    Preparing,
    Tickets,
)
from holdfast.identity.port import is_player_id
from holdfast.schemas.frames import CREDENTIAL_CHARS_MAX
from holdfast.testing import Named
from tests.identity.issuer import AUDIENCE, ISSUER, NOW, SECRET, Signer
from tests.identity.plain import Clock, enter, memory

KEY = bytes(range(32))
HERE = Approach("203.0.113.7", "websocket", is_encrypted=True)


@dataclass
class Case:
    """An authenticator, a way to get credentials that are good in it, and what of it must never be shown."""

    door: Authenticator
    credential: Callable[[], Awaitable[str]]
    secrets: list[str]
    is_empty_good: bool = False


async def guest() -> Case:
    door = Guest(KEY, Random(1))

    async def credential() -> str:
        return door.prove("").credential

    return Case(door, credential, [repr(KEY)], is_empty_good=True)


async def password() -> Case:
    door = Password(settings=Argon2Settings(memory_kib=8, passes=1))
    names = iter(range(1000))

    async def credential() -> str:
        name = f"ada{next(names)}"
        await door.create_account(name, "correct horse")
        return f"{name}:correct horse"

    return Case(door, credential, ["correct horse"])


async def jwt() -> Case:
    door = Jwt(issuer=ISSUER, audience=AUDIENCE, algorithms=["HS256"], keys=SECRET)
    subjects = iter(range(1000))

    async def credential() -> str:
        return Signer("HS256", SECRET).token({"sub": f"ada{next(subjects)}"})

    return Case(door, credential, [SECRET.decode()])


async def hook() -> Case:
    async def approve(credential: str, approach: Approach) -> Identity:
        found = re.fullmatch("open (ada[0-9]+) sesame", credential)
        if found is None:
            raise NotAuthentic("members only")
        return Identity(found[1])

    members = iter(range(1000))

    async def credential() -> str:
        return f"open ada{next(members)} sesame"

    return Case(Hook(approve), credential, ["sesame"])


async def tickets() -> Case:
    door = Tickets(keys=[KEY])
    players = iter(range(1000))

    async def credential() -> str:
        return door.issue(f"ada{next(players)}")

    return Case(door, credential, [repr(KEY)])


MAKERS = {"guest": guest, "password": password, "jwt": jwt, "hook": hook, "ticket": tickets}


@pytest.fixture(params=MAKERS)
async def case(request: pytest.FixtureRequest) -> AsyncIterator[Case]:
    made = await MAKERS[request.param]()
    if isinstance(made.door, Preparing):
        store = memory(10_000)
        await made.door.prepare(AuthContext(secret=KEY, random=Random(2), wall_clock=Clock(NOW), store=store))
    yield made
    if isinstance(made.door, Closing):
        await made.door.close()


async def test_a_good_credential_proves_a_player(case: Case) -> None:
    credential = await case.credential()

    identity = await enter(case.door, credential, HERE)

    assert is_player_id(identity.player_id)


async def test_other_credentials_prove_other_players(case: Case) -> None:
    credentials = [await case.credential() for _ in range(10)]

    players = {(await enter(case.door, credential, HERE)).player_id for credential in credentials}

    assert len(players) == 10


async def test_a_scheme_is_a_name(case: Case) -> None:
    assert 1 <= len(case.door.scheme) <= 64


GARBAGE = [
    " ",
    "\x00",
    ".",
    ":",
    "::",
    "..",
    "null",
    "{}",
    "é",
    "🦑",
    "🦑:🦑",
    "🦑.🦑.🦑",
    "\ud800",
    "\ud800:\udfff",
    "\udfff.\ud800.\ud800",
    "\u202eada",
    "a" * CREDENTIAL_CHARS_MAX,
    ":" * CREDENTIAL_CHARS_MAX,
    "." * CREDENTIAL_CHARS_MAX,
    "🦑" * CREDENTIAL_CHARS_MAX,
    "\ufdfa" * CREDENTIAL_CHARS_MAX,
    "x" * 1_000_000,
    "x:" + "y" * 1_000_000,
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
async def test_garbage_proves_nothing_and_nothing_worse_happens(case: Case, garbage: str) -> None:
    with pytest.raises(NotAuthentic):
        await enter(case.door, garbage, HERE)


async def test_an_empty_credential_proves_nothing_but_a_new_guest(case: Case) -> None:
    if case.is_empty_good:
        assert (await enter(case.door, "", HERE)).credential
    else:
        with pytest.raises(NotAuthentic):
            await enter(case.door, "", HERE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
@given(text=st.text(st.characters(), min_size=1))
async def test_no_text_that_was_not_issued_is_accepted(case: Case, text: str) -> None:
    with pytest.raises(NotAuthentic):
        await enter(case.door, text, HERE)


async def test_a_good_credential_with_something_changed_proves_nothing(case: Case) -> None:
    for change in (
        lambda good: good[:-1],
        lambda good: good[1:],
        lambda good: good + "x",
        lambda good: "x" + good,
        lambda good: good[::-1],
        lambda good: f"{good}\x00",
        lambda good: f"\ud800{good}",
        lambda good: f"{good} {good}",
    ):
        with pytest.raises(NotAuthentic):
            await enter(case.door, change(await case.credential()), HERE)


async def test_a_refusal_says_what_to_do_and_repeats_no_secret(case: Case) -> None:
    with pytest.raises(NotAuthentic) as refused:
        await enter(case.door, f"{await case.credential()}mistyped", HERE)

    assert str(refused.value)
    assert not any(secret in str(refused.value) for secret in [*case.secrets, "mistyped"])
    assert refused.value.__cause__ is None


async def test_nothing_secret_is_shown(case: Case) -> None:
    credential = await case.credential()
    identity = await enter(case.door, credential, HERE)

    shown = f"{case.door!r} {case.door} {identity!r} {[identity]}"

    assert not any(secret in shown for secret in [*case.secrets, credential, credential.rpartition(".")[2]])


async def test_many_at_once_are_each_who_they_are(case: Case) -> None:
    credentials = [await case.credential() for _ in range(20)]
    wrong = [f"{credential}mistyped" for credential in credentials]
    # Each from somewhere else: one address may have to wait.
    approaches = [Approach(f"203.0.113.{number}") for number in range(40)]

    results = await asyncio.gather(
        *map(partial(enter, case.door), [*credentials, *wrong], approaches), return_exceptions=True
    )

    players = [result.player_id for result in results[:20] if isinstance(result, Identity)]
    assert len(set(players)) == 20
    assert all(isinstance(result, NotAuthentic) for result in results[20:])


async def test_it_can_be_prepared_again_as_at_a_second_start(case: Case) -> None:
    if not isinstance(case.door, Preparing):
        return
    store = memory(10_000)

    await case.door.prepare(AuthContext(secret=KEY, random=Random(3), wall_clock=Clock(NOW), store=store))

    assert (await enter(case.door, await case.credential(), HERE)).player_id


async def test_the_one_for_tests_believes_every_name_but_none() -> None:
    assert (await enter(Named(), "ada", HERE)).player_id == "ada"
    with pytest.raises(NotAuthentic):
        await enter(Named(), "", HERE)
