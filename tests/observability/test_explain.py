"""Why did this player drop? Every reason has words of its own, and these are they."""

from collections.abc import Sequence

import pytest

from holdfast.core.reasons import Reason
from holdfast.observability.explain import describe, explain
from holdfast.observability.reason_words import WORDS
from holdfast.schemas.events import Event, RoomCreated, SessionEvent
from tests.observability.explain_samples import (
    NOON,
    at_play,
    dropped,
    ended,
    joined,
    left,
    limited,
    opened,
    proven,
    released,
    restored,
    resumed,
    resynced,
    reused,
    rolled_back,
    superseded,
)

R = Reason

KEPT = "The seat is kept for 30 s from then, and they have not come back yet."
HERE = "The player has been connected since 12:00:00 UTC, over websocket."

# The connection is lost at 12:03:07.
DROPS = {
    R.DROPPED: "The connection broke without a word at 12:03:07 UTC; it had been heard 0.4 s before, and a round trip "
    "took 35 ms (the worst 240 ms).",
    R.SILENT: "The player's connection went silent: nothing was heard for 16.2 s (3 pings unanswered), so it was cut "
    "at 12:03:07 UTC.",
    R.SLOW: "The client read more slowly than the server wrote, so the connection was ended at 12:03:07 UTC (slow).",
    R.SEQUENCE: "The client lost count of what was sent (a gap, an acknowledgement of what was never sent, or more in "
    "flight than was agreed), so its connection was closed at 12:03:07 UTC (sequence).",
    R.BUSY: "The server could not save; it asked the client to come back later, and closed the connection at 12:03:07 "
    "UTC (busy).",
    R.STOPPING: "The server stopped; it asked the client to come back, and closed the connection at 12:03:07 UTC "
    "(stopping).",
    R.INTERNAL: "A fault of the server ended the connection at 12:03:07 UTC (internal).",
    R.DISCONNECTED: "The game or an operator closed the connection at 12:03:07 UTC (disconnected).",
    R.FLOODING: "The client said far more than is allowed, so its connection was closed at 12:03:07 UTC (flooding).",
    R.PROTOCOL: "The client broke the protocol, so its connection was closed at 12:03:07 UTC (protocol).",
    R.TOO_BIG: "The client sent a larger payload than is allowed, so its connection was closed at 12:03:07 UTC "
    "(too_big).",
}
# The session ends at 12:03:37.
ENDS = {
    R.SLOW: "The agent did not read its messages, so it was ended at 12:03:37 UTC (slow).",
    R.STOPPING: "The session was not one that is saved, so it ended with the server at 12:03:37 UTC (stopping).",
    R.MOVED: "Another server took the session's room over, and this one let the session go at 12:03:37 UTC (moved).",
    R.EXPIRED: "Its room could not be brought back from the store, so the session was given up at 12:03:37 UTC "
    "(expired).",
    R.TOKEN_REUSED: "A resume token came a second time: two parties had it, so the session was revoked at 12:03:37 UTC "
    "(token_reused).",
    R.SIGNED_OUT: "The player was signed out everywhere at 12:03:37 UTC (signed_out).",
    R.IDLE: "Nothing but signs of life came from the client for too long, so the session was ended at 12:03:37 UTC "
    "(idle).",
    R.TOO_OLD: "The session reached its greatest age, and was ended at 12:03:37 UTC (too_old).",
    R.BYE: "The player signed off at 12:03:37 UTC (bye).",
    R.KICKED: "The game or an operator ended the session at 12:03:37 UTC (kicked).",
    R.BANNED: "The player was banned at 12:03:37 UTC (banned).",
    R.SUPERSEDED: "The same player came again, and a newer session took over at 12:03:37 UTC (superseded).",
    R.GRACE_ENDED: "They did not come back in time, so the session ended at 12:03:37 UTC (grace_ended).",
}
# The seat is lost at 12:03:37, and the session goes on.
SEATS = {
    R.DROPPED: "the connection was lost, and this room does not hold seats",
    R.SLOW: "they did not read their messages",
    R.STOPPING: "the server stopped",
    R.MOVED: "another server has the session",
    R.TOKEN_REUSED: "the session was revoked",
    R.SIGNED_OUT: "the player was signed out everywhere",
    R.IDLE: "they did nothing for too long",
    R.TOO_OLD: "the session was too old",
    R.KICKED: "the game or an operator removed them",
    R.BANNED: "the player was banned",
    R.SUPERSEDED: "the same player took the seat with a newer session",
    R.LEFT: "they asked to leave",
    R.GRACE_ENDED: "they did not come back in time",
    R.ROUND_ENDED: "the round ended while they were away",
    R.ROOM_CLOSED: "the room ended",
    R.ROOM_FAILED: "the room was not well, and was ended",
    R.JOIN_FAILED: "the game refused them while they joined",
}
# A stranger is turned away: there is no session to explain, but the reason has words for whoever reads the events.
REFUSALS = {
    R.BUSY: "the server was full, could not save, or took too long to sign them in",
    R.STOPPING: "the server was stopping",
    R.INTERNAL: "a fault of the server, or of an authenticator",
    R.MOVED: "the session is on another server now",
    R.HELLO_TIMEOUT: "they did not say who they are in time",
    R.THROTTLED: "too many came at once, and they were asked to come back in a while",
    R.FLOODING: "they said far more than is allowed, then or a moment before",
    R.AUTH_FAILED: "what they signed in with proves nothing",
    R.EXPIRED: "there is no such session any more",
    R.TOKEN_REUSED: "the token that they came back with was used before",
    R.ROLLED_BACK: "the store is older than what the client has seen",
    R.REFUSED: "who they are was proven, but the game did not let them in",
    R.SIGNED_OUT: "the player was signed out everywhere",
    R.BANNED: "the player or the address is banned",
    R.PROTOCOL: "what they said is not the protocol",
    R.TOO_BIG: "their first payload was larger than a hello can be",
}


# Every reason


def test_no_reason_is_without_words_and_without_advice() -> None:
    assert set(WORDS) == set(Reason)
    for reason, words in WORDS.items():
        assert words.drop or words.end or words.seat or words.refusal, reason
        assert words.advice.endswith("."), reason


def test_the_tables_of_this_page_are_whole() -> None:
    assert set(DROPS) == {reason for reason, words in WORDS.items() if words.drop}
    assert set(ENDS) == {reason for reason, words in WORDS.items() if words.end}
    assert {reason: words.seat for reason, words in WORDS.items() if words.seat} == SEATS
    assert {reason: words.refusal for reason, words in WORDS.items() if words.refusal} == REFUSALS
    assert set(DROPS) | set(ENDS) | set(SEATS) | set(REFUSALS) == set(Reason)


def test_no_two_reasons_are_told_in_the_same_words() -> None:
    for sentences in (DROPS, ENDS, SEATS, REFUSALS):
        assert len(set(sentences.values())) == len(sentences)
    assert len({words.advice for words in WORDS.values()}) == len(WORDS)


@pytest.mark.parametrize(("reason", "sentence"), DROPS.items())
def test_a_drop_is_explained(reason: Reason, sentence: str) -> None:
    facts = {"pings": 3, "silent_s": 16.2} if reason is R.SILENT else {}
    found = explain(at_play(dropped(reason, **facts)))  # type: ignore[arg-type] # one is a number of pings

    assert found.verdict == f"{sentence} {KEPT}"
    assert (found.reason, found.advice) == (reason, WORDS[reason].advice)


@pytest.mark.parametrize(("reason", "sentence"), ENDS.items())
def test_an_end_is_explained(reason: Reason, sentence: str) -> None:
    found = explain(at_play(ended(reason)))

    assert found.verdict == sentence
    assert (found.reason, found.advice) == (reason, WORDS[reason].advice)


@pytest.mark.parametrize(("reason", "words"), SEATS.items())
def test_the_loss_of_a_seat_is_explained(reason: Reason, words: str) -> None:
    found = explain(at_play(left(reason)))

    assert found.verdict == f"{HERE} They have had no seat since 12:03:37 UTC: {words} ({reason})."
    assert (found.reason, found.advice) == (reason, WORDS[reason].advice)


# Whole stories

STORIES: dict[str, tuple[Sequence[Event], str]] = {
    "all is well": (at_play(), f"{HERE} Nothing has gone wrong."),
    "silent, and never back": (
        at_play(dropped(R.SILENT, pings=3, silent_s=16.2), left(R.GRACE_ENDED), ended(R.GRACE_ENDED)),
        f"{DROPS[R.SILENT]} The seat was kept for 30 s; they did not come back, so the session ended at 12:03:37 UTC "
        "(grace_ended).",
    ),
    "silent without a ping": (
        [opened(), dropped(R.SILENT, silent_s=16.0), ended(R.GRACE_ENDED)],
        "The player's connection went silent: nothing was heard for 16 s, so it was cut at 12:03:07 UTC. The session "
        "was kept for 30 s; they did not come back, so the session ended at 12:03:37 UTC (grace_ended).",
    ),
    "a page was closed": (
        at_play(dropped(code=1001)),
        "The client went away, as a page does that is left and an app that is closed, at 12:03:07 UTC; it had been "
        f"heard 0.4 s before, and a round trip took 35 ms (the worst 240 ms). {KEPT}",
    ),
    "a client closed in order": (
        at_play(dropped(code=1000)),
        "The client closed the connection without ending the session at 12:03:07 UTC; it had been heard 0.4 s before, "
        f"and a round trip took 35 ms (the worst 240 ms). {KEPT}",
    ),
    "back": (
        at_play(dropped(), resumed()),
        f"The player has been connected since 12:03:10 UTC, over websocket. {DROPS[R.DROPPED]} They were back after "
        "3.2 s; 5 messages were sent again, and nothing was lost.",
    ),
    "back with one message": (
        at_play(dropped(R.DISCONNECTED), resumed(replayed=1)),
        f"The player has been connected since 12:03:10 UTC, over websocket. {DROPS[R.DISCONNECTED]} They were back "
        "after 3.2 s; 1 message was sent again, and nothing was lost.",
    ),
    "back after long": (
        at_play(dropped(R.DISCONNECTED), resumed(replayed=0, away_s=1800.0)),
        f"The player has been connected since 12:03:10 UTC, over websocket. {DROPS[R.DISCONNECTED]} They were back "
        "after 30 min; no message had to be sent again, and nothing was lost.",
    ),
    "resynced": (
        at_play(resynced(), dropped(R.SLOW), resumed("resynced", 0)),
        f"The player has been connected since 12:03:10 UTC, over websocket. {DROPS[R.SLOW]} They were back after 3.2 "
        "s, and were sent the present state: not every message could be kept.",
    ),
    "a newer connection": (
        at_play(superseded(), resumed(replayed=0, away_s=0.0)),
        "The player has been connected since 12:03:10 UTC, over websocket. A newer connection took over at 12:03:07 "
        "UTC, before the old one was known to be gone.",
    ),
    "only the last drop counts": (
        at_play(dropped(R.SILENT), resumed(), dropped(R.DISCONNECTED)),
        f"{DROPS[R.DISCONNECTED]} {KEPT}",
    ),
    "kicked while away": (
        at_play(dropped(), left(R.KICKED, "away too long"), ended(R.KICKED, "away too long")),
        f"{DROPS[R.DROPPED]} The game or an operator ended the session at 12:03:37 UTC (kicked): “away too long”.",
    ),
    "kicked out of the room": (
        at_play(left(R.KICKED, "be nice")),
        f"{HERE} They have had no seat since 12:03:37 UTC: the game or an operator removed them (kicked): “be nice”.",
    ),
    "a room that holds no seats": (
        at_play(dropped(), left(R.DROPPED)),
        f"{DROPS[R.DROPPED]} The session is kept for 30 s from then, and they have not come back yet.",
    ),
    "the server stopped": (at_play(dropped(R.STOPPING), ended(R.STOPPING)), ENDS[R.STOPPING]),
    "the server stopped, and the session is saved": (
        at_play(dropped(R.STOPPING), released(R.STOPPING)),
        "The session was left in the store for the next server when this one stopped at 12:03:37 UTC (stopping).",
    ),
    "another server": (at_play(released(R.MOVED)), ENDS[R.MOVED]),
    "from the store": ([restored()], f"The session came back from the store at 12:00:00 UTC. {KEPT}"),
    "from the store, without a seat": (
        [restored("")],
        "The session came back from the store at 12:00:00 UTC. The session is kept for 30 s from then, and they have "
        "not come back yet.",
    ),
    "from the store, and never back": (
        [restored(), left(R.GRACE_ENDED), ended(R.GRACE_ENDED)],
        "The session came back from the store at 12:00:00 UTC. The seat was kept for 30 s; they did not come back, so "
        "the session ended at 12:03:37 UTC (grace_ended).",
    ),
    "from the store, and back": (
        [restored(), resumed()],
        "The player has been connected since 12:03:10 UTC, over websocket. The session came back from the store at "
        "12:00:00 UTC, and they came back to it.",
    ),
    "released here, and here again": (
        [*at_play(dropped(R.STOPPING), released(R.STOPPING)), restored()],
        f"The session came back from the store at 12:00:00 UTC. {KEPT}",
    ),
    "too much": (
        at_play(limited(3), limited(), dropped(R.FLOODING)),
        f"{DROPS[R.FLOODING]} {KEPT} They reached the limit messages_per_s 4 times.",
    ),
    "a reason of the future": (
        at_play(dropped("bored"), ended("very_bored")),
        "The connection ended at 12:03:07 UTC (bored). The session ended at 12:03:37 UTC (very_bored).",
    ),
}


@pytest.mark.parametrize(("events", "verdict"), STORIES.values(), ids=STORIES)
def test_a_story_is_told_in_plain_words(events: Sequence[Event], verdict: str) -> None:
    assert explain(events).verdict == verdict


def test_who_did_not_come_back_is_advised_about_the_drop_and_about_the_grace() -> None:
    found = explain(at_play(dropped(R.SILENT), left(R.GRACE_ENDED), ended(R.GRACE_ENDED)))

    assert found.reason is R.GRACE_ENDED
    assert found.advice == f"{WORDS[R.SILENT].advice} {WORDS[R.GRACE_ENDED].advice}"


@pytest.mark.parametrize("events", [at_play(), at_play(dropped("bored")), [restored()]])
def test_where_nothing_is_wrong_or_nothing_is_known_there_is_no_advice(events: Sequence[Event]) -> None:
    found = explain(events)

    assert (found.reason, found.advice) == (None, "")


# One entry

ENTRIES: list[tuple[Event, str]] = [
    (opened(), "signed in over websocket from 203.0.113.7:51234"),
    (opened("agent", peer=""), "an agent was opened"),
    (opened(is_reset=True, peer=""), "signed in anew, the session they came back to was gone, over websocket"),
    (proven(), "proved who they are (guest)"),
    (proven("mod", "vip"), "proved who they are (guest) as mod, vip"),
    (joined(), "took a seat in room r (arena)"),
    (
        dropped(),
        "lost the connection (dropped): last heard 0.4 s before; round trip 35 ms, last 41 ms, worst 240 ms; code "
        "1006; kept for 30 s",
    ),
    (
        dropped(R.SILENT, pings=1, silent_s=16.2),
        "lost the connection (silent): last heard 16.2 s before; 1 ping unanswered; round trip 35 ms, last 41 ms, "
        "worst 240 ms; kept for 30 s",
    ),
    (resumed(), "came back after 3.2 s over websocket; 5 messages were sent again"),
    (resumed("resynced"), "came back after 3.2 s over websocket; got the present state"),
    (resumed(replayed=0, away_s=0.0), "came back over websocket; no message had to be sent again"),
    (superseded(), "a newer connection took over from c1"),
    (resynced(), "more waited for the client than may be kept: it gets the present state"),
    (rolled_back(), "knows more than the store, which is older: resynced"),
    (reused(), "a used token was presented from 198.51.100.1:40000: the session is revoked"),
    (limited(), "reached the limit messages_per_s once: warned"),
    (limited(4), "reached the limit messages_per_s 4 times: warned"),
    (left(R.LEFT), "has no seat in room r any more: they asked to leave (left)"),
    (left("bored", "yawn"), "has no seat in room r any more: bored: “yawn”"),
    (restored(), "came back from the store with a seat in room r; kept for 30 s"),
    (restored(""), "came back from the store; kept for 30 s"),
    (released(R.MOVED), "this server has let the session go (moved)"),
    (ended(R.KICKED, "spam"), "the session ended (kicked): “spam”"),
]


@pytest.mark.parametrize(("event", "words"), ENTRIES, ids=[words for _, words in ENTRIES])
def test_an_event_is_described(event: Event, words: str) -> None:
    assert describe(event) == words


def test_every_event_of_a_session_is_described() -> None:
    kinds = {kind for kind in SessionEvent.__subclasses__() if kind.__module__ == SessionEvent.__module__}

    assert kinds <= {type(event) for event, _ in ENTRIES}


def test_what_belongs_to_no_session_is_told_by_its_name() -> None:
    assert describe(RoomCreated(room="r", kind="arena", at=NOON)) == "room.created"
