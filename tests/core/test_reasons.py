from holdfast.core.reasons import CLOSE_CODES, Advice, Reason, advice
from tests.cases import every_case

RESUME = range(4000, 4100)
SIGN_IN = range(4100, 4200)
STOP = range(4200, 4300)

# Why a seat alone ends: the session and its connection go on, so there is nothing to close.
SEAT_ONLY = {
    Reason.LEFT,
    Reason.GRACE_ENDED,
    Reason.ROUND_ENDED,
    Reason.ROOM_CLOSED,
    Reason.ROOM_FAILED,
    Reason.JOIN_FAILED,
    Reason.AGENT_FAILED,
    Reason.SEATED,
}
# What a client should do about each close, from what the reason means.
EXPECTED: dict[Reason, Advice] = {
    Reason.DROPPED: Advice.RESUME,
    Reason.SILENT: Advice.RESUME,
    Reason.SLOW: Advice.RESUME,
    Reason.SEQUENCE: Advice.RESUME,
    Reason.BUSY: Advice.RESUME,
    Reason.STOPPING: Advice.RESUME,
    Reason.INTERNAL: Advice.RESUME,
    Reason.DISCONNECTED: Advice.RESUME,
    Reason.MOVED: Advice.RESUME,
    Reason.HELLO_TIMEOUT: Advice.RESUME,
    Reason.THROTTLED: Advice.RESUME,
    Reason.FLOODING: Advice.RESUME,
    Reason.AUTH_FAILED: Advice.SIGN_IN,
    Reason.EXPIRED: Advice.SIGN_IN,
    Reason.TOKEN_REUSED: Advice.SIGN_IN,
    Reason.REFUSED: Advice.SIGN_IN,
    Reason.SIGNED_OUT: Advice.SIGN_IN,
    Reason.TOO_OLD: Advice.SIGN_IN,
    Reason.ROLLED_BACK: Advice.SIGN_IN,
    Reason.BANNED: Advice.STOP,
    Reason.IDLE: Advice.STOP,
    Reason.BYE: Advice.STOP,
    Reason.KICKED: Advice.STOP,
    Reason.SUPERSEDED: Advice.STOP,
    Reason.PROTOCOL: Advice.STOP,
    Reason.TOO_BIG: Advice.STOP,
}


def test_every_reason_closes_a_connection_or_ends_a_seat_only() -> None:
    assert set(EXPECTED) | SEAT_ONLY == set(Reason)
    assert set(EXPECTED) & SEAT_ONLY == set()


def test_every_reason_that_can_close_has_a_code_and_no_other_has() -> None:
    assert set(CLOSE_CODES) == set(EXPECTED)


def test_no_two_reasons_share_a_code() -> None:
    assert len(set(CLOSE_CODES.values())) == len(CLOSE_CODES)


@every_case("reason", CLOSE_CODES)
def test_every_code_is_in_exactly_one_range(reason: Reason) -> None:
    code = CLOSE_CODES[reason]

    assert [code in known for known in (RESUME, SIGN_IN, STOP)].count(True) == 1


@every_case(("reason", "expected"), EXPECTED.items())
def test_the_code_of_a_reason_tells_the_client_what_to_do(reason: Reason, expected: Advice) -> None:
    assert advice(CLOSE_CODES[reason]) is expected


def test_a_code_from_the_future_is_understood_by_its_range() -> None:
    assert {advice(code) for code in RESUME} == {Advice.RESUME}
    assert {advice(code) for code in SIGN_IN} == {Advice.SIGN_IN}
    assert {advice(code) for code in STOP} == {Advice.STOP}


@every_case("code", [1001, 1005, 1006, 1011, 1012, 1013, 1014, 1015])
def test_a_link_that_broke_by_accident_is_resumed(code: int) -> None:
    assert advice(code) is Advice.RESUME


@every_case("code", [1000, 1002, 1003, 1007, 1008, 1009, 1010])
def test_a_client_that_would_only_earn_the_same_close_again_stops(code: int) -> None:
    assert advice(code) is Advice.STOP


def test_whatever_else_a_peer_sends_is_taken_for_a_broken_link() -> None:
    meant = {*SIGN_IN, *STOP, 1000, 1002, 1003, 1007, 1008, 1009, 1010}

    assert {code for code in range(65_536) if advice(code) is not Advice.RESUME} == meant


def test_the_codes_the_protocol_fixes_are_these() -> None:
    assert CLOSE_CODES[Reason.SEQUENCE] == 4002
    assert CLOSE_CODES[Reason.MOVED] == 4007
    assert CLOSE_CODES[Reason.SLOW] == 4008


def test_a_reason_on_the_wire_is_its_word() -> None:
    assert f"{Reason.TOKEN_REUSED}" == "token_reused"
    assert all(reason.value == reason.name.lower() for reason in Reason)
