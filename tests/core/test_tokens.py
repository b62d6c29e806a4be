"""Resume tokens: single use, rotated, tolerant of one lost answer, and fatal to a session when used twice."""

import hashlib
from base64 import urlsafe_b64decode
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from holdfast.core.tokens import TOKEN_BYTES, ResumeTokens, Verdict, printable
from holdfast.identity import Identity
from holdfast.schemas.frames import Auth, Hello, Outcome, Resume, Terms, Welcome
from tests.cases import every_case

RETIRED_MAX = 8
SECRET = "s3cr3t-which-nobody-may-read-anywhere"

chances = (number.to_bytes(TOKEN_BYTES, "big") for number in count(1))


def fresh() -> bytes:
    return next(chances)


def a_family() -> tuple[ResumeTokens, str]:
    tokens = ResumeTokens(RETIRED_MAX)
    return tokens, tokens.issue(fresh())


def test_the_first_token_is_good() -> None:
    tokens, first = a_family()

    assert tokens.present(first) is Verdict.GOOD


def test_a_family_that_has_issued_nothing_knows_no_token() -> None:
    tokens = ResumeTokens(RETIRED_MAX)

    assert tokens.present("") is Verdict.UNKNOWN
    assert tokens.present(printable(bytes(TOKEN_BYTES))) is Verdict.UNKNOWN


@every_case("token", ["", " ", "guess", "é", "\ud800", "\x00", "x" * 100_000])
def test_a_token_that_was_never_issued_is_unknown(token: str) -> None:
    tokens, _ = a_family()

    assert tokens.present(token) is Verdict.UNKNOWN


def test_every_resume_gets_another_token() -> None:
    tokens, first = a_family()
    seen = {first}

    for _ in range(20):
        seen.add(tokens.rotate(fresh()))

    assert len(seen) == 21


def test_a_lost_welcome_is_tolerated() -> None:
    tokens, first = a_family()
    tokens.present(first)
    lost = tokens.rotate(fresh())

    again = tokens.present(first)
    received = tokens.rotate(fresh())

    assert again is Verdict.GOOD
    assert received != lost
    assert tokens.present(received) is Verdict.GOOD


def test_of_two_next_tokens_only_the_latest_is_good_and_the_replaced_one_is_theft() -> None:
    tokens, first = a_family()
    replaced = tokens.rotate(fresh())
    tokens.present(first)
    tokens.rotate(fresh())

    assert tokens.present(replaced) is Verdict.REUSED


def test_presenting_the_next_token_retires_the_one_before() -> None:
    tokens, first = a_family()
    following = tokens.rotate(fresh())

    assert tokens.present(following) is Verdict.GOOD
    assert tokens.present(first) is Verdict.REUSED


def test_a_promoted_token_may_be_presented_again_until_its_successor_is_confirmed() -> None:
    tokens, _ = a_family()
    following = tokens.rotate(fresh())
    tokens.present(following)
    tokens.rotate(fresh())

    assert tokens.present(following) is Verdict.GOOD


def test_confirming_kills_the_used_token_at_once() -> None:
    tokens, first = a_family()
    tokens.present(first)
    following = tokens.rotate(fresh())

    tokens.confirm()

    assert tokens.present(first) is Verdict.REUSED
    assert tokens.present(following) is Verdict.GOOD


def test_confirming_twice_or_with_nothing_to_confirm_changes_nothing() -> None:
    tokens, first = a_family()

    tokens.confirm()
    tokens.confirm()

    assert tokens.present(first) is Verdict.GOOD
    following = tokens.rotate(fresh())
    tokens.confirm()
    tokens.confirm()
    assert tokens.present(following) is Verdict.GOOD


def test_reuse_stays_reuse_however_often_it_is_tried() -> None:
    tokens, first = a_family()
    tokens.rotate(fresh())
    tokens.confirm()

    assert [tokens.present(first) for _ in range(3)] == [Verdict.REUSED] * 3


def test_only_the_latest_retired_tokens_are_remembered_and_older_ones_open_nothing() -> None:
    tokens, first = a_family()
    used = [first]
    for _ in range(RETIRED_MAX + 1):
        used.append(tokens.rotate(fresh()))
        tokens.confirm()

    verdicts = [tokens.present(token) for token in used]

    assert verdicts == [Verdict.UNKNOWN, *[Verdict.REUSED] * RETIRED_MAX, Verdict.GOOD]


def test_two_families_do_not_open_each_other() -> None:
    _, mine = a_family()
    theirs, _ = a_family()

    assert theirs.present(mine) is Verdict.UNKNOWN


def test_a_token_carries_256_bits_and_is_url_safe() -> None:
    tokens = ResumeTokens(RETIRED_MAX)
    entropy = bytes(range(223, 255))

    token = tokens.issue(entropy)

    assert len(entropy) * 8 == 256
    assert urlsafe_b64decode(token + "=") == entropy
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_a_token_fits_into_a_resume_frame() -> None:
    tokens, first = a_family()

    assert len(first) == len(tokens.rotate(fresh())) <= 64


def test_what_is_kept_of_a_token_is_not_the_token() -> None:
    tokens, first = a_family()
    following = tokens.rotate(fresh())
    tokens.confirm()

    kept = [getattr(tokens, slot) for slot in ResumeTokens.__slots__]

    for token in (first, following):
        assert token not in repr(kept)
        assert token.encode() not in repr(kept).encode()
        assert repr(hashlib.sha256(token.encode()).digest()) in repr(kept)


@given(st.lists(st.booleans(), max_size=30))
def test_whatever_answers_are_lost_the_client_gets_back_in_and_no_used_token_does(answers_arrive: list[bool]) -> None:
    tokens, held = a_family()
    dead: list[str] = []
    in_flight = ""

    for arrives in answers_arrive:
        assert tokens.present(held) is Verdict.GOOD
        if in_flight:
            dead.append(in_flight)
        in_flight = tokens.rotate(fresh())
        if arrives:
            tokens.confirm()
            dead.append(held)
            held, in_flight = in_flight, ""

    for token in dead:
        assert tokens.present(token) is not Verdict.GOOD
    for token in dead[-RETIRED_MAX:]:
        assert tokens.present(token) is Verdict.REUSED
    assert tokens.present(held) is Verdict.GOOD


TERMS = Terms(
    payload_bytes_max=1,
    window_messages_max=1,
    window_bytes_max=1,
    requests_in_flight_max=1,
    ping_s=1.0,
    silence_s=1.0,
    grace_s=1.0,
)


@pytest.mark.parametrize(
    "holder",
    [
        Resume("s-1", SECRET),
        Welcome("s-1", "ada", SECRET, Outcome("new"), TERMS, credential=SECRET),
        Identity("ada", credential=SECRET),
        Auth("guest", SECRET),
        Hello(auth=Auth("guest", SECRET), resume=Resume("s-1", SECRET)),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_no_secret_shows_when_its_holder_is_printed(holder: object) -> None:
    assert SECRET not in repr(holder)
    assert SECRET not in str(holder)
    assert SECRET not in f"{holder}"
    assert SECRET not in f"{[holder]}"


def test_no_token_shows_when_its_family_is_printed() -> None:
    tokens, first = a_family()
    following = tokens.rotate(fresh())

    for secret in (first, following, hashlib.sha256(first.encode()).hexdigest()):
        assert secret not in repr(tokens)
        assert secret not in str(tokens)


def test_a_secret_is_not_shown_by_rich_either() -> None:
    shown = pretty_repr([Auth("guest", "SECRET"), Resume("s", "SECRET")])

    assert "SECRET" not in shown
