"""One reason for every end of a connection, a session and a seat: the event has it, and the client hears it."""

import pytest

from holdfast import Reason
from holdfast.observability.reason_words import WORDS
from holdfast.schemas.events import (
    ConnectionRefused,
    Dropped,
    Ended,
    Event,
    PlayerLeft,
    Released,
    SignInFailed,
    SpectatorLeft,
)
from tests.observability.endings import CASES, Case
from tests.server.durability.bench import in_virtual_time

IDS = [f"{each.reason}-{each.event.__name__}-{each.play.__name__.strip('_')}" for each in CASES]


@pytest.mark.parametrize("row", CASES, ids=IDS)
@in_virtual_time
async def test_the_event_and_the_client_have_the_same_reason(row: Case) -> None:
    events, heard = await row.play()

    told = [getattr(event, "reason", None) for event in events if type(event) is row.event]
    assert told == [row.reason], "once, and for this reason"
    assert heard == row.heard


def test_every_reason_has_its_scene() -> None:
    assert {row.reason for row in CASES} == set(Reason)


def test_every_place_of_a_reason_has_its_words() -> None:
    for row in CASES:
        if row.event in {ConnectionRefused, SignInFailed}:
            continue
        words = WORDS[row.reason]
        said: dict[type[Event], str] = {Dropped: words.drop, Ended: words.end or words.seat, Released: words.end}
        said |= dict.fromkeys((PlayerLeft, SpectatorLeft), words.seat)
        assert said[row.event], row.reason
