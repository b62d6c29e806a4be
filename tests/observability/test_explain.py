"""Why did this player drop? Every reason has words of its own, and these are they."""

from collections.abc import Sequence

import pytest

from holdfast.core.reasons import Reason
from holdfast.observability.explain import describe, explain
from holdfast.observability.reason_words import WORDS
from holdfast.schemas.events import (
    Event,
    Released,
    Renamed,
    Restored,
    RoleGranted,
    RoleRevoked,
    RoomCreated,
    SessionArrived,
    SessionEvent,
    SpectatorJoined,
    SpectatorLeft,
)
from tests.observability.explain_samples import (
    NOON,
    WHO,
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
    R.DROPPED: "The connection was lost without a close at 12:03:07 UTC; it was last heard 0.4 s before, and a round "
    "trip took 35 ms (the worst 240 ms).",
    R.SILENT: "The player's connection went silent: nothing was heard for 16.2 s (3 pings unanswered), so it was cut "
    "at 12:03:07 UTC.",
}


def of_drop(reason: Reason) -> str:
    return DROPS.get(reason) or f"{WORDS[reason].drop} at 12:03:07 UTC ({reason})."


def of_end(reason: Reason) -> str:
    """The session ends at 12:03:37."""
    return f"{WORDS[reason].end} at 12:03:37 UTC ({reason})."


# Every reason


def test_every_reason_has_words_and_advice_unless_it_only_refuses_connections() -> None:
    refuses_only = {R.HELLO_TIMEOUT, R.THROTTLED, R.AUTH_FAILED, R.REFUSED, R.ROLLED_BACK}

    assert set(WORDS) == set(Reason) - refuses_only
    for reason, words in WORDS.items():
        assert words.drop or words.end or words.seat, reason
        assert words.advice.endswith("."), reason


def test_no_two_reasons_have_the_same_words() -> None:
    for part in zip(*WORDS.values(), strict=True):
        said = [words for words in part if words]
        assert len(set(said)) == len(said)


def test_every_drop_end_and_lost_seat_is_explained_with_its_advice() -> None:
    for reason, words in WORDS.items():
        if words.drop:
            facts = {"pings": 3, "silent_s": 16.2} if reason is R.SILENT else {}
            drop = explain(at_play(dropped(reason, **facts)))  # type: ignore[arg-type] # one is a number of pings
            assert (drop.verdict, drop.reason, drop.advice) == (f"{of_drop(reason)} {KEPT}", reason, words.advice)
        if words.end:
            end = explain(at_play(ended(reason)))
            assert (end.verdict, end.reason, end.advice) == (of_end(reason), reason, words.advice)
        if words.seat:
            seat = explain(at_play(left(reason)))
            verdict = f"{HERE} They have had no seat since 12:03:37 UTC: {words.seat} ({reason})."
            assert (seat.verdict, seat.reason, seat.advice) == (verdict, reason, words.advice)


# Whole stories

STORIES: dict[str, tuple[Sequence[Event], str]] = {
    "all is well": (at_play(), f"{HERE} Nothing has gone wrong."),
    "silent, and never back": (
        at_play(dropped(R.SILENT, pings=3, silent_s=16.2), left(R.GRACE_ENDED), ended(R.GRACE_ENDED)),
        f"{of_drop(R.SILENT)} The seat was kept for 30 s; they did not come back, so the session ended at 12:03:37 UTC "
        "(grace_ended).",
    ),
    "silent without a ping": (
        [opened(), dropped(R.SILENT, silent_s=16.0), ended(R.GRACE_ENDED)],
        "The player's connection went silent: nothing was heard for 16 s, so it was cut at 12:03:07 UTC. The session "
        "was kept for 30 s; they did not come back, so the session ended at 12:03:37 UTC (grace_ended).",
    ),
    "a page was closed": (
        at_play(dropped(code=1001)),
        "The client's page or app was closed at 12:03:07 UTC; it was last "
        f"heard 0.4 s before, and a round trip took 35 ms (the worst 240 ms). {KEPT}",
    ),
    "a client closed in order": (
        at_play(dropped(code=1000)),
        "The client closed the connection without ending the session at 12:03:07 UTC; it was last heard 0.4 s before, "
        f"and a round trip took 35 ms (the worst 240 ms). {KEPT}",
    ),
    "back": (
        at_play(dropped(), resumed()),
        f"The player has been connected since 12:03:10 UTC, over websocket. {of_drop(R.DROPPED)} They were back after "
        "3.2 s; 5 messages were sent again, and nothing was lost.",
    ),
    "back with one message": (
        at_play(dropped(R.DISCONNECTED), resumed(replayed=1)),
        f"The player has been connected since 12:03:10 UTC, over websocket. {of_drop(R.DISCONNECTED)} They were back "
        "after 3.2 s; 1 message was sent again, and nothing was lost.",
    ),
    "back after long": (
        at_play(dropped(R.DISCONNECTED), resumed(replayed=0, away_s=1800.0)),
        f"The player has been connected since 12:03:10 UTC, over websocket. {of_drop(R.DISCONNECTED)} They were back "
        "after 30 min; no message had to be sent again, and nothing was lost.",
    ),
    "resynced": (
        at_play(resynced(), dropped(R.SLOW), resumed("resynced", 0)),
        f"The player has been connected since 12:03:10 UTC, over websocket. {of_drop(R.SLOW)} They were back after 3.2 "
        "s, and were sent the present state: not every message could be kept.",
    ),
    "a newer connection": (
        at_play(superseded(), resumed(replayed=0, away_s=0.0)),
        "The player has been connected since 12:03:10 UTC, over websocket. A newer connection took over at 12:03:07 "
        "UTC, before the old one was known to be gone.",
    ),
    "only the last drop counts": (
        at_play(dropped(R.SILENT), resumed(), dropped(R.DISCONNECTED)),
        f"{of_drop(R.DISCONNECTED)} {KEPT}",
    ),
    "kicked while away": (
        at_play(dropped(), left(R.KICKED, "away too long"), ended(R.KICKED, "away too long")),
        f"{of_drop(R.DROPPED)} The game or an operator ended the session at 12:03:37 UTC (kicked): “away too long”.",
    ),
    "kicked out of the room": (
        at_play(left(R.KICKED, "be nice")),
        f"{HERE} They have had no seat since 12:03:37 UTC: the game or an operator removed them (kicked): “be nice”.",
    ),
    "a room that holds no seats": (
        at_play(dropped(), left(R.DROPPED)),
        f"{of_drop(R.DROPPED)} The session is kept for 30 s from then, and they have not come back yet.",
    ),
    "the server stopped": (at_play(dropped(R.STOPPING), ended(R.STOPPING)), of_end(R.STOPPING)),
    "the server stopped, and the session is saved": (
        at_play(dropped(R.STOPPING), released(R.STOPPING)),
        "The session was left in the store for the next server when this one stopped at 12:03:37 UTC (stopping).",
    ),
    "another server": (at_play(released(R.MOVED)), of_end(R.MOVED)),
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
        f"{of_drop(R.FLOODING)} {KEPT} They reached the limit messages_per_s 4 times.",
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
    (opened(is_reset=True, peer=""), "signed in again (their session was gone) over websocket"),
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
    (
        Renamed(session="s", player="ada", old_name="Ada", new_name="Eve", at=NOON),
        "changed their name from 'Ada' to 'Eve'",
    ),
    (resynced(), "more messages waited for the client than may be kept: it gets the present state"),
    (rolled_back(), "knows more than the store, which is older: resynced"),
    (reused(), "a used token was presented from 198.51.100.1:40000: the session is revoked"),
    (limited(), "reached the limit messages_per_s once: warned"),
    (limited(4), "reached the limit messages_per_s 4 times: warned"),
    (left(R.LEFT), "lost the seat in room r: they asked to leave (left)"),
    (SpectatorJoined(**WHO, room="r", kind="arena", at=NOON), "watches room r (arena) as a spectator"),
    (
        SpectatorLeft(**WHO, room="r", reason=R.SEATED, at=NOON),
        "watches room r no more: they have a seat in the room now (seated)",
    ),
    (
        Restored(session=WHO["session"], player=WHO["player"], grace_s=30.0, spectating="r", at=NOON),
        "came back from the store as a spectator of room r; kept for 30 s",
    ),
    (
        Restored(
            session=WHO["session"], player=WHO["player"], grace_s=30.0, room="r", node="b", has_died=True, at=NOON
        ),
        "its node b died; taken over with a seat in room r; kept for 30 s",
    ),
    (
        Restored(session=WHO["session"], player=WHO["player"], grace_s=30.0, node="b", at=NOON),
        "taken over from the node b; kept for 30 s",
    ),
    (
        SessionArrived(**WHO, node="b", room="r", at=NOON),
        "came from the node b with its connection, with a seat in room r",
    ),
    (Released(**WHO, reason=R.MOVED, node="b", at=NOON), "moved to the node b"),
    (left("bored", "yawn"), "lost the seat in room r: bored: “yawn”"),
    (restored(), "came back from the store with a seat in room r; kept for 30 s"),
    (restored(""), "came back from the store; kept for 30 s"),
    (released(R.MOVED), "this server released the session (moved)"),
    (ended(R.KICKED, "spam"), "the session ended (kicked): “spam”"),
    (RoleGranted(player="ada", role="gm", by="ops", at=NOON), "was granted the role gm by ops"),
    (RoleRevoked(player="ada", role="gm", at=NOON), "lost the role gm"),
    (
        RoleRevoked(player="ada", role="gm", is_reset=True, at=NOON),
        "lost the role gm: roles were reset to those of the sign-in",
    ),
]


@pytest.mark.parametrize(("event", "words"), ENTRIES, ids=[words for _, words in ENTRIES])
def test_an_event_is_described(event: Event, words: str) -> None:
    assert describe(event) == words


def test_every_event_of_a_session_is_described() -> None:
    kinds = {kind for kind in SessionEvent.__subclasses__() if kind.__module__ == SessionEvent.__module__}

    assert kinds <= {type(event) for event, _ in ENTRIES}


def test_what_belongs_to_no_session_is_told_by_its_name() -> None:
    assert describe(RoomCreated(room="r", kind="arena", at=NOON)) == "room.created"
