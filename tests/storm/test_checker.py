"""The checker finds what the storm is there to find: each test spoils a good history in one way."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storm.checker import check
from tests.storm.game import linked
from tests.storm.story import OPS, ROOM, Story

Spoil = Callable[[Story], object]


def found(spoil: Spoil, folder: Path) -> set[str]:
    story = Story()
    spoil(story)
    return {violation.kind for violation in check(story.write(folder)).violations}


def test_a_history_in_which_all_is_right_is_found_to_be_right(tmp_path: Path) -> None:
    findings = check(Story().write(tmp_path))

    assert findings.violations == []
    assert (findings.counts["up"], findings.counts["down"]) == (2 * OPS, 2 * len(Story().events))
    assert (findings.counts["effects"], findings.counts["rings"]) == (4, 4)
    assert (findings.counts["records"], findings.counts["links"]) == (10, 9)
    assert [(back.first_s, back.last_s) for back in findings.returns] == [(1.0, 1.5)]


# Operations


def forget_the_last(story: Story) -> None:
    story.tally("c0", range(1, OPS), range(10, OPS, 10))


def apply_one_more(story: Story) -> None:
    story.tally("c0", range(1, OPS + 2), range(10, OPS + 1, 10))


def apply_one_for_another(story: Story) -> None:
    line = next(line for line in story.final if line[:3] == ["tally", ROOM, "c0"])
    line[4] += 1


def apply_out_of_order(story: Story) -> None:
    next(line for line in story.final if line[0] == "tally")[5].append(3)


def apply_in_two_rooms(story: Story) -> None:
    story.clients["c1"] += [["joined", 6.0, "lair"], ["got", 6.0, 1, "op", "c0", 3, 5, linked(0, 1, "op", "c0", 3, 5)]]


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (forget_the_last, "lost"),
        (apply_one_more, "duplicated"),
        (apply_one_for_another, "lost"),
        (apply_out_of_order, "reordered"),
        (apply_in_two_rooms, "duplicated"),
    ],
)
def test_an_operation_that_is_lost_doubled_or_reordered_is_found(spoil: Spoil, kind: str, tmp_path: Path) -> None:
    assert kind in found(spoil, tmp_path)


def test_what_was_sent_and_not_acknowledged_may_be_applied_or_not(tmp_path: Path) -> None:
    def send_more(story: Story) -> None:
        story.clients["c0"].append(["sent", 6.0, OPS + 1])

    def send_more_and_apply_it(story: Story) -> None:
        send_more(story)
        story.tally("c0", range(1, OPS + 2), range(10, OPS + 1, 10))
        story.effects.append(["paid", 6.0, "effect/last", "c0", OPS + 1])

    (tmp_path / "not").mkdir()
    (tmp_path / "yes").mkdir()
    assert found(send_more, tmp_path / "not") == set()
    assert found(send_more_and_apply_it, tmp_path / "yes") == set()


# What clients receive


def skip_an_event(story: Story) -> None:
    del story.clients["c1"][story.got("c1", 9)]


def miss_the_last_event(story: Story) -> None:
    del story.clients["c1"][story.got("c1", len(story.events))]


def receive_an_event_twice(story: Story) -> None:
    place = story.got("c1", 9)
    story.clients["c1"].insert(place, story.clients["c1"][place])


def swap_two_events(story: Story) -> None:
    lines, first, second = story.clients["c1"], story.got("c1", 9), story.got("c1", 10)
    lines[first], lines[second] = lines[second], lines[first]


def receive_another_last_event(story: Story) -> None:
    line = story.clients["c1"][story.got("c1", len(story.events))]
    line[3:] = ["op", "c0", 99, line[6], 12345]


def receive_what_the_store_does_not_have(story: Story) -> None:
    n, chain = len(story.events) + 1, story.events[-1][-1]
    place = story.got("c1", n - 1) + 1
    story.clients["c1"].insert(place, ["got", 4.0, n, "left", "c0", 0, 5, linked(chain, n, "left", "c0", 0, 5)])


def draw_another_number(story: Story) -> None:
    n, kind, who, seq, dice, _ = story.events[-1]
    chain = linked(story.events[-2][-1], n, kind, who, seq, dice + 1)
    for client in story.clients:
        story.clients[client][story.got(client, n)][2:] = [n, kind, who, seq, dice + 1, chain]
    story.final[0][-1] = chain


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (skip_an_event, "lost"),
        (miss_the_last_event, "lost"),
        (receive_an_event_twice, "duplicated"),
        (swap_two_events, "reordered"),
        (receive_another_last_event, "forked"),
        (receive_what_the_store_does_not_have, "forked"),
        (draw_another_number, "forked"),
    ],
)
def test_a_stream_that_is_not_whole_or_tells_another_story_is_found(spoil: Spoil, kind: str, tmp_path: Path) -> None:
    assert kind in found(spoil, tmp_path)


def test_a_room_with_more_players_than_seats_is_found(tmp_path: Path) -> None:
    def take_a_seat_away(story: Story) -> None:
        story.final[1] = ["seats", ROOM, 1]

    assert found(take_a_seat_away, tmp_path) == {"overfull"}


@pytest.mark.parametrize(("other", "kinds"), [("den", set()), ("lair", {"twins"})])
def test_two_rooms_with_one_unique_name_are_found(other: str, kinds: set[str], tmp_path: Path) -> None:
    def create(story: Story) -> None:
        story.clients["c0"] += [["stage", 6.0, "stage 1", "", "name_taken"], ["stage", 6.0, "stage 1", "den", ""]]
        story.clients["c1"] += [["stage", 6.0, "stage 1", other, ""]]

    assert found(create, tmp_path) == kinds


def test_who_left_a_room_in_which_nobody_else_was_has_no_seat_any_more(tmp_path: Path) -> None:
    def be_there_one_after_the_other(story: Story) -> None:
        first, second = (linked(n, n) for n in (1, 2))
        story.clients["c1"] += [
            ["joined", 6.0, "lair"],
            ["got", 6.0, 1, "joined", "", 0, 5, first],
            ["left", 6.0, "lair"],
        ]
        story.clients["c1"] += [["joined", 7.0, "lair"], ["got", 7.0, 3, "joined", "", 0, 5, second]]
        story.final += [["room", "lair", 1, 3, "", "", 1, 3, second], ["seats", "lair", 1]]

    assert "overfull" not in found(be_there_one_after_the_other, tmp_path)


@pytest.mark.parametrize(("outcome", "is_seated"), [("resynced", True), ("reset", True), ("resynced", False)])
def test_only_a_player_without_a_seat_may_be_told_anything_but_resumed(
    outcome: str, is_seated: bool, tmp_path: Path
) -> None:
    def tell(story: Story) -> None:
        story.clients["c0"].append(["outcome", 6.0, outcome, 0, "expired", is_seated])

    assert found(tell, tmp_path) == ({"outcome"} if is_seated else set())


# Timers and effects


def ring_once_less(story: Story) -> None:
    story.tally("c1", range(1, OPS + 1), range(10, OPS, 10))


def ring_once_more(story: Story) -> None:
    story.tally("c1", range(1, OPS + 1), range(10, OPS + 11, 10))


def ring_for_another(story: Story) -> None:
    story.tally("c1", range(1, OPS + 1), range(5, OPS + 1, 10))


def never_pay(story: Story) -> None:
    story.effects.pop()


def pay_under_another_key(story: Story) -> None:
    story.effects.append([*story.effects[0][:2], "effect/other", *story.effects[0][3:]])


def pay_two_under_one_key(story: Story) -> None:
    story.effects[1][2] = story.effects[0][2]


def pay_what_is_not_due(story: Story) -> None:
    story.effects.append(["paid", 1.0, "effect/other", "c0", 8])


def leave_an_effect(story: Story) -> None:
    story.final.append(["rest", "effect/other"])


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (ring_once_less, "lost"),
        (ring_once_more, "duplicated"),
        (ring_for_another, "lost"),
        (never_pay, "lost"),
        (pay_under_another_key, "duplicated"),
        (pay_two_under_one_key, "forked"),
        (pay_what_is_not_due, "duplicated"),
        (leave_an_effect, "stuck"),
    ],
)
def test_timers_and_effects_that_do_not_come_exactly_once_are_found(spoil: Spoil, kind: str, tmp_path: Path) -> None:
    assert kind in found(spoil, tmp_path)


def test_an_effect_may_be_carried_out_again_under_its_key(tmp_path: Path) -> None:
    assert found(lambda story: story.effects.append(story.effects[0]), tmp_path) == set()


# The trail


def break_a_link(story: Story) -> None:
    story.audits[0][2][5] = "0" * 16


def break_the_link_to_the_end(story: Story) -> None:
    story.final[0][3:6] = [11, "0" * 16, "1" * 16]


def write_after_the_takeover(story: Story) -> None:
    # The zombie's record takes the place of one that the new owner has written.
    story.audits[0].append(["record", 3.0, ROOM, 1, 6, "5".zfill(16), "f" * 16, "node1"])


def write_at_the_end_of_an_earlier_epoch(story: Story) -> None:
    story.audits[0].append(["record", 3.0, ROOM, 1, 11, "a".zfill(16), "b".zfill(16), "node1"])
    story.final[0][2:6] = [1, 11, "a".zfill(16), "b".zfill(16)]


def write_one_epoch_from_two_lives(story: Story) -> None:
    story.audits[2] = [story.audits[1].pop()]


def leave_out_records(story: Story) -> None:
    del story.audits[1][1:3]


def take_the_store_back(story: Story) -> None:
    story.final[0][2:6] = [2, 9, "8".zfill(16), "9".zfill(16)]


@pytest.mark.parametrize(
    "spoil",
    [
        break_a_link,
        break_the_link_to_the_end,
        write_after_the_takeover,
        write_at_the_end_of_an_earlier_epoch,
        write_one_epoch_from_two_lives,
        leave_out_records,
        take_the_store_back,
    ],
)
def test_records_that_are_not_one_chain_with_one_writer_at_a_time_are_found(spoil: Spoil, tmp_path: Path) -> None:
    assert found(spoil, tmp_path) == {"trail"}


def test_the_last_record_of_a_server_that_was_killed_need_not_be_in_its_trail(tmp_path: Path) -> None:
    assert found(lambda story: story.audits[0].pop(), tmp_path) == set()


def test_a_line_in_the_middle_of_which_the_server_was_killed_is_passed_over(tmp_path: Path) -> None:
    folder = Story().write(tmp_path)
    trail = folder / "audit-0.jsonl"
    trail.write_bytes(trail.read_bytes()[:-9])

    assert check(folder).violations == []


# The run


def say_that_it_is_stuck(story: Story) -> None:
    story.storm.append(["fault", 9.0, "nobody comes back"])


def do_not_get_done(story: Story) -> None:
    story.clients["c0"].pop()


def have_no_end(story: Story) -> None:
    story.final.clear()


@pytest.mark.parametrize("spoil", [say_that_it_is_stuck, do_not_get_done, have_no_end])
def test_a_run_that_did_not_come_to_its_end_is_no_proof(spoil: Spoil, tmp_path: Path) -> None:
    assert "stuck" in found(spoil, tmp_path)


@pytest.mark.parametrize("line", ["12:00 ERROR room/x is set aside", "Traceback (most recent call last):"])
def test_an_error_that_the_storm_does_not_explain_is_found(line: str, tmp_path: Path) -> None:
    assert found(lambda story: story.logs.update({1: line}), tmp_path) == {"log"}
