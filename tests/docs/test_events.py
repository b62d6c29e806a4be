"""docs/guide/events.md is true: its table has every event with all of its fields, and its numbers are the defaults."""

import re
from pathlib import Path

import holdfast.events
from holdfast import Limits
from holdfast.schemas import events
from holdfast.schemas.events import Dropped, Event, RoomFailed
from holdfast.schemas.session import TimelineInfo
from tests.cases import every_case

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "events.md").read_text("utf-8")
ROWS = re.findall(r"^\| `([a-z_.]+)` \| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
BASES: set[type[Event]] = {events.Event, events.SessionEvent, events.RoomEvent}
KINDS: list[type[Event]] = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind.__module__ == events.__name__ and kind not in BASES
]


def test_the_table_has_every_event_with_all_of_its_fields() -> None:
    told = [(name, kind, re.findall(r"`(\w+)`", fields)) for name, kind, fields, _ in ROWS]

    assert told == [
        (str(kind.__struct_config__.tag), kind.__name__, [name for name in kind.__struct_fields__ if name != "at"])
        for kind in KINDS
    ]


def test_no_two_events_have_the_same_name() -> None:
    assert len({kind.__struct_config__.tag for kind in KINDS}) == len(KINDS)


def test_the_public_module_has_all_events_and_nothing_else() -> None:
    assert set(holdfast.events.__all__) == {kind.__name__ for kind in [*KINDS, *BASES]}
    assert holdfast.events.__all__ == sorted(holdfast.events.__all__)
    for name in holdfast.events.__all__:
        assert getattr(holdfast.events, name) is getattr(events, name)


@every_case("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_has_a_sentence_about_itself(kind: type[Event]) -> None:
    assert kind.__doc__
    assert kind.__doc__.strip().split("\n")[0].endswith(".")


def test_every_field_of_a_drop_is_explained() -> None:
    explained = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ", PAGE, re.MULTILINE)))

    of_all = {"at", "session", "player", "player_name", "connection", "reason"}
    assert explained == [name for name in Dropped.__struct_fields__ if name not in of_all]


def test_every_way_in_which_a_room_fails_is_explained() -> None:
    assert RoomFailed.__doc__ is not None
    for why in re.findall(r'"(\w+)"', RoomFailed.__doc__):
        assert f"`{why}`" in PAGE


def test_every_field_of_a_timeline_is_named() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `GET /v1/sessions/{id}/timeline`"))

    assert set(re.findall(r"`(\w+)`", row)) == set(TimelineInfo.__struct_fields__)


def test_the_numbers_are_the_defaults() -> None:
    limits = Limits()
    for claim in (
        f"{limits.events_waiting_max:,} events may wait for one handler (`Limits.events_waiting_max`)",
        f"`Limits.close_s` ({limits.close_s:g} s)",
        f"The last {limits.events_kept_max:,} are kept (`Limits.events_kept_max`)",
        f"its last {limits.timeline_max} events (`Limits.timeline_max`)",
        f"kept for {limits.timeline_kept_s / 60:g} minutes\n(`timeline_kept_s`)",
        f"the last {limits.timelines_kept_max:,} sessions (`timelines_kept_max`)",
    ):
        assert claim in PAGE, claim
