"""A session's timeline: what happened to it, bounded, small, and kept for a while after its end."""

import gc
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from holdfast import Limits
from holdfast.observability.timeline import Timelines
from holdfast.schemas.events import (
    Authenticated,
    Dropped,
    Ended,
    Event,
    LimitExceeded,
    PlayerJoined,
    PlayerLeft,
    Released,
    Restored,
    Resumed,
    RoomCreated,
    SessionEvent,
    SessionOpened,
    SignInFailed,
    TokenReused,
)
from tests.cases import every_case

DAY_ONE = 1_800_000_000.0


class Clock:
    """The time of a node."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def opened(session: str = "s", player: str = "ada") -> SessionOpened:
    return SessionOpened(
        session=session,
        player=player,
        connection="kX3dE5f7-123",
        transport="websocket",
        peer="203.0.113.7:51234",
        at=DAY_ONE,
    )


def dropped(session: str = "s", player: str = "ada", at: float = DAY_ONE) -> Dropped:
    return Dropped(
        session=session,
        player=player,
        connection="kX3dE5f7-123",
        reason="silent",
        grace_s=30.0,
        silent_s=16.204,
        pings=3,
        latency_ms=35.123,
        last_ms=40.2,
        worst_ms=240.111,
        at=at,
    )


def ended(session: str = "s", player: str = "ada", reason: str = "kicked") -> Ended:
    return Ended(session=session, player=player, reason=reason, at=DAY_ONE + 60)


def flooded(times: int = 1, limit: str = "messages_per_s", session: str = "s", action: str = "warned") -> LimitExceeded:
    return LimitExceeded(limit=limit, action=action, times=times, session=session, player="ada", at=DAY_ONE)


def timelines(clock: Clock | None = None, **limits: float) -> Timelines:
    return Timelines(Limits(**limits), clock or Clock())  # type: ignore[arg-type] # whole numbers where they must be


def events_of(kept: Timelines, session: str = "s") -> list[Event]:
    found = kept.get(session, "ada")
    assert found is not None
    return found.events


# What is kept


def test_what_happened_to_a_session_is_read_as_it_was() -> None:
    kept = timelines()
    happened: list[Event] = [
        opened(),
        Authenticated(session="s", player="ada", scheme="guest", roles=["mod", "vip"], at=DAY_ONE + 1),
        PlayerJoined(session="s", player="ada", room="r", kind="arena", at=DAY_ONE + 2),
        dropped(at=DAY_ONE + 3.25),
        Resumed(
            session="s",
            player="ada",
            connection="c2",
            transport="tcp",
            outcome="resumed",
            replayed=2,
            away_s=1.5,
            at=DAY_ONE + 4,
        ),
        flooded(3),
        TokenReused(session="s", player="ada", peer="198.51.100.1:1", at=DAY_ONE + 5),
    ]

    for event in happened:
        kept.record(event)

    assert events_of(kept) == happened


def test_every_kind_of_event_of_a_session_can_be_kept() -> None:
    examples: dict[Any, object] = {str: "x", float: 1.5, float | None: 1.5, int: 7, bool: True, list[str]: ["a"]}
    begin_or_end = {SessionOpened, Restored, Ended, Released}
    kept = timelines()
    kept.record(opened())
    made: list[Event] = []
    for kind in SessionEvent.__subclasses__():
        if kind.__module__.startswith("holdfast.") and kind not in begin_or_end:
            said: dict[str, Any] = {field.name: examples[field.type] for field in fields(kind)}
            # Kept once for all of them, by the session.
            said |= {"session": "s", "player": "ada", "player_name": ""}
            made.append(kind(**said))
            kept.record(made[-1])

    assert len(made) >= 8
    assert events_of(kept)[1:] == made


@pytest.mark.parametrize(
    "event",
    [
        dropped("unknown"),
        flooded(session=""),
        RoomCreated(room="r", kind="arena"),
        SignInFailed(scheme="guest", reason="auth_failed"),
    ],
    ids=lambda event: event.name,
)
def test_what_belongs_to_no_session_that_is_known_is_not_kept(event: Event) -> None:
    kept = timelines()

    kept.record(event)

    assert kept.get(getattr(event, "session", ""), "") is None


def test_long_texts_are_cut() -> None:
    kept = timelines()
    kept.record(opened())
    kept.record(Ended(session="s", player="ada", reason="bye", message="x" * 1000))

    (*_, end) = events_of(kept)

    assert isinstance(end, Ended)
    assert end.message == "x" * 199 + "…"


# Bounds


@every_case("most", [1, 2, 3, 4, 5, 64])
def test_no_more_is_kept_than_the_limit_and_it_is_the_newest(most: int) -> None:
    kept = timelines(timeline_max=most)
    kept.record(opened())

    for number in range(200):
        kept.record(dropped(at=DAY_ONE + number))
        found = kept.get("s")
        assert found is not None
        assert 1 <= len(found.events) <= most
        assert found.forgotten + len(found.events) == number + 2, "what is missing is counted"
        assert found.events[-1].at == DAY_ONE + number

    assert [event.at for event in events_of(kept)] == sorted(event.at for event in events_of(kept))


def test_a_timeline_can_be_switched_off() -> None:
    kept = timelines(timeline_max=0)

    kept.record(opened())
    kept.record(ended())

    assert kept.get("s") is None
    assert kept.last_of("ada") is None


def test_a_limit_that_is_exceeded_again_and_again_is_one_entry() -> None:
    kept = timelines(timeline_max=8)
    kept.record(opened())
    kept.record(dropped())

    for _ in range(1000):
        kept.record(flooded(2))
        kept.record(flooded(limit="bytes_per_s"))
        kept.record(flooded(limit="bytes_per_s", action="disconnected"))
    kept.record(dropped())
    kept.record(flooded())

    assert floods_in(kept) == [
        "session.opened",
        "session.dropped",
        ("messages_per_s", "warned", 2000),
        ("bytes_per_s", "warned", 1000),
        ("bytes_per_s", "disconnected", 1000),
        "session.dropped",
        ("messages_per_s", "warned", 1),
    ]


def floods_in(kept: Timelines) -> list[str | tuple[str, str, int]]:
    return [
        (event.limit, event.action, event.times) if isinstance(event, LimitExceeded) else event.name
        for event in events_of(kept)
    ]


def _bytes_each(drops: int, sessions: int = 500) -> float:
    """What a timeline costs with so many drops in it, and whatever it is kept in."""
    kept = timelines()
    names = [f"session-{number:08}" for number in range(sessions)]
    tracemalloc.start()
    try:
        for name in names:
            kept.record(opened(name))
            kept.record(Authenticated(session=name, player="ada", scheme="guest"))
            kept.record(PlayerJoined(session=name, player="ada", room="3q2-7wAAAAAA", kind="arena"))
            for _ in range(drops):
                kept.record(dropped(name))
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == sessions
    return size / sessions


def test_the_timeline_of_a_session_that_is_held_costs_a_few_hundred_bytes() -> None:
    assert _bytes_each(1) < 400


def test_a_full_timeline_costs_a_few_kilobytes() -> None:
    assert _bytes_each(200, sessions=20) < 6 * 1024


# After the end


def test_the_timeline_of_a_session_that_ended_is_kept_for_a_while() -> None:
    clock = Clock()
    kept = timelines(clock, timeline_kept_s=900.0)
    kept.record(opened())
    kept.record(ended())

    found = kept.get("s")
    clock.now = 899.0
    just_in_time = kept.get("s")
    clock.now = 900.0

    assert found is not None
    assert just_in_time is not None
    assert (found.status, found.player, len(found.events)) == ("ended", "ada", 2)
    assert kept.get("s") is None
    assert kept.last_of("ada") is None


def test_no_more_of_them_are_kept_than_the_limit_and_the_oldest_give_way() -> None:
    kept = timelines(timelines_kept_max=3)
    for number in range(10):
        kept.record(opened(f"s{number}", f"p{number}"))
        kept.record(ended(f"s{number}", f"p{number}"))

    assert [number for number in range(10) if kept.get(f"s{number}") is not None] == [7, 8, 9]
    assert [number for number in range(10) if kept.last_of(f"p{number}") is not None] == [7, 8, 9]


def test_none_are_kept_if_the_limit_says_so() -> None:
    kept = timelines(timelines_kept_max=0)
    kept.record(opened())
    kept.record(ended())

    assert kept.get("s") is None


def test_what_follows_the_end_is_still_written_down() -> None:
    kept = timelines()
    kept.record(opened())
    kept.record(ended(reason="bye"))
    left = PlayerLeft(session="s", player="ada", room="r", reason="left", at=DAY_ONE + 61)

    kept.record(left)

    assert events_of(kept)[-1] == left


def test_the_last_session_of_a_player_is_known_by_the_player() -> None:
    kept = timelines()
    for session in ("s1", "s2"):
        kept.record(opened(session))
    kept.record(ended("s2"))
    kept.record(ended("s1"))

    assert kept.last_of("ada") == "s1"
    assert kept.last_of("bob") is None


def test_a_session_that_is_back_after_it_was_released_goes_on_with_its_timeline() -> None:
    kept = timelines()
    kept.record(opened())
    kept.record(Released(session="s", player="ada", reason="moved"))
    released = kept.get("s")
    restored = Restored(session="s", player="ada", grace_s=30.0, at=DAY_ONE + 5)

    kept.record(restored)
    back = kept.get("s", "ada")

    assert released is not None
    assert back is not None
    assert (released.status, back.status) == ("released", "live")
    assert [event.name for event in back.events] == ["session.opened", "session.released", "session.restored"]
    assert kept.last_of("ada") is None, "it is not one of the past"


def test_a_session_from_the_store_begins_with_that() -> None:
    kept = timelines()
    kept.record(Restored(session="s", player="ada", grace_s=30.0, room="r", at=DAY_ONE))

    assert [event.name for event in events_of(kept)] == ["session.restored"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("dlejr")), max_size=200))
def test_nothing_is_left_of_sessions_that_nobody_may_ask_for_any_more(steps: list[tuple[str, str]]) -> None:
    clock = Clock()
    kept = timelines(clock, timeline_max=4, timelines_kept_max=2, timeline_kept_s=10.0)
    live: set[str] = set()
    for session, what in steps:
        clock.now += 1.0
        match what:
            case "j":
                kept.record(Restored(session=session, player="ada", grace_s=30.0))
                live.add(session)
            case "d":
                kept.record(dropped(session))
            case "l":
                kept.record(flooded(session=session))
            case "e":
                kept.record(ended(session))
                live.discard(session)
            case _:
                kept.record(Released(session=session, player="ada", reason="moved"))
                live.discard(session)

        assert len(kept) <= len(live) + 2
        assert {each for each in "abc" if (found := kept.get(each)) is not None and found.status == "live"} == live
    clock.now += 10.0
    assert kept.last_of("ada") is None
    assert len(kept) == len(live)
